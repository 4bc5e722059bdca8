//! A cluster of three real servers whose processes, connections and disks fail, asked through all nodes.
//!
//! 1. A suite in Go records what clients ask and are told, and judges it: each row must be linearizable.
//! 2. On [loopback] it also disturbs the connections between nodes, each of which leads through a proxy.
//! 3. In [namespaces] of the network each node has a machine's network, and a small disk, of its own.
//! 4. A disturbance ends before the next one begins, and all have ended before nodes are asked for all
//!    rows: a majority comes back, always.

mod etcd;
mod loopback;
mod namespaces;

use crate::server::{Server, stderr};
use crate::setup;
use base::env::{Clock, Rng, SystemClock};
use rustix::process::Signal;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const NODES: usize = 3;
/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(120);

/// Something that is done to a cluster and undone after a while.
trait Disturb {
    /// Disturbs the cluster of `servers`, waits for `away`, and ends it. Returns its name.
    fn disturb(&mut self, servers: &mut [Server], rng: &mut Rng, away: Duration) -> &'static str;
}

/// Kills, stops or ends one node, and lets it go on after a while.
fn disturb_a_process(servers: &mut [Server], rng: &mut Rng, away: Duration) -> &'static str {
    let server = &mut servers[rng.below(NODES as u64) as usize];
    match rng.below(4) {
        0 => {
            server.signal(Signal::STOP);
            std::thread::sleep(away);
            server.signal(Signal::CONT);
            "stopped"
        }
        1 => {
            assert!(server.terminate().success(), "{}", server.stderr());
            std::thread::sleep(away);
            server.restart();
            "ended"
        }
        _ => {
            server.kill_9();
            std::thread::sleep(away);
            server.restart();
            "killed"
        }
    }
}

/// Founds a cluster in `directory` by the binary, as soon as the directory answers.
fn found(binary: impl Fn() -> Command, directory: &str) {
    let begun = Instant::now();
    loop {
        let mut init = binary();
        init.args(["cluster", "init", "--etcd", directory, "--replicas", "3"]);
        let founded = init.stdin(Stdio::null()).output().unwrap();
        if founded.status.success() {
            return;
        }
        assert!(begun.elapsed() < SOON, "{}", stderr(&founded));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The program that asks the nodes at `addresses` for the phase `cluster`.
fn suite(mut program: Command, addresses: &[String], seconds: u64, seed: u64) -> Command {
    program.args(["-test.v", "-test.timeout=0", "-test.run", "^TestClusterHistories$"]);
    program.env("CLIENTS_PHASE", "cluster").env("BIGTABLE_EMULATOR_HOST", &addresses[0]);
    program.env("CLIENTS_NODES", addresses.join(","));
    program.env("CLIENTS_SEED", seed.to_string()).env("CLIENTS_SECONDS", seconds.to_string());
    program
}

/// Seconds and seed of the histories.
fn draws() -> (u64, u64) {
    let number = |variable: &str| -> Option<u64> {
        std::env::var(variable).ok().map(|value| value.parse().expect(variable))
    };
    let now = || SystemClock.now_micros() as u64 % 1_000_000_000;
    let seconds = number("STELE_HISTORY_SECONDS").unwrap_or(20);
    (seconds, number("STELE_HISTORY_SEED").unwrap_or_else(now))
}

/// Runs `suite` to its end while the servers that `start` gives are disturbed, and tells how often.
fn histories(
    mut suite: Command,
    seed: u64,
    start: impl FnOnce() -> Vec<Server>,
    disturb: &mut dyn Disturb,
) {
    let mut rng = Rng::new(seed);
    let mut done = Vec::new();
    let mut servers = Vec::new();
    let printed = std::thread::scope(|scope| {
        let suite = scope.spawn(|| setup::run(&mut suite));
        servers = start();
        while !suite.is_finished() {
            std::thread::sleep(Duration::from_millis(200 + rng.below(3_000)));
            let away = Duration::from_millis(rng.below(4_000));
            done.push(disturb.disturb(&mut servers, &mut rng, away));
        }
        suite.join().unwrap()
    });
    let last_words = || servers.iter().map(last_words).collect::<Vec<_>>().join("\n--\n");
    let printed = printed
        .unwrap_or_else(|error| panic!("STELE_HISTORY_SEED={seed}: {error}\n{}", last_words()));
    tell(&printed, &done, seed);
    for server in &mut servers {
        assert!(server.terminate().success(), "{}", server.stderr());
    }
}

fn last_words(server: &Server) -> String {
    let text = server.stderr();
    let lines: Vec<_> = text.lines().rev().take(40).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Prints what was seen and done: the test harness hides what a passing test prints by macro.
fn tell(printed: &str, done: &[&'static str], seed: u64) {
    let said = |line: &&str| line.starts_with("histories: ") || line.starts_with("cluster: ");
    let said: Vec<_> = printed.lines().filter(said).collect();
    let mut kinds = done.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let count = |kind| done.iter().filter(|&&other| other == kind).count();
    let counts: Vec<_> = kinds.iter().map(|kind| format!("{} {kind}", count(*kind))).collect();
    let summary = format!("{}, {}, seed {seed}\n", said.join(", "), counts.join(", "));
    std::io::stderr().write_all(summary.as_bytes()).unwrap();
}
