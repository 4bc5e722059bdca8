//! Where one output ends and the next begins. Outputs end between rows only.
//!
//! 1. At every *cut*: the start of a file of the destination that stays where it is. What lies on
//!    both sides of such a file cannot be in one output, for spans of a run are disjoint.
//! 2. When the output has reached its size.
//! 3. When it has come to overlap so much of the level below that moving it there would be one
//!    huge compaction instead of several small ones.

use crate::manifest::SstMeta;
use std::sync::Arc;

/// Bytes of the level below that one output may overlap, in multiples of the output's size.
const OVERLAP_FACTOR: u64 = 8;

/// Says where outputs end, as rows come in order.
#[derive(Debug)]
pub struct Splitter {
    sst_bytes_max: u64,
    /// Ascending; those before `next_cut` are behind.
    cuts: Vec<Vec<u8>>,
    next_cut: usize,
    below: Vec<Arc<SstMeta>>,
    next_below: usize,
    overlapped: u64,
}

impl Splitter {
    /// Outputs of about `sst_bytes_max` bytes over the files `below` of the level below, none of
    /// which straddles one of `cuts`. Both are in row order.
    pub fn new(sst_bytes_max: u64, cuts: Vec<Vec<u8>>, below: Vec<Arc<SstMeta>>) -> Self {
        Self { sst_bytes_max, cuts, next_cut: 0, below, next_below: 0, overlapped: 0 }
    }

    /// The next cut at or before `row` (`None`: all that are left). To be called until it gives
    /// none before `row` is written.
    pub fn next_cut(&mut self, row: Option<&[u8]>) -> Option<Vec<u8>> {
        let cut = self.cuts.get(self.next_cut)?;
        if row.is_some_and(|row| cut.as_slice() > row) {
            return None;
        }
        self.next_cut += 1;
        Some(cut.clone())
    }

    /// Whether an output that has `bytes` bytes ends before `row`.
    pub fn is_full(&mut self, row: &[u8], bytes: u64) -> bool {
        while let Some(sst) = self.below.get(self.next_below)
            && sst.first_row.as_slice() <= row
        {
            self.overlapped += sst.bytes;
            self.next_below += 1;
        }
        let overlap_max = self.sst_bytes_max.saturating_mul(OVERLAP_FACTOR);
        let full = bytes >= self.sst_bytes_max || (bytes > 0 && self.overlapped > overlap_max);
        if full {
            self.overlapped = 0;
        }
        full
    }
}
