//! The tree with the pages of a columnar table: docs/format/columnar_table.md.
//!
//! 1. Pages come by ingest only, and a page never changes. So pages are read as they are now, without a snapshot:
//!    a reader that sees the descriptor of a segment finds its pages.
//! 2. The files of writers share no row: each has numbers of segments of its own.

use super::Storage;
use crate::error::{Error, Result};
use crate::format::FAMILY;
use crate::format::key::after_prefix;
use engine::{
    Column, ColumnOf, Compression, Direction, IngestFiles, IngestOptions, RowRange, ScanRequest,
    SstWriter, Timestamp, Tree, TreeOptions,
};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The tree with the pages. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PageKeys {
    tree: Tree,
}

/// Returns the row of the pages of a column.
fn row(segment: u64, column: u32) -> [u8; 12] {
    let mut row = [0; 12];
    row[..8].copy_from_slice(&segment.to_be_bytes());
    row[8..].copy_from_slice(&column.to_be_bytes());
    row
}

/// Returns the rows of all pages of segments.
pub(super) fn page_rows(segments: &RangeInclusive<u64>) -> RowRange {
    let end = after_prefix(&segments.end().to_be_bytes());
    RowRange { start: segments.start().to_be_bytes().to_vec(), end }
}

impl PageKeys {
    /// Returns the options of a tree for pages, which are compressed by themselves and always read by a descriptor
    /// that names them.
    pub(crate) fn tree_options() -> TreeOptions {
        TreeOptions {
            compression: Compression::None,
            compression_last: Compression::None,
            filter_bits_per_key: 0,
            ..TreeOptions::default()
        }
    }

    /// Returns the pages in a tree of the engine.
    pub(super) fn of(tree: Tree) -> Self {
        Self { tree }
    }

    /// Returns the number of the tree.
    pub(crate) fn number(&self) -> u32 {
        self.tree.id().0
    }

    /// Lends a page; nothing if it is not there. Blocks.
    pub(crate) fn read<R>(
        &self,
        (segment, column, page): (u64, u32, u16),
        use_page: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let (row, qualifier) = (row(segment, column), page.to_be_bytes());
        let at = ColumnOf::new(&row, FAMILY, &qualifier);
        Ok(self.tree.get_with(at, None, |_, value| use_page(value))?)
    }

    /// Returns the greatest number of a segment that has pages; nothing without any. Blocks.
    pub(super) fn last_segment(&self) -> Result<Option<u64>> {
        let all = ScanRequest::rows(RowRange::ALL);
        let request = ScanRequest { direction: Direction::Reverse, ..all };
        let mut scan = self.tree.scan(&request, None)?;
        let Some(row) = scan.next_row()? else { return Ok(None) };
        let number =
            row.first_chunk::<8>().ok_or_else(|| Error::corrupted("a page has no segment"))?;
        Ok(Some(u64::from_be_bytes(*number)))
    }

    /// Writes what is in memory to files, so that compactions see which pages were removed, and give the disk back.
    /// Pages themselves are never in memory: without this, the tree might not be written for a long time. Blocks.
    pub(super) fn flush(&self) -> Result<()> {
        Ok(self.tree.flush()?)
    }

    /// Returns the bytes of a range on disk and in memory, roughly.
    pub(crate) fn approximate_bytes(&self, rows: RowRange) -> Result<u64> {
        Ok(self.tree.approximate_bytes(&rows)?)
    }
}

/// Writes pages of segments into files that no read sees yet. Dropped, it removes them.
pub(crate) struct PagesWriter {
    writer: SstWriter,
    next: u64,
    first: u64,
    last: u64,
    /// True if a segment has pages and is not whole.
    has_failed: bool,
}

impl PagesWriter {
    /// Returns a writer of segments of a columnar table. Blocks.
    pub(crate) fn new(storage: &Arc<Storage>) -> Result<Self> {
        let numbers = storage.take_segments()?;
        let options = IngestOptions { filters: false, ..IngestOptions::default() };
        let writer = storage.pages()?.tree.sst_writer(&options)?;
        let (first, last) = (*numbers.start(), *numbers.end());
        Ok(Self { writer, next: first, first, last, has_failed: false })
    }

    /// Adds a segment, with the pages of each of its columns by ascending numbers, and returns its number. XX000
    /// for a segment without pages; after an error the writer is of no more use. Blocks.
    pub(crate) fn add<'a>(
        &mut self,
        columns: impl IntoIterator<Item = (u32, &'a [Vec<u8>])>,
    ) -> Result<u64> {
        if self.next > self.last {
            return Err(Error::internal("a writer has no number for another segment"));
        }
        self.has_failed = true;
        let mut is_empty = true;
        for (column, pages) in columns {
            is_empty &= pages.is_empty();
            let row = row(self.next, column);
            for (number, page) in pages.iter().enumerate() {
                let number = u16::try_from(number);
                let number = number.map_err(|_| Error::internal("a column has too many pages"))?;
                let qualifier = number.to_be_bytes();
                let at = Column::of(FAMILY, &qualifier);
                self.writer.put(&row, at, Timestamp(0), page)?;
            }
        }
        if is_empty {
            return Err(Error::internal("a segment has no pages"));
        }
        self.has_failed = false;
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Returns the finished files, and the numbers of their segments; nothing without a segment. XX000 after an
    /// error, since pages of half a segment would be in no note. Blocks.
    pub(crate) fn finish(self) -> Result<Option<(IngestFiles, RangeInclusive<u64>)>> {
        if self.has_failed {
            return Err(Error::internal("a segment was not written whole"));
        }
        if self.next == self.first {
            return Ok(None);
        }
        Ok(Some((self.writer.finish()?, self.first..=self.next - 1)))
    }
}
