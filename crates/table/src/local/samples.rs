//! Row keys that cut a table into parts of similar size.
//!
//! The indexes of SSTables give them. A tree with too little on disk is scanned instead, which reads
//! no more than its memtables and a few parts.

use super::{Core, Table};
use crate::error::Result;
use crate::store::RowKeySample;
use engine::{RowRange, ScanRequest, TreeId};

/// Bytes of a cell in memory beside its qualifier and value.
const CELL_BYTES: u64 = 24;

/// Row keys of one tree, ascending, each with the approximate bytes before it.
type TreeSamples = Vec<(Vec<u8>, u64)>;

impl Core {
    pub(super) fn sample_row_keys(&self, table: &Table) -> Result<Vec<RowKeySample>> {
        let tablets = &table.schema.tablets;
        let bytes: Vec<u64> = tablets
            .iter()
            .map(|tablet| {
                self.engine
                    .tree(tablet.tree)
                    .and_then(|tree| tree.approximate_bytes(&RowRange::ALL))
            })
            .collect::<Result<_, _>>()?;
        let part_bytes = bytes.iter().sum::<u64>() / self.shape.sample_parts as u64;
        let part_bytes = part_bytes.max(self.shape.sample_bytes_min as u64);
        let mut samples: Vec<RowKeySample> = Vec::new();
        let mut before = 0;
        for (at, tablet) in tablets.iter().enumerate() {
            let end = tablets.get(at + 1).map(|next| next.start.clone()).unwrap_or_default();
            for (key, offset) in self.samples_of(tablet.tree, part_bytes)? {
                let last = samples.last().map_or(&tablet.start, |sample| &sample.key);
                if key > *last && (end.is_empty() || key < end) {
                    let offset_bytes = before + offset.min(bytes[at]);
                    samples.push(RowKeySample { key: key.into(), offset_bytes });
                }
            }
            before += bytes[at];
            samples.push(RowKeySample { key: end, offset_bytes: before });
        }
        Ok(samples)
    }

    fn samples_of(&self, tree: TreeId, part_bytes: u64) -> Result<TreeSamples> {
        let samples = self.engine.tree(tree)?.sample_rows(part_bytes)?;
        if samples.is_empty() { self.scanned_samples(tree, part_bytes) } else { Ok(samples) }
    }

    /// Samples a tree by a scan. The last sample is the last row, so that a table of one tablet is cut at
    /// least once.
    fn scanned_samples(&self, tree: TreeId, part_bytes: u64) -> Result<TreeSamples> {
        let request = ScanRequest::rows(RowRange::ALL);
        let mut scan = self.engine.tree(tree)?.scan(&request, None)?;
        let mut samples = TreeSamples::new();
        let (mut last, mut before_last, mut bytes) = (Vec::new(), 0, 0);
        while let Some(row) = scan.next_row()? {
            last.clear();
            last.extend_from_slice(row);
            before_last = bytes;
            bytes += row.len() as u64;
            if before_last >= samples.last().map_or(0, |(_, offset)| *offset) + part_bytes {
                samples.push((last.clone(), before_last));
            }
            while let Some(cell) = scan.next_cell()? {
                bytes += (cell.qualifier.len() + cell.value.len()) as u64 + CELL_BYTES;
            }
        }
        if samples.last().is_none_or(|(row, _)| *row < last) && !last.is_empty() {
            samples.push((last, before_last));
        }
        Ok(samples)
    }
}
