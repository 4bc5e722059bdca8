//! Writes of tasks, which hold no thread: that they and writes of threads are one history; that a
//! future may be dropped at any time; who is woken when the engine stops, closes or loses the tree.

use crate::support::{TREE, eventually, small};
use base::env::sim::{Fault, FaultPoint, SimEnv};
use base::env::task::Job;
use base::env::{Env, Tasks};
use base::testing::block_on;
use engine::{
    Column, ColumnOf, Durability, Engine, Error, FamilyId, Options, ReadyBatch, SequenceNumber,
    Timestamp, Tree, TreeOptions, WriteBatch,
};
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const FAMILY: FamilyId = FamilyId(1);

pub(crate) fn batch(row: u64, len: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(&row.to_be_bytes(), Column::of(FAMILY, b"q"), Timestamp(1), &vec![7; len]);
    batch
}

pub(crate) fn ready(row: u64, len: usize) -> ReadyBatch {
    batch(row, len).ready().unwrap()
}

async fn write(tree: &Tree, row: u64, len: usize) -> engine::Result<SequenceNumber> {
    tree.room_for(len).await?;
    tree.write_in_task(ready(row, len), |_| (), ()).await
}

fn has(tree: &Tree, row: u64) -> bool {
    tree.get(ColumnOf::new(&row.to_be_bytes(), FAMILY, b"q"), None).unwrap().is_some()
}

fn on(machine: &SimEnv, options: Options) -> (Engine, Tree) {
    let engine = Engine::open_with_env(machine.env(), Path::new("/data"), options).unwrap();
    let tree = engine.tree_or_create(TREE, TreeOptions::default()).unwrap();
    (engine, tree)
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Tasks and threads write side by side; every number is given once, and all are there at the end.
#[test]
fn tasks_and_threads_write_one_history_whatever_the_durability() {
    const WRITERS: u64 = 6;
    const WRITES: u64 = 200;
    let interval = Durability::Interval(Duration::from_millis(1));
    for durability in [Durability::Sync, Durability::None, interval] {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(dir.path(), Options { durability, ..small() }).unwrap();
        let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
        let mut numbers: Vec<SequenceNumber> = std::thread::scope(|threads| {
            let writer = |number: u64| {
                let tree = &tree;
                let rows = number * WRITES..(number + 1) * WRITES;
                // Some are too large for a task to commit.
                let len = |row: u64| if row % 50 == 49 { 100 << 10 } else { 100 };
                threads.spawn(move || match number % 3 {
                    0 => rows.map(|row| tree.write(&batch(row, len(row))).unwrap()).collect(),
                    _ => rows.map(|row| block_on(write(tree, row, len(row))).unwrap()).collect(),
                })
            };
            let writers: Vec<_> = (0..WRITERS).map(writer).collect();
            let each = writers.into_iter().map(|writer| writer.join().unwrap());
            each.collect::<Vec<Vec<SequenceNumber>>>().concat()
        });
        numbers.sort_unstable();
        let first = numbers[0].0;
        assert!(
            numbers.iter().zip(first..).all(|(number, want)| number.0 == want),
            "{durability:?}"
        );
        assert!((0..WRITERS * WRITES).all(|row| has(&tree, row)));
        drop((tree, engine));
        let engine = Engine::open(dir.path(), small()).unwrap();
        let tree = engine.tree(TREE).unwrap();
        assert!((0..WRITERS * WRITES).all(|row| has(&tree, row)), "after it was opened again");
    }
}

/// Without a sync a task has its commit when it is polled first: no thread is woken.
#[test]
fn without_a_sync_a_task_commits_itself() {
    let machine = SimEnv::new(1);
    let options = Options { durability: Durability::None, log_segment_bytes: 1 << 20, ..small() };
    let (engine, tree) = on(&machine, options);
    // It begins the segment, and leads without the threads that lead for tasks.
    tree.write(&batch(0, 10)).unwrap();
    let groups = || engine.metrics().get("commit_groups_total").unwrap();
    let before = groups();
    for row in 1..=100 {
        let mut write = pin!(write(&tree, row, 10));
        assert!(poll(write.as_mut()).is_ready(), "row {row}");
    }
    assert_eq!(groups() - before, 100);
    assert!((0..=100).all(|row| has(&tree, row)));
}

/// Tells when it is dropped.
struct Kept(Sender<()>);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn a_write_whose_future_is_dropped_goes_on_and_has_what_it_keeps_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::Sync, ..small() };
    let engine = Engine::open(dir.path(), options).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    for row in 0..50 {
        let (send, ended) = channel();
        {
            let mut write = pin!(tree.write_in_task(ready(row, 10), |_| (), Kept(send)));
            let _ = poll(write.as_mut());
        }
        ended.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(has(&tree, row), "it is dropped when the batch is visible");
    }
    let (send, ended) = channel();
    drop(tree.write_in_task(ready(99, 10), |_| (), Kept(send)));
    ended.recv().unwrap();
    assert!(!has(&tree, 99), "a future that was never polled writes nothing");
}

/// A writer that sees the outcome finds what was kept gone, also where others are told at once.
#[test]
fn what_is_kept_is_gone_when_the_outcome_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::Sync, ..small() };
    let engine = Engine::open(dir.path(), options).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let kept = Arc::new(());
    std::thread::scope(|threads| {
        for writer in 0..4u64 {
            let (tree, kept) = (&tree, &kept);
            threads.spawn(move || {
                for row in 0..100 {
                    let mine = Arc::new(Arc::clone(kept));
                    let part = |number: u64| {
                        let row = ready((writer << 32) | (row * 3 + number), 10);
                        tree.write_in_task(row, |_| (), Arc::clone(&mine))
                    };
                    let mut parts = Vec::from([part(0), part(1), part(2)].map(Box::pin));
                    block_on(poll_fn(|context| {
                        parts.retain_mut(|part| part.as_mut().poll(context).is_pending());
                        let count = (Arc::strong_count(&mine), 1 + parts.len());
                        assert!(count.0 <= count.1, "{count:?}");
                        if parts.is_empty() { Poll::Ready(()) } else { Poll::Pending }
                    }));
                }
            });
        }
    });
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn a_failed_sync_is_told_to_tasks_and_stops_writes() {
    let machine = SimEnv::new(2);
    let (_engine, tree) = on(&machine, Options { durability: Durability::Sync, ..small() });
    block_on(write(&tree, 1, 10)).unwrap();
    machine.fs.inject(FaultPoint::Sync, 0, 1, Fault::Io);
    let failed = block_on(write(&tree, 2, 10));
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    let refused = block_on(write(&tree, 3, 10));
    assert!(matches!(refused, Err(Error::WritesStopped(_))), "{refused:?}");
    assert!(has(&tree, 1) && !has(&tree, 2), "nothing of a group that failed is applied");
}

/// Takes jobs, and does none.
pub(crate) struct Idle;

impl Tasks for Idle {
    fn submit(&self, _: Job) {}

    fn submit_later(&self, _: Duration, _: Job) {}

    fn threads(&self) -> usize {
        1
    }

    fn help(&self) -> bool {
        false
    }
}

/// A tree whose flushes never run, and a write that waits for one.
fn stalled(dir: &Path) -> (Engine, Tree) {
    let env = Env { tasks: Arc::new(Idle), ..Env::real(1) };
    let engine = Engine::open_with_env(env, dir, small()).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let stalls = || engine.metrics().get("write_stalls_total").unwrap();
    for row in 0.. {
        let mut write = pin!(write(&tree, row, 4 << 10));
        while stalls() == 0 && poll(write.as_mut()).is_pending() {
            std::thread::yield_now();
        }
        if stalls() > 0 {
            break;
        }
    }
    (engine, tree)
}

struct Woken(Sender<()>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

/// The error that the write of a stalled tree gets after `act`, of which it learns by being woken.
fn told_after(tree: &Tree, act: impl FnOnce()) -> Error {
    let (send, woken) = channel();
    let waker = Waker::from(Arc::new(Woken(send)));
    let mut write = pin!(write(tree, u64::MAX, 4 << 10));
    assert!(write.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    act();
    loop {
        woken.recv_timeout(Duration::from_secs(60)).unwrap();
        if let Poll::Ready(told) = write.as_mut().poll(&mut Context::from_waker(&waker)) {
            return told.unwrap_err();
        }
    }
}

#[test]
fn stalled_tasks_are_told_of_a_dropped_tree_and_of_a_closed_engine() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, tree) = stalled(dir.path());
    let told = told_after(&tree, || engine.drop_tree(TREE).unwrap());
    assert!(matches!(told, Error::UnknownTree(TREE)), "{told:?}");
    let dir = tempfile::tempdir().unwrap();
    let (engine, tree) = stalled(dir.path());
    let told = told_after(&tree, || engine.close().unwrap());
    assert!(matches!(told, Error::Closed), "{told:?}");
}

/// Tasks that the engine closes under are told, and all that was acknowledged is there.
#[test]
fn a_closed_engine_tells_all_who_wait() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::Sync, ..small() };
    let engine = Engine::open(dir.path(), options.clone()).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let acknowledged: Vec<u64> = std::thread::scope(|threads| {
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let tree = tree.clone();
                threads.spawn(move || {
                    let rows = (writer << 32)..;
                    rows.take_while(|row| match block_on(write(&tree, *row, 10)) {
                        Ok(_) => true,
                        Err(Error::Closed) => false,
                        Err(error) => panic!("{error}"),
                    })
                    .collect::<Vec<u64>>()
                })
            })
            .collect();
        let batches = || engine.metrics().get("commit_batches_total").unwrap();
        eventually("some are written", || batches() > 50);
        engine.close().unwrap();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    drop((tree, engine));
    let engine = Engine::open(dir.path(), options).unwrap();
    let tree = engine.tree(TREE).unwrap();
    assert!(acknowledged.iter().all(|row| has(&tree, *row)));
}

/// Open times of a batch are set when it gets its place, and the engine knows the newest.
#[test]
fn times_are_set_when_the_batch_gets_its_place() {
    let machine = SimEnv::new(3);
    let (engine, tree) = on(&machine, Options { durability: Durability::Sync, ..small() });
    let mut batch = WriteBatch::new();
    batch.put_timed(b"row", Column::of(FAMILY, b"q"), b"value");
    let batch = batch.ready().unwrap();
    assert_eq!(batch.open_times(), 1);
    let time = Timestamp(7_000_000_000);
    block_on(tree.write_in_task(batch, |times| times.set(0..1, time), ())).unwrap();
    let (found, _) = tree.get(ColumnOf::new(b"row", FAMILY, b"q"), None).unwrap().unwrap();
    assert_eq!(found, time);
    assert!(engine.commit_micros() >= 7_000_000_000);
}
