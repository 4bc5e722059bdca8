//! Bulk loads: writers of sorted cells, and the files they finish.

use crate::errors::Failure;
use crate::handle::{Handle, Slot, while_others_run};
use engine::{Column, FamilyId, Timestamp};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// Writes sorted cells into SSTables that stay invisible until `Engine.ingest`.
///
/// Closing the writer without `finish` removes its files: use it in a `with` statement.
#[pyclass(frozen, module = "stele")]
pub(crate) struct SstWriter {
    pub(crate) handle: Arc<Handle>,
    pub(crate) writer: Arc<Slot<engine::SstWriter>>,
}

impl Drop for SstWriter {
    fn drop(&mut self) {
        while_others_run(|| drop(self.writer.lock().take()));
    }
}

const WRITER_ENDED: Failure = Failure::Ended("the writer is finished or closed");
const FILES_ENDED: Failure = Failure::Ended("the files were appended to others");

#[pymethods]
impl SstWriter {
    /// Adds a cell. Cells must be in scan order, without duplicates: rows, families and qualifiers
    /// ascending, timestamps descending. Raises InvalidArgumentError for a cell out of order, which
    /// is not added; the writer stays usable.
    #[pyo3(signature = (row, family, qualifier, value, timestamp = 0))]
    fn put(
        &self,
        py: Python<'_>,
        row: &[u8],
        family: u16,
        qualifier: &[u8],
        value: &[u8],
        timestamp: i64,
    ) -> PyResult<()> {
        let column = Column::of(FamilyId(family), qualifier);
        self.handle.call(py, |_| {
            let mut writer = self.writer.lock();
            let writer = writer.as_mut().ok_or(WRITER_ENDED)?;
            Ok(writer.put(row, column, Timestamp(timestamp), value)?)
        })
    }

    /// Finishes the files: they are on disk but not yet visible.
    fn finish(&self, py: Python<'_>) -> PyResult<IngestFiles> {
        let files = self.handle.call(py, |_| {
            let writer = self.writer.lock().take().ok_or(WRITER_ENDED)?;
            Ok(self.handle.keep(writer.finish()?))
        })?;
        Ok(IngestFiles { handle: Arc::clone(&self.handle), files })
    }

    /// Closes the writer and removes its unfinished files.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.writer.lock().take()));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

/// Finished files for `Engine.ingest`. Files that were not ingested are removed with this object,
/// or when the engine closes.
#[pyclass(frozen, module = "stele")]
pub(crate) struct IngestFiles {
    handle: Arc<Handle>,
    files: Arc<Slot<engine::IngestFiles>>,
}

impl Drop for IngestFiles {
    fn drop(&mut self) {
        while_others_run(|| drop(self.files.lock().take()));
    }
}

impl IngestFiles {
    /// Makes the files part of their tree, if they are of `engine`.
    pub(crate) fn ingest_into(&self, engine: &engine::Engine) -> Result<u64, Failure> {
        let mut files = self.files.lock();
        Ok(engine.ingest(files.as_mut().ok_or(FILES_ENDED)?)?.0)
    }

    fn look<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&engine::IngestFiles) -> T + Send,
    ) -> PyResult<T> {
        self.handle.call(py, |_| Ok(look(self.files.lock().as_ref().ok_or(FILES_ENDED)?)))
    }
}

#[pymethods]
impl IngestFiles {
    /// Moves the files of `other` into this object, so that several writers are ingested at once.
    /// Raises InvalidArgumentError if `other` belongs to another engine; it then keeps its files.
    fn append(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.handle.call(py, |_| {
            let refused = |what: &str| Err(engine::Error::InvalidArgument(what.to_owned()).into());
            if Arc::ptr_eq(&self.files, &other.files) {
                return refused("files cannot be appended to themselves");
            }
            if !Arc::ptr_eq(&self.handle, &other.handle) {
                return refused("the files belong to another engine");
            }
            let taken = other.files.lock().take().ok_or(FILES_ENDED)?;
            if let Some(files) = self.files.lock().as_mut() {
                return Ok(files.append(taken)?);
            }
            *other.files.lock() = Some(taken);
            Err(FILES_ENDED)
        })
    }

    /// Number of files.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, engine::IngestFiles::len)
    }

    /// Number of cells.
    #[getter]
    fn cells(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, engine::IngestFiles::cells)
    }

    /// Total size in bytes.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, engine::IngestFiles::bytes)
    }
}
