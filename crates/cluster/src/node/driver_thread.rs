//! The thread of the driver: takes all inputs there are, steps, and hands out what is to be done.
//!
//! 1. The time of a step is read after its inputs were taken: leases rely on it.
//! 2. Roles are told before the answers that follow from them, and replicas open and close here only.

use super::fetching;
use super::hosted::Hosted;
use super::inbox::{Event, Opening};
use super::log_thread::Job;
use super::open::Shared;
use crate::group::{Driver, Input, Output, Rejected, Time};
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
        fetching::start(shared, fetch);
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
