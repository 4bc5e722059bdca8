//! Descriptors of groups, as the group log keeps them (docs/format/group_descriptor.md). With them a
//! node opens its replicas and their tables while no other node answers.

use super::FormatError;
use crate::group::{Member, NodeId, ReplicaId};
use base::codec::{ByteReader, PutBytes};
use bytes::Bytes;
use engine::TreeId;

const VERSION: u8 = 1;

/// Most replicas of a group.
pub const DESCRIPTOR_MEMBERS_MAX: usize = 64;
/// Most trees of a group.
pub const DESCRIPTOR_TREES_MAX: usize = 64;

/// Longest record of a table in a descriptor, in bytes: with everything else it is within the 1 MiB that
/// the group log takes.
pub const SCHEMA_BYTES_MAX: usize = 1000 << 10;

/// All that a replica must know of its group beside its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// All voters of the group.
    pub members: Vec<Member>,
    /// Trees of the group, the same on all nodes. Commands name them by their place in this list.
    pub trees: Vec<TreeId>,
    /// Full name of the table that the group is a part of.
    pub table: String,
    /// Number of the table's schema.
    pub schema_version: u64,
    /// The whole record of the table, as crate `table` encodes it.
    pub schema: Bytes,
}

impl Descriptor {
    /// Returns the bytes of the descriptor.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_varint(self.members.len() as u64);
        for member in &self.members {
            out.put_varint(member.replica.0);
            out.put_varint(member.node.0);
        }
        out.put_varint(self.trees.len() as u64);
        self.trees.iter().for_each(|tree| out.put_varint(tree.0.into()));
        out.put_string(self.table.as_bytes());
        out.put_varint(self.schema_version);
        out.put_string(&self.schema);
        out
    }

    /// Reads a descriptor. The content of the schema record is not looked at.
    ///
    /// # Errors
    ///
    /// The bytes are no descriptor that this build knows.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut reader = ByteReader::new(bytes);
        match reader.u8("version of a descriptor")? {
            VERSION => {}
            version => return Err(FormatError::Version { format: "descriptor", version }),
        }
        let count = count(&mut reader, "members", DESCRIPTOR_MEMBERS_MAX)?;
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            let replica = ReplicaId(reader.varint("replica of a member")?);
            members.push(Member { replica, node: NodeId(reader.varint("node of a member")?) });
        }
        let count = self::count(&mut reader, "trees", DESCRIPTOR_TREES_MAX)?;
        let mut trees = Vec::with_capacity(count);
        for _ in 0..count {
            let tree = u32::try_from(reader.varint("tree of a group")?);
            trees.push(TreeId(tree.map_err(|_| FormatError::Broken("an id that no tree has"))?));
        }
        let table = std::str::from_utf8(reader.string("name of a table")?);
        let table = table.map_err(|_| FormatError::Broken("a name that is not UTF-8"))?.to_owned();
        let schema_version = reader.varint("version of a schema")?;
        let schema = Bytes::copy_from_slice(reader.string("record of a table")?);
        reader.finish()?;
        Ok(Self { members, trees, table, schema_version, schema })
    }

    /// Returns the replica of the group on `node`.
    pub fn replica_on(&self, node: NodeId) -> Option<ReplicaId> {
        self.members.iter().find(|member| member.node == node).map(|member| member.replica)
    }
}

fn count(
    reader: &mut ByteReader<'_>,
    what: &'static str,
    most: usize,
) -> Result<usize, FormatError> {
    let count = reader.varint(what)?;
    match usize::try_from(count) {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(FormatError::Broken("a group has 1 to 64 members and 1 to 64 trees")),
    }
}
