//! The thread of the driver: takes all inputs there are, steps, and hands out what is to be done.
//!
//! 1. The time of a step is read after its inputs were taken: leases rely on it.
//! 2. Roles are told before the answers that follow from them, and replicas open and close here only.

use super::hosted::Hosted;
use super::inbox::{Event, Opening};
use super::log_thread::Job;
use super::log_writes::{from_log, log_group};
use super::open::Shared;
use crate::group::{Driver, Entry, Fetch, Input, Output, Rejected, Time};
use std::sync::Arc;
use std::time::Duration;

/// Returns the time of the driver.
pub(super) fn now(shared: &Shared) -> Time {
    let since = shared.clock.boot_time().as_nanos();
    Time(u64::try_from(since).unwrap_or(u64::MAX))
}

/// Steps until the node ends.
pub(super) fn run(shared: &Arc<Shared>, mut driver: Driver) {
    let mut longest = Some(Duration::ZERO);
    while let Some(events) = shared.inbox.take(longest) {
        let inputs: Vec<Input> =
            events.into_iter().filter_map(|event| take(shared, &mut driver, event)).collect();
        let now = now(shared);
        let out = driver.step(now, inputs);
        let until = |tick: Time| Duration::from_nanos(tick.0.saturating_sub(now.0));
        longest = if out.more { Some(Duration::ZERO) } else { out.next_tick.map(until) };
        carry_out(shared, out);
    }
}

/// Does what an event orders, or returns the input that it is.
fn take(shared: &Arc<Shared>, driver: &mut Driver, event: Event) -> Option<Input> {
    let of = |hosted: &Arc<Hosted>| shared.replicas.has(hosted).then_some(hosted.group);
    match event {
        Event::Input(input) => Some(input),
        Event::Applied(hosted, index) => Some(Input::Applied { group: of(&hosted)?, index }),
        Event::Flushed(hosted, index) => Some(Input::Flushed { group: of(&hosted)?, index }),
        Event::Open(opening) => {
            let Opening { saved, hosted, committed, done } = *opening;
            let opened = driver.open(&saved, now(shared));
            if opened.is_ok() {
                shared.replicas.add(&hosted);
                shared.start_applying(&hosted, committed);
            }
            let _ = done.send(opened);
            None
        }
        Event::Report(asked) => {
            let _ = asked.send(driver.report());
            None
        }
        Event::Close(group, done) => {
            if let Some(hosted) = shared.replicas.remove(group) {
                hosted.set_removed();
                let _ = hosted.committed.send(Vec::new());
            }
            let _ = done.send(driver.close(group));
            None
        }
    }
}

fn carry_out(shared: &Arc<Shared>, out: Output) {
    for role in &out.roles {
        if let Some(hosted) = shared.replicas.of_group(role.group) {
            shared.counts.note_role(&hosted, role);
            hosted.set_role(role);
        }
    }
    for lease in &out.leases {
        if let Some(hosted) = shared.replicas.of_group(lease.group) {
            hosted.set_lease(lease);
        }
    }
    for (to, messages) in out.messages {
        shared.links.send(to, messages);
    }
    if let Some(round) = out.round {
        shared.log_jobs.push(Job::Round(round));
    }
    for committed in out.committed {
        if let Some(hosted) = shared.replicas.of_group(committed.group) {
            // The task ends with the node only.
            let _ = hosted.committed.send(committed.entries);
        }
    }
    for fetch in out.fetches {
        start_fetch(shared, fetch);
    }
    shared.requests.answer(out.answers);
    for seeding in out.seeding {
        shared.counts.note_behind(seeding, now(shared));
    }
    for group in out.let_go {
        shared.counts.note_forced_cut();
        tracing::warn!(
            group = group.0,
            "the group log is too long, or its disk is full: entries went that another replica lacks"
        );
    }
    for (group, why) in out.rejected {
        match why {
            Rejected::LogLost => tracing::error!(
                "the replica of group {} has lost entries that it had acknowledged: replace it",
                group.0
            ),
            Rejected::Malformed(rule) => {
                tracing::error!("a message for group {} breaks a rule: {rule}", group.0);
            }
            Rejected::UnknownGroup | Rejected::WrongMember => {
                tracing::debug!("a message for group {} found no replica", group.0);
            }
        }
    }
}

/// Reads entries for the driver, on a thread that may wait for the disk. Damage ends the node: what it has on
/// disk is not what it acknowledged.
fn start_fetch(shared: &Arc<Shared>, fetch: Fetch) {
    let (owner, counted) = (Arc::clone(shared), shared.tasks.begin());
    shared.runtime.spawn_blocking(move || {
        let (group, first) = (fetch.group, fetch.first);
        match read_entries(&owner, fetch) {
            Ok(entries) => {
                owner.inbox.push(Event::Input(Input::Fetched { group, first, entries }));
            }
            Err(why) => owner.fail(format!("entries of group {} cannot be read: {why}", group.0)),
        }
        drop(owner);
        drop(counted);
    });
}

/// Reads entries from the log; none if they are not there any more, or the disk fails. The driver asks again. An error
/// tells of damage.
fn read_entries(shared: &Shared, fetch: Fetch) -> Result<Vec<Entry>, String> {
    let Fetch { group, first, end, bytes_max } = fetch;
    let read = match shared.log.entries(log_group(group), first..end, bytes_max) {
        Ok(read) => read.unwrap_or_default(),
        Err(damage @ engine::Error::Corruption(_)) => return Err(damage.to_string()),
        Err(error) => {
            tracing::error!("entries of group {} cannot be read: {error}", group.0);
            Vec::new()
        }
    };
    let known = read.into_iter().map(|entry| {
        let index = entry.index;
        from_log(entry).ok_or_else(|| format!("entry {index} is of a kind that is not known"))
    });
    known.collect()
}
