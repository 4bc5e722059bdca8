//! The task that brings to an end what calls have left behind: groups of deleted tables on nodes that were
//! away, intents of nodes that are gone, replicas that this node was to create while it was away.
//!
//! 1. A replica is removed only for an intent that says so, never since the directory lacks its table: a
//!    directory that was restored from a backup lacks tables too.
//! 2. A replica is created from the directory only if this node never had one of the group: its log
//!    knows nothing of it. So no vote and no entry can be forgotten.
//! 3. Intents of another node are taken over after it was gone for [`GONE_AFTER`]. A creation of it that
//!    is under way then fails ([`crate::directory::DirectoryMeta`]).
//! 4. Failures are tried again; nothing here ends the node. A node that is lost for good keeps intents from being
//!    carried out for ever, so the pauses grow while neither the intents nor the nodes that are alive are others.

use super::hub::News;
use crate::directory::{DirectoryMeta, Key, Mirror, Placement};
use crate::format::Descriptor;
use crate::group::{GroupId, NodeId};
use crate::node::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use table::{Error, Result, SharedMeta};
use tokio::time::Instant;

/// Pause between two rounds of the task.
const TEND_EVERY: Duration = Duration::from_secs(5);
/// Longest pause between two attempts to carry out the same intents.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Time without a sign of life after which a node's intents are taken over.
const GONE_AFTER: Duration = Duration::from_secs(60);
/// Longest wait for the directory in a round.
const DIRECTORY_MAX: Duration = Duration::from_secs(10);

/// The header of this file describes it.
pub(super) struct Tending {
    pub(super) node: Arc<Node>,
    pub(super) mirror: Mirror,
    pub(super) meta: Arc<DirectoryMeta>,
    pub(super) news: Arc<News>,
}

impl Tending {
    /// Works until it is dropped.
    pub(super) async fn run(self) {
        let (mut absent, mut waiting) = (Absent::default(), Waiting::default());
        loop {
            match self.round(&mut absent, &mut waiting).await {
                Ok(()) => {}
                Err(error @ Error::Unavailable(_)) => {
                    tracing::debug!(%error, "the tasks that calls left behind wait for the directory");
                }
                Err(error) => {
                    tracing::warn!(%error, "could not finish what calls left behind; trying again");
                }
            }
            tokio::time::sleep(TEND_EVERY).await;
        }
    }

    async fn round(&self, absent: &mut Absent, waiting: &mut Waiting) -> Result<()> {
        self.mirror.current(DIRECTORY_MAX).await?;
        self.news.refresh_if_asked().await?;
        let items = self.mirror.items();
        let keys = items.keys().filter_map(|key| Key::parse(key));
        let gone = absent.look(keys, Instant::now());
        if !gone.is_empty() {
            let meta = Arc::clone(&self.meta);
            blocking(move || meta.adopt_intents(|node| gone.contains(&node))).await?;
        }
        if waiting.is_due(items.keys().map(String::as_str), self.node.id(), Instant::now()) {
            self.news.local.finish_intents().await?;
        }
        self.create_missing().await
    }

    /// Creates the replicas of tables that are placed on this node, and that it never had.
    async fn create_missing(&self) -> Result<()> {
        let me = self.node.id();
        let missing: Vec<_> = self
            .mirror
            .below(Key::PLACEMENT)
            .into_iter()
            .filter_map(|item| {
                let key = Key::parse(&item.key)?;
                let Key::Placement(group) = key else { return None };
                if self.node.knows(group) {
                    return None;
                }
                let placement = Placement::decode(&key, &item.value).ok()?;
                let is_here = placement.members.iter().any(|member| member.node == me);
                is_here.then_some((group, placement))
            })
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let meta = Arc::clone(&self.meta);
        let tables = blocking(move || meta.versioned_tables()).await?;
        let mut of_group = BTreeMap::new();
        for known in &tables {
            for tablet in &known.schema.tablets {
                of_group.insert(GroupId(tablet.tree.0.into()), (known, tablet.tree));
            }
        }
        for (group, placement) in missing {
            // Without a table the group is being created, or is about to go.
            let Some((known, tree)) = of_group.get(&group) else { continue };
            let descriptor = Descriptor {
                members: placement.members,
                trees: vec![*tree],
                table: known.schema.name.as_str().to_owned(),
                schema_version: known.version,
                schema: known.schema.to_record().into(),
            };
            self.node.create(group, descriptor).await?;
            // The rules of the table belong to the new tree too.
            self.news.local.learn((*known).clone())?;
            tracing::info!(group = group.0, "created a replica that was placed here meanwhile");
        }
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

/// Nodes with intents that show no sign of life, with the time since when.
#[derive(Default)]
struct Absent(BTreeMap<NodeId, Instant>);

impl Absent {
    /// Looks at the keys of the directory, and returns the nodes that are gone for long.
    fn look(&mut self, keys: impl Iterator<Item = Key>, now: Instant) -> BTreeSet<NodeId> {
        let (mut owners, mut alive) = (BTreeSet::new(), BTreeSet::new());
        for key in keys {
            match key {
                Key::Intent(owner, _) => drop(owners.insert(owner)),
                Key::Alive(node) => drop(alive.insert(node)),
                _ => {}
            }
        }
        self.0.retain(|node, _| owners.contains(node) && !alive.contains(node));
        for owner in owners.difference(&alive) {
            self.0.entry(*owner).or_insert(now);
        }
        let long = self.0.iter().filter(|(_, since)| now.duration_since(**since) >= GONE_AFTER);
        long.map(|(node, _)| *node).collect()
    }
}

/// Intents of this node that wait for other nodes.
#[derive(Default)]
struct Waiting {
    /// Keys of this node's intents, and of the nodes that are alive, at the last attempt.
    seen: BTreeSet<String>,
    /// Pause after the last attempt, and its end.
    pause: Duration,
    until: Option<Instant>,
}

impl Waiting {
    /// Looks at the keys of the directory. Returns true if the intents of `me` are to be carried out now.
    fn is_due<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a str>,
        me: NodeId,
        now: Instant,
    ) -> bool {
        let (mut seen, mut has_intents) = (BTreeSet::new(), false);
        for key in keys {
            match Key::parse(key) {
                Some(Key::Intent(owner, _)) if owner == me => has_intents = true,
                Some(Key::Alive(_)) => {}
                _ => continue,
            }
            seen.insert(key.to_owned());
        }
        let is_new = seen != self.seen;
        self.seen = seen;
        if !has_intents || !is_new && self.until.is_some_and(|until| now < until) {
            return false;
        }
        self.pause = if is_new { TEND_EVERY } else { (self.pause * 2).min(PAUSE_MAX) };
        self.until = Some(now + self.pause);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intents_that_wait_for_a_lost_node_are_tried_ever_more_rarely_until_something_changes() {
        let (mut waiting, begun) = (Waiting::default(), Instant::now());
        let mut tries = |keys: &[Key], seconds: std::ops::Range<u64>| {
            let keys: Vec<String> = keys.iter().map(Key::to_string).collect();
            let due = seconds.step_by(5).filter(|second| {
                let now = begun + Duration::from_secs(*second);
                waiting.is_due(keys.iter().map(String::as_str), NodeId(1), now)
            });
            due.count()
        };
        let intent = |owner, tree| Key::Intent(NodeId(owner), tree);
        let alive = Key::Alive(NodeId(1));
        assert_eq!(tries(&[intent(2, 16), alive.clone()], 0..1_000), 0, "it is another node's");
        let mine = [intent(1, 16), alive.clone()];
        let hour = tries(&mine, 1_000..4_600);
        assert!((10..25).contains(&hour), "{hour} attempts");
        assert_eq!(tries(&[intent(1, 16), intent(1, 20), alive.clone()], 4_600..4_605), 1);
        let back = [intent(1, 16), alive, Key::Alive(NodeId(3))];
        assert_eq!(tries(&back, 4_605..4_610), 1, "a node that is back is asked at once");
    }

    #[test]
    fn intents_are_taken_over_from_nodes_that_are_gone_for_long_only() {
        let (mut absent, begun) = (Absent::default(), Instant::now());
        let mut look = |alive: &[u64], after: Duration| {
            let intents = [1, 2].map(|node| Key::Intent(NodeId(node), 16));
            let alive = alive.iter().map(|node| Key::Alive(NodeId(*node)));
            absent.look(intents.into_iter().chain(alive), begun + after)
        };
        assert!(look(&[1], Duration::ZERO).is_empty());
        assert!(look(&[1], GONE_AFTER / 2).is_empty());
        assert_eq!(look(&[1], GONE_AFTER), BTreeSet::from([NodeId(2)]));
        assert!(look(&[1, 2], GONE_AFTER).is_empty());
        assert!(look(&[1], 2 * GONE_AFTER).is_empty(), "it was back meanwhile");
        assert_eq!(look(&[1], 3 * GONE_AFTER), BTreeSet::from([NodeId(2)]));
    }
}
