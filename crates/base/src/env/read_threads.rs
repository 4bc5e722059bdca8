//! Reads for callers that cannot wait, such as tasks of an asynchronous server: threads take the
//! reads, and each is told when it is done.
//!
//! 1. Each submitted read's `done` is called exactly once, on one of the threads. Reads that nobody
//!    has begun when the threads are closed end with an error. A `done` that panics ends nothing but
//!    itself: its read counts as done, and the thread goes on.
//! 2. A thread starts when there is a read and none is idle, up to a number that suits how the file
//!    system's queues read; without reads there are no threads.
//! 3. The number of reads under way is bounded by those who submit: they ask for [`room`] first,
//!    and those who found none are all woken when there is some again.
//! 4. The wait of each read for a thread is counted once, before its `done` is called, also if it is refused.
//!    So is the wait of a caller who found no room, also if the caller gives up.
//!
//! [`room`]: ReadThreads::room

use super::clock::Clock;
use super::fs::{FileSystem, ReadFile};
use super::read_queue::{Completed, QueueKind, ReadBuffer, ReadQueue};
use crate::histogram::{Buckets, Histogram};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// Reads that are queued or under way, beyond which there is no room. Far more than a disk works
/// on: it bounds memory, not speed.
const READS_MAX: usize = 2_048;
/// Reads that one thread has under way side by side.
const DEPTH: usize = 64;
/// Threads where each has many reads under way. With more than one, a read seldom waits for a
/// thread that waits for another.
const THREADS_URING: usize = 4;
/// Threads where each has one read under way.
const THREADS_PREAD: usize = 32;

/// A read to be done.
pub struct ThreadRead {
    pub file: Arc<dyn ReadFile>,
    /// Offset of the wanted bytes.
    pub offset: u64,
    /// The number of them.
    pub len: usize,
    /// Told the bytes, as many as were asked for, or the error of [`ReadFile::read_exact_at`].
    pub done: Done,
}

/// Callback that gets the result of a read.
pub type Done = Box<dyn FnOnce(io::Result<ReadBuffer>) + Send>;

/// Threads that read. Dropping them waits for the reads under way.
pub struct ReadThreads {
    shared: Arc<Shared>,
}

struct Shared {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    wake: Condvar,
    /// Waits of reads for a thread, and of callers for room.
    waits: Histogram,
}

/// A wait for room, counted when it ends or is given up.
struct RoomWait<'a> {
    shared: &'a Shared,
    /// Time at which it began, by the monotonic clock.
    since: Duration,
}

impl Drop for RoomWait<'_> {
    fn drop(&mut self) {
        self.shared.waited(self.since, self.shared.clock.monotonic());
    }
}

/// A read that no thread has taken.
struct Queued {
    read: ThreadRead,
    /// Time at which it came, by the monotonic clock.
    since: Duration,
}

#[derive(Default)]
struct State {
    queued: VecDeque<Queued>,
    /// Submitted reads that are not done.
    under_way: usize,
    /// Callers that found no room.
    waiting: Vec<Waker>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that sleep and were not woken.
    idle: usize,
    /// Of the queues of this file system; 0 until the first thread starts.
    reads_at_once: usize,
    threads_max: usize,
    closed: bool,
}

impl ReadThreads {
    /// Threads that read through queues of `fs`, and measure waits by `clock`. None is started yet.
    pub fn new(fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Self {
        let (state, wake, waits) = (Mutex::default(), Condvar::new(), Histogram::of_durations());
        Self { shared: Arc::new(Shared { fs, clock, state, wake, waits }) }
    }

    /// Waits until there is room for more reads.
    pub async fn room(&self) {
        let shared: &Shared = &self.shared;
        let mut wait = None;
        poll_fn(|context| {
            let room = self.poll_room(context);
            if room.is_pending() {
                wait.get_or_insert_with(|| RoomWait { shared, since: shared.clock.monotonic() });
            }
            room
        })
        .await;
    }

    /// Returns whether there is room for more reads; if not, the task is woken when there may be.
    fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.state.lock();
        if state.under_way < READS_MAX {
            return Poll::Ready(());
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    }

    /// Lets `reads` begin. Does not wait, except for the start of a thread.
    pub fn submit(&self, reads: Vec<ThreadRead>) {
        if reads.is_empty() {
            return;
        }
        let since = self.shared.clock.monotonic();
        let refused = {
            let mut state = self.shared.state.lock();
            state.under_way += reads.len();
            state.queued.extend(reads.into_iter().map(|read| Queued { read, since }));
            match state.closed || !self.shared.find_threads(&mut state) {
                true => std::mem::take(&mut state.queued),
                false => VecDeque::new(),
            }
        };
        self.shared.refuse(refused);
    }

    /// Reads that are queued or under way.
    pub fn under_way(&self) -> usize {
        self.shared.state.lock().under_way
    }

    /// Returns the times that reads waited for a thread, and callers for room, in microseconds.
    pub fn waits(&self) -> Buckets {
        self.shared.waits.read()
    }

    /// Waits for the reads under way, ends those that were not begun, and joins the threads; later
    /// reads end with an error at once.
    pub fn close(&self) {
        let (queued, threads) = {
            let mut state = self.shared.state.lock();
            state.closed = true;
            (std::mem::take(&mut state.queued), std::mem::take(&mut state.threads))
        };
        self.shared.wake.notify_all();
        self.shared.refuse(queued);
        let this = std::thread::current().id();
        // A call of `done` may be what closes us: that thread ends when it returns.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
            let _ = thread.join();
        }
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for ReadThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadThreads").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}

/// Returns the number of reads a thread with such a queue takes at once, and how many such threads
/// there are.
fn shape(kind: QueueKind) -> (usize, usize) {
    match kind {
        QueueKind::Uring => (DEPTH, THREADS_URING),
        QueueKind::Pread => (1, THREADS_PREAD),
    }
}

impl Shared {
    /// Wakes or starts threads for the queued reads; `false` if there is none and none can start.
    fn find_threads(self: &Arc<Self>, state: &mut State) -> bool {
        let mut open = state.queued.len();
        while open > 0 && state.idle > 0 {
            state.idle -= 1;
            self.wake.notify_one();
            open = open.saturating_sub(state.reads_at_once);
        }
        while open > 0 && (state.threads.is_empty() || state.threads.len() < state.threads_max) {
            let queue = self.fs.read_queue(DEPTH);
            (state.reads_at_once, state.threads_max) = shape(queue.kind());
            let (shared, reads_at_once) = (Arc::clone(self), state.reads_at_once);
            let name = format!("stele-read-{}", state.threads.len());
            let thread = std::thread::Builder::new().name(name);
            match thread.spawn(move || shared.run(queue, reads_at_once)) {
                Ok(thread) => state.threads.push(thread),
                Err(error) => {
                    tracing::warn!(%error, "could not start a read thread");
                    return !state.threads.is_empty();
                }
            }
            open = open.saturating_sub(reads_at_once);
        }
        true
    }

    /// Runs a read thread.
    fn run(&self, mut queue: Box<dyn ReadQueue>, reads_at_once: usize) {
        let mut waiting: Vec<Option<Done>> = Vec::new();
        let mut completed: Vec<Completed> = Vec::new();
        while let Some(reads) = self.take(reads_at_once - queue.in_flight(), queue.in_flight()) {
            for ThreadRead { file, offset, len, done } in reads {
                let free = waiting.iter().position(Option::is_none);
                let tag = free.unwrap_or(waiting.len());
                waiting.resize_with(waiting.len().max(tag + 1), || None);
                waiting[tag] = Some(done);
                queue.submit(tag as u64, &file, offset, len);
            }
            queue.wait(1, &mut completed);
            let ended = completed.len();
            for Completed { tag, result } in completed.drain(..) {
                let done = waiting[tag as usize].take().expect("a read is done once");
                tell(done, result);
            }
            self.ended(ended);
        }
    }

    /// Up to `at_most` reads; waits for one if none is `in_flight`. `None` when it is all over.
    fn take(&self, at_most: usize, in_flight: usize) -> Option<Vec<ThreadRead>> {
        let taken: Vec<Queued> = {
            let mut state = self.state.lock();
            while state.queued.is_empty() && in_flight == 0 {
                if state.closed {
                    return None;
                }
                state.idle += 1;
                self.wake.wait(&mut state);
            }
            let count = at_most.min(state.queued.len());
            state.queued.drain(..count).collect()
        };
        if !taken.is_empty() {
            let now = self.clock.monotonic();
            taken.iter().for_each(|queued| self.waited(queued.since, now));
        }
        Some(taken.into_iter().map(|queued| queued.read).collect())
    }

    /// Counts a wait that ended at `now`.
    fn waited(&self, since: Duration, now: Duration) {
        self.waits.record_time(now.saturating_sub(since));
    }

    /// `count` reads are done.
    fn ended(&self, count: usize) {
        let wakers = {
            let mut state = self.state.lock();
            state.under_way -= count;
            let room = state.under_way < READS_MAX;
            if room { std::mem::take(&mut state.waiting) } else { Vec::new() }
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends reads that nobody will begin.
    fn refuse(&self, reads: VecDeque<Queued>) {
        if reads.is_empty() {
            return;
        }
        let (count, now) = (reads.len(), self.clock.monotonic());
        for Queued { read, since } in reads {
            self.waited(since, now);
            tell(read.done, Err(io::Error::other("reading has ended")));
        }
        self.ended(count);
    }
}

fn tell(done: Done, result: io::Result<ReadBuffer>) {
    if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
        tracing::error!("the completion callback of a read panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{RealFileSystem, SimEnv, SystemClock};
    use crate::testing::block_on;
    use std::sync::mpsc;

    const LEN: usize = 10_000;

    fn bytes() -> Vec<u8> {
        (0..LEN).map(|at| (at % 251) as u8).collect()
    }

    /// A file read through io_uring where the kernel has it, and one that is read call by call.
    fn both(dir: &std::path::Path) -> [(ReadThreads, Arc<dyn ReadFile>); 2] {
        let path = dir.join("file");
        std::fs::write(&path, bytes()).unwrap();
        let real = RealFileSystem.open_read(&path).unwrap();
        let sim: Arc<dyn FileSystem> = SimEnv::new(1).env().fs;
        let path = std::path::Path::new("file");
        sim.create(path).unwrap().write_all_at(&bytes(), 0).unwrap();
        let simulated = sim.open_read(path).unwrap();
        let threads = |fs: Arc<dyn FileSystem>| ReadThreads::new(fs, Arc::new(SystemClock));
        [(threads(Arc::new(RealFileSystem)), real), (threads(sim), simulated)]
    }

    #[test]
    fn every_read_is_told_its_bytes_or_its_error() {
        let dir = tempfile::tempdir().unwrap();
        for (threads, file) in both(dir.path()) {
            let (send, outcomes) = mpsc::channel();
            for first in (0..=LEN).step_by(10) {
                let reads = (first..first + 10).map(|offset| {
                    let send = send.clone();
                    let done: Done = Box::new(move |read| send.send((offset, read)).unwrap());
                    ThreadRead { file: Arc::clone(&file), offset: offset as u64, len: 100, done }
                });
                threads.submit(reads.collect());
            }
            drop(send);
            let mut told = vec![0; LEN + 10];
            for (offset, read) in outcomes {
                told[offset] += 1;
                match read {
                    Ok(read) => assert_eq!(read[..], bytes()[offset..offset + 100]),
                    Err(error) => {
                        assert!(offset + 100 > LEN);
                        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                    }
                }
            }
            assert!(told.iter().all(|told| *told == 1));
            threads.close();
            assert_eq!(threads.under_way(), 0);
        }
    }

    #[test]
    fn reads_have_ended_when_the_threads_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        for (threads, file) in both(dir.path()) {
            let (send, outcomes) = mpsc::channel();
            let read = |offset| {
                let send = send.clone();
                let done: Done = Box::new(move |read| send.send(read.is_ok()).unwrap());
                ThreadRead { file: Arc::clone(&file), offset, len: 100, done }
            };
            threads.submit((0..500).map(read).collect());
            threads.close();
            assert_eq!(outcomes.try_iter().count(), 500);
            threads.submit(vec![read(0)]);
            assert_eq!(outcomes.try_iter().collect::<Vec<_>>(), [false]);
        }
    }

    #[test]
    fn who_finds_no_room_is_woken_when_there_is_some() {
        let dir = tempfile::tempdir().unwrap();
        for (threads, file) in both(dir.path()) {
            let (go, hold) = mpsc::channel::<()>();
            let hold = Arc::new(Mutex::new(hold));
            let read = |_| {
                let hold = Arc::clone(&hold);
                let done: Done = Box::new(move |_| assert!(hold.lock().recv().is_err()));
                ThreadRead { file: Arc::clone(&file), offset: 0, len: 1, done }
            };
            threads.submit((0..READS_MAX).map(read).collect());
            let (woken, wakes) = mpsc::channel();
            let waker = Waker::from(Arc::new(Tell(Mutex::new(woken))));
            assert!(threads.poll_room(&Context::from_waker(&waker)).is_pending());
            drop(go);
            wakes.recv().unwrap();
            assert!(threads.poll_room(&Context::from_waker(&waker)).is_ready());
        }
    }

    /// The clock moves only where the test moves it, so that only waits which it makes are long.
    #[test]
    fn waits_for_a_thread_and_for_room_are_counted() {
        const LONG: Duration = Duration::from_secs(2);
        let machine = SimEnv::new(1);
        let env = machine.env();
        let path = std::path::Path::new("file");
        env.fs.create(path).unwrap().write_all_at(&bytes(), 0).unwrap();
        let file = env.fs.open_read(path).unwrap();
        let threads = ReadThreads::new(env.fs, env.clock);
        let (begun, has_begun) = mpsc::channel();
        let (go, hold) = mpsc::channel::<()>();
        let hold = Arc::new(Mutex::new(hold));
        let read = |_| {
            let (hold, begun) = (Arc::clone(&hold), begun.clone());
            let done: Done = Box::new(move |_| {
                begun.send(()).unwrap();
                let _ = hold.lock().recv();
            });
            ThreadRead { file: Arc::clone(&file), offset: 0, len: 1, done }
        };
        // Each thread has taken one, and none takes another.
        threads.submit((0..THREADS_PREAD).map(read).collect());
        (0..THREADS_PREAD).for_each(|_| has_begun.recv().unwrap());
        threads.submit((THREADS_PREAD..READS_MAX).map(read).collect());
        let waits = || (threads.waits().count(), threads.waits().above(1_000_000));
        assert_eq!(waits(), (THREADS_PREAD as u64, 0));
        let mut room = std::pin::pin!(threads.room());
        let mut given_up = Box::pin(threads.room());
        let mut task = Context::from_waker(Waker::noop());
        assert!(room.as_mut().poll(&mut task).is_pending());
        assert!(given_up.as_mut().poll(&mut task).is_pending());
        machine.clock.advance(LONG);
        drop(given_up);
        assert_eq!(waits(), (THREADS_PREAD as u64 + 1, 1), "who gives up has waited");
        drop(go);
        block_on(room);
        (THREADS_PREAD..READS_MAX).for_each(|_| has_begun.recv().unwrap());
        let waited = (READS_MAX - THREADS_PREAD + 2) as u64;
        assert_eq!(waits(), (READS_MAX as u64 + 2, waited));
        block_on(threads.room());
        threads.submit(vec![read(0)]);
        has_begun.recv().unwrap();
        assert_eq!(waits(), (READS_MAX as u64 + 3, waited), "room that is there is no wait");
        threads.close();
        threads.submit(vec![read(0)]);
        assert_eq!(waits(), (READS_MAX as u64 + 4, waited), "a read that is refused counts, too");
    }

    #[test]
    fn a_call_that_panics_ends_its_own_read_only() {
        let dir = tempfile::tempdir().unwrap();
        for (threads, file) in both(dir.path()) {
            let (send, outcomes) = mpsc::channel();
            let read = |number: usize| {
                let send = send.clone();
                let done: Done = Box::new(move |read| {
                    assert!(!number.is_multiple_of(3), "on purpose");
                    send.send(read.is_ok()).unwrap();
                });
                ThreadRead { file: Arc::clone(&file), offset: 0, len: 1, done }
            };
            threads.submit((0..READS_MAX).map(read).collect());
            let told = READS_MAX - READS_MAX.div_ceil(3);
            assert_eq!(outcomes.iter().take(told).filter(|ok| *ok).count(), told);
            threads.close();
            assert_eq!(threads.under_way(), 0);
            // Also where the reads are refused.
            threads.submit((0..4).map(read).collect());
            assert_eq!((outcomes.try_iter().count(), threads.under_way()), (2, 0));
        }
    }

    struct Tell(Mutex<mpsc::Sender<()>>);

    impl std::task::Wake for Tell {
        fn wake(self: Arc<Self>) {
            self.0.lock().send(()).unwrap();
        }
    }
}
