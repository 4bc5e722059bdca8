//! What a walk over rows asks of memory before it comes there.
//!
//! A row's bytes lie in three places of its block, and the next block somewhere else: a walk that
//! only reads waits for each. So it asks for the bytes of a row some rows before it gets there, and
//! past the end of a block for those of the next one, which it takes hold of in time. Blocks that
//! are not in memory are left to be loaded when the walk comes to them.

use crate::sstable::read::sst_reader::SstReader;
use crate::sstable::read::typed_refs::{DataRef, IndexRef};

/// Rows ahead of a walk whose bytes are asked for.
pub(crate) const ROWS_REACHED: usize = 6;
/// Rows before the end of a block at which the next one is held, and looked for.
const ROWS_HELD: usize = 9;
pub(crate) const ROWS_SOUGHT: usize = 12;

/// The block that a walk comes to next.
#[derive(Debug, Default)]
pub(crate) enum Ahead {
    /// Nothing was done about it.
    #[default]
    Unknown,
    /// The processor was asked for what says which block its frame holds.
    Sought,
    Held(DataRef),
    /// It is not in memory, or not known.
    Absent,
}

impl Ahead {
    /// The block, if it is held; nothing is known of the one after it.
    pub(crate) fn take(&mut self) -> Option<DataRef> {
        match std::mem::take(self) {
            Self::Held(block) => Some(block),
            _ => None,
        }
    }

    /// Looks past the end of a block of which `left` rows are left, the current one included. The
    /// next block is at `next` of `index`, if that is known.
    pub(crate) fn look(&mut self, sst: &SstReader, left: usize, next: Option<(&IndexRef, usize)>) {
        match (&*self, next) {
            (Self::Unknown, Some((index, block))) => {
                sst.prefetch_data(index, block, |_| []);
                *self = Self::Sought;
            }
            (Self::Unknown, None) => *self = Self::Absent,
            (Self::Sought, Some((index, block))) if left <= ROWS_HELD => {
                let pinned_blocks = sst.resident_data(index, block);
                if let Some(pinned_blocks) = &pinned_blocks {
                    pinned_blocks.view().reach_directory();
                }
                *self = pinned_blocks.map_or(Self::Absent, Self::Held);
            }
            (Self::Held(block), _) if left <= ROWS_REACHED => {
                block.view().reach_row(ROWS_REACHED - left);
            }
            _ => {}
        }
    }
}
