//! The memtable: what was committed to a tree and is not yet in its SSTables.
//!
//! In: frozen batches in the order of their commit. Out: entries in the order of cells, for reads and
//! for flushes. May use `semantics` and `memory`.
//!
//! One writer at a time (the commit leader, serialised by `writer`), any number of readers that
//! take no lock. Entries beyond a reader's snapshot are there to be met and are skipped by
//! `read::visible_cells`.
//!
//! A reader that loads a published sequence number and then looks here finds every entry up to
//! it: the batches were applied before the number was published (`Release`, met by the load's
//! `Acquire`). This holds for the order of rows, the row hash and the row filter alike.
//!
//! What it allocates is charged to the engine's budget until it is dropped: as `Active` while it
//! takes writes, then as `Frozen`, and as `Outlived` if readers keep it after its flush. What it
//! takes when it is empty is a tree's pinned metadata: no flush gives that back.

mod arena;
mod btree;
mod list;
mod memtable_cursor;
mod range_tombstones;
mod row_index;
mod rows;
mod words;

pub use memtable_cursor::MemtableCursor;

use crate::batch::{FrozenBatch, Mutation};
use crate::cell::{Kind, RangeTombstone, SequenceNumber, Timestamp};
use crate::error::Result;
use crate::locks::{MemtableDropped, MemtableWriter};
use crate::manifest::LogPosition;
use crate::memory::budget::{Budget, Charge, Use};
use crate::request::RowRange;
use crate::semantics::dropped_ranges::DroppedRanges;
use crate::semantics::row_cursor::RowCursor;
use crate::semantics::stripes::{Borders, NoSnapshots};
use crate::shape::Shape;
use base::sync::{Mutex, RwLock};
use range_tombstones::{Dropped, Part};
use rows::{Rows, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bytes of a successor's heads that all rows before it had in common.
const HEAD_BYTES_SHARED: usize = 4;

/// Entries and range tombstones of one tree, in memory.
pub struct Memtable {
    rows: Rows,
    writer: Mutex<Writing, MemtableWriter>,
    /// The range tombstones, for readers.
    dropped: RwLock<Vec<Part>, MemtableDropped>,
    any_dropped: AtomicBool,
    /// Snapshots whose readers use this memtable.
    snapshots: Arc<dyn Borders>,
    bytes: AtomicUsize,
    entries: AtomicUsize,
    /// Tombstones among the entries.
    tombstones: AtomicUsize,
    /// Position of the last batch applied; 0 while there is none.
    position: AtomicU64,
    /// For what it takes when it is empty.
    empty: Charge,
}

/// State that only the writer uses.
struct Writing {
    writer: Writer,
    dropped: Dropped,
    /// For what was allocated since the memtable was made.
    charge: Charge,
}

impl Default for Memtable {
    /// An empty memtable whose memory nobody counts, and of which nobody holds a snapshot.
    fn default() -> Self {
        Self::new(&Budget::new(usize::MAX, None))
    }
}

impl Memtable {
    /// An empty memtable that is charged to `budget`, and of which nobody holds a snapshot.
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self::shaped(budget, Arc::new(NoSnapshots), &Shape::DEFAULT, 0)
    }

    /// The same in a shape of its own, read at `snapshots`. `seed`, which those who choose row keys
    /// should not know, scatters rows in memory.
    pub(crate) fn shaped(
        budget: &Arc<Budget>,
        snapshots: Arc<dyn Borders>,
        shape: &Shape,
        seed: u64,
    ) -> Self {
        Self::with_prefix(budget, snapshots, &[], shape.row_cells_walked as u32, seed)
    }

    fn with_prefix(
        budget: &Arc<Budget>,
        snapshots: Arc<dyn Borders>,
        prefix: &[u8],
        cells_walked: u32,
        seed: u64,
    ) -> Self {
        let (rows, writer) = Rows::new(prefix, cells_walked, seed);
        let empty = size_of::<Self>() + rows.bytes_allocated(&writer);
        let empty = budget.charge(Use::Metadata).of(empty);
        Self {
            rows,
            writer: Mutex::new(Writing {
                writer,
                dropped: Dropped::default(),
                charge: budget.charge(Use::Active),
            }),
            empty,
            dropped: RwLock::default(),
            any_dropped: AtomicBool::new(false),
            snapshots,
            bytes: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            tombstones: AtomicUsize::new(0),
            position: AtomicU64::new(0),
        }
    }

    /// An empty memtable, set up for rows like those of this one, to which it succeeds: its heads
    /// begin a little before where these rows differ, since rows that ascend from memtable to
    /// memtable go on where these end.
    pub fn successor(&self) -> Self {
        let (first, last) = (self.rows.first(), self.rows.last_before(None));
        if first == last {
            return self.with_same_shape(&[]);
        }
        let (first, last) = (self.rows.row(first), self.rows.row(last));
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let prefix = &first[..common.saturating_sub(HEAD_BYTES_SHARED)];
        self.with_same_shape(prefix)
    }

    fn with_same_shape(&self, prefix: &[u8]) -> Self {
        let (cells_walked, seed) = (self.rows.cells_walked(), self.rows.seed());
        Self::with_prefix(self.budget(), self.snapshots.clone(), prefix, cells_walked, seed)
    }

    /// Applies `batch`, which it keeps, whose mutations are numbered from `first` and which lies
    /// at `position` of the log. Batches must come in log order.
    ///
    /// Returns the number of the last delete that spares older cells than it hides, if there is
    /// one. Only such a delete can bring back an older version of a cell: every other delete that
    /// hides a version hides all older ones, too.
    pub fn apply(
        &self,
        batch: &FrozenBatch,
        first: SequenceNumber,
        position: LogPosition,
    ) -> Option<SequenceNumber> {
        let mut writing = self.writer.lock();
        let Writing { writer, dropped, charge } = &mut *writing;
        let (mut ranges, mut tombstones, mut sparing) = (Vec::new(), 0, None);
        let mut last: Option<(&[u8], u32)> = None;
        let kept = self.rows.keep(writer, batch);
        for mutation in batch.mutations(first) {
            match mutation {
                Mutation::Entry { row, entry } => {
                    if entry.kind == Kind::Tombstone {
                        tombstones += 1;
                        let oldest = entry.tombstone_oldest().unwrap_or(Timestamp::MIN);
                        sparing = (oldest > Timestamp::MIN).then_some(entry.sequence).or(sparing);
                    }
                    match last {
                        Some((same, node)) if same == row => {
                            self.rows.add_cell(writer, &kept, node, &entry);
                        }
                        _ => last = Some((row, self.rows.insert(writer, &kept, row, &entry))),
                    }
                }
                Mutation::DropRange(range) => ranges.push(range),
            }
        }
        self.entries.fetch_add(batch.len() - ranges.len(), Ordering::Relaxed);
        self.tombstones.fetch_add(tombstones, Ordering::Release);
        self.add_dropped(dropped, ranges);
        let dropped = dropped.memory_bytes();
        self.bytes.store(self.rows.bytes_in_use(writer) + dropped, Ordering::Relaxed);
        let allocated = size_of::<Self>() + self.rows.bytes_allocated(writer) + dropped;
        charge.set(allocated.saturating_sub(self.empty.bytes()));
        let before = self.position.swap(position.0, Ordering::Release);
        assert!(before < position.0, "batches are applied in log order");
        sparing
    }

    fn add_dropped(&self, dropped: &mut Dropped, ranges: Vec<RangeTombstone>) {
        if !ranges.is_empty() {
            dropped.add(ranges, self.snapshots.borders());
            let parts = dropped.parts();
            *self.dropped.write() = parts;
            self.any_dropped.store(true, Ordering::Release);
        }
    }

    /// The budget it is charged to.
    pub fn budget(&self) -> &Arc<Budget> {
        self.empty.budget()
    }

    /// It takes no more writes, and is flushed when its turn comes.
    pub(crate) fn freeze(&self) {
        self.writer.lock().charge.turn(Use::Frozen);
    }

    /// Its entries are in SSTables, or of no use: who still reads it alone keeps it.
    pub(crate) fn outlive(&self) {
        self.writer.lock().charge.turn(Use::Outlived);
    }

    /// Returns whether it may have entries of the row with this hash (`base::checksum::xxh3` of its
    /// key). No false negatives; few false positives. Range tombstones do not count.
    pub fn may_have_row(&self, hash: u64) -> bool {
        self.rows.may_have(hash)
    }

    /// Approximate bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of entries.
    pub fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Returns whether nothing was ever applied.
    pub fn is_empty(&self) -> bool {
        self.position.load(Ordering::Acquire) == 0
    }

    /// Log position of the last batch applied.
    pub fn position(&self) -> LogPosition {
        LogPosition(self.position.load(Ordering::Acquire))
    }

    /// A copy of the range tombstones applied so far, in commit order.
    pub fn range_tombstones(&self) -> Vec<RangeTombstone> {
        self.dropped.read().iter().flat_map(Part::ranges).cloned().collect()
    }

    /// Indexes over the range tombstones applied so far, for readers at the snapshots that are held.
    pub fn dropped(&self) -> Vec<Arc<DroppedRanges>> {
        self.dropped.read().iter().map(Part::index).cloned().collect()
    }

    /// The same for a reader at `snapshot`, whatever that is. Does not wait for the writer.
    pub fn dropped_at(&self, snapshot: SequenceNumber) -> Vec<Arc<DroppedRanges>> {
        if !self.has_dropped() {
            return Vec::new();
        }
        let parts = self.dropped.read().clone();
        parts.iter().map(|part| part.index_at(snapshot)).collect()
    }

    /// Returns whether it has a tombstone of `row`, whose hash is `hash`, or a range tombstone over it.
    pub(crate) fn deletes(&self, row: &[u8], hash: u64) -> Result<bool> {
        let covers = |part: &Part| part.index().may_cover(row, SequenceNumber::MAX);
        if self.has_dropped() && self.dropped.read().iter().any(covers) {
            return Ok(true);
        }
        let mut cursor = MemtableCursor::new(self);
        if self.tombstones.load(Ordering::Acquire) == 0 || !cursor.seek_row(row, hash) {
            return Ok(false);
        }
        while let Some(entry) = cursor.entry() {
            if entry.kind == Kind::Tombstone {
                return Ok(true);
            }
            cursor.next_entry()?;
        }
        Ok(false)
    }

    /// Returns whether a range tombstone applied so far covers one of `rows`.
    pub fn drops_any_of(&self, rows: &RowRange) -> bool {
        self.has_dropped()
            && self.dropped.read().iter().any(|part| part.index().covers_any_of(rows))
    }

    /// The snapshots at which it is read.
    pub(crate) fn snapshots(&self) -> &Arc<dyn Borders> {
        &self.snapshots
    }

    /// Returns whether any range tombstone was applied.
    pub fn has_dropped(&self) -> bool {
        self.any_dropped.load(Ordering::Acquire)
    }

    /// A cursor over the entries that keeps the memtable alive.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(Arc::clone(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{TimestampRange, WriteBatch};
    use crate::cell::{Column, FamilyId, Timestamp};
    use crate::semantics::model::OwnedEntry;
    use crate::semantics::row_cursor::testing::{
        Owned, Steps, VecCursor, check_against_oracle, entries, sorted,
    };
    use base::checksum::xxh3;
    use proptest::prelude::*;

    fn with_prefix(prefix: &[u8]) -> Memtable {
        Memtable::with_prefix(&Budget::new(usize::MAX, None), Arc::new(NoSnapshots), prefix, 16, 0)
    }

    /// Applies `entries`, some to a batch. Their sequence numbers are those they get.
    fn fill(memtable: &Memtable, entries: &[Owned], some: usize) {
        let mut number = 0;
        for entries in entries.chunks(some) {
            let mut batch = WriteBatch::new();
            for (row, OwnedEntry { family, scope, qualifier, timestamp, kind, value, .. }) in
                entries
            {
                let column = Column { family: *family, scope: *scope, qualifier };
                match kind {
                    Kind::Put => batch.put(row, column, *timestamp, value),
                    _ => {
                        let range = TimestampRange {
                            start: Timestamp(-9),
                            end: Some(Timestamp(timestamp.0 + 1)),
                        };
                        batch.delete(row, column, range);
                    }
                }
            }
            let first = SequenceNumber(number + 1);
            number += entries.len() as u64;
            memtable.apply(&batch.freeze().unwrap(), first, LogPosition(number));
        }
    }

    proptest! {
        #[test]
        fn a_memtable_walks_like_its_sorted_entries(
            entries in entries(200),
            some in 1usize..20,
            prefix in 0usize..4,
            steps in Steps::any(60),
        ) {
            let memtable = Arc::new(with_prefix(&[b'r'; 4][..prefix]));
            fill(&memtable, &entries, some);
            check_against_oracle(&mut memtable.cursor(), sorted(entries), &steps);
        }
    }

    proptest! {
        #[test]
        fn rows_are_found_by_hash_where_they_are(
            entries in entries(200),
            some in 1usize..20,
            column in (1u16..7, 0usize..4),
        ) {
            let memtable = Arc::new(Memtable::default());
            fill(&memtable, &entries, some);
            let mut oracle = VecCursor::new(sorted(entries));
            for len in 0..8 {
                let row = vec![b'r'; len];
                let mut cursor = MemtableCursor::new(&*memtable);
                oracle.seek(&row).unwrap();
                let there = oracle.row() == Some(&row[..]);
                prop_assert_eq!(cursor.seek_row(&row, xxh3(&row)), there);
                prop_assert_eq!(cursor.row().is_some(), there);
                if there {
                    prop_assert!(memtable.may_have_row(xxh3(&row)));
                    prop_assert_eq!(cursor.entry(), oracle.entry());
                    let qualifier = vec![b'q'; column.1];
                    let column = Column::of(FamilyId(column.0), &qualifier);
                    cursor.skip_to_column(column).unwrap();
                    oracle.skip_to_column(column).unwrap();
                    prop_assert_eq!(cursor.entry(), oracle.entry());
                }
            }
        }
    }

    #[test]
    fn a_wide_row_is_walked_and_searched_in_order() {
        const CELLS: u64 = if cfg!(miri) { 300 } else { 5_000 };
        let memtable = Memtable::default();
        let qualifier = |number: u64| (number * 2).to_be_bytes();
        for number in 0..CELLS {
            let mut batch = WriteBatch::new();
            let scattered = qualifier(number * 7919 % CELLS);
            batch.put(b"row", Column::of(FamilyId(300), &scattered), Timestamp(1), b"");
            let batch = batch.freeze().unwrap();
            memtable.apply(&batch, SequenceNumber(number + 1), LogPosition(number + 1));
        }
        let mut cursor = MemtableCursor::new(&memtable);
        for from in (0..CELLS).step_by(97) {
            assert!(cursor.seek_row(b"row", xxh3(b"row")));
            let between = (from * 2).saturating_sub(1).to_be_bytes();
            cursor.skip_to_column(Column::of(FamilyId(300), &between)).unwrap();
            for number in from..CELLS.min(from + 40) {
                let entry = cursor.entry().expect("all cells are there");
                assert_eq!(entry.column.qualifier, qualifier(number));
                cursor.next_entry().unwrap();
            }
        }
    }

    #[test]
    fn a_successor_knows_what_all_rows_begin_with_and_takes_others_as_well() {
        let apply = |memtable: &Memtable, rows: &[&str]| {
            let mut batch = WriteBatch::new();
            for row in rows {
                batch.put(row.as_bytes(), Column::of(FamilyId(1), b""), Timestamp(1), b"");
            }
            memtable.apply(&batch.freeze().unwrap(), SequenceNumber(1), LogPosition(9));
        };
        let first = Memtable::default();
        assert_eq!(first.successor().rows.prefix(), b"");
        apply(&first, &["user#1"]);
        assert_eq!(first.successor().rows.prefix(), b"");
        let second = Memtable::default();
        apply(&second, &["user#0002", "user#0001", "user#000"]);
        let third = second.successor();
        assert_eq!(third.rows.prefix(), b"user");
        let mut rows = ["zebra", "use", "user#77", "user#1", "", "uses", "tom", "user"];
        apply(&third, &rows);
        rows.sort_unstable();
        let mut cursor = MemtableCursor::new(&third);
        cursor.seek(b"").unwrap();
        for row in rows {
            assert_eq!(cursor.row(), Some(row.as_bytes()));
            cursor.next_row().unwrap();
        }
        assert_eq!(cursor.row(), None);
    }

    #[test]
    fn a_reader_finds_every_row_that_was_applied_before_it_looked() {
        let rows = if cfg!(miri) { 200 } else { 60_000 };
        let memtable = Memtable::default();
        let row_of = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=rows {
                    let mut batch = WriteBatch::new();
                    let row = row_of(number);
                    batch.put(&row, Column::of(FamilyId(1), b"q"), Timestamp(1), &row);
                    batch.put(b"hot", Column::of(FamilyId(1), &row), Timestamp(1), &row);
                    let position = LogPosition(number);
                    memtable.apply(&batch.freeze().unwrap(), SequenceNumber(number * 2), position);
                }
            });
            let mut cursor = MemtableCursor::new(&memtable);
            let (mut looks, mut applied) = (0u64, 0);
            while applied < rows {
                applied = memtable.position().0;
                looks += 1;
                for number in [applied, applied / 2, looks % (applied + 1)] {
                    if number == 0 {
                        continue;
                    }
                    let row = row_of(number);
                    assert!(memtable.may_have_row(xxh3(&row)));
                    assert!(cursor.seek_row(&row, xxh3(&row)));
                    assert_eq!(cursor.entry_with_value().unwrap().value, row);
                    cursor.seek(&row).unwrap();
                    assert_eq!(cursor.row(), Some(&row[..]));
                    assert!(cursor.seek_row(b"hot", xxh3(b"hot")));
                    cursor.skip_to_column(Column::of(FamilyId(1), &row)).unwrap();
                    assert_eq!(cursor.entry_with_value().unwrap().value, row);
                }
            }
        });
    }

    #[test]
    fn a_reader_meets_a_sorted_list_while_a_writer_adds_to_it() {
        let rows = if cfg!(miri) { 100 } else { 20_000u64 };
        let memtable = Arc::new(Memtable::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..rows {
                    let mut batch = WriteBatch::new();
                    let row = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                    batch.put(&row, Column::of(FamilyId(1), b"q"), Timestamp(1), &row);
                    let sequence = SequenceNumber(number + 1);
                    memtable.apply(&batch.freeze().unwrap(), sequence, LogPosition(number + 1));
                }
            });
            loop {
                let done = memtable.position().0 == rows;
                let mut cursor = memtable.cursor();
                let (mut last, mut met) = (None, 0);
                cursor.seek(b"").unwrap();
                while let Some(row) = cursor.row().map(<[u8]>::to_vec) {
                    assert!(last < Some(row.clone()), "rows ascend");
                    assert_eq!(cursor.entry_with_value().unwrap().value, row);
                    (last, met) = (Some(row), met + 1);
                    cursor.next_row().unwrap();
                }
                if done {
                    assert_eq!(met, rows);
                    break;
                }
            }
        });
    }

    #[test]
    fn a_reader_in_reverse_lands_on_the_last_row_while_a_writer_adds_rows_before_it() {
        let rows = if cfg!(miri) { 150 } else { 50_000 };
        let memtable = Arc::new(Memtable::default());
        let add = |row: u64, number: u64| {
            let mut batch = WriteBatch::new();
            batch.put(&row.to_be_bytes(), Column::of(FamilyId(1), b"q"), Timestamp(1), b"");
            memtable.apply(&batch.freeze().unwrap(), SequenceNumber(number), LogPosition(number));
        };
        add(u64::MAX, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| (2..=rows).for_each(|row| add(row, row)));
            let mut cursor = memtable.cursor();
            while memtable.position().0 < rows {
                cursor.seek_before(None).unwrap();
                assert_eq!(cursor.row(), Some(&u64::MAX.to_be_bytes()[..]));
            }
        });
    }
}
