//! Writers that go from node to node, and know what was acknowledged.

use super::SOON;
use crate::kill9::wire::{Client, integer, set};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const WRITERS: usize = 6;
/// Acknowledged writes that show that the cluster works.
const MORE: u64 = 50;
/// Longest wait for an answer, after which a client asks another node.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// Knowledge of a writer about its rows and its counter.
#[derive(Default)]
pub(super) struct Known {
    writer: usize,
    /// Number of rows that were acknowledged.
    rows: u64,
    /// Increments that were acknowledged, and those whose outcome is not known.
    added: u64,
    doubts: u64,
}

pub(super) struct Load {
    addresses: Vec<SocketAddr>,
    acknowledged: AtomicU64,
    stop: AtomicBool,
    known: parking_lot::Mutex<Vec<Known>>,
}

impl Load {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Self {
        let (acknowledged, stop, known) = Default::default();
        Self { addresses, acknowledged, stop, known }
    }

    pub(super) fn start(load: &Arc<Self>, runtime: &Runtime) -> Vec<JoinHandle<()>> {
        let write = |writer| {
            let load = Arc::clone(load);
            runtime.spawn(async move {
                let known = load.write(writer).await;
                load.known.lock().push(known);
            })
        };
        (0..WRITERS).map(write).collect()
    }

    /// Waits until more writes were acknowledged.
    pub(super) fn wait_for_more(&self, when: &str) {
        let wanted = self.acknowledged.load(Ordering::SeqCst) + MORE;
        let begun = Instant::now();
        while self.acknowledged.load(Ordering::SeqCst) < wanted {
            assert!(begun.elapsed() < SOON, "writes do not go on {when}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) async fn stop(&self, writers: Vec<JoinHandle<()>>) {
        self.stop.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.await.unwrap();
        }
    }

    async fn write(&self, writer: usize) -> Known {
        let mut known = Known { writer, ..Known::default() };
        let mut at = writer;
        while !self.stop.load(Ordering::SeqCst) {
            let address = self.addresses[at % self.addresses.len()];
            if let Ok(client) = Client::try_connect(address).await {
                self.write_to(client, &mut known).await;
            }
            at += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        known
    }

    /// Writes to one node until it fails, or some writes were made.
    async fn write_to(&self, mut client: Client, known: &mut Known) {
        for _ in 0..10 {
            let (writer, next) = (known.writer, known.rows);
            let value = set("a", "q", next.to_string().into());
            // A row that failed is written again: the same value.
            let row = row(writer, next);
            match tokio::time::timeout(ANSWER_MAX, client.mutate_row(&row, vec![value])).await {
                Ok(Ok(())) => known.rows += 1,
                _ => return,
            }
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            let counter = counter(writer);
            match tokio::time::timeout(ANSWER_MAX, client.increment(&counter)).await {
                Ok(Ok(_)) => known.added += 1,
                _ => {
                    known.doubts += 1;
                    return;
                }
            }
        }
    }

    /// Compares what a node reads with what is known.
    pub(super) async fn check(&self, address: SocketAddr) {
        let mut client = Client::connect(address).await;
        let mut found = BTreeMap::new();
        for writer in 0..WRITERS {
            found.extend(client.read(&format!("w{writer}")).await);
        }
        for known in self.known.lock().iter() {
            for at in 0..known.rows {
                let row = row(known.writer, at);
                let cells = found.get(&row).unwrap_or_else(|| panic!("{address} lost row {row}"));
                let value = &cells[&("a".to_owned(), "q".to_owned())];
                assert_eq!(value[0], at.to_string(), "{row} at {address}");
            }
            let Known { added, doubts, writer, .. } = known;
            let cells = found.get(&counter(*writer));
            let count = cells.map_or(0, |cells| integer(&cells[&("count".into(), "n".into())][0]));
            assert!(
                (*added..=added + doubts).contains(&count),
                "writer {writer} at {address}: {count} of {added} and {doubts} in doubt"
            );
        }
    }
}

fn row(writer: usize, at: u64) -> String {
    format!("w{writer}/{at:08}")
}

fn counter(writer: usize) -> String {
    format!("w{writer}counter")
}
