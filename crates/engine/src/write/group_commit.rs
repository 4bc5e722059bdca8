//! Group commit: concurrent batches become one append and one sync of the server's log.
//!
//! Steps of a commit:
//! 1. A writer queues its batch ([`Request`]). If there is no leader, it sees to it that there is one: a
//!    writer that waits on its thread leads itself, and takes all that waits. For a task the threads of
//!    the engine lead ([`Commits::lead_for_tasks`]), or the task itself where that takes no waiting.
//! 2. Under `log`, the leader numbers the batches, frames and appends them, and syncs as the
//!    durability mode says. Meanwhile others queue: the next group fills while this one syncs.
//! 3. It takes `applying` and lets go of `log`. If the group is large, or the leader a writer, it passes
//!    on the lead: the next group is written and synced while this one is applied.
//! 4. It applies the group to the memtables, publishes its last sequence number, does for tasks what
//!    follows from a commit ([`Upkeep`]), and wakes the group.
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
//! 5. While a batch waits, `led` is set, or its writer is a thread that was woken to lead. Who sets
//!    `led` leads, or offers the lead to the threads of the engine.
//! 6. A write over several trees is one record of the log, takes consecutive numbers in the order of its
//!    trees, and is published whole.
//! 7. A task that leads does not wait: it only tries for locks, syncs nothing, begins no segment of the
//!    log, and commits few bytes. Whatever else is to be done, the threads of the engine do.

use crate::cell::SequenceNumber;
use crate::error::{Error, Result};
use crate::locks::{CommitApplying, CommitLog, CommitQueue};
use crate::log::{COMMIT_TIME_END, LogRecord, LogWriter};
use crate::manifest::{CommitTimes, LogClosed, LogPosition};
use crate::options::{Durability, Options};
use crate::tree::TreeState;
use crate::tree::snapshots::Snapshots;
use crate::write::commit_counters::CommitCounters;
use crate::write::group::{Lead, NeverInPart, by_tree, bytes_of, count, numbered, take_group};
use crate::write::numbered_log::{Failure, Log, LogStart, next_commit_time};
use crate::write::request::{Commit, Request, Writer};
use base::env::Clock;
use base::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How far times that writers set ([`crate::Tree::write_timed`]) may run ahead of the clock, in
/// microseconds: ten minutes. They keep to it themselves; who repairs a store relies on it.
pub const TIMES_AHEAD_MICROS_MAX: i64 = 600_000_000;
/// Most bytes of a group that a task commits: to write and apply them takes some 100 µs.
const TASK_BYTES_MAX: usize = 64 << 10;
/// Groups that a task commits for others after its own, before the threads of the engine go on.
const TASK_GROUPS_MAX: usize = 8;
/// Bytes of a group from which on another thread writes the next one while this one is applied. With
/// less, to wake that thread costs more than it saves.
const APART_BYTES_MIN: usize = 256 << 10;

/// The work that follows from a commit. It is not left to a task, which may be gone. No call panics.
pub(crate) trait Upkeep {
    /// Counts `bytes` that were committed to `tree`. Returns whether something follows from it. Does
    /// not wait.
    fn note(&self, tree: &Arc<TreeState>, bytes: usize) -> bool;

    /// Does what follows. May wait.
    fn keep_up(&self, tree: &Arc<TreeState>);

    /// Does what the policy says of writers after `error`.
    fn failed(&self, error: Error);
}

/// The commit queue of the server.
pub(crate) struct Commits {
    queue: Mutex<Queue, CommitQueue>,
    /// Signalled with `queue` when there is work for the threads of the engine.
    wanted: Condvar,
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
    pub(crate) counters: CommitCounters,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Request>>,
    led: bool,
    /// The lead is for the thread that takes it first.
    offered: bool,
    /// Trees of which tasks left something to do.
    left: Vec<Arc<TreeState>>,
    /// The threads are to end when nothing is left to do.
    threads_end: bool,
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
        let LogStart { last, commit_time } = start;
        let log = Log::new(writer, last, clock.monotonic());
        times.newest.fetch_max(commit_time, Ordering::Release);
        Self {
            queue: Mutex::default(),
            wanted: Condvar::new(),
            log: Mutex::new(log),
            applying: Mutex::default(),
            times,
            snapshots,
            clock,
            durability: options.durability,
            group_bytes_max: options.shape.group_bytes_max,
            counters: CommitCounters::default(),
        }
    }

    /// Commits the batch of a writer that waits on its thread; returns when it is durable (as the mode
    /// says) and visible. Lets go of `held` when the batch has its place in the queue, and with it in
    /// the order of commits.
    pub(crate) fn submit<H>(
        &self,
        request: Request,
        held: H,
        upkeep: &dyn Upkeep,
    ) -> Result<SequenceNumber> {
        let request = Arc::new(request);
        let mut queue = self.enqueue(&request, held);
        if queue.led {
            request.waits_from(self.clock.monotonic());
        }
        loop {
            if let Some(outcome) = request.take_outcome() {
                return outcome;
            }
            // If no batch waits, this one is in a group, of which its writer will be told.
            if queue.led || queue.waiting.is_empty() {
                if let Writer::Thread(wake) = &request.writer {
                    wake.wait(&mut queue);
                }
                continue;
            }
            queue.led = true;
            let group = take_group(&mut queue.waiting, self.group_bytes_max);
            MutexGuard::unlocked(&mut queue, || self.commit(&group, Lead::PassedOn, upkeep));
        }
    }

    /// The same for a writer that is a task: returns when the batch has its place, and what tells the
    /// outcome. Threads lead for tasks ([`Self::lead_for_tasks`]).
    pub(crate) fn submit_in_task<H>(
        &self,
        request: Request,
        held: H,
        upkeep: &dyn Upkeep,
    ) -> Commit {
        let request = Arc::new(request);
        let for_threads = self.durability == Durability::Sync;
        let begin_to_wait = || request.waits_from(self.clock.monotonic());
        if for_threads {
            begin_to_wait();
        }
        let mut queue = self.enqueue(&request, held);
        let leads = !queue.waiting.is_empty() && !std::mem::replace(&mut queue.led, true);
        if !for_threads {
            drop(queue);
            if !leads || !self.lead_in_task(upkeep) {
                begin_to_wait();
                if leads {
                    self.offer(&mut self.queue.lock());
                }
            }
        } else if leads {
            self.offer(&mut queue);
        }
        Commit::of(request)
    }

    fn enqueue<H>(&self, request: &Arc<Request>, held: H) -> MutexGuard<'_, Queue, CommitQueue> {
        let mut queue = self.queue.lock();
        queue.waiting.push(Arc::clone(request));
        if std::mem::needs_drop::<H>() {
            MutexGuard::unlocked(&mut queue, || drop(held));
        }
        queue
    }

    fn offer(&self, queue: &mut Queue) {
        queue.offered = true;
        self.wanted.notify_one();
    }

    /// Leads for tasks once, or does what they left to do; waits for either. `false` when the threads
    /// that do so are to end and nothing is left.
    pub(crate) fn lead_for_tasks(&self, upkeep: &dyn Upkeep) -> bool {
        let mut queue = self.queue.lock();
        loop {
            if std::mem::take(&mut queue.offered) {
                let group = take_group(&mut queue.waiting, self.group_bytes_max);
                drop(queue);
                let large = bytes_of(&group) >= APART_BYTES_MIN;
                let lead = if large { Lead::PassedOn } else { Lead::Kept };
                self.commit(&group, lead, upkeep);
                if lead == Lead::Kept {
                    self.keep_the_lead();
                }
                return true;
            }
            if let Some(tree) = queue.left.pop() {
                drop(queue);
                upkeep.keep_up(&tree);
                return true;
            }
            if queue.threads_end {
                return false;
            }
            self.wanted.wait(&mut queue);
        }
    }

    /// Lets the threads that lead for tasks end when nothing is left to do.
    pub(crate) fn end_threads(&self) {
        self.queue.lock().threads_end = true;
        self.wanted.notify_all();
    }

    /// Leads as a task that has the lead; `false` if it still has it, and other writers wait. Does not
    /// wait (invariant 7).
    fn lead_in_task(&self, upkeep: &dyn Upkeep) -> bool {
        for _ in 0..TASK_GROUPS_MAX {
            if !self.commit_in_task(upkeep) {
                return false;
            }
            let mut queue = self.queue.lock();
            if queue.waiting.is_empty() {
                queue.led = false;
                return true;
            }
        }
        false
    }

    /// Commits the next group, if that takes no waiting.
    fn commit_in_task(&self, upkeep: &dyn Upkeep) -> bool {
        let Some(mut log) = self.log.try_lock() else { return false };
        let Some(applying) = self.applying.try_lock() else { return false };
        if log.sync_is_due(self.durability, &*self.clock) {
            return false;
        }
        let group = {
            let mut queue = self.queue.lock();
            let group = take_group(&mut queue.waiting, TASK_BYTES_MAX);
            let records = group.iter().map(|request| request.shape());
            if bytes_of(&group) > TASK_BYTES_MAX || !log.writer.has_room(records) {
                queue.waiting.splice(0..0, group);
                return false;
            }
            group
        };
        let first = {
            let _whole = NeverInPart;
            let first = self.log_group(&mut log, &group, false);
            drop(log);
            if let Ok(first) = first {
                self.apply(&group, first);
            }
            first
        };
        drop(applying);
        match &first {
            Ok(_) => {
                let due = by_tree(&group).filter(|(tree, bytes)| upkeep.note(tree, *bytes));
                self.leave(due.map(|(tree, _)| tree));
            }
            Err(error) => upkeep.failed(error.clone()),
        }
        self.tell(&group, &first);
        true
    }

    /// Leaves what is due in `trees` to the threads.
    fn leave<'a>(&self, trees: impl Iterator<Item = &'a Arc<TreeState>>) {
        for tree in trees {
            let mut queue = self.queue.lock();
            if !queue.left.iter().any(|left| Arc::ptr_eq(left, tree)) {
                queue.left.push(Arc::clone(tree));
                self.wanted.notify_one();
            }
        }
    }

    /// Logs, applies and publishes `group`, and tells it.
    fn commit(&self, group: &[Arc<Request>], lead: Lead, upkeep: &dyn Upkeep) {
        let first = {
            let _whole = NeverInPart;
            let mut log = self.log_for(group);
            let sync = log.sync_is_due(self.durability, &*self.clock);
            let first = self.log_group(&mut log, group, sync);
            let applying = self.applying.lock();
            drop(log);
            if lead == Lead::PassedOn {
                self.pass_on_the_lead();
            }
            if let Ok(first) = first {
                self.apply(group, first);
            }
            drop(applying);
            first
        };
        match &first {
            Ok(_) => {
                let due = by_tree(group).filter(|(tree, bytes)| upkeep.note(tree, *bytes));
                due.for_each(|(tree, _)| upkeep.keep_up(tree));
            }
            Err(error) => upkeep.failed(error.clone()),
        }
        self.tell(group, &first);
    }

    /// Takes the log for `group`, which waits from now on if the log is not free. Looks at the clock only then.
    fn log_for(&self, group: &[Arc<Request>]) -> MutexGuard<'_, Log, CommitLog> {
        if let Some(log) = self.log.try_lock() {
            return log;
        }
        let now = self.clock.monotonic();
        group.iter().for_each(|request| request.waits_from(now));
        self.log.lock()
    }

    /// Offers the lead, if anybody waits: the calling thread takes it again next.
    fn keep_the_lead(&self) {
        let mut queue = self.queue.lock();
        queue.led = !queue.waiting.is_empty();
        queue.offered = queue.led;
    }

    /// Tells each of `group` its outcome, given the number of the group's first mutation.
    fn tell(&self, group: &[Arc<Request>], first: &Result<SequenceNumber>) {
        let number = *first.as_ref().unwrap_or(&SequenceNumber(0));
        let outcome_of = |request: &Request, first_of_batch: SequenceNumber| {
            let last = SequenceNumber(first_of_batch.0 + request.mutations() - 1);
            first.clone().map(|_| last)
        };
        if group.iter().any(|request| !request.is_of_task()) {
            let _queue = self.queue.lock();
            let threads = numbered(group, number).filter(|(request, _)| !request.is_of_task());
            threads.for_each(|(request, first)| request.tell_thread(outcome_of(request, first)));
        }
        let tasks = numbered(group, number).filter(|(request, _)| request.is_of_task());
        tasks.for_each(|(request, first)| request.tell_task(outcome_of(request, first)));
    }

    /// Gives the lead to the writer that waits longest, or to the threads if that is a task.
    fn pass_on_the_lead(&self) {
        let mut queue = self.queue.lock();
        queue.led = false;
        match queue.waiting.first().map(|next| &next.writer) {
            None => {}
            Some(Writer::Thread(wake)) => {
                wake.notify_one();
            }
            Some(Writer::Task) => {
                queue.led = true;
                self.offer(&mut queue);
            }
        }
    }

    /// Numbers `group`, appends it to the log, and syncs if `sync` says so. Returns the number of its
    /// first mutation.
    fn log_group(
        &self,
        log: &mut Log,
        group: &[Arc<Request>],
        sync: bool,
    ) -> Result<SequenceNumber> {
        self.counters.begun(group, &*self.clock);
        let (first, last) = log.next_numbers(count(group))?;
        self.append(log, group, first)?;
        if sync {
            let took = log.sync(&*self.clock, &self.counters)?;
            group.iter().for_each(|request| request.note_sync(took));
        }
        log.last = last;
        Ok(first)
    }

    fn apply(&self, group: &[Arc<Request>], first: SequenceNumber) {
        for (request, first) in numbered(group, first) {
            let mut next = first.0;
            for (tree, batch) in request.parts() {
                let first = SequenceNumber(next);
                next += batch.len() as u64;
                tree.apply(batch, first, LogPosition(next - 1));
            }
        }
        self.snapshots.publish(SequenceNumber(first.0 + count(group) - 1));
    }

    fn append(&self, log: &mut Log, group: &[Arc<Request>], first: SequenceNumber) -> Result<()> {
        let carried = group.iter().map(|request| request.time).max().unwrap_or(0);
        let commit_time = next_commit_time(&self.times, &*self.clock, carried)?;
        let records: Vec<LogRecord<'_>> = numbered(group, first)
            .map(|(request, first)| request.record(first, commit_time))
            .collect();
        log.append(&records)?;
        let bytes = records.iter().map(|record| record.payload.len()).sum();
        self.counters.appended(group.len(), bytes);
        Ok(())
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

    /// Returns the last number, and a time: all up to the number is on disk and published, no commit
    /// so far has a later time, and every later one has.
    pub(crate) fn settle(&self) -> Result<(SequenceNumber, u64)> {
        let mut log = self.log.lock();
        if log.closed {
            return Err(Error::Closed);
        }
        log.sync(&*self.clock, &self.counters)?;
        let _applying = self.applying.lock();
        let now = u64::try_from(self.clock.now_micros()).unwrap_or(0).min(COMMIT_TIME_END - 1);
        let before = self.times.newest.fetch_max(now, Ordering::AcqRel);
        Ok((self.snapshots.published(), now.max(before)))
    }

    /// Syncs what was appended, whatever the durability mode.
    pub(crate) fn sync(&self) -> Result<()> {
        self.log.lock().sync(&*self.clock, &self.counters).map(|_| ())
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
        let begun = self.clock.monotonic();
        log.writer.rotate()?;
        log.note_sync(begun, &*self.clock, &self.counters);
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
        let (number, _) = log.next_numbers(1)?;
        // As with a flush: a power loss may take the newest of what was written, not some of its
        // midst. An unsynced log that is latched is refused here, too.
        let begun = self.clock.monotonic();
        log.writer.sync()?;
        log.note_sync(begun, &*self.clock, &self.counters);
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

    /// Gives `count` sequence numbers to batches that another log holds, lets `apply` put them into
    /// memtables, and publishes them. Nothing is logged or synced. `apply` gets the first number.
    pub(crate) fn feed(&self, count: u64, apply: impl FnOnce(SequenceNumber)) -> Result<()> {
        let _whole = NeverInPart;
        let mut log = self.log.lock();
        let (first, last) = log.next_numbers(count)?;
        log.last = last;
        let _applying = self.applying.lock();
        drop(log);
        apply(first);
        self.snapshots.publish(last);
        Ok(())
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
