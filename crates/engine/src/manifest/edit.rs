//! Edits: changes of what trees and SSTables exist, as values, and their encoding
//! (docs/format/manifest.md).

use super::state::version::{ChangeLog, FileNumber, RunId, SstMeta};
use crate::cell::{SequenceNumber, Timestamp, TreeId};
use crate::log::{COMMIT_TIME_END, LogPosition, SegmentNumber};
use crate::options::{Compression, FilterGranularity, TreeOptions};
use crate::request::RowRange;
use base::codec::{ByteReader, DecodeError, PutBytes};
use std::fmt;

/// One change. A group of them takes effect together; see [`super::ManifestSet::install`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// A new tree without files. Its id was never used before.
    CreateTree {
        tree: TreeId,
        /// Options of its creation, kept as long as the tree lives.
        options: TreeOptions,
    },
    /// The tree and all its SSTables are gone; its id is never given again.
    DropTree { tree: TreeId },
    /// A tree of this id was dropped. Only snapshots need to say so.
    UsedTree { tree: TreeId },
    /// An SSTable joins a run, which comes into being if it is its first.
    AddSst {
        tree: TreeId,
        /// 0..[`super::state::version::LEVELS`].
        level: usize,
        /// The run; in one level, a larger id is a newer run.
        run: RunId,
        /// The file.
        meta: SstMeta,
    },
    /// An SSTable leaves its run, which ends if it was its last.
    RemoveSst { tree: TreeId, level: usize, run: RunId, number: FileNumber },
    /// Every batch of the tree up to `position` is in SSTables. Never goes back.
    Flushed {
        tree: TreeId,
        /// Position of the last batch.
        position: LogPosition,
    },
    /// All smaller file numbers may have been used.
    NextFile(FileNumber),
    /// All sequence numbers up to here may have been used.
    LastSequence(SequenceNumber),
    /// Segments of the log before this one may be gone, this one and all after it are needed.
    /// Never goes back.
    LogFrom(SegmentNumber),
    /// The log was closed cleanly.
    LogClosed(LogClosed),
    /// Id of the store. Set once.
    Store(StoreId),
    /// No commit before this one, nor anything it wrote, has a time after this: microseconds since
    /// the epoch. Never goes back.
    CommitTime(u64),
    /// The clock showed this at a commit before this edit: microseconds since the epoch. Never goes
    /// back.
    Clock(u64),
    /// Owner of the store. The last one counts: a store can be handed over.
    Owner(Owner),
    /// The store is a node's of a cluster. Set once, before any tree.
    Member(Member),
    /// The changes of the tree are kept for readers, or no longer. The last one counts.
    KeepChanges { tree: TreeId, log: Option<ChangeLog> },
}

/// Owner of a store: may write to it, and defines the meaning of its trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A program that embeds the engine.
    Embedder = 1,
    /// A server, which keeps its schema in tree 1 and tables in trees from 16 on.
    Server = 2,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedder => "an embedding program",
            Self::Server => "a server",
        })
    }
}

/// Id of a cluster, drawn when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Id of a node, unique in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// A node of a cluster, as a store knows that it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// The cluster that the node belongs to.
    pub cluster: ClusterId,
    /// The node that the store is of.
    pub node: NodeId,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} of cluster {}", self.node.0, self.cluster)
    }
}

/// Id of a store, the same in its copies, backups and restored stores. A clone has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u128);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// End of a log that was closed cleanly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogClosed {
    /// Its last segment.
    pub segment: SegmentNumber,
    /// End of the records of that segment.
    pub end: u64,
}

/// Tags on disk, frozen. 0 stays invalid to catch zeroed pages.
mod tag {
    pub(super) const CREATE_TREE: u8 = 1;
    pub(super) const DROP_TREE: u8 = 2;
    pub(super) const USED_TREE: u8 = 3;
    pub(super) const ADD_SST: u8 = 4;
    pub(super) const REMOVE_SST: u8 = 5;
    pub(super) const FLUSHED: u8 = 6;
    pub(super) const NEXT_FILE: u8 = 7;
    pub(super) const LAST_SEQUENCE: u8 = 8;
    pub(super) const LOG_FROM: u8 = 9;
    pub(super) const LOG_CLOSED: u8 = 10;
    /// `CREATE_TREE` with the options of row prefixes.
    pub(super) const CREATE_PREFIXED_TREE: u8 = 11;
    pub(super) const STORE: u8 = 12;
    pub(super) const COMMIT_TIME: u8 = 13;
    pub(super) const OWNER: u8 = 14;
    pub(super) const CLOCK: u8 = 15;
    pub(super) const KEEP_CHANGES: u8 = 16;
    pub(super) const MEMBER: u8 = 17;
}

/// Damage of encoded edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditError {
    /// The bytes end early or are malformed.
    Decode(DecodeError),
    /// A byte that names nothing.
    Byte(&'static str, u8),
    /// A number that no store reaches, and from which none may be counted on.
    Number(&'static str, u64),
}

/// The greatest number of a file or a run: far more than will ever be used, and the next one never
/// overflows.
const NUMBER_MAX: u64 = FileNumber::END - 1;

/// The greatest length and the greatest counts of an SSTable: those of many make a sum.
const SST_COUNT_MAX: u64 = 1 << 48;

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "manifest edit: {error}"),
            Self::Byte(what, byte) => write!(f, "manifest edit: {byte} is no {what}"),
            Self::Number(what, number) => {
                write!(f, "manifest edit: {what} {number}; no store reaches that")
            }
        }
    }
}

impl std::error::Error for EditError {}

impl From<DecodeError> for EditError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl Edit {
    /// Appends the encoding to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        match self {
            Self::CreateTree { tree, options } => {
                let prefixed = options.row_prefix_bytes > 0;
                out.push(if prefixed { tag::CREATE_PREFIXED_TREE } else { tag::CREATE_TREE });
                out.put_u32(tree.0);
                encode_options(out, options);
                if prefixed {
                    out.put_u16(options.row_prefix_bytes);
                    out.push(options.prefix_index.into());
                }
            }
            Self::DropTree { tree } => {
                out.push(tag::DROP_TREE);
                out.put_u32(tree.0);
            }
            Self::UsedTree { tree } => {
                out.push(tag::USED_TREE);
                out.put_u32(tree.0);
            }
            Self::AddSst { tree, level, run, meta } => {
                put_place(out, tag::ADD_SST, *tree, *level, *run);
                encode_meta(out, meta);
            }
            Self::RemoveSst { tree, level, run, number } => {
                put_place(out, tag::REMOVE_SST, *tree, *level, *run);
                out.put_u64(number.0);
            }
            Self::Flushed { tree, position } => {
                out.push(tag::FLUSHED);
                out.put_u32(tree.0);
                out.put_u64(position.0);
            }
            Self::NextFile(number) => {
                out.push(tag::NEXT_FILE);
                out.put_u64(number.0);
            }
            Self::LastSequence(sequence) => {
                out.push(tag::LAST_SEQUENCE);
                out.put_u64(sequence.0);
            }
            Self::LogFrom(segment) => {
                out.push(tag::LOG_FROM);
                out.put_u64(segment.0);
            }
            Self::LogClosed(LogClosed { segment, end }) => {
                out.push(tag::LOG_CLOSED);
                out.put_u64(segment.0);
                out.put_u64(*end);
            }
            Self::Store(StoreId(id)) => {
                out.push(tag::STORE);
                out.extend_from_slice(&id.to_le_bytes());
            }
            Self::CommitTime(micros) => {
                out.push(tag::COMMIT_TIME);
                out.put_u64(*micros);
            }
            Self::Owner(owner) => out.extend([tag::OWNER, *owner as u8]),
            Self::Member(Member { cluster, node }) => {
                out.push(tag::MEMBER);
                out.extend_from_slice(&cluster.0.to_le_bytes());
                out.put_u64(node.0);
            }
            Self::Clock(micros) => {
                out.push(tag::CLOCK);
                out.put_u64(*micros);
            }
            Self::KeepChanges { tree, log } => {
                out.push(tag::KEEP_CHANGES);
                out.put_u32(tree.0);
                let numbers = log.map(|log| (log.since.0, log.since_micros, log.retention_micros));
                let (since, since_micros, retention_micros) = numbers.unwrap_or_default();
                out.put_u64(since);
                out.put_u64(since_micros);
                out.put_u64(retention_micros);
            }
        }
    }

    /// The edits in `bytes`. Allocates no more than a small multiple of their length.
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, EditError> {
        let mut reader = ByteReader::new(bytes);
        let mut edits = Vec::new();
        while !reader.is_empty() {
            edits.push(Self::decode(&mut reader)?);
        }
        Ok(edits)
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Self, EditError> {
        let tag = reader.u8("tag")?;
        match tag {
            tag::NEXT_FILE => {
                return Ok(Self::NextFile(FileNumber(number(
                    reader,
                    "next file",
                    FileNumber::END,
                )?)));
            }
            tag::LAST_SEQUENCE => {
                return Ok(Self::LastSequence(sequence(reader, "last sequence number")?));
            }
            tag::LOG_FROM => {
                return Ok(Self::LogFrom(SegmentNumber(number(
                    reader,
                    "segment",
                    SegmentNumber::END - 1,
                )?)));
            }
            tag::LOG_CLOSED => {
                let segment = SegmentNumber(number(reader, "segment", SegmentNumber::END - 1)?);
                return Ok(Self::LogClosed(LogClosed { segment, end: reader.u64("log end")? }));
            }
            tag::STORE => return Ok(Self::Store(StoreId(decode_id(reader, "store id")?))),
            tag::MEMBER => {
                let cluster = ClusterId(decode_id(reader, "cluster id")?);
                let node = NodeId(reader.u64("node id")?);
                return Ok(Self::Member(Member { cluster, node }));
            }
            tag::OWNER => {
                return match reader.u8("owner")? {
                    1 => Ok(Self::Owner(Owner::Embedder)),
                    2 => Ok(Self::Owner(Owner::Server)),
                    byte => Err(EditError::Byte("owner", byte)),
                };
            }
            tag::COMMIT_TIME => {
                return Ok(Self::CommitTime(number(reader, "commit time", COMMIT_TIME_END - 1)?));
            }
            tag::CLOCK => return Ok(Self::Clock(number(reader, "clock", COMMIT_TIME_END - 1)?)),
            _ => {}
        }
        let tree = TreeId(reader.u32("tree")?);
        Ok(match tag {
            tag::CREATE_TREE => Self::CreateTree { tree, options: decode_options(reader)? },
            tag::CREATE_PREFIXED_TREE => {
                Self::CreateTree { tree, options: decode_prefixed_options(reader)? }
            }
            tag::DROP_TREE => Self::DropTree { tree },
            tag::USED_TREE => Self::UsedTree { tree },
            tag::ADD_SST => {
                let (level, run) = decode_place(reader)?;
                Self::AddSst { tree, level, run, meta: decode_meta(reader)? }
            }
            tag::REMOVE_SST => {
                let (level, run) = decode_place(reader)?;
                let number = FileNumber(number(reader, "file", NUMBER_MAX)?);
                Self::RemoveSst { tree, level, run, number }
            }
            tag::FLUSHED => {
                let position = LogPosition(sequence(reader, "position")?.0);
                Self::Flushed { tree, position }
            }
            tag::KEEP_CHANGES => Self::KeepChanges { tree, log: decode_change_log(reader)? },
            unknown => return Err(EditError::Byte("edit", unknown)),
        })
    }
}

fn decode_id(reader: &mut ByteReader<'_>, what: &'static str) -> Result<u128, DecodeError> {
    let (low, high) = (reader.u64(what)?, reader.u64(what)?);
    Ok(u128::from(high) << 64 | u128::from(low))
}

/// Reads a change log; a retention of 0 stands for none.
fn decode_change_log(reader: &mut ByteReader<'_>) -> Result<Option<ChangeLog>, EditError> {
    let since = sequence(reader, "start of changes")?;
    let since_micros = number(reader, "start time of changes", COMMIT_TIME_END - 1)?;
    let retention_micros = number(reader, "retention of changes", COMMIT_TIME_END - 1)?;
    if retention_micros == 0 && (since.0, since_micros) != (0, 0) {
        return Err(EditError::Number("retention of changes", 0));
    }
    let log = ChangeLog { since, since_micros, retention_micros };
    Ok((retention_micros > 0).then_some(log))
}

fn put_place(out: &mut Vec<u8>, tag: u8, tree: TreeId, level: usize, run: RunId) {
    out.push(tag);
    out.put_u32(tree.0);
    out.push(u8::try_from(level).unwrap_or(u8::MAX));
    out.put_u64(run.0);
}

fn decode_place(reader: &mut ByteReader<'_>) -> Result<(usize, RunId), EditError> {
    let level = usize::from(reader.u8("level")?);
    Ok((level, RunId(number(reader, "run", NUMBER_MAX)?)))
}

fn sequence(reader: &mut ByteReader<'_>, what: &'static str) -> Result<SequenceNumber, EditError> {
    number(reader, what, SequenceNumber::MAX.0).map(SequenceNumber)
}

/// A number of at most `max`.
fn number(reader: &mut ByteReader<'_>, what: &'static str, max: u64) -> Result<u64, EditError> {
    match reader.u64(what)? {
        number if number <= max => Ok(number),
        number => Err(EditError::Number(what, number)),
    }
}

/// Stands for no fixed filter granularity.
const LEARNED: u8 = 3;

fn encode_options(out: &mut Vec<u8>, options: &TreeOptions) {
    out.put_u32(options.block_bytes);
    out.push(options.compression as u8);
    out.push(options.compression_last as u8);
    out.push(options.filter_bits_per_key);
    out.push(options.filter_granularity.map_or(LEARNED, |granularity| granularity as u8));
}

fn decode_prefixed_options(reader: &mut ByteReader<'_>) -> Result<TreeOptions, EditError> {
    let options = decode_options(reader)?;
    let row_prefix_bytes = reader.u16("row prefix bytes")?;
    let prefix_index = match reader.u8("prefix index")? {
        0 => false,
        1 => true,
        byte => return Err(EditError::Byte("prefix index", byte)),
    };
    if row_prefix_bytes == 0 {
        return Err(EditError::Byte("row prefix length", 0));
    }
    Ok(TreeOptions { row_prefix_bytes, prefix_index, ..options })
}

fn decode_options(reader: &mut ByteReader<'_>) -> Result<TreeOptions, EditError> {
    let block_bytes = reader.u32("block bytes")?;
    let mut compression = || {
        let byte = reader.u8("compression")?;
        Compression::from_byte(byte).ok_or(EditError::Byte("compression", byte))
    };
    let (compression, compression_last) = (compression()?, compression()?);
    let filter_bits_per_key = reader.u8("filter bits")?;
    let byte = reader.u8("filter granularity")?;
    let filter_granularity = FilterGranularity::from_byte(byte);
    if filter_granularity.is_none() && byte != LEARNED {
        return Err(EditError::Byte("filter granularity", byte));
    }
    Ok(TreeOptions {
        block_bytes,
        compression,
        compression_last,
        filter_bits_per_key,
        filter_granularity,
        ..TreeOptions::default()
    })
}

fn encode_meta(out: &mut Vec<u8>, meta: &SstMeta) {
    out.put_u64(meta.number.0);
    out.put_u64(meta.bytes);
    out.put_string(&meta.first_row);
    out.put_string(&meta.last_row);
    out.put_u64(meta.entries);
    out.put_u64(meta.tombstones);
    out.put_u64(meta.range_tombstones);
    match &meta.dropped {
        None => out.push(0),
        Some(RowRange { start, end }) => {
            out.push(if end.is_some() { 1 } else { 2 });
            out.put_string(start);
            out.put_string(end.as_deref().unwrap_or_default());
        }
    }
    out.put_u64(meta.sequence_min.0);
    out.put_u64(meta.sequence_max.0);
    out.put_i64(meta.timestamp_min.0);
    out.put_i64(meta.timestamp_max.0);
}

fn decode_meta(reader: &mut ByteReader<'_>) -> Result<SstMeta, EditError> {
    let count = |what, reader: &mut ByteReader<'_>| number(reader, what, SST_COUNT_MAX);
    Ok(SstMeta {
        number: FileNumber(number(reader, "file number", NUMBER_MAX)?),
        bytes: count("file length", reader)?,
        first_row: reader.string("first row")?.to_vec(),
        last_row: reader.string("last row")?.to_vec(),
        entries: count("entries", reader)?,
        tombstones: count("tombstones", reader)?,
        range_tombstones: count("range tombstones", reader)?,
        dropped: decode_dropped(reader)?,
        sequence_min: sequence(reader, "smallest sequence number")?,
        sequence_max: sequence(reader, "largest sequence number")?,
        timestamp_min: Timestamp(reader.i64("oldest timestamp")?),
        timestamp_max: Timestamp(reader.i64("newest timestamp")?),
    })
}

fn decode_dropped(reader: &mut ByteReader<'_>) -> Result<Option<RowRange>, EditError> {
    let flag = reader.u8("dropped range")?;
    if flag == 0 {
        return Ok(None);
    }
    let start = reader.string("start of the dropped range")?.to_vec();
    let end = reader.string("end of the dropped range")?.to_vec();
    match flag {
        1 => Ok(Some(RowRange { start, end: Some(end) })),
        2 if end.is_empty() => Ok(Some(RowRange { start, end: None })),
        other => Err(EditError::Byte("dropped range", other)),
    }
}
