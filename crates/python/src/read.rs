//! Arguments and results of reads: columns, timestamps, cells, scans and snapshots.
//!
//! A scan reads rows ahead, a few at first and more as it goes, so that a loop over many rows gives
//! the interpreter's lock away seldom and the first row comes at once.

use crate::errors::{Failure, invalid};
use crate::handle::{Handle, Slot, while_others_run};
use engine::{
    Columns, FamilyId, QualifierRange, RowRange, SequenceNumber, Timestamp, TimestampRange,
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::collections::VecDeque;
use std::sync::Arc;

/// A half-open range of timestamps; `None` has no end.
pub(crate) type Timestamps = (i64, Option<i64>);

pub(crate) fn timestamp_range(timestamps: Option<Timestamps>) -> TimestampRange {
    timestamps.map_or(TimestampRange::ALL, |(start, end)| TimestampRange {
        start: Timestamp(start),
        end: end.map(Timestamp),
    })
}

/// A family, a column, or a range of columns of a family.
#[derive(FromPyObject)]
pub(crate) enum ColumnArgument {
    Family(u16),
    Column((u16, PyBackedBytes)),
    Range((u16, PyBackedBytes, Option<PyBackedBytes>)),
}

/// The columns of an argument; all if there is none.
pub(crate) fn columns_of(arguments: Option<Vec<ColumnArgument>>) -> Columns {
    let Some(arguments) = arguments else { return Columns::All };
    let range = |argument: &ColumnArgument| match argument {
        ColumnArgument::Family(family) => QualifierRange::family(FamilyId(*family)),
        ColumnArgument::Column((family, name)) => QualifierRange::column(FamilyId(*family), name),
        ColumnArgument::Range((family, start, end)) => QualifierRange {
            family: FamilyId(*family),
            start: start.to_vec(),
            end: end.as_ref().map(|end| end.to_vec()),
        },
    };
    Columns::ranges(arguments.iter().map(range).collect())
}

/// The rows from `start` up to `end`, or those with `prefix`.
pub(crate) fn rows_of(
    start: Option<&[u8]>,
    end: Option<&[u8]>,
    prefix: Option<&[u8]>,
) -> PyResult<RowRange> {
    match (start, end, prefix) {
        (None, None, Some(prefix)) => Ok(RowRange::prefix(prefix)),
        (start, end, None) => {
            Ok(RowRange { start: start.unwrap_or_default().to_vec(), end: end.map(<[u8]>::to_vec) })
        }
        _ => Err(invalid("pass a prefix, or start and end, but not both")),
    }
}

/// A cell, copied out of the engine.
pub(crate) struct OwnedCell {
    family: u16,
    qualifier: Vec<u8>,
    timestamp: i64,
    value: Vec<u8>,
}

impl OwnedCell {
    pub(crate) fn of(cell: &engine::Cell<'_>) -> Self {
        Self {
            family: cell.family.0,
            qualifier: cell.qualifier.to_vec(),
            timestamp: cell.timestamp.0,
            value: cell.value.to_vec(),
        }
    }

    fn len(&self) -> usize {
        self.qualifier.len() + self.value.len()
    }
}

/// One version of a column of a row.
#[pyclass(frozen, module = "stele")]
pub(crate) struct Cell {
    /// The column's family.
    #[pyo3(get)]
    family: u16,
    /// The column's name in its family.
    #[pyo3(get)]
    qualifier: Py<PyBytes>,
    /// The version of the column.
    #[pyo3(get)]
    timestamp: i64,
    /// The value.
    #[pyo3(get)]
    value: Py<PyBytes>,
}

impl Cell {
    fn parts<'a>(&'a self, py: Python<'a>) -> (u16, &'a [u8], i64, &'a [u8]) {
        (self.family, self.qualifier.as_bytes(py), self.timestamp, self.value.as_bytes(py))
    }
}

#[pymethods]
impl Cell {
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> bool {
        let other = other.cast::<Self>();
        other.is_ok_and(|other| self.parts(py) == other.get().parts(py))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        let (family, qualifier, timestamp, value) = self.parts(py);
        let parts = (family, PyBytes::new(py, qualifier), timestamp, PyBytes::new(py, value));
        parts.into_pyobject(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (family, qualifier, timestamp, value) = self.parts(py);
        format!(
            "stele.Cell(family={family}, qualifier=b\"{}\", timestamp={timestamp}, value=b\"{}\")",
            qualifier.escape_ascii(),
            value.escape_ascii()
        )
    }
}

/// Cells as a list of Python.
pub(crate) fn list_of(py: Python<'_>, cells: Vec<OwnedCell>) -> PyResult<Bound<'_, PyList>> {
    let cells = cells.into_iter().map(|cell| Cell {
        family: cell.family,
        qualifier: PyBytes::new(py, &cell.qualifier).unbind(),
        timestamp: cell.timestamp,
        value: PyBytes::new(py, &cell.value).unbind(),
    });
    let cells = cells.map(|cell| Bound::new(py, cell)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, cells)
}

/// Rows read ahead at first, and at most; and the bytes after which no more are.
const AHEAD_ROWS_FIRST: usize = 4;
const AHEAD_ROWS_MAX: usize = 1024;
const AHEAD_BYTES: usize = 1 << 20;

/// A row's key and its cells.
type Row = (Vec<u8>, Vec<OwnedCell>);

/// A scan under way, and what it has read ahead.
pub(crate) struct ScanState {
    /// `None` after the last row, so that files are let go.
    scan: Option<engine::Scan>,
    ready: VecDeque<Row>,
    ahead_rows: usize,
    /// Rows that may still be read.
    left: u64,
    /// The error that ended the scan; raised after the rows before it.
    failed: Option<engine::Error>,
}

impl ScanState {
    pub(crate) fn new(scan: engine::Scan, limit: Option<u64>) -> Self {
        let left = limit.unwrap_or(u64::MAX);
        let (scan, ready) = (Some(scan), VecDeque::new());
        Self { scan, ready, ahead_rows: AHEAD_ROWS_FIRST, left, failed: None }
    }

    /// Reads rows ahead. After an error there are no more.
    fn read_ahead(&mut self) -> engine::Result<()> {
        let Some(mut scan) = self.scan.take() else { return Ok(()) };
        let mut bytes = 0;
        while self.ready.len() < self.ahead_rows && bytes < AHEAD_BYTES {
            if self.left == 0 {
                return Ok(());
            }
            let Some(row) = scan.next_row()?.map(<[u8]>::to_vec) else { return Ok(()) };
            let mut cells = Vec::new();
            while let Some(cell) = scan.next_cell()? {
                let cell = OwnedCell::of(&cell);
                bytes += cell.len();
                cells.push(cell);
            }
            bytes += row.len();
            self.ready.push_back((row, cells));
            self.left -= 1;
        }
        self.ahead_rows = (2 * self.ahead_rows).min(AHEAD_ROWS_MAX);
        self.scan = Some(scan);
        Ok(())
    }

    fn next(&mut self) -> engine::Result<Option<Row>> {
        if self.ready.is_empty()
            && let Err(error) = self.read_ahead()
        {
            self.failed = Some(error);
        }
        match self.ready.pop_front() {
            Some(row) => Ok(Some(row)),
            None => self.failed.take().map_or(Ok(None), Err),
        }
    }
}

/// Rows of a scan, in order: an iterator of `(row, cells)`.
///
/// A scan reads one snapshot of the tree. Close it if it is not read to the end.
#[pyclass(frozen, module = "stele")]
pub(crate) struct Scan {
    pub(crate) handle: Arc<Handle>,
    pub(crate) state: Arc<Slot<ScanState>>,
}

impl Drop for Scan {
    fn drop(&mut self) {
        while_others_run(|| drop(self.state.lock().take()));
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyList>)>> {
        // What was read ahead needs no wait, unless another thread is at it.
        let ready = self.state.try_lock().and_then(|mut state| state.as_mut()?.ready.pop_front());
        let row = match ready {
            Some(row) => Some(row),
            None => self.handle.call(py, |_| match &mut *self.state.lock() {
                Some(state) => Ok(state.next()?),
                None => Err(Failure::Ended("the scan is closed")),
            })?,
        };
        row.map(|(row, cells)| Ok((PyBytes::new(py, &row), list_of(py, cells)?))).transpose()
    }

    /// Ends the scan, so that obsolete files can be deleted.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.state.lock().take()));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

/// A point in time of the engine: reads with a snapshot see exactly what was committed before it.
///
/// A snapshot retains old data until it is closed.
#[pyclass(frozen, module = "stele")]
pub(crate) struct Snapshot {
    handle: Arc<Handle>,
    /// `None` once it was closed. Never held for longer than a copy takes.
    held: Mutex<Option<engine::Snapshot>>,
    sequence: SequenceNumber,
}

impl Snapshot {
    pub(crate) fn new(handle: Arc<Handle>, snapshot: engine::Snapshot) -> Self {
        let sequence = snapshot.sequence();
        Self { handle, held: Mutex::new(Some(snapshot)), sequence }
    }

    /// The snapshot for a read of the engine of `handle`.
    fn for_read(&self, py: Python<'_>, handle: &Arc<Handle>) -> PyResult<engine::Snapshot> {
        if !Arc::ptr_eq(&self.handle, handle) {
            return Err(invalid("the snapshot belongs to another engine"));
        }
        let held = self.held.lock().clone();
        held.ok_or_else(|| Failure::Ended("the snapshot is closed").raise(py))
    }
}

/// The snapshot of an argument, if one was given.
pub(crate) fn snapshot_of(
    py: Python<'_>,
    snapshot: Option<&Snapshot>,
    handle: &Arc<Handle>,
) -> PyResult<Option<engine::Snapshot>> {
    snapshot.map(|snapshot| snapshot.for_read(py, handle)).transpose()
}

#[pymethods]
impl Snapshot {
    /// The last sequence number that the snapshot includes.
    #[getter]
    fn sequence(&self) -> u64 {
        self.sequence.0
    }

    /// Releases the snapshot.
    fn close(&self) {
        self.held.lock().take();
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyTuple>) {
        self.close();
    }
}
