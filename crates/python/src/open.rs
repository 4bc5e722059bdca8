//! The class `Engine`: opening with options by name, trees, and what concerns all of them.

use crate::handle::Handle;
use crate::load::IngestFiles;
use crate::options::{DurabilityArgument, granularity};
use crate::read::Snapshot;
use crate::tree::Tree;
use engine::{Options, TreeId, TreeOptions};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;

/// An open data directory. Close it, or use it in a `with` statement.
///
/// Any number of threads may use an engine and its objects. Only one process can have a directory
/// open. Writes survive the end of the process, even if the engine was not closed.
#[pyclass(frozen, module = "stele")]
pub(crate) struct Engine {
    pub(crate) handle: Arc<Handle>,
    path: PathBuf,
}

#[pymethods]
impl Engine {
    /// Opens the directory `path`, creating it if it is missing, and replays its log.
    ///
    /// `durability` is "sync" (every write is on disk when it returns), "none" (never synced, for
    /// work that can be repeated) or a number of seconds from 0.001 to 60 (a crash of the machine
    /// can lose the writes of that time). `memory_bytes_max` limits blocks and memtables together.
    /// Omitted options have the engine's defaults.
    ///
    /// Raises UnusableError if another process has the directory open or its format is newer, and
    /// CorruptionError if it is damaged.
    #[staticmethod]
    #[pyo3(signature = (
        path, *, durability = None, memory_bytes_max = None, cache_bytes_max = None,
        memtable_bytes_max = None, log_segment_bytes = None, direct_reads = false,
        background_threads = 2
    ))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        durability: Option<DurabilityArgument>,
        memory_bytes_max: Option<usize>,
        cache_bytes_max: Option<usize>,
        memtable_bytes_max: Option<usize>,
        log_segment_bytes: Option<u64>,
        direct_reads: bool,
        background_threads: usize,
    ) -> PyResult<Self> {
        let of = Options::default();
        let options = Options {
            durability: durability.map_or(Ok(of.durability), DurabilityArgument::value)?,
            memory_bytes_max: memory_bytes_max.unwrap_or(of.memory_bytes_max),
            cache_bytes_max,
            memtable_bytes_max: memtable_bytes_max.unwrap_or(of.memtable_bytes_max),
            log_segment_bytes: log_segment_bytes.unwrap_or(of.log_segment_bytes),
            direct_reads,
            background_threads,
            ..of
        };
        let opened = py.detach(|| engine::Engine::open(&path, options));
        let opened = opened.map_err(|error| crate::errors::Failure::from(error).raise(py))?;
        Ok(Self { handle: Handle::new(opened), path })
    }

    /// Closes the engine. Further calls do nothing.
    ///
    /// Waits for calls of other threads, and ends all scans, writers and files. Afterwards the
    /// engine's objects raise ClosedError. The directory can be opened again when this returns.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.close(py)
    }

    /// Returns whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.is_closed()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.handle.close(py)
    }

    fn __repr__(&self) -> String {
        let closed = if self.handle.is_closed() { ", closed" } else { "" };
        format!("<stele.Engine at {}{closed}>", self.path.display())
    }

    /// Creates an empty tree and returns it. The tree is durable when this returns.
    ///
    /// Compressions are "none", "lz4" and "zstd"; `compression_last` applies to the last level.
    /// `filter_granularity` is "row", "family" or "column"; None learns it from reads. Omitted
    /// options have the engine's defaults. Raises InvalidArgumentError if the id was ever used.
    #[pyo3(signature = (
        id, *, block_bytes = None, compression = None, compression_last = None,
        filter_bits_per_key = None, filter_granularity = None, row_prefix_bytes = 0,
        prefix_index = false
    ))]
    fn create_tree(
        &self,
        py: Python<'_>,
        id: u32,
        block_bytes: Option<u32>,
        compression: Option<&str>,
        compression_last: Option<&str>,
        filter_bits_per_key: Option<u8>,
        filter_granularity: Option<&str>,
        row_prefix_bytes: u16,
        prefix_index: bool,
    ) -> PyResult<Tree> {
        let of = TreeOptions::default();
        #[allow(clippy::needless_update, reason = "options that are not given keep their defaults")]
        let options = TreeOptions {
            block_bytes: block_bytes.unwrap_or(of.block_bytes),
            compression: compression.map_or(Ok(of.compression), crate::options::compression)?,
            compression_last: compression_last
                .map_or(Ok(of.compression_last), crate::options::compression)?,
            filter_bits_per_key: filter_bits_per_key.unwrap_or(of.filter_bits_per_key),
            filter_granularity: filter_granularity.map(granularity).transpose()?,
            row_prefix_bytes,
            prefix_index,
            ..of
        };
        let id = TreeId(id);
        self.handle.call(py, |engine| Ok(engine.create_tree(id, options)?))?;
        Ok(Tree { handle: Arc::clone(&self.handle), id })
    }

    /// Drops a tree and its data. Durable when this returns; open scans continue.
    fn drop_tree(&self, py: Python<'_>, id: u32) -> PyResult<()> {
        self.handle.call(py, |engine| Ok(engine.drop_tree(TreeId(id))?))
    }

    /// Returns the tree with this id. Raises UnknownTreeError if it does not exist.
    fn tree(&self, py: Python<'_>, id: u32) -> PyResult<Tree> {
        let id = TreeId(id);
        self.handle.call(py, |engine| Ok(engine.tree(id).map(drop)?))?;
        Ok(Tree { handle: Arc::clone(&self.handle), id })
    }

    /// Returns the ids of all trees, ascending.
    fn trees(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.handle.call(py, |engine| Ok(engine.trees().into_iter().map(|id| id.0).collect()))
    }

    /// Returns a snapshot of all trees, for consistent reads. A snapshot retains old data until it
    /// is closed: use it in a `with` statement.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let snapshot = self.handle.call(py, |engine| Ok(engine.snapshot()))?;
        Ok(Snapshot::new(Arc::clone(&self.handle), snapshot))
    }

    /// Syncs every acknowledged write to disk, whatever the durability is.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.call(py, |engine| Ok(engine.sync()?))
    }

    /// Copies the engine at one point in time to `path`, a new or empty directory on the same file
    /// system. SSTables are hard-linked. The copy is a complete data directory.
    fn checkpoint(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.handle.call(py, |engine| Ok(engine.checkpoint(&path)?))
    }

    /// Adds the files of a writer to their tree, atomically and durably, and empties `files`.
    /// Returns the sequence number of their cells.
    fn ingest(&self, py: Python<'_>, files: &IngestFiles) -> PyResult<u64> {
        self.handle.call(py, |engine| files.ingest_into(engine))
    }

    /// Returns counters and gauges by name, over all trees since the engine was opened. A name has its labels
    /// in braces: `level_bytes{level="0"}`.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = self.handle.call(py, |engine| Ok(engine.metrics()))?;
        let all = PyDict::new(py);
        for reading in metrics.readings {
            all.set_item(reading.series(), reading.value)?;
        }
        Ok(all)
    }
}
