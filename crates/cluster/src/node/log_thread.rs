//! The thread that writes the group log: rounds, new and removed replicas, descriptors, in the order in
//! which they came. It syncs once for all that came during the last sync.
//!
//! 1. A full disk is waited for. Nothing was written then, and the same write is tried again, after
//!    what all rounds let go was freed, those before it and those behind it: a log that fills its own disk
//!    mends itself. The driver asks for each cut once only.
//! 2. A write that the log refuses, and that is no round, is told to its caller. Nothing was written then.
//!    After any other failure nothing is acknowledged any more, and the node ends.
//! 3. A log is truncated after the sync of the round that asked for it, which wrote the commit, or earlier
//!    as far as the commit is in the log. A truncation that was asked for a replica is not made for
//!    another one of its group.

use super::inbox::Event;
use super::log_counts::{LogCounts, LogReadings};
use super::log_writes::{self, Prepared, log_group};
use super::open::Shared;
use crate::format::Descriptor;
use crate::group::{EntryId, GroupId, Input, ReplicaId, Round, Write};
use base::env::Clock;
use engine::group_log::{GroupWrite, HardState};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// Pause before a write is tried again that found no space.
const SPACE_PAUSE: Duration = Duration::from_millis(200);

/// A write of the log.
pub(super) enum Job {
    /// A round of the driver.
    Round(Round),
    /// Anything else; the sender is told when it is on disk, or why the log refused it.
    Alone(Alone, oneshot::Sender<Written>),
}

/// The outcome of a write that is no round.
pub(super) type Written = Result<(), String>;

/// A write that is no round.
pub(super) enum Alone {
    Create(GroupId, ReplicaId, Arc<Descriptor>),
    Describe(GroupId, ReplicaId, Arc<Descriptor>),
    Remove(GroupId, ReplicaId),
}

/// Writes on their way to the thread.
pub(super) struct LogJobs {
    state: Mutex<State>,
    arrived: Condvar,
    clock: Arc<dyn Clock>,
    syncs: AtomicU64,
    counts: LogCounts,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    /// When each of them came, by the monotonic clock.
    came: Vec<Duration>,
    closed: bool,
}

impl LogJobs {
    /// No writes so far. Their waits are measured by `clock`.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let (state, arrived, syncs) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        Self { state, arrived, clock, syncs, counts: LogCounts::new() }
    }

    /// Adds a write after all others. After the end it is dropped.
    pub(super) fn push(&self, job: Job) {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        if !state.closed {
            state.jobs.push(job);
            state.came.push(now);
            self.arrived.notify_one();
        }
    }

    fn take(&self) -> Option<Vec<Job>> {
        let (jobs, came) = {
            let mut state = self.state.lock();
            while state.jobs.is_empty() && !state.closed {
                self.arrived.wait(&mut state);
            }
            if state.closed {
                return None;
            }
            (std::mem::take(&mut state.jobs), std::mem::take(&mut state.came))
        };
        let now = self.clock.monotonic();
        came.into_iter().for_each(|came| self.counts.waited(now.saturating_sub(came)));
        Some(jobs)
    }

    /// Ends the thread; writes that it has not begun are dropped.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.jobs);
        drop(state);
        drop(dropped);
        self.arrived.notify_all();
    }

    /// Waits for the end for at most `longest`.
    fn pause(&self, longest: Duration) {
        let mut state = self.state.lock();
        if !state.closed {
            let _ = self.arrived.wait_for(&mut state, longest);
        }
    }

    /// Adds the starts of logs in the rounds that wait, up to the first other write.
    fn add_starts_ahead(&self, starts: &mut Vec<(GroupId, EntryId)>) {
        add_starts(&self.state.lock().jobs, starts);
    }

    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub(super) fn readings(&self) -> LogReadings {
        self.counts.read()
    }
}

/// Writes until the end, or until the log fails.
pub(super) fn run(shared: &Shared) {
    while let Some(jobs) = shared.log_jobs.take() {
        if let Err(error) = write(shared, jobs) {
            if !shared.health.ended() {
                shared.fail(format!("the group log failed: {error}"));
            }
            return;
        }
    }
}

/// The writes that the thread took at once.
struct Batch {
    /// Writes that are not begun.
    jobs: std::vec::IntoIter<Job>,
    /// Starts of logs that were asked for by writes that are begun.
    cuts: Vec<(GroupId, EntryId)>,
}

impl Batch {
    /// Returns all starts of logs that were asked for: before the write under way, with it, and behind it up to the first
    /// write that is no round.
    fn starts(&self, queued: &LogJobs) -> Vec<(GroupId, EntryId)> {
        let mut starts = self.cuts.clone();
        if add_starts(self.jobs.as_slice(), &mut starts) {
            queued.add_starts_ahead(&mut starts);
        }
        starts
    }
}

/// Adds the starts of logs in rounds up to the first other write. Returns true if there is no other write.
fn add_starts(jobs: &[Job], starts: &mut Vec<(GroupId, EntryId)>) -> bool {
    for job in jobs {
        match job {
            Job::Round(round) => starts.extend(round.writes.iter().filter_map(cut_of)),
            Job::Alone(..) => return false,
        }
    }
    true
}

fn write(shared: &Shared, jobs: Vec<Job>) -> engine::Result<()> {
    let mut batch = Batch { jobs: jobs.into_iter(), cuts: Vec::new() };
    let (mut saved, mut entries) = (None, 0);
    let mut done = Vec::new();
    while let Some(job) = batch.jobs.next() {
        match job {
            Job::Round(round) => {
                batch.cuts.extend(round.writes.iter().filter_map(cut_of));
                append_round(shared, &batch, &round.writes)?;
                entries += round.writes.iter().map(|write| write.entries.len()).sum::<usize>();
                saved = Some(round.number);
            }
            Job::Alone(alone, sender) => {
                let written = match append_alone(shared, &batch, &alone) {
                    Err(engine::Error::InvalidArgument(why)) => Err(why),
                    outcome => Ok(outcome?),
                };
                if let Alone::Create(group, ..) | Alone::Remove(group, _) = alone {
                    // They were asked for a replica that is no longer there.
                    batch.cuts.retain(|(of, _)| *of != group);
                }
                done.push((sender, written));
            }
        }
    }
    shared.log_jobs.syncs.fetch_add(1, Ordering::Relaxed);
    let begun = shared.clock.monotonic();
    shared.log.sync()?;
    let took = shared.clock.monotonic().saturating_sub(begun);
    shared.log_jobs.counts.synced(took, entries);
    if let Some(round) = saved {
        shared.inbox.push(Event::Input(Input::Saved { round }));
    }
    for (sender, written) in done {
        let _ = sender.send(written);
    }
    batch.cuts.into_iter().try_for_each(|(group, start)| truncate(shared, group, start))
}

fn cut_of(write: &Write) -> Option<(GroupId, EntryId)> {
    Some((write.group, write.start?))
}

/// Truncates the log of a group, as far as the log knows that the entries are committed.
fn truncate(shared: &Shared, group: GroupId, start: EntryId) -> engine::Result<()> {
    // It may have been removed since.
    let Some(alive) = log_writes::alive(&shared.log, group) else { return Ok(()) };
    shared.log.truncate(log_group(group), start.index.min(alive.hard.commit))
}

/// Frees what rounds let go, while the disk is full. Nothing is freed before the log is synced.
fn free_space(shared: &Shared, batch: &Batch) -> engine::Result<()> {
    let starts = batch.starts(&shared.log_jobs);
    starts.into_iter().try_for_each(|(group, start)| truncate(shared, group, start))?;
    match shared.log.reclaim() {
        Ok(_) | Err(engine::Error::NoSpace { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn append_round(shared: &Shared, batch: &Batch, writes: &[Write]) -> engine::Result<()> {
    let prepared: Vec<Prepared<'_>> = writes.iter().map(Prepared::new).collect();
    let round: Vec<GroupWrite<'_>> = prepared.iter().filter_map(Prepared::as_write).collect();
    append(shared, batch, &round)
}

fn append_alone(shared: &Shared, batch: &Batch, alone: &Alone) -> engine::Result<()> {
    match alone {
        Alone::Create(group, replica, descriptor) => {
            let create = GroupWrite::Create {
                group: log_group(*group),
                replica: replica.0,
                hard: HardState::default(),
                descriptor: &descriptor.encode(),
                start: log_writes::log_id(EntryId::default()),
            };
            append(shared, batch, &[create])
        }
        Alone::Describe(group, replica, descriptor) => {
            // The replica may have been removed while the command was applied.
            let alive = log_writes::alive(&shared.log, *group);
            if alive.is_none_or(|alive| alive.replica != replica.0) {
                return Ok(());
            }
            let describe = GroupWrite::Append {
                group: log_group(*group),
                hard: None,
                descriptor: Some(&descriptor.encode()),
                snapshot: None,
                first: 0,
                entries: &[],
            };
            append(shared, batch, &[describe])
        }
        Alone::Remove(group, least_replica) => {
            let group = log_group(*group);
            append(shared, batch, &[GroupWrite::Remove { group, least_replica: least_replica.0 }])
        }
    }
}

/// Appends, and waits while the disk is full.
fn append(shared: &Shared, batch: &Batch, round: &[GroupWrite<'_>]) -> engine::Result<()> {
    let mut waits = false;
    loop {
        match shared.log.append(round) {
            Err(engine::Error::NoSpace { .. }) if !shared.health.ended() => {
                if !std::mem::replace(&mut waits, true) {
                    tracing::warn!("the group log waits: the disk is full");
                    shared.counts.set_waits_for_space(true);
                }
                free_space(shared, batch)?;
                shared.log_jobs.pause(SPACE_PAUSE);
            }
            outcome => {
                if waits {
                    shared.counts.set_waits_for_space(false);
                }
                return outcome;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::SimEnv;

    fn cut(group: u64) -> (GroupId, EntryId) {
        (GroupId(group), EntryId { index: group * 10, term: 1 })
    }

    fn round(groups: &[u64]) -> Job {
        let write = |group: &u64| Write {
            group: cut(*group).0,
            start: Some(cut(*group).1),
            entries: Vec::new(),
            state: None,
        };
        Job::Round(Round { number: 1, writes: groups.iter().map(write).collect() })
    }

    fn removal() -> Job {
        Job::Alone(Alone::Remove(GroupId(9), ReplicaId(1)), oneshot::channel().0)
    }

    #[test]
    fn each_write_waits_until_the_thread_takes_it() {
        let machine = SimEnv::new(1);
        let jobs = LogJobs::new(machine.env().clock);
        jobs.push(round(&[1]));
        machine.clock.advance(Duration::from_secs(2));
        jobs.push(removal());
        machine.clock.advance(Duration::from_secs(1));
        assert_eq!(jobs.take().unwrap().len(), 2);
        let waits = jobs.readings().wait_micros;
        assert_eq!((waits.count(), waits.sum), (2, 4_000_000));
        jobs.push(round(&[1]));
        assert_eq!(jobs.take().unwrap().len(), 1);
        let waits = jobs.readings().wait_micros;
        assert_eq!((waits.count(), waits.sum), (3, 4_000_000));
    }

    #[test]
    fn a_full_disk_lets_go_what_rounds_before_and_behind_the_write_asked_for() {
        let starts = |behind: Vec<Job>, queued: Vec<Job>| {
            let jobs = LogJobs::new(SimEnv::new(1).env().clock);
            queued.into_iter().for_each(|job| jobs.push(job));
            let batch = Batch { jobs: behind.into_iter(), cuts: vec![cut(1), cut(2)] };
            let groups = batch.starts(&jobs).into_iter().map(|(group, _)| group.0);
            groups.collect::<Vec<_>>()
        };
        assert_eq!(starts(Vec::new(), Vec::new()), [1, 2]);
        assert_eq!(
            starts(vec![round(&[3]), round(&[4, 5])], vec![round(&[6])]),
            [1, 2, 3, 4, 5, 6]
        );
        assert_eq!(starts(vec![round(&[3]), removal(), round(&[4])], vec![round(&[6])]), [1, 2, 3]);
        assert_eq!(
            starts(vec![round(&[3])], vec![round(&[4]), removal(), round(&[6])]),
            [1, 2, 3, 4]
        );
    }
}
