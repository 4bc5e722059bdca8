//! The thread that writes the group log: rounds, new and removed replicas, descriptors, in the order in
//! which they came. It syncs once for all that came during the last sync.
//!
//! 1. A full disk is waited for. Nothing was written then, and the same write is tried again, after
//!    what the rounds behind it let go was freed: a log that fills its own disk mends itself.
//! 2. A write that the log refuses, and that is no round, is told to its caller. Nothing was written then.
//!    After any other failure nothing is acknowledged any more, and the node ends.
//! 3. A log is truncated after the sync of the round that asked for it, which wrote the commit, or earlier
//!    as far as the commit is in the log. A truncation that was asked for a replica is not made for
//!    another one of its group.

use super::inbox::Event;
use super::log_writes::{self, Prepared, log_group};
use super::open::Shared;
use crate::format::Descriptor;
use crate::group::{EntryId, GroupId, Input, ReplicaId, Round, Write};
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
#[derive(Default)]
pub(super) struct LogJobs {
    state: Mutex<State>,
    arrived: Condvar,
    syncs: AtomicU64,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    closed: bool,
}

impl LogJobs {
    /// Adds a write after all others. After the end it is dropped.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        if !state.closed {
            state.jobs.push(job);
            self.arrived.notify_one();
        }
    }

    fn take(&self) -> Option<Vec<Job>> {
        let mut state = self.state.lock();
        while state.jobs.is_empty() && !state.closed {
            self.arrived.wait(&mut state);
        }
        (!state.closed).then(|| std::mem::take(&mut state.jobs))
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

    /// Returns the starts of logs in the rounds that wait, of each group up to its first other write.
    fn starts_ahead(&self) -> Vec<(GroupId, EntryId)> {
        let state = self.state.lock();
        let rounds = state.jobs.iter().map_while(|job| match job {
            Job::Round(round) => Some(round),
            Job::Alone(..) => None,
        });
        rounds.flat_map(|round| round.writes.iter().filter_map(cut_of)).collect()
    }

    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
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

fn write(shared: &Shared, jobs: Vec<Job>) -> engine::Result<()> {
    let mut saved = None;
    let mut cuts: Vec<(GroupId, EntryId)> = Vec::new();
    let mut done = Vec::new();
    for job in jobs {
        match job {
            Job::Round(round) => {
                append_round(shared, &round.writes)?;
                cuts.extend(round.writes.iter().filter_map(cut_of));
                saved = Some(round.number);
            }
            Job::Alone(alone, sender) => {
                let written = match append_alone(shared, &alone) {
                    Err(engine::Error::InvalidArgument(why)) => Err(why),
                    outcome => Ok(outcome?),
                };
                if let Alone::Create(group, ..) | Alone::Remove(group, _) = alone {
                    // They were asked for a replica that is no longer there.
                    cuts.retain(|(of, _)| *of != group);
                }
                done.push((sender, written));
            }
        }
    }
    shared.log_jobs.syncs.fetch_add(1, Ordering::Relaxed);
    shared.log.sync()?;
    if let Some(round) = saved {
        shared.inbox.push(Event::Input(Input::Saved { round }));
    }
    for (sender, written) in done {
        let _ = sender.send(written);
    }
    cuts.into_iter().try_for_each(|(group, start)| truncate(shared, group, start))
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

/// Frees what the waiting rounds let go, while the disk is full.
fn free_space(shared: &Shared) -> engine::Result<()> {
    let starts = shared.log_jobs.starts_ahead();
    starts.into_iter().try_for_each(|(group, start)| truncate(shared, group, start))?;
    match shared.log.reclaim() {
        Ok(_) | Err(engine::Error::NoSpace { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn append_round(shared: &Shared, writes: &[Write]) -> engine::Result<()> {
    let prepared: Vec<Prepared<'_>> = writes.iter().map(Prepared::new).collect();
    let round: Vec<GroupWrite<'_>> = prepared.iter().filter_map(Prepared::as_write).collect();
    append(shared, &round)
}

fn append_alone(shared: &Shared, alone: &Alone) -> engine::Result<()> {
    match alone {
        Alone::Create(group, replica, descriptor) => {
            let create = GroupWrite::Create {
                group: log_group(*group),
                replica: replica.0,
                hard: HardState::default(),
                descriptor: &descriptor.encode(),
                start: log_writes::log_id(EntryId::default()),
            };
            append(shared, &[create])
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
            append(shared, &[describe])
        }
        Alone::Remove(group, least_replica) => {
            let group = log_group(*group);
            append(shared, &[GroupWrite::Remove { group, least_replica: least_replica.0 }])
        }
    }
}

/// Appends, and waits while the disk is full.
fn append(shared: &Shared, round: &[GroupWrite<'_>]) -> engine::Result<()> {
    let mut waits = false;
    loop {
        match shared.log.append(round) {
            Err(engine::Error::NoSpace { .. }) if !shared.health.ended() => {
                if !std::mem::replace(&mut waits, true) {
                    tracing::warn!("the group log waits: the disk is full");
                    shared.counts.set_waits_for_space(true);
                }
                free_space(shared)?;
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
