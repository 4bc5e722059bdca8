//! The options of `load-sorted`.

use crate::config::ConfigError;
use crate::import::source::SourceArgs;
use crate::size::ByteSize;
use clap::Args;
use engine::internals::SORT_MEMORY_BYTES_MIN;
use engine::{Compression, IngestOptions, SortOptions};
use std::path::PathBuf;

/// Arguments of `load-sorted`.
#[derive(Debug, Args)]
pub(crate) struct LoadSortedArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,

    /// Data directory to load into. No server may be running on it.
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: PathBuf,

    /// Create the table and its column families if they are missing. They remain if the load fails.
    #[arg(long)]
    pub(super) create_table: bool,

    /// Sort the input by row key first; temporary files go to the data directory.
    #[arg(long)]
    pub(super) sort: bool,

    /// Memory for sorting, 1MiB or more. Input that does not fit is sorted in temporary files.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "sort")]
    sort_memory: ByteSize,

    /// Leave compression to the compaction that rewrites the rows. The load uses less CPU and more
    /// disk space.
    #[arg(long)]
    defer_compression: bool,

    /// Leave filters to the compaction that rewrites the rows. The load uses less CPU; until that
    /// compaction, every read of a missing row reads a block.
    #[arg(long)]
    defer_filters: bool,

    /// Stop without loading anything when more than COUNT lines are rejected.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(super) max_rejects: u64,

    /// File for rejected lines. [default: FILE.rejects, or ./load.rejects for standard input]
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
}

impl LoadSortedArgs {
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
