//! Seeding: a replica behind the beginning of its leader's log gets a copy of what the leader's state
//! machine has on disk.
//!
//! 1. The replica is closed meanwhile, and none of its log writes is on its way. Nothing that concerns
//!    the closed replica reaches the new one: no report of a disk or a state machine, and no request,
//!    whose row is no longer kept for it.
//! 2. Term and vote stay. The log stays too if it has the last entry of the copy: then all that this
//!    replica has acknowledged may count. Otherwise nothing after that entry can have been committed.

use super::machine::Machine;
use super::node::replica;
use super::{Event, World};
use cluster::group::{GroupId, NodeId, ReplicaId, Seeding};

impl World {
    pub(super) fn wish_seeding(&mut self, id: NodeId, wish: Seeding) {
        let key = (wish.group, wish.replica);
        if self.seeds_nobody() {
            return;
        }
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process.as_mut()) else {
            return;
        };
        if process.seeding.insert(key) {
            let delay = self.span(1000);
            let (group, replica) = key;
            self.after(delay, Event::Seed { from: id, group, replica });
        }
    }

    /// Copies the state machine of a group from one node to the node of a replica.
    pub(super) fn seed(&mut self, from: NodeId, group: GroupId, name: ReplicaId) {
        let now = self.now;
        let members = self.members();
        let Some(source) = self.nodes.get_mut(&from) else { return };
        if let Some(process) = &mut source.process {
            process.seeding.remove(&(group, name));
        }
        let Some(copy) = source.disk.flushed.get(&group).cloned() else { return };
        let found = self.nodes.iter_mut().find(|(id, _)| replica(**id) == name);
        let Some((id, node)) = found.map(|(id, node)| (*id, node)) else { return };
        let Some(process) = node.process.as_mut() else { return };
        let writes = process.unsynced.is_some() || !process.rounds.is_empty();
        if writes || node.still_until > now {
            let delay = self.span(50);
            return self.after(delay, Event::Seed { from, group, replica: name });
        }
        process.driver.close(group);
        process.forget(group);
        let seeded = node.disk.seed(group, &copy).and_then(|()| node.disk.saved(group, &members));
        let saved = match seeded {
            Ok(saved) => saved,
            Err(error) => return self.fail(format!("node {} is not seeded: {error}", id.0)),
        };
        process.generation += 1;
        let flushed = node.disk.flushed.get(&group).cloned().unwrap_or_default();
        process.machines.insert(group, Machine::open(flushed, process.generation));
        process.roles.remove(&group);
        let opened = process.driver.open(&saved, node.clock.read(now));
        if let Err(error) = opened {
            return self.fail(format!("node {} does not open a seeded replica: {error:?}", id.0));
        }
        self.tell(|| format!("node {}: {group:?} is seeded up to {:?}", id.0, copy.id));
        self.step_soon(id);
    }
}
