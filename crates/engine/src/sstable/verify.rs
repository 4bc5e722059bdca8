//! Reads a whole SSTable and checks all that single blocks cannot know: that rows go on in order
//! from block to block, that properties, index and filter tell the truth, and that blocks cover
//! every byte of the file once. And shows a file as text.

use super::block::{BlockView, CellValue};
use super::format::{FOOTER_LEN, Handle};
use super::index::IndexPartition;
use super::last_key::LastKey;
use super::{BlockCache, FilterQuery, SstReader};
use crate::cache::CacheFeatures;
use crate::cache::CacheFill;
use crate::cell::{EntryKey, Kind, Scope, SequenceNumber, Timestamp};
use crate::error::{Error, Result};
use crate::request::RowRange;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Values are shown up to this many bytes.
const SHOWN_BYTES: usize = 64;

impl SstReader {
    /// Reads the whole file from disk, whatever is cached, and checks everything there is to
    /// check. Takes as long as reading the file does.
    pub fn verify(&self) -> Result<()> {
        let apart = self.reopen(BlockCache::new(2 << 20, CacheFeatures::PASSING))?;
        let mut check = Check::new(&apart);
        for (at, partition) in apart.top.partitions().iter().enumerate() {
            let index = apart.index(at, CacheFill::Bypass)?;
            check.extents.extend(partition.filter);
            check.extents.push(partition.index);
            apart.filter(at, CacheFill::Bypass)?;
            for block in 0..index.view().blocks() {
                let data = apart.data(&index, block, CacheFill::Bypass)?;
                check.block(index.view(), block, data.view())?;
            }
        }
        check.finish()
    }

    /// Writes the file as text: its frame, properties, and every block with its entries; long
    /// values are cut.
    pub fn dump(self: &Arc<Self>, out: &mut dyn io::Write) -> Result<()> {
        let write = |error: io::Error| Error::io("write", Path::new("the output"), &error);
        writeln!(out, "{}: {} bytes", self.path().display(), self.bytes()).map_err(write)?;
        writeln!(out, "{:#?}\n{:#?}", self.footer, self.properties()).map_err(write)?;
        for range in self.range_tombstones() {
            let end = range.end.as_ref().map(|end| end.escape_ascii().to_string());
            let (start, end) = (range.start.escape_ascii(), end.unwrap_or("end".into()));
            writeln!(out, "dropped [{start}, {end}) #{}", range.sequence.0).map_err(write)?;
        }
        for (at, partition) in self.top.partitions().iter().enumerate() {
            let (index_at, filter) = (partition.index, partition.filter);
            writeln!(out, "partition {at}: index {index_at:?}, filter {filter:?}")
                .map_err(write)?;
            let index = self.index(at, CacheFill::Bypass)?;
            for block in 0..index.view().blocks() {
                let data = self.data(&index, block, CacheFill::Bypass)?;
                let handle = index.view().handle(block);
                dump_block(handle, data.view(), out).map_err(write)?;
            }
        }
        Ok(())
    }
}

fn dump_block(handle: Handle, view: BlockView<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let (offset, stored, raw) = (handle.offset, handle.len, view.len());
    let (continued, continues) = (view.continued(), view.continues());
    writeln!(
        out,
        "block at {offset}: {stored} bytes stored, {raw} raw, {} rows, continued {continued}, \
         continues {continues}",
        view.rows()
    )?;
    let mut row = Vec::new();
    for at in 0..view.rows() {
        view.copy_row(at, &mut row);
        writeln!(out, "  row {}", row.escape_ascii())?;
        for cell in view.cells_of(at) {
            let key = view.key(cell);
            write!(
                out,
                "    {}:{} {:?} {:?} @{} #{} ",
                key.column.family.0,
                key.column.qualifier.escape_ascii(),
                key.column.scope,
                key.kind,
                key.timestamp.0,
                key.sequence.0
            )?;
            match view.value(cell) {
                CellValue::Inline(value) if value.len() <= SHOWN_BYTES => {
                    writeln!(out, "= {}", value.escape_ascii())?;
                }
                CellValue::Inline(value) => {
                    let shown = value[..SHOWN_BYTES].escape_ascii();
                    writeln!(out, "= {shown}... ({} bytes)", value.len())?;
                }
                CellValue::Large(large) => {
                    writeln!(out, "at {} ({} bytes)", large.handle.offset, large.len)?;
                }
            }
        }
    }
    Ok(())
}

/// What is known of the file up to where the check stands.
struct Check<'a> {
    sst: &'a SstReader,
    /// The last row, the key of its last entry, and whether it goes on.
    row: Vec<u8>,
    last: Option<LastKey>,
    continues: bool,
    rows: u64,
    entries: u64,
    tombstones: u64,
    large_values: u64,
    sequences: (SequenceNumber, SequenceNumber),
    timestamps: (Timestamp, Timestamp),
    extents: Vec<Handle>,
}

impl<'a> Check<'a> {
    fn new(sst: &'a SstReader) -> Self {
        let mut extents = vec![sst.footer.top_index, sst.footer.properties];
        extents.extend(sst.footer.range_tombstones);
        let dropped = sst.range_tombstones().iter().map(|range| range.sequence);
        let none = (SequenceNumber::MAX, SequenceNumber(0));
        let sequences = dropped.fold(none, |(min, max), at| (min.min(at), max.max(at)));
        Self {
            sst,
            row: Vec::new(),
            last: None,
            continues: false,
            rows: 0,
            entries: 0,
            tombstones: 0,
            large_values: 0,
            sequences,
            timestamps: (Timestamp::MAX, Timestamp::MIN),
            extents,
        }
    }

    fn block(
        &mut self,
        index: IndexPartition<'_>,
        block: usize,
        view: BlockView<'_>,
    ) -> Result<()> {
        let handle = index.handle(block);
        self.extents.push(handle);
        let fail = |what| Err(self.sst.source.corruption(handle.offset, what));
        if view.continued() != self.continues {
            return fail("a row continues where the block before it does not, or the reverse");
        }
        let mut row = Vec::new();
        for at in 0..view.rows() {
            view.copy_row(at, &mut row);
            let goes_on = at == 0 && view.continued();
            let ordered = match &self.last {
                Some(last) if goes_on => {
                    let first = view.key(view.cells_of(at).start);
                    row == self.row && last.get().cmp_in_row(&first).is_lt()
                }
                Some(_) => self.row < row,
                None => !goes_on,
            };
            if !ordered {
                return fail("rows or entries out of order between blocks");
            }
            self.rows += u64::from(!goes_on);
            std::mem::swap(&mut self.row, &mut row);
            if !goes_on && !self.prefix_is_known(index, block)? {
                return fail("the filter or the prefix index does not know the prefix of a row");
            }
            for cell in view.cells_of(at) {
                self.entry(handle, view, cell)?;
            }
            let last = view.key(view.cells_of(at).end - 1);
            self.last = Some(LastKey::of(&last));
        }
        self.continues = view.continues();
        Ok(())
    }

    /// Whether filter and prefix index know the prefix of the current row, which begins in `block`.
    fn prefix_is_known(&self, index: IndexPartition<'_>, block: usize) -> Result<bool> {
        let (sst, row) = (self.sst, self.row.as_slice());
        let len = usize::from(sst.properties().row_prefix_bytes);
        let Some(prefix) = row.get(..len).filter(|prefix| !prefix.is_empty()) else {
            return Ok(true);
        };
        if sst.footer.prefix_index {
            let has_index = index.row_prefix_len().is_some();
            if !has_index || !index.prefix_index_knows(row, block) {
                return Ok(false);
            }
        }
        let rows = RowRange::single(row);
        Ok(sst.filter_says(&rows, &FilterQuery::prefix(prefix))? != Some(false))
    }

    fn entry(&mut self, block: Handle, view: BlockView<'_>, cell: usize) -> Result<()> {
        let key = view.key(cell);
        self.entries += 1;
        self.tombstones += u64::from(key.kind == Kind::Tombstone);
        let (min, max) = self.sequences;
        self.sequences = (min.min(key.sequence), max.max(key.sequence));
        let (min, max) = self.timestamps;
        self.timestamps = (min.min(key.timestamp), max.max(key.timestamp));
        if let CellValue::Large(large) = view.value(cell) {
            self.sst.large_value(large, CacheFill::Bypass)?;
            self.extents.push(large.handle);
            self.large_values += 1;
        }
        if self.filter_knows(&key)? {
            return Ok(());
        }
        let what = format!("the filter does not know row {}", self.row.escape_ascii());
        Err(self.sst.source.corruption(block.offset, what))
    }

    /// Whether the filter says what it must of an entry of the current row.
    fn filter_knows(&self, key: &EntryKey<'_>) -> Result<bool> {
        let (sst, row, column) = (self.sst, &self.row, &key.column);
        let query = match column.scope {
            Scope::Row => FilterQuery::row(row),
            Scope::Family => FilterQuery::family(row, column.family),
            Scope::Column => FilterQuery::column(row, column.family, column.qualifier),
        };
        let knows_tombstone = key.kind != Kind::Tombstone || sst.may_have_tombstone(&query)?;
        Ok(knows_tombstone && sst.may_contain(&query)?)
    }

    fn finish(mut self) -> Result<()> {
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
        ] {
            if told != found {
                return fail(format!("properties tell of {told} {what}, there are {found}"));
            }
        }
        let bounds = properties.last_row == self.row
            && (properties.timestamp_min, properties.timestamp_max) == self.timestamps;
        // A file without anything at all has the range 0..=0.
        let empty = properties.entries == 0 && properties.range_tombstones == 0;
        let sequences = (properties.sequence_min, properties.sequence_max) == self.sequences;
        if !bounds || !(empty || sequences) {
            return fail("properties tell of other bounds than there are".into());
        }
        self.extents.sort_by_key(|handle| handle.offset);
        let mut end = 0;
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
