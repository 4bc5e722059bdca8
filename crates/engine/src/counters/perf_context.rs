//! The perf context of a request: what its reads look at and where its time goes, counted where it is
//! spent, so that a slow request can be explained.
//!
//! ```text
//! server:  PerfContext::new --- within(poll) --- within(poll) --- counts, times, begins
//!                                  |                |
//! here:                      add / waited     add / waited      (other threads: `carried`)
//! ```
//!
//! 1. Outside of a context nothing is counted, no clock is read and nothing allocated: a call here
//!    costs a look at a variable of the thread.
//! 2. A read adds its counts together, at the end of a stage. No loop over rows or entries adds any.
//! 3. A time that is over at once is not counted, and reads no clock: see [`waiting`].
//! 4. A context takes what comes in any order and from any thread. It keeps at most [`BEGINS_MAX`]
//!    beginnings, and counts the rest; of a key it keeps [`KEY_BYTES_MAX`] bytes.

use base::env::{Clock, SystemClock};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

/// Beginnings of times that a context keeps, if it keeps any.
const BEGINS_MAX: usize = 64;
/// Bytes of a row key that a context keeps.
const KEY_BYTES_MAX: usize = 24;

/// Something that a context counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerfCount {
    /// Rows that were read by their keys.
    PointReads,
    /// Point reads that merged several sources.
    Merged,
    /// Scans that the request began.
    Scans,
    /// SSTables of the trees that were read.
    Files,
    /// SSTables whose range of row keys has nothing for the read.
    FilesOutOfRange,
    /// SSTables that a filter of rows excluded.
    FilteredByRow,
    /// SSTables that a filter of families excluded.
    FilteredByFamily,
    /// SSTables that a filter of columns excluded.
    FilteredByColumn,
    /// SSTables that a filter of prefixes of rows excluded.
    FilteredByPrefix,
    /// Blocks that reads looked at, from the cache or from disk.
    Blocks,
    /// Blocks that were read from disk.
    DiskBlocks,
    /// Bytes of the blocks that were read from disk.
    DiskBytes,
    /// Rows that reads of the request met.
    RowsSeen,
    /// Cells that reads of the request met.
    CellsSeen,
    /// Rows that the request returned.
    RowsReturned,
    /// Bytes of the row keys and values that were returned.
    BytesReturned,
    /// Rows that the request wrote.
    RowsWritten,
    /// Bytes of the mutations that were written.
    BytesWritten,
}

/// Number of kinds of [`PerfCount`].
const COUNTS: usize = PerfCount::BytesWritten as usize + 1;

/// A part of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerfTime {
    /// Waits for room in a tree while background work is behind.
    WriteStall,
    /// Waits for rows that other writes have.
    RowLock,
    /// Waits for a place among the blocking calls.
    Place,
    /// Waits for a commit, but for its sync.
    Commit,
    /// Waits for the sync of the commit log.
    LogSync,
    /// Waits for blocks from disk.
    DiskRead,
    /// Work on a thread for blocking calls, with the disk reads there.
    Step,
}

impl PerfTime {
    /// All parts, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::WriteStall,
        Self::RowLock,
        Self::Place,
        Self::Commit,
        Self::LogSync,
        Self::DiskRead,
        Self::Step,
    ];

    /// Returns the name of the part in logs and spans.
    pub fn label(self) -> &'static str {
        match self {
            Self::WriteStall => "write_stall",
            Self::RowLock => "row_lock",
            Self::Place => "place",
            Self::Commit => "commit",
            Self::LogSync => "log_sync",
            Self::DiskRead => "disk_read",
            Self::Step => "step",
        }
    }
}

/// One part of a request's time, with its beginning by the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedPart {
    /// The kind of the part.
    pub part: PerfTime,
    /// The time at its beginning.
    pub begun: Duration,
    /// The time until its end.
    pub took: Duration,
}

/// The table that a request is about, and the first of its row keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerfSubject {
    /// Whole name of the table.
    pub table: Box<str>,
    /// Keys, ranges or entries of the request.
    pub keys: usize,
    key: [u8; KEY_BYTES_MAX],
    /// Bytes of the whole key.
    key_len: usize,
}

impl PerfSubject {
    /// Returns the beginning of the first row key, and whether it is the whole.
    pub fn key(&self) -> (&[u8], bool) {
        (&self.key[..self.key_len.min(KEY_BYTES_MAX)], self.key_len <= KEY_BYTES_MAX)
    }
}

/// The counts of one request. Relaxed: each count stands by itself.
#[derive(Debug)]
pub struct PerfContext {
    counts: [AtomicU64; COUNTS],
    /// Nanoseconds of each part, in their order.
    times: [AtomicU64; PerfTime::ALL.len()],
    subject: OnceLock<PerfSubject>,
    parts: Option<Box<Parts>>,
}

/// The parts of a request's time in the order in which they ended.
#[derive(Debug)]
struct Parts {
    /// Parts that came, also those without a place.
    next: AtomicUsize,
    parts: [OnceLock<TimedPart>; BEGINS_MAX],
}

/// The detail in which a context keeps the parts of its request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Their sums and nothing else.
    Sums,
    /// Also when each of the first ones began.
    Beginnings,
}

impl PerfContext {
    /// Returns a context that has counted nothing.
    pub fn new(detail: Detail) -> Self {
        let parts =
            || Parts { next: AtomicUsize::new(0), parts: std::array::from_fn(|_| OnceLock::new()) };
        Self {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            times: std::array::from_fn(|_| AtomicU64::new(0)),
            subject: OnceLock::new(),
            parts: (detail == Detail::Beginnings).then(|| Box::new(parts())),
        }
    }

    /// Returns one of the counts.
    pub fn count(&self, which: PerfCount) -> u64 {
        self.counts[which as usize].load(Ordering::Relaxed)
    }

    /// Returns the time of a part. Parts that went on side by side are added up.
    pub fn time(&self, part: PerfTime) -> Duration {
        Duration::from_nanos(self.times[part as usize].load(Ordering::Relaxed))
    }

    /// Returns what the request is about, if it came to a table.
    pub fn subject(&self) -> Option<&PerfSubject> {
        self.subject.get()
    }

    /// Returns the first parts of the time, in the order in which they ended.
    pub fn parts(&self) -> impl Iterator<Item = TimedPart> + '_ {
        self.parts.iter().flat_map(|parts| &parts.parts).filter_map(|part| part.get().copied())
    }

    /// Returns the number of parts that [`parts`](Self::parts) lacks, of a context that keeps any.
    pub fn parts_left_out(&self) -> usize {
        let came = self.parts.as_ref().map_or(0, |parts| parts.next.load(Ordering::Relaxed));
        came.saturating_sub(BEGINS_MAX)
    }

    fn add(&self, which: PerfCount, count: u64) {
        if count > 0 {
            self.counts[which as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    fn add_part(&self, part: TimedPart) {
        let nanos = u64::try_from(part.took.as_nanos()).unwrap_or(u64::MAX);
        self.times[part.part as usize].fetch_add(nanos, Ordering::Relaxed);
        let Some(parts) = &self.parts else { return };
        let at = parts.next.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = parts.parts.get(at) {
            let _ = place.set(part);
        }
    }
}

thread_local! {
    /// The context of the request that this thread works for.
    static CURRENT: RefCell<Option<Arc<PerfContext>>> = const { RefCell::new(None) };
}

/// Looks at the context of this thread, if there is one.
fn with<R>(look: impl FnOnce(&PerfContext) -> R) -> Option<R> {
    CURRENT.try_with(|current| current.borrow().as_deref().map(look)).ok().flatten()
}

/// Runs `work` within `context`, which is in its place again afterwards. Without one it just runs.
pub fn within<T>(context: &mut Option<Arc<PerfContext>>, work: impl FnOnce() -> T) -> T {
    /// Gives the thread the outer context back, also after a panic.
    struct Within<'a> {
        context: &'a mut Option<Arc<PerfContext>>,
        outer: Option<Arc<PerfContext>>,
    }

    impl Drop for Within<'_> {
        fn drop(&mut self) {
            *self.context = CURRENT.replace(self.outer.take());
        }
    }

    if context.is_none() {
        return work();
    }
    let outer = CURRENT.replace(context.take());
    let _within = Within { context, outer };
    work()
}

/// Returns the context of this thread, for work on another.
pub fn current() -> Option<Arc<PerfContext>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Returns `future` within the context of this thread, whatever thread polls or drops it.
pub fn carried<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let context = current();
    async move {
        let future = pin!(Some(future));
        let mut carried = Carried { future, context };
        poll_fn(|task| carried.poll(task)).await
    }
}

/// A future with its context, in which it is also dropped: its waits end there.
struct Carried<'a, F> {
    /// `None` once it was dropped.
    future: Pin<&'a mut Option<F>>,
    context: Option<Arc<PerfContext>>,
}

impl<F: Future> Carried<'_, F> {
    fn poll(&mut self, task: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, context } = self;
        let Some(future) = future.as_mut().as_pin_mut() else { return Poll::Pending };
        within(context, || future.poll(task))
    }
}

impl<F> Drop for Carried<'_, F> {
    fn drop(&mut self) {
        let Self { future, context } = self;
        within(context, || future.set(None));
    }
}

/// Adds counts to the context of this thread.
#[inline]
pub fn add<const N: usize>(counts: [(PerfCount, u64); N]) {
    with(|context| counts.into_iter().for_each(|(which, count)| context.add(which, count)));
}

/// The same; the counts are made only within a context.
#[inline]
pub(crate) fn add_with<const N: usize>(counts: impl FnOnce() -> [(PerfCount, u64); N]) {
    with(|context| counts().into_iter().for_each(|(which, count)| context.add(which, count)));
}

/// Says what the request is about: the first that is said counts. `table` is called only within a
/// context.
pub fn about<'a>(table: impl FnOnce() -> &'a str, key: &[u8], keys: usize) {
    with(|context| {
        context.subject.get_or_init(|| {
            let mut kept = [0; KEY_BYTES_MAX];
            let len = key.len().min(KEY_BYTES_MAX);
            kept[..len].copy_from_slice(&key[..len]);
            PerfSubject { table: table().into(), keys, key: kept, key_len: key.len() }
        });
    });
}

/// Returns the time by the monotonic clock; nothing outside of a context.
pub fn now() -> Option<Duration> {
    with(|_| SystemClock.monotonic())
}

/// Adds the time since `begun`, if there is one.
pub fn timed(part: PerfTime, begun: Option<Duration>) {
    if let Some(begun) = begun {
        took(part, begun, SystemClock.monotonic().saturating_sub(begun));
    }
}

/// Adds a time that was measured, if there was any.
pub(crate) fn took(part: PerfTime, begun: Duration, took: Duration) {
    if took > Duration::ZERO {
        with(|context| context.add_part(TimedPart { part, begun, took }));
    }
}

/// A wait, which is added to the context that it is dropped within.
struct Wait {
    part: PerfTime,
    begun: Option<Duration>,
}

impl Drop for Wait {
    fn drop(&mut self) {
        timed(self.part, self.begun);
    }
}

/// Awaits `future`, and adds the time for which it is not ready, also if it is dropped before.
pub async fn waiting<F: Future>(part: PerfTime, future: F) -> F::Output {
    let mut future = pin!(future);
    let mut first = true;
    let mut wait = Wait { part, begun: None };
    let output = poll_fn(|task| {
        let polled = future.as_mut().poll(task);
        if std::mem::take(&mut first) && polled.is_pending() {
            wait.begun = now();
        }
        polled
    });
    output.await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn fresh() -> Option<Arc<PerfContext>> {
        Some(Arc::new(PerfContext::new(Detail::Beginnings)))
    }

    #[test]
    fn parts_have_the_numbers_of_their_places() {
        assert!(PerfTime::ALL.iter().enumerate().all(|(at, part)| *part as usize == at));
    }

    #[test]
    fn what_happens_outside_of_a_context_is_not_counted() {
        add([(PerfCount::Files, 1)]);
        assert_eq!((now(), current().is_none()), (None, true));
        let mut context = fresh();
        within(&mut context, || add([(PerfCount::Files, 2), (PerfCount::Blocks, 0)]));
        add([(PerfCount::Files, 4)]);
        assert_eq!(context.unwrap().count(PerfCount::Files), 2);
    }

    #[test]
    fn contexts_nest_and_a_panic_leaves_the_outer_one() {
        let (mut outer, mut inner) = (fresh(), fresh());
        within(&mut outer, || {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                within(&mut inner, || {
                    add([(PerfCount::Files, 1)]);
                    panic!("on purpose");
                })
            }));
            assert!(caught.is_err());
            add([(PerfCount::Files, 2)]);
            within(&mut None, || add([(PerfCount::Files, 4)]));
        });
        let count = |context: Option<Arc<PerfContext>>| context.unwrap().count(PerfCount::Files);
        assert_eq!((count(outer), count(inner), current().is_none()), (6, 1, true));
    }

    #[test]
    fn a_context_is_carried_to_other_threads() {
        let mut context = fresh();
        let future = within(&mut context, || {
            carried(async {
                add([(PerfCount::Blocks, 1)]);
            })
        });
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut task = Context::from_waker(Waker::noop());
                assert!(pin!(future).poll(&mut task).is_ready());
            });
        });
        assert_eq!(context.unwrap().count(PerfCount::Blocks), 1);
    }

    #[test]
    fn a_carried_future_that_is_given_up_elsewhere_is_counted() {
        let mut context = fresh();
        let mut task = Context::from_waker(Waker::noop());
        let wait = waiting(PerfTime::RowLock, std::future::pending::<()>());
        let mut carried = within(&mut context, || Box::pin(carried(wait)));
        assert!(carried.as_mut().poll(&mut task).is_pending());
        std::thread::sleep(Duration::from_millis(1));
        drop(carried);
        let parts: Vec<_> = context.unwrap().parts().map(|part| part.part).collect();
        assert_eq!(parts, [PerfTime::RowLock]);
    }

    #[test]
    fn only_a_future_that_is_not_ready_at_once_takes_time() {
        let mut context = fresh();
        let mut task = Context::from_waker(Waker::noop());
        within(&mut context, || {
            let ready = pin!(waiting(PerfTime::RowLock, std::future::ready(())));
            assert!(ready.poll(&mut task).is_ready());
            let mut polls = 0;
            let later = poll_fn(|_| {
                polls += 1;
                if polls == 1 { Poll::Pending } else { Poll::Ready(()) }
            });
            let mut later = pin!(waiting(PerfTime::Place, later));
            assert!(later.as_mut().poll(&mut task).is_pending());
            std::thread::sleep(Duration::from_millis(1));
            assert!(later.as_mut().poll(&mut task).is_ready());
        });
        let parts: Vec<_> = context.unwrap().parts().map(|part| part.part).collect();
        assert_eq!(parts, [PerfTime::Place]);
    }

    #[test]
    fn a_wait_that_is_given_up_is_counted() {
        let mut context = fresh();
        let mut task = Context::from_waker(Waker::noop());
        within(&mut context, || {
            let mut wait = Box::pin(waiting(PerfTime::RowLock, std::future::pending::<()>()));
            assert!(wait.as_mut().poll(&mut task).is_pending());
            std::thread::sleep(Duration::from_millis(1));
            drop(wait);
            drop(waiting(PerfTime::Place, std::future::pending::<()>()));
        });
        let parts: Vec<_> = context.unwrap().parts().map(|part| part.part).collect();
        assert_eq!(parts, [PerfTime::RowLock]);
    }

    #[test]
    fn parts_are_bounded_and_their_sums_are_not() {
        let mut context = fresh();
        let second = Duration::from_secs(1);
        within(&mut context, || {
            (0..200).for_each(|_| took(PerfTime::DiskRead, Duration::ZERO, second));
        });
        let context = context.unwrap();
        assert_eq!((context.parts().count(), context.parts_left_out()), (BEGINS_MAX, 136));
        assert_eq!(context.time(PerfTime::DiskRead), 200 * second);
        let sums = PerfContext::new(Detail::Sums);
        assert_eq!((sums.parts().count(), sums.parts_left_out()), (0, 0));
    }

    #[test]
    fn a_sync_that_nobody_waited_for_is_no_part() {
        let mut context = fresh();
        within(&mut context, || took(PerfTime::LogSync, Duration::ZERO, Duration::ZERO));
        assert_eq!(context.unwrap().parts().count(), 0);
    }

    #[test]
    fn the_first_subject_counts_and_its_key_is_cut() {
        let mut context = fresh();
        within(&mut context, || {
            about(|| "t", &[b'k'; 1_000], 3);
            about(|| "other", b"", 1);
        });
        let context = context.unwrap();
        let subject = context.subject().unwrap();
        assert_eq!((&*subject.table, subject.keys), ("t", 3));
        assert_eq!(subject.key(), (&[b'k'; KEY_BYTES_MAX][..], false));
        about(|| panic!("no context, no name"), b"", 1);
    }
}
