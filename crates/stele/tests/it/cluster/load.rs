//! Writers that go from node to node, know what was acknowledged, and look for it meanwhile.

use super::SOON;
use crate::kill9::wire::{Client, integer, set};
use base::env::Rng;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

const WRITERS: usize = 6;
/// Acknowledged writes that show that the cluster works.
const MORE: u64 = 50;
/// Acknowledged writes that show that a node works.
const MORE_EACH: u64 = 20;
/// Longest wait for an answer, after which a client asks another node.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Name of a request that changes nothing.
const READ: &str = "a read";

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

/// A request that a node did not carry out.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) address: SocketAddr,
    pub(super) refused: Refused,
}

/// The end of a request that was not acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    /// The request and its outcome, for people.
    pub(super) what: String,
    /// It was a write of which the node could not tell whether it happened.
    pub(super) is_unknown: bool,
}

/// A node as the writers know it.
struct Place {
    address: SocketAddr,
    acknowledged: AtomicU64,
}

pub(super) struct Load {
    places: Vec<Place>,
    stop: AtomicBool,
    known: parking_lot::Mutex<Vec<Known>>,
    failures: parking_lot::Mutex<Vec<Failure>>,
}

impl Load {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Self {
        let place = |address| Place { address, acknowledged: AtomicU64::new(0) };
        let (stop, known, failures) = Default::default();
        Self { places: addresses.into_iter().map(place).collect(), stop, known, failures }
    }

    /// Starts the writers, which go on from what they know if they were stopped.
    pub(super) fn start(load: &Arc<Self>, runtime: &Runtime) -> Vec<JoinHandle<()>> {
        load.stop.store(false, Ordering::SeqCst);
        let write = |writer| {
            let load = Arc::clone(load);
            runtime.spawn(async move {
                let known = load.write(writer).await;
                load.known.lock().push(known);
            })
        };
        (0..WRITERS).map(write).collect()
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.places.iter().map(|place| place.acknowledged.load(Ordering::SeqCst)).collect()
    }

    /// Waits until more writes were acknowledged.
    pub(super) fn wait_for_more(&self, when: &str) {
        let wanted = self.acknowledged().iter().sum::<u64>() + MORE;
        self.wait(when, |now| now.iter().sum::<u64>() >= wanted);
    }

    /// Waits until each node has acknowledged more writes.
    pub(super) fn wait_for_more_at_each(&self, when: &str) {
        let before = self.acknowledged();
        let more = |(now, before): (&u64, &u64)| *now >= before + MORE_EACH;
        self.wait(when, |now| now.iter().zip(&before).all(more));
    }

    fn wait(&self, when: &str, met: impl Fn(&[u64]) -> bool) {
        let begun = Instant::now();
        while !met(&self.acknowledged()) {
            assert!(begun.elapsed() < SOON, "writes do not go on {when}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Takes the requests that failed since the last call. Refused connections are not among them.
    pub(super) fn take_failures(&self) -> Vec<Failure> {
        std::mem::take(&mut self.failures.lock())
    }

    /// Returns the number of rows and increments that were acknowledged. Writers that still write are left out.
    pub(super) fn known(&self) -> u64 {
        self.known.lock().iter().map(|known| known.rows + known.added).sum()
    }

    pub(super) async fn stop(&self, writers: Vec<JoinHandle<()>>) {
        self.stop.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.await.unwrap();
        }
    }

    async fn write(&self, writer: usize) -> Known {
        let mut known = self.take_known(writer);
        let mut rng = Rng::new(writer as u64);
        let mut at = writer;
        while !self.stop.load(Ordering::SeqCst) {
            let place = &self.places[at % self.places.len()];
            if let Ok(client) = Client::try_connect(place.address).await
                && let Err(refused) = self.write_to(place, client, &mut known, &mut rng).await
            {
                self.failures.lock().push(Failure { address: place.address, refused });
            }
            at += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        known
    }

    fn take_known(&self, writer: usize) -> Known {
        let mut known = self.known.lock();
        let at = known.iter().position(|known| known.writer == writer);
        at.map_or(Known { writer, ..Known::default() }, |at| known.swap_remove(at))
    }

    /// Writes to one node and reads from it, until it fails, or some writes were made.
    async fn write_to(
        &self,
        place: &Place,
        mut client: Client,
        known: &mut Known,
        rng: &mut Rng,
    ) -> Result<(), Refused> {
        for _ in 0..10 {
            let (writer, next) = (known.writer, known.rows);
            let value = set("a", "q", next.to_string().into());
            // A row that failed is written again: the same value.
            let row = row(writer, next);
            answer("a write", client.mutate_row(&row, vec![value])).await?;
            known.rows += 1;
            place.acknowledged.fetch_add(1, Ordering::SeqCst);
            let added = answer("an increment", client.increment(&counter(writer))).await;
            match &added {
                Ok(_) => known.added += 1,
                Err(_) => known.doubts += 1,
            }
            known.expect_count(added?, place.address);
            let read = rng.below(known.rows);
            let key = self::row(writer, read);
            let found = answer(READ, client.try_read(&key)).await?;
            let cells = found.get(&key);
            let cells = cells.unwrap_or_else(|| panic!("{} lacks row {key}", place.address));
            assert_eq!(cells[&("a".to_owned(), "q".to_owned())][0], read.to_string(), "{key}");
        }
        Ok(())
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
            let cells = found.get(&counter(known.writer));
            let count = cells.map_or(0, |cells| integer(&cells[&("count".into(), "n".into())][0]));
            known.expect_count(count, address);
        }
    }
}

impl Known {
    /// Checks that a counter has what was acknowledged, and no more than was tried.
    fn expect_count(&self, count: u64, address: SocketAddr) {
        let Self { added, doubts, writer, .. } = self;
        assert!(
            (*added..=added + doubts).contains(&count),
            "writer {writer} at {address}: {count} of {added} and {doubts} in doubt"
        );
    }
}

/// Waits for the answer to a request.
async fn answer<T>(
    what: &str,
    request: impl Future<Output = Result<T, Status>>,
) -> Result<T, Refused> {
    match tokio::time::timeout(ANSWER_MAX, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => {
            let is_unknown = what != READ && status.code() == Code::Unavailable;
            Err(Refused { what: format!("{what}: {status}"), is_unknown })
        }
        Err(_) => {
            let what = format!("{what}: no answer in {ANSWER_MAX:?}");
            Err(Refused { what, is_unknown: false })
        }
    }
}

fn row(writer: usize, at: u64) -> String {
    format!("w{writer}/{at:08}")
}

fn counter(writer: usize) -> String {
    format!("w{writer}counter")
}
