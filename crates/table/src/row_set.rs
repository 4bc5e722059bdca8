//! Rows of a read, and their normal form for the engine: sorted, disjoint, half-open ranges.

use crate::error::{Error, Result};
use crate::limits;
use bytes::Bytes;
use engine::RowRange;
use std::ops::Bound;

/// A range of row keys with any kind of bounds. An empty key as upper bound means no bound, as
/// clients send it. A range whose start lies after its end is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Lower bound.
    pub start: Bound<Bytes>,
    /// Upper bound.
    pub end: Bound<Bytes>,
}

/// Single rows and ranges of rows, in any order, overlapping or not. When both lists are empty it
/// is every row. Each row is read once, in key order, whatever the order here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowSet {
    /// Single rows.
    pub keys: Vec<Bytes>,
    pub ranges: Vec<KeyRange>,
}

impl RowSet {
    /// Every row.
    pub fn all() -> Self {
        Self::default()
    }

    /// One row.
    pub fn key(key: impl Into<Bytes>) -> Self {
        Self { keys: vec![key.into()], ranges: Vec::new() }
    }

    /// Returns the first key that is named, as a row or as the start of a range, and the number of rows
    /// and ranges that are named.
    pub(crate) fn first(&self) -> (&[u8], usize) {
        let start = self.ranges.first().and_then(|range| bound_key(&range.start));
        let key = self.keys.first().map(|key| &**key).or(start);
        (key.unwrap_or_default(), self.keys.len() + self.ranges.len())
    }

    /// The rows as sorted, disjoint, half-open ranges, none of them empty. `InvalidArgument` for
    /// an empty or oversized key and for an inverted range.
    pub fn normalize(&self) -> Result<Vec<RowRange>> {
        if self.keys.is_empty() && self.ranges.is_empty() {
            return Ok(vec![RowRange::ALL]);
        }
        let mut ranges = Vec::with_capacity(self.keys.len() + self.ranges.len());
        for (at, key) in self.keys.iter().enumerate() {
            limits::check_row_key("", key)
                .map_err(|e| e.within(&format!("rows.row_keys[{at}]")))?;
            ranges.push(RowRange::single(key));
        }
        for (at, range) in self.ranges.iter().enumerate() {
            let range = half_open(range);
            ranges.push(range.map_err(|e| e.within(&format!("rows.row_ranges[{at}]")))?);
        }
        Ok(merge(ranges))
    }
}

fn half_open(range: &KeyRange) -> Result<RowRange> {
    // A client that resumes may append a zero byte to the longest legal key.
    let check =
        |field, key: &[u8]| limits::check_len(field, key.len(), limits::ROW_KEY_BYTES_MAX + 1);
    let (start, end) = (bound_key(&range.start), bound_key(&range.end).filter(|e| !e.is_empty()));
    check("start_key", start.unwrap_or_default())?;
    check("end_key", end.unwrap_or_default())?;
    check_order(start, end)?;
    Ok(RowRange {
        start: lower(&range.start),
        end: if end.is_none() { None } else { upper(&range.end) },
    })
}

/// Refuses a range whose end lies before its start.
pub(crate) fn check_order(start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
    match (start, end) {
        (Some(start), Some(end)) if start > end => {
            let (start, end) = (start.escape_ascii(), end.escape_ascii());
            let message = format!("inverted range: start '{start}' lies after end '{end}'");
            Err(Error::invalid("", message))
        }
        _ => Ok(()),
    }
}

/// The key that a bound names.
pub(crate) fn bound_key(bound: &Bound<Bytes>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// The first byte string that a lower bound admits.
pub(crate) fn lower(bound: &Bound<Bytes>) -> Vec<u8> {
    match bound {
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => successor(key),
        Bound::Unbounded => Vec::new(),
    }
}

/// The first byte string after all that an upper bound admits.
pub(crate) fn upper(bound: &Bound<Bytes>) -> Option<Vec<u8>> {
    match bound {
        Bound::Included(key) => Some(successor(key)),
        Bound::Excluded(key) => Some(key.to_vec()),
        Bound::Unbounded => None,
    }
}

fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// The rows in any of `ranges`, sorted and disjoint.
pub fn merge(mut ranges: Vec<RowRange>) -> Vec<RowRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    let mut merged: Vec<RowRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end.as_ref().is_none_or(|end| *end >= range.start) => {
                if let Some(end) = &last.end
                    && range.end.as_ref().is_none_or(|e| e > end)
                {
                    last.end = range.end;
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// The rows in both of two sorted, disjoint lists.
pub fn intersect(left: &[RowRange], right: &[RowRange]) -> Vec<RowRange> {
    let (mut l, mut r) = (0, 0);
    let mut both = Vec::new();
    while let (Some(a), Some(b)) = (left.get(l), right.get(r)) {
        let start = a.start.as_slice().max(&b.start).to_vec();
        let a_first = ends_first(a.end.as_deref(), b.end.as_deref());
        let end = if a_first { a.end.clone() } else { b.end.clone() };
        let range = RowRange { start, end };
        if !range.is_empty() {
            both.push(range);
        }
        if a_first {
            l += 1;
        } else {
            r += 1;
        }
    }
    both
}

/// Returns whether the upper bound `a` is not after `b`; `None` is after everything.
pub(crate) fn ends_first(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a <= b,
        (Some(_), None) => true,
        (None, b) => b.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Bytes> {
        proptest::collection::vec(0u8..3, 1..3).prop_map(Bytes::from)
    }

    fn bound() -> impl Strategy<Value = Bound<Bytes>> {
        prop_oneof![
            key().prop_map(Bound::Included),
            key().prop_map(Bound::Excluded),
            Just(Bound::Unbounded)
        ]
    }

    fn admits(range: &KeyRange, key: &Bytes) -> bool {
        (match &range.start {
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
            Bound::Unbounded => true,
        }) && (match &range.end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        })
    }

    proptest! {
        #[test]
        fn normal_form_holds_the_same_rows(
            keys in proptest::collection::vec(key(), 0..4),
            bounds in proptest::collection::vec((bound(), bound()), 0..4),
            other in proptest::collection::vec((bound(), bound()), 1..4),
            row in key(),
        ) {
            let ranges = |bounds: Vec<_>| -> Vec<KeyRange> {
                bounds.into_iter().map(|(start, end)| KeyRange { start, end }).collect()
            };
            let set = RowSet { keys, ranges: ranges(bounds) };
            let other = RowSet { keys: vec![], ranges: ranges(other) };
            let wants = |set: &RowSet| {
                set.keys.is_empty() && set.ranges.is_empty()
                    || set.keys.contains(&row)
                    || set.ranges.iter().any(|range| admits(range, &row))
            };
            let (Ok(a), Ok(b)) = (set.normalize(), other.normalize()) else { return Ok(()) };
            let holds = |ranges: &[RowRange]| ranges.iter().filter(|r| r.contains(&row)).count();
            prop_assert_eq!(holds(&a), usize::from(wants(&set)));
            prop_assert!(a.is_sorted_by(|x, y| x.end.as_ref().is_some_and(|end| *end < y.start)));
            let both = usize::from(wants(&set) && wants(&other));
            prop_assert_eq!(holds(&intersect(&a, &b)), both);
        }
    }

    #[test]
    fn bad_rows_are_refused_by_name() {
        let long = Bytes::from(vec![b'k'; limits::ROW_KEY_BYTES_MAX + 1]);
        let range = |start: &'static str, end: &'static str| RowSet {
            keys: vec![],
            ranges: vec![KeyRange {
                start: Bound::Included(start.into()),
                end: Bound::Excluded(end.into()),
            }],
        };
        for (case, rows, want) in [
            ("empty key", RowSet::key(""), "non-empty"),
            ("long key", RowSet::key(long), "4097 bytes are over the limit of 4096 bytes"),
            ("inverted", range("b", "a"), "start 'b' lies after end 'a'"),
        ] {
            let error = rows.normalize().unwrap_err().to_string();
            assert!(error.contains(want) && error.contains("rows.row_"), "{case}: {error}");
        }
        assert_eq!(range("a", "a").normalize().unwrap(), vec![]);
        assert_eq!(range("a", "").normalize().unwrap()[0].end, None);
    }
}
