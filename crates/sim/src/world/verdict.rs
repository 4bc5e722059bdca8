//! The end of a world: everything is healed, and must soon be well.

use super::clock::RIGHT;
use super::disk::End;
use super::{Client, Event, World, linear};
use cluster::group::GroupId;
use std::collections::VecDeque;

/// Election timeouts after healing, in which all must be well.
const PATIENCE: u64 = 80;

impl World {
    /// Ends all faults. Then every group is asked to write, and for all its rows.
    pub(super) fn heal(&mut self) {
        self.tell(|| "all is healed".into());
        self.check_lengths();
        let (now, timeout) = (self.now, self.plan.timeout());
        self.healed = Some(now);
        for id in self.node_ids() {
            let delay = self.span(1000);
            self.after(delay, Event::Start { node: id });
            if let Some(node) = self.nodes.get_mut(&id) {
                node.still_until = now;
                (node.slow_disk, node.slow_apply) = (0, 0);
                node.clock.set_speed(now, RIGHT);
            }
            self.step_soon(id);
            for other in self.others(id) {
                self.set_cut(id, other, false);
                self.network.stream(id, other).slow = 0;
                let delay = self.span(1000);
                self.after(delay, Event::Connect { one: id, other });
            }
        }
        self.set_goals(12 * timeout);
        self.after(13 * timeout, Event::Verdict);
    }

    /// Adds a client for each group which will not rest before it has written and has read all rows.
    fn set_goals(&mut self, delay: u64) {
        for group in self.group_ids() {
            let rows = self.history.rows_of(group);
            let reads = rows.into_iter().map(|row| ((group, row), false));
            let goals: VecDeque<_> = std::iter::once(((group, 0), true)).chain(reads).collect();
            let client = self.clients.len();
            self.clients.push(Client::with_goals(goals));
            self.after(delay, Event::Think { client });
        }
    }

    /// Looks if all is well by now, and fails if it is not for too long.
    pub(super) fn judge(&mut self) {
        let timeout = self.plan.timeout();
        let since = self.lost.map(|(_, at)| at).or(self.healed).unwrap_or(self.now);
        match self.missing() {
            None if self.plan.loses_leader && self.lost.is_none() => {
                self.lose_leader();
                self.set_goals(5 * timeout);
            }
            None => self.is_right = true,
            Some(missing) if self.now > since + PATIENCE * timeout => {
                let what = self.lost.map_or("healing", |_| "a loss");
                self.fail(format!("{PATIENCE} election timeouts after {what}, {missing}"));
            }
            Some(_) => {}
        }
        self.after(timeout, Event::Verdict);
    }

    /// Loses the node of a leader for good.
    fn lose_leader(&mut self) {
        let group = GroupId(1 + self.rng.below(self.plan.groups));
        let Some(leader) = self.leader(group) else { return };
        self.calm.clear();
        self.lost = Some((leader, self.now));
        self.end(leader, End::PowerLoss, u64::MAX / 2);
    }

    /// Returns what is not well yet.
    fn missing(&self) -> Option<String> {
        let goals = self.clients.iter().filter_map(|client| client.goals.as_ref());
        if let Some((row, _)) = goals.filter_map(VecDeque::front).next() {
            return Some(format!("{row:?} does not serve"));
        }
        for group in self.group_ids() {
            let mut states = Vec::new();
            let lost = self.lost.map(|(node, _)| node);
            for (id, node) in self.nodes.iter().filter(|(id, _)| Some(**id) != lost) {
                let Some(process) = &node.process else {
                    return Some(format!("node {} does not live", id.0));
                };
                states.push(&process.machines[&group].now);
            }
            if states.windows(2).any(|pair| pair[0] != pair[1]) {
                return Some(format!("the replicas of {group:?} differ"));
            }
        }
        // A group with a missing replica stays awake.
        if self.lost.is_some() {
            return None;
        }
        let awake = self.nodes.iter().find(|(_, node)| {
            node.process.as_ref().is_none_or(|process| process.next_tick.is_some())
        });
        awake.map(|(id, _)| format!("node {} is awake", id.0))
    }

    /// Checks that the history of every row is linearizable.
    pub(super) fn check_histories(&self) -> Result<(), String> {
        for (row, operations) in self.history.rows() {
            linear::check(&operations).map_err(|what| format!("{row:?}: {what}"))?;
        }
        Ok(())
    }
}
