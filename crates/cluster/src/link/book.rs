//! Addresses of nodes, from the directory.

use crate::directory::{Key, Mirror, NodeRecord};
use crate::group::NodeId;

/// Address and latest start of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEntry {
    /// `HOST:PORT` at which it takes connections.
    pub address: String,
    /// Its latest start that is registered.
    pub boot: u64,
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
            Ok(record) => Some(NodeEntry { address: record.address, boot: record.boot }),
            Err(error) => {
                tracing::warn!(%error, "the address of a node is not known");
                None
            }
        }
    }
}
