//! A node whose log finds no space cannot acknowledge what its groups write. So it hands the groups that it
//! leads to replicas on other nodes.
//!
//! 1. The log has time to help itself first: a short want of space moves nothing.
//! 2. An heir has more on disk than this node, so its own disk takes what this one does not. A group
//!    without an heir stays. If nothing was written since, nothing waits.
//! 3. A handover that failed is tried again, with another heir if there is one ([`super::heirs`]).

use super::heirs::heir;
use super::inbox::Event;
use super::open::Shared;
use crate::group::{GroupReport, Input, NodeId, ReplicaId};
use std::time::Duration;

/// Looks that find the log without space before groups move.
const LOOKS_BEFORE: usize = 2;
/// Looks that find the log without space before it keeps nothing for other replicas.
const LOOKS_LONG: usize = 30;
/// Longest wait for the driver.
const REPORT_MAX: Duration = Duration::from_secs(2);

/// Looks in succession that found the log without space.
#[derive(Debug, Default)]
pub(super) struct Looks(usize);

impl Looks {
    /// Returns true if the log has had no space for so long that other replicas got what they could.
    pub(super) fn is_full_for_long(&self) -> bool {
        self.0 > LOOKS_LONG
    }

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
            let Some(to) = heir_with_room(report, shared.me, self.0) else { continue };
            tracing::warn!(
                group = report.group.0,
                "handing over a group: this node's disk is full"
            );
            let group = report.group;
            shared.inbox.push(Event::Input(Input::Transfer { group, to }));
        }
    }
}

/// Returns a replica that has more of the group's log on disk than the leader's on `me`.
fn heir_with_room(report: &GroupReport, me: NodeId, turn: usize) -> Option<ReplicaId> {
    let own = report.members.iter().find(|of| of.member.node == me)?.matched?;
    heir(report, me, turn, |of| of.matched.is_some_and(|matched| matched > own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{GroupId, Member, MemberReport};

    #[test]
    fn an_heir_has_more_on_disk_than_the_leader() {
        let member = |id| Member { replica: ReplicaId(id), node: NodeId(id) };
        let report = |matched: [u64; 3]| GroupReport {
            group: GroupId(16),
            term: 1,
            leads: true,
            leader: Some(member(1)),
            start: 0,
            last: 20,
            committed: matched[1].min(matched[2]).max(matched[0]),
            applied: 10,
            members: (1..=3)
                .map(|id| MemberReport {
                    member: member(id),
                    matched: Some(matched[id as usize - 1]),
                    is_behind: false,
                })
                .collect(),
        };
        let heirs = |matched| {
            [0, 1].map(|turn| heir_with_room(&report(matched), NodeId(1), turn).map(|heir| heir.0))
        };
        assert_eq!(heirs([10, 20, 20]), [Some(2), Some(3)]);
        assert_eq!(heirs([10, 10, 15]), [Some(3), Some(3)], "node 2 is full, too");
        assert_eq!(heirs([20, 20, 20]), [None, None], "nothing waits");
    }
}
