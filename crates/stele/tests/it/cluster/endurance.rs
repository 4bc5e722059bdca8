//! Long trials of three servers, which are short in a usual run: the directory is away, and nodes are killed again
//! and again, while clients write and read at all nodes.

use super::etcd::Etcd;
use super::load::Load;
use super::{SOON, create_table, found, start};
use crate::server::Server;
use base::env::Rng;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Seconds for which the directory is away in a usual run: longer than a sign of life in it lasts.
const STOPPED_SECONDS: u64 = 15;
/// Kills in a usual run.
const KILL_CYCLES: u64 = 3;
/// Kills after which everything that is known is compared on all nodes.
const CHECK_EVERY: u64 = 25;

/// Three servers with a load of writers.
struct Trial {
    servers: Vec<Server>,
    runtime: Runtime,
    load: Arc<Load>,
    writers: Vec<JoinHandle<()>>,
    /// Elections that each server won until the last look at failures.
    elections: Vec<u64>,
    /// Leaders had changed at that look: a request of before may still have had no answer.
    had_new_leaders: bool,
}

impl Trial {
    fn start(dir: &Path, directory: &str) -> Self {
        found(directory);
        let servers: Vec<_> = (1..=3).map(|node| start(dir, directory, node)).collect();
        let runtime = Runtime::new().unwrap();
        runtime.block_on(create_table(servers[0].bigtable()));
        let load = Arc::new(Load::new(servers.iter().map(Server::bigtable).collect()));
        let writers = Load::start(&load, &runtime);
        load.wait_for_more_at_each("at the start");
        Self { servers, runtime, load, writers, elections: Vec::new(), had_new_leaders: false }
    }

    /// Ends the load, and compares what each node reads with what was acknowledged.
    fn check(&mut self) {
        self.runtime.block_on(self.load.stop(std::mem::take(&mut self.writers)));
        for server in &self.servers {
            self.runtime.block_on(self.load.check(server.bigtable()));
        }
    }

    /// Forgets all failures so far.
    fn begin(&mut self) {
        self.elections = self.elections();
        drop(self.load.take_failures());
    }

    /// Fails if a request failed at a node that did not restart. After a change of leaders the outcome of a write
    /// may be unknown, whatever the directory does.
    fn expect_unnoticed(&mut self, restarted: Option<usize>, when: &str) {
        let failures = self.load.take_failures();
        let before = std::mem::take(&mut self.elections);
        self.elections = self.elections();
        let has_new_leaders = self.elections != before;
        let may_be_unknown =
            std::mem::replace(&mut self.had_new_leaders, has_new_leaders) || has_new_leaders;
        let restarted = restarted.map(|node| self.servers[node].bigtable());
        let noticed = failures.iter().filter(|failure| {
            let is_excused = may_be_unknown && failure.refused.is_unknown;
            Some(failure.address) != restarted && !is_excused
        });
        let told = noticed.map(|of| format!("{} at {}", of.refused.what, of.address));
        let told: Vec<_> = told.collect();
        assert!(told.is_empty(), "clients noticed {when}: {told:?}");
    }

    /// Returns the elections that each server won since its start.
    fn elections(&self) -> Vec<u64> {
        let won = |server: &Server| {
            let (_, metrics) = server.get("/metrics");
            let of = |line: &str| {
                line.strip_prefix("stele_cluster_elections_won_total ")?.parse::<u64>().ok()
            };
            metrics.lines().find_map(of).expect("a node tells its elections")
        };
        self.servers.iter().map(won).collect()
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_client_notices_that_the_directory_is_away() {
    let Some(mut etcd) = Etcd::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut trial = Trial::start(dir.path(), &etcd.address);
    // Until all tablets have leaders, a request may fail.
    trial.begin();
    etcd.stop();
    let away = Duration::from_secs(number("STELE_ETCD_STOPPED_SECONDS").unwrap_or(STOPPED_SECONDS));
    let begun = Instant::now();
    while begun.elapsed() < away / 2 {
        trial.load.wait_for_more_at_each("while etcd is away");
    }
    trial.expect_unnoticed(None, "that etcd is away");
    let node = 1;
    assert!(trial.servers[node].terminate().success());
    trial.servers[node].restart();
    while begun.elapsed() < away {
        trial.load.wait_for_more_at_each("after a node restarted without etcd");
    }
    trial.expect_unnoticed(Some(node), "a restart without etcd");
    etcd.run();
    let begun = Instant::now();
    let is_up =
        |server: &Server| server.get("/metrics").1.contains("\nstele_cluster_directory_up 1");
    while !trial.servers.iter().all(is_up) {
        assert!(begun.elapsed() < SOON, "the nodes do not find etcd again");
        std::thread::sleep(Duration::from_millis(100));
    }
    trial.load.wait_for_more_at_each("after etcd came back");
    trial.expect_unnoticed(None, "that etcd is back");
    trial.check();
}

#[test]
fn nothing_acknowledged_is_lost_in_many_kills_under_load() {
    let cycles = number("STELE_KILL_CYCLES").unwrap_or(KILL_CYCLES);
    let mut rng = Rng::new(number("STELE_KILL_SEED").unwrap_or(1));
    let dir = tempfile::tempdir().unwrap();
    let directory = format!("file:{}", dir.path().join("directory").display());
    let mut trial = Trial::start(dir.path(), &directory);
    let mut pause = |most: u64| {
        std::thread::sleep(Duration::from_millis(rng.below(most)));
        rng.below(3) as usize
    };
    for cycle in 1..=cycles {
        let victim = pause(800);
        trial.servers[victim].kill_9();
        trial.load.wait_for_more("while a node is down");
        // It may die again while it starts.
        if pause(300) == 0 {
            trial.servers[victim].start_and_kill_9(Duration::from_millis(300));
        }
        trial.servers[victim].restart();
        trial.load.wait_for_more_at_each("after a node came back");
        if cycle % CHECK_EVERY == 0 {
            trial.check();
            eprintln!("{cycle} kills, {} acknowledged writes are there", trial.load.known());
            trial.writers = Load::start(&trial.load, &trial.runtime);
        }
    }
    trial.check();
    for server in &mut trial.servers {
        assert!(server.terminate().success());
    }
}
