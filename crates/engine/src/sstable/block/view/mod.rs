//! A checked data block, read in place.
//!
//! `DataMeta::check` checks every offset, order and kind of the block once, when it enters the
//! cache; all access afterwards relies on it. Slices stay bounds-checked, so a hole in the check
//! would be a panic, never a wrong read.

mod block_check;
mod entries;

use super::packed_meta::{Seen, probable_rows};
use super::{DataMeta, Header, LargeValue, Layout, SAMPLE_EVERY};
use crate::batch::QUALIFIER_BYTES_MAX;
use crate::cell::{Column, FamilyId, Scope, SequenceNumber, Timestamp};
use crate::sstable::format::damage::{Damage, ensure};
use crate::sstable::format::ints::{self, int_at, partition, u16_at, u32_at, u64_at};
use crate::sstable::format::key_heads::{HEAD_LEN, TailForm, Target, put_suffix};
use base::memory::{prefetch, prefetch_rest};
use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;

/// A data block whose every byte was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockView<'a> {
    bytes: &'a [u8],
    meta: &'a DataMeta,
}

/// A search for one row, in stages so that several can wait for memory together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search<'k> {
    target: Target<'k>,
    /// Among these rows, or right behind them, is the first whose head is not less than the
    /// target's.
    from: usize,
    to: usize,
}

/// Rows that a walk fetches before it knows with which of them it begins.
const WALK_ROWS_REACHED: usize = 2;
/// Bytes of a tail that are copied whether it is shorter or not.
const TAIL_COPIED: usize = 64;
/// Bytes of a row's values that a walk fetches ahead.
const WALK_PREFETCH_BYTES: usize = 512;
/// Bytes of a row's values that a search fetches ahead: it may be after one column only.
const SEARCH_PREFETCH_BYTES: usize = 256;

/// Where a row's tail starts in the tails, and its values in the values, and its first entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowEntry {
    tail: usize,
    cell: usize,
    value: usize,
}

/// The value of an entry, or where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellValue<'a> {
    /// Its bytes.
    Inline(&'a [u8]),
    /// It has a block of its own.
    Large(LargeValue),
}

impl DataMeta {
    /// Checks the block in `bytes`.
    pub(crate) fn check(bytes: &[u8]) -> Result<Self, Damage> {
        let header = Header::decode(bytes)?;
        let layout = Layout::of(&header);
        ensure(layout.end == bytes.len(), 0, "the counts do not add up to the block's length")?;
        let fits = u32::try_from(bytes.len()).is_ok();
        ensure(fits, 0, "a data block of 4 GiB or more")?;
        let meta = Self::pack(&header, &layout);
        let view = BlockView::of(bytes, &meta);
        view.check_padding()?;
        view.check_dictionary()?;
        view.check_directory()?;
        view.check_value_offsets()?;
        let only_puts = view.has_only_puts();
        let seen = view.check_cells(only_puts)?;
        Ok(meta.seen(&seen, only_puts && seen.distinct))
    }
}

impl DataMeta {
    /// The block of an ingested file, whose entries' sequence number is `sequence`. It must say 0
    /// for each.
    pub(crate) fn with_sequence(self, sequence: SequenceNumber) -> Result<Self, Damage> {
        let Header { sequence_width, sequence_base, .. } = self.header();
        let zero = sequence_width == 0 && sequence_base == 0;
        ensure(zero, 40, "a sequence number in an ingested file")?;
        Ok(self.given(sequence))
    }
}

impl<'a> BlockView<'a> {
    /// The block in `bytes`, of which `meta` came from `DataMeta::check`.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8], meta: &'a DataMeta) -> Self {
        Self { bytes, meta }
    }

    /// Returns whether a reader at `snapshot` sees every entry as a cell of its own: all are puts of
    /// different cells, and none is later.
    #[inline]
    pub(crate) fn all_visible(self, snapshot: SequenceNumber) -> bool {
        self.meta.all_visible(snapshot)
    }

    /// Bytes of the block.
    pub(crate) fn len(self) -> usize {
        self.bytes.len()
    }

    /// Number of rows; at least 1.
    #[inline]
    pub(crate) fn rows(self) -> usize {
        self.meta.header().rows
    }

    /// Number of entries.
    pub(crate) fn cells(self) -> usize {
        self.meta.header().cells
    }

    /// Returns whether the first row began in an earlier block.
    #[inline]
    pub(crate) fn continued(self) -> bool {
        self.meta.header().continued
    }

    /// Returns whether the last row goes on in the next block.
    #[inline]
    pub(crate) fn continues(self) -> bool {
        self.meta.header().continues
    }

    /// The newest timestamp of any entry.
    pub(crate) fn timestamp_max(self) -> Timestamp {
        self.meta.timestamp_max()
    }

    /// Replaces `out` by the key of `row`.
    pub(crate) fn copy_row(self, row: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix());
        put_suffix(out, self.meta.header().tail_form, self.head(row), self.tail(row));
    }

    /// The same where `out` has the key of another row of this block.
    #[inline]
    pub(crate) fn replace_row(self, row: usize, out: &mut Vec<u8>) {
        out.truncate(self.meta.header().prefix_len);
        put_suffix(out, self.meta.header().tail_form, self.head(row), self.tail(row));
    }

    /// The first row not less than `key`; `rows()` if there is none.
    pub(crate) fn lower_bound(self, key: &[u8]) -> usize {
        let target = match Target::against(key, self.prefix()) {
            Ok(target) => target,
            Err(Ordering::Greater) => return self.rows(),
            Err(_) => return 0,
        };
        let window = self.window(&target);
        partition(window.start, window.end, |row| self.cmp_row(row, &target) == Ordering::Less)
    }

    /// The same for a walk that begins there: asks the processor to fetch the first rows of the walk
    /// before it compares whole keys.
    pub(crate) fn lower_bound_of_walk(self, key: &[u8]) -> usize {
        let target = match Target::against(key, self.prefix()) {
            Ok(target) => target,
            Err(Ordering::Greater) => return self.rows(),
            Err(_) => return 0,
        };
        let window = self.window(&target);
        let at = window.start + self.heads_below(window.clone(), target.head);
        (at..at + WALK_ROWS_REACHED).for_each(|row| self.reach_row(row));
        // Heads that tie lie one after the other.
        partition(at, window.end, |row| self.cmp_row(row, &target) == Ordering::Less)
    }

    /// The rows among which the first not less than the target lies, or behind them.
    fn window(self, target: &Target<'_>) -> Range<usize> {
        let samples = self.rows().div_ceil(SAMPLE_EVERY);
        let column = &self.bytes[self.meta.layout().samples..][..8 * samples];
        let sample = |index| u64_at(column, 8 * index);
        let before = ints::lower_bound(column, target.head);
        let from = before.saturating_sub(1) * SAMPLE_EVERY;
        // Usually the next sample is larger; among equal heads the border may lie further on.
        let ties = before < samples && sample(before) == target.head;
        let after = match ties {
            true => partition(before, samples, |index| sample(index) <= target.head),
            false => before,
        };
        from..(after * SAMPLE_EVERY).min(self.rows())
    }

    /// Asks the processor to fetch what says where the bytes of each row lie.
    pub(crate) fn reach_directory(self) {
        let bytes = self.directory(self.rows() + 1) - self.directory(0);
        prefetch(self.bytes.as_ptr().wrapping_add(self.directory(0)), bytes);
    }

    /// Returns the number of `rows` that come before `limit`.
    pub(crate) fn rows_before(self, rows: Range<usize>, limit: &[u8]) -> usize {
        let target = match Target::against(limit, self.prefix()) {
            Ok(target) => target,
            Err(Ordering::Greater) => return rows.len(),
            Err(_) => return 0,
        };
        let before = |row| self.cmp_row(row, &target) == Ordering::Less;
        // Mostly all of them or none.
        match rows.clone().next_back() {
            None => 0,
            Some(last) if before(last) => rows.len(),
            Some(_) if !before(rows.start) => 0,
            Some(_) => partition(rows.start, rows.end, before) - rows.start,
        }
    }

    /// Asks the processor to fetch what a walk over rows looks at of `row`: its tail, the columns
    /// of its entries, and the beginning of its values.
    #[inline]
    pub(crate) fn reach_row(self, row: usize) {
        self.reach(row, WALK_PREFETCH_BYTES);
    }

    /// The same, up to so many bytes of the values.
    #[inline]
    fn reach(self, row: usize, value_bytes_max: usize) {
        if row >= self.rows() {
            return;
        }
        let Layout { tails, values, ids, .. } = self.meta.layout();
        let start = self.bytes.as_ptr();
        let (from, to) = (self.entry(row), self.entry(row + 1));
        if self.meta.header().columns > 1 {
            prefetch(start.wrapping_add(ids + from.cell), 1);
        }
        prefetch(start.wrapping_add(tails + from.tail), (to.tail - from.tail).min(64));
        let value_bytes = (to.value - from.value).min(value_bytes_max);
        prefetch(start.wrapping_add(values + from.value), value_bytes);
    }

    /// The same of all bytes of rows from `from` up to `to`, for whoever asked for the row before
    /// them.
    #[inline(always)]
    pub(crate) fn reach_on(self, from: RowEntry, to: RowEntry) {
        let Layout { tails, values, ids, .. } = self.meta.layout();
        let start = self.bytes.as_ptr();
        if self.meta.header().columns > 1 {
            prefetch(start.wrapping_add(ids + from.cell), 1);
        }
        prefetch_rest(start.wrapping_add(tails + from.tail), to.tail - from.tail);
        let value_bytes = (to.value - from.value).min(WALK_PREFETCH_BYTES);
        prefetch_rest(start.wrapping_add(values + from.value), value_bytes);
    }

    /// Puts the suffix of a row, whose bytes go from `from` to `to`, behind the block's prefix, which
    /// `key` begins with, and gives the length of the row's key. What follows in `key` is arbitrary.
    #[inline]
    pub(crate) fn put_row(
        self,
        row: usize,
        (from, to): (RowEntry, RowEntry),
        key: &mut Vec<u8>,
    ) -> usize {
        let Header { prefix_len, tail_form, .. } = self.meta.header();
        let (head, tail, len) = (self.head(row), from.tail, to.tail - from.tail);
        let room = prefix_len + HEAD_LEN + TAIL_COPIED;
        // The common form, in two writes of known length.
        if tail_form == TailForm::Plain
            && len <= TAIL_COPIED
            && let Some((copied, _)) =
                self.bytes[self.meta.layout().tails + tail..].split_first_chunk::<TAIL_COPIED>()
        {
            if key.len() < room {
                key.resize(room, 0);
            }
            let suffix = &mut key[prefix_len..room];
            suffix[..HEAD_LEN].copy_from_slice(&head.to_be_bytes());
            suffix[HEAD_LEN..].copy_from_slice(copied);
            return prefix_len + HEAD_LEN + len;
        }
        key.truncate(prefix_len);
        put_suffix(key, tail_form, head, self.tail(row));
        key.len()
    }

    /// The values of the rows from `from` up to `to`, one after the other.
    #[inline(always)]
    pub(crate) fn values_between(self, from: RowEntry, to: RowEntry) -> &'a [u8] {
        let start = self.meta.layout().values;
        &self.bytes[start + from.value..start + to.value]
    }

    /// Of a block whose rows have one entry each, all of one column: its family, and which part of
    /// the block its qualifier is.
    pub(crate) fn narrow(self) -> Option<(FamilyId, Range<usize>)> {
        let header = self.meta.header();
        (header.cells == header.rows && header.columns == 1).then(|| {
            let Column { family, qualifier, .. } = self.column(0);
            let end = self.meta.layout().dictionary + self.dictionary_offset(1);
            (family, end - qualifier.len()..end)
        })
    }

    /// A part of the block.
    #[inline]
    pub(crate) fn part(self, range: &Range<usize>) -> &'a [u8] {
        &self.bytes[range.clone()]
    }

    /// Replaces `key` by the prefix that all rows have.
    pub(crate) fn copy_prefix(self, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix());
    }

    /// Begins a search for exactly `key`: by the samples, or if it is known at which `fraction` of
    /// the rows it probably lies, without them. Asks the processor to fetch the part of the
    /// directory that is searched next. `None` if the block cannot have the key.
    #[inline]
    pub(crate) fn search<'k>(self, key: &'k [u8], fraction: Option<u32>) -> Option<Search<'k>> {
        let target = Target::against(key, self.prefix()).ok()?;
        let probable = fraction.map(|fraction| probable_rows(self.rows(), fraction));
        let within = probable.filter(|Range { start, end }| {
            (*start == 0 || self.head(start - 1) < target.head)
                && (*end == self.rows() || self.head(*end) >= target.head)
        });
        let Range { start: from, end: to } = within.unwrap_or_else(|| {
            let window = self.window(&target);
            let start = self.directory(window.start);
            prefetch(&raw const self.bytes[start], self.directory(window.end) - start);
            window
        });
        Some(Search { target, from, to })
    }

    /// Goes on with a search: finds the first row with the key's head; asks the processor to fetch
    /// what decides whether it is the one, and the beginning of its values.
    #[inline]
    pub(crate) fn search_heads(self, search: &mut Search<'_>) {
        let row = search.from + self.heads_below(search.from..search.to, search.target.head);
        (search.from, search.to) = (row, row);
        if row < self.rows() && self.head(row) == search.target.head {
            self.reach(row, SEARCH_PREFETCH_BYTES);
        }
    }

    /// Ends a search: the row with the key, if there is one.
    #[inline]
    pub(crate) fn found(self, search: &Search<'_>) -> Option<usize> {
        let Search { target, from, .. } = search;
        // Rows whose heads are that of the key lie next to each other; almost always there is one.
        for row in *from..self.rows() {
            if self.head(row) != target.head {
                return None;
            }
            match target.cmp_key(self.meta.header().tail_form, target.head, self.tail(row)) {
                Ordering::Less => {}
                Ordering::Equal => return Some(row),
                Ordering::Greater => return None,
            }
        }
        None
    }

    /// Returns the number of rows of `window` that have a head less than `head`. Without branches on
    /// what it finds, since a search of random keys mispredicts half of them.
    #[inline]
    fn heads_below(self, window: Range<usize>, head: u64) -> usize {
        let (mut from, mut len) = (window.start, window.len());
        while len > 1 {
            let half = len / 2;
            let less = self.head(from + half - 1) < head;
            from = select_unpredictable(less, from + half, from);
            len -= half;
        }
        from + usize::from(len == 1 && self.head(from) < head) - window.start
    }

    /// Returns whether `row` has the key `key`.
    pub(crate) fn row_is(self, row: usize, key: &[u8]) -> bool {
        Target::against(key, self.prefix())
            .is_ok_and(|target| self.cmp_row(row, &target) == Ordering::Equal)
    }

    fn prefix(self) -> &'a [u8] {
        &self.bytes[super::HEADER_LEN..super::HEADER_LEN + self.meta.header().prefix_len]
    }

    fn cmp_row(self, row: usize, target: &Target<'_>) -> Ordering {
        let head = self.head(row);
        // The tail is on another cache line, so it is fetched only when it matters.
        match head.cmp(&target.head) {
            Ordering::Equal => target.cmp_key(self.meta.header().tail_form, head, self.tail(row)),
            order => order,
        }
    }

    #[inline]
    fn directory(self, row: usize) -> usize {
        self.meta.layout().directory + row * self.meta.layout().directory_stride
    }

    #[inline]
    fn head(self, row: usize) -> u64 {
        u64_at(self.bytes, self.directory(row))
    }

    /// What the directory says of a row; of the row behind the last, where that would begin.
    #[inline(always)]
    pub(crate) fn entry(self, row: usize) -> RowEntry {
        let bytes = &self.bytes[self.directory(row)..];
        let numbers = &bytes[HEAD_LEN..self.meta.layout().directory_stride];
        match numbers.len() {
            8 => RowEntry {
                tail: u16_at(numbers, 0).into(),
                cell: u16_at(numbers, 2).into(),
                value: u32_at(numbers, 4) as usize,
            },
            _ => RowEntry {
                tail: u32_at(numbers, 0) as usize,
                cell: u32_at(numbers, 4) as usize,
                value: u32_at(numbers, 8) as usize,
            },
        }
    }

    #[inline]
    fn tail_start(self, row: usize) -> usize {
        self.entry(row).tail
    }

    #[inline]
    fn tail(self, row: usize) -> &'a [u8] {
        let start = self.meta.layout().tails;
        &self.bytes[start + self.tail_start(row)..start + self.tail_start(row + 1)]
    }

    #[inline]
    fn cell_start(self, row: usize) -> usize {
        self.entry(row).cell
    }

    /// Where the values of a row start, in the values.
    #[inline]
    fn row_value_start(self, row: usize) -> usize {
        self.entry(row).value
    }

    #[inline]
    fn dictionary_offset(self, id: usize) -> usize {
        let Layout { dictionary_offset_width, dictionary_offsets, .. } = self.meta.layout();
        int_at(self.bytes, dictionary_offsets, dictionary_offset_width, id) as usize
    }

    #[inline]
    fn dictionary_entry(self, id: usize) -> &'a [u8] {
        let start = self.meta.layout().dictionary;
        &self.bytes[start + self.dictionary_offset(id)..start + self.dictionary_offset(id + 1)]
    }
}

/// The column in a dictionary entry; `None` if family, scope and qualifier do not go together.
pub(crate) fn decode_column(bytes: &[u8]) -> Option<Column<'_>> {
    let column = split_column(bytes)?;
    let fits = (column.scope == Scope::Row) == (column.family == FamilyId::ROW)
        && (column.scope == Scope::Column || column.qualifier.is_empty())
        && column.qualifier.len() <= QUALIFIER_BYTES_MAX;
    fits.then_some(column)
}

/// The parts of a dictionary entry, which may not go together.
#[inline]
fn split_column(bytes: &[u8]) -> Option<Column<'_>> {
    let (&[family_low, family_high, scope], qualifier) = bytes.split_first_chunk::<3>()?;
    let family = FamilyId(u16::from_le_bytes([family_low, family_high]));
    Some(Column { family, scope: Scope::from_byte(scope)?, qualifier })
}
