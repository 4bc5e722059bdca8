//! How old the cells of a file are, family by family: from this, and the rules of the families,
//! compaction knows what share of a file has expired without reading it.
//!
//! Of each family the timestamps of its cells (not of its tombstones) are counted in buckets of
//! `2^shift` microseconds. When a family has more buckets than a file keeps, their width doubles,
//! so that 16 always do, whatever the range of the timestamps.
//!
//! Invariants:
//! 1. A bucket's newest timestamp is not below that of any cell it counts: who finds that it has
//!    expired knows the same of all of them.
//! 2. The same cells in any order give the same ages, so a check can count them again.

use crate::cell::{EntryKey, FamilyId, Kind, Timestamp};
use base::codec::{ByteReader, DecodeError, PutBytes};

/// Buckets of one family, at most.
const BUCKETS_MAX: usize = 16;
/// Families of one file, at most; the cells of others, those of the largest ids, are not counted.
const FAMILIES_MAX: usize = 64;
/// Width of a bucket at first, as a power of two of microseconds: about a second.
const SHIFT_MIN: u8 = 20;
const SHIFT_MAX: u8 = 63;

/// See the file header. Empty without cells.
#[derive(Debug, Clone, Default)]
pub struct Ages {
    /// Ascending by family.
    families: Vec<FamilyAges>,
    /// Place of the family of the last cell.
    last: usize,
}

#[derive(Debug, Clone)]
struct FamilyAges {
    family: FamilyId,
    shift: u8,
    /// Timestamps shifted right, ascending, and how many cells have them.
    buckets: Vec<(i64, u64)>,
    /// The bucket of the last cell.
    last: usize,
}

impl Ages {
    /// Counts an entry, if it is a cell.
    #[inline]
    pub(crate) fn add(&mut self, key: &EntryKey<'_>) {
        if key.kind == Kind::Tombstone {
            return;
        }
        match self.families.get_mut(self.last) {
            Some(family) if family.family == key.column.family => family.add(key.timestamp),
            _ => self.add_elsewhere(key.column.family, key.timestamp),
        }
    }

    fn add_elsewhere(&mut self, family: FamilyId, timestamp: Timestamp) {
        let at = self.families.binary_search_by_key(&family, |known| known.family);
        self.last = at.unwrap_or_else(|at| {
            let new = FamilyAges { family, shift: SHIFT_MIN, buckets: Vec::new(), last: 0 };
            self.families.insert(at, new);
            self.families.truncate(FAMILIES_MAX);
            at
        });
        if let Some(family) = self.families.get_mut(self.last) {
            family.add(timestamp);
        }
    }

    /// Buckets of all families: the family, the newest timestamp that a cell of the bucket can
    /// have, and the number of cells.
    pub fn buckets(&self) -> impl Iterator<Item = (FamilyId, Timestamp, u64)> {
        self.families.iter().flat_map(|family| {
            let newest = |bucket: i64| Timestamp((bucket << family.shift) | family.width());
            family.buckets.iter().map(move |(at, cells)| (family.family, newest(*at), *cells))
        })
    }

    /// Cells counted.
    pub fn cells(&self) -> u64 {
        self.buckets().fold(0, |sum, (_, _, cells)| sum.saturating_add(cells))
    }

    /// Returns whether nothing was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for FamilyAges { family, shift, buckets, .. } in &self.families {
            out.put_u16(family.0);
            out.push(*shift);
            out.push(u8::try_from(buckets.len()).expect("at most 16"));
            let mut before = buckets.first().map_or(0, |(at, _)| *at);
            out.put_i64(before);
            for (at, cells) in buckets {
                out.put_varint(at.abs_diff(before));
                out.put_varint(*cells);
                before = *at;
            }
        }
        out
    }

    /// The ages in `bytes`; `None` if they break a rule of the format.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let mut families: Vec<FamilyAges> = Vec::new();
        while !reader.is_empty() {
            let family = FamilyAges::decode(&mut reader)?;
            let fits = |family: &FamilyAges| {
                let ascends = families.last().is_none_or(|last| last.family < family.family);
                ascends && families.len() < FAMILIES_MAX
            };
            let Some(family) = family.filter(fits) else { return Ok(None) };
            families.push(family);
        }
        Ok(Some(Self { families, last: 0 }))
    }
}

/// Where the last cell went is no part of what was counted.
impl PartialEq for Ages {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &FamilyAges, b: &FamilyAges| {
            (a.family, a.shift, &a.buckets) == (b.family, b.shift, &b.buckets)
        };
        let both = self.families.iter().zip(&other.families);
        self.families.len() == other.families.len() && both.into_iter().all(|(a, b)| same(a, b))
    }
}

impl Eq for Ages {}

impl FamilyAges {
    fn width(&self) -> i64 {
        (1_i64 << self.shift).wrapping_sub(1)
    }

    #[inline]
    fn add(&mut self, timestamp: Timestamp) {
        let bucket = timestamp.0 >> self.shift;
        match self.buckets.get_mut(self.last) {
            Some((at, cells)) if *at == bucket => *cells += 1,
            _ => self.add_elsewhere(bucket),
        }
    }

    fn add_elsewhere(&mut self, bucket: i64) {
        let at = self.buckets.binary_search_by_key(&bucket, |(at, _)| *at);
        self.last = at.unwrap_or_else(|at| {
            self.buckets.insert(at, (bucket, 0));
            at
        });
        self.buckets[self.last].1 += 1;
        while self.buckets.len() > BUCKETS_MAX {
            self.widen();
        }
    }

    /// Doubles the width of the buckets.
    fn widen(&mut self) {
        self.shift += 1;
        self.last = 0;
        self.buckets.iter_mut().for_each(|(at, _)| *at >>= 1);
        self.buckets.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            earlier.1 += if same { later.1 } else { 0 };
            same
        });
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Option<Self>, DecodeError> {
        let family = FamilyId(reader.u16("family")?);
        let (shift, count) = (reader.u8("shift")?, usize::from(reader.u8("buckets")?));
        let mut at = reader.i64("first bucket")?;
        let shifts = (SHIFT_MIN..=SHIFT_MAX).contains(&shift);
        if !shifts || !(1..=BUCKETS_MAX).contains(&count) {
            return Ok(None);
        }
        let range = (i64::MIN >> shift)..=(i64::MAX >> shift);
        let mut buckets = Vec::with_capacity(count);
        for index in 0..count {
            let (step, cells) = (reader.varint("step")?, reader.varint("cells")?);
            let Some(next) = at.checked_add_unsigned(step).filter(|at| range.contains(at)) else {
                return Ok(None);
            };
            if (step == 0) != (index == 0) || cells == 0 {
                return Ok(None);
            }
            buckets.push((next, cells));
            at = next;
        }
        Ok(Some(Self { family, shift, buckets, last: 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Column, SequenceNumber};
    use proptest::prelude::*;

    fn ages(cells: &[(u16, i64)]) -> Ages {
        let mut ages = Ages::default();
        for (family, timestamp) in cells {
            let column = Column::of(FamilyId(*family), b"q");
            let (timestamp, sequence) = (Timestamp(*timestamp), SequenceNumber(1));
            ages.add(&EntryKey { column, timestamp, sequence, kind: Kind::Put });
            let kind = Kind::Tombstone;
            ages.add(&EntryKey { column, timestamp: Timestamp(7), sequence, kind });
        }
        ages
    }

    fn timestamps() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            0i64..1 << 40,
            (0i64..20).prop_map(|at| at << SHIFT_MIN),
            Just(i64::MIN),
            Just(i64::MAX),
        ]
    }

    proptest! {
        #[test]
        fn every_cell_is_in_a_bucket_that_is_not_older_and_order_does_not_matter(
            cells in proptest::collection::vec((0u16..4, timestamps()), 0..120),
        ) {
            let counted = ages(&cells);
            prop_assert_eq!(counted.cells(), cells.len() as u64);
            for limit in cells.iter().map(|(_, timestamp)| *timestamp) {
                let old = |newest: Timestamp| newest.0 < limit;
                let told = counted.buckets().filter(|(_, newest, _)| old(*newest));
                let told: u64 = told.map(|(_, _, cells)| cells).sum();
                let found = cells.iter().filter(|(_, at)| *at < limit).count() as u64;
                prop_assert!(told <= found, "{} told, {} older than {}", told, found, limit);
            }
            let backwards: Vec<_> = cells.iter().rev().copied().collect();
            prop_assert_eq!(&counted, &ages(&backwards));
            let decoded = Ages::decode(&counted.encode()).unwrap().unwrap();
            prop_assert_eq!(counted, decoded);
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_read_back_the_same(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Ok(Some(ages)) = Ages::decode(&bytes) {
                prop_assert_eq!(Ages::decode(&ages.encode()).unwrap().unwrap(), ages.clone());
                prop_assert!(ages.buckets().count() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_file_keeps_few_families_and_few_buckets() {
        let many: Vec<(u16, i64)> =
            (0..200u16).rev().flat_map(|f| (0..40).map(move |at| (f, at << 30))).collect();
        let counted = ages(&many);
        assert_eq!(counted.families.len(), FAMILIES_MAX);
        assert_eq!(counted.families[FAMILIES_MAX - 1].family, FamilyId(63));
        assert!(counted.families.iter().all(|f| (9..=BUCKETS_MAX).contains(&f.buckets.len())));
        assert_eq!(counted.cells(), 64 * 40);
    }

    #[test]
    fn what_breaks_a_rule_is_refused() {
        let good = ages(&[(1, 0), (1, 1 << 30), (2, 5)]).encode();
        assert!(Ages::decode(&good).unwrap().is_some());
        for (case, at, value) in [
            ("families out of order", 0, 9),
            ("a shift too small", 2, SHIFT_MIN - 1),
            ("a shift too large", 2, 64),
            ("no buckets", 3, 0),
            ("too many buckets", 3, 17),
            ("a bucket out of range", 11, 0x7f),
            ("a first step", 12, 1),
            ("a bucket without cells", 13, 0),
        ] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert!(!matches!(Ages::decode(&bytes), Ok(Some(_))), "{case}");
        }
    }
}
