//! The sources of a scan, known by type so that a step costs no virtual call.

use crate::cell::{Column, Entry, EntryKey};
use crate::error::Result;
use crate::memtable::MemtableCursor;
use crate::merge::run_cursor::RunCursor;
use crate::semantics::row_cursor::RowCursor;
use crate::sstable::RowHit;

/// A memtable or a run.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each scan")]
pub(crate) enum Source {
    Memtable(MemtableCursor),
    /// A run of SSTables.
    Run(RunCursor),
}

impl Source {
    /// The row the source stands on, with the block that it reads. `None` of a memtable.
    #[inline]
    pub(crate) fn row_in_block(&self) -> Option<RowHit<'_>> {
        match self {
            Self::Memtable(_) => None,
            Self::Run(cursor) => cursor.row_in_block(),
        }
    }

    /// The run that it is.
    #[inline]
    pub(crate) fn as_run(&mut self) -> Option<&mut RunCursor> {
        match self {
            Self::Memtable(_) => None,
            Self::Run(cursor) => Some(cursor),
        }
    }
}

/// Passes a verb on to whichever cursor it is.
macro_rules! either {
    ($source:expr, $cursor:ident => $verb:expr) => {
        match $source {
            Source::Memtable($cursor) => $verb,
            Source::Run($cursor) => $verb,
        }
    };
}

impl RowCursor for Source {
    fn seek(&mut self, row: &[u8]) -> Result<()> {
        either!(self, cursor => cursor.seek(row))
    }

    fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
        either!(self, cursor => cursor.seek_before(bound))
    }

    #[inline]
    fn next_row(&mut self) -> Result<()> {
        either!(self, cursor => cursor.next_row())
    }

    #[inline]
    fn prev_row(&mut self) -> Result<()> {
        either!(self, cursor => cursor.prev_row())
    }

    #[inline]
    fn row(&self) -> Option<&[u8]> {
        either!(self, cursor => cursor.row())
    }

    #[inline]
    fn entry(&self) -> Option<EntryKey<'_>> {
        either!(self, cursor => cursor.entry())
    }

    fn entry_with_value(&mut self) -> Result<Entry<'_>> {
        either!(self, cursor => cursor.entry_with_value())
    }

    fn next_entry(&mut self) -> Result<()> {
        either!(self, cursor => cursor.next_entry())
    }

    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()> {
        either!(self, cursor => cursor.skip_to_column(column))
    }

    #[inline]
    fn take_loads(&mut self) -> u64 {
        either!(self, cursor => cursor.take_loads())
    }
}
