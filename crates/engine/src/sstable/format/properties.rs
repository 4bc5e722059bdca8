//! The properties block: what a file says of itself.
//!
//! ```text
//! { tag varint | value string }, tags ascending
//! ```
//! Numbers are varints or, where they may be negative, `i64`. Every tag below 128 that is listed
//! must be there, and an unlisted one is refused; tags from 128 on may be ignored.

use super::BlockType;
use super::ages::Ages;
use super::damage::{Damage, ensure};
use super::origin::Origin;
use crate::cell::{SequenceNumber, Timestamp};
use crate::files::FileIdentity;
use crate::options::{Compression, FilterGranularity, ROW_PREFIX_BYTES_MAX};
use base::codec::{ByteReader, DecodeError, PutBytes};

/// Counts and bounds of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Smallest row with an entry; empty without entries.
    pub first_row: Vec<u8>,
    /// Largest row with an entry; empty without entries.
    pub last_row: Vec<u8>,
    /// Rows with an entry.
    pub rows: u64,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones among the entries.
    pub tombstones: u64,
    pub range_tombstones: u64,
    /// Smallest sequence number of any entry or range tombstone.
    pub sequence_min: SequenceNumber,
    /// Largest.
    pub sequence_max: SequenceNumber,
    /// Oldest timestamp of any entry; `Timestamp::MAX` without entries.
    pub timestamp_min: Timestamp,
    /// Newest; `Timestamp::MIN` without entries.
    pub timestamp_max: Timestamp,
    pub data_blocks: u64,
    /// Values that have a block of their own.
    pub large_values: u64,
    /// Bytes of row keys, qualifiers and values as they were added.
    pub raw_bytes: u64,
    /// Values of at least so many bytes have a block of their own.
    pub large_value_bytes: u64,
    /// For which questions the filter holds keys.
    pub filter_granularity: FilterGranularity,
    /// Bits of filter per key; 0 without filters.
    pub filter_bits_per_key: u8,
    /// Length of the row prefixes for which filters have keys; 0 without such keys.
    pub row_prefix_bytes: u16,
    /// Origin of the file, for a repair; `None` in older files.
    pub origin: Option<Origin>,
    /// Ages of its cells; `None` in older files and in files without cells.
    pub ages: Option<Ages>,
    /// Work that was left to compaction.
    pub deferred: Deferred,
    /// What the file is known by wherever it is copied to; `None` in files from before this was
    /// written.
    pub identity: Option<FileIdentity>,
}

/// What a file lacks that its tree's options want, since its writer left it to the compaction that
/// will rewrite the file. Nothing by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deferred {
    /// Blocks are not compressed.
    pub compression: bool,
    /// There are no filters.
    pub filters: bool,
}

impl Deferred {
    /// Returns whether anything was left to compaction.
    pub fn is_any(self) -> bool {
        self.compression || self.filters
    }

    fn bits(self) -> u64 {
        u64::from(self.compression) | u64::from(self.filters) << 1
    }

    /// What a property says; `None` where it is out of range. A writer that left nothing writes no
    /// property.
    fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(value);
        let bits = reader.varint("deferred").ok().filter(|_| reader.is_empty())?;
        let deferred = Self { compression: bits & 1 != 0, filters: bits & 2 != 0 };
        (1..=3).contains(&bits).then_some(deferred)
    }
}

/// Tags, frozen; 0 stays invalid.
const TAGS: [u64; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const TAG_MAY_IGNORE: u64 = 128;
/// Absent where there are no row prefixes.
const TAG_ROW_PREFIX: u64 = 128;
const TAG_ORIGIN: u64 = 129;
const TAG_AGES: u64 = 130;
/// Absent where nothing was left to compaction.
const TAG_DEFERRED: u64 = 131;
const TAG_IDENTITY: u64 = 132;

/// The identity in the last properties that end in `tail`, where some seem to: it is their last
/// property. Its block is not checked.
pub(crate) fn identity_in(tail: &[u8]) -> Option<FileIdentity> {
    let mut start = Vec::new();
    start.put_varint(TAG_IDENTITY);
    start.put_varint(size_of::<FileIdentity>() as u64);
    let marks = [Compression::None as u8, BlockType::Properties as u8];
    let end = start.len() + size_of::<FileIdentity>();
    let mut parts = tail.windows(end + marks.len());
    let at = parts.rposition(|part| part.starts_with(&start) && part.ends_with(&marks))?;
    let identity = tail[at..].get(start.len()..end)?.try_into().ok()?;
    Some(FileIdentity(u128::from_le_bytes(identity)))
}

impl Properties {
    /// The block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let varint = |value: u64| {
            let mut bytes = Vec::new();
            bytes.put_varint(value);
            bytes
        };
        let values = [
            self.first_row.clone(),
            self.last_row.clone(),
            varint(self.rows),
            varint(self.entries),
            varint(self.tombstones),
            varint(self.range_tombstones),
            varint(self.sequence_min.0),
            varint(self.sequence_max.0),
            self.timestamp_min.0.to_le_bytes().to_vec(),
            self.timestamp_max.0.to_le_bytes().to_vec(),
            varint(self.data_blocks),
            varint(self.large_values),
            varint(self.raw_bytes),
            varint(self.large_value_bytes),
            varint(self.filter_granularity as u64),
            varint(self.filter_bits_per_key.into()),
        ];
        let mut out = Vec::new();
        for (tag, value) in TAGS.into_iter().zip(values) {
            out.put_varint(tag);
            out.put_string(&value);
        }
        if self.row_prefix_bytes > 0 {
            out.put_varint(TAG_ROW_PREFIX);
            out.put_string(&varint(self.row_prefix_bytes.into()));
        }
        if let Some(origin) = &self.origin {
            out.put_varint(TAG_ORIGIN);
            out.put_string(&origin.encode());
        }
        if let Some(ages) = &self.ages {
            out.put_varint(TAG_AGES);
            out.put_string(&ages.encode());
        }
        if self.deferred.is_any() {
            out.put_varint(TAG_DEFERRED);
            out.put_string(&varint(self.deferred.bits()));
        }
        if let Some(identity) = self.identity {
            out.put_varint(TAG_IDENTITY);
            out.put_string(&identity.0.to_le_bytes());
        }
        out
    }

    /// The properties in `bytes`, checked.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut reader = ByteReader::new(bytes);
        let at = |reader: &ByteReader<'_>| bytes.len() - reader.rest().len();
        let mut values: [&[u8]; TAGS.len()] = [&[]; TAGS.len()];
        for (tag, value) in TAGS.into_iter().zip(&mut values) {
            let start = at(&reader);
            let (found, bytes) = read(&mut reader).map_err(|error| Damage::decode(start, error))?;
            ensure(found == tag, start, "a property is missing or unknown")?;
            *value = bytes;
        }
        let (mut last, mut row_prefix_bytes) = (TAG_MAY_IGNORE - 1, 0);
        let (mut origin, mut ages, mut identity) = (None, None, None);
        let mut deferred = Deferred::default();
        while !reader.is_empty() {
            let start = at(&reader);
            let (tag, value) = read(&mut reader).map_err(|error| Damage::decode(start, error))?;
            ensure(tag > last, start, "an unknown property, or properties out of order")?;
            if tag == TAG_ROW_PREFIX {
                row_prefix_bytes = row_prefix(value)
                    .ok_or(Damage::new(start, "a length of row prefixes out of range"))?;
            }
            if tag == TAG_ORIGIN {
                let decoded =
                    Origin::decode(value).map_err(|error| Damage::decode(start, error))?;
                origin = Some(decoded);
            }
            if tag == TAG_AGES {
                let decoded = Ages::decode(value).map_err(|error| Damage::decode(start, error))?;
                let decoded = decoded.filter(|ages| !ages.is_empty());
                ages = Some(decoded.ok_or(Damage::new(start, "ages out of order or range"))?);
            }
            if tag == TAG_DEFERRED {
                deferred = Deferred::decode(value)
                    .ok_or(Damage::new(start, "what was left to compaction is out of range"))?;
            }
            if tag == TAG_IDENTITY {
                let bytes = value.try_into().map_err(|_| Damage::new(start, "no identity"))?;
                identity = Some(FileIdentity(u128::from_le_bytes(bytes)));
            }
            last = tag;
        }
        let properties = Self::of_values(values).map_err(|error| Damage::decode(0, error))?;
        let properties = properties.ok_or(Damage::new(0, "a property out of range"))?;
        let properties = Self { row_prefix_bytes, origin, ages, deferred, ..properties };
        properties.check()?;
        Ok(Self { identity, ..properties })
    }

    fn of_values(values: [&[u8]; TAGS.len()]) -> Result<Option<Self>, DecodeError> {
        let varint = |index: usize| {
            let mut reader = ByteReader::new(values[index]);
            let value = reader.varint("property")?;
            reader.finish().map(|()| value)
        };
        let timestamp = |index: usize| {
            let mut reader = ByteReader::new(values[index]);
            let value = reader.i64("property")?;
            reader.finish().map(|()| Timestamp(value))
        };
        let granularity = u8::try_from(varint(14)?).ok().and_then(FilterGranularity::from_byte);
        let bits = u8::try_from(varint(15)?).ok();
        let (Some(filter_granularity), Some(filter_bits_per_key)) = (granularity, bits) else {
            return Ok(None);
        };
        Ok(Some(Self {
            first_row: values[0].to_vec(),
            last_row: values[1].to_vec(),
            rows: varint(2)?,
            entries: varint(3)?,
            tombstones: varint(4)?,
            range_tombstones: varint(5)?,
            sequence_min: SequenceNumber(varint(6)?),
            sequence_max: SequenceNumber(varint(7)?),
            timestamp_min: timestamp(8)?,
            timestamp_max: timestamp(9)?,
            data_blocks: varint(10)?,
            large_values: varint(11)?,
            raw_bytes: varint(12)?,
            large_value_bytes: varint(13)?,
            filter_granularity,
            filter_bits_per_key,
            row_prefix_bytes: 0,
            origin: None,
            ages: None,
            deferred: Deferred::default(),
            identity: None,
        }))
    }

    fn check(&self) -> Result<(), Damage> {
        let without_entries = self.entries == 0;
        let bounds = self.first_row <= self.last_row
            && (!without_entries || self.last_row.is_empty())
            && self.sequence_min <= self.sequence_max
            && self.sequence_max <= SequenceNumber::MAX
            && (without_entries || self.timestamp_min <= self.timestamp_max);
        ensure(bounds, 0, "bounds that are inverted or out of range")?;
        let counts = self.tombstones <= self.entries
            && self.rows <= self.entries
            && self.data_blocks <= self.entries
            && self.ages.as_ref().map_or(0, Ages::cells) <= self.entries - self.tombstones
            && (self.rows == 0) == without_entries
            && (self.data_blocks == 0) == without_entries;
        ensure(counts, 0, "counts that contradict each other")
    }
}

/// The length in a property; `None` where it is out of range.
fn row_prefix(value: &[u8]) -> Option<u16> {
    let mut reader = ByteReader::new(value);
    let length = reader.varint("row prefix").ok().filter(|_| reader.is_empty())?;
    u16::try_from(length).ok().filter(|length| (1..=ROW_PREFIX_BYTES_MAX).contains(length))
}

fn read<'a>(reader: &mut ByteReader<'a>) -> Result<(u64, &'a [u8]), DecodeError> {
    Ok((reader.varint("property tag")?, reader.string("property")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Column, EntryKey, FamilyId, Kind, TreeId};
    use crate::files::FileNumber;

    fn ages(cells: i64) -> Ages {
        let mut ages = Ages::default();
        for at in 0..cells {
            ages.add(&EntryKey {
                column: Column::of(FamilyId(1), b"q"),
                timestamp: Timestamp(at << 30),
                sequence: SequenceNumber(1),
                kind: Kind::Put,
            });
        }
        ages
    }

    fn example() -> Properties {
        Properties {
            first_row: b"a".to_vec(),
            last_row: b"z".to_vec(),
            rows: 3,
            entries: 300,
            tombstones: 2,
            range_tombstones: 1,
            sequence_min: SequenceNumber(0),
            sequence_max: SequenceNumber::MAX,
            timestamp_min: Timestamp(-5),
            timestamp_max: Timestamp(5),
            data_blocks: 2,
            large_values: 0,
            raw_bytes: 70_000,
            large_value_bytes: 4096,
            filter_granularity: FilterGranularity::Family,
            filter_bits_per_key: 12,
            row_prefix_bytes: 8,
            origin: Some(Origin {
                tree: TreeId(17),
                position: 4711,
                inputs: vec![FileNumber(3), FileNumber(300)],
            }),
            ages: Some(ages(298)),
            deferred: Deferred { compression: false, filters: true },
            identity: Some(FileIdentity(1 << 100 | 7)),
        }
    }

    #[test]
    fn properties_read_back_and_are_refused_when_cut() {
        let bytes = example().encode();
        assert_eq!(Properties::decode(&bytes), Ok(example()));
        let unknown = Properties { identity: None, ..example() };
        let whole = Properties { deferred: Deferred::default(), ..unknown.clone() };
        let ageless = Properties { ages: None, ..whole.clone() };
        let nameless = Properties { origin: None, ..ageless.clone() };
        let plain = Properties { row_prefix_bytes: 0, ..nameless.clone() };
        // What may be ignored may also be missing.
        let all = [unknown, whole, ageless, nameless, plain];
        let whole = all.map(|whole| (whole.encode().len(), whole));
        for len in 0..bytes.len() {
            let whole = whole.iter().find(|(whole, _)| *whole == len).map(|(_, whole)| whole);
            let read = Properties::decode(&bytes[..len]).ok();
            assert_eq!(read.as_ref(), whole, "cut at {len}");
        }
    }

    #[test]
    fn a_row_prefix_has_1_to_1024_bytes() {
        for (length, known) in [(0, false), (1, true), (1024, true), (1025, false)] {
            let deferred = Deferred::default();
            let nameless = Properties { origin: None, ages: None, identity: None, ..example() };
            let plain = Properties { row_prefix_bytes: 0, deferred, ..nameless };
            let mut bytes = plain.encode();
            let mut value = Vec::new();
            value.put_varint(length);
            bytes.put_varint(TAG_ROW_PREFIX);
            bytes.put_string(&value);
            assert_eq!(Properties::decode(&bytes).is_ok(), known, "{length} bytes");
        }
    }

    #[test]
    fn only_high_tags_may_be_unknown() {
        for (tag, known) in [(17, false), (127, false), (133, true)] {
            let mut bytes = example().encode();
            bytes.put_varint(tag);
            bytes.put_string(b"later");
            assert_eq!(Properties::decode(&bytes).is_ok(), known, "tag {tag}");
        }
    }

    #[test]
    fn what_is_left_to_compaction_is_one_of_three() {
        for (bits, known) in [(0, false), (1, true), (2, true), (3, true), (4, false)] {
            let mut bytes =
                Properties { deferred: Deferred::default(), identity: None, ..example() }.encode();
            bytes.put_varint(TAG_DEFERRED);
            bytes.put_string(&[bits]);
            let read = Properties::decode(&bytes);
            assert_eq!(read.is_ok(), known, "{bits}");
            if let Ok(read) = read {
                assert_eq!(read.deferred.bits(), u64::from(bits));
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let inverted = Properties { first_row: b"zz".to_vec(), ..example() };
        let too_many = Properties { tombstones: 301, ..example() };
        let too_old = Properties { ages: Some(ages(299)), ..example() };
        for properties in [inverted, too_many, too_old] {
            assert!(Properties::decode(&properties.encode()).is_err());
        }
    }
}
