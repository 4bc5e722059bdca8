//! Values of the directory's keys; see docs/format/directory.md. Each begins with its version.

use super::error::{Error, Result};
use super::keys::Key;
use crate::group::{Member, NodeId, ReplicaId};
use base::codec::{ByteReader, DecodeError, PutBytes};
use bytes::Bytes;
use engine::ClusterId;
use table::{Removal, TableSchema, TreeId};

/// Version of every record but intents, and the newest that is read.
const VERSION: u8 = 1;
/// Version of intents. Older ones are read.
const INTENT_VERSION: u8 = 2;
/// Longest address, region and zone of a node.
const NAME_BYTES_MAX: usize = 256;
/// Most replicas of a group.
const REPLICAS_MAX: usize = 32;

/// Settings of a cluster, which never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterRecord {
    /// Random id that no other cluster has.
    pub id: ClusterId,
    /// Replicas of each group of a new table. 1 to 32.
    pub replicas: u8,
    /// When the cluster was founded, microseconds since the Unix epoch.
    pub founded_micros: i64,
}

/// A node, as it registered when it last started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Number of the start. Rises with each start of the node.
    pub boot: u64,
    /// Random number of the start, which tells it from the start of a copy of the node's directory.
    pub start: u128,
    /// `HOST:PORT` at which other nodes reach it.
    pub address: String,
    /// Region that the node is in.
    pub region: String,
    /// Zone of the node in its region.
    pub zone: String,
}

/// A table and the version of its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRecord {
    /// Number of the schema; each change of the table has a greater one.
    pub version: u64,
    /// The table at this version.
    pub schema: TableSchema,
}

/// The replicas of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Replicas with their nodes, in order of replica.
    pub members: Vec<Member>,
}

/// Runs `decode` on a value after its version, and checks that it takes all bytes.
fn whole<'a, T>(
    key: &Key,
    value: &'a [u8],
    decode: impl FnOnce(&mut ByteReader<'a>) -> std::result::Result<T, What>,
) -> Result<T> {
    whole_up_to(VERSION, key, value, |_, reader| decode(reader))
}

/// As [`whole`], of a value with versions up to `newest`; `decode` is told the version.
fn whole_up_to<'a, T>(
    newest: u8,
    key: &Key,
    value: &'a [u8],
    decode: impl FnOnce(u8, &mut ByteReader<'a>) -> std::result::Result<T, What>,
) -> Result<T> {
    let mut reader = ByteReader::new(value);
    let run = || {
        let version = reader.u8("version")?;
        if !(1..=newest).contains(&version) {
            return Err(What::Version(version));
        }
        let decoded = decode(version, &mut reader)?;
        reader.finish()?;
        Ok(decoded)
    };
    run().map_err(|what| match what {
        What::Version(version) => Error::damaged(
            key,
            format_args!(
                "record of version {version}, but this Stele reads versions up to {newest}; \
                 use a newer Stele"
            ),
        ),
        What::Decode(error) => Error::damaged(key, error),
        What::Invalid(what) => Error::damaged(key, format_args!("invalid {what}")),
        What::Schema(text) => Error::damaged(key, text),
    })
}

enum What {
    Version(u8),
    Decode(DecodeError),
    Invalid(&'static str),
    Schema(String),
}

impl From<DecodeError> for What {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

fn id(reader: &mut ByteReader<'_>, what: &'static str) -> std::result::Result<u128, What> {
    let bytes = reader.bytes(16, what)?.try_into();
    bytes.map(u128::from_le_bytes).map_err(|_| What::Invalid(what))
}

fn name(reader: &mut ByteReader<'_>, what: &'static str) -> std::result::Result<String, What> {
    let bytes = reader.string(what)?;
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= NAME_BYTES_MAX => Ok(text.to_owned()),
        _ => Err(What::Invalid(what)),
    }
}

impl ClusterRecord {
    /// Returns the bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.push(self.replicas);
        out.put_i64(self.founded_micros);
        out
    }

    /// Reads the bytes of the record.
    pub fn decode(value: &[u8]) -> Result<Self> {
        whole(&Key::Cluster, value, |reader| {
            let id = id(reader, "cluster id")?;
            let (replicas, founded_micros) = (reader.u8("replicas")?, reader.i64("time")?);
            if !(1..=REPLICAS_MAX).contains(&usize::from(replicas)) {
                return Err(What::Invalid("number of replicas"));
            }
            Ok(Self { id: ClusterId(id), replicas, founded_micros })
        })
    }
}

impl NodeRecord {
    /// Returns the bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_u64(self.boot);
        out.extend_from_slice(&self.start.to_le_bytes());
        for text in [&self.address, &self.region, &self.zone] {
            out.put_string(text.as_bytes());
        }
        out
    }

    /// Reads the bytes of the record of `node`.
    pub fn decode(node: NodeId, value: &[u8]) -> Result<Self> {
        whole(&Key::Node(node), value, |reader| {
            let boot = reader.u64("boot counter")?;
            let start = id(reader, "number of the start")?;
            let address = name(reader, "address")?;
            let (region, zone) = (name(reader, "region")?, name(reader, "zone")?);
            Ok(Self { boot, start, address, region, zone })
        })
    }

    /// Refuses names that are too long.
    pub(super) fn check(&self) -> Result<()> {
        for (what, text) in
            [("address", &self.address), ("region", &self.region), ("zone", &self.zone)]
        {
            if text.len() > NAME_BYTES_MAX {
                let text = format!("the {what} of a node has at most {NAME_BYTES_MAX} bytes");
                return Err(Error::Invalid(text));
            }
        }
        Ok(())
    }
}

impl TableRecord {
    /// Returns the bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_u64(self.version);
        out.extend_from_slice(&self.schema.to_record());
        out
    }

    /// Reads the bytes of the record of the table called `table`.
    pub fn decode(table: &str, value: &[u8]) -> Result<Self> {
        whole(&Key::Table(table.to_owned()), value, |reader| {
            let version = reader.u64("schema version")?;
            let rest = reader.rest();
            reader.bytes(rest.len(), "schema")?;
            let schema =
                TableSchema::from_record(rest).map_err(|error| What::Schema(error.to_string()))?;
            if schema.name.as_str() != table {
                return Err(What::Invalid("name: the record is of another table"));
            }
            Ok(Self { version, schema })
        })
    }
}

impl Placement {
    /// Returns the bytes of the placement.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_varint(self.members.len() as u64);
        for member in &self.members {
            out.put_varint(member.replica.0);
            out.put_varint(member.node.0);
        }
        out
    }

    /// Reads the bytes of the placement under `key`.
    pub fn decode(key: &Key, value: &[u8]) -> Result<Self> {
        whole(key, value, |reader| {
            let count = reader.varint("replicas")?;
            if !(1..=REPLICAS_MAX as u64).contains(&count) {
                return Err(What::Invalid("number of replicas"));
            }
            let mut members: Vec<Member> = Vec::new();
            for _ in 0..count {
                let replica = ReplicaId(reader.varint("replica")?);
                let node = NodeId(reader.varint("node")?);
                if members.last().map_or(0, |last| last.replica.0) >= replica.0 {
                    return Err(What::Invalid("order of replicas"));
                }
                if members.iter().any(|member| member.node == node) {
                    return Err(What::Invalid("members: two replicas on one node"));
                }
                members.push(Member { replica, node });
            }
            Ok(Self { members })
        })
    }
}

/// Returns the bytes of the address of a node's door.
pub fn encode_door(address: &str) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.put_string(address.as_bytes());
    out
}

/// Reads the bytes of the address of the door of `node`.
pub fn decode_door(node: NodeId, value: &[u8]) -> Result<String> {
    whole(&Key::Door(node), value, |reader| name(reader, "address"))
}

/// Returns the bytes of a counter.
pub(super) fn encode_counter(next: u64) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.put_u64(next);
    out
}

/// Reads the bytes of the counter under `key`.
pub(super) fn decode_counter(key: &Key, value: &[u8]) -> Result<u64> {
    whole(key, value, |reader| Ok(reader.u64("number")?))
}

/// Returns the bytes under which a front's record is kept.
pub(super) fn encode_record(record: &[u8]) -> Vec<u8> {
    [&[VERSION], record].concat()
}

/// Reads the bytes of the front's record called `name`.
pub(super) fn decode_record(name: &str, value: &Bytes) -> Result<Bytes> {
    let key = Key::Record(name.to_owned());
    whole(&key, value, |reader| Ok(reader.bytes(reader.rest().len(), "record")?.len()))?;
    Ok(value.slice(1..))
}

/// Returns the bytes of an intent.
pub(super) fn encode_intent(removal: &Removal) -> Vec<u8> {
    let mut out = vec![INTENT_VERSION];
    out.put_u64(removal.version);
    out.put_varint(removal.trees.len() as u64);
    removal.trees.iter().for_each(|tree| out.put_u32(tree.0));
    out
}

/// Reads the bytes of the intent under `key`. One of version 1 does not tell what it is newer than: it is older
/// than everything.
pub(super) fn decode_intent(key: &Key, value: &[u8]) -> Result<Removal> {
    whole_up_to(INTENT_VERSION, key, value, |version, reader| {
        let version = if version == 1 { 0 } else { reader.u64("version of the change")? };
        let count = reader.varint("trees")?;
        let mut trees = Vec::new();
        for _ in 0..count {
            trees.push(TreeId(reader.u32("tree")?));
        }
        Ok(Removal { trees, version })
    })
}

/// Feeds untrusted bytes to every decoder: what is accepted has one encoding.
#[doc(hidden)]
pub fn fuzz(value: &[u8]) {
    let same = |again: Vec<u8>| assert_eq!(again, value, "a value has one encoding");
    let node = NodeId(1);
    let _ = ClusterRecord::decode(value).map(|record| same(record.encode()));
    let _ = NodeRecord::decode(node, value).map(|record| same(record.encode()));
    let _ = TableRecord::decode("t", value);
    let _ = decode_door(node, value).map(|address| same(encode_door(&address)));
    let key = Key::NextTree;
    let _ = Placement::decode(&key, value).map(|record| same(record.encode()));
    let _ = decode_counter(&key, value).map(|next| same(encode_counter(next)));
    let intent = decode_intent(&key, value).ok();
    if let Some(intent) = intent.filter(|_| value.first() == Some(&INTENT_VERSION)) {
        same(encode_intent(&intent));
    }
    super::local::fuzz(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeRecord {
        let text = |text: &str| text.to_owned();
        NodeRecord { boot: 7, start: 9, address: text("a:1"), region: text("r"), zone: text("z") }
    }

    fn intent() -> Removal {
        Removal { trees: vec![TreeId(16), TreeId(17)], version: 7 }
    }

    fn placement() -> Placement {
        let member = |replica, node| Member { replica: ReplicaId(replica), node: NodeId(node) };
        Placement { members: vec![member(1, 3), member(2, 1), member(300, 2)] }
    }

    #[test]
    fn records_have_their_documented_bytes() {
        assert_eq!(
            node().encode(),
            b"\x01\x07\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03a:1\x01r\x01z"
        );
        assert_eq!(placement().encode(), b"\x01\x03\x01\x03\x02\x01\xac\x02\x02");
        assert_eq!(encode_door("a:1"), b"\x01\x03a:1");
        assert_eq!(decode_door(NodeId(1), b"\x01\x03a:1").as_deref(), Ok("a:1"));
        assert_eq!(encode_counter(16), b"\x01\x10\0\0\0\0\0\0\0");
        let bytes = b"\x02\x07\0\0\0\0\0\0\0\x02\x10\0\0\0\x11\0\0\0";
        assert_eq!(encode_intent(&intent()), bytes);
        assert_eq!(decode_intent(&Key::Cluster, bytes), Ok(intent()));
        let old = decode_intent(&Key::Cluster, b"\x01\x02\x10\0\0\0\x11\0\0\0");
        assert_eq!(old, Ok(Removal { version: 0, ..intent() }));
        let cluster = ClusterRecord { id: ClusterId(5), replicas: 3, founded_micros: 1 };
        let bytes = b"\x01\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\x01\0\0\0\0\0\0\0";
        assert_eq!(cluster.encode(), bytes);
        assert_eq!(ClusterRecord::decode(bytes), Ok(cluster));
        assert_eq!(NodeRecord::decode(NodeId(1), &node().encode()), Ok(node()));
        assert_eq!(Placement::decode(&Key::Cluster, &placement().encode()), Ok(placement()));
    }

    #[test]
    fn bytes_that_are_cut_flipped_or_of_another_version_never_panic() {
        for good in [node().encode(), placement().encode(), encode_intent(&intent())] {
            for len in 0..good.len() {
                fuzz(&good[..len]);
                let mut flipped = good.clone();
                flipped[len] ^= 0xff;
                fuzz(&flipped);
            }
            assert!(NodeRecord::decode(NodeId(1), &good[..good.len() - 1]).is_err());
        }
        let newer = NodeRecord::decode(NodeId(2), b"\x02").unwrap_err().to_string();
        assert!(newer.contains("nodes/0000000000000002"), "{newer}");
        assert!(newer.contains("use a newer Stele"), "{newer}");
        let two = Placement { members: vec![placement().members[0]; 2] };
        assert!(Placement::decode(&Key::Cluster, &two.encode()).is_err());
    }
}
