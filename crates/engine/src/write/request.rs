//! A write on its way through the commit queue, and how its writer is told. It has a batch of one tree, or
//! batches of several ([`Work`]), which one record of the log holds.
//!
//! Invariants:
//! 1. A request has one outcome, told once its batch was committed or refused. A writer that is a
//!    thread is told under the queue's lock, which it waits with.
//! 2. What a task gave in keeping ([`Request::of_task`]) is dropped when the outcome is known, before
//!    the task can see it, whether or not the task is still there.

use crate::batch::FrozenBatch;
use crate::cell::{SequenceNumber, TreeId};
use crate::counters::perf_context::{self, PerfTime};
use crate::error::Result;
use crate::locks::CommitOutcome;
use crate::log::tree_batches::{self, TreeBatch};
use crate::log::{LogRecord, RecordKind};
use crate::tree::TreeState;
use base::checksum::crc32c;
use base::sync::{Condvar, Mutex};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The batches that a request writes.
pub(crate) enum Work {
    /// A batch of one tree.
    One(Arc<TreeState>, FrozenBatch),
    /// Batches of several trees, as one.
    Several(TogetherBatches),
}

/// Batches of at least two trees, in the order of the trees, and the payload of their record. No batch is empty.
pub(crate) struct TogetherBatches {
    parts: Vec<(Arc<TreeState>, FrozenBatch)>,
    payload: Vec<u8>,
    mutations: u64,
}

impl TogetherBatches {
    /// Batches of `parts`, in any order, no two of one tree.
    pub(crate) fn new(mut parts: Vec<(Arc<TreeState>, FrozenBatch)>) -> Self {
        parts.sort_by_key(|(tree, _)| tree.id);
        let mut mutations = 0;
        let batches: Vec<TreeBatch<'_>> = parts
            .iter()
            .map(|(tree, batch)| {
                let before = mutations as u32;
                mutations += batch.len() as u64;
                TreeBatch { tree: tree.id, before, batch: batch.encoding() }
            })
            .collect();
        let payload = tree_batches::encode(&batches);
        Self { parts, payload, mutations }
    }
}

/// A write in the queue, and the way to its writer.
pub(crate) struct Request {
    work: Work,
    /// The newest time in the batch that its writer was given; 0 if it was given no time.
    pub(super) time: u64,
    /// crc32c of the payload of its record.
    checksum: u32,
    pub(super) writer: Writer,
    /// When it was made, for the perf context of a task.
    begun: Option<Duration>,
    /// When its batch began to wait for a group, or for the log: nanoseconds of the monotonic clock, and one
    /// more; 0 if it did not. Relaxed: a leader that sees an old value counts a wait of nothing.
    wait_begun: AtomicU64,
    /// Nanoseconds of the sync that made it durable, if it waited for one. Relaxed: the outcome, which
    /// has a lock, is told later.
    sync_nanos: AtomicU64,
    outcome: Mutex<Outcome, CommitOutcome>,
}

/// The writer that waits for the outcome.
pub(super) enum Writer {
    /// Woken by this, which it waits on with the queue's lock.
    Thread(Condvar),
    /// Woken by the waker that it left with the outcome.
    Task,
}

#[derive(Default)]
struct Outcome {
    told: Option<Result<SequenceNumber>>,
    waker: Option<Waker>,
    kept: Option<Box<dyn Send>>,
}

impl Request {
    /// A request of a writer that waits on its thread. `work` carries times up to `time`.
    pub(crate) fn of_thread(work: Work, time: u64) -> Self {
        Self::new(work, time, Writer::Thread(Condvar::new()), None)
    }

    /// A request of a writer that is a task. `kept` is dropped when the commit has ended.
    pub(crate) fn of_task(work: Work, time: u64, kept: Box<dyn Send>) -> Self {
        Self::new(work, time, Writer::Task, Some(kept))
    }

    fn new(work: Work, time: u64, writer: Writer, kept: Option<Box<dyn Send>>) -> Self {
        let checksum = match &work {
            Work::One(_, batch) => crc32c(&[batch.encoding()]),
            Work::Several(together) => crc32c(&[&together.payload]),
        };
        let outcome = Mutex::new(Outcome { kept, ..Outcome::default() });
        let (wait_begun, sync_nanos) = (AtomicU64::new(0), AtomicU64::new(0));
        let begun = perf_context::now();
        Self { work, time, checksum, writer, begun, wait_begun, sync_nanos, outcome }
    }

    /// Number of its mutations, which is not 0.
    pub(super) fn mutations(&self) -> u64 {
        match &self.work {
            Work::One(_, batch) => batch.len() as u64,
            Work::Several(together) => together.mutations,
        }
    }

    /// Returns kind and length of its record.
    pub(super) fn shape(&self) -> (RecordKind, usize) {
        match &self.work {
            Work::One(_, batch) => (RecordKind::Batch, batch.encoding().len()),
            Work::Several(together) => (RecordKind::Batches, together.payload.len()),
        }
    }

    /// Its record, if its first mutation has the number `first`.
    pub(super) fn record(&self, first: SequenceNumber, commit_time: u64) -> LogRecord<'_> {
        let (kind, tree, payload) = match &self.work {
            Work::One(tree, batch) => (RecordKind::Batch, tree.id, batch.encoding()),
            Work::Several(together) => (RecordKind::Batches, TreeId(0), &together.payload[..]),
        };
        LogRecord { kind, tree, first, commit_time, payload, payload_crc: self.checksum }
    }

    /// Returns its batches, each with its tree.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&Arc<TreeState>, &FrozenBatch)> {
        let (one, several) = match &self.work {
            Work::One(tree, batch) => (Some((tree, batch)), &[][..]),
            Work::Several(together) => (None, &together.parts[..]),
        };
        one.into_iter().chain(several.iter().map(|(tree, batch)| (tree, batch)))
    }

    /// The outcome, if it was told.
    pub(super) fn take_outcome(&self) -> Option<Result<SequenceNumber>> {
        self.outcome.lock().told.take()
    }

    /// Notes that its batch waits for a group from `now` on, or longer if that was noted before.
    pub(super) fn waits_from(&self, now: Duration) {
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        let _ = self.wait_begun.compare_exchange(0, nanos, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns when its batch began to wait for a group; `None` if it did not wait.
    pub(super) fn waits_since(&self) -> Option<Duration> {
        self.wait_begun.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_nanos)
    }

    /// Notes how long the sync of its group took.
    pub(super) fn note_sync(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sync_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Tells the outcome to a writer that is a thread. Under the queue's lock.
    pub(super) fn tell_thread(&self, outcome: Result<SequenceNumber>) {
        self.outcome.lock().told = Some(outcome);
        if let Writer::Thread(wake) = &self.writer {
            wake.notify_one();
        }
    }

    /// Gives back what a task gave in keeping, and tells it the outcome then. Without a lock: both run
    /// code of others, whose panics end here.
    pub(super) fn tell_task(&self, outcome: Result<SequenceNumber>) {
        let kept = self.outcome.lock().kept.take();
        let tell = || {
            drop(kept);
            let waker = {
                let mut state = self.outcome.lock();
                state.told = Some(outcome);
                state.waker.take()
            };
            waker.into_iter().for_each(Waker::wake);
        };
        if catch_unwind(AssertUnwindSafe(tell)).is_err() {
            tracing::error!("the waker of a task panicked");
        }
    }

    pub(super) fn is_of_task(&self) -> bool {
        matches!(self.writer, Writer::Task)
    }
}

/// The commit of a batch whose writer is a task. Dropped, it leaves the commit to go on.
pub(crate) struct Commit {
    request: Arc<Request>,
    is_explained: bool,
}

impl Commit {
    pub(super) fn of(request: Arc<Request>) -> Self {
        Self { request, is_explained: false }
    }

    /// Tells the perf context once how long the commit took, and how much of that its sync.
    fn explain(&mut self) {
        if std::mem::replace(&mut self.is_explained, true) {
            return;
        }
        if let (Some(begun), Some(end)) = (self.request.begun, perf_context::now()) {
            let all = end.saturating_sub(begun);
            let sync = self.request.sync_nanos.load(Ordering::Relaxed);
            let sync = Duration::from_nanos(sync).min(all);
            perf_context::took(PerfTime::Commit, begun, all - sync);
            perf_context::took(PerfTime::LogSync, end - sync, sync);
        }
    }
}

/// A task that gives up has waited as well.
impl Drop for Commit {
    fn drop(&mut self) {
        self.explain();
    }
}

impl Future for Commit {
    type Output = Result<SequenceNumber>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.request.outcome.lock();
        if let Some(outcome) = state.told.take() {
            drop(state);
            self.explain();
            return Poll::Ready(outcome);
        }
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            state.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}
