//! Runs of workers against a table in memory, on a paused clock.

use super::Control;
use super::worker::{Shared, Streak, work};
use crate::client::testing::Fake;
use crate::measure::{Operation, Recorder, Watch};
use crate::pace::Backlog;
use crate::workload::{Findings, Workload, plan};
use bench_core::SplitMix64;
use clap::Parser;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: crate::Command,
}

/// Returns a workload that only updates, with these flags besides.
fn updates(flags: &str) -> Workload {
    let findings = Arc::new(Findings::new(Arc::new(Mutex::new(std::io::sink()))));
    let line = "load hot-keys --seed 1 --rows 10 --read-proportion 0";
    let words = line.split(' ').chain(flags.split_whitespace());
    let line = Line::try_parse_from(words).unwrap();
    plan(&line.command, 0, 1, findings).unwrap().workload
}

fn shared(backlog: Option<Arc<Backlog>>, limit: Option<i64>) -> Arc<Shared> {
    Arc::new(Shared {
        workload: Arc::new(updates("--skip-fill")),
        recorder: Arc::new(Recorder::new()),
        control: Arc::new(Control::default()),
        watch: Watch::start(),
        warm_up: Duration::from_secs(1),
        lane: 0,
        left: limit.map(AtomicI64::new),
        backlog,
        streak: Arc::new(Streak::default()),
        findings: Arc::new(Findings::new(Arc::new(Mutex::new(std::io::sink())))),
    })
}

#[tokio::test(start_paused = true)]
async fn latency_counts_from_the_time_that_an_operation_was_due() {
    let backlog = Arc::new(Backlog::new(100, None, Duration::from_secs(1)));
    let shared = shared(Some(Arc::clone(&backlog)), None);
    let api = Fake { delay: Duration::from_millis(100), ..Fake::default() };
    let worker = tokio::spawn(work(Arc::clone(&shared), 0, api, SplitMix64(1)));
    // Ten operations are due each 10 ms from second 2 on; one worker does one in 100 ms.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for at in 0..10 {
        backlog.push(Duration::from_millis(2000 + at * 10));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    shared.control.stop();
    backlog.close(shared.watch.elapsed());
    worker.await.unwrap();
    let drained = shared.recorder.drain();
    let tally = &drained.measured[&Operation::Update];
    // The last one was due at 90 ms, began at 900 ms and ended at 1000 ms.
    let near = |micros: u64, ms: u64| micros.abs_diff(ms * 1000) <= ms * 2 + 2000;
    assert_eq!(tally.latency.count(), 10);
    assert!(near(tally.latency.max(), 910), "{}", tally.latency.max());
    assert!(near(tally.delay.max(), 810), "{}", tally.delay.max());
    assert!(near(tally.latency.quantile(0.5), 460), "{}", tally.latency.quantile(0.5));
}

#[tokio::test(start_paused = true)]
async fn a_count_ends_the_workers_and_warm_up_is_not_measured() {
    let shared = shared(None, Some(30));
    let api = Fake { delay: Duration::from_millis(100), ..Fake::default() };
    let workers: Vec<_> = (0..2)
        .map(|number| tokio::spawn(work(Arc::clone(&shared), number, api.clone(), SplitMix64(1))))
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let drained = shared.recorder.drain();
    let count = |tallies: &std::collections::BTreeMap<Operation, crate::measure::Tally>| {
        tallies.values().map(|tally| tally.latency.count()).sum::<u64>()
    };
    assert_eq!(count(&drained.all), 30);
    // Two workers do ten operations each in the first second.
    assert!((8..=12).contains(&count(&drained.measured)), "{}", count(&drained.measured));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_vanishes_is_counted_and_not_hammered() {
    let shared = shared(None, None);
    let left = Some(Arc::new(AtomicU64::new(5)));
    let delay = Duration::from_millis(1);
    let api = Fake { delay, calls_left: left, ..Fake::default() };
    let calls = Arc::clone(&api.calls);
    let worker = tokio::spawn(work(Arc::clone(&shared), 0, api, SplitMix64(1)));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let calls = calls.load(Ordering::Relaxed);
    // After 5 good calls, pauses grow to between half a second and a second.
    assert!((60..=150).contains(&calls), "{calls} calls in a minute");
    shared.control.stop();
    // A stop ends the pause.
    let ended = tokio::time::timeout(Duration::from_millis(10), worker).await;
    ended.unwrap().unwrap();
    let drained = shared.recorder.drain();
    let tally = &drained.all[&Operation::Update];
    assert_eq!((tally.latency.count(), tally.errors["UNAVAILABLE"]), (5, calls - 5));
}

/// Runs one worker of an open loop, in which operations are due at these milliseconds, for so long.
async fn open_loop(api: Fake, due_ms: &[u64], seconds: u64) -> (Arc<Shared>, Arc<Backlog>) {
    let backlog = Arc::new(Backlog::new(100, None, Duration::from_secs(1)));
    let shared = shared(Some(Arc::clone(&backlog)), None);
    due_ms.iter().for_each(|ms| assert!(backlog.push(Duration::from_millis(*ms))));
    let mut workers = JoinSet::new();
    workers.spawn(work(Arc::clone(&shared), 0, api, SplitMix64(1)));
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    shared.control.stop();
    backlog.close(shared.watch.elapsed());
    workers.shutdown().await;
    (shared, backlog)
}

#[tokio::test(start_paused = true)]
async fn an_operation_without_an_answer_counts_with_the_time_since_it_was_due() {
    let (delay, timeout) = (Duration::from_secs(100), Some(Duration::from_secs(5)));
    let api = Fake { delay, timeout, ..Fake::default() };
    // The first ends at second 5, the second at 10; the third is in flight at second 12.
    let (shared, backlog) = open_loop(api, &[1000, 2000, 3000, 4000], 12).await;
    let drained = shared.recorder.drain();
    let tally = &drained.measured[&Operation::Update];
    assert_eq!((tally.latency.count(), tally.errors["TIMEOUT"]), (0, 3));
    let waited: Vec<u64> = tally.unanswered.entries().map(|(us, _)| us / 100_000).collect();
    assert_eq!(waited, [40, 80, 90]);
    // The fourth was never begun.
    let rest = backlog.unanswered(Duration::from_secs(12));
    assert_eq!((rest.count(), rest.max() / 100_000), (1, 80));
}

#[tokio::test(start_paused = true)]
async fn failures_delay_no_operation_of_an_open_loop() {
    let api = Fake { calls_left: Some(Arc::default()), ..Fake::default() };
    let (shared, backlog) = open_loop(api, &[1000; 50], 1).await;
    let drained = shared.recorder.drain();
    assert_eq!(drained.all[&Operation::Update].errors["UNAVAILABLE"], 50);
    assert_eq!(backlog.state().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_cannot_begin_stays_in_the_account() {
    let backlog = Arc::new(Backlog::new(100, None, Duration::ZERO));
    let mut shared = shared(Some(Arc::clone(&backlog)), None);
    // No row is written yet, so that no worker can begin an update.
    Arc::get_mut(&mut shared).unwrap().workload = Arc::new(updates(""));
    backlog.push(Duration::ZERO);
    let worker = tokio::spawn(work(Arc::clone(&shared), 0, Fake::default(), SplitMix64(1)));
    tokio::time::sleep(Duration::from_secs(3)).await;
    shared.control.stop();
    backlog.close(shared.watch.elapsed());
    worker.await.unwrap();
    assert_eq!((backlog.state().arrived, backlog.state().waiting), (1, 1));
    assert!(shared.recorder.drain().all.is_empty());
}
