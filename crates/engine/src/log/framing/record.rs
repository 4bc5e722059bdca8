//! Bytes of the commit log and the manifest: the file header and the record framing.
//!
//! Layouts are in docs/format/commit_log.md. Decoding is pure, never panics and allocates
//! nothing; what to make of a bad record is decided in `record_scan.rs` and its callers.

use crate::cell::{SequenceNumber, TreeId};
use crate::error::Error;
use base::checksum::crc32c;
use base::codec::{ByteReader, PutBytes};
use std::path::Path;

/// Length of the header of a file.
pub(crate) const FILE_HEADER_LEN: u64 = 32;
/// Length of the header of a record.
pub(crate) const RECORD_HEADER_LEN: usize = 44;
/// Longest payload of a record.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// A kind of file made of records.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) magic: [u8; 8],
    /// Newest version this code reads, and the one it writes unless it needs nothing of it.
    pub(crate) version: u32,
    /// Oldest Stele, major and minor, that reads this version.
    pub(crate) stele: (u16, u16),
    /// Kinds of record that the file may have.
    pub(crate) kinds: &'static [RecordKind],
}

/// Segments of the commit log.
pub(crate) const LOG: Format = Format {
    magic: *b"STELELOG",
    version: LOG_WITH_BATCHES,
    stele: (0, 1),
    kinds: &[RecordKind::Batch, RecordKind::Seal, RecordKind::Close, RecordKind::Batches],
};

/// Version of a segment of the commit log without a record of several trees. Segments have it until there is
/// one, so that a program that knows no other version reads a store without.
pub(crate) const LOG_FIRST: u32 = 1;
/// Version of a segment that may have records of several trees.
pub(crate) const LOG_WITH_BATCHES: u32 = 2;

/// Segments of the group log.
pub(crate) const GROUP_LOG: Format = Format {
    magic: *b"STELEGRP",
    version: 1,
    stele: (0, 1),
    kinds: &[RecordKind::Group, RecordKind::Seal, RecordKind::Close],
};

pub(crate) const MANIFEST: Format = Format {
    magic: *b"STELEMAN",
    version: 1,
    stele: (0, 1),
    kinds: &[RecordKind::Edit, RecordKind::Synced, RecordKind::Close, RecordKind::SnapshotPart],
};

/// Kind of a record. The byte on disk is frozen; 0 stays invalid to catch zeroed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// A batch of one tree.
    Batch = 1,
    /// The segment ends here.
    Seal = 2,
    /// The log ends here, and everything before was synced.
    Close = 3,
    /// A group of version edits; only in manifests.
    Edit = 4,
    /// Everything before was synced; only in manifests.
    Synced = 5,
    /// A part of the snapshot that a manifest begins with, which goes on in the next record of edits.
    SnapshotPart = 6,
    /// A write of one group; only in the group log.
    Group = 7,
    /// Batches of several trees that commit together.
    Batches = 8,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Batch),
            2 => Some(Self::Seal),
            3 => Some(Self::Close),
            4 => Some(Self::Edit),
            5 => Some(Self::Synced),
            6 => Some(Self::SnapshotPart),
            7 => Some(Self::Group),
            8 => Some(Self::Batches),
            _ => None,
        }
    }
}

/// One record with a payload, as it is appended and as it is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRecord<'a> {
    pub(crate) kind: RecordKind,
    /// The tree the batch belongs to; 0 if the kind has none.
    pub tree: TreeId,
    /// Sequence number of its first mutation.
    pub first: SequenceNumber,
    /// When it was committed, in microseconds of the hybrid clock.
    pub commit_time: u64,
    /// The encoded batch, or what the kind has; opaque here.
    pub payload: &'a [u8],
    /// crc32c of the payload, taken by whoever made it, before it waited for its turn.
    pub payload_crc: u32,
}

impl<'a> LogRecord<'a> {
    /// The record of a batch, with the checksum of `payload`.
    pub fn new(tree: TreeId, first: SequenceNumber, commit_time: u64, payload: &'a [u8]) -> Self {
        let (kind, payload_crc) = (RecordKind::Batch, crc32c(&[payload]));
        Self { kind, tree, first, commit_time, payload, payload_crc }
    }

    /// A record of no tree, with the checksum of `payload`.
    pub(crate) fn of_kind(kind: RecordKind, payload: &'a [u8]) -> Self {
        Self { kind, ..Self::new(TreeId(0), SequenceNumber(0), 0, payload) }
    }
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) payload_crc: u32,
    pub(crate) payload_len: u32,
    pub(crate) tree: TreeId,
    pub(crate) first: SequenceNumber,
    pub(crate) commit_time: u64,
    pub(crate) synced_to: u64,
    pub(crate) kind: RecordKind,
}

/// Damage of the header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileHeaderFault {
    /// The bytes are no header of this file.
    Bad(&'static str),
    /// A valid header of a version this code does not know.
    Newer(Newer),
}

/// A version this code does not know, and the oldest Stele that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newer {
    version: u32,
    major: u16,
    minor: u16,
}

impl Newer {
    /// The refusal of a file of `format`.
    pub(crate) fn refuse(self, format: &Format, path: &Path) -> Error {
        let Self { version, major, minor } = self;
        let name = path.file_name().unwrap_or_default().display();
        let what = format!(
            "{name} has format {version}, this Stele reads up to {}; \
             open it with Stele {major}.{minor} or newer",
            format.version
        );
        Error::Unusable { dir: path.parent().unwrap_or(path).to_owned(), what }
    }
}

/// Damage of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordFault {
    /// The bytes are no record written here: nothing was, or a write was torn, or they rotted.
    Bad(&'static str),
    /// The checksums hold, the fields are impossible.
    Impossible(&'static str),
}

/// The header of file `number`, of this version of its format.
pub(crate) fn encode_file_header(format: &Format, version: u32, number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(FILE_HEADER_LEN as usize);
    out.extend_from_slice(&format.magic);
    out.put_u32(version);
    out.put_u16(format.stele.1);
    out.put_u16(format.stele.0);
    out.put_u64(number);
    out.put_u32(0);
    let crc = crc32c(&[&out]);
    out.put_u32(crc);
    out
}

/// Checks the header of file `number`; `bytes` may be shorter than a header.
pub(crate) fn check_file_header(
    format: &Format,
    number: u64,
    bytes: &[u8],
) -> Result<(), FileHeaderFault> {
    let short = |_| FileHeaderFault::Bad("the file ends inside its header");
    let mut reader = ByteReader::new(bytes);
    let checked = reader.bytes(FILE_HEADER_LEN as usize - 4, "header").map_err(short)?;
    let crc = reader.u32("checksum").map_err(short)?;
    if crc32c(&[checked]) != crc {
        return Err(FileHeaderFault::Bad("checksum of the file header"));
    }
    let mut reader = ByteReader::new(checked);
    if reader.bytes(8, "magic").map_err(short)? != format.magic {
        return Err(FileHeaderFault::Bad("magic of the file header"));
    }
    let version = reader.u32("version").map_err(short)?;
    let minor = reader.u16("minor").map_err(short)?;
    let major = reader.u16("major").map_err(short)?;
    if version > format.version {
        return Err(FileHeaderFault::Newer(Newer { version, major, minor }));
    }
    let named = reader.u64("number").map_err(short)?;
    if version == 0 || reader.u32("reserved").map_err(short)? != 0 {
        return Err(FileHeaderFault::Bad("version or reserved bytes of the file header"));
    }
    if named != number {
        return Err(FileHeaderFault::Bad("the header names another file"));
    }
    Ok(())
}

fn header_crc(number: u64, offset: u64, fields: &[u8]) -> u32 {
    crc32c(&[&number.to_le_bytes(), &offset.to_le_bytes(), fields])
}

/// Appends to `out` the record that will stand at `offset` of file `number`.
pub(crate) fn encode_record(
    out: &mut Vec<u8>,
    number: u64,
    offset: u64,
    synced_to: u64,
    record: &LogRecord<'_>,
) {
    assert!(record.payload.len() <= PAYLOAD_BYTES_MAX, "the caller checks the payload's length");
    assert!(synced_to <= offset, "only what was written can have been synced");
    debug_assert_eq!(record.payload_crc, crc32c(&[record.payload]));
    let start = out.len();
    out.put_u32(0);
    out.put_u32(record.payload_crc);
    out.put_u32(record.payload.len() as u32);
    out.put_u32(record.tree.0);
    out.put_u64(record.first.0);
    out.put_u64(record.commit_time);
    out.put_u64(synced_to);
    out.extend_from_slice(&[record.kind as u8, 0, 0, 0]);
    let crc = header_crc(number, offset, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(record.payload);
}

/// Appends a record without tree or payload.
pub(crate) fn encode_mark(
    out: &mut Vec<u8>,
    number: u64,
    offset: u64,
    synced_to: u64,
    kind: RecordKind,
) {
    encode_record(out, number, offset, synced_to, &LogRecord::of_kind(kind, &[]));
}

/// The record header in the first bytes of `bytes`, which stand at `offset` of file `number`.
pub(crate) fn decode_record_header(
    format: &Format,
    number: u64,
    offset: u64,
    bytes: &[u8],
) -> Result<RecordHeader, RecordFault> {
    let short = |_| RecordFault::Bad("the file ends inside a record header");
    let mut reader = ByteReader::new(bytes);
    let crc = reader.u32("header checksum").map_err(short)?;
    let fields = reader.bytes(RECORD_HEADER_LEN - 4, "record header").map_err(short)?;
    if header_crc(number, offset, fields) != crc {
        return Err(RecordFault::Bad("checksum of a record header"));
    }
    let mut reader = ByteReader::new(fields);
    let payload_crc = reader.u32("payload checksum").map_err(short)?;
    let payload_len = reader.u32("payload length").map_err(short)?;
    let tree = TreeId(reader.u32("tree").map_err(short)?);
    let first = SequenceNumber(reader.u64("sequence").map_err(short)?);
    let commit_time = reader.u64("commit time").map_err(short)?;
    let synced_to = reader.u64("synced to").map_err(short)?;
    let kind = reader.u8("type").map_err(short)?;
    let kind = RecordKind::from_byte(kind).filter(|kind| format.kinds.contains(kind));
    let kind = kind.ok_or(RecordFault::Impossible("unknown type of record"))?;
    let header =
        RecordHeader { payload_crc, payload_len, tree, first, commit_time, synced_to, kind };
    check_fields(&header, offset, reader.rest())?;
    Ok(header)
}

/// Larger than any commit time: the clock gives less than 2^63, and later groups count on from there.
/// Decoders refuse it, and a commit that would reach it is refused.
pub(crate) const COMMIT_TIME_END: u64 = 3 << 62;

fn check_fields(header: &RecordHeader, offset: u64, reserved: &[u8]) -> Result<(), RecordFault> {
    if reserved.iter().any(|byte| *byte != 0) {
        return Err(RecordFault::Impossible("reserved bytes of a record header"));
    }
    if header.synced_to > offset {
        return Err(RecordFault::Impossible("a record that claims to have been synced"));
    }
    if header.payload_len as usize > PAYLOAD_BYTES_MAX {
        return Err(RecordFault::Impossible("length of a record"));
    }
    if header.first > SequenceNumber::MAX || header.commit_time >= COMMIT_TIME_END {
        return Err(RecordFault::Impossible("a number that no record reaches"));
    }
    let has_tree = header.tree.0 != 0;
    let is_numbered = (header.first.0, header.commit_time) != (0, 0);
    let bare = matches!(header.kind, RecordKind::Seal | RecordKind::Close | RecordKind::Synced);
    let fits = match header.kind {
        RecordKind::Batch => true,
        RecordKind::Batches => !has_tree,
        _ => !has_tree && !is_numbered,
    };
    if !fits || bare && header.payload_len != 0 {
        return Err(RecordFault::Impossible("fields that its type does not have"));
    }
    Ok(())
}

/// Returns whether `bytes` (at least a record header) may be one with `synced_to` in `range`: a cheap
/// test before the checksum.
pub(crate) fn may_be_header(bytes: &[u8], synced_above: Option<u64>) -> bool {
    let Some((fields, tail)) = bytes.split_at_checked(40) else { return false };
    let (Some(mark), Some(synced)) = (tail.first_chunk::<4>(), fields.last_chunk::<8>()) else {
        return false;
    };
    let synced = u64::from_le_bytes(*synced);
    (1..=8).contains(&mark[0])
        && mark[1..] == [0, 0, 0]
        && synced_above.is_none_or(|bound| synced > bound)
}
