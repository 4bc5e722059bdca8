//! Group commit: concurrent batches become one append and one sync of the server's log.
//!
//! Steps of a commit:
//! 1. `submit` takes the checksum of the batch and queues it. If nobody leads, the caller leads:
//!    it takes all that waits.
//! 2. Under `log`, the leader numbers the batches, frames and appends them, and syncs as the
//!    durability mode says. Meanwhile others queue: the next group fills while this one syncs.
//! 3. It takes `applying`, lets go of `log`, and wakes one of those that queued meanwhile, who
//!    leads: the next group is written and synced while this one is applied.
//! 4. It applies the group to the memtables, publishes its last sequence number and wakes the
//!    group.
//!
//! Invariants:
//! 1. One leader at a time appends, and one applies. `applying` is taken while `log` is held, so
//!    groups are applied and published in log order; whoever holds `applying` (to freeze a
//!    memtable) meets no half-applied group. Whoever holds both (to ingest) meets none at all.
//! 2. Numbers are consecutive over all trees in log order; a group that failed to append leaves
//!    no gap.
//! 3. Commit times ascend in log order, also from one process to the next, and are not below any
//!    time that their batches carry: a time above the newest of them was never given before.
//! 4. After a failed append or sync the log refuses all that follows. Such a group was not
//!    acknowledged and is not applied; after reopening its batches may or may not be there.

use crate::batch::FrozenBatch;
use crate::cell::SequenceNumber;
use crate::error::{Error, Result};
use crate::locks::{CommitApplying, CommitLog, CommitOutcome, CommitQueue};
use crate::log::{COMMIT_TIME_END, LogRecord, LogWriter};
use crate::manifest::{CommitTimes, LogClosed, LogPosition};
use crate::options::{Durability, Options};
use crate::tree::TreeState;
use crate::tree::snapshots::Snapshots;
use base::checksum::crc32c;
use base::env::Clock;
use base::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How far times that writers set ([`crate::Tree::write_timed`]) may run ahead of the clock, in
/// microseconds: ten minutes. They keep to it themselves; who repairs a store relies on it.
pub const TIMES_AHEAD_MICROS_MAX: i64 = 600_000_000;

/// The commit queue of the server.
pub(crate) struct Commits {
    queue: Mutex<Queue, CommitQueue>,
    log: Mutex<Log, CommitLog>,
    /// Held while a group is applied and published.
    applying: Mutex<(), CommitApplying>,
    /// Of which the manifest writes down what the log gives up. Raised under `log`, before a record of
    /// that time can be given up.
    times: Arc<CommitTimes>,
    snapshots: Arc<Snapshots>,
    clock: Arc<dyn Clock>,
    durability: Durability,
    /// Payload bytes after which a leader takes no further batch into its group.
    group_bytes_max: usize,
    /// Groups committed and batches in them.
    pub(crate) groups: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Request>>,
    led: bool,
}

/// The log and what is numbered in it.
pub(crate) struct Log {
    writer: LogWriter,
    last: SequenceNumber,
    synced_at: Duration,
    unsynced: bool,
    closed: bool,
}

/// Where numbering goes on after recovery.
pub(crate) struct LogStart {
    /// The last sequence number in use.
    pub(crate) last: SequenceNumber,
    /// The newest commit time in the log.
    pub(crate) commit_time: u64,
}

/// How something failed that took a sequence number.
pub(crate) enum Failure {
    /// It is as if nothing had happened.
    Undone(Error),
    /// Whether it happened shows at the next open.
    InDoubt(Error),
}

struct Request {
    tree: Arc<TreeState>,
    batch: FrozenBatch,
    /// The newest time that the batch carries of those its writer was given; 0 if of none.
    time: u64,
    /// crc32c of the encoded batch.
    checksum: u32,
    /// Set once, under the queue's lock, when the batch was committed or refused.
    outcome: Mutex<Option<Result<SequenceNumber>>, CommitOutcome>,
    wake: Condvar,
}

impl Commits {
    /// A queue that appends to `writer` after `start`, and raises `times`.
    pub(crate) fn new(
        writer: LogWriter,
        start: LogStart,
        times: Arc<CommitTimes>,
        snapshots: Arc<Snapshots>,
        clock: Arc<dyn Clock>,
        options: &Options,
    ) -> Self {
        let synced_at = clock.monotonic();
        let LogStart { last, commit_time } = start;
        let log = Log { writer, last, synced_at, unsynced: false, closed: false };
        times.newest.fetch_max(commit_time, Ordering::Release);
        Self {
            queue: Mutex::default(),
            log: Mutex::new(log),
            applying: Mutex::default(),
            times,
            snapshots,
            clock,
            durability: options.durability,
            group_bytes_max: options.shape.group_bytes_max,
            groups: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    /// Commits `batch`, which carries times up to `time`, to `tree`; returns when it is durable (as
    /// the mode says) and visible. Lets go of `held` when it has its place in the queue, and with it
    /// in the order of commits.
    pub(crate) fn submit<H>(
        &self,
        tree: Arc<TreeState>,
        batch: FrozenBatch,
        time: u64,
        held: H,
    ) -> Result<SequenceNumber> {
        let checksum = crc32c(&[batch.encoding()]);
        let (outcome, wake) = (Mutex::default(), Condvar::new());
        let request = Arc::new(Request { tree, batch, time, checksum, outcome, wake });
        let mut queue = self.queue.lock();
        queue.waiting.push(Arc::clone(&request));
        if std::mem::needs_drop::<H>() {
            MutexGuard::unlocked(&mut queue, || drop(held));
        }
        loop {
            if let Some(outcome) = request.outcome.lock().take() {
                return outcome;
            }
            if queue.led {
                request.wake.wait(&mut queue);
                continue;
            }
            queue.led = true;
            let group = take_group(&mut queue.waiting, self.group_bytes_max);
            MutexGuard::unlocked(&mut queue, || self.commit(&group));
        }
    }

    /// Logs, applies and publishes `group`, and tells it.
    fn commit(&self, group: &[Arc<Request>]) {
        let _whole = NeverInPart;
        let mut log = self.log.lock();
        let first = self.log_group(&mut log, group);
        let applying = self.applying.lock();
        drop(log);
        self.pass_on_the_lead();
        if let Ok(first) = first {
            self.apply(group, first);
        }
        drop(applying);
        let _queue = self.queue.lock();
        wake(group, &first);
    }

    fn pass_on_the_lead(&self) {
        let mut queue = self.queue.lock();
        queue.led = false;
        if let Some(next) = queue.waiting.first() {
            next.wake.notify_one();
        }
    }

    /// Numbers `group`, appends it to the log and syncs. Returns the number of its first mutation.
    fn log_group(&self, log: &mut Log, group: &[Arc<Request>]) -> Result<SequenceNumber> {
        if log.closed {
            return Err(Error::Closed);
        }
        let first = SequenceNumber(log.last.0 + 1);
        let last = SequenceNumber(log.last.0 + count(group));
        if last > SequenceNumber::MAX {
            return Err(Error::stopped("sequence numbers are used up"));
        }
        self.append(log, group, first)?;
        log.last = last;
        Ok(first)
    }

    fn apply(&self, group: &[Arc<Request>], first: SequenceNumber) {
        for (request, first) in numbered(group, first) {
            let end = first.0 + request.batch.len() as u64 - 1;
            request.tree.apply(&request.batch, first, LogPosition(end));
        }
        self.snapshots.publish(SequenceNumber(first.0 + count(group) - 1));
    }

    fn append(&self, log: &mut Log, group: &[Arc<Request>], first: SequenceNumber) -> Result<()> {
        let carried = group.iter().map(|request| request.time).max().unwrap_or(0);
        let commit_time = self.next_commit_time(carried)?;
        let records: Vec<LogRecord<'_>> = numbered(group, first)
            .map(|(request, first)| LogRecord {
                tree: request.tree.id,
                first,
                commit_time,
                payload: request.batch.encoding(),
                payload_crc: request.checksum,
            })
            .collect();
        log.writer.append(&records)?;
        log.unsynced = true;
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.batches.fetch_add(group.len() as u64, Ordering::Relaxed);
        let bytes: usize = records.iter().map(|record| record.payload.len()).sum();
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let due = match self.durability {
            Durability::Sync => true,
            Durability::Interval(every) => self.clock.monotonic() >= log.synced_at + every,
            Durability::None => false,
        };
        if due { self.sync_log(log) } else { Ok(()) }
    }

    /// A commit time above all before it, and not below `least`. `WritesStopped` if no reader of the
    /// log would take it. Under `log`.
    fn next_commit_time(&self, least: u64) -> Result<u64> {
        let now = u64::try_from(self.clock.now_micros()).unwrap_or(0);
        self.times.clock.fetch_max(now.min(COMMIT_TIME_END - 1), Ordering::Release);
        let before = self.times.newest.load(Ordering::Relaxed);
        let time = now.max(before.saturating_add(1)).max(least);
        if time >= COMMIT_TIME_END {
            return Err(Error::stopped("commit times are used up"));
        }
        self.times.newest.store(time, Ordering::Release);
        Ok(time)
    }

    /// The newest commit time.
    pub(crate) fn commit_time(&self) -> u64 {
        self.times.newest.load(Ordering::Acquire)
    }

    /// The latest that the clock showed at a commit, as far as that is known.
    pub(crate) fn clock(&self) -> u64 {
        self.times.clock.load(Ordering::Acquire)
    }

    /// Raises the newest commit time to `time`, for something that carries it and is not in the log.
    pub(crate) fn note_time(&self, time: u64) {
        let _log = self.log.lock();
        self.times.newest.fetch_max(time.min(COMMIT_TIME_END - 1), Ordering::Release);
    }

    fn sync_log(&self, log: &mut Log) -> Result<()> {
        if log.unsynced {
            log.writer.sync()?;
            self.syncs.fetch_add(1, Ordering::Relaxed);
            log.unsynced = false;
        }
        log.synced_at = self.clock.monotonic();
        Ok(())
    }

    /// Returns the last number, and a time: all up to the number is on disk and published, no commit
    /// so far has a later time, and every later one has.
    pub(crate) fn settle(&self) -> Result<(SequenceNumber, u64)> {
        let mut log = self.log.lock();
        if log.closed {
            return Err(Error::Closed);
        }
        self.sync_log(&mut log)?;
        let _applying = self.applying.lock();
        let now = u64::try_from(self.clock.now_micros()).unwrap_or(0).min(COMMIT_TIME_END - 1);
        let before = self.times.newest.fetch_max(now, Ordering::AcqRel);
        Ok((self.snapshots.published(), now.max(before)))
    }

    /// Syncs what was appended, whatever the durability mode.
    pub(crate) fn sync(&self) -> Result<()> {
        self.sync_log(&mut self.log.lock())
    }

    /// Runs `act` while no group is being applied, and with it no memtable written.
    pub(crate) fn between_groups<T>(&self, act: impl FnOnce() -> T) -> T {
        let _applying = self.applying.lock();
        act()
    }

    /// Seals the log, on disk up to here, and runs `act` while no group is being logged or applied.
    pub(crate) fn sealed<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut log = self.log.lock();
        if log.closed {
            return Err(Error::Closed);
        }
        // One sync has what was appended and the seal.
        log.writer.rotate()?;
        self.syncs.fetch_add(u64::from(log.unsynced), Ordering::Relaxed);
        log.unsynced = false;
        let _applying = self.applying.lock();
        act()
    }

    /// Lets `act` use the next sequence number for something that is not in the log, and publish
    /// it, while no group is being logged or applied and all before it is on disk. Returns the
    /// number.
    ///
    /// After [`Failure::InDoubt`] the number may be in use at the next open, so that nothing may
    /// be numbered any more: writes stop.
    pub(crate) fn number_apart(
        &self,
        act: impl FnOnce(SequenceNumber) -> Result<(), Failure>,
    ) -> Result<SequenceNumber> {
        let _whole = NeverInPart;
        let mut log = self.log.lock();
        if log.closed {
            return Err(Error::Closed);
        }
        let number = SequenceNumber(log.last.0 + 1);
        if number > SequenceNumber::MAX {
            return Err(Error::stopped("sequence numbers are used up"));
        }
        // As with a flush: a power loss may take the newest of what was written, not some of its
        // midst. An unsynced log that is latched is refused here, too.
        log.writer.sync()?;
        self.syncs.fetch_add(u64::from(log.unsynced), Ordering::Relaxed);
        log.unsynced = false;
        // All before it is published.
        let _applying = self.applying.lock();
        match act(number) {
            Ok(()) => {
                log.last = number;
                Ok(number)
            }
            Err(Failure::Undone(error)) => Err(error),
            Err(Failure::InDoubt(error)) => {
                log.writer.stop((&error).into());
                Err(error)
            }
        }
    }

    /// Syncs, writes the closing record and refuses whatever comes after. Tells where the log
    /// now ends, if anything was written to it. Again: does nothing.
    pub(crate) fn close(&self) -> Result<Option<LogClosed>> {
        let mut log = self.log.lock();
        if log.closed {
            return Ok(None);
        }
        log.closed = true;
        let closed = log.writer.close()?;
        Ok(closed.map(|(segment, end)| LogClosed { segment, end }))
    }
}

/// Ends the process if a panic unwinds through a commit: memtables may then hold half a group,
/// which no later reader may see. The log holds all of it or nothing, so the next open is right.
struct NeverInPart;

impl Drop for NeverInPart {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// The batches of a group with the numbers of their first mutations.
fn numbered(
    group: &[Arc<Request>],
    first: SequenceNumber,
) -> impl Iterator<Item = (&Request, SequenceNumber)> {
    group.iter().scan(first, |next, request| {
        let first = *next;
        next.0 += request.batch.len() as u64;
        Some((&**request, first))
    })
}

fn take_group(waiting: &mut Vec<Arc<Request>>, bytes_max: usize) -> Vec<Arc<Request>> {
    let mut bytes = 0;
    let fits = waiting.iter().take_while(|request| {
        let room = bytes < bytes_max;
        bytes += request.batch.encoding().len();
        room
    });
    let count = fits.count();
    waiting.drain(..count).collect()
}

/// Mutations of a group.
fn count(group: &[Arc<Request>]) -> u64 {
    group.iter().map(|request| request.batch.len() as u64).sum()
}

/// Tells each of `group` its outcome, given the number of the group's first mutation. Under the
/// queue's lock.
fn wake(group: &[Arc<Request>], first: &Result<SequenceNumber>) {
    let number = *first.as_ref().unwrap_or(&SequenceNumber(0));
    for (request, first_of_batch) in numbered(group, number) {
        let last = SequenceNumber(first_of_batch.0 + request.batch.len() as u64 - 1);
        *request.outcome.lock() = Some(first.clone().map(|_| last));
        request.wake.notify_one();
    }
}
