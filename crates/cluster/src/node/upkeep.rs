//! The thread that keeps the group log short: tells the driver what trees have flushed, flushes the
//! trees of groups that keep old segments, and frees segments.
//!
//! 1. What is flushed and on the disks of all replicas goes at once: the driver sees to it.
//! 2. A group that keeps old segments has its trees flushed, once for what was applied until then. If
//!    that cannot be, or its log is not cut for it, its entries are appended again, so that it keeps no
//!    old segment ([`Again`]).
//! 3. Entries that a replica lacks stay, and with them all segments after them, up to a bound of segments, or
//!    until the disk is full. Then entries go that only replicas lack which are away or do not get on. At twice the
//!    bound, or on a disk that stays full, all flushed entries go. A replica that lacks some is told of by its
//!    leader: it cannot go on from the log.
//! 4. What fails for one group keeps no other from its turn, and segments are freed after all of them.
//! 5. While the log finds no space, groups that the node leads are handed over ([`super::full_disk`]).

use super::full_disk::Looks;
use super::hosted::Hosted;
use super::inbox::Event;
use super::log_writes::{self, log_group};
use super::open::Shared;
use crate::group::{GroupId, Input, Keep};
use engine::group_log::GroupLog;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Part of the log's length up to which entries are appended again at once.
const AGAIN_PART: u64 = 4;
/// Bytes that rounds append for each byte that is appended again.
const AGAIN_SHARE: u64 = 2;

/// Groups that keep old segments.
type Pressed = BTreeMap<GroupId, Pressure>;

/// The last thing asked of a group that keeps old segments.
struct Pressure {
    /// Entry up to which it is to be flushed.
    wanted: u64,
    /// Start of its log when the driver was last told to cut it.
    shortened: Option<u64>,
}

/// Room for entries that are appended again. It is small beside the length that the log should have, and comes
/// back with what rounds append: entries that became old only since others were appended again would be appended
/// again without an end. A group that is not at work here borrows from it: nothing else will ever cut its log.
#[derive(Debug, Default)]
struct Again {
    /// Below zero after a loan.
    left: i64,
    /// Bytes that rounds had appended at the last look.
    appended: u64,
}

impl Again {
    fn of(log: &GroupLog) -> Self {
        Self { left: (log.turn_bytes() / AGAIN_PART).cast_signed(), appended: 0 }
    }

    /// Looks at what rounds have appended, to a log that should have so many bytes.
    fn look(&mut self, appended: u64, turn_bytes: u64) {
        let new = appended.saturating_sub(self.appended);
        self.appended = appended;
        let left = self.left.saturating_add_unsigned(new / AGAIN_SHARE);
        self.left = left.min((turn_bytes / AGAIN_PART).cast_signed());
    }

    /// Returns true if so many bytes may be appended again, and counts them.
    fn takes(&mut self, bytes: u64) -> bool {
        let fits = self.left.checked_sub_unsigned(bytes).is_some_and(|left| left >= 0);
        fits && self.lends(bytes)
    }

    /// Returns true if any bytes may be appended again, and counts these, however many they are.
    fn lends(&mut self, bytes: u64) -> bool {
        let has_some = self.left > 0;
        if has_some {
            self.left = self.left.saturating_sub_unsigned(bytes);
        }
        has_some
    }
}

/// Works until the node ends.
pub(super) fn run(shared: &Arc<Shared>) {
    let (mut pressed, mut looks) = (Pressed::new(), Looks::default());
    let mut again = Again::of(&shared.log);
    while !shared.upkeep.pause(shared.upkeep_every) {
        for hosted in shared.replicas.all() {
            report(shared, &hosted);
        }
        match relieve(shared, &mut pressed, &mut again, &looks) {
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
fn relieve(
    shared: &Shared,
    pressed: &mut Pressed,
    again: &mut Again,
    looks: &Looks,
) -> engine::Result<()> {
    let is_full = shared.counts.waits_for_space();
    let groups: Vec<GroupId> = match is_full {
        true => shared.replicas.all().iter().map(|hosted| hosted.group).collect(),
        false => shared.log.groups_to_flush().into_iter().map(|group| GroupId(group.0)).collect(),
    };
    pressed.retain(|group, _| groups.contains(group));
    let (size, bound) = (shared.log.size(), shared.kept_segments_max);
    again.look(size.appended, shared.log.turn_bytes());
    let keep = match size.segments > 2 * bound || looks.is_full_for_long() {
        true => Keep::Nothing,
        false => Keep::ForLive,
    };
    let shortens = (is_full || size.segments > bound).then_some(keep);
    for group in groups {
        let hosted = shared.replicas.of_group(group);
        let is_stuck =
            hosted.as_ref().is_none_or(|hosted| !press(shared, hosted, pressed, shortens, is_full));
        if !is_stuck || is_full {
            continue;
        }
        let bytes = shared.log.kept_bytes(log_group(group));
        let has_room = if hosted.is_some() { again.takes(bytes) } else { again.lends(bytes) };
        if has_room {
            match shared.log.append_again(log_group(group)) {
                Err(engine::Error::NoSpace { .. }) => {
                    tracing::debug!(group = group.0, "no space to append entries again");
                }
                done => done?,
            }
        }
    }
    shared.log.reclaim()?;
    Ok(())
}

/// Flushes the trees of a group that keeps old segments, and asks the driver to cut its log if `shortens` says so.
/// Returns false if neither helped the last time.
fn press(
    shared: &Shared,
    hosted: &Arc<Hosted>,
    pressed: &mut Pressed,
    shortens: Option<Keep>,
    is_full: bool,
) -> bool {
    let group = hosted.group;
    let flushed = hosted.flushed.load(Ordering::Relaxed);
    let start = log_writes::alive(&shared.log, group).map_or(0, |state| state.start.index);
    let new = || Pressure { wanted: hosted.applied(), shortened: None };
    let asked = pressed.entry(group).or_insert_with(new);
    if start >= flushed {
        // All that is flushed is gone: what keeps old segments came later.
        asked.wanted = asked.wanted.max(hosted.applied());
    }
    let is_flushed = flushed >= asked.wanted || flush(shared, hosted, asked.wanted);
    // On a full disk nothing more may be flushed, but what is flushed can go.
    let Some(keep) = shortens.filter(|_| is_full || is_flushed) else { return is_flushed };
    // A replica that cannot cut its log, since it does not know what others have, keeps no old segment either.
    let is_stuck = asked.shortened.replace(start) == Some(start);
    shared.inbox.push(Event::Input(Input::Shorten { group, keep }));
    is_flushed && !is_stuck
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_appended_again_only_while_rounds_append_more() {
        let mut again = Again { left: 100, appended: 0 };
        assert!(!again.takes(101), "large beside the log");
        assert!(again.takes(60) && again.takes(40) && !again.takes(1));
        // Appending again itself gives no room.
        again.look(0, 400);
        assert!(!again.takes(1));
        again.look(60, 400);
        assert!(again.takes(30) && !again.takes(1));
        again.look(10_000, 400);
        assert!(!again.takes(101) && again.takes(100));
    }

    #[test]
    fn a_group_that_is_not_at_work_borrows_and_rounds_pay_it_back() {
        let mut again = Again { left: 1, appended: 0 };
        assert!(again.lends(1000), "its log may be of any size");
        again.look(1900, 400);
        assert!(!again.lends(1) && !again.takes(1));
        again.look(2100, 400);
        assert!(again.takes(50));
    }
}
