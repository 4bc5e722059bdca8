//! The condition of groups, for those who watch a node.

use super::data::{GroupId, Member};

/// A group as its replica on this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReport {
    /// Group that the replica belongs to.
    pub group: GroupId,
    /// Term that the replica is in.
    pub term: u64,
    /// True if the replica on this node leads.
    pub leads: bool,
    /// The leader, as far as this node knows.
    pub leader: Option<Member>,
    /// The last entry that the log has let go.
    pub start: u64,
    /// Last entry of the log here.
    pub last: u64,
    /// Last entry that is known to be committed.
    pub committed: u64,
    /// Last entry that the state machine here has applied.
    pub applied: u64,
    /// All members, with what a leader knows of them.
    pub members: Vec<MemberReport>,
}

/// A member of a group as its leader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberReport {
    /// The member, which may be the leader itself.
    pub member: Member,
    /// Last entry that it has on disk; None where this node does not lead.
    pub matched: Option<u64>,
    /// True if it lacks entries that the leader's log has let go: it must be seeded.
    pub is_behind: bool,
}

impl GroupReport {
    /// Returns the entries that a member lacks of the leader's log; None if that is not known here.
    pub fn lag(&self, of: &MemberReport) -> Option<u64> {
        Some(self.last.saturating_sub(of.matched?))
    }
}
