//! Segments of columnar tables, as a view sees them, and their pages.
//!
//! 1. A view sees the segments that were committed at its moment, and the segments that its transaction added.
//! 2. Pages of a segment that is seen stay readable for as long as their [`Pages`] or the view is there.

use super::View;
use super::entries::EntryCursor;
use super::scan::CancelFlag;
use crate::catalog::Table;
use crate::database::Storage;
use crate::error::{Error, Result};
use crate::format::segment::{read_segment_key, segments};
use crate::types::Oid;
use bytes::Bytes;
use engine::Direction;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A segment of a columnar table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Number of the segment in its table.
    pub number: u64,
    /// The descriptor of its pages, encoded: docs/format/column_segment.md.
    pub descriptor: Bytes,
}

impl View {
    /// Returns the segments of a columnar table, by ascending numbers. Blocks. 42P01 if the view has no such table,
    /// 57014 once it is cancelled, XX000 for a table of rows.
    pub fn segments(&self, table: Oid, cancel: &CancelFlag) -> Result<Vec<Segment>> {
        let mut found = Vec::new();
        self.each_segment(table, cancel, |number, descriptor| {
            found.push(Segment { number, descriptor: Bytes::copy_from_slice(descriptor) });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Lends number and encoded descriptor of each segment of a columnar table, by ascending numbers, until
    /// `use_segment` ends it: descriptors of a large table are long together. Errors are as in [`Self::segments`].
    pub fn each_segment(
        &self,
        table: Oid,
        cancel: &CancelFlag,
        mut use_segment: impl FnMut(u64, &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut cursor = self.descriptors(self.table(table)?, cancel.clone())?;
        loop {
            cancel.check()?;
            let next =
                cursor.next(|key, descriptor| use_segment(read_segment_key(key)?, descriptor))?;
            if next.is_none_or(|flow| flow.is_break()) {
                return Ok(());
            }
        }
    }

    /// Returns true if a columnar table has a segment. Blocks.
    pub(super) fn has_segments(&self, table: &Table) -> Result<bool> {
        let mut cursor = self.descriptors(table, CancelFlag::default())?;
        Ok(cursor.next(|_, _| Ok(()))?.is_some())
    }

    /// Begins a walk over the descriptors of a columnar table's segments.
    fn descriptors(&self, table: &Table, cancel: CancelFlag) -> Result<EntryCursor> {
        let storage = table.storage()?;
        storage.pages()?;
        let (own, snapshot) = (self.own_entries(table.tree), self.snapshot());
        EntryCursor::new(&storage.keys, snapshot, own, segments(), Direction::Forward, cancel)
    }

    /// Returns what reads pages of a columnar table. Errors are as in [`Self::segments`].
    pub fn pages(&self, table: Oid) -> Result<Pages> {
        let table = self.table(table)?;
        let storage = Arc::clone(table.storage()?);
        storage.pages()?;
        Ok(Pages { table: table.name.as_str().into(), storage })
    }
}

/// Reads pages of a columnar table. Cheap to clone.
#[derive(Clone)]
pub struct Pages {
    table: Arc<str>,
    storage: Arc<Storage>,
}

impl Pages {
    /// Lends a page of a segment's column by its number. Blocks. XX001 if it is not there.
    pub fn read<R>(
        &self,
        segment: u64,
        column: u32,
        page: u16,
        use_page: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        let found = self.storage.pages()?.read((segment, column, page), use_page)?;
        found.ok_or_else(|| {
            let place = format!("segment {segment}, column {column}, page {page}");
            Error::corrupted(format!("table {}: {place} is not there", self.table))
        })
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("table", &self.table).finish_non_exhaustive()
    }
}
