//! The frame of an SSTable (docs/format/sstable.md): footer, handles, block trailers. The header,
//! and what the checksums of blocks are made of, is in block_identity.rs.
//!
//! ```text
//! file    = header { data block | large-value block } { filter partition } { index partition }
//!           [ range-tombstone block ] top index  properties  footer
//! block   = stored bytes | compression u8 | type u8 | low 32 bits of XXH3 of all before it,
//!           seeded by file and offset
//! stored  = raw bytes, or when compressed: raw length u32 | compressed bytes
//! footer  = 64 bytes, see `Footer`
//! ```
//!
//! Invariants:
//! 1. Every byte of a file belongs to exactly one block, or to the header or the footer, and is
//!    covered by a checksum there.
//! 2. A length is compared with the file's length before anything of that length is allocated,
//!    and a raw length with the limit of its block type.
//! 3. No block is sealed that is over the limit of its type: a reader would refuse it.

pub(super) mod ages;
pub(super) mod block_identity;
pub(super) mod damage;
pub(super) mod ints;
pub(super) mod key_heads;
pub(super) mod origin;
pub(super) mod properties;
pub(super) mod range_block;

use crate::batch::VALUE_BYTES_MAX;
use crate::files::FileIdentity;
use crate::marks::Mark;
use crate::options::Compression;
use base::checksum::{xxh3, xxh3_seeded};
use base::codec::{ByteReader, DecodeError, PutBytes};
use block_identity::Frames;
use damage::{Damage, ensure};

/// Longest raw data block. A block is cut when it is full, and before a row that would make it
/// overfull by what keys no longer share. So the longest is a full one with the longest row key,
/// qualifier and inline value on top, and with every column of integers as wide as can be.
pub(in crate::sstable) const DATA_BLOCK_BYTES_MAX: usize = 4 << 20;

/// Newest version of the format that this code reads, and the one it writes.
pub(crate) const FORMAT_VERSION: u16 = 2;

/// Length of the footer, of this and every later version.
pub(super) const FOOTER_LEN: usize = 64;

/// Feature a reader must understand: the file was ingested, its entries have the sequence number
/// that the manifest gives it, and its blocks say 0.
const FEATURE_INGESTED: u32 = 1;

/// Feature a reader must understand: index partitions may have a prefix index.
const FEATURE_PREFIX_INDEX: u32 = 2;

/// The last bytes of every SSTable: `STELESST`.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"STELESST");

/// Length of what follows the stored bytes of a block.
pub(super) const TRAILER_LEN: usize = 6;

/// Blocks that compression does not make smaller by this share are stored as they are.
const COMPRESSION_GAIN_MIN_PERCENT: usize = 12;

/// Longest raw bytes of a filter or index partition, and of the properties.
pub(super) const BLOCK_RAW_BYTES_MAX: usize = 512 << 20;

/// Longest raw bytes of the blocks of which a file has one however large it is: what a handle can
/// say, with room for the trailer.
pub(super) const WHOLE_FILE_BYTES_MAX: usize = u32::MAX as usize - 64;

/// Place of a block: its first byte and the length of its stored bytes, trailer not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Handle {
    /// From the start of the file.
    pub offset: u64,
    /// Stored bytes.
    pub len: u32,
}

impl Handle {
    /// Where the block ends in the file, trailer included; `None` past the end of `u64`.
    pub(crate) fn end(self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.len) + TRAILER_LEN as u64)
    }

    /// Bytes that it takes in the file, trailer included.
    pub(super) fn framed_len(self) -> usize {
        self.len as usize + TRAILER_LEN
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.put_u64(self.offset);
        out.put_u32(self.len);
    }

    pub(super) fn read(reader: &mut ByteReader<'_>) -> Result<Self, base::codec::DecodeError> {
        Ok(Self { offset: reader.u64("block offset")?, len: reader.u32("block length")? })
    }
}

/// Kind of a block. The byte on disk is frozen; 0 stays invalid to catch zeroed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum BlockType {
    /// Rows and their entries.
    Data = 1,
    /// One value that was too large for its data block.
    LargeValue = 2,
    /// Filter of the rows of one partition.
    Filter = 3,
    /// First keys of the blocks of one partition.
    Index = 4,
    /// First keys of the partitions.
    TopIndex = 5,
    /// Dropped row ranges.
    RangeTombstones = 6,
    /// Counts and bounds of the file.
    Properties = 7,
}

impl BlockType {
    /// The type of a byte on disk; `None` for a byte that names none.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Data,
            2 => Self::LargeValue,
            3 => Self::Filter,
            4 => Self::Index,
            5 => Self::TopIndex,
            6 => Self::RangeTombstones,
            7 => Self::Properties,
            _ => return None,
        })
    }

    fn raw_bytes_max(self) -> usize {
        match self {
            Self::Data => DATA_BLOCK_BYTES_MAX,
            Self::LargeValue => VALUE_BYTES_MAX,
            Self::TopIndex | Self::RangeTombstones => WHOLE_FILE_BYTES_MAX,
            Self::Filter | Self::Index | Self::Properties => BLOCK_RAW_BYTES_MAX,
        }
    }
}

/// The fixed end of every file.
///
/// ```text
/// version 1: 0 top index handle (offset u64, len u32)   12 properties handle
///            24 range-tombstone handle
/// version 2: 0 top index handle   12 range-tombstone len u32   16 properties len u32
///            20 identity, 16 bytes
/// 36 features that a reader must understand u32   40 features it may ignore u32
/// 44 zero u16   46 version u16   48 XXH3-64 of bytes 0..48   56 magic
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub top_index: Handle,
    pub properties: Handle,
    /// The range tombstones; `None` when the file has none.
    pub range_tombstones: Option<Handle>,
    /// The entries' sequence number is not in the file: the manifest has it.
    pub ingested: bool,
    /// Index partitions may have a prefix index.
    pub prefix_index: bool,
    /// Identity of the file; `None` in version 1.
    pub identity: Option<FileIdentity>,
}

const FOOTER_CHECKED_LEN: usize = 48;
/// Bytes of the footer that differ from version to version.
const FOOTER_PLACES_LEN: usize = 36;

/// Why a footer was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FooterError {
    /// The bytes are damaged.
    Damage(Damage),
    /// The file is whole but of a version or with features this program does not know.
    Newer(String),
}

impl FooterError {
    /// The refusal of a version that this program does not know.
    pub(super) fn newer(version: u16) -> Self {
        Self::Newer(format!(
            "SSTable format version {version}; this program reads versions up to {FORMAT_VERSION}"
        ))
    }
}

impl From<Damage> for FooterError {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

impl Footer {
    /// The 64 bytes. Since version 2, range tombstones and properties follow the top index.
    pub(crate) fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut out = Vec::with_capacity(FOOTER_LEN);
        self.top_index.put(&mut out);
        match self.identity {
            None => {
                self.properties.put(&mut out);
                self.range_tombstones.unwrap_or_default().put(&mut out);
            }
            Some(identity) => {
                let ranges_len = self.range_tombstones.map_or(0, |handle| handle.len);
                let follow = Self::behind(self.top_index, ranges_len, self.properties.len);
                let own = (self.range_tombstones, self.properties);
                assert_eq!(follow, Some(own), "blocks before the footer follow each other");
                out.put_u32(ranges_len);
                out.put_u32(self.properties.len);
                out.extend_from_slice(&identity.0.to_le_bytes());
            }
        }
        let ingested = u32::from(self.ingested) * FEATURE_INGESTED;
        let prefix_index = u32::from(self.prefix_index) * FEATURE_PREFIX_INDEX;
        out.put_u32(ingested | prefix_index);
        out.put_u32(0);
        out.put_u16(0);
        out.put_u16(if self.identity.is_some() { FORMAT_VERSION } else { 1 });
        out.put_u64(xxh3(&out[..FOOTER_CHECKED_LEN]));
        out.put_u64(MAGIC);
        out.try_into().expect("the fields above are 64 bytes")
    }

    /// The footer in the last 64 bytes of a file.
    pub(crate) fn decode(bytes: &[u8; FOOTER_LEN]) -> Result<Self, FooterError> {
        let decode = |error| Damage::decode(0, error);
        let (places, rest) = bytes.split_at(FOOTER_PLACES_LEN);
        let mut reader = ByteReader::new(rest);
        let must_understand = reader.u32("features").map_err(decode)?;
        let _may_ignore = reader.u32("features").map_err(decode)?;
        let zero = reader.u16("zero").map_err(decode)?;
        let version = reader.u16("version").map_err(decode)?;
        let checksum = reader.u64("checksum").map_err(decode)?;
        let magic = reader.u64("magic").map_err(decode)?;
        ensure(magic == MAGIC, 56, "the file does not end as an SSTable")?;
        ensure(checksum == xxh3(&bytes[..FOOTER_CHECKED_LEN]), 48, "footer checksum")?;
        if !(1..=FORMAT_VERSION).contains(&version) {
            return Err(FooterError::newer(version));
        }
        let unknown = must_understand & !(FEATURE_INGESTED | FEATURE_PREFIX_INDEX);
        if unknown != 0 {
            return Err(FooterError::Newer(format!(
                "SSTable features {unknown:#x}, unknown to this program"
            )));
        }
        ensure(zero == 0, 44, "reserved bytes are not zero")?;
        let ingested = must_understand & FEATURE_INGESTED != 0;
        let prefix_index = must_understand & FEATURE_PREFIX_INDEX != 0;
        let places = match version {
            1 => Self::places_of_version_1(places).map_err(decode)?,
            _ => Self::places(places)
                .map_err(decode)?
                .ok_or(Damage::new(0, "blocks past the end of any file"))?,
        };
        Ok(Self { ingested, prefix_index, ..places })
    }

    fn places_of_version_1(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let top_index = Handle::read(&mut reader)?;
        let properties = Handle::read(&mut reader)?;
        let ranges = Handle::read(&mut reader)?;
        let range_tombstones = (ranges != Handle::default()).then_some(ranges);
        let (ingested, prefix_index, identity) = (false, false, None);
        Ok(Self { top_index, properties, range_tombstones, ingested, prefix_index, identity })
    }

    /// `None` if they end past the end of `u64`.
    fn places(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let top_index = Handle::read(&mut reader)?;
        let ranges_len = reader.u32("length of range tombstones")?;
        let properties_len = reader.u32("length of properties")?;
        let identity = FileIdentity(
            u128::from(reader.u64("identity")?) | u128::from(reader.u64("identity")?) << 64,
        );
        let behind = Self::behind(top_index, ranges_len, properties_len);
        Ok(behind.map(|(range_tombstones, properties)| Self {
            top_index,
            properties,
            range_tombstones,
            ingested: false,
            prefix_index: false,
            identity: Some(identity),
        }))
    }

    /// Range tombstones, if they have a length, and properties where they follow the top index.
    fn behind(
        top_index: Handle,
        ranges_len: u32,
        properties_len: u32,
    ) -> Option<(Option<Handle>, Handle)> {
        let offset = top_index.end()?;
        let ranges = (ranges_len > 0).then_some(Handle { offset, len: ranges_len });
        let offset = ranges.map_or(Some(offset), Handle::end)?;
        let properties = Handle { offset, len: properties_len };
        properties.end().map(|_| (ranges, properties))
    }

    /// Returns the form of the checksums of the file's blocks.
    pub(super) fn frames(&self) -> Frames {
        self.identity.map_or(Frames::Unmarked, Frames::Of)
    }
}

/// Frames blocks for a file, keeping what compression needs between them.
pub(super) struct Sealer {
    compression: Compression,
    scratch: Vec<u8>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    /// Blocks to store as they are before compression is tried again, and how many it will be
    /// when that gains nothing either.
    skip: usize,
    skip_next: usize,
    /// The most that `skip_next` comes to.
    skip_max: usize,
}

/// Level of Zstandard: beyond it, writing costs more than the space is worth.
const ZSTD_LEVEL: i32 = 3;
impl Sealer {
    /// A sealer that compresses, but lets up to `skip_max` blocks pass between two tries where it
    /// keeps gaining nothing.
    pub(super) fn new(compression: Compression, skip_max: usize) -> Self {
        let zstd = match compression {
            Compression::Zstd => zstd::bulk::Compressor::new(ZSTD_LEVEL).ok(),
            Compression::None | Compression::Lz4 => None,
        };
        Self {
            compression,
            scratch: Vec::new(),
            zstd,
            skip: 0,
            skip_next: skip_max.min(1),
            skip_max,
        }
    }

    /// Makes a block of the raw bytes that `out` ends with, from `start` on: compressed if that
    /// gains enough. `seed` is that of its place (block_identity.rs). Gives the stored length. A block over
    /// the limit of its type is a bug of the caller and panics.
    pub(super) fn seal(
        &mut self,
        out: &mut Vec<u8>,
        start: usize,
        kind: BlockType,
        seed: u64,
    ) -> u32 {
        let raw_len = out.len() - start;
        assert!(raw_len <= kind.raw_bytes_max(), "a {kind:?} block of {raw_len} bytes");
        let may_compress = matches!(kind, BlockType::Data | BlockType::LargeValue);
        let mut compression = Compression::None;
        if may_compress && let Some(len) = self.try_compress(&out[start..]) {
            out.truncate(start);
            out.extend_from_slice(&self.scratch[..len]);
            compression = self.compression;
        }
        let len = out.len() - start;
        out.push(compression as u8);
        out.push(kind as u8);
        let checksum = xxh3_seeded(seed, &out[start..]) as u32;
        out.put_u32(checksum);
        u32::try_from(len).expect("blocks are below 4 GiB")
    }

    /// Compresses `raw` unless the last blocks let expect nothing of it; the stored length if it
    /// gained enough.
    fn try_compress(&mut self, raw: &[u8]) -> Option<usize> {
        if self.compression == Compression::None {
            return None;
        }
        if self.skip > 0 {
            Mark::CompressionSkipped.hit();
            self.skip -= 1;
            return None;
        }
        let len = self.compress(raw);
        let gained = |len: &usize| len * 100 <= raw.len() * (100 - COMPRESSION_GAIN_MIN_PERCENT);
        let len = len.filter(gained);
        if len.is_some() {
            self.skip_next = self.skip_max.min(1);
        } else {
            self.skip = self.skip_next;
            self.skip_next = (2 * self.skip_next + 1).min(self.skip_max);
        }
        len
    }

    /// Compresses `raw` into `scratch` and gives the stored length. A codec that fails loses
    /// nothing: the block is stored as it is.
    fn compress(&mut self, raw: &[u8]) -> Option<usize> {
        let raw_len = u32::try_from(raw.len()).expect("blocks are below 4 GiB");
        let bound = match self.compression {
            Compression::Zstd => zstd::zstd_safe::compress_bound(raw.len()),
            _ => lz4::block::compress_bound(raw.len()).ok()?,
        };
        if self.scratch.len() < 4 + bound {
            self.scratch.resize(4 + bound, 0);
        }
        let (prefix, to) = self.scratch.split_at_mut(4);
        prefix.copy_from_slice(&raw_len.to_le_bytes());
        let len = match &mut self.zstd {
            Some(zstd) => zstd.compress_to_buffer(raw, to).ok()?,
            None => lz4::block::compress_to_buffer(raw, None, false, to).ok()?,
        };
        Some(4 + len)
    }
}

/// The raw bytes of a block of type `kind` in `framed`, which is stored bytes and trailer and lies
/// at the place whose seed is `seed`. Those of a compressed block are written to the front of `raw`, which only grows.
pub(super) fn unseal<'a>(
    framed: &'a [u8],
    kind: BlockType,
    seed: u64,
    raw: &'a mut Vec<u8>,
) -> Result<&'a [u8], Damage> {
    let len = framed.len();
    let stored_len = len.checked_sub(TRAILER_LEN).ok_or(Damage::new(0, "no room for a trailer"))?;
    let (checked, checksum) = framed.split_at(len - 4);
    ensure(checksum == (xxh3_seeded(seed, checked) as u32).to_le_bytes(), 0, "block checksum")?;
    let compression = Compression::from_byte(checked[stored_len])
        .ok_or(Damage::new(stored_len, "a byte that names no compression"))?;
    let found = BlockType::from_byte(checked[stored_len + 1]);
    ensure(found == Some(kind), stored_len + 1, "a block of another type")?;
    let stored = &framed[..stored_len];
    if compression == Compression::None {
        ensure(stored_len <= kind.raw_bytes_max(), 0, "a block over its limit")?;
        return Ok(stored);
    }
    decompress(stored, compression, kind, raw)
}

fn decompress<'a>(
    stored: &[u8],
    compression: Compression,
    kind: BlockType,
    raw: &'a mut Vec<u8>,
) -> Result<&'a [u8], Damage> {
    let mut reader = ByteReader::new(stored);
    let raw_len = reader.u32("raw length").map_err(|error| Damage::decode(0, error))? as usize;
    ensure(raw_len <= kind.raw_bytes_max(), 0, "a block over its limit")?;
    if raw.len() < raw_len {
        raw.resize(raw_len, 0);
    }
    let raw = &mut raw[..raw_len];
    let len = match compression {
        Compression::Zstd => zstd::bulk::decompress_to_buffer(reader.rest(), raw),
        _ => {
            let len = i32::try_from(raw_len).expect("limits are below 2 GiB");
            lz4::block::decompress_to_buffer(reader.rest(), Some(len), raw)
        }
    };
    ensure(len.is_ok_and(|len| len == raw_len), 4, "compressed bytes are malformed")?;
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKIP_MAX: usize = 15;

    #[test]
    fn a_footer_reads_back_and_no_flipped_byte_does() {
        let of_version_1 = Footer {
            top_index: Handle { offset: 1, len: 2 },
            properties: Handle { offset: 3, len: 4 },
            range_tombstones: Some(Handle { offset: 5, len: 6 }),
            ingested: true,
            prefix_index: true,
            identity: None,
        };
        let newest = Footer {
            range_tombstones: Some(Handle { offset: 9, len: 6 }),
            properties: Handle { offset: 21, len: 4 },
            identity: Some(FileIdentity(3 << 120 | 9)),
            ..of_version_1
        };
        let without_ranges =
            Footer { range_tombstones: None, properties: Handle { offset: 9, len: 4 }, ..newest };
        for footer in [of_version_1, newest, without_ranges] {
            for (ingested, prefix_index) in [(false, false), (false, true), (true, false)] {
                let other = Footer { ingested, prefix_index, ..footer };
                assert_eq!(Footer::decode(&other.encode()), Ok(other));
            }
            let bytes = footer.encode();
            assert_eq!(Footer::decode(&bytes), Ok(footer));
            for at in 0..FOOTER_LEN {
                for flip in [1, 0x80, 0xff] {
                    let mut flipped = bytes;
                    flipped[at] ^= flip;
                    assert!(matches!(Footer::decode(&flipped), Err(FooterError::Damage(_))));
                }
            }
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let handle = Handle { offset: 1, len: 2 };
        let footer = Footer {
            top_index: handle,
            properties: handle,
            range_tombstones: None,
            ingested: false,
            prefix_index: false,
            identity: None,
        };
        for at in [36, 46] {
            let mut bytes = footer.encode();
            bytes[at] = 4;
            let checksum = xxh3(&bytes[..FOOTER_CHECKED_LEN]).to_le_bytes();
            bytes[FOOTER_CHECKED_LEN..56].copy_from_slice(&checksum);
            assert!(matches!(Footer::decode(&bytes), Err(FooterError::Newer(_))));
        }
    }

    #[test]
    #[should_panic(expected = "a Data block of")]
    fn no_block_is_sealed_that_a_reader_refuses() {
        let mut raw = vec![0; BlockType::Data.raw_bytes_max() + 1];
        Sealer::new(Compression::Lz4, SKIP_MAX).seal(&mut raw, 0, BlockType::Data, 0);
    }

    #[test]
    fn blocks_read_back_whatever_their_compression() {
        let mut noise = 1u64;
        let random: Vec<u8> = (0..5000)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (noise >> 56) as u8
            })
            .collect();
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            for raw in [&b""[..], b"a", &[7; 10_000], &random] {
                let mut framed = raw.to_vec();
                let mut sealer = Sealer::new(compression, SKIP_MAX);
                let len = sealer.seal(&mut framed, 0, BlockType::LargeValue, 5) as usize;
                assert_eq!(framed.len(), len + TRAILER_LEN);
                let stored = if raw.len() == 10_000 { compression } else { Compression::None };
                assert_eq!(framed[len], stored as u8);
                // Longer than the block, and full of something else.
                let mut memory = vec![9; if raw.len() == 5000 { 20_000 } else { 3 }];
                let read = unseal(&framed, BlockType::LargeValue, 5, &mut memory);
                assert_eq!(read.unwrap(), raw);
                assert!(unseal(&framed, BlockType::LargeValue, 6, &mut memory).is_err());
                assert!(unseal(&framed, BlockType::Filter, 5, &mut memory).is_err());
            }
        }
    }

    #[test]
    fn compression_is_tried_less_where_it_gains_nothing_and_again_where_it_does() {
        let random: Vec<u8> =
            (0..1000u64).flat_map(|n| xxh3(&n.to_le_bytes()).to_le_bytes()).collect();
        for compression in [Compression::Lz4, Compression::Zstd] {
            let mut sealer = Sealer::new(compression, SKIP_MAX);
            let mut stored = |raw: &[u8]| {
                let mut framed = raw.to_vec();
                sealer.seal(&mut framed, 0, BlockType::Data, 0) as usize
            };
            for _ in 0..100 {
                assert_eq!(stored(&random), random.len());
            }
            let zeroes = [0; 1000];
            let blocks = (0..100).filter(|_| stored(&zeroes) < zeroes.len()).count();
            assert!(blocks >= 100 - SKIP_MAX, "{blocks} of 100 compressed");
        }
    }
}
