//! What is kept of a finished SSTable: its writer tells it, the manifest keeps it, reads and
//! compactions choose files by it.

use crate::cell::{SequenceNumber, Timestamp};
use crate::files::FileNumber;
use crate::request::RowRange;

/// A finished SSTable as the manifest keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SstMeta {
    /// Its number; the file is `NNNNNNNNNN.sst`.
    pub number: FileNumber,
    /// Length of the file.
    pub bytes: u64,
    /// Smallest row with an entry. Without entries, the start of `dropped`.
    pub first_row: Vec<u8>,
    /// Largest row with an entry; range tombstones stand apart and may begin before `first_row`
    /// and reach beyond `last_row`. Without entries, the start of `dropped`.
    pub last_row: Vec<u8>,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones among the entries.
    pub tombstones: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// From the smallest start to the largest end of its range tombstones; `None` without any.
    pub dropped: Option<RowRange>,
    /// Smallest sequence number of any entry or range tombstone.
    pub sequence_min: SequenceNumber,
    /// Largest.
    pub sequence_max: SequenceNumber,
    /// Oldest timestamp of any entry.
    pub timestamp_min: Timestamp,
    /// Newest.
    pub timestamp_max: Timestamp,
}

impl SstMeta {
    /// The smallest range that holds every row the file knows anything of: its entries' rows and
    /// its range tombstones.
    pub fn span(&self) -> RowRange {
        let mut span = RowRange::single(&self.last_row);
        span.start.clone_from(&self.first_row);
        match &self.dropped {
            None => span,
            Some(dropped) if self.entries == 0 => dropped.clone(),
            Some(dropped) => RowRange {
                start: span.start.min(dropped.start.clone()),
                end: span.end.zip(dropped.end.clone()).map(|(a, b)| a.max(b)),
            },
        }
    }
}
