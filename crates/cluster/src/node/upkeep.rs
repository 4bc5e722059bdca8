//! The thread that keeps the group log short: tells the driver what trees have flushed, flushes the
//! trees of groups that keep old segments, and frees segments.
//!
//! A group whose entries stay in old segments after its trees were flushed keeps them for replicas that
//! are behind. If all its nodes are connected, it lets go of them. Else they are appended again, and so
//! are the entries of a group that cannot be flushed.

use super::hosted::Hosted;
use super::inbox::Event;
use super::log_writes::log_group;
use super::open::Shared;
use crate::group::{GroupId, Input};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Works until the node ends.
pub(super) fn run(shared: &Arc<Shared>) {
    let mut pressed = BTreeSet::new();
    while !shared.upkeep.pause(shared.upkeep_every) {
        for hosted in shared.replicas.all() {
            report(shared, &hosted);
        }
        match relieve(shared, &pressed) {
            Ok(now) => pressed = now,
            Err(engine::Error::NoSpace { .. } | engine::Error::Closed) => {}
            Err(error) => return shared.fail(format!("the group log failed: {error}")),
        }
    }
}

/// Tells the driver up to which entry a replica is flushed, if that has changed.
fn report(shared: &Shared, hosted: &Arc<Hosted>) {
    // The tree of a replica that is being removed may be gone.
    let Ok(flushed) = hosted.flushed_now() else { return };
    if hosted.flushed.fetch_max(flushed, Ordering::Relaxed) < flushed {
        shared.inbox.push(Event::Flushed(Arc::clone(hosted), flushed));
    }
}

/// Makes the log shorter if it is too long. `before` are the groups whose trees were flushed for it the
/// last time. Returns the ones of this time.
fn relieve(shared: &Shared, before: &BTreeSet<GroupId>) -> engine::Result<BTreeSet<GroupId>> {
    let mut pressed = BTreeSet::new();
    for group in shared.log.groups_to_flush() {
        let group = GroupId(group.0);
        let Some(hosted) = shared.replicas.of_group(group) else {
            shared.log.append_again(log_group(group))?;
            continue;
        };
        if before.contains(&group) {
            let members = hosted.descriptor().members.clone();
            let lost = shared.lost.lock();
            let complete = members.iter().all(|member| !lost.contains(&member.node));
            drop(lost);
            if complete && is_flushed(&hosted) {
                shared.inbox.push(Event::Input(Input::Shorten { group }));
            } else {
                shared.log.append_again(log_group(group))?;
            }
            continue;
        }
        for tree in &hosted.trees {
            if let Err(error) = tree.flush() {
                tracing::warn!("a tree of group {} cannot be flushed: {error}", group.0);
            }
        }
        report(shared, &hosted);
        pressed.insert(group);
    }
    shared.log.reclaim()?;
    Ok(pressed)
}

/// Returns true if little is applied that is not flushed.
fn is_flushed(hosted: &Hosted) -> bool {
    let flushed = hosted.flushed.load(Ordering::Relaxed);
    hosted.applied().saturating_sub(flushed) < UNFLUSHED_MAX
}

/// Entries that may have come since the last flush of a group that can be flushed.
const UNFLUSHED_MAX: u64 = 4096;
