//! The range tombstones of a memtable, and indexes over them.
//!
//! Invariants:
//! 1. Each index is over consecutive ranges, in commit order, and over more than twice as many as
//!    the next one. So there are O(log n) of them, and a range is indexed again O(log n) times in
//!    all, however small the batches are in which ranges come.
//! 2. Memory is O(n) (`semantics::dropped_ranges`).

use crate::cell::{RangeTombstone, SequenceNumber};
use crate::semantics::dropped_ranges::DroppedRanges;
use std::sync::Arc;

/// See the file header.
#[derive(Default)]
pub(super) struct Dropped {
    /// In commit order.
    parts: Vec<Part>,
    /// Bytes of the ranges, their keys and the indexes.
    bytes: usize,
}

/// Consecutive ranges and the index over them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Part {
    /// In commit order.
    ranges: Arc<[Arc<RangeTombstone>]>,
    index: Arc<DroppedRanges>,
}

impl Part {
    /// The ranges, in commit order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &RangeTombstone> {
        self.ranges.iter().map(|range| &**range)
    }

    /// An index over the ranges, for readers at the snapshots that were held when it was made.
    pub(super) fn index(&self) -> &Arc<DroppedRanges> {
        &self.index
    }

    /// The same for a reader at `snapshot`, whatever that is.
    pub(super) fn index_at(&self, snapshot: SequenceNumber) -> Arc<DroppedRanges> {
        if self.index.exact_at(snapshot) {
            return Arc::clone(&self.index);
        }
        // A reader who holds no snapshot, and whose moment passed before it came here.
        Arc::new(DroppedRanges::new(self.ranges(), vec![snapshot]))
    }

    /// Bytes that end with the part; its ranges may go on in another.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.ranges.len() * size_of::<usize>() + self.index.memory_bytes()
    }
}

/// Bytes of a range on the heap, with the counts of its `Arc`.
fn bytes_of(range: &RangeTombstone) -> usize {
    let keys = range.start.len() + range.end.as_ref().map_or(0, Vec::len);
    size_of::<RangeTombstone>() + 2 * size_of::<usize>() + keys
}

impl Dropped {
    /// Adds `ranges`, which are newer than all before and will be seen by every reader that is not
    /// at one of `borders`: the snapshots that are held, and what is published.
    pub(super) fn add(&mut self, ranges: Vec<RangeTombstone>, borders: Vec<SequenceNumber>) {
        self.bytes += ranges.iter().map(bytes_of).sum::<usize>();
        let mut ranges: Vec<Arc<RangeTombstone>> = ranges.into_iter().map(Arc::new).collect();
        while let Some(last) = self.parts.pop_if(|last| last.ranges.len() <= 2 * ranges.len()) {
            self.bytes -= last.bytes();
            ranges.splice(..0, last.ranges.iter().cloned());
        }
        let index = Arc::new(DroppedRanges::new(ranges.iter().map(|range| &**range), borders));
        let part = Part { ranges: ranges.into(), index };
        self.bytes += part.bytes();
        self.parts.push(part);
    }

    /// Returns the parts that readers look at; together they cover all ranges, in commit order.
    pub(super) fn parts(&self) -> Vec<Part> {
        self.parts.clone()
    }

    /// Bytes of memory in use.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;
    use crate::manifest::LogPosition;
    use crate::memory::budget::Budget;
    use crate::memtable::Memtable;
    use crate::semantics::dropped_ranges::DroppedAt;
    use crate::shape::Shape;
    use crate::tree::snapshots::Snapshots;
    use proptest::prelude::*;
    use std::time::Duration;

    fn key(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    /// Commits the drop of some ranges.
    fn commit(memtable: &Memtable, snapshots: &Snapshots, ranges: &[(u64, u64)]) {
        let mut batch = WriteBatch::new();
        ranges.iter().for_each(|(start, end)| batch.drop_row_range(&key(*start), Some(&key(*end))));
        let first = snapshots.published().0 + 1;
        let last = first - 1 + batch.len() as u64;
        memtable.apply(&batch.freeze().unwrap(), SequenceNumber(first), LogPosition(last));
        snapshots.publish(SequenceNumber(last));
    }

    proptest! {
        #[test]
        fn every_reader_sees_the_newest_range_that_it_may(
            batches in proptest::collection::vec(
                (proptest::collection::vec((0u64..20, 1u64..20), 1..4), any::<bool>()),
                1..20,
            ),
        ) {
            let snapshots = Arc::new(Snapshots::default());
            let memtable = Memtable::shaped(&Budget::new(usize::MAX, None), snapshots.clone(), &Shape::DEFAULT, 0);
            let (mut all, mut held) = (Vec::new(), Vec::new());
            for (ranges, hold) in &batches {
                let ranges: Vec<_> = ranges.iter().map(|(start, len)| (*start, start + len)).collect();
                for (start, end) in &ranges {
                    all.push((*start, *end, all.len() as u64 + 1));
                }
                commit(&memtable, &snapshots, &ranges);
                held.extend(hold.then(|| snapshots.take(Duration::ZERO)));
            }
            let indexes = memtable.dropped();
            for snapshot in held.iter().map(crate::tree::snapshots::Snapshot::sequence) {
                prop_assert!(indexes.iter().all(|index| index.exact_at(snapshot)));
            }
            for snapshot in (0..=all.len() as u64).map(SequenceNumber) {
                let dropped = DroppedAt::new(memtable.dropped_at(snapshot), snapshot);
                for row in 0..20 {
                    let over = |(start, end, number): &&(u64, u64, u64)| {
                        (*start..*end).contains(&row) && *number <= snapshot.0
                    };
                    let want = all.iter().filter(over).map(|(.., number)| *number).max();
                    prop_assert_eq!(dropped.newest(&key(row)).0, want.unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn a_reader_who_is_late_does_not_wait_for_the_writer() {
        let snapshots = Arc::new(Snapshots::default());
        let budget = Budget::new(usize::MAX, None);
        let memtable = Memtable::shaped(&budget, snapshots.clone(), &Shape::DEFAULT, 0);
        for _ in 0..3 {
            commit(&memtable, &snapshots, &[(1, 5), (2, 9)]);
        }
        let late = SequenceNumber(3);
        assert!(!memtable.dropped().iter().all(|index| index.exact_at(late)));
        let writing = memtable.writer.lock();
        let dropped = DroppedAt::new(memtable.dropped_at(late), late);
        assert_eq!([1, 2, 8].map(|row| dropped.newest(&key(row)).0), [3, 3, 2]);
        assert_eq!(memtable.range_tombstones().len(), 6);
        drop(writing);
    }

    #[test]
    fn ranges_that_come_one_by_one_take_memory_for_each_once() {
        const RANGES: u64 = if cfg!(miri) { 60 } else { 20_000 };
        let snapshots = Arc::new(Snapshots::default());
        let memtable =
            Memtable::shaped(&Budget::new(usize::MAX, None), snapshots.clone(), &Shape::DEFAULT, 0);
        let mut held = Vec::new();
        for number in 0..RANGES {
            if number % (RANGES / 10) == 1 {
                held.push(snapshots.take(Duration::ZERO));
            }
            commit(&memtable, &snapshots, &[(number, 9 * RANGES - number)]);
            let indexes = memtable.dropped();
            assert!(indexes.len() as u32 <= u64::BITS - number.leading_zeros() + 1);
        }
        let fragments: usize = memtable.dropped().iter().map(|index| index.fragments()).sum();
        assert!(fragments <= 4 * RANGES as usize, "{fragments} fragments");
        let bytes = memtable.bytes();
        assert!(bytes >= RANGES as usize * 16, "dropped ranges count: {bytes} bytes");
        assert!(bytes <= RANGES as usize * 1000, "{bytes} bytes");
    }
}
