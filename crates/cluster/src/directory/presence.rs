//! The sign of life of a node in the directory: a key under a lease that the node keeps alive.
//!
//! 1. The key exists only while its node keeps the lease. A lease that ended is granted again.
//! 2. A node that started without the directory registers before it shows its sign of life.
//! 3. A node that finds a later start of itself is **replaced**: it must stop, and its sign of life is
//!    never written again. Nothing else that the directory answers stops a node: a directory that was
//!    emptied, or is another cluster's by mistake, is waited for like one that is away.
//! 4. With its sign of life a node tells how far its log goes, so that a copy of its data directory
//!    that is older than a few seconds is known as one ([`super::join`]).

use super::error::{Error, Result};
use super::join::{Joined, NodePlace, register};
use super::records::encode_counter;
use super::{Change, Directory, Key, LeaseId, Outcome, Write};
use crate::group::NodeId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Time after the last keep-alive at which a node's sign of life vanishes.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(10);
/// Pauses of the task: a third of the lease, so that two keep-alives may fail.
const KEEP_EVERY: Duration = Duration::from_secs(3);
/// Pause after a failed attempt.
const AGAIN: Duration = Duration::from_millis(500);

/// Standing of a node in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresenceState {
    /// The node is registered and alive, under this lease.
    Alive(LeaseId),
    /// The directory does not answer, or does not take the node now. The task goes on trying.
    Absent(Error),
    /// A later start of the node is registered, so that this one must stop. Never changes again.
    Replaced(Error),
}

/// Keeps the sign of life of a node until it is dropped.
pub struct Presence {
    state: watch::Receiver<PresenceState>,
    directory: Arc<dyn Directory>,
    task: JoinHandle<()>,
}

impl Presence {
    /// Begins to show that a node is alive. Returns at once.
    /// `log_end` tells how far the node's log goes: a number that only grows.
    pub fn start(
        directory: Arc<dyn Directory>,
        joined: Joined,
        place: NodePlace,
        log_end: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        let begun = Error::Unavailable("the node has not registered yet".to_owned());
        let sender = watch::Sender::new(PresenceState::Absent(begun));
        let state = sender.subscribe();
        let (of, log_end) = (Arc::clone(&directory), Box::new(log_end));
        let node = Live { directory: of, joined, place, log_end, marked: 0, state: sender };
        let task = tokio::spawn(node.keep());
        Self { state, directory, task }
    }

    /// Returns the standing of the node, and news of it.
    pub fn state(&self) -> watch::Receiver<PresenceState> {
        self.state.clone()
    }

    /// Removes the sign of life now, so that others need not wait for the end of the lease.
    pub async fn leave(self) {
        self.task.abort();
        let lease = match &*self.state.borrow() {
            PresenceState::Alive(lease) => Some(*lease),
            _ => None,
        };
        if let Some(lease) = lease
            && let Err(error) = self.directory.revoke(lease).await
        {
            tracing::warn!(%error, "could not end the node's lease; it ends by itself");
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task of a presence.
struct Live {
    directory: Arc<dyn Directory>,
    joined: Joined,
    place: NodePlace,
    log_end: Box<dyn Fn() -> u64 + Send + Sync>,
    /// The end of the log that the directory was told last.
    marked: u64,
    state: watch::Sender<PresenceState>,
}

impl Live {
    async fn keep(mut self) {
        let mut lease = None;
        loop {
            match self.turn(lease).await {
                Ok(kept) => {
                    lease = Some(kept);
                    self.tell(PresenceState::Alive(kept));
                    tokio::time::sleep(KEEP_EVERY).await;
                }
                Err(error @ Error::Replaced(_)) => {
                    tracing::error!(%error, "this node must stop");
                    self.state.send_replace(PresenceState::Replaced(error));
                    return;
                }
                Err(error) => {
                    if matches!(error, Error::LeaseLost) {
                        lease = None;
                    }
                    self.tell(PresenceState::Absent(error));
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Tells a standing, if it is another one.
    fn tell(&self, new: PresenceState) {
        self.state.send_if_modified(|state| {
            let is_new = *state != new;
            if let (true, PresenceState::Alive(_), PresenceState::Absent(error)) =
                (is_new, &*state, &new)
            {
                tracing::warn!(%error, "the node's sign of life is not kept; trying again");
            }
            *state = new;
            is_new
        });
    }

    /// Looks for a later start, then keeps the lease, or gets one and writes the sign of life.
    async fn turn(&mut self, lease: Option<LeaseId>) -> Result<LeaseId> {
        register(&*self.directory, &self.joined, &self.place).await?;
        self.mark().await?;
        if let Some(lease) = lease {
            self.directory.keep_alive(lease).await?;
            return Ok(lease);
        }
        let lease = self.directory.grant(LEASE_TTL).await?;
        let key = Key::Alive(NodeId(self.joined.member.node.0));
        let sign = encode_counter(self.joined.boot);
        let change = Change::default().write(Write::put_leased(&key, sign, lease));
        match self.directory.change(change).await? {
            Outcome::Done(_) => Ok(lease),
            Outcome::Conflict => Err(Error::Conflict(key.to_string())),
        }
    }

    /// Tells how far the log goes, if it goes further than was told.
    async fn mark(&mut self) -> Result<()> {
        let end = (self.log_end)();
        if end > self.marked {
            let key = Key::Mark(NodeId(self.joined.member.node.0));
            let change = Change::default().write(Write::put(&key, encode_counter(end)));
            self.directory.change(change).await?;
            self.marked = end;
        }
        Ok(())
    }
}
