//! Splits the rows of a read into parts, each of which one node reads.

use crate::group::NodeId;
use std::collections::VecDeque;
use std::ops::Bound;
use table::limits::ROW_KEY_BYTES_MAX;
use table::{Bytes, Direction, KeyRange, RowRange, RowSet, TableSchema, TreeId};

/// A tablet with rows that are read of it.
pub(super) type TabletRows = (TreeId, Vec<RowRange>);

/// Rows of consecutive tablets that are read by one call, in row order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Rows by tablet; never empty.
    pub(super) tablets: Vec<TabletRows>,
}

impl Part {
    /// The rows of the part. Their normal form is the same ranges again.
    pub(super) fn rows(&self) -> RowSet {
        let mut rows = RowSet::default();
        for range in self.tablets.iter().flat_map(|(_, ranges)| ranges) {
            match single(range) {
                Some(key) => rows.keys.push(key),
                None => rows.ranges.push(KeyRange { start: start_of(range), end: end_of(range) }),
            }
        }
        rows
    }
}

/// Returns the rows of each tablet. `ranges` are sorted and disjoint.
pub(super) fn by_tablet(schema: &TableSchema, ranges: &[RowRange]) -> Vec<TabletRows> {
    let mut tablets: Vec<TabletRows> = Vec::new();
    for range in ranges {
        let first = schema.tablet_of(&range.start);
        for at in first..schema.tablets.len() {
            let tablet = &schema.tablets[at];
            let end = schema.tablets.get(at + 1).map(|next| next.start.to_vec());
            let is_last = match (&range.end, &end) {
                (_, None) => true,
                (Some(range), Some(tablet)) => range <= tablet,
                (None, Some(_)) => false,
            };
            let rows = RowRange {
                start: range.start.as_slice().max(&tablet.start).to_vec(),
                end: if is_last { range.end.clone() } else { end },
            };
            match tablets.last_mut() {
                Some((tree, ranges)) if *tree == tablet.tree => ranges.push(rows),
                _ => tablets.push((tablet.tree, vec![rows])),
            }
            if is_last {
                break;
            }
        }
    }
    tablets
}

/// Joins neighbouring tablets that one node leads, as far as `leader` knows, in the order of the read.
pub(super) fn by_leader(
    tablets: Vec<TabletRows>,
    direction: Direction,
    leader: impl Fn(TreeId) -> Option<NodeId>,
) -> VecDeque<Part> {
    let mut parts: VecDeque<Part> = VecDeque::new();
    let mut before = None;
    for rows in tablets {
        let led = leader(rows.0);
        match parts.back_mut() {
            Some(part) if led.is_some() && led == before => part.tablets.push(rows),
            _ => parts.push_back(Part { tablets: vec![rows] }),
        }
        before = led;
    }
    if direction == Direction::Reverse {
        parts.make_contiguous().reverse();
    }
    parts
}

/// The key of a range of one row that may be named as a key.
fn single(range: &RowRange) -> Option<Bytes> {
    let end = range.end.as_ref()?;
    let is_single = end.len() == range.start.len() + 1 && end.ends_with(&[0]);
    let is_key = (1..=ROW_KEY_BYTES_MAX).contains(&range.start.len());
    (is_single && is_key && end.starts_with(&range.start))
        .then(|| Bytes::copy_from_slice(&range.start))
}

/// A bound that leaves out `key` without its last byte says the same as one that begins with `key`,
/// where that byte is zero, and stays within the limit of keys.
fn start_of(range: &RowRange) -> Bound<Bytes> {
    match range.start.as_slice() {
        [] => Bound::Unbounded,
        [short @ .., 0] if short.len() > ROW_KEY_BYTES_MAX => {
            Bound::Excluded(Bytes::copy_from_slice(short))
        }
        start => Bound::Included(Bytes::copy_from_slice(start)),
    }
}

/// As [`start_of`], for the bound of the end.
fn end_of(range: &RowRange) -> Bound<Bytes> {
    match range.end.as_deref() {
        None => Bound::Unbounded,
        Some([short @ .., 0]) if short.len() > ROW_KEY_BYTES_MAX => {
            Bound::Included(Bytes::copy_from_slice(short))
        }
        Some(end) => Bound::Excluded(Bytes::copy_from_slice(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use table::schema::Tablet;
    use table::{Granularity, TableName};

    fn schema(splits: &[Vec<u8>]) -> TableSchema {
        let starts = [Vec::new()].into_iter().chain(splits.iter().cloned());
        let tablets = starts
            .zip(16..)
            .map(|(start, tree)| Tablet { start: start.into(), tree: TreeId(tree) });
        TableSchema {
            name: TableName::new("t").unwrap(),
            families: BTreeMap::new(),
            next_family: 1,
            tablets: tablets.collect(),
            deletion_protection: false,
            created_micros: 0,
            granularity: Granularity::Millis,
            row_key_schema: None,
        }
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(0u8..3, 1..4)
    }

    fn any_bound() -> impl Strategy<Value = Bound<Bytes>> {
        prop_oneof![
            key().prop_map(|key| Bound::Included(key.into())),
            key().prop_map(|key| Bound::Excluded(key.into())),
            Just(Bound::Unbounded)
        ]
    }

    proptest! {
        #[test]
        fn parts_are_the_rows_of_the_read_each_in_its_tablet(
            mut splits in proptest::collection::vec(key(), 0..4),
            keys in proptest::collection::vec(key(), 0..4),
            bounds in proptest::collection::vec((any_bound(), any_bound()), 0..4),
            leaders in proptest::collection::vec(proptest::option::of(1u64..3), 5),
            reverse: bool,
        ) {
            splits.sort();
            splits.dedup();
            let schema = schema(&splits);
            let ranges = bounds.into_iter().map(|(start, end)| KeyRange { start, end });
            let keys = keys.into_iter().map(Bytes::from).collect();
            let Ok(rows) = RowSet { keys, ranges: ranges.collect() }.normalize() else {
                return Ok(());
            };
            let tablets = by_tablet(&schema, &rows);
            let extents: Vec<_> = schema.tablet_rows().collect();
            for (tree, ranges) in &tablets {
                let extent = &extents[tree.0 as usize - 16];
                let within = table::row_set::intersect(&rows, std::slice::from_ref(extent));
                prop_assert_eq!(&within, ranges);
            }
            let direction = if reverse { Direction::Reverse } else { Direction::Forward };
            let leader = |tree: TreeId| leaders[tree.0 as usize - 16].map(NodeId);
            let mut parts = by_leader(tablets.clone(), direction, leader);
            for part in &parts {
                let ranges: Vec<_> = part.tablets.iter().flat_map(|(_, rows)| rows.clone()).collect();
                prop_assert_eq!(part.rows().normalize().unwrap(), table::row_set::merge(ranges));
                let led: Vec<_> = part.tablets.iter().map(|(tree, _)| leader(*tree)).collect();
                prop_assert!(led.len() == 1 || led[0].is_some() && led.iter().all(|l| *l == led[0]));
            }
            if reverse {
                parts.make_contiguous().reverse();
            }
            let joined: Vec<_> = parts.into_iter().flat_map(|part| part.tablets).collect();
            prop_assert_eq!(joined, tablets);
        }
    }

    #[test]
    fn the_longest_bounds_stay_within_the_limit() {
        let long = vec![1; ROW_KEY_BYTES_MAX + 1];
        let rows = RowSet {
            keys: Vec::new(),
            ranges: vec![KeyRange {
                start: Bound::Excluded(long.clone().into()),
                end: Bound::Unbounded,
            }],
        };
        let after = rows.normalize().unwrap();
        let part = |range: RowRange| Part { tablets: vec![(TreeId(16), vec![range])] };
        assert_eq!(part(after[0].clone()).rows(), rows);
        let end = [long.as_slice(), &[0]].concat();
        let up_to = RowRange { start: Vec::new(), end: Some(end) };
        assert_eq!(part(up_to.clone()).rows().normalize().unwrap(), [up_to]);
    }
}
