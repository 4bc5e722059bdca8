//! The row-line hybrid Bloom filter (docs/format/sstable.md).
//!
//! A row's hash chooses one line of 64 bytes, and in that line the filter sets bits for several
//! keys: the row (R), the row with each family (RF), the row with each column (RFQ), and "the row
//! has a tombstone here" (RT). One cache miss so answers every question about a row.
//!
//! A row of more than `Shape::filter_line_keys_max` families or columns would fill its line. It is
//! **wide**: it sets the marker W in its line, and the keys of the kind that is too many go to
//! lines of their own, chosen by the key's hash. With more than `Shape::filter_row_keys_max` of
//! them there are none, only the marker W*, which answers "maybe" to everything but the row itself.
//!
//! A question for a column must also ask for RT, W and W*, and each could be a false positive. So
//! a line keeps three flags, whether any of its rows has such a marker; where none has, which is
//! the rule, the marker is not looked for.
//!
//! A tree may have row prefixes of a fixed length. Each distinct one of a partition's rows then is a
//! key as well (P), in the line that the prefix's own hash chooses.
//!
//! Invariants:
//! 1. No false negatives: what a row has is always found, at every granularity.
//! 2. A row that has any tombstone always has RT, whatever the tombstone's scope.
//! 3. The hash functions are part of the format and never change.

pub(super) mod filter_counters;
mod filter_query;

use super::format::damage::{Damage, ensure};
use super::format::ints::u32_at;
use crate::cell::{Entry, FamilyId, Kind, Scope};
use crate::marks::Mark;
use crate::options::FilterGranularity;
use crate::shape::Shape;
use base::checksum::xxh3;
use base::codec::PutBytes;
pub(crate) use filter_query::{Asked, FilterQuery};
use std::ops::Range;

const HEADER_LEN: usize = 64;
const LINE_LEN: usize = 64;
const LINE_BITS: usize = LINE_LEN * 8;
/// Bits of a line for keys; the rest are its flags.
const KEY_BITS: usize = LINE_BITS - 3;
const PROBES_MAX: u32 = 7;

/// A marker of a row: the tag of its key, and the bit of its flag in the line.
#[derive(Clone, Copy)]
struct Marker {
    tag: u64,
    flag: usize,
}

/// RT: the row has a tombstone.
const TOMBSTONE: Marker = Marker { tag: 2, flag: KEY_BITS };
/// W: the row is wide.
const WIDE: Marker = Marker { tag: 3, flag: KEY_BITS + 1 };
/// W*: the row is too wide for keys.
const WIDER: Marker = Marker { tag: 4, flag: KEY_BITS + 2 };

/// Frozen tags that tell the kinds of keys apart.
const TAG_ROW: u64 = 1;
const TAG_FAMILY: u64 = 5;
const TAG_COLUMN: u64 = 6;
const TAG_LINE: u64 = 7;
const TAG_PREFIX: u64 = 8;

/// Mixes `b` into `a`. Frozen.
fn mix(a: u64, b: u64) -> u64 {
    let mut x = (a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 32;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 29)
}

fn family_key(row: u64, family: FamilyId) -> u64 {
    mix(row, TAG_FAMILY | u64::from(family.0) << 8)
}

fn column_key(row: u64, family: FamilyId, qualifier: &[u8]) -> u64 {
    mix(mix(row, TAG_COLUMN | u64::from(family.0) << 8), xxh3(qualifier))
}

/// One of `lines` by the high bits of `hash`.
fn line_of(hash: u64, lines: usize) -> usize {
    ((hash >> 32) as usize * lines) >> 32
}

/// The bit of the `probe`-th of a key's probes: 9 bits of the key each, scaled to the bits there
/// are.
fn bit_of(key: u64, probe: u32) -> usize {
    ((key >> (9 * probe)) as usize % LINE_BITS * KEY_BITS) >> 9
}

/// Probes for a number of bits per key.
fn probes_for(bits_per_key: u8) -> u32 {
    (u32::from(bits_per_key) * 69 / 100).clamp(1, 6)
}

/// Collects the keys of rows and writes the filter of a partition.
pub(super) struct FilterBuilder {
    granularity: FilterGranularity,
    bits_per_key: u8,
    /// Keys of one kind in a row's own line, at most.
    line_keys_max: usize,
    /// Hash that chooses the line, and key.
    keys: Vec<(u64, u64)>,
    /// Hash that chooses the line, and flag.
    flags: Vec<(u64, usize)>,
    row: RowKeys,
    /// Hash of the row prefix added last. Rows come in order, so that a prefix is new unless it is
    /// this one.
    prefix: Option<u64>,
}

/// The keys of the row being added. Its entries come in order, so that a family or column that is
/// equal to one before is equal to the last.
struct RowKeys {
    /// Keys of one kind, at most; more are not kept.
    max: usize,
    tombstone: bool,
    families: Vec<u64>,
    families_dropped: bool,
    columns: Vec<u64>,
    columns_dropped: bool,
}

impl FilterBuilder {
    /// A builder; `None` where the options want no filter.
    pub(super) fn new(
        granularity: FilterGranularity,
        bits_per_key: u8,
        shape: &Shape,
    ) -> Option<Self> {
        let row = RowKeys {
            max: shape.filter_row_keys_max,
            tombstone: false,
            families: Vec::new(),
            families_dropped: false,
            columns: Vec::new(),
            columns_dropped: false,
        };
        (bits_per_key > 0).then(|| Self {
            granularity,
            bits_per_key,
            line_keys_max: shape.filter_line_keys_max,
            keys: Vec::new(),
            flags: Vec::new(),
            row,
            prefix: None,
        })
    }

    /// The hash of a row that `add` and `end_row` want.
    pub(super) fn hash_row(row: &[u8]) -> u64 {
        xxh3(row)
    }

    /// Adds the prefix of a row, by its hash.
    pub(super) fn add_prefix(&mut self, prefix: u64) {
        if self.prefix != Some(prefix) {
            self.prefix = Some(prefix);
            self.keys.push((prefix, mix(prefix, TAG_PREFIX)));
        }
    }

    /// Adds an entry of the current row, whose hash is `row`.
    pub(super) fn add(&mut self, row: u64, entry: &Entry<'_>) {
        self.row.tombstone |= entry.kind == Kind::Tombstone;
        if entry.column.scope == Scope::Row || self.granularity == FilterGranularity::Row {
            return;
        }
        let max = self.row.max;
        let row_keys = &mut self.row;
        let family = family_key(row, entry.column.family);
        push_distinct(&mut row_keys.families, &mut row_keys.families_dropped, family, max);
        if entry.column.scope == Scope::Column && self.granularity == FilterGranularity::Column {
            let column = column_key(row, entry.column.family, entry.column.qualifier);
            push_distinct(&mut row_keys.columns, &mut row_keys.columns_dropped, column, max);
        }
    }

    /// Ends the current row: its keys go to their lines.
    pub(super) fn end_row(&mut self, row: u64) {
        let RowKeys { tombstone, families_dropped, columns_dropped, .. } = self.row;
        self.keys.push((row, mix(row, TAG_ROW)));
        if tombstone {
            self.mark(row, TOMBSTONE);
        }
        let wider = families_dropped || columns_dropped;
        let line_max = self.line_keys_max;
        let too_many = self.row.families.len() > line_max || self.row.columns.len() > line_max;
        if wider {
            Mark::FilterRowWider.hit();
            self.mark(row, WIDER);
        } else if too_many {
            Mark::FilterRowWide.hit();
            self.mark(row, WIDE);
        }
        let kinds =
            [(&mut self.row.families, families_dropped), (&mut self.row.columns, columns_dropped)];
        for (keys, dropped) in kinds {
            match keys.len() {
                _ if dropped => keys.clear(),
                len if len <= line_max => self.keys.extend(keys.drain(..).map(|key| (row, key))),
                _ => self.keys.extend(keys.drain(..).map(|key| (mix(key, TAG_LINE), key))),
            }
        }
        self.row.tombstone = false;
        self.row.families_dropped = false;
        self.row.columns_dropped = false;
    }

    fn mark(&mut self, row: u64, marker: Marker) {
        self.keys.push((row, mix(row, marker.tag)));
        self.flags.push((row, marker.flag));
    }

    /// Returns whether no row was ended.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes of the filter as it would be now.
    pub(super) fn len(&self) -> usize {
        HEADER_LEN + self.lines() * LINE_LEN
    }

    fn lines(&self) -> usize {
        (self.keys.len() * usize::from(self.bits_per_key)).div_ceil(LINE_BITS).max(1)
    }

    /// The filter of the rows ended so far; empties the builder.
    ///
    /// ```text
    /// 0 lines u32  4 probes u8  5 granularity u8  6 zero, 58 bytes  64 lines of 64 bytes
    /// ```
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let lines = self.lines();
        let probes = probes_for(self.bits_per_key);
        self.prefix = None;
        let mut out = Vec::with_capacity(self.len());
        out.put_u32(u32::try_from(lines).expect("a partition is cut at 64 KiB of filter"));
        out.push(probes as u8);
        out.push(self.granularity as u8);
        out.resize(HEADER_LEN + lines * LINE_LEN, 0);
        let (all, _) = out[HEADER_LEN..].as_chunks_mut::<LINE_LEN>();
        for (hash, key) in self.keys.drain(..) {
            let line = &mut all[line_of(hash, lines)];
            for probe in 0..probes {
                let bit = bit_of(key, probe);
                line[bit / 8] |= 1 << (bit % 8);
            }
        }
        for (hash, flag) in self.flags.drain(..) {
            all[line_of(hash, lines)][flag / 8] |= 1 << (flag % 8);
        }
        out
    }
}

fn push_distinct(keys: &mut Vec<u64>, dropped: &mut bool, key: u64, max: usize) {
    if keys.last() == Some(&key) {
        return;
    }
    if keys.len() == max {
        *dropped = true;
    } else {
        keys.push(key);
    }
}

/// Metadata of a checked filter partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterMeta {
    lines: usize,
    probes: u32,
    granularity: FilterGranularity,
}

impl FilterMeta {
    /// Checks the filter in `bytes`.
    pub(super) fn check(bytes: &[u8]) -> Result<Self, Damage> {
        ensure(bytes.len() >= HEADER_LEN, 0, "a filter partition shorter than its header")?;
        let lines = u32_at(bytes, 0) as usize;
        let probes = u32::from(bytes[4]);
        let granularity = FilterGranularity::from_byte(bytes[5])
            .ok_or(Damage::new(5, "a byte that names no granularity"))?;
        let fits = lines >= 1 && HEADER_LEN + lines * LINE_LEN == bytes.len();
        ensure(fits, 0, "the line count does not fit the block's length")?;
        ensure((1..=PROBES_MAX).contains(&probes), 4, "a probe count outside 1 to 7")?;
        let zero = bytes[6..HEADER_LEN].iter().all(|byte| *byte == 0);
        ensure(zero, 6, "reserved bytes are not zero")?;
        Ok(Self { lines, probes, granularity })
    }

    /// Lines of the filter.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }
}

/// The bits that a row sets in its line, which are the same in every filter of as many probes: a
/// read of several files works them out once, and compares without branches.
#[derive(Debug, Default)]
pub(crate) struct RowBits {
    /// 0: none yet.
    probes: u32,
    words: [u64; LINE_LEN / 8],
}

impl RowBits {
    fn of(hash: u64, probes: u32) -> Self {
        let key = mix(hash, TAG_ROW);
        let mut words = [0; LINE_LEN / 8];
        for probe in 0..probes {
            let bit = bit_of(key, probe);
            words[bit / 64] |= 1 << (bit % 64);
        }
        Self { probes, words }
    }

    #[inline]
    fn are_set_in(&self, line: &[u8; LINE_LEN]) -> bool {
        let (line, _) = line.as_chunks();
        let unset = |(bits, word): (&u64, &[u8; 8])| bits & !u64::from_le_bytes(*word);
        self.words.iter().zip(line).map(unset).fold(0, |all, unset| all | unset) == 0
    }
}

/// A checked filter partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterPartition<'a> {
    bytes: &'a [u8],
    meta: &'a FilterMeta,
}

impl<'a> FilterPartition<'a> {
    /// The filter in `bytes`, of which `meta` came from `FilterMeta::check`.
    pub(super) fn of(bytes: &'a [u8], meta: &'a FilterMeta) -> Self {
        Self { bytes, meta }
    }

    /// Returns whether what `query` asks for may be here, or a tombstone of its row. `false` is certain.
    pub(super) fn may_contain(self, query: &FilterQuery<'_>) -> bool {
        self.may_have_row(query, &mut RowBits::default()) && self.may_have_part(query)
    }

    /// Returns whether anything of the query's row may be here. `false` is certain. `bits` is only
    /// used for questions about this row.
    #[inline]
    pub(super) fn may_have_row(self, query: &FilterQuery<'_>, bits: &mut RowBits) -> bool {
        if bits.probes != self.meta.probes {
            *bits = RowBits::of(query.hash, self.meta.probes);
        }
        bits.are_set_in(self.line(query.hash))
    }

    /// The same of what of the row is asked for, if the row may be here.
    #[inline]
    pub(super) fn may_have_part(self, query: &FilterQuery<'_>) -> bool {
        let Some(key) = query.finest(self.meta.granularity) else { return true };
        self.has(query.hash, key)
            || self.has_marker(query.hash, TOMBSTONE)
            || self.has_marker(query.hash, WIDER)
            || (self.has_marker(query.hash, WIDE) && self.has(mix(key, TAG_LINE), key))
    }

    /// Returns whether a row with the query's prefix may begin here. `false` is certain if the
    /// filter has keys of prefixes of this length.
    pub(super) fn may_have_prefix(self, query: &FilterQuery<'_>) -> bool {
        self.has(query.hash, mix(query.hash, TAG_PREFIX))
    }

    /// Returns whether the row may have a tombstone of any scope here. `false` is certain.
    pub(super) fn may_have_tombstone(self, query: &FilterQuery<'_>) -> bool {
        self.has_marker(query.hash, TOMBSTONE)
    }

    fn has_marker(self, row: u64, marker: Marker) -> bool {
        let line = self.line(row);
        is_set(line, marker.flag) && self.has_in(line, mix(row, marker.tag))
    }

    fn has(self, hash: u64, key: u64) -> bool {
        self.has_in(self.line(hash), key)
    }

    /// Returns whether all of the key's bits are set. Stops at the first that is not: most are not, and
    /// the processor then goes on with what follows.
    fn has_in(self, line: &[u8; LINE_LEN], key: u64) -> bool {
        (0..self.meta.probes).all(|probe| is_set(line, bit_of(key, probe)))
    }

    fn line(self, hash: u64) -> &'a [u8; LINE_LEN] {
        let (lines, _) = self.bytes[HEADER_LEN..].as_chunks();
        &lines[line_of(hash, self.meta.lines)]
    }
}

/// Where in a filter of `lines` lines a read of the row with this hash looks.
#[inline]
pub(super) fn line_at(hash: u64, lines: usize) -> Range<usize> {
    let start = HEADER_LEN + line_of(hash, lines) * LINE_LEN;
    start..start + LINE_LEN
}

fn is_set(line: &[u8; LINE_LEN], bit: usize) -> bool {
    line[bit / 8] >> (bit % 8) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Column, SequenceNumber, Timestamp};

    fn entry<'a>(column: Column<'a>, kind: Kind) -> Entry<'a> {
        let (timestamp, sequence) = (Timestamp(1), SequenceNumber(1));
        Entry { column, timestamp, sequence, kind, value: &[] }
    }

    /// A filter of `rows` rows, each with these columns in family 1.
    fn filter_of(rows: usize, columns: usize, granularity: FilterGranularity) -> Checked {
        let mut builder = FilterBuilder::new(granularity, 12, &Shape::DEFAULT).unwrap();
        for row in 0..rows {
            let hash = FilterBuilder::hash_row(&row.to_le_bytes());
            for column in 0..columns {
                let qualifier = column.to_be_bytes();
                let column = Column::of(FamilyId(1), &qualifier);
                builder.add(hash, &entry(column, Kind::Put));
            }
            builder.end_row(hash);
        }
        Checked::new(builder.finish())
    }

    struct Checked(Vec<u8>, FilterMeta);

    impl Checked {
        fn new(bytes: Vec<u8>) -> Self {
            let meta = FilterMeta::check(&bytes).unwrap();
            Self(bytes, meta)
        }

        fn may_contain(&self, query: &FilterQuery<'_>) -> bool {
            FilterPartition::of(&self.0, &self.1).may_contain(query)
        }

        fn may_have_tombstone(&self, query: &FilterQuery<'_>) -> bool {
            FilterPartition::of(&self.0, &self.1).may_have_tombstone(query)
        }
    }

    fn false_positives(asked: impl Fn(usize) -> bool) -> usize {
        (0..20_000).filter(|at| asked(*at)).count()
    }

    #[test]
    fn what_a_row_has_is_found_and_little_else() {
        for columns in [1, 8, 9, 300] {
            let rows = 3000 / columns.min(100);
            let filter = filter_of(rows, columns, FilterGranularity::Column);
            for row in 0..rows {
                let row = row.to_le_bytes();
                assert!(filter.may_contain(&FilterQuery::row(&row)));
                assert!(filter.may_contain(&FilterQuery::family(&row, FamilyId(1))));
                for column in 0..columns {
                    let qualifier = column.to_be_bytes();
                    let query = FilterQuery::column(&row, FamilyId(1), &qualifier);
                    assert!(filter.may_contain(&query));
                }
            }
            let absent_row =
                |at: usize| filter.may_contain(&FilterQuery::row(&(at + rows).to_le_bytes()));
            let absent_column = |at: usize| {
                let (row, qualifier) = ((at % rows).to_le_bytes(), (columns + at).to_be_bytes());
                filter.may_contain(&FilterQuery::column(&row, FamilyId(1), &qualifier))
            };
            let tombstone = |at: usize| {
                filter.may_have_tombstone(&FilterQuery::row(&(at % rows).to_le_bytes()))
            };
            assert!(false_positives(absent_row) < 400, "{columns} columns: rows");
            assert!(false_positives(absent_column) < 800, "{columns} columns: columns");
            assert_eq!(false_positives(tombstone), 0, "{columns} columns: tombstones");
        }
    }

    #[test]
    fn too_many_columns_are_answered_with_maybe() {
        let filter =
            filter_of(1, Shape::DEFAULT.filter_row_keys_max + 1, FilterGranularity::Column);
        let row = 0usize.to_le_bytes();
        assert!(filter.may_contain(&FilterQuery::column(&row, FamilyId(1), b"absent")));
        assert!(!filter.may_contain(&FilterQuery::column(b"other", FamilyId(1), b"absent")));
        assert!(filter.0.len() <= 4 * LINE_LEN);
    }

    #[test]
    fn a_coarser_filter_answers_finer_questions_by_what_it_has() {
        let row = 0usize.to_le_bytes();
        let absent = FilterQuery::column(&row, FamilyId(1), b"absent");
        let other_family = FilterQuery::column(&row, FamilyId(2), b"absent");
        let rows = filter_of(1, 3, FilterGranularity::Row);
        assert!(rows.may_contain(&absent) && rows.may_contain(&other_family));
        let families = filter_of(1, 3, FilterGranularity::Family);
        assert!(families.may_contain(&absent) && !families.may_contain(&other_family));
    }

    #[test]
    fn a_tombstone_of_any_scope_is_seen_by_every_question_of_its_row() {
        let family = Column::family(FamilyId(3));
        for column in [Column::ROW, family, Column::of(FamilyId(3), b"q")] {
            for granularity in [FilterGranularity::Row, FilterGranularity::Column] {
                let mut builder = FilterBuilder::new(granularity, 12, &Shape::DEFAULT).unwrap();
                let hash = FilterBuilder::hash_row(b"row");
                builder.add(hash, &entry(column, Kind::Tombstone));
                builder.end_row(hash);
                let filter = Checked::new(builder.finish());
                let query = FilterQuery::column(b"row", FamilyId(9), b"absent");
                assert!(filter.may_contain(&query) && filter.may_have_tombstone(&query));
                assert!(!filter.may_contain(&FilterQuery::row(b"other")));
            }
        }
    }

    #[test]
    fn the_hash_is_frozen() {
        let hash = FilterBuilder::hash_row(b"row");
        assert_eq!(hash, FROZEN[0]);
        assert_eq!(family_key(hash, FamilyId(300)), FROZEN[1]);
        assert_eq!(column_key(hash, FamilyId(300), b"qualifier"), FROZEN[2]);
        let bits: Vec<usize> = (0..6).map(|probe| bit_of(FROZEN[2], probe)).collect();
        assert!(bits.iter().all(|bit| *bit < KEY_BITS));
        assert_eq!(bits, FROZEN_BITS);
    }

    const FROZEN: [u64; 3] = [0xda0e_947a_60ca_106d, 0x4f2c_98a6_df8b_77ef, 0x8f8a_9e34_b0fc_c35e];
    const FROZEN_BITS: [usize; 6] = [347, 96, 62, 149, 480, 83];
}
