//! Row keys that cut a table into parts of similar size.
//!
//! The indexes of SSTables give them. A tree with too little on disk is scanned instead, which reads
//! no more than its memtables and a few parts.

use super::read::gone;
use super::{Core, Local, Table};
use crate::error::Result;
use crate::schema::{TableName, TableSchema};
use crate::store::RowKeySample;
use engine::{RowRange, ScanRequest, TreeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a cell in memory beside its qualifier and value.
const CELL_BYTES: u64 = 24;

/// Row keys of one tree, ascending, each with the approximate bytes before it.
type TreeSamples = Vec<(Vec<u8>, u64)>;

/// Row keys that cut one tablet into parts of similar size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabletSamples {
    /// The tree of the tablet.
    pub tree: TreeId,
    /// Approximate bytes of the tablet.
    pub bytes: u64,
    /// Keys, ascending, each with the approximate bytes before it in the tablet.
    pub keys: Vec<RowKeySample>,
}

/// Joins the samples of tablets to the samples of their table. A tablet without samples counts as empty.
pub fn join_samples(table: &TableSchema, of_tablets: Vec<TabletSamples>) -> Vec<RowKeySample> {
    let mut of_trees: BTreeMap<TreeId, TabletSamples> =
        of_tablets.into_iter().map(|samples| (samples.tree, samples)).collect();
    let mut samples: Vec<RowKeySample> = Vec::new();
    let mut before = 0;
    for (at, tablet) in table.tablets.iter().enumerate() {
        let end = table.tablets.get(at + 1).map(|next| next.start.clone()).unwrap_or_default();
        let (bytes, keys) = match of_trees.remove(&tablet.tree) {
            Some(TabletSamples { bytes, keys, .. }) => (bytes, keys),
            None => (0, Vec::new()),
        };
        for RowKeySample { key, offset_bytes } in keys {
            let last = samples.last().map_or(&tablet.start, |sample| &sample.key);
            if key > *last && (end.is_empty() || key < end) {
                let offset_bytes = before + offset_bytes.min(bytes);
                samples.push(RowKeySample { key, offset_bytes });
            }
        }
        before += bytes;
        samples.push(RowKeySample { key: end, offset_bytes: before });
    }
    samples
}

impl Local {
    /// Samples the tablets of a table whose tree is in `trees`, for [`join_samples`]. Replicas need not
    /// lead. `NotLeader` if this node has no replica of one, or knows another table of the name.
    pub async fn sample_tablets(
        &self,
        table: &TableName,
        trees: BTreeSet<TreeId>,
    ) -> Result<Vec<TabletSamples>> {
        let (core, table) = (Arc::clone(&self.core), self.table(table).await?);
        table.check_has(&trees)?;
        self.reads.run(move || core.sample_tablets(&table, |tree| trees.contains(&tree))).await
    }
}

impl Core {
    pub(super) fn sample_row_keys(&self, table: &Table) -> Result<Vec<RowKeySample>> {
        Ok(join_samples(&table.schema, self.sample_tablets(table, |_| true)?))
    }

    fn sample_tablets(
        &self,
        table: &Table,
        wanted: impl Fn(TreeId) -> bool,
    ) -> Result<Vec<TabletSamples>> {
        let trees = table.schema.tablets.iter().map(|tablet| tablet.tree);
        let bytes_of = |tree: TreeId| {
            let bytes = self.engine.tree(tree)?.approximate_bytes(&RowRange::ALL)?;
            Ok((tree, bytes))
        };
        let sizes: Vec<(TreeId, u64)> = trees
            .filter(|tree| wanted(*tree))
            .map(|tree| bytes_of(tree).map_err(|error| gone(error, table)))
            .collect::<Result<_>>()?;
        let part_bytes =
            sizes.iter().map(|(_, bytes)| bytes).sum::<u64>() / self.shape.sample_parts as u64;
        let part_bytes = part_bytes.max(self.shape.sample_bytes_min as u64);
        let sampled = sizes.into_iter().map(|(tree, bytes)| {
            let keys = self.samples_of(tree, part_bytes).map_err(|error| gone(error, table))?;
            let sample = |(key, offset_bytes): (Vec<u8>, u64)| RowKeySample {
                key: key.into(),
                offset_bytes,
            };
            Ok(TabletSamples { tree, bytes, keys: keys.into_iter().map(sample).collect() })
        });
        sampled.collect()
    }

    fn samples_of(&self, tree: TreeId, part_bytes: u64) -> engine::Result<TreeSamples> {
        let samples = self.engine.tree(tree)?.sample_rows(part_bytes)?;
        if samples.is_empty() { self.scanned_samples(tree, part_bytes) } else { Ok(samples) }
    }

    /// Samples a tree by a scan. The last sample is the last row, so that a table of one tablet is cut at
    /// least once.
    fn scanned_samples(&self, tree: TreeId, part_bytes: u64) -> engine::Result<TreeSamples> {
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
