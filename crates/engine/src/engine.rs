//! The engine's public face. (Temporary: held by the model; the real one keeps these signatures.)

use crate::batch::WriteBatch;
use crate::cell::{SequenceNumber, TreeId};
use crate::elide::ElisionRules;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::model::{Model, OwnedRow};
use crate::options::{Options, TreeOptions};
use crate::request::{Cell, RowRange, ScanRequest};
use base::env::Env;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// An open data directory. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    trees: BTreeMap<TreeId, Model>,
    last: SequenceNumber,
}

/// A moment of the engine; reads through it see exactly the batches committed before it, and
/// compaction keeps what it needs, until it is dropped.
#[derive(Clone)]
pub struct Snapshot {
    sequence: SequenceNumber,
}

impl Snapshot {
    /// The last sequence number the snapshot sees.
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence
    }
}

impl Engine {
    /// Opens the data directory `dir`, creating it if it does not exist, and recovers what the
    /// log holds. `Error::Unusable` if another process has it open or it is of a newer format.
    pub fn open(_env: Env, _dir: &Path, options: Options) -> Result<Self> {
        options.validate()?;
        Ok(Self { inner: Arc::default() })
    }

    /// Creates an empty tree. Durable when it returns. `InvalidArgument` if the id was ever used.
    pub fn create_tree(&self, tree: TreeId, options: TreeOptions) -> Result<()> {
        options.validate()?;
        let mut inner = self.inner.lock();
        if inner.trees.contains_key(&tree) {
            return Err(Error::InvalidArgument(format!("tree {} exists", tree.0)));
        }
        inner.trees.insert(tree, Model::default());
        Ok(())
    }

    /// Drops a tree and all it holds. Durable when it returns; open scans go on.
    pub fn drop_tree(&self, tree: TreeId) -> Result<()> {
        self.inner.lock().trees.remove(&tree).map(|_| ()).ok_or(Error::UnknownTree(tree))
    }

    /// The ids of all trees, ascending.
    pub fn trees(&self) -> Vec<TreeId> {
        self.inner.lock().trees.keys().copied().collect()
    }

    /// Sets what compactions of `tree` may elide, from the next one on. Not kept on disk: the
    /// layer above sets it after every open. Until then everything is kept.
    pub fn set_elision_rules(&self, tree: TreeId, _rules: Arc<dyn ElisionRules>) -> Result<()> {
        let inner = self.inner.lock();
        inner.trees.get(&tree).map(|_| ()).ok_or(Error::UnknownTree(tree))
    }

    /// Commits `batch` to `tree`: all of it or nothing. When it returns the batch is as durable
    /// as `Options::durability` says and visible to every later read. Blocks. Returns the
    /// sequence number of its last mutation.
    ///
    /// `NoSpace`: nothing was written, try again later. `WritesStopped`: after a failed append or
    /// sync; the batch may or may not be there after reopening.
    pub fn write(&self, tree: TreeId, batch: &WriteBatch) -> Result<SequenceNumber> {
        batch.validate().map_err(|error| Error::InvalidArgument(error.to_string()))?;
        let mut inner = self.inner.lock();
        let first = SequenceNumber(inner.last.0 + 1);
        let model = inner.trees.get_mut(&tree).ok_or(Error::UnknownTree(tree))?;
        model.apply(batch, first);
        inner.last.0 += batch.len() as u64;
        Ok(inner.last)
    }

    /// A snapshot of everything committed so far, over all trees.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { sequence: self.inner.lock().last }
    }

    /// Starts a scan of `tree` at `snapshot` (`None`: now). It sees one state of the tree from
    /// beginning to end.
    pub fn scan(
        &self,
        tree: TreeId,
        request: &ScanRequest,
        snapshot: Option<&Snapshot>,
    ) -> Result<Scan> {
        let inner = self.inner.lock();
        let model = inner.trees.get(&tree).ok_or(Error::UnknownTree(tree))?;
        let at = snapshot.map_or(inner.last, |snapshot| snapshot.sequence);
        Ok(Scan { rows: model.scan(request, at), row: None, cell: 0 })
    }

    /// Row keys that cut `tree` into parts of about `part_bytes` bytes on disk, ascending, each
    /// with the approximate bytes before it. Empty for a small tree.
    pub fn sample_rows(&self, tree: TreeId, part_bytes: u64) -> Result<Vec<(Vec<u8>, u64)>> {
        let _ = part_bytes;
        let inner = self.inner.lock();
        inner.trees.get(&tree).map(|_| Vec::new()).ok_or(Error::UnknownTree(tree))
    }

    /// Approximate bytes on disk and in memory of the rows in `rows`.
    pub fn approximate_bytes(&self, tree: TreeId, rows: &RowRange) -> Result<u64> {
        let _ = rows;
        let inner = self.inner.lock();
        inner.trees.get(&tree).map(|_| 0).ok_or(Error::UnknownTree(tree))
    }

    /// Writes the memtable of `tree` into an SSTable and waits for it.
    pub fn flush(&self, tree: TreeId) -> Result<()> {
        let inner = self.inner.lock();
        inner.trees.get(&tree).map(|_| ()).ok_or(Error::UnknownTree(tree))
    }

    /// Merges all runs that overlap `rows` down to the last level, applying the elision rules,
    /// and waits for it.
    pub fn compact_range(&self, tree: TreeId, rows: &RowRange) -> Result<()> {
        let _ = rows;
        self.flush(tree)
    }

    /// Counters and gauges.
    pub fn metrics(&self) -> Metrics {
        Metrics::default()
    }

    /// Stops background work, syncs the log whatever the durability mode, writes its closing
    /// record, and refuses further writes. Flushes nothing.
    pub fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A scan in progress. Call `next_row` until it yields no row; within a row, `next_cell`.
pub struct Scan {
    rows: Vec<OwnedRow>,
    row: Option<usize>,
    cell: usize,
}

impl Scan {
    /// Moves to the next row that has a visible cell the request wants, skipping what is left of
    /// the current one, and lends its key. `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<&[u8]>> {
        let next = self.row.map_or(0, |row| row + 1);
        self.row = Some(next);
        self.cell = 0;
        Ok(self.rows.get(next).map(|(row, _)| row.as_slice()))
    }

    /// Lends the next cell of the row. `None` at the row's end.
    pub fn next_cell(&mut self) -> Result<Option<Cell<'_>>> {
        let Some((_, cells)) = self.row.and_then(|row| self.rows.get(row)) else {
            return Ok(None);
        };
        self.cell += 1;
        Ok(cells.get(self.cell - 1).map(|cell| Cell {
            family: cell.family,
            qualifier: &cell.qualifier,
            timestamp: cell.timestamp,
            value: &cell.value,
        }))
    }
}
