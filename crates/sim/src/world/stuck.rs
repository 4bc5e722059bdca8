//! Worlds with a replica that is heard and does not get on: the state machines of its node stand still for as
//! long as there are faults, so its driver soon takes no more entries, and answers every heartbeat.
//!
//! 1. The logs of the other nodes must stay short all the same: they let go of what only this replica lacks.
//! 2. It is behind their start then, and is not seeded before all is healed, as long as that takes.
//! 3. Only disks and state machines are slow beside that. So the log is full of what clients write, and no
//!    leader has a reason to lose its office.

use super::plan::{Fault, Plan};
use super::{Event, World};
use base::env::Rng;
use cluster::group::{GroupId, NodeId};

/// Percent of worlds that have such a replica.
const PERCENT: u64 = 4;
/// Election timeouts after which it stops getting on.
const FROM: u64 = 8;
/// Most segments that the log of another node has when all is healed. They are up to 12 if nothing is let go.
const SEGMENTS_MAX: usize = 8;

/// The replica of a world that does not get on.
#[derive(Debug)]
pub(super) enum Stuck {
    /// It is chosen once there is a leader.
    ToCome,
    /// The node that it is on.
    On(NodeId),
}

/// Draws whether a world has such a replica, and changes its plan then.
pub(super) fn draw(plan: &mut Plan, rng: &mut Rng) -> Option<Stuck> {
    if !rng.chance(PERCENT) {
        return None;
    }
    (plan.nodes, plan.groups, plan.lost) = (3, 1, 0);
    plan.faults = vec![Fault::SlowDisk, Fault::SlowApply];
    (plan.rests, plan.loses_leader) = (false, false);
    plan.ballast = 300;
    (plan.segments, plan.flush_entries) = ((1 << 10, 2), 3);
    plan.shape.command_bytes_max = plan.shape.command_bytes_max.max(10 + plan.ballast);
    plan.shape.unapplied_bytes_max = 2000;
    plan.shape.away_timeouts = 1;
    Some(Stuck::ToCome)
}

impl World {
    /// Lets a follower get on no more, if there is a leader.
    pub(super) fn begin_stuck(&mut self) {
        if self.stuck.is_none() {
            return;
        }
        let timeout = self.plan.timeout();
        let leader = self.leader(GroupId(1));
        match leader.filter(|_| self.now >= FROM * timeout) {
            Some(leader) => {
                let others = self.others(leader);
                let node = *self.rng.pick(&others);
                self.tell(|| format!("the state machines of node {} stand still", node.0));
                self.stuck = Some(Stuck::On(node));
            }
            None => self.after(timeout, Event::Stick),
        }
    }

    /// Returns true while the state machines of a node stand still.
    pub(super) fn is_stuck(&self, node: NodeId) -> bool {
        self.healed.is_none() && matches!(self.stuck, Some(Stuck::On(stuck)) if stuck == node)
    }

    /// Returns true while no replica is seeded.
    pub(super) fn seeds_nobody(&self) -> bool {
        self.healed.is_none() && self.stuck.is_some()
    }

    /// Fails if the log of a node is long for a replica that did not get on.
    pub(super) fn check_lengths(&mut self) {
        let Some(Stuck::On(stuck)) = self.stuck else { return };
        let lengths: Vec<_> =
            self.nodes.iter().map(|(id, node)| (*id, node.disk.segments())).collect();
        self.tell(|| format!("segments of the logs: {lengths:?}"));
        let long = lengths.iter().find(|(id, length)| *id != stuck && *length > SEGMENTS_MAX);
        if let Some((id, length)) = long {
            let what = format!("the log of node {} has {length} segments", id.0);
            self.fail(format!("{what} for a replica on node {} that does not get on", stuck.0));
        }
    }
}
