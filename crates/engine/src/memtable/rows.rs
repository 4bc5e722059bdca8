//! The rows of a memtable: an ordered list of rows, found also by hash, each with the ordered list
//! of its cells (any entry of a row is called a cell here).
//!
//! Keys, qualifiers and values are not copied: the memtable keeps the batches and points into
//! them. Both kinds of nodes are words of one arena (`list`), their fields before the node:
//!
//! ```text
//! row    batch u32, offset of the key u32 | key length u32, number of cells u32
//!        | root of the tree over its cells | first of its cells
//! cell   batch u32, offset of the qualifier u32 | offset of the value u32, its length u32
//!        | timestamp | sequence | family u16, scope u8, kind u8, qualifier length u32
//! ```
//!
//! Invariants:
//! 1. A row that can be reached has a cell; fields of cells never change, and of rows only the
//!    list and number of its cells.
//! 2. Cells are unique in (column, timestamp, sequence): the order within a row is total.
//! 3. The cells of a row get a tree when there are `Shape::row_cells_walked` of them, so that a
//!    narrow row is small and a wide one is searched in logarithmic time.

use super::arena::Arena;
use super::list::{END, List};
use super::row_index::{RowCount, RowIndex};
use super::words::{Growth, Target, Words, join, split};
use crate::batch::FrozenBatch;
use crate::cell::{Column, Entry, EntryKey, FamilyId, Kind, Scope, SequenceNumber, Timestamp};
use crate::marks::Mark;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};

/// Bytes that a batch takes beside its encoding: its place here, and an allocation's own.
const BATCH_BYTES: usize = size_of::<OnceLock<FrozenBatch>>() + 32;
const ROW_FIELDS: usize = 4;
const CELL_FIELDS: usize = 5;

/// See the file header. Readers share it; whoever holds the [`Writer`] may insert.
pub(super) struct Rows {
    words: Words,
    batches: Arena<OnceLock<FrozenBatch>>,
    list: List,
    index: RowIndex,
    /// Cells of a row that are walked one by one.
    cells_walked: u32,
    /// What row keys begin with; see [`Rows::head_of_row`].
    prefix: Box<[u8]>,
}

/// State that only the writer uses.
pub(super) struct Writer {
    growth: Growth,
    next_batch: u32,
    batch_bytes: usize,
    rows: RowCount,
}

/// A batch that the memtable keeps.
pub(super) struct Kept<'a> {
    number: u32,
    batch: &'a FrozenBatch,
}

impl Kept<'_> {
    /// Batch and offset of a part of it.
    fn place(&self, part: &[u8]) -> u64 {
        join(self.number, self.batch.offset_of(part))
    }
}

/// The first eight bytes, big-endian; what is missing counts as zeroes.
fn first_eight(bytes: &[u8]) -> u64 {
    if let Some((first, _)) = bytes.split_first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; 8];
    first[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(first)
}

/// The head of cells of `column`: family, whether it is a column, the qualifier's beginning. All
/// families from 255 on share one head.
fn head_of_column(column: &Column<'_>) -> u64 {
    match u8::try_from(column.family.0) {
        Ok(family) if family < u8::MAX => {
            let in_family = u64::from(column.scope == Scope::Column) << 63;
            let qualifier = first_eight(column.qualifier) >> 1;
            u64::from(family) << 56 | (in_family | qualifier) >> 8
        }
        _ => u64::MAX,
    }
}

/// The key of the cell with these fields, whose batch has this encoding.
fn key_of<'a>(fields: &[AtomicU64], encoding: &'a [u8]) -> EntryKey<'a> {
    let (_, qualifier) = split(fields[0].load(Relaxed));
    let (kinds, qualifier_len) = split(fields[4].load(Relaxed));
    let scope = Scope::from_byte((kinds >> 8) as u8).expect("the writer stored a scope");
    let column = Column {
        family: FamilyId((kinds >> 16) as u16),
        scope,
        qualifier: &encoding[qualifier as usize..][..qualifier_len as usize],
    };
    EntryKey {
        column,
        timestamp: Timestamp(fields[2].load(Relaxed).cast_signed()),
        sequence: SequenceNumber(fields[3].load(Relaxed)),
        kind: Kind::from_byte(kinds as u8).expect("the writer stored a kind"),
    }
}

impl Rows {
    /// No rows, and the only writer of those to come. Searches are fastest when row keys have
    /// `prefix` in common and no more. Up to `cells_walked` cells of a row are walked one by one.
    /// Where rows lie in the index follows from `seed`.
    pub(super) fn new(prefix: &[u8], cells_walked: u32, seed: u64) -> (Self, Writer) {
        let (words, mut growth) = Words::new();
        let first = words.reserve(&mut growth, 2);
        let list = List { first, root: first + 1 };
        words.add_tree(&mut growth, list);
        let rows = Self {
            words,
            batches: Arena::default(),
            list,
            cells_walked,
            index: RowIndex::new(seed),
            prefix: prefix.into(),
        };
        (rows, Writer { growth, next_batch: 0, batch_bytes: 0, rows: RowCount::default() })
    }

    /// A head of rows: constant for those before all that begin with the prefix, and for those
    /// behind.
    fn head_of_row(&self, row: &[u8]) -> u64 {
        match row.strip_prefix(&*self.prefix) {
            Some(suffix) => first_eight(suffix),
            None if row < &*self.prefix => 0,
            None => u64::MAX,
        }
    }

    /// What the rows are expected to begin with.
    #[cfg(test)]
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    fn encoding(&self, batch: u32) -> &[u8] {
        let batch = self.batches.get(batch).get();
        batch.expect("a batch is kept before its cells").encoding()
    }

    /// Returns whether there may be a row of this hash.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        self.index.may_contain(hash)
    }

    /// The row with this key and hash; 0 if there is none.
    pub(super) fn find(&self, row: &[u8], hash: u64) -> u32 {
        if !self.index.may_contain(hash) {
            return 0;
        }
        self.index.find(hash, |node| self.row(node) == row)
    }

    /// The place of the row `row` in the order.
    fn place_of_row(&self, row: &[u8]) -> Target<impl Fn(u32) -> bool> {
        Target { head: self.head_of_row(row), is_after: move |node| self.row(node) < row }
    }

    /// The first row that is not less than `row`; 0 if there is none.
    pub(super) fn first_from(&self, row: &[u8]) -> u32 {
        self.words.search(self.list, &self.place_of_row(row)).1
    }

    /// The last row less than `bound` (`None`: the last row); 0 if there is none.
    pub(super) fn last_before(&self, bound: Option<&[u8]>) -> u32 {
        match bound {
            Some(bound) => self.words.search(self.list, &self.place_of_row(bound)).0,
            None => self.words.search(self.list, &END).0,
        }
    }

    /// The first row; 0 if there is none.
    pub(super) fn first(&self) -> u32 {
        self.words.first(self.list)
    }

    /// The row, or cell of a row, after `node`; 0 if there is none.
    pub(super) fn next(&self, node: u32) -> u32 {
        self.words.next(node)
    }

    /// The key of a row.
    pub(super) fn row(&self, row: u32) -> &[u8] {
        let fields = self.words.from(row - ROW_FIELDS as u32);
        let (batch, at) = split(fields[0].load(Relaxed));
        let (len, _) = split(fields[1].load(Relaxed));
        &self.encoding(batch)[at as usize..][..len as usize]
    }

    /// Cells of a row that are walked one by one.
    pub(super) fn cells_walked(&self) -> u32 {
        self.cells_walked
    }

    /// What the places of rows in the index follow from.
    pub(super) fn seed(&self) -> u64 {
        self.index.seed()
    }

    fn cells(&self, row: u32) -> List {
        let grown = self.words.from(row - 2)[0].load(Acquire) != 0;
        List { first: row - 1, root: if grown { row - 2 } else { 0 } }
    }

    /// The first cell of a row.
    pub(super) fn first_cell(&self, row: u32) -> u32 {
        self.words.first(self.cells(row))
    }

    /// The first cell of `row`, at or after `cell` of it, whose column is not less than `column`;
    /// 0 if there is none.
    pub(super) fn cell_from(&self, row: u32, mut cell: u32, column: &Column<'_>) -> u32 {
        let head = head_of_column(column);
        let target = Target { head, is_after: |cell| self.key(cell).column < *column };
        for _ in 0..self.cells_walked {
            if cell == 0 || !self.words.is_before(cell, &target) {
                return cell;
            }
            cell = self.words.next(cell);
        }
        Mark::RowSearched.hit();
        self.words.search(self.cells(row), &target).1
    }

    /// A cell without its value.
    pub(super) fn key(&self, cell: u32) -> EntryKey<'_> {
        let fields = &self.words.from(cell - CELL_FIELDS as u32)[..CELL_FIELDS];
        let (batch, _) = split(fields[0].load(Relaxed));
        key_of(fields, self.encoding(batch))
    }

    /// A cell with its value.
    pub(super) fn entry(&self, cell: u32) -> Entry<'_> {
        let fields = &self.words.from(cell - CELL_FIELDS as u32)[..CELL_FIELDS];
        let (batch, _) = split(fields[0].load(Relaxed));
        let (value, value_len) = split(fields[1].load(Relaxed));
        let encoding = self.encoding(batch);
        key_of(fields, encoding).with_value(&encoding[value as usize..][..value_len as usize])
    }

    /// Keeps `batch`, for entries of it to be inserted.
    pub(super) fn keep<'a>(&self, writer: &mut Writer, batch: &'a FrozenBatch) -> Kept<'a> {
        let number = self.batches.reserve(&mut writer.next_batch, 1);
        let number = number.expect("a memtable is frozen long before it holds 4 billion batches");
        let kept = self.batches.get(number).set(batch.clone());
        assert!(kept.is_ok(), "a reserved place is empty");
        writer.batch_bytes += batch.encoding().len() + BATCH_BYTES;
        Kept { number, batch }
    }

    /// Adds `entry` of the kept batch to `row`, which lies in the batch, too; returns the row.
    pub(super) fn insert(
        &self,
        writer: &mut Writer,
        kept: &Kept<'_>,
        row: &[u8],
        entry: &Entry<'_>,
    ) -> u32 {
        let hash = base::checksum::xxh3(row);
        match self.find(row, hash) {
            0 => self.add_row(writer, kept, (row, hash), entry),
            found => {
                self.add_cell(writer, kept, found, entry);
                found
            }
        }
    }

    fn add_row(
        &self,
        writer: &mut Writer,
        kept: &Kept<'_>,
        (row, hash): (&[u8], u64),
        entry: &Entry<'_>,
    ) -> u32 {
        let cell = self.make_cell(writer, kept, entry);
        let target = self.place_of_row(row);
        let node = self.words.reserve_node(&mut writer.growth, ROW_FIELDS, target.head);
        let fields = [kept.place(row), join(row.len() as u32, 1), 0, u64::from(cell)];
        self.fill::<ROW_FIELDS>(node, fields);
        self.words.insert(&mut writer.growth, self.list, &target, node);
        self.index.insert(&mut writer.rows, hash, node);
        node
    }

    /// Adds `entry` of the kept batch to a row that is there.
    pub(super) fn add_cell(
        &self,
        writer: &mut Writer,
        kept: &Kept<'_>,
        row: u32,
        entry: &Entry<'_>,
    ) {
        let cell = self.make_cell(writer, kept, entry);
        let key = entry.key();
        let target = Target {
            head: self.words.head(cell),
            is_after: |cell| self.key(cell).cmp_in_row(&key).is_lt(),
        };
        self.words.insert(&mut writer.growth, self.cells(row), &target, cell);
        self.count_cell(writer, row);
    }

    /// Counts one more cell of `row`, and gives them a tree when it is time.
    fn count_cell(&self, writer: &mut Writer, row: u32) {
        let count = &self.words.from(row - ROW_FIELDS as u32)[1];
        let (len, cells) = split(count.load(Relaxed));
        let cells = cells.saturating_add(1);
        count.store(join(len, cells), Relaxed);
        if cells == self.cells_walked {
            Mark::RowGotTree.hit();
            self.words.add_tree(&mut writer.growth, List { first: row - 1, root: row - 2 });
        }
    }

    fn make_cell(&self, writer: &mut Writer, kept: &Kept<'_>, entry: &Entry<'_>) -> u32 {
        let column = &entry.column;
        let head = head_of_column(column);
        let node = self.words.reserve_node(&mut writer.growth, CELL_FIELDS, head);
        let kinds = u32::from(column.family.0) << 16 | u32::from(column.scope as u8) << 8;
        let fields = [
            kept.place(column.qualifier),
            join(kept.batch.offset_of(entry.value), entry.value.len() as u32),
            entry.timestamp.0.cast_unsigned(),
            entry.sequence.0,
            join(kinds | u32::from(entry.kind as u8), column.qualifier.len() as u32),
        ];
        self.fill::<CELL_FIELDS>(node, fields);
        node
    }

    /// Stores the fields of a node.
    fn fill<const N: usize>(&self, node: u32, fields: [u64; N]) {
        let words: &[AtomicU64] = self.words.from(node - N as u32);
        words.iter().zip(fields).for_each(|(word, field)| word.store(field, Relaxed));
    }

    /// Bytes allocated: of the batches, of the places for batches and nodes, of the index.
    pub(super) fn bytes_allocated(&self, writer: &Writer) -> usize {
        let places = Arena::<OnceLock<FrozenBatch>>::bytes_allocated(writer.next_batch);
        let in_places = writer.next_batch as usize * size_of::<OnceLock<FrozenBatch>>();
        let batches = writer.batch_bytes - in_places + places;
        batches + writer.growth.bytes_allocated() + self.index.bytes()
    }

    /// Bytes of memory in use: batches, nodes and index.
    pub(super) fn bytes_in_use(&self, writer: &Writer) -> usize {
        writer.batch_bytes + writer.growth.bytes() + self.index.bytes()
    }
}
