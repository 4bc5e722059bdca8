//! The options of `import`.

use super::source::SourceArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,

    /// Make the table and its families where they are missing.
    #[arg(long)]
    pub(super) create_table: bool,

    /// Server to write to.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "BIGTABLE_EMULATOR_HOST",
        default_value = "127.0.0.1:8086"
    )]
    pub(super) endpoint: String,

    /// Write into this data directory instead of to a server; none may be running on it.
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Rows sent together, 1 to 10000.
    #[arg(long, value_name = "COUNT", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) batch_rows: u32,

    /// Batches under way at once, 1 to 64.
    #[arg(long, value_name = "COUNT", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) batches: u32,

    /// Stop when more lines than this were rejected.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(super) max_rejects: u64,

    /// File for rejected lines. [default: FILE.rejects; for standard input ./import.rejects]
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,

    /// File that says how far the import is, so that the same command goes on where it stopped.
    /// [default: FILE.import; for standard input none]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,

    /// Begin anew, at the timestamp of the import that was stopped unless --timestamp gives another: its
    /// cells are written again as they were.
    #[arg(long)]
    pub(super) restart: bool,

    /// Go on though cells that the stopped import wrote are gone, as garbage collection takes old ones:
    /// none of the rows that it counts is written again.
    #[arg(long, conflicts_with = "restart")]
    pub(super) assume_written: bool,
}

impl ImportArgs {
    pub(super) fn rejects(&self) -> PathBuf {
        self.rejects.clone().unwrap_or_else(|| self.source.rejects("import.rejects"))
    }

    pub(super) fn checkpoint(&self) -> Option<PathBuf> {
        let source = &self.source;
        let default = || (!source.reads_stdin()).then(|| source.beside("import"));
        self.checkpoint.clone().or_else(default)
    }
}
