//! Addresses of nodes, from the directory.

use crate::directory::{Key, Mirror, NodeRecord};
use crate::group::NodeId;

/// Address and latest start of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEntry {
    /// `HOST:PORT` at which it takes connections.
    pub address: String,
    /// Number of its latest start that is registered.
    pub boot: u64,
    /// Random number of that start.
    pub start: u128,
}

/// Knows the nodes of the cluster. Look-ups are in memory.
pub trait Book: Send + Sync + 'static {
    /// Returns what is known of a node; `None` for a node that never registered.
    fn entry(&self, node: NodeId) -> Option<NodeEntry>;
}

impl Book for Mirror {
    fn entry(&self, node: NodeId) -> Option<NodeEntry> {
        let item = self.get(&Key::Node(node))?;
        match NodeRecord::decode(node, &item.value) {
            Ok(NodeRecord { address, boot, start, .. }) => Some(NodeEntry { address, boot, start }),
            Err(error) => {
                tracing::warn!(%error, "the address of a node is not known");
                None
            }
        }
    }
}
