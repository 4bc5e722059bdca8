//! The class `Tree`: writes and reads of one tree.

use crate::batch::{WriteBatch, delete_target};
use crate::handle::Handle;
use crate::load::SstWriter;
use crate::options::compression;
use crate::read::{
    ColumnArgument, OwnedCell, Scan, ScanState, Snapshot, Timestamps, columns_of, list_of, rows_of,
    snapshot_of, timestamp_range,
};
use engine::{
    Column, ColumnOf, Direction, FamilyId, IngestOptions, RowSelection, ScanRequest, Timestamp,
    TreeId,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};
use std::sync::Arc;

/// A tree of an open engine: rows in order of their keys.
#[pyclass(frozen, module = "stele")]
pub(crate) struct Tree {
    pub(crate) handle: Arc<Handle>,
    pub(crate) id: TreeId,
}

/// A cell's timestamp and value.
type Found<'py> = (i64, Bound<'py, PyBytes>);

fn found(py: Python<'_>, (timestamp, value): (Timestamp, Vec<u8>)) -> Found<'_> {
    (timestamp.0, PyBytes::new(py, &value))
}

/// Row, family and qualifier of a column.
type Named = (PyBackedBytes, u16, PyBackedBytes);

fn column_of((row, family, qualifier): &Named) -> ColumnOf<'_> {
    ColumnOf { row, family: FamilyId(*family), qualifier }
}

impl Tree {
    fn commit(&self, py: Python<'_>, batch: &engine::WriteBatch) -> PyResult<u64> {
        self.handle.call(py, |engine| Ok(engine.tree(self.id)?.write(batch)?.0))
    }
}

#[pymethods]
impl Tree {
    /// The tree's id.
    #[getter]
    fn id(&self) -> u32 {
        self.id.0
    }

    fn __repr__(&self) -> String {
        format!("<stele.Tree {}>", self.id.0)
    }

    /// Commits a batch atomically. When this returns, the batch is visible, and durable according
    /// to the engine's durability. Returns the sequence number of its last mutation.
    ///
    /// Raises NoSpaceError if nothing was written for lack of space; try again later. Raises
    /// WritesStoppedError after a failed append or sync of the log; after reopening, the batch may
    /// or may not exist.
    fn write(&self, py: Python<'_>, batch: &WriteBatch) -> PyResult<u64> {
        self.commit(py, &batch.now())
    }

    /// Writes one cell: a batch of one `WriteBatch.put`.
    #[pyo3(signature = (row, family, qualifier, value, timestamp = 0))]
    fn put(
        &self,
        py: Python<'_>,
        row: &[u8],
        family: u16,
        qualifier: &[u8],
        value: &[u8],
        timestamp: i64,
    ) -> PyResult<u64> {
        let mut batch = engine::WriteBatch::new();
        let column = Column::of(FamilyId(family), qualifier);
        batch.put(row, column, Timestamp(timestamp), value);
        self.commit(py, &batch)
    }

    /// Deletes a column of a row, or a family, or the row: a batch of one `WriteBatch.delete`.
    #[pyo3(signature = (row, family = None, qualifier = None, *, timestamps = None))]
    fn delete(
        &self,
        py: Python<'_>,
        row: &[u8],
        family: Option<u16>,
        qualifier: Option<&[u8]>,
        timestamps: Option<Timestamps>,
    ) -> PyResult<u64> {
        let mut batch = engine::WriteBatch::new();
        batch.delete(row, delete_target(family, qualifier)?, timestamp_range(timestamps));
        self.commit(py, &batch)
    }

    /// Returns the newest cell of a column as `(timestamp, value)`, or None.
    #[pyo3(signature = (row, family, qualifier, *, snapshot = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        row: &[u8],
        family: u16,
        qualifier: &[u8],
        snapshot: Option<&Snapshot>,
    ) -> PyResult<Option<Found<'py>>> {
        let at = snapshot_of(py, snapshot, &self.handle)?;
        let of = ColumnOf { row, family: FamilyId(family), qualifier };
        let cell =
            self.handle.call(py, |engine| Ok(engine.tree(self.id)?.get(of, at.as_ref())?))?;
        Ok(cell.map(|cell| found(py, cell)))
    }

    /// Returns the newest cells of many columns `(row, family, qualifier)`, in the same order and
    /// at one point in time. Faster than repeated calls of `get`.
    #[pyo3(signature = (columns, *, snapshot = None))]
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<Named>,
        snapshot: Option<&Snapshot>,
    ) -> PyResult<Vec<Option<Found<'py>>>> {
        let at = snapshot_of(py, snapshot, &self.handle)?;
        let cells = self.handle.call(py, |engine| {
            let wanted: Vec<ColumnOf<'_>> = columns.iter().map(column_of).collect();
            let mut cells = vec![None; wanted.len()];
            engine.tree(self.id)?.multi_get_with(&wanted, at.as_ref(), |place, cell| {
                cells[place] = cell.map(|(timestamp, value)| (timestamp, value.to_vec()));
            })?;
            Ok(cells)
        })?;
        Ok(cells.into_iter().map(|cell| cell.map(|cell| found(py, cell))).collect())
    }

    /// Returns the cells of a row, by column, newest first. The list is empty if the row does not
    /// exist.
    ///
    /// `columns` is a list of families, columns `(family, qualifier)` and ranges
    /// `(family, start, end)`; the default is all columns. At most `versions_max` cells of each
    /// column are returned, only with timestamps in the half-open range `timestamps`.
    #[pyo3(signature = (
        row, *, columns = None, versions_max = None, timestamps = None, snapshot = None
    ))]
    fn read_row<'py>(
        &self,
        py: Python<'py>,
        row: &[u8],
        columns: Option<Vec<ColumnArgument>>,
        versions_max: Option<u32>,
        timestamps: Option<Timestamps>,
        snapshot: Option<&Snapshot>,
    ) -> PyResult<Bound<'py, PyList>> {
        let at = snapshot_of(py, snapshot, &self.handle)?;
        let columns = columns_of(columns);
        let timestamps = timestamp_range(timestamps);
        let cells = self.handle.call(py, |engine| {
            let selection = RowSelection { columns: &columns, timestamps, versions_max };
            let mut cells = Vec::new();
            let tree = engine.tree(self.id)?;
            tree.read_row_with(row, &selection, at.as_ref(), |cell| {
                cells.push(OwnedCell::of(cell));
            })?;
            Ok(cells)
        })?;
        list_of(py, cells)
    }

    /// Returns an iterator of `(row, cells)` over rows in order, at one point in time.
    ///
    /// The scan covers rows from `start` (inclusive) to `end` (exclusive), or rows with `prefix`,
    /// backwards if `reverse`, and at most `limit` rows. Cells are chosen as in `read_row`; rows
    /// without cells are skipped. The scan reads ahead up to about a megabyte.
    #[pyo3(signature = (
        start = None, end = None, *, prefix = None, reverse = false, limit = None, columns = None,
        versions_max = None, timestamps = None, snapshot = None
    ))]
    fn scan(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        prefix: Option<&[u8]>,
        reverse: bool,
        limit: Option<u64>,
        columns: Option<Vec<ColumnArgument>>,
        versions_max: Option<u32>,
        timestamps: Option<Timestamps>,
        snapshot: Option<&Snapshot>,
    ) -> PyResult<Scan> {
        let at = snapshot_of(py, snapshot, &self.handle)?;
        let request = ScanRequest {
            rows: rows_of(start, end, prefix)?,
            direction: if reverse { Direction::Reverse } else { Direction::Forward },
            columns: columns_of(columns),
            timestamps: timestamp_range(timestamps),
            versions_max,
        };
        let state = self.handle.call(py, |engine| {
            let scan = engine.tree(self.id)?.scan(&request, at.as_ref())?;
            Ok(self.handle.keep(ScanState::new(scan, limit)))
        })?;
        Ok(Scan { handle: Arc::clone(&self.handle), state })
    }

    /// Flushes the memtable to an SSTable and waits. The engine also flushes by itself.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.call(py, |engine| Ok(engine.tree(self.id)?.flush()?))
    }

    /// Compacts a range of rows into the last level and waits. The engine also compacts by itself;
    /// this is useful after a bulk load or many deletes.
    #[pyo3(signature = (start = None, end = None, *, prefix = None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        prefix: Option<&[u8]>,
    ) -> PyResult<()> {
        let rows = rows_of(start, end, prefix)?;
        self.handle.call(py, |engine| Ok(engine.tree(self.id)?.compact_range(&rows)?))
    }

    /// Returns a writer of sorted cells for a bulk load. Cells are invisible until `Engine.ingest`.
    ///
    /// `compression` is "none", "lz4" or "zstd"; the default is that of the tree's last level.
    /// Files without `filters` are slightly faster to write.
    #[pyo3(signature = (*, compression = None, filters = true))]
    fn sst_writer(
        &self,
        py: Python<'_>,
        compression: Option<&str>,
        filters: bool,
    ) -> PyResult<SstWriter> {
        let compression = compression.map(self::compression).transpose()?;
        #[allow(clippy::needless_update, reason = "options that are not given keep their defaults")]
        let options = IngestOptions { compression, filters, ..IngestOptions::default() };
        let writer = self
            .handle
            .call(py, |engine| Ok(self.handle.keep(engine.tree(self.id)?.sst_writer(&options)?)))?;
        Ok(SstWriter { handle: Arc::clone(&self.handle), writer })
    }
}
