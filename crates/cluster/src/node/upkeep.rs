//! The thread that keeps the group log short: tells the driver what trees have flushed, flushes the
//! trees of groups that keep old segments, and frees segments.
//!
//! 1. What is flushed and on the disks of all replicas goes at once: the driver sees to it.
//! 2. A group that keeps old segments has its trees flushed, once for what was applied until then. If
//!    that cannot be, or its log is not cut for it, its entries are appended again, so that it keeps no
//!    old segment ([`Again`]).
//! 3. Entries that a replica lacks stay, and with them all segments after them, up to a bound of segments, or
//!    until the disk is full. Then entries go that only replicas lack which are away or do not get on. At twice the
//!    bound, or in the oldest segment of a disk that stays full, all flushed entries go. A replica that lacks some
//!    is told of by its leader: it cannot go on from the log. Each group answers for its own oldest entry only.
//!    Before a leader lets go of entries that a replica lacks, it hands its group to a replica that has all of
//!    them: that one can go on helping ([`offered_to`]).
//! 4. What fails for one group keeps no other from its turn, and segments are freed after all of them.
//! 5. While the log finds no space, groups that the node leads are handed over ([`super::full_disk`]).

use super::full_disk::Looks;
use super::heirs::heir;
use super::hosted::Hosted;
use super::inbox::Event;
use super::log_writes::{self, log_group};
use super::open::Shared;
use crate::group::{GroupId, GroupReport, Input, Keep, NodeId, ReplicaId};
use engine::group_log::GroupLog;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Part of the log's length up to which entries are appended again at once.
const AGAIN_PART: u64 = 4;
/// Bytes that rounds append for each byte that is appended again.
const AGAIN_SHARE: u64 = 2;

/// Looks for which a group is offered to others before its leader lets go of what a replica lacks, and the ones
/// after which it is offered to another replica.
const OFFERS: usize = 30;
const OFFERS_EACH: usize = 10;
/// Longest wait for the driver.
const REPORT_MAX: Duration = Duration::from_secs(2);

/// Groups that keep old segments.
type Pressed = BTreeMap<GroupId, Pressure>;

/// The last thing asked of a group that keeps old segments.
struct Pressure {
    /// Entry up to which it is to be flushed.
    wanted: u64,
    /// Start of its log when the driver was last told to cut it.
    shortened: Option<u64>,
    /// Looks that offered the group to another replica.
    offers: usize,
}

/// The condition of the log at one look.
struct Look {
    /// The log finds no space, and has not found any for long.
    is_full: bool,
    is_full_for_long: bool,
    /// Segments from the oldest one that any group keeps to the newest, and how many there should be at most.
    most: usize,
    bound: usize,
}

impl Look {
    /// Returns what a group keeps whose oldest entry is so many segments old; None if it keeps everything that a
    /// replica lacks.
    fn keeps(&self, kept: usize) -> Option<Keep> {
        let is_oldest = self.is_full_for_long && kept > 0 && kept == self.most;
        if kept > 2 * self.bound || is_oldest {
            return Some(Keep::Nothing);
        }
        (self.is_full || kept > self.bound).then_some(Keep::ForLive)
    }
}

/// Returns the replica that is to lead a group before its leader on `me` lets go of flushed entries which a
/// replica lacks: one that has all of them. None if no replica lacks any, or there is no such replica.
fn offered_to(report: &GroupReport, me: NodeId, flushed: u64, offers: usize) -> Option<ReplicaId> {
    let others = || report.members.iter().filter(|of| of.member.node != me && !of.is_behind);
    if offers >= OFFERS || others().all(|of| of.matched.is_some_and(|has| has >= flushed)) {
        return None;
    }
    heir(report, me, offers / OFFERS_EACH, |of| of.matched.is_some_and(|has| has >= flushed))
}

/// Room for entries that are appended again. It is small beside the length that the log should have, and comes
/// back with what rounds append: entries that became old only since others were appended again would be appended
/// again without an end. A group that is not at work here borrows from it, for nothing else will ever cut its log;
/// and so does any group of a log that is beyond its bound.
#[derive(Debug, Default)]
struct Again {
    /// Below zero after a loan.
    left: i64,
    /// Bytes of it at most.
    most: u64,
    /// Bytes that rounds had appended at the last look.
    appended: u64,
}

/// A group whose entries are to be appended again.
#[derive(Debug, Clone, Copy)]
struct Stuck {
    group: GroupId,
    /// Bytes that its entries take in the log.
    bytes: u64,
    /// Segments from its oldest entry on.
    kept: usize,
    borrows: bool,
}

impl Again {
    fn of(log: &GroupLog) -> Self {
        let most = log.turn_bytes() / AGAIN_PART;
        Self { left: most.cast_signed(), most, appended: 0 }
    }

    /// Looks at what rounds have appended.
    fn look(&mut self, appended: u64) {
        let new = appended.saturating_sub(self.appended);
        self.appended = appended;
        let left = self.left.saturating_add_unsigned(new / AGAIN_SHARE);
        self.left = left.min(self.most.cast_signed());
    }

    /// Returns the groups whose entries are appended again now. The oldest ones come first, and none takes what an
    /// older one waits for.
    fn choose(&mut self, mut stuck: Vec<Stuck>) -> Vec<GroupId> {
        stuck.sort_by_key(|of| std::cmp::Reverse(of.kept));
        let mut chosen = Vec::new();
        for of in stuck {
            let has_room = if of.borrows { self.lends(of.bytes) } else { self.takes(of.bytes) };
            if has_room {
                chosen.push(of.group);
            } else if of.borrows || of.bytes <= self.most {
                break;
            }
        }
        chosen
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
    let size = shared.log.size();
    again.look(size.appended);
    let kept: Vec<_> = groups.iter().map(|of| shared.log.kept_segments(log_group(*of))).collect();
    let look = Look {
        is_full,
        is_full_for_long: is_full && looks.is_full_for_long(),
        most: kept.iter().copied().max().unwrap_or(0),
        bound: shared.kept_segments_max,
    };
    let lets_go = kept.iter().any(|kept| look.keeps(*kept) == Some(Keep::Nothing));
    let reports = if lets_go { shared.report(REPORT_MAX).unwrap_or_default() } else { Vec::new() };
    let mut stuck = Vec::new();
    for (group, kept) in groups.into_iter().zip(kept) {
        let hosted = shared.replicas.of_group(group);
        let report = reports.iter().find(|report| report.group == group);
        let is_stuck = hosted.as_ref().is_none_or(|hosted| {
            let asked = pressed.entry(group).or_insert_with(|| Pressure::new(hosted));
            !press(shared, hosted, asked, look.keeps(kept), report, is_full)
        });
        if is_stuck && !is_full {
            let bytes = shared.log.kept_bytes(log_group(group));
            let borrows = hosted.is_none() || size.segments > look.bound;
            stuck.push(Stuck { group, bytes, kept, borrows });
        }
    }
    for group in again.choose(stuck) {
        match shared.log.append_again(log_group(group)) {
            Err(engine::Error::NoSpace { .. }) => {
                tracing::debug!(group = group.0, "no space to append entries again");
            }
            done => done?,
        }
    }
    shared.log.reclaim()?;
    Ok(())
}

impl Pressure {
    fn new(hosted: &Hosted) -> Self {
        Self { wanted: hosted.applied(), shortened: None, offers: 0 }
    }
}

/// Flushes the trees of a group that keeps old segments, and asks the driver to cut its log if `shortens` says so,
/// or to hand the group over first. Returns false if neither helped the last time.
fn press(
    shared: &Shared,
    hosted: &Arc<Hosted>,
    asked: &mut Pressure,
    shortens: Option<Keep>,
    report: Option<&GroupReport>,
    is_full: bool,
) -> bool {
    let group = hosted.group;
    let flushed = hosted.flushed.load(Ordering::Relaxed);
    let start = log_writes::alive(&shared.log, group).map_or(0, |state| state.start.index);
    if start >= flushed {
        // All that is flushed is gone: what keeps old segments came later.
        asked.wanted = asked.wanted.max(hosted.applied());
    }
    let is_flushed = flushed >= asked.wanted || flush(shared, hosted, asked.wanted);
    // On a full disk nothing more may be flushed, but what is flushed can go.
    let Some(keep) = shortens.filter(|_| is_full || is_flushed) else { return is_flushed };
    let offers = asked.offers;
    let of = report.filter(|_| keep == Keep::Nothing);
    if let Some(to) = of.and_then(|report| offered_to(report, shared.me, flushed, offers)) {
        asked.offers += 1;
        tracing::debug!(group = group.0, "handing over a group: this log must let it go");
        shared.inbox.push(Event::Input(Input::Transfer { group, to }));
        return is_flushed;
    }
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
        let mut again = Again { left: 100, most: 200, appended: 0 };
        assert!(!again.takes(101), "large beside the log");
        assert!(again.takes(60) && again.takes(40) && !again.takes(1));
        // Appending again itself gives no room.
        again.look(0);
        assert!(!again.takes(1));
        again.look(60);
        assert!(again.takes(30) && !again.takes(1));
        again.look(10_000);
        assert!(!again.takes(201) && again.takes(200));
    }

    #[test]
    fn a_group_that_is_not_at_work_borrows_and_rounds_pay_it_back() {
        let mut again = Again { left: 1, most: 100, appended: 0 };
        assert!(again.lends(1000), "its log may be of any size");
        again.look(1900);
        assert!(!again.lends(1) && !again.takes(1));
        again.look(2100);
        assert!(again.takes(50));
    }

    #[test]
    fn a_large_group_gets_its_turn_beside_small_ones_that_are_stuck_again_and_again() {
        let mut again = Again { left: 100, most: 100, appended: 0 };
        let mut since = BTreeMap::from([(1, 0), (2, 0), (3, 0), (4, 1)]);
        let mut done = Vec::new();
        for look in 2..50 {
            again.look(look as u64 * 20);
            let stuck = since.iter().map(|(group, since)| Stuck {
                group: GroupId(*group),
                bytes: if *group == 4 { 80 } else { 10 },
                kept: look - since,
                borrows: false,
            });
            let stuck = stuck.collect();
            for group in again.choose(stuck) {
                since.insert(group.0, look);
                done.push(group.0);
            }
        }
        let turns = |of: u64| done.iter().filter(|group| **group == of).count();
        assert!(turns(4) > 2 && (1..=3).all(|small| turns(small) > 2), "{done:?}");
    }

    #[test]
    fn a_group_that_is_too_large_holds_up_no_other_and_borrows_in_a_log_beyond_its_bound() {
        let of =
            |group, bytes, kept, borrows| Stuck { group: GroupId(group), bytes, kept, borrows };
        let mut again = Again { left: 100, most: 100, appended: 0 };
        let chosen = again.choose(vec![of(1, 10, 3, false), of(2, 101, 5, false)]);
        assert_eq!(chosen, [GroupId(1)]);
        let chosen = again.choose(vec![of(1, 10, 3, true), of(2, 101, 5, true)]);
        assert_eq!(chosen, [GroupId(2)], "the oldest alone");
    }

    #[test]
    fn each_group_answers_for_its_own_oldest_entry() {
        let look =
            |is_full, is_full_for_long| Look { is_full, is_full_for_long, most: 9, bound: 2 };
        let keeps = |look: Look| [0, 2, 3, 4, 5, 9].map(|kept| look.keeps(kept));
        let (live, nothing) = (Some(Keep::ForLive), Some(Keep::Nothing));
        assert_eq!(keeps(look(false, false)), [None, None, live, live, nothing, nothing]);
        let wide = |is_full_for_long| Look { bound: 20, ..look(true, is_full_for_long) };
        assert_eq!(keeps(wide(false)), [live; 6]);
        assert_eq!(keeps(wide(true)), [live, live, live, live, live, nothing], "the oldest alone");
    }

    #[test]
    fn a_group_is_offered_to_a_replica_that_has_all_before_another_loses_its_entries() {
        use crate::group::{Member, MemberReport};
        let report = |matched: [Option<u64>; 3], behind: u64| GroupReport {
            group: GroupId(16),
            term: 1,
            leads: true,
            leader: None,
            start: 0,
            last: 20,
            committed: 18,
            applied: 18,
            members: (1..=3)
                .map(|id| MemberReport {
                    member: Member { replica: ReplicaId(id), node: NodeId(id) },
                    matched: matched[id as usize - 1],
                    is_behind: id == behind,
                })
                .collect(),
        };
        let to = |report: &GroupReport, offers| {
            offered_to(report, NodeId(1), 15, offers).map(|replica| replica.0)
        };
        let lacking = report([Some(20), Some(20), Some(9)], 0);
        assert_eq!((to(&lacking, 0), to(&lacking, OFFERS)), (Some(2), None));
        assert_eq!(to(&report([Some(20), Some(20), None], 0), 0), Some(2), "it was not heard");
        assert_eq!(to(&report([Some(20), Some(20), Some(15)], 0), 0), None, "nobody lacks any");
        assert_eq!(to(&report([Some(20), Some(20), Some(9)], 3), 0), None, "it is lost already");
        assert_eq!(to(&report([Some(20), Some(14), Some(9)], 0), 0), None, "nobody has all");
        let follower = GroupReport { leads: false, ..lacking };
        assert_eq!(to(&follower, 0), None);
    }
}
