//! The waits of work in the queues of an engine, on a simulated machine: time passes only where a test
//! lets it pass, so each wait is as long as the test says.

use crate::support::{TREE, small};
use crate::task_writes::{batch, ready};
use base::env::sim::{SimClock, SimEnv};
use base::env::{Clock, Env};
use base::histogram::Buckets;
use base::testing::block_on;
use engine::{
    Column, Columns, Durability, Engine, FamilyId, Options, RowEnd, RowSelection, Timestamp, Tree,
    TreeOptions, WriteBatch,
};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Waker};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(2);
const LONG_MICROS: u64 = 2_000_000;
const SAFETY: Duration = Duration::from_secs(60);

fn open(machine: &SimEnv, options: Options) -> (Engine, Tree) {
    let engine = Engine::open_with_env(machine.env(), Path::new("/data"), options).unwrap();
    let tree = engine.tree_or_create(TREE, TreeOptions::default()).unwrap();
    (engine, tree)
}

fn waits(engine: &Engine, queue: &str) -> Buckets {
    let series = format!("queue_wait_seconds{{queue=\"{queue}\"}}");
    engine.metrics().histogram(&series).unwrap().buckets.clone()
}

/// Returns the number of waits since `before`, and their sum in microseconds.
fn since(engine: &Engine, queue: &str, before: &Buckets) -> (u64, u64) {
    let now = waits(engine, queue);
    (now.count() - before.count(), now.sum - before.sum)
}

fn run_jobs(machine: &SimEnv) {
    while machine.tasks.run_ready() {}
}

/// A value that a write gives in keeping. It holds back the thread that commits the write.
struct Block {
    begun: Sender<()>,
    end: Receiver<()>,
}

impl Drop for Block {
    fn drop(&mut self) {
        let _ = self.begun.send(());
        let _ = self.end.recv();
    }
}

#[test]
fn a_commit_waits_for_the_group_before_it() {
    let machine = SimEnv::new(1);
    let (engine, tree) = open(&machine, Options { durability: Durability::Sync, ..small() });
    let before = waits(&engine, "commits");
    let (begun, is_begun) = channel();
    let (go_on, end) = channel::<()>();
    let mut task = Context::from_waker(Waker::noop());
    let mut first = pin!(tree.write_in_task(ready(1, 10), |_| (), Block { begun, end }));
    assert!(first.as_mut().poll(&mut task).is_pending());
    is_begun.recv().unwrap();
    assert_eq!(since(&engine, "commits", &before), (1, 0), "its thread was free");
    let mut second = pin!(tree.write_in_task(ready(2, 10), |_| (), ()));
    assert!(second.as_mut().poll(&mut task).is_pending());
    assert_eq!(since(&engine, "commits", &before).0, 1, "it waits");
    machine.clock.advance(LONG);
    drop(go_on);
    block_on(second).unwrap();
    block_on(first).unwrap();
    assert_eq!(since(&engine, "commits", &before), (2, LONG_MICROS));
}

#[test]
fn a_commit_that_goes_straight_through_counts_as_no_wait() {
    let machine = SimEnv::new(2);
    let (engine, tree) = open(&machine, Options { durability: Durability::None, ..small() });
    // It begins the segment of the log, which a task does not.
    tree.write(&batch(0, 10)).unwrap();
    let before = waits(&engine, "commits");
    block_on(tree.write_in_task(ready(1, 10), |_| (), ())).unwrap();
    tree.write(&batch(2, 10)).unwrap();
    assert_eq!(since(&engine, "commits", &before), (2, 0));
}

thread_local! {
    /// The act of the calling thread when it is next told the time by [`Watched`].
    static ACT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A clock by which a thread shows how far it is.
struct Watched(Arc<SimClock>);

impl Clock for Watched {
    fn now_micros(&self) -> i64 {
        self.0.now_micros()
    }

    fn monotonic(&self) -> Duration {
        let time = self.0.monotonic();
        if let Some(act) = ACT.take() {
            act();
        }
        time
    }
}

/// Lets the calling thread do `act` when it is next told the time.
fn when_told_the_time(act: impl FnOnce() + 'static) {
    ACT.set(Some(Box::new(act)));
}

#[test]
fn a_commit_waits_for_the_log_that_a_sync_holds() {
    let machine = SimEnv::new(5);
    let clock = Arc::new(Watched(Arc::clone(&machine.clock)));
    let env = Env { clock, ..machine.env() };
    let engine = Engine::open_with_env(env, Path::new("/data"), small()).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let before = waits(&engine, "commits");
    let ((held, is_held), (queued, is_queued)) = (channel(), channel());
    let (go_on, end) = channel::<()>();
    let (engine, tree) = (&engine, &tree);
    std::thread::scope(|threads| {
        threads.spawn(move || {
            // A sync looks at the clock when it has the log.
            when_told_the_time(move || {
                held.send(()).unwrap();
                let _ = end.recv();
            });
            engine.sync().unwrap();
        });
        is_held.recv_timeout(SAFETY).unwrap();
        threads.spawn(move || {
            // No other write commits, so that it looks at the clock only because the log is held.
            when_told_the_time(move || queued.send(()).unwrap());
            tree.write(&batch(1, 10)).unwrap();
        });
        is_queued.recv_timeout(SAFETY).unwrap();
        machine.clock.advance(LONG);
        drop(go_on);
    });
    assert_eq!(since(engine, "commits", &before), (1, LONG_MICROS));
}

#[test]
fn background_jobs_wait_for_a_thread() {
    let machine = SimEnv::new(3);
    let (engine, tree) = open(&machine, small());
    run_jobs(&machine);
    let before = waits(&engine, "flushes");
    // Together more than a memtable takes.
    for row in 1..3 {
        tree.write(&batch(row, 40 << 10)).unwrap();
    }
    assert_eq!(since(&engine, "flushes", &before), (0, 0), "it is queued");
    machine.clock.advance(LONG);
    run_jobs(&machine);
    assert_eq!(since(&engine, "flushes", &before), (1, LONG_MICROS));
    let before = waits(&engine, "compactions");
    // A second run, with which a compaction is due.
    tree.write(&batch(3, 10)).unwrap();
    tree.flush().unwrap();
    assert_eq!(since(&engine, "compactions", &before), (0, 0), "it is queued");
    machine.clock.advance(LONG);
    run_jobs(&machine);
    let now = waits(&engine, "compactions");
    assert_eq!(now.above(1_000_000) - before.above(1_000_000), 1, "{now:?}");
}

#[test]
fn reads_that_hold_no_thread_wait_for_one_that_reads_the_disk() {
    let machine = SimEnv::new(4);
    let options = || Options { direct_reads: false, ..small() };
    let (engine, tree) = open(&machine, options());
    let mut batch = WriteBatch::new();
    batch.put(b"row", Column::of(FamilyId(1), b"q"), Timestamp(1), b"value");
    tree.write(&batch).unwrap();
    tree.flush().unwrap();
    drop((engine, tree));
    // Nothing is in the cache of the engine that is opened again.
    let (engine, tree) = open(&machine, options());
    let columns = Columns::All;
    let selection = RowSelection::of(&columns);
    let mut reads = tree.row_reads(None);
    let mut read = || {
        let next = std::iter::empty();
        block_on(reads.read(b"row", next, &selection, |_| ControlFlow::Continue(()))).unwrap()
    };
    let before = waits(&engine, "disk_reads");
    assert_eq!(read(), RowEnd::Lent(1));
    let (count, micros) = since(&engine, "disk_reads", &before);
    let blocks = engine.metrics().get("point_disk_reads_total").unwrap();
    assert!(count > 0 && count <= blocks, "{count} waits, {blocks} blocks");
    assert_eq!(micros, 0, "no time has passed");
    assert_eq!(read(), RowEnd::Lent(1));
    assert_eq!(since(&engine, "disk_reads", &before).0, count, "the blocks are in the cache");
}
