//! Calls between nodes about groups, as bytes (docs/format/node_calls.md).

use crate::format::FormatError;
use crate::group::{GroupId, NodeId, ReplicaId};
use crate::link::CallKind;
use base::codec::{ByteReader, PutBytes};
use bytes::Bytes;

const VERSION: u8 = 1;
/// Version of the order to remove a replica. Version 1 had no version of the removal.
const REMOVE_VERSION: u8 = 2;

/// A question or an order about a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// Create the replica of the called node, as the descriptor says.
    Create { group: GroupId, descriptor: Bytes },
    /// Remove the replica of the called node, if its id is below the least one, and the removal has a version
    /// that may remove it. With 0 as the least one only tell whether it may.
    Remove { group: GroupId, least: ReplicaId, version: u64 },
    /// Give the group a schema of its table.
    SetSchema { group: GroupId, version: u64, record: Bytes },
    /// Tell which node leads the group.
    Leader { group: GroupId },
}

impl Ask {
    pub(super) fn kind(&self) -> CallKind {
        match self {
            Self::Create { .. } => CallKind::CreateReplica,
            Self::Remove { .. } => CallKind::RemoveReplica,
            Self::SetSchema { .. } => CallKind::SetSchema,
            Self::Leader { .. } => CallKind::Leader,
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            Self::Create { group, descriptor } => {
                out.put_varint(group.0);
                out.extend_from_slice(descriptor);
            }
            Self::Remove { group, least, version } => {
                out[0] = REMOVE_VERSION;
                out.put_varint(group.0);
                out.put_varint(least.0);
                out.put_varint(*version);
            }
            Self::SetSchema { group, version, record } => {
                out.put_varint(group.0);
                out.put_varint(*version);
                out.extend_from_slice(record);
            }
            Self::Leader { group } => out.put_varint(group.0),
        }
        out.into()
    }

    /// Reads a call of `kind`, which is not a call of rows.
    pub(super) fn decode(kind: CallKind, bytes: &Bytes) -> Result<Self, FormatError> {
        let mut reader = ByteReader::new(bytes);
        let newest = if kind == CallKind::RemoveReplica { REMOVE_VERSION } else { VERSION };
        let of_call = match reader.u8("version")? {
            version if (VERSION..=newest).contains(&version) => version,
            version => return Err(FormatError::Version { format: "calls of groups", version }),
        };
        let group = GroupId(reader.varint("group")?);
        let rest = |reader: &mut ByteReader<'_>, what| {
            let rest = reader.rest();
            let rest = bytes.slice_ref(reader.bytes(rest.len(), what)?);
            Ok::<_, FormatError>(rest)
        };
        let ask = match kind {
            CallKind::CreateReplica => {
                Self::Create { group, descriptor: rest(&mut reader, "descriptor")? }
            }
            CallKind::RemoveReplica => {
                let least = ReplicaId(reader.varint("replica")?);
                let version = if of_call == 1 { 0 } else { reader.varint("removal")? };
                Self::Remove { group, least, version }
            }
            CallKind::SetSchema => {
                let version = reader.varint("schema version")?;
                Self::SetSchema { group, version, record: rest(&mut reader, "schema")? }
            }
            CallKind::Leader => Self::Leader { group },
            CallKind::Forward | CallKind::Status | CallKind::Identity | CallKind::Reach => {
                return Err(FormatError::Broken("a call that is about no group"));
            }
        };
        reader.finish()?;
        Ok(ask)
    }
}

/// Returns the answer to [`Ask::Leader`].
pub(super) fn encode_leader(leader: Option<NodeId>) -> Bytes {
    let mut out = vec![VERSION];
    match leader {
        None => out.push(0),
        Some(node) => {
            out.push(1);
            out.put_varint(node.0);
        }
    }
    out.into()
}

/// Reads the answer to [`Ask::Leader`].
pub(super) fn decode_leader(bytes: &[u8]) -> Result<Option<NodeId>, FormatError> {
    let mut reader = versioned(bytes)?;
    let leader = match reader.u8("leader")? {
        0 => None,
        1 => Some(NodeId(reader.varint("leader")?)),
        _ => return Err(FormatError::Broken("an answer that is none")),
    };
    reader.finish()?;
    Ok(leader)
}

/// Begins a call or an answer.
pub(super) fn begin() -> Vec<u8> {
    vec![VERSION]
}

/// Reads the version of a call or an answer, and returns the rest.
pub(super) fn versioned(bytes: &[u8]) -> Result<ByteReader<'_>, FormatError> {
    let mut reader = ByteReader::new(bytes);
    match reader.u8("version")? {
        VERSION => Ok(reader),
        version => Err(FormatError::Version { format: "calls of groups", version }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_documented_bytes_and_read_back() {
        let group = GroupId(300);
        for (ask, bytes) in [
            (Ask::Create { group, descriptor: "d".into() }, &b"\x01\xac\x02d"[..]),
            (Ask::Remove { group, least: ReplicaId(4), version: 7 }, b"\x02\xac\x02\x04\x07"),
            (Ask::SetSchema { group, version: 7, record: "r".into() }, b"\x01\xac\x02\x07r"),
            (Ask::Leader { group }, b"\x01\xac\x02"),
        ] {
            assert_eq!(ask.encode(), bytes);
            assert_eq!(Ask::decode(ask.kind(), &ask.encode()), Ok(ask.clone()));
            let newer = Bytes::from([&[3], &bytes[1..]].concat());
            assert!(matches!(Ask::decode(ask.kind(), &newer), Err(FormatError::Version { .. })));
            for len in 0..2 {
                assert!(Ask::decode(ask.kind(), &ask.encode().slice(..len)).is_err());
            }
        }
        let old = Ask::decode(CallKind::RemoveReplica, &Bytes::from_static(b"\x01\x05\x04"));
        let removes = Ask::Remove { group: GroupId(5), least: ReplicaId(4), version: 0 };
        assert_eq!(old, Ok(removes), "an older node does not tell what its removal is newer than");
        let long = Bytes::from_static(b"\x01\x01\x01");
        assert!(Ask::decode(CallKind::Leader, &long).is_err());
        assert!(Ask::decode(CallKind::Status, &long).is_err());
        for leader in [None, Some(NodeId(3))] {
            assert_eq!(decode_leader(&encode_leader(leader)), Ok(leader));
        }
        assert!(decode_leader(b"\x01\x02").is_err());
    }
}
