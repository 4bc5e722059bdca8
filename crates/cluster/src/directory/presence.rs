//! The sign of life of a node in the directory: a key under a lease that the node keeps alive.
//!
//! 1. The key exists only while its node keeps the lease. A lease that ended is granted again. A task of its own
//!    keeps the lease ([`keep_lease`]), whatever else the directory refuses, and however long it takes for it: one that
//!    is full, or slow, keeps leases.
//! 2. A node that started without the directory registers before it shows its sign of life. Before that its
//!    log is compared with the node's mark, as at a start: it may be an older copy ([`super::join`]).
//! 3. A node that finds a later start of itself, or the mark of a longer log, is **replaced**: it must stop, and
//!    its sign of life is never written again. Nothing else that the directory answers stops a node: a directory that
//!    was emptied, or is another cluster's by mistake, is waited for like one that is away.
//! 4. With its sign of life a node tells how far its log goes, its **mark**, so that an older copy of its data
//!    directory is known as one. Each mark is a revision, which etcd keeps until it is compacted; so marks
//!    are [`MARK_EVERY`] apart. A node that leaves writes a last one.
//! 5. A node shows its sign of life, by which it gets replicas, after it has raised the directory's counters
//!    above the ids that it uses ([`super::counters`]), and when others reach it ([`Own::hidden`]).

use super::counters::{Used, raise};
use super::error::{Error, Result};
use super::join::{Joined, NodePlace, check_log, cluster_of, register};
use super::records::{decode_counter, encode_counter};
use super::{Change, Directory, Key, LeaseId, Outcome, Revision, Write};
use crate::group::NodeId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Time after the last keep-alive at which a node's sign of life vanishes.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(10);
/// Time between two keep-alives, and the longest wait for the answer to one: a third of the lease, so that two may
/// fail. Also the pause between two turns of the other task.
const KEEP_EVERY: Duration = Duration::from_secs(3);
/// Time between two marks of a log that grows.
const MARK_EVERY: Duration = Duration::from_secs(30);
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

/// The things that a node tells the directory of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Own {
    /// End of the node's log on disk, a number that only grows.
    pub log_end: u64,
    /// The numbers that the node uses.
    pub used: Used,
    /// True while the node is not to show its sign of life, since others may not reach it.
    pub hidden: bool,
}

/// Keeps the sign of life of a node until it is dropped.
pub struct Presence {
    state: watch::Receiver<PresenceState>,
    directory: Arc<dyn Directory>,
    key: Key,
    own: Arc<dyn Fn() -> Own + Send + Sync>,
    task: JoinHandle<()>,
}

impl Presence {
    /// Begins to show that a node is alive. Returns at once. `own` tells what the node knows of itself now.
    pub fn start(
        directory: Arc<dyn Directory>,
        joined: Joined,
        place: NodePlace,
        own: impl Fn() -> Own + Send + Sync + 'static,
    ) -> Self {
        let begun = Error::Unavailable("the node has not registered yet".to_owned());
        let sender = watch::Sender::new(PresenceState::Absent(begun));
        let state = sender.subscribe();
        let key = Key::Mark(NodeId(joined.member.node.0));
        let own: Arc<dyn Fn() -> Own + Send + Sync> = Arc::new(own);
        let is_checked = joined.unregistered.is_none();
        let node = Live {
            directory: Arc::clone(&directory),
            joined,
            place,
            own: Arc::clone(&own),
            is_checked,
            marked: None,
            state: sender,
            lease: watch::Sender::new(Lease::None),
        };
        let task = tokio::spawn(node.keep());
        Self { state, directory, key, own, task }
    }

    /// Returns the standing of the node, and news of it.
    pub fn state(&self) -> watch::Receiver<PresenceState> {
        self.state.clone()
    }

    /// Writes a last mark and removes the sign of life, so that others need not wait for the end of the lease.
    pub async fn leave(self) {
        self.task.abort();
        let lease = match &*self.state.borrow() {
            PresenceState::Alive(lease) => Some(*lease),
            _ => None,
        };
        let Some(lease) = lease else { return };
        if let Err(error) = mark(&*self.directory, &self.key, (self.own)().log_end).await {
            tracing::warn!(%error, "could not tell the directory how far the node's log goes");
        }
        if let Err(error) = self.directory.revoke(lease).await {
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
    own: Arc<dyn Fn() -> Own + Send + Sync>,
    /// True if the log of this start is known to be no shorter than the node's mark.
    is_checked: bool,
    /// The last mark of this start, and when it was written.
    marked: Option<(u64, Instant)>,
    state: watch::Sender<PresenceState>,
    lease: watch::Sender<Lease>,
}

/// The lease of a node, as the task that keeps it tells.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lease {
    /// No lease, or one that has ended.
    None,
    /// The directory granted it, or kept it when it was last asked.
    Kept(LeaseId),
    /// The directory did not keep it when it was last asked, and is asked again.
    Failing(LeaseId, Error),
}

/// Ends a task when it is dropped.
struct Keeping(JoinHandle<()>);

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Keeps the lease of a node alive, beside all that its other task waits for, until it is dropped.
async fn keep_lease(directory: Arc<dyn Directory>, lease: watch::Sender<Lease>) {
    let mut changes = lease.subscribe();
    loop {
        let now = changes.borrow_and_update().clone();
        let (kept, pause) = match now {
            Lease::Kept(kept) => (kept, KEEP_EVERY),
            Lease::Failing(kept, _) => (kept, AGAIN),
            Lease::None => match changes.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        tokio::time::sleep(pause).await;
        let new = match tokio::time::timeout(KEEP_EVERY, directory.keep_alive(kept)).await {
            Ok(Ok(())) => Lease::Kept(kept),
            Ok(Err(Error::LeaseLost)) => Lease::None,
            Ok(Err(error)) => Lease::Failing(kept, error),
            Err(_) => {
                let text = "the directory does not answer to keep-alives";
                Lease::Failing(kept, Error::Unavailable(text.to_owned()))
            }
        };
        lease.send_if_modified(|lease| {
            let is_new = *lease != new;
            *lease = new;
            is_new
        });
    }
}

impl Live {
    async fn keep(mut self) {
        let task = keep_lease(Arc::clone(&self.directory), self.lease.clone());
        let _keeping = Keeping(tokio::spawn(task));
        let mut changes = self.lease.subscribe();
        loop {
            changes.mark_unchanged();
            match self.turn().await {
                Ok(kept) => {
                    self.tell(PresenceState::Alive(kept));
                    // News of the lease are told at once.
                    let _ = tokio::time::timeout(KEEP_EVERY, changes.changed()).await;
                }
                Err(error @ Error::Replaced(_)) => {
                    tracing::error!(%error, "this node must stop");
                    self.state.send_replace(PresenceState::Replaced(error));
                    return;
                }
                Err(error) => {
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

    /// Looks for a later start, gets a lease without one, and does what else a node tells.
    async fn turn(&mut self) -> Result<LeaseId> {
        self.register().await?;
        let Own { used, hidden, .. } = (self.own)();
        if raise(&*self.directory, used).await? {
            tracing::error!(
                ?used,
                "the directory would have given ids again that this node uses: it was restored from an older \
                 backup; tables and changes that came after the backup are not in it"
            );
        }
        let now = self.lease.borrow().clone();
        let lease = match now {
            Lease::Kept(lease) => lease,
            Lease::Failing(_, error) => return Err(error),
            Lease::None if hidden => {
                let text = "it is not known yet if other nodes reach this one";
                return Err(Error::Unavailable(text.to_owned()));
            }
            Lease::None => self.show().await?,
        };
        match self.mark().await {
            Err(error @ Error::Replaced(_)) => return Err(error),
            Err(error) => tracing::debug!(%error, "could not tell how far the node's log goes"),
            Ok(()) => {}
        }
        Ok(lease)
    }

    /// Registers the start if it is not registered.
    async fn register(&mut self) -> Result<()> {
        if !self.is_checked {
            let node = NodeId(self.joined.member.node.0);
            let is_ours = cluster_of(&*self.directory).await?.id == self.joined.member.cluster;
            // Another cluster has a node of this id too.
            if is_ours {
                check_log(&*self.directory, node, self.joined.log_end).await?;
            }
        }
        register(&*self.directory, &self.joined, &self.place).await?;
        self.is_checked = true;
        Ok(())
    }

    /// Gets a lease, and writes the sign of life with it.
    async fn show(&self) -> Result<LeaseId> {
        let lease = self.directory.grant(LEASE_TTL).await?;
        let key = Key::Alive(NodeId(self.joined.member.node.0));
        let sign = encode_counter(self.joined.boot);
        let change = Change::default().write(Write::put_leased(&key, sign, lease));
        match self.directory.change(change).await? {
            Outcome::Done(_) => {
                self.lease.send_replace(Lease::Kept(lease));
                Ok(lease)
            }
            Outcome::Conflict => Err(Error::Conflict(key.to_string())),
        }
    }

    /// Tells how far the log goes, if it goes further than was told some time ago.
    async fn mark(&mut self) -> Result<()> {
        let (end, now) = ((self.own)().log_end, Instant::now());
        let is_due = self.marked.is_none_or(|(marked, at)| end > marked && now >= at + MARK_EVERY);
        if is_due {
            mark(&*self.directory, &Key::Mark(NodeId(self.joined.member.node.0)), end).await?;
            self.marked = Some((end, now));
        }
        Ok(())
    }
}

/// Writes the mark `key` of a node whose log goes to `end`. `Replaced`, and the mark stays, if it is greater: the
/// log of another start of the node goes further.
async fn mark(directory: &dyn Directory, key: &Key, end: u64) -> Result<()> {
    let there = directory.get(key).await?;
    let (marked, revision) = match there.item() {
        Some(item) => (decode_counter(key, &item.value)?, item.revision),
        None => (0, Revision(0)),
    };
    if marked > end {
        return Err(Error::Replaced(format!(
            "the log of this node ends at {end:#x}, but the node has written up to {marked:#x}: this data \
             directory is an older copy, or the original of one that is at work, and must not vote. Stop the \
             other one"
        )));
    }
    if marked == end {
        return Ok(());
    }
    let change =
        Change::default().expect(key, revision).write(Write::put(key, encode_counter(end)));
    match directory.change(change).await? {
        Outcome::Done(_) => Ok(()),
        Outcome::Conflict => Err(Error::Conflict(key.to_string())),
    }
}
