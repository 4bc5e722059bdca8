//! What the manifest knows of a damaged SSTable.

use super::super::format::properties::Properties;
use crate::cell::{SequenceNumber, TreeId};
use crate::request::RowRange;

/// What the manifest says of a file.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// The tree it is in.
    pub(crate) tree: TreeId,
    pub(crate) entries: u64,
    /// Its first row, if it has entries.
    pub(crate) first_row: Vec<u8>,
    /// Its last row, if it has entries.
    pub(crate) last_row: Vec<u8>,
    pub(crate) range_tombstones: u64,
    /// All the rows that it knows anything of.
    pub(crate) span: RowRange,
    /// The smallest sequence number of its entries and range tombstones.
    pub(crate) sequence_min: SequenceNumber,
    /// The largest.
    pub(crate) sequence_max: SequenceNumber,
}

impl Known {
    /// Its last row; `None` if it has no entries.
    pub(super) fn last_row(&self) -> Option<&Vec<u8>> {
        (self.entries > 0).then_some(&self.last_row)
    }

    /// Returns whether the file may have an entry of this row and number.
    pub(super) fn has_room_for(&self, row: &[u8], sequence: SequenceNumber) -> bool {
        self.entries > 0
            && (&*self.first_row..=&*self.last_row).contains(&row)
            && (self.sequence_min..=self.sequence_max).contains(&sequence)
    }

    /// Returns whether these are the properties of the file that is meant.
    pub(super) fn is_of(&self, own: &Properties) -> bool {
        let rows = (&self.first_row, &self.last_row) == (&own.first_row, &own.last_row);
        let sequences = (self.sequence_min, self.sequence_max);
        // The numbers of an ingested file stand in the manifest only.
        let given = own.sequence_max == SequenceNumber(0);
        self.entries == own.entries
            && (rows || own.entries == 0)
            && self.range_tombstones == own.range_tombstones
            && (given || sequences == (own.sequence_min, own.sequence_max))
            && own.origin.as_ref().is_none_or(|origin| origin.fits(self.tree))
    }
}
