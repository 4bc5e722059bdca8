//! Keys of the directory. docs/format/directory.md lists them.

use crate::group::{GroupId, NodeId};
use std::fmt;

/// A key of the directory. Its text is the name below the cluster's prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// The record of the cluster.
    Cluster,
    /// The next tree id that no table has.
    NextTree,
    /// The next node id that no node has.
    NextNode,
    /// The next version of a schema that no table has.
    NextVersion,
    /// The record of a node.
    Node(NodeId),
    /// The sign of life of a node, under its lease.
    Alive(NodeId),
    /// The end of a node's group log, as far as it told.
    Mark(NodeId),
    /// The address of a node's door for PostgreSQL clients.
    Door(NodeId),
    /// A table, by its full name.
    Table(String),
    /// A record of a front, by its full name.
    Record(String),
    /// Trees that a node is creating or dropping, by the first of them.
    Intent(NodeId, u32),
    /// The replicas of a group.
    Placement(GroupId),
}

impl Key {
    /// Prefix of the counters of all ids and versions.
    pub const COUNTERS: &str = "next/";
    /// Prefix of all records of nodes.
    pub const NODES: &str = "nodes/";
    /// Prefix of all signs of life.
    pub const ALIVE: &str = "alive/";
    /// Prefix of the ends of the nodes' logs.
    pub const MARKS: &str = "marks/";
    /// Prefix of the addresses of the nodes' doors for PostgreSQL clients.
    pub const DOORS: &str = "doors/";
    /// Prefix of the records of tables.
    pub const TABLES: &str = "tables/";
    /// Prefix of all records of fronts.
    pub const RECORDS: &str = "records/";
    /// Prefix of the intents of all nodes.
    pub const INTENTS: &str = "intents/";
    /// Prefix of the placements of all groups.
    pub const PLACEMENT: &str = "placement/";

    /// Returns the prefix of the intents of one node.
    pub fn intents_of(node: NodeId) -> String {
        format!("{}{:016x}/", Self::INTENTS, node.0)
    }

    /// Returns the key of this name; `None` for a name that this program does not know.
    pub fn parse(name: &str) -> Option<Self> {
        let key = match name.split_once('/') {
            None if name == "cluster" => Self::Cluster,
            Some(("next", "tree")) => Self::NextTree,
            Some(("next", "node")) => Self::NextNode,
            Some(("next", "version")) => Self::NextVersion,
            Some(("nodes", id)) => Self::Node(NodeId(hex(id)?)),
            Some(("alive", id)) => Self::Alive(NodeId(hex(id)?)),
            Some(("marks", id)) => Self::Mark(NodeId(hex(id)?)),
            Some(("doors", id)) => Self::Door(NodeId(hex(id)?)),
            Some(("tables", table)) => Self::Table(table.to_owned()),
            Some(("records", record)) => Self::Record(record.to_owned()),
            Some(("placement", id)) => Self::Placement(GroupId(hex(id)?)),
            Some(("intents", rest)) => {
                let (node, tree) = rest.split_once('/')?;
                Self::Intent(NodeId(hex(node)?), u32::from_str_radix(tree, 16).ok()?)
            }
            _ => return None,
        };
        // One key has one name: no sign, no other number of digits, no capital letters.
        (key.to_string() == name).then_some(key)
    }
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::NextTree => f.write_str("next/tree"),
            Self::NextNode => f.write_str("next/node"),
            Self::NextVersion => f.write_str("next/version"),
            Self::Node(node) => write!(f, "{}{:016x}", Self::NODES, node.0),
            Self::Alive(node) => write!(f, "{}{:016x}", Self::ALIVE, node.0),
            Self::Mark(node) => write!(f, "{}{:016x}", Self::MARKS, node.0),
            Self::Door(node) => write!(f, "{}{:016x}", Self::DOORS, node.0),
            Self::Table(table) => write!(f, "{}{table}", Self::TABLES),
            Self::Record(record) => write!(f, "{}{record}", Self::RECORDS),
            Self::Intent(node, tree) => write!(f, "{}{tree:08x}", Self::intents_of(*node)),
            Self::Placement(group) => write!(f, "{}{:016x}", Self::PLACEMENT, group.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_from_its_name_and_from_no_other() {
        for (key, name) in [
            (Key::Cluster, "cluster"),
            (Key::NextTree, "next/tree"),
            (Key::NextNode, "next/node"),
            (Key::NextVersion, "next/version"),
            (Key::Node(NodeId(3)), "nodes/0000000000000003"),
            (Key::Alive(NodeId(u64::MAX)), "alive/ffffffffffffffff"),
            (Key::Mark(NodeId(3)), "marks/0000000000000003"),
            (Key::Door(NodeId(3)), "doors/0000000000000003"),
            (Key::Table("projects/p/tables/t".into()), "tables/projects/p/tables/t"),
            (Key::Record("projects/p".into()), "records/projects/p"),
            (Key::Intent(NodeId(1), 16), "intents/0000000000000001/00000010"),
            (Key::Placement(GroupId(17)), "placement/0000000000000011"),
        ] {
            assert_eq!(key.to_string(), name);
            assert_eq!(Key::parse(name), Some(key));
        }
        for name in ["", "clusters", "next/", "nodes/3", "nodes/+000000000000003", "alive/", "x/y"]
        {
            assert_eq!(Key::parse(name), None, "{name}");
        }
    }
}
