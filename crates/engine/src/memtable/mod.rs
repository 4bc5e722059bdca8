//! The memtable: what was committed to a tree and is not yet in its SSTables.
//!
//! One writer at a time (the commit leader, serialised by `writer`), any number of readers that
//! take no lock. Entries beyond a reader's snapshot are there to be met and are skipped by
//! `read::visible`.

mod arena;
mod cursor;
mod skiplist;

pub use cursor::MemtableCursor;

use crate::batch::{Mutation, WriteBatch};
use crate::cell::{RangeTombstone, SequenceNumber};
use crate::manifest::LogPosition;
use crate::read::dropped::DroppedRanges;
use parking_lot::{Mutex, RwLock};
use skiplist::{NODE_BYTES, SkipList, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Entries and range tombstones of one tree, in memory.
pub struct Memtable {
    list: SkipList,
    writer: Mutex<Writer>,
    dropped: RwLock<Dropped>,
    bytes: AtomicUsize,
    entries: AtomicUsize,
    /// Position of the last batch applied; 0 while there is none.
    position: AtomicU64,
}

/// Range tombstones in commit order, and an index over them.
#[derive(Default, Clone)]
struct Dropped {
    ranges: Arc<Vec<RangeTombstone>>,
    index: Arc<DroppedRanges>,
}

impl Default for Memtable {
    fn default() -> Self {
        let (list, writer) = SkipList::new();
        Self {
            list,
            writer: Mutex::new(writer),
            dropped: RwLock::default(),
            bytes: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            position: AtomicU64::new(0),
        }
    }
}

impl Memtable {
    /// Applies `batch`, whose mutations are numbered from `first` and which lies at `position` of
    /// the log. Batches must come in log order.
    pub fn apply(&self, batch: &WriteBatch, first: SequenceNumber, position: LogPosition) {
        let mut writer = self.writer.lock();
        let mut dropped = Vec::new();
        let (mut bytes, mut entries) = (0, 0);
        for mutation in batch.mutations(first) {
            match mutation {
                Mutation::Entry { row, entry } => {
                    bytes +=
                        row.len() + entry.column.qualifier.len() + entry.value.len() + NODE_BYTES;
                    entries += 1;
                    let taken = self.list.insert(&mut writer, row, &entry);
                    assert!(taken, "a memtable is frozen long before it holds 4 billion entries");
                }
                Mutation::DropRange(range) => {
                    bytes += range.start.len() + range.end.as_ref().map_or(0, Vec::len) + 64;
                    dropped.push(range);
                }
            }
        }
        if !dropped.is_empty() {
            let mut current = self.dropped.write();
            Arc::make_mut(&mut current.ranges).extend(dropped);
            current.index = Arc::new(DroppedRanges::new(current.ranges.iter()));
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.entries.fetch_add(entries, Ordering::Relaxed);
        let before = self.position.swap(position.0, Ordering::Release);
        assert!(before < position.0, "batches are applied in log order");
    }

    /// Approximate bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of entries.
    pub fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether nothing was ever applied.
    pub fn is_empty(&self) -> bool {
        self.position.load(Ordering::Acquire) == 0
    }

    /// Log position of the last batch applied.
    pub fn position(&self) -> LogPosition {
        LogPosition(self.position.load(Ordering::Acquire))
    }

    /// The range tombstones applied so far, in commit order.
    pub fn range_tombstones(&self) -> Arc<Vec<RangeTombstone>> {
        Arc::clone(&self.dropped.read().ranges)
    }

    /// An index over the range tombstones applied so far.
    pub fn dropped(&self) -> Arc<DroppedRanges> {
        Arc::clone(&self.dropped.read().index)
    }

    /// A cursor over the entries, including those added while it walks.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Column, FamilyId, Timestamp};
    use crate::cursor::RowCursor;
    use crate::cursor::testing::{Owned, Steps, check_against_oracle, entries, sorted};
    use proptest::prelude::*;

    fn fill(memtable: &Memtable, entries: &[Owned]) {
        let mut writer = memtable.writer.lock();
        for (row, entry) in entries {
            assert!(memtable.list.insert(&mut writer, row, &entry.borrow()));
        }
    }

    proptest! {
        #[test]
        fn a_memtable_walks_like_its_sorted_entries(
            entries in entries(80),
            steps in Steps::any(60),
        ) {
            let memtable = Arc::new(Memtable::default());
            fill(&memtable, &entries);
            check_against_oracle(&mut memtable.cursor(), sorted(entries), &steps);
        }
    }

    #[test]
    fn a_reader_meets_a_sorted_list_while_a_writer_adds_to_it() {
        let memtable = Arc::new(Memtable::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..20_000u64 {
                    let mut batch = WriteBatch::new();
                    let row = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                    batch.put(&row, Column::of(FamilyId(1), b"q"), Timestamp(1), &row);
                    let sequence = SequenceNumber(number + 1);
                    memtable.apply(&batch, sequence, LogPosition(number + 1));
                }
            });
            loop {
                let done = memtable.position().0 == 20_000;
                let mut cursor = memtable.cursor();
                let (mut last, mut rows) = (None, 0);
                cursor.seek(b"").unwrap();
                while let Some(row) = cursor.row().map(<[u8]>::to_vec) {
                    assert!(last < Some(row.clone()), "rows ascend");
                    assert_eq!(cursor.entry_with_value().unwrap().value, row);
                    (last, rows) = (Some(row), rows + 1);
                    cursor.next_row().unwrap();
                }
                if done {
                    assert_eq!(rows, 20_000);
                    break;
                }
            }
        });
    }

    #[test]
    fn a_reader_in_reverse_lands_on_the_last_row_while_a_writer_adds_rows_before_it() {
        const ROWS: u64 = 50_000;
        let memtable = Arc::new(Memtable::default());
        let add = |row: u64, number: u64| {
            let mut batch = WriteBatch::new();
            batch.put(&row.to_be_bytes(), Column::of(FamilyId(1), b"q"), Timestamp(1), b"");
            memtable.apply(&batch, SequenceNumber(number), LogPosition(number));
        };
        add(u64::MAX, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| (2..=ROWS).for_each(|row| add(row, row)));
            let mut cursor = memtable.cursor();
            while memtable.position().0 < ROWS {
                cursor.seek_before(None).unwrap();
                assert_eq!(cursor.row(), Some(&u64::MAX.to_be_bytes()[..]));
            }
        });
    }
}
