//! Point reads of a server at a steady pace, whose latency shows what other work does to them.

use super::{Bench, FrontArgs, Work, create_table, histogram};
use crate::AnyError;
use crate::server::Server;
use bench_core::{SplitMix64, print};
use clap::Args;
use hdrhistogram::Histogram;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Length of each row key in bytes.
pub(super) const KEY_BYTES: usize = 50;

/// Clients that read rows, and phases in which they do.
#[derive(Debug, Clone, Args)]
pub(super) struct Readers {
    /// Clients that read rows, one connection each.
    #[arg(long, default_value_t = 4)]
    readers: usize,
    /// Microseconds that a reader waits between two reads.
    #[arg(long, default_value_t = 1_000)]
    pause_us: u64,
    /// The length of each phase in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

impl Readers {
    /// Returns latencies of point reads, with a pause before each.
    pub(super) async fn read(&self, bench: &Arc<Bench>) -> Result<Histogram<u64>, AnyError> {
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let pause = Duration::from_micros(self.pause_us);
        let mut readers = JoinSet::new();
        for index in 0..self.readers {
            let (bench, mut client) = (Arc::clone(bench), bench.client().await?);
            readers.spawn(async move {
                let mut draw = SplitMix64(index as u64 + 1);
                let mut micros = histogram()?;
                while Instant::now() < end {
                    tokio::time::sleep(pause).await;
                    let begin = Instant::now();
                    bench.once(&mut client, Work::ReadPresent, &mut draw).await?;
                    micros.saturating_record(begin.elapsed().as_micros() as u64);
                }
                Ok::<_, AnyError>(micros)
            });
        }
        let mut all = histogram()?;
        while let Some(done) = readers.join_next().await {
            all.add(done??)?;
        }
        Ok(all)
    }
}

/// Creates a table and loads its rows.
pub(super) async fn load(
    server: &Server,
    rows: u64,
    value_bytes: usize,
) -> Result<Arc<Bench>, AnyError> {
    let front = FrontArgs {
        endpoint: format!("http://{}", server.address()),
        server: Vec::new(),
        server_flag: Vec::new(),
        pairs: 1,
        rows,
        key_bytes: KEY_BYTES,
        value_bytes,
        clients: vec![4],
        work: Vec::new(),
        seconds: 0,
        batch: 100,
        server_pid: Some(server.pid()),
        json: false,
    };
    let table = create_table(&front).await?;
    let bench = Arc::new(Bench { args: front, table });
    print(&bench.load().await?.line());
    Ok(bench)
}

/// Returns a line about the reads of a phase.
pub(super) fn line(name: &str, micros: &Histogram<u64>) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| micros.value_at_quantile(q));
    format!("{name:<12} {:>8} reads   p50 {p50} us, p99 {p99} us, p99.9 {p999} us", micros.len())
}
