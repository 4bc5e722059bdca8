//! The thread that keeps the group log short: tells the driver what trees have flushed, flushes the
//! trees of groups that keep old segments, and frees segments.
//!
//! 1. What is flushed and on the disks of all replicas goes at once: the driver sees to it.
//! 2. A group that keeps old segments has its trees flushed, once for what was applied until then. If
//!    that cannot be, or its log is not cut for it, its entries are appended again, so that it keeps no
//!    old segment.
//! 3. Entries that a replica lacks stay, and with them all segments after them, up to a bound of segments, or
//!    until the disk is full. Then entries go that only replicas lack which are away. Such a replica is
//!    told of by its leader when it comes back: it cannot go on from the log.
//! 4. While the log finds no space, groups that the node leads are handed over ([`super::full_disk`]).

use super::full_disk::Looks;
use super::hosted::Hosted;
use super::inbox::Event;
use super::log_writes::{self, log_group};
use super::open::Shared;
use crate::group::{GroupId, Input};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Groups that keep old segments.
type Pressed = BTreeMap<GroupId, Pressure>;

/// The last thing asked of a group that keeps old segments.
struct Pressure {
    /// Entry up to which it is to be flushed.
    wanted: u64,
    /// Start of its log when the driver was last told to cut it.
    shortened: Option<u64>,
}

/// Works until the node ends.
pub(super) fn run(shared: &Arc<Shared>) {
    let (mut pressed, mut looks) = (Pressed::new(), Looks::default());
    while !shared.upkeep.pause(shared.upkeep_every) {
        for hosted in shared.replicas.all() {
            report(shared, &hosted);
        }
        match relieve(shared, &mut pressed) {
            Ok(()) | Err(engine::Error::NoSpace { .. } | engine::Error::Closed) => {}
            Err(error) => return shared.fail(format!("the group log failed: {error}")),
        }
        looks.look(shared);
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

/// Makes the log shorter if it is too long. `pressed` are the groups that kept it long the last time.
fn relieve(shared: &Shared, pressed: &mut Pressed) -> engine::Result<()> {
    let is_full = shared.counts.waits_for_space();
    let groups: Vec<GroupId> = match is_full {
        true => shared.replicas.all().iter().map(|hosted| hosted.group).collect(),
        false => shared.log.groups_to_flush().into_iter().map(|group| GroupId(group.0)).collect(),
    };
    pressed.retain(|group, _| groups.contains(group));
    let is_too_long = shared.log.size().segments > shared.kept_segments_max;
    for group in groups {
        let Some(hosted) = shared.replicas.of_group(group) else {
            shared.log.append_again(log_group(group))?;
            continue;
        };
        let flushed = hosted.flushed.load(Ordering::Relaxed);
        let start = log_writes::alive(&shared.log, group).map_or(0, |state| state.start.index);
        let asked = pressed
            .entry(group)
            .or_insert_with(|| Pressure { wanted: hosted.applied(), shortened: None });
        if start >= flushed {
            // All that is flushed is gone: what keeps old segments came later.
            asked.wanted = asked.wanted.max(hosted.applied());
        }
        let is_flushed = flushed >= asked.wanted || flush(shared, &hosted, asked.wanted);
        // On a full disk nothing more may be flushed, but what is flushed can go.
        let shortens = is_full || flushed >= asked.wanted && is_too_long;
        // A replica that cannot cut its log, since it does not know what others have, keeps no old segment either.
        let is_stuck = shortens && asked.shortened == Some(start);
        if (!is_flushed || is_stuck) && !is_full {
            shared.log.append_again(log_group(group))?;
        }
        if shortens {
            asked.shortened = Some(start);
            shared.inbox.push(Event::Input(Input::Shorten { group }));
        }
    }
    shared.log.reclaim()?;
    Ok(())
}

/// Flushes the trees of a group. Returns true if they have flushed all that was wanted.
fn flush(shared: &Shared, hosted: &Arc<Hosted>, wanted: u64) -> bool {
    for tree in &hosted.trees {
        if let Err(error) = tree.flush() {
            tracing::warn!("a tree of group {} cannot be flushed: {error}", hosted.group.0);
        }
    }
    report(shared, hosted);
    hosted.flushed.load(Ordering::Relaxed) >= wanted
}
