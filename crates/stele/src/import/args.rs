//! The options of `import`.

use super::source::SourceArgs;
use crate::connect::ConnectArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,

    /// Create the table and its column families if they are missing.
    #[arg(long)]
    pub(super) create_table: bool,

    /// Server to write to; with TLS, https://HOST:PORT.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "BIGTABLE_EMULATOR_HOST",
        default_value = "127.0.0.1:8086"
    )]
    pub(super) endpoint: String,

    /// Write to this data directory instead of a server. No server may be running on it.
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Rows per request, 1 to 10000.
    #[arg(long, value_name = "COUNT", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) batch_rows: u32,

    /// Concurrent requests, 1 to 64.
    #[arg(long, value_name = "COUNT", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) batches: u32,

    /// Stop when more than COUNT lines are rejected. The import of an export fails in the end if any row
    /// is rejected, unless this option allows it. [default: 1000]
    #[arg(long, value_name = "COUNT")]
    max_rejects: Option<u64>,

    /// File for rejected lines. [default: FILE.rejects, or ./import.rejects for standard input]
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,

    /// File that records progress, so that rerunning the command resumes the import.
    /// [default: FILE.import; none for standard input]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,

    /// Start over and rewrite all cells. Uses the timestamp of the interrupted import, unless
    /// --timestamp sets another.
    #[arg(long)]
    pub(super) restart: bool,

    /// Resume even if cells that the interrupted import wrote are missing, for example because
    /// garbage collection removed them. Rows already imported are not written again.
    #[arg(long, conflicts_with = "restart")]
    pub(super) assume_written: bool,

    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Rejects after which an import stops, if the user does not say.
const MAX_REJECTS: u64 = 1000;

impl ImportArgs {
    pub(super) fn max_rejects(&self) -> u64 {
        self.max_rejects.unwrap_or(MAX_REJECTS)
    }

    /// Returns whether the import succeeds although rows of an export are rejected.
    pub(super) fn allows_rejects(&self) -> bool {
        self.max_rejects.is_some()
    }

    pub(super) fn rejects(&self) -> PathBuf {
        self.rejects.clone().unwrap_or_else(|| self.source.rejects("import.rejects"))
    }

    pub(super) fn checkpoint(&self) -> Option<PathBuf> {
        let source = &self.source;
        let default = || (!source.reads_stdin()).then(|| source.beside("import"));
        self.checkpoint.clone().or_else(default)
    }
}
