//! The options of `load-sorted`.

use crate::config::ConfigError;
use crate::import::source::SourceArgs;
use crate::size::ByteSize;
use clap::Args;
use engine::ingest::sort::SORT_MEMORY_BYTES_MIN;
use engine::{Compression, IngestOptions, SortOptions};
use std::path::PathBuf;

/// Arguments of `load-sorted`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,

    /// Data directory to load into; no server may be running on it.
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: PathBuf,

    /// Make the table and its families where they are missing; they stay if the load fails.
    #[arg(long)]
    pub(super) create_table: bool,

    /// The input is in any order: sort it by row key first, in the data directory.
    #[arg(long)]
    pub(super) sort: bool,

    /// Memory for sorting, from 1MiB on; what does not fit goes to files.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "sort")]
    sort_memory: ByteSize,

    /// Leave the compression of the rows to the compaction that rewrites them: loads cost less CPU
    /// and more disk.
    #[arg(long)]
    defer_compression: bool,

    /// Leave filters to the compaction that rewrites the rows: loads cost less CPU, and until then
    /// every read of a row that is not there reads a block.
    #[arg(long)]
    defer_filters: bool,

    /// Stop, and load nothing, when more lines than this were rejected.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(super) max_rejects: u64,

    /// File for rejected lines. [default: FILE.rejects; for standard input ./load.rejects]
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
}

impl LoadArgs {
    pub(super) fn rejects(&self) -> PathBuf {
        self.rejects.clone().unwrap_or_else(|| self.source.rejects("load.rejects"))
    }

    pub(super) fn sort_options(&self) -> Result<SortOptions, ConfigError> {
        let ByteSize(bytes) = self.sort_memory;
        let memory_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if memory_bytes < SORT_MEMORY_BYTES_MIN {
            let least = ByteSize(SORT_MEMORY_BYTES_MIN as u64);
            return Err(ConfigError(format!("--sort-memory must be {least} or more")));
        }
        Ok(SortOptions { memory_bytes })
    }

    pub(super) fn ingest_options(&self) -> IngestOptions {
        let compression = self.defer_compression.then_some(Compression::None);
        IngestOptions { compression, filters: !self.defer_filters }
    }
}
