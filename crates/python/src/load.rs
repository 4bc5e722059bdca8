//! Bulk loads: writers of sorted cells, and the files they finish.

use crate::errors::Failure;
use crate::handle::{Handle, Slot, while_others_run};
use engine::{Column, FamilyId, Timestamp};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// Writes sorted cells into SSTables that nobody sees before `Engine.ingest`.
///
/// Closed without `finish`, it removes what it wrote: use it in a `with` statement.
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
    /// Adds a cell. Cells come in the order of a scan: rows, families and qualifiers ascending,
    /// timestamps descending, none twice. InvalidArgumentError for one out of order, which is not
    /// added; the writer can go on.
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

    /// Finishes the files: they are on disk, and nobody sees them yet.
    fn finish(&self, py: Python<'_>) -> PyResult<IngestFiles> {
        let files = self.handle.call(py, |_| {
            let writer = self.writer.lock().take().ok_or(WRITER_ENDED)?;
            Ok(self.handle.keep(writer.finish()?))
        })?;
        Ok(IngestFiles { handle: Arc::clone(&self.handle), files })
    }

    /// Ends the writer; what it wrote and did not finish is removed.
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

/// Finished files for `Engine.ingest`. Dropped before, or left when the engine is closed, they are
/// removed.
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
    /// Takes over the files of `other`, which is then used up, so that several writers are ingested
    /// at once. InvalidArgumentError if they cannot be, being of another engine; `other` then keeps
    /// them.
    fn append(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.handle.call(py, |_| {
            let refused = |what: &str| Err(engine::Error::InvalidArgument(what.to_owned()).into());
            if Arc::ptr_eq(&self.files, &other.files) {
                return refused("files cannot be appended to themselves");
            }
            if !Arc::ptr_eq(&self.handle, &other.handle) {
                return refused("files of another engine");
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

    /// Number of cells in them.
    #[getter]
    fn cells(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, engine::IngestFiles::cells)
    }

    /// Their length, in bytes.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, engine::IngestFiles::bytes)
    }
}
