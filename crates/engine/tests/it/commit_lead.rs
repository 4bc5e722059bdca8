//! The lead of a commit, when others have committed the batch meanwhile or a sync becomes due meanwhile.

use crate::support::{TREE, small};
use crate::task_writes::{Idle, batch, ready};
use base::env::sim::SimEnv;
use base::env::task::Job;
use base::env::{Clock, Env, Tasks};
use base::testing::block_on;
use engine::{Durability, Engine, Options, Tree, TreeOptions};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// More than a group that is applied by one thread while another writes the next.
const LARGE: usize = 300 << 10;
const SAFETY: Duration = Duration::from_secs(60);

fn options(durability: Durability) -> Options {
    Options { durability, log_segment_bytes: 4 << 20, ..small() }
}

fn open(env: Env, options: Options) -> (Engine, Tree) {
    let engine = Engine::open_with_env(env, Path::new("/data"), options).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    (engine, tree)
}

fn metric(engine: &Engine, name: &str) -> u64 {
    engine.metrics().get(name).unwrap()
}

/// Runs it when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_task_whose_batch_was_committed_by_another_leads_no_empty_group() {
    let machine = SimEnv::new(1);
    let (engine, tree) = open(machine.env(), options(Durability::None));
    // It begins the segment.
    tree.write(&batch(0, 10)).unwrap();
    let before = metric(&engine, "commit_groups_total");
    let other = || {
        let write = || tree.write(&batch(2, 10)).unwrap();
        std::thread::scope(|threads| threads.spawn(write).join().unwrap());
    };
    // The other writer comes when the task has its place, and commits both.
    block_on(tree.write_in_task(ready(1, 10), |_| OnDrop(other), ())).unwrap();
    assert_eq!(metric(&engine, "commit_groups_total") - before, 1);
}

/// Holds back who submits a job, once it is armed.
struct HoldBack {
    armed: AtomicBool,
    held: Sender<()>,
}

impl Tasks for HoldBack {
    fn submit(&self, _: Job) {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.held.send(()).unwrap();
            // Time in which a writer that does not wait would lead thousands of groups.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn submit_later(&self, _: Duration, _: Job) {}

    fn threads(&self) -> usize {
        1
    }

    fn help(&self) -> bool {
        false
    }
}

#[test]
fn a_thread_whose_batch_another_commits_waits_until_it_is_told() {
    let machine = SimEnv::new(2);
    let (held, is_held) = channel();
    let tasks = Arc::new(HoldBack { armed: AtomicBool::new(false), held });
    let env = Env { tasks: tasks.clone(), ..machine.env() };
    let (engine, tree) = open(env, options(Durability::Sync));
    tree.write(&batch(0, 10)).unwrap();
    let before = metric(&engine, "commit_groups_total");
    // A thread of the engine takes both batches. When they are in the log it gives up the lead; it is
    // held back when it has the flush queued that is due, before it tells anybody.
    let other = || {
        tasks.armed.store(true, Ordering::SeqCst);
        let mut large = pin!(tree.write_in_task(ready(2, LARGE), |_| (), ()));
        assert!(large.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        is_held.recv_timeout(SAFETY).unwrap();
    };
    tree.write_timed(&batch(1, 10), |_| OnDrop(other)).unwrap();
    assert_eq!(metric(&engine, "commit_groups_total") - before, 1);
}

const EVERY: Duration = Duration::from_secs(1);

/// A clock that stands still but for one leap, when it is asked for the given time.
#[derive(Default)]
struct Leaping {
    leaps_in: AtomicI64,
    seconds: AtomicU64,
}

impl Clock for Leaping {
    fn now_micros(&self) -> i64 {
        1_000_000
    }

    fn monotonic(&self) -> Duration {
        if self.leaps_in.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.seconds.fetch_add(1, Ordering::SeqCst);
        }
        EVERY * u32::try_from(self.seconds.load(Ordering::SeqCst)).unwrap()
    }
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

/// Has the next thread of the engine wait until what it gives back is dropped.
fn block_thread(tree: &Tree, row: u64) -> Sender<()> {
    let (begun, is_begun) = channel();
    let (until, end) = channel();
    let mut write = pin!(tree.write_in_task(ready(row, LARGE), |_| (), Block { begun, end }));
    assert!(write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    is_begun.recv_timeout(SAFETY).unwrap();
    until
}

/// Returns whether a task commits itself if the clock leaps when it is asked for the `nth` time. No
/// thread of the engine is free meanwhile, so that only the task could sync.
fn commits_itself(nth: i64) -> bool {
    let clock = Arc::new(Leaping::default());
    let env = Env { tasks: Arc::new(Idle), clock: clock.clone(), ..SimEnv::new(3).env() };
    let options = Options { memtable_bytes_max: 2 << 20, ..options(Durability::Interval(EVERY)) };
    let (engine, tree) = open(env, Options { memory_bytes_max: 32 << 20, ..options });
    tree.write(&batch(0, 10)).unwrap();
    let blocked = [1, 2].map(|row| block_thread(&tree, row));
    let syncs = metric(&engine, "commit_syncs_total");
    clock.leaps_in.store(nth, Ordering::SeqCst);
    let mut write = pin!(tree.write_in_task(ready(3, 10), |_| (), ()));
    let polled = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(metric(&engine, "commit_syncs_total"), syncs, "leap {nth}");
    drop(blocked);
    match polled {
        Poll::Ready(outcome) => outcome.is_ok(),
        Poll::Pending => block_on(write).is_err(),
    }
}

#[test]
fn a_task_never_syncs_also_if_that_becomes_due_while_it_commits() {
    let committed: Vec<bool> = (1..=6).map(commits_itself).collect();
    assert_eq!(committed, [false, true, true, true, true, true], "the threads sync if it is due");
}
