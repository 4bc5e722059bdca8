//! The choice of the replica to which a leader hands its office.
//!
//! 1. An heir has on disk what is committed, so it can win the election at once. If there is no such replica, it is
//!    one with the most entries.
//! 2. A replica of which nothing was heard in the leader's term is no heir, and neither is one that the log
//!    cannot help any more. The caller knows more: what its own disk lacks, and which nodes it reaches.
//! 3. Heirs differ from group to group and from turn to turn: they share the load, and a handover that
//!    failed is tried with another one.

use crate::group::{GroupReport, MemberReport, NodeId, ReplicaId};
use std::num::NonZeroUsize;

/// Returns a replica that may lead the group instead of the leader on `me`, of the ones that are `able`. None if
/// there is no such replica, or `me` does not lead.
pub(crate) fn heir(
    report: &GroupReport,
    me: NodeId,
    turn: usize,
    able: impl Fn(&MemberReport) -> bool,
) -> Option<ReplicaId> {
    if !report.leads {
        return None;
    }
    let others = report.members.iter().filter(|of| of.member.node != me && !of.is_behind);
    let known = others.filter(|of| able(of)).filter_map(|of| Some((of.member, of.matched?)));
    let known: Vec<_> = known.collect();
    let most = known.iter().map(|(_, matched)| *matched).max()?.min(report.committed);
    let able: Vec<_> = known.iter().filter(|(_, matched)| *matched >= most).collect();
    let count = NonZeroUsize::new(able.len())?;
    Some(able[(turn + report.group.0 as usize) % count].0.replica)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{GroupId, Member};

    const GONE: Option<u64> = None;

    fn member(id: u64) -> Member {
        Member { replica: ReplicaId(id), node: NodeId(id) }
    }

    /// Returns what the leader on node 1 tells, which knows these last entries of its followers.
    fn report(followers: [Option<u64>; 2], behind: &[u64]) -> GroupReport {
        let matched = [Some(20), followers[0], followers[1]];
        let of = |id: u64| MemberReport {
            member: member(id),
            matched: matched[id as usize - 1],
            is_behind: behind.contains(&id),
        };
        GroupReport {
            group: GroupId(16),
            term: 1,
            leads: true,
            leader: Some(member(1)),
            start: 0,
            last: 20,
            committed: 15,
            applied: 10,
            members: (1..=3).map(of).collect(),
        }
    }

    fn heirs(
        report: &GroupReport,
        able: impl Fn(&MemberReport) -> bool + Copy,
    ) -> [Option<u64>; 2] {
        [0, 1].map(|turn| heir(report, NodeId(1), turn, able).map(|heir| heir.0))
    }

    #[test]
    fn an_heir_is_heard_and_has_what_is_committed_and_changes_in_turn() {
        let all = |_: &MemberReport| true;
        assert_eq!(heirs(&report([Some(20), Some(15)], &[]), all), [Some(2), Some(3)]);
        assert_eq!(heirs(&report([Some(14), Some(15)], &[]), all), [Some(3), Some(3)]);
        assert_eq!(heirs(&report([Some(9), Some(8)], &[]), all), [Some(2), Some(2)], "the most");
        assert_eq!(heirs(&report([Some(20), GONE], &[]), all), [Some(2), Some(2)]);
        assert_eq!(heirs(&report([Some(20), Some(20)], &[2]), all), [Some(3), Some(3)]);
        assert_eq!(heirs(&report([GONE, GONE], &[]), all), [None, None]);
        let follower = GroupReport { leads: false, ..report([Some(20), Some(20)], &[]) };
        assert_eq!(heirs(&follower, all), [None, None]);
        let next = GroupReport { group: GroupId(17), ..report([Some(20), Some(15)], &[]) };
        assert_eq!(heirs(&next, all), [Some(3), Some(2)], "groups share the load");
    }

    #[test]
    fn a_node_out_of_reach_gets_no_group() {
        let reached = |of: &MemberReport| of.member.node == NodeId(3);
        assert_eq!(heirs(&report([Some(20), Some(9)], &[]), reached), [Some(3), Some(3)]);
    }
}
