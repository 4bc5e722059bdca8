//! The groups of a node at work: the threads that carry out what the driver ([`crate::group`]) asks for,
//! over the group log and the fed engine of the node.
//!
//! **In:** messages of other nodes, proposals and reads of clients, losses of connections. **Out:**
//! messages, through [`Links`]; changes of tables, through [`Tables`]; answers. May use `format`,
//! `group`, the engine, and the seam of crate `table`.
//!
//! | thread | work | waits for |
//! |---|---|---|
//! | driver | steps the driver with all that came since the last step | inputs, ticks |
//! | log | appends rounds, one sync for all that came during the last sync | the disk |
//! | apply (tasks) | decodes committed commands and feeds them to the engine, group by group | memtables |
//! | upkeep | tells the driver what is flushed; flushes and frees when the log is too long; hands groups over when the disk is full | the disk |
//!
//! 1. An input that depends on another one follows it in the inbox: an entry is reported as applied
//!    before it is reported as flushed.
//! 2. While a round is synced, inputs and rounds pile up, and the next step and the next sync take
//!    all of them. So the syncs of a write become fewer under load.
//! 3. Entries of a group are applied in their order by one task. A group whose tree has no room waits
//!    without a thread.
//! 4. A schema command is applied when the new descriptor is on disk. A table of the trees' content is
//!    flushed later, so a restart finds the descriptor or the command.
//! 5. A failure of the log, the driver or the state machine ends the node: it answers nothing more, and
//!    tells of it by [`Node::failed`]. The caller ends the process.
//! 6. A replica that is opened has its own number. What tasks of an earlier one of the same group
//!    report is passed over.

mod applying;
mod calls;
mod changes;
mod content;
mod counts;
mod driver_thread;
mod fetching;
mod full_disk;
mod health;
mod heirs;
mod hosted;
mod inbox;
mod log_counts;
mod log_thread;
mod log_writes;
mod open;
mod peers;
mod replicas;
mod requests;
mod tablets;
#[cfg(test)]
mod tests;
mod upkeep;

pub(crate) use heirs::heir;
pub use hosted::{Ready, Status};
pub use log_counts::LogReadings;
pub use open::{NodeError, Options, Parts};
pub use peers::{Links, Peers, Tables};
pub use tablets::Tablets;

use crate::format::Descriptor;
use crate::group::{GroupId, GroupReport, Input, Message, NodeId, OpenError, ReplicaId};
use open::Shared;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The replicas of a node, at work until it is closed or dropped. See the header of the room.
pub struct Node {
    shared: Arc<Shared>,
    running: parking_lot::Mutex<Option<open::Running>>,
}

impl Node {
    /// Opens all replicas that the group log has, and starts their work.
    ///
    /// # Errors
    ///
    /// The engine, the log or a descriptor cannot be used; nothing runs then. A replica that has lost
    /// what it had is no error: see [`Self::damaged`].
    pub fn open(options: Options, parts: Parts) -> Result<Arc<Self>, NodeError> {
        let (shared, running) = open::open(options, parts)?;
        Ok(Arc::new(Self { shared, running: parking_lot::Mutex::new(Some(running)) }))
    }

    /// Returns the id of the node.
    pub fn id(&self) -> NodeId {
        self.shared.me
    }

    /// Takes messages of the connection to `from`, in the order in which they came. Does not wait.
    pub fn receive(&self, from: NodeId, messages: Vec<Message>) {
        let inputs = messages.into_iter().map(|message| Input::Message { from, message });
        self.shared.inbox.push_all(inputs.map(inbox::Event::Input));
    }

    /// Takes note that the connection to `node` broke, or that nothing was heard of it for about an
    /// election timeout.
    pub fn lost(&self, node: NodeId) {
        self.shared.inbox.push(inbox::Event::Input(Input::Lost { node }));
    }

    /// Begins to hand the office of a leader on this node to another replica.
    pub fn transfer(&self, group: GroupId, to: ReplicaId) {
        self.shared.inbox.push(inbox::Event::Input(Input::Transfer { group, to }));
    }

    /// Returns the role of the replica of a group, as it changes.
    pub fn status(&self, group: GroupId) -> Option<watch::Receiver<Status>> {
        Some(self.shared.replicas.of_group(group)?.status.subscribe())
    }

    /// Returns the descriptors of all replicas, by group.
    pub fn descriptors(&self) -> Vec<(GroupId, Arc<Descriptor>)> {
        let all = self.shared.replicas.all().into_iter();
        all.map(|hosted| (hosted.group, hosted.descriptor())).collect()
    }

    /// Returns the largest id of a group that lives here, or lived here.
    pub fn largest_group(&self) -> Option<GroupId> {
        self.shared.log.groups().into_iter().map(|(group, _)| GroupId(group.0)).max()
    }

    /// Returns true if the log of this node knows the group: a replica lives here, or lived here.
    pub fn knows(&self, group: GroupId) -> bool {
        self.shared.log.state(log_writes::log_group(group)).is_some()
    }

    /// Returns the groups whose replica here has lost what it had, with the reason. It takes part in
    /// nothing, and must be replaced.
    pub fn damaged(&self) -> Vec<(GroupId, OpenError)> {
        self.shared.damaged.clone()
    }

    /// Returns why the node ended, once it did. The process must end then.
    pub fn failed(&self) -> watch::Receiver<Option<String>> {
        self.shared.health.failed()
    }

    /// Waits for this time to pass.
    async fn pause(&self, time: Duration) {
        self.shared.pause(time).await;
    }

    /// Returns the condition of all groups; None if the node does not answer within `bound`, or has ended. Blocks.
    pub fn report(&self, bound: Duration) -> Option<Vec<GroupReport>> {
        self.shared.report(bound)
    }

    /// Returns how often a replica of this node was elected.
    pub fn elections_won(&self) -> u64 {
        self.shared.counts.elections_won()
    }

    /// Returns how often the log let go of entries that a replica still needed.
    pub fn forced_cuts(&self) -> u64 {
        self.shared.counts.forced_cuts()
    }

    /// Returns true while the group log waits for space on its disk.
    pub fn waits_for_space(&self) -> bool {
        self.shared.counts.waits_for_space()
    }

    /// Returns the number of syncs of the group log that the node has asked for.
    pub fn log_syncs(&self) -> u64 {
        self.shared.log_jobs.syncs()
    }

    /// Returns how long writes of the group log waited, how long its syncs took, and how many entries they had.
    pub fn log_readings(&self) -> LogReadings {
        self.shared.log_jobs.readings()
    }

    /// Returns how far the group log goes on disk ([`engine::group_log::GroupLog::synced_end`]).
    pub fn log_end(&self) -> u64 {
        self.shared.log.synced_end()
    }

    /// Returns the size of the group log.
    pub fn log_size(&self) -> engine::group_log::GroupLogSize {
        self.shared.log.size()
    }

    /// Ends all work, and closes the group log. Requests without an answer get `Unavailable`. Blocks
    /// until the threads have ended.
    pub fn close(&self) {
        let running = self.running.lock().take();
        if let Some(running) = running {
            running.end(&self.shared);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.close();
    }
}
