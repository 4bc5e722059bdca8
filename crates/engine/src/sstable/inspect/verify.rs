//! Reads a whole SSTable and checks all that single blocks cannot know: that rows go on in order
//! from block to block, that properties, index and filter tell the truth, and that blocks cover
//! every byte of the file once.
//!
//! Damage does not end the check: what comes after it is checked by itself. Counts and bounds of
//! the whole are compared only where all of it was read.

use super::last_key::LastKey;
use crate::cache::{CacheFeatures, CacheFill, Hint};
use crate::cell::{EntryKey, Kind, Scope, SequenceNumber, Timestamp};
use crate::error::{Error, Result};
use crate::request::RowRange;
use crate::sstable::block::{BlockView, CellValue};
use crate::sstable::format::ages::Ages;
use crate::sstable::format::{FOOTER_LEN, Handle};
use crate::sstable::index::IndexPartition;
use crate::sstable::read::typed_refs::IndexRef;
use crate::sstable::{BlockCache, FilterQuery, SstReader};
use std::collections::BTreeSet;

impl SstReader {
    /// Reads the whole file from disk, whatever is cached, and checks everything there is to
    /// check. Takes as long as reading the file does. The error is the first that was found.
    pub fn verify(&self) -> Result<()> {
        let mut first = None;
        self.verify_all(&mut |error| first = first.take().or(Some(error)), &mut |_| ());
        first.map_or(Ok(()), Err)
    }

    /// As `verify`, and goes on after what it finds: `found` is called with every error, one of
    /// each block at most, and `read` with the bytes of the file read so far.
    pub fn verify_all(&self, found: &mut dyn FnMut(Error), read: &mut dyn FnMut(u64)) {
        let cache = BlockCache::new(2 << 20, CacheFeatures::PASSING);
        match self.reopen(cache) {
            Ok(apart) => Check::new(&apart, found).run(read),
            Err(error) => found(error),
        }
    }
}

/// State of the check of a file.
struct Check<'a> {
    sst: &'a SstReader,
    found: &'a mut dyn FnMut(Error),
    /// Everything so far could be read, so that counts and bounds mean something.
    whole: bool,
    /// Filters that cannot be read; found once and not asked again.
    bad_filters: BTreeSet<usize>,
    /// The last row, the key of its last entry, and whether it goes on. `None` right after
    /// something that could not be read, and before the first.
    row: Vec<u8>,
    last: Option<LastKey>,
    continues: bool,
    rows: u64,
    entries: u64,
    tombstones: u64,
    ages: Ages,
    large_values: u64,
    raw_bytes: u64,
    sequences: (SequenceNumber, SequenceNumber),
    timestamps: (Timestamp, Timestamp),
    extents: Vec<Handle>,
}

impl<'a> Check<'a> {
    fn new(sst: &'a SstReader, found: &'a mut dyn FnMut(Error)) -> Self {
        let mut extents = vec![sst.footer.top_index, sst.footer.properties];
        extents.extend(sst.footer.range_tombstones);
        let dropped = sst.range_tombstones().iter().map(|range| range.sequence);
        let none = (SequenceNumber::MAX, SequenceNumber(0));
        let sequences = dropped.fold(none, |(min, max), at| (min.min(at), max.max(at)));
        Self {
            sst,
            found,
            whole: true,
            bad_filters: BTreeSet::new(),
            row: Vec::new(),
            last: None,
            continues: false,
            rows: 0,
            entries: 0,
            tombstones: 0,
            ages: Ages::default(),
            large_values: 0,
            raw_bytes: 0,
            sequences,
            timestamps: (Timestamp::MAX, Timestamp::MIN),
            extents,
        }
    }

    fn run(mut self, read: &mut dyn FnMut(u64)) {
        self.header().unwrap_or_else(|error| (self.found)(error));
        let partitions = self.sst.top.partitions();
        for (at, partition) in partitions.iter().enumerate() {
            self.extents.extend(partition.filter);
            self.extents.push(partition.index);
            if let Err(error) = self.sst.filter(at, CacheFill::Bypass) {
                (self.found)(error);
                self.bad_filters.insert(at);
            }
        }
        for at in 0..partitions.len() {
            match self.sst.index(at, CacheFill::Bypass) {
                Ok(index) => self.partition(&index, read),
                Err(error) => self.unread(error),
            }
        }
        if self.whole {
            self.finish().unwrap_or_else(|error| (self.found)(error));
        }
        read(self.sst.bytes());
    }

    /// Checks that the header is sound, which no read needs, and agrees with the footer.
    fn header(&self) -> Result<()> {
        let source = &self.sst.source;
        match self.sst.footer.identity {
            Some(identity) if source.read_header()? != identity => {
                Err(source.corruption(0, "another identity than in the footer"))
            }
            _ => Ok(()),
        }
    }

    fn partition(&mut self, index: &IndexRef, read: &mut dyn FnMut(u64)) {
        for block in 0..index.view().blocks() {
            let handle = index.view().handle(block);
            self.extents.push(handle);
            match self.sst.data(index, block, CacheFill::Bypass) {
                Ok(data) => {
                    let checked = self.block(index.view(), block, data.view());
                    checked.unwrap_or_else(|error| (self.found)(error));
                }
                Err(error) => self.unread(error),
            }
            read(handle.end().unwrap_or(0));
        }
    }

    /// Notes that a block or a partition cannot be read. What comes next is held against nothing.
    fn unread(&mut self, error: Error) {
        (self.found)(error);
        self.whole = false;
        self.last = None;
    }

    /// Checks a block. The first that is wrong in it is the error; the rest of it is counted.
    fn block(
        &mut self,
        index: IndexPartition<'_>,
        block: usize,
        view: BlockView<'_>,
    ) -> Result<()> {
        let handle = index.handle(block);
        let mut checked = Ok(());
        let mut note = |outcome: Result<()>| {
            if checked.is_ok() {
                checked = outcome;
            }
        };
        let (before_is_known, at_start) = (self.last.is_some(), self.entries == 0 && self.whole);
        if (before_is_known || at_start) && view.continued() != self.continues {
            let what = "a row continues where the block before it does not, or the reverse";
            note(Err(self.sst.source.corruption(handle.offset, what)));
        }
        let mut row = Vec::new();
        for at in 0..view.rows() {
            view.copy_row(at, &mut row);
            let goes_on = at == 0 && view.continued();
            note(self.row_comes_next(handle, view, at, &row, goes_on));
            self.rows += u64::from(!goes_on);
            std::mem::swap(&mut self.row, &mut row);
            if !goes_on {
                note(self.prefix_is_known(handle, index, block));
            }
            for cell in view.cells_of(at) {
                note(self.entry(handle, view, cell));
            }
            let last = view.key(view.cells_of(at).end - 1);
            self.last = Some(LastKey::of(&last));
        }
        self.continues = view.continues();
        checked
    }

    /// Returns whether row `at` of the block comes after all before it, as far as they were read.
    fn row_comes_next(
        &self,
        handle: Handle,
        view: BlockView<'_>,
        at: usize,
        row: &[u8],
        goes_on: bool,
    ) -> Result<()> {
        let ordered = match &self.last {
            Some(last) if goes_on => {
                let first = view.key(view.cells_of(at).start);
                row == self.row && last.get().cmp_in_row(&first).is_lt()
            }
            Some(_) => self.row.as_slice() < row,
            None if self.whole => !goes_on,
            None => self.row.as_slice() <= row,
        };
        if ordered {
            return Ok(());
        }
        let what = "rows or entries out of order between blocks";
        Err(self.sst.source.corruption(handle.offset, what))
    }

    /// Returns whether filter and prefix index know the prefix of the current row, which begins in
    /// `block`.
    fn prefix_is_known(
        &self,
        handle: Handle,
        index: IndexPartition<'_>,
        block: usize,
    ) -> Result<()> {
        let (sst, row) = (self.sst, self.row.as_slice());
        let len = usize::from(sst.properties().row_prefix_bytes);
        let Some(prefix) = row.get(..len).filter(|prefix| !prefix.is_empty()) else {
            return Ok(());
        };
        let indexed = !sst.footer.prefix_index
            || index.row_prefix_len().is_some() && index.prefix_index_knows(row, block);
        let rows = RowRange::single(row);
        let knows = || -> Result<bool> {
            Ok(sst.filter_says(&rows, &FilterQuery::prefix(prefix))? != Some(false))
        };
        if indexed && (self.filter_is_bad() || knows()?) {
            return Ok(());
        }
        let what = "the filter or the prefix index does not know the prefix of a row";
        Err(sst.source.corruption(handle.offset, what))
    }

    /// Returns whether the filter of the current row is one that cannot be read.
    fn filter_is_bad(&self) -> bool {
        let partition = self.sst.top.partition_of(&self.row);
        partition.is_some_and(|partition| self.bad_filters.contains(&partition))
    }

    fn entry(&mut self, block: Handle, view: BlockView<'_>, cell: usize) -> Result<()> {
        let key = view.key(cell);
        self.entries += 1;
        self.tombstones += u64::from(key.kind == Kind::Tombstone);
        self.ages.add(&key);
        let (min, max) = self.sequences;
        self.sequences = (min.min(key.sequence), max.max(key.sequence));
        let (min, max) = self.timestamps;
        self.timestamps = (min.min(key.timestamp), max.max(key.timestamp));
        self.raw_bytes += (self.row.len() + key.column.qualifier.len()) as u64;
        match view.value(cell) {
            CellValue::Inline(value) => self.raw_bytes += value.len() as u64,
            CellValue::Large(large) => {
                self.raw_bytes += u64::from(large.len);
                self.extents.push(large.handle);
                self.large_values += 1;
                self.sst.large_value(large, &Hint::default(), CacheFill::Bypass)?;
            }
        }
        if self.filter_is_bad() || self.filter_knows(&key)? {
            return Ok(());
        }
        let what = format!("the filter does not know row {}", self.row.escape_ascii());
        Err(self.sst.source.corruption(block.offset, what))
    }

    /// Returns whether the filter says what it must of an entry of the current row: nothing that a read
    /// may ask on its way to the entry is denied.
    fn filter_knows(&self, key: &EntryKey<'_>) -> Result<bool> {
        let (sst, row, column) = (self.sst, &self.row, &key.column);
        let of_row = FilterQuery::row(row);
        let of_family = FilterQuery::family(row, column.family);
        let of_column = FilterQuery::column(row, column.family, column.qualifier);
        let asked: &[FilterQuery<'_>] = match column.scope {
            Scope::Row => &[of_row],
            Scope::Family => &[of_row, of_family],
            Scope::Column => &[of_row, of_family, of_column],
        };
        for query in asked {
            let tombstone = key.kind != Kind::Tombstone || sst.may_have_tombstone(query)?;
            if !tombstone || !sst.may_contain(query)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        let properties = self.sst.properties();
        let at = self.sst.footer.properties.offset;
        let fail = |what: String| Err(self.sst.source.corruption(at, what));
        if self.continues {
            return fail("the last row continues after the last block".into());
        }
        for (what, told, found) in [
            ("rows", properties.rows, self.rows),
            ("entries", properties.entries, self.entries),
            ("tombstones", properties.tombstones, self.tombstones),
            ("large values", properties.large_values, self.large_values),
            ("bytes of rows, qualifiers and values", properties.raw_bytes, self.raw_bytes),
        ] {
            if told != found {
                return fail(format!("properties state {told} {what}, but there are {found}"));
            }
        }
        if properties.ages.as_ref().is_some_and(|ages| *ages != self.ages) {
            return fail("properties state wrong ages of cells".into());
        }
        let bounds = properties.last_row == self.row
            && (properties.timestamp_min, properties.timestamp_max) == self.timestamps;
        // A file without anything at all has the range 0..=0.
        let empty = properties.entries == 0 && properties.range_tombstones == 0;
        let sequences = (properties.sequence_min, properties.sequence_max) == self.sequences;
        if !bounds || !(empty || sequences) {
            return fail("properties state wrong bounds".into());
        }
        self.extents.sort_by_key(|handle| handle.offset);
        let mut end = self.sst.source.frames.blocks_start();
        for handle in &self.extents {
            if handle.offset != end {
                return Err(self.sst.source.corruption(end, "bytes in no block or in two"));
            }
            end = handle.end().unwrap_or(u64::MAX);
        }
        if end != self.sst.bytes() - FOOTER_LEN as u64 {
            return Err(self.sst.source.corruption(end, "bytes in no block before the footer"));
        }
        Ok(())
    }
}
