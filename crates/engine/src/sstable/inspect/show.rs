//! Shows an SSTable as text.

use crate::cache::CacheFill;
use crate::cell::TreeId;
use crate::error::{Error, Result};
use crate::request::RowRange;
use crate::sstable::SstReader;
use crate::sstable::block::{BlockView, CellValue};
use crate::sstable::format::Handle;
use crate::sstable::read::typed_refs::IndexRef;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What of a file is shown.
#[derive(Debug, Clone)]
pub struct DumpOptions {
    /// Only this tree, of manifests and logs; an SSTable is of one tree anyway.
    pub tree: Option<TreeId>,
    /// Only these rows, of SSTables and logs.
    pub rows: RowRange,
    /// True if entries are shown, or only what leads to them.
    pub entries: bool,
    /// Values are shown up to this many bytes.
    pub value_bytes_max: usize,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self { tree: None, rows: RowRange::ALL, entries: true, value_bytes_max: 64 }
    }
}

impl DumpOptions {
    /// A value as it is shown.
    pub(crate) fn value(&self, value: &[u8]) -> String {
        match value.len() {
            len if len <= self.value_bytes_max => value.escape_ascii().to_string(),
            len => format!("{}... ({len} bytes)", value[..self.value_bytes_max].escape_ascii()),
        }
    }

    pub(crate) fn wants(&self, tree: Option<TreeId>) -> bool {
        self.tree.is_none() || tree.is_none() || tree == self.tree
    }
}

impl SstReader {
    /// Writes the file as text: its frame, properties, range tombstones, index, and every block
    /// with its entries, as far as `options` want them. Values are cut.
    pub fn dump(self: &Arc<Self>, options: &DumpOptions, out: &mut dyn io::Write) -> Result<()> {
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
            let (row, blocks) = (partition.row.escape_ascii(), partition.blocks);
            writeln!(
                out,
                "partition {at}: from row {row}, {blocks} blocks, index {index_at:?}, filter {filter:?}"
            )
            .map_err(write)?;
            let index = self.index(at, CacheFill::Bypass)?;
            for block in 0..index.view().blocks() {
                if self.has_rows_of(at, &index, block, &options.rows) {
                    self.dump_block(&index, block, options, out)?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether a block may have rows in `rows`, by the first rows of it and of the one after it.
    fn has_rows_of(
        &self,
        partition: usize,
        index: &IndexRef,
        block: usize,
        rows: &RowRange,
    ) -> bool {
        let index = index.view();
        let mut row = Vec::new();
        index.copy_row(block, &mut row);
        let begins_before_end = rows.end.as_ref().is_none_or(|end| row < *end);
        let next = if block + 1 < index.blocks() {
            index.copy_row(block + 1, &mut row);
            Some(&row)
        } else {
            self.top.partitions().get(partition + 1).map(|next| &next.row)
        };
        begins_before_end && next.is_none_or(|next| *next >= rows.start)
    }

    fn dump_block(
        &self,
        index: &IndexRef,
        block: usize,
        options: &DumpOptions,
        out: &mut dyn io::Write,
    ) -> Result<()> {
        let write = |error: io::Error| Error::io("write", Path::new("the output"), &error);
        let handle = index.view().handle(block);
        if options.entries {
            let data = self.data(index, block, CacheFill::Bypass)?;
            return show_block(handle, data.view(), options, out).map_err(write);
        }
        let mut row = Vec::new();
        index.view().copy_row(block, &mut row);
        let (row, newest) = (row.escape_ascii(), index.view().timestamp_max(block).0);
        let Handle { offset, len } = handle;
        writeln!(out, "block at {offset}: {len} bytes stored, from row {row}, newest @{newest}")
            .map_err(write)
    }
}

fn show_block(
    handle: Handle,
    view: BlockView<'_>,
    options: &DumpOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
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
        if !options.rows.contains(&row) {
            continue;
        }
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
                CellValue::Inline(value) => writeln!(out, "= {}", options.value(value))?,
                CellValue::Large(large) => {
                    writeln!(out, "at {} ({} bytes)", large.handle.offset, large.len)?;
                }
            }
        }
    }
    Ok(())
}
