//! A node whose log finds no space cannot acknowledge what its groups write. So it hands the groups that it
//! leads to replicas on other nodes.
//!
//! 1. The log has time to help itself first: a short want of space moves nothing.
//! 2. An heir has more on disk than this node, so its own disk takes what this one does not. A group
//!    without an heir stays. If nothing was written since, nothing waits.
//! 3. A handover that failed is tried again, with another heir if there is one.

use super::inbox::Event;
use super::open::Shared;
use crate::group::{GroupReport, Input, Member, NodeId, ReplicaId};
use std::num::NonZeroUsize;
use std::time::Duration;

/// Looks that find the log without space before groups move.
const LOOKS_BEFORE: usize = 2;
/// Longest wait for the driver.
const REPORT_MAX: Duration = Duration::from_secs(2);

/// Looks in succession that found the log without space.
#[derive(Debug, Default)]
pub(super) struct Looks(usize);

impl Looks {
    /// Looks at the log, and begins to hand groups over if it has had no space for some time.
    pub(super) fn look(&mut self, shared: &Shared) {
        if !shared.counts.waits_for_space() {
            self.0 = 0;
            return;
        }
        self.0 = self.0.saturating_add(1);
        if self.0 <= LOOKS_BEFORE {
            return;
        }
        let reports = shared.report(REPORT_MAX).unwrap_or_default();
        for report in reports.iter().filter(|report| report.leads) {
            let Some(to) = heir(report, shared.me, self.0) else { continue };
            tracing::warn!(
                group = report.group.0,
                "handing over a group: this node's disk is full"
            );
            let group = report.group;
            shared.inbox.push(Event::Input(Input::Transfer { group, to }));
        }
    }
}

/// Returns a replica that has more of the group's log on disk than the leader's on `me`, another one at each
/// turn.
fn heir(report: &GroupReport, me: NodeId, turn: usize) -> Option<ReplicaId> {
    let of = |member: Member| report.members.iter().find(|of| of.member == member);
    let own = of(report.leader?)?.matched?;
    let able = report.members.iter().filter(|of| {
        of.member.node != me && !of.is_behind && of.matched.is_some_and(|matched| matched > own)
    });
    let able: Vec<_> = able.collect();
    let count = NonZeroUsize::new(able.len())?;
    Some(able[turn % count].member.replica)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{GroupId, MemberReport};

    #[test]
    fn an_heir_has_more_on_disk_than_the_leader_and_changes_in_turn() {
        let member = |id| Member { replica: ReplicaId(id), node: NodeId(id) };
        let report = |matched: [u64; 3], is_behind: [bool; 3]| GroupReport {
            group: GroupId(16),
            term: 1,
            leads: true,
            leader: Some(member(1)),
            start: 0,
            last: 20,
            committed: 20,
            applied: 10,
            members: (0..3)
                .map(|at| MemberReport {
                    member: member(at as u64 + 1),
                    matched: Some(matched[at]),
                    is_behind: is_behind[at],
                })
                .collect(),
        };
        let heirs = |matched, is_behind| {
            let report = report(matched, is_behind);
            [0, 1].map(|turn| heir(&report, NodeId(1), turn).map(|heir| heir.0))
        };
        let none = [false; 3];
        assert_eq!(heirs([10, 20, 20], none), [Some(2), Some(3)]);
        assert_eq!(heirs([10, 10, 15], none), [Some(3), Some(3)], "node 2 is full, too");
        assert_eq!(heirs([10, 20, 15], [false, true, false]), [Some(3), Some(3)]);
        assert_eq!(heirs([20, 20, 20], none), [None, None], "nothing waits");
    }
}
