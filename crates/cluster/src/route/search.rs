//! The search for the node that leads a tablet.
//!
//! 1. What a replica on this node knows counts first. Without one it is what other nodes answered.
//! 2. A node that refused is not asked again at once, unless no other node is known.
//! 3. Pauses between the tries grow. A try follows at once where a refusal names a node that was not asked.

use super::Nodes;
use crate::group::NodeId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use table::{Error, Groups, TreeId};
use tokio::time::Instant;

/// Longest search for a leader. Elections take a second or two.
const SEARCH_MAX: Duration = Duration::from_secs(10);
/// Pauses between two tries: the first one, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Tablets whose leaders are remembered, beyond those with a replica here.
const HINTS_MAX: usize = 100_000;

/// A node that carries out a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// The node that got the call.
    Here,
    /// Another node of the cluster.
    Node(NodeId),
}

/// An error of a call, by what may be done about it.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was done, and nothing will be: another node may do it.
    Refused {
        /// The node that leads, if the refusal names it.
        leader: Option<NodeId>,
        /// The error that the caller gets in the end.
        error: Error,
    },
    /// The outcome of the call, or a doubt about it.
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NotLeader { leader } => Self::Refused { leader: leader.map(NodeId), error },
            error => Self::Failed(error),
        }
    }
}

/// Knows who leads which tablet.
pub(super) struct Leaders {
    pub(super) me: NodeId,
    groups: Arc<dyn Groups>,
    nodes: Arc<dyn Nodes>,
    /// Leaders of tablets without a replica here, as other nodes told.
    hints: Mutex<HashMap<TreeId, NodeId>>,
}

impl Leaders {
    pub(super) fn new(me: NodeId, groups: Arc<dyn Groups>, nodes: Arc<dyn Nodes>) -> Self {
        Self { me, groups, nodes, hints: Mutex::default() }
    }

    /// The node that leads a tablet, as far as it is known.
    pub(super) fn known(&self, tree: TreeId) -> Option<NodeId> {
        let here = self.groups.leader(tree).map(NodeId);
        here.or_else(|| self.hints.lock().get(&tree).copied())
    }

    /// The place for the next try of a call.
    pub(super) fn next(&self, tree: TreeId, search: &mut Search) -> Place {
        let known = || self.known(tree).filter(|node| Some(*node) != search.refused);
        let node = search.advice.take().or_else(known).unwrap_or_else(|| {
            let members = self.nodes.members(tree);
            match members.len() {
                0 => self.me,
                count => members[search.refusals as usize % count],
            }
        });
        search.asked = Some(node);
        if node == self.me { Place::Here } else { Place::Node(node) }
    }

    /// Takes note that a node carried out a call of a tablet.
    pub(super) fn found(&self, tree: TreeId, place: Place) {
        match place {
            // The replica here knows.
            Place::Node(node) if self.groups.leader(tree).is_none() => {
                let mut hints = self.hints.lock();
                if hints.len() >= HINTS_MAX {
                    hints.clear();
                }
                hints.insert(tree, node);
            }
            _ => {}
        }
    }
}

/// The state of one search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    until: Instant,
    refusals: u32,
    /// The node of the last try.
    asked: Option<NodeId>,
    /// The node that refused last.
    refused: Option<NodeId>,
    /// The node that the last refusal named.
    advice: Option<NodeId>,
}

impl Search {
    pub(super) fn begin() -> Self {
        let until = Instant::now() + SEARCH_MAX;
        Self { until, refusals: 0, asked: None, refused: None, advice: None }
    }

    /// The search for the leader of one of several tablets, with the time that is left.
    pub(super) fn again(&self) -> Self {
        Self { until: self.until, ..Self::begin() }
    }

    /// Takes note of a refusal of the last try. Returns the pause until the next one; `None` when the
    /// search is over.
    pub(super) fn refused(&mut self, leader: Option<NodeId>) -> Option<Duration> {
        let before = std::mem::replace(&mut self.refused, self.asked.take());
        self.refusals += 1;
        // Two nodes that name each other are asked with pauses.
        self.advice = leader.filter(|leader| Some(*leader) != self.refused);
        let is_new = self.advice.is_some() && self.advice != before;
        let pause = match is_new {
            true => Duration::ZERO,
            false => (PAUSE_FIRST * 2u32.saturating_pow(self.refusals.min(10))).min(PAUSE_MAX),
        };
        (Instant::now() + pause < self.until).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_followed_at_once_and_nodes_that_name_each_other_wait() {
        let mut search = Search::begin();
        let mut refuse = |asked: u64, leader: Option<u64>| {
            search.asked = Some(NodeId(asked));
            search.refused(leader.map(NodeId)).unwrap()
        };
        assert_eq!(refuse(1, Some(2)), Duration::ZERO);
        assert!(refuse(2, Some(1)) > Duration::ZERO);
        assert_eq!(refuse(1, Some(3)), Duration::ZERO);
        assert!(refuse(3, None) > Duration::ZERO);
        assert!(refuse(3, Some(3)) > Duration::ZERO);
        for _ in 0..40 {
            assert!(refuse(3, None) <= PAUSE_MAX);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_ends_in_time() {
        let mut search = Search::begin();
        let begun = Instant::now();
        while let Some(pause) = search.refused(None) {
            tokio::time::sleep(pause).await;
        }
        assert!(begun.elapsed() <= SEARCH_MAX, "{:?}", begun.elapsed());
        // A search that goes on from this one has what is left, and then nothing.
        tokio::time::sleep_until(begun + SEARCH_MAX).await;
        assert!(search.again().refused(None).is_none());
    }
}
