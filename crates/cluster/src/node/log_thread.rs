//! The thread that writes the group log: rounds, new and removed replicas, descriptors, in the order in
//! which they came. It syncs once for all that came during the last sync.
//!
//! 1. A full disk is waited for. Nothing was written then, and the same write is tried again.
//! 2. After any other failure nothing is acknowledged any more, and the node ends.
//! 3. A log is truncated after the sync of the round that asked for it, which wrote the commit.

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
    /// Anything else; the sender is told when it is on disk.
    Alone(Alone, oneshot::Sender<()>),
}

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
                let cut = |write: &Write| Some((write.group, write.start?));
                cuts.extend(round.writes.iter().filter_map(cut));
                saved = Some(round.number);
            }
            Job::Alone(alone, sender) => {
                append_alone(shared, &alone)?;
                done.push(sender);
            }
        }
    }
    shared.log_jobs.syncs.fetch_add(1, Ordering::Relaxed);
    shared.log.sync()?;
    if let Some(round) = saved {
        shared.inbox.push(Event::Input(Input::Saved { round }));
    }
    for sender in done {
        let _ = sender.send(());
    }
    for (group, start) in cuts {
        // It may have been removed since.
        if log_writes::alive(&shared.log, group).is_some() {
            shared.log.truncate(log_group(group), start.index)?;
        }
    }
    Ok(())
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
    let mut told = false;
    loop {
        match shared.log.append(round) {
            Err(engine::Error::NoSpace { .. }) if !shared.health.ended() => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!("the group log waits: the disk is full");
                }
                shared.log_jobs.pause(SPACE_PAUSE);
            }
            outcome => return outcome,
        }
    }
}
