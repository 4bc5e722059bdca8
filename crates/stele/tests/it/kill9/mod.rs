//! The real server under load, killed at random moments, restarted, and held to every write that
//! it acknowledged.
//!
//! Each cycle runs all writers against a fresh connection, kills the server with SIGKILL in the
//! midst of it, sometimes once more while it recovers, and reads everything back. What was
//! acknowledged must be there; what was in flight may be there, whole or not at all. A failure
//! names seed and cycle and keeps the data directory. `STELE_KILL_CYCLES` sets the number of
//! cycles (default 50), `STELE_KILL_SEED` the seed (default: from the clock).
//!
//! A killed process leaves the page cache behind, so this proves crash safety of the process;
//! loss of power is simulated elsewhere.

mod counters;
pub(crate) mod wire;
mod writer;

use crate::server::{Server, run, stderr};
use base::env::{Clock, Rng, SystemClock};
use counters::Counters;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use wire::Client;
use writer::Writer;

const WRITERS: u64 = 8;
/// Everything is looked at in every so many cycles, and in the last one; else what changed.
const FULL_CHECK_CYCLES: u64 = 20;
/// So small that flushes, compactions and log rotation all happen within a few cycles.
const FLAGS: &[&str] = &[
    "--memtable-bytes-max=128KiB",
    "--log-segment-bytes=256KiB",
    "--sst-bytes-max=128KiB",
    "--l1-bytes-max=512KiB",
    "--l0-runs-compact=2",
    "--durability=sync",
    "--log-level=warn",
];

#[test]
fn no_acknowledged_write_is_lost_by_kill_9() {
    let cycles = number("STELE_KILL_CYCLES").unwrap_or(50);
    let seed = number("STELE_KILL_SEED")
        .unwrap_or_else(|| SystemClock.now_micros() as u64 % 1_000_000_000);
    let begun = Instant::now();
    let mut drill = Drill::new(seed);
    for cycle in 1..=cycles {
        drill.cycle = cycle;
        drill.load_and_kill();
        let all = cycle % FULL_CHECK_CYCLES == 0 || cycle == cycles;
        drill.check(all);
    }
    assert!(drill.server.terminate().success());
    let checked = run(&["check", drill.dir.path().to_str().unwrap()]);
    assert!(checked.status.success(), "check: {}", stderr(&checked));
    let (flushes, compactions) = (drill.flushes, drill.compactions);
    assert!(cycles < 20 || (flushes > 0 && compactions > 0), "{flushes}, {compactions}");
    let seconds = begun.elapsed().as_secs_f64();
    let writes = drill.writers.iter().map(|writer| writer.acknowledged).sum::<u64>();
    let in_doubt = drill.writers.iter().map(|writer| writer.doubts).sum::<u64>();
    let applied = drill.writers.iter().map(|writer| writer.doubts_applied).sum::<u64>();
    let summary = format!(
        "kill -9: seed {seed}, {cycles} cycles ({} killed again while recovering) in {seconds:.1} \
         s, {:.2} cycles/s; {writes} writes acknowledged, 0 lost; {in_doubt} requests in \
         flight at a kill, which changed {applied} rows; {flushes} flushes and {compactions} \
         compactions\n",
        drill.kills_in_recovery,
        cycles as f64 / seconds,
    );
    drop(drill);
    // The test harness hides what a passing test prints by macro.
    std::io::stderr().write_all(summary.as_bytes()).unwrap();
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect(variable))
}

/// The server, the writers and what they know.
struct Drill {
    seed: u64,
    cycle: u64,
    rng: Rng,
    runtime: Runtime,
    server: Server,
    writers: Vec<Writer>,
    counters: Arc<Counters>,
    kills_in_recovery: u64,
    flushes: u64,
    compactions: u64,
    dir: tempfile::TempDir,
}

impl Drill {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), FLAGS);
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let mut client = Client::connect(server.bigtable()).await;
            client.create_table().await;
        });
        let mut rng = Rng::new(seed);
        let writers = (0..WRITERS).map(|id| Writer::new(id, rng.next_u64())).collect();
        Self {
            seed,
            cycle: 0,
            rng,
            runtime,
            server,
            writers,
            counters: Arc::default(),
            kills_in_recovery: 0,
            flushes: 0,
            compactions: 0,
            dir,
        }
    }

    /// Lets all writers write, kills the server in the midst of it, and restarts it.
    fn load_and_kill(&mut self) {
        let killed = Arc::new(AtomicBool::new(false));
        let address = self.server.bigtable();
        let tasks: Vec<_> = std::mem::take(&mut self.writers)
            .into_iter()
            .map(|mut writer| {
                let (killed, counters) = (Arc::clone(&killed), Arc::clone(&self.counters));
                self.runtime.spawn(async move {
                    let error = match Client::try_connect(address).await {
                        Ok(mut client) => {
                            writer.write_until_error(&mut client, &counters).await.to_string()
                        }
                        Err(error) => error.to_string(),
                    };
                    // The flag goes up before the signal does.
                    assert!(killed.load(Ordering::SeqCst), "before the kill: {error}");
                    writer
                })
            })
            .collect();
        std::thread::sleep(Duration::from_micros(5_000 + self.rng.below(395_000)));
        self.count_background_work();
        killed.store(true, Ordering::SeqCst);
        self.server.kill_9();
        let tasks = self.runtime.block_on(futures::future::join_all(tasks));
        self.writers = tasks.into_iter().map(|task| task.expect("a writer failed")).collect();
        if self.rng.chance(20) {
            let after = Duration::from_micros(self.rng.below(60_000));
            self.server.start_and_kill_9(after);
            self.kills_in_recovery += 1;
        }
        self.server.restart();
    }

    /// Adds what this life of the server has flushed and compacted.
    fn count_background_work(&mut self) {
        let (_, metrics) = self.server.get("/metrics");
        let value = |name: &str| -> u64 {
            let of_name = metrics.lines().filter(|line| line.starts_with(name));
            let values = of_name.map(|line| line.rsplit(' ').next().expect(name));
            let values: Vec<u64> = values.map(|value| value.parse().expect(name)).collect();
            assert!(!values.is_empty(), "no {name}");
            values.iter().sum()
        };
        self.flushes += value("stele_flushes_total ");
        self.compactions += value("stele_compactions_total{");
    }

    /// Reads back what the writers know of; `all` of it, or what changed since the last check.
    fn check(&mut self, all: bool) {
        let address = self.server.bigtable();
        self.runtime.block_on(async {
            let mut client = Client::connect(address).await;
            for writer in &mut self.writers {
                writer.check(&mut client, all).await;
            }
            self.counters.check(&mut client).await;
        });
    }
}

impl Drop for Drill {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            let (seed, cycle, dir) = (self.seed, self.cycle, self.dir.path().display());
            eprintln!("seed {seed}, cycle {cycle}; the data directory is kept: {dir}");
        }
    }
}
