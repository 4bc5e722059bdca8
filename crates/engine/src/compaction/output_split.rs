//! Where one output ends and the next begins. Outputs end between rows only.
//!
//! 1. At every *cut*: the start of a file of the destination that stays where it is. What lies on
//!    both sides of such a file cannot be in one output, for spans of a run are disjoint.
//!    The same where the range tombstones of one output would take more than its size
//!    (`Dropped::cuts`).
//! 2. When the output has reached its size.
//! 3. When it has come to overlap so much of the level below that moving it there would be one
//!    huge compaction instead of several small ones.

use crate::manifest::SstMeta;
use crate::marks::Mark;
use crate::options::Options;
use std::sync::Arc;

/// Says where outputs end, as rows come in order.
#[derive(Debug)]
pub struct Splitter {
    sst_bytes_max: u64,
    /// Bytes of the level below that one output may overlap.
    overlap_max: u64,
    /// Ascending; those before `next_cut` are behind.
    cuts: Vec<Vec<u8>>,
    next_cut: usize,
    below: Vec<Arc<SstMeta>>,
    next_below: usize,
    overlapped: u64,
}

impl Splitter {
    /// Outputs of about `Options::sst_bytes_max` bytes over the files `below` of the level below.
    /// Both those and `cuts` are in row order.
    pub fn new(options: &Options, cuts: Vec<Vec<u8>>, below: Vec<Arc<SstMeta>>) -> Self {
        let sst_bytes_max = options.sst_bytes_max;
        let overlap_max = sst_bytes_max.saturating_mul(options.shape.overlap_factor as u64);
        let (next_cut, next_below, overlapped) = (0, 0, 0);
        Self { sst_bytes_max, overlap_max, cuts, next_cut, below, next_below, overlapped }
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

    /// Returns whether an output that has `bytes` bytes ends before `row`.
    pub fn is_full(&mut self, row: &[u8], bytes: u64) -> bool {
        while let Some(sst) = self.below.get(self.next_below)
            && sst.first_row.as_slice() <= row
        {
            self.overlapped += sst.bytes;
            self.next_below += 1;
        }
        let full = bytes > 0 && (bytes >= self.sst_bytes_max || self.overlapped > self.overlap_max);
        if full {
            match bytes >= self.sst_bytes_max {
                true => Mark::OutputFull.hit(),
                false => Mark::OutputOverlaps.hit(),
            }
        }
        if full || bytes == 0 {
            self.overlapped = 0;
        }
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{SequenceNumber, Timestamp};
    use crate::manifest::FileNumber;

    fn options() -> Options {
        Options { sst_bytes_max: 100, ..Options::default() }
    }

    fn below(first_row: &[u8], bytes: u64) -> Arc<SstMeta> {
        Arc::new(SstMeta {
            number: FileNumber(1),
            bytes,
            first_row: first_row.to_vec(),
            last_row: first_row.to_vec(),
            entries: 1,
            tombstones: 0,
            range_tombstones: 0,
            dropped: None,
            sequence_min: SequenceNumber(1),
            sequence_max: SequenceNumber(1),
            timestamp_min: Timestamp(1),
            timestamp_max: Timestamp(1),
        })
    }

    #[test]
    fn cuts_come_once_and_in_order() {
        let cuts = ["c", "e", "x"].map(|cut| cut.as_bytes().to_vec());
        let mut splitter = Splitter::new(&options(), cuts.to_vec(), Vec::new());
        assert_eq!(splitter.next_cut(Some(b"b")), None);
        assert_eq!(splitter.next_cut(Some(b"e")), Some(b"c".to_vec()));
        assert_eq!(splitter.next_cut(Some(b"e")), Some(b"e".to_vec()));
        assert_eq!(splitter.next_cut(Some(b"f")), None);
        assert_eq!(splitter.next_cut(None), Some(b"x".to_vec()));
        assert_eq!(splitter.next_cut(None), None);
    }

    #[test]
    fn an_output_ends_when_it_is_large_or_overlaps_too_much() {
        let files = vec![below(b"b", 300), below(b"d", 300), below(b"f", 300), below(b"h", 900)];
        let mut splitter = Splitter::new(&options(), Vec::new(), files);
        assert!(!splitter.is_full(b"a", 99));
        assert!(splitter.is_full(b"a", 100), "its size");
        assert!(!splitter.is_full(b"e", 50), "600 bytes below");
        assert!(splitter.is_full(b"f", 50), "900 bytes below");
        assert!(!splitter.is_full(b"y", 0), "nothing is written yet");
        assert!(!splitter.is_full(b"z", 1), "what lies before its first row does not count");
    }
}
