//! The command lines of `checkpoint`, `clone`, `backup` and `restore`.

use crate::config::ConfigError;
use crate::connect::ConnectArgs;
use crate::size::ByteSize;
use backup::{BackupId, Destination, Missing, PlainHttp, S3Options};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// Data directory of a stopped server, or HTTP address (http://HOST:PORT, with TLS
    /// https://HOST:PORT) of a running server on this machine.
    #[arg(value_name = "DIR|SERVER")]
    pub(super) source: String,
    /// New or empty directory on the same file system. A running server makes checkpoints below
    /// its option checkpoint-dir only.
    #[arg(value_name = "NEW")]
    pub(super) into: PathBuf,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Arguments of `clone`.
#[derive(Debug, Args)]
pub(crate) struct CloneArgs {
    /// Data directory of a stopped server, or a checkpoint.
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// New or empty directory on the same file system.
    #[arg(value_name = "NEW")]
    pub(super) into: PathBuf,
}

/// Settings of an object store that its URL does not contain.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Object stores")]
pub(crate) struct StoreArgs {
    /// URL of an S3-compatible object store other than Amazon S3. [default: AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Region. Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
    /// AWS_SESSION_TOKEN, or from the instance role. [default: AWS_REGION]
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// PEM file of additional trusted CA certificates. [default: AWS_CA_BUNDLE]
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// Allow plain HTTP to an endpoint on another machine: anyone on the network path can read and
    /// change the data.
    #[arg(long)]
    allow_http: bool,
}

impl StoreArgs {
    pub(super) fn open(&self, url: &str, missing: Missing) -> Result<Destination, ConfigError> {
        let plain_http = if self.allow_http { PlainHttp::Anywhere } else { PlainHttp::Loopback };
        let (endpoint, region) = (self.endpoint.clone(), self.region.clone());
        let ca_bundle = self.ca_bundle.clone();
        let s3 = S3Options { endpoint, region, ca_bundle, plain_http, ..S3Options::default() };
        Destination::open(url, &s3, missing).map_err(|error| ConfigError(error.to_string()))
    }
}

/// Arguments of `backup`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    pub(super) what: Option<BackupCommand>,
    #[command(flatten)]
    pub(super) create: Option<CreateArgs>,
    // `store` is not inside `create`: clap does not detect whether an argument group that flattens
    // another group was given.
    #[command(flatten)]
    pub(super) store: StoreArgs,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Subcommands that manage existing backups.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// List backups with their contents, and unfinished backups.
    List(ListArgs),
    /// Read backups in full and verify every checksum, without changing anything.
    ///
    /// Prints each finding with its object and offset. Exit status: 0 intact, 1 damaged or failed,
    /// 2 refused.
    Verify(VerifyArgs),
    /// Delete backups and all objects that no other backup needs.
    ///
    /// While a backup runs, objects are kept, because the backup may rely on them; the next
    /// deletion removes them. To abandon an interrupted backup, pass its id.
    Delete(DeleteArgs),
}

/// Arguments of `backup` itself.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Data directory of a stopped server, or HTTP address (http://HOST:PORT, with TLS
    /// https://HOST:PORT) of a running server on this machine.
    #[arg(value_name = "DIR|SERVER")]
    pub(super) source: String,
    /// Destination: a directory, file:///DIR or s3://BUCKET/PREFIX. Each store needs its own.
    #[arg(long, value_name = "URL")]
    pub(super) to: String,
    /// Maximum upload rate in bytes per second, e.g. 20MiB. [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub(super) bytes_per_second: Option<ByteSize>,
    /// Run `stele check` on the checkpoint before uploading it.
    #[arg(long)]
    pub(super) check: bool,
    /// Start a new backup instead of resuming an interrupted one.
    #[arg(long)]
    pub(super) new: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `backup list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Location of the backups.
    #[arg(long, value_name = "URL")]
    pub(super) from: String,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Arguments of `backup verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Backup to verify. [default: all]
    #[arg(value_name = "ID")]
    pub(super) id: Option<BackupId>,
    /// Location of the backups.
    #[arg(long, value_name = "URL")]
    pub(super) from: String,
    /// Read no more than so many bytes in a second, as in 20MiB. [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub(super) bytes_per_second: Option<ByteSize>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Arguments of `backup delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// Backups to delete. Without an id, only unneeded objects of earlier deletions are removed.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<BackupId>,
    /// Delete all backups except the newest COUNT.
    #[arg(long, value_name = "COUNT", conflicts_with = "ids",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keep: Option<u32>,
    /// Location of the backups.
    #[arg(long, value_name = "URL")]
    pub(super) from: String,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Location of the backups: a directory, file:///DIR or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "URL")]
    pub(super) from: String,
    /// Backup to restore. [default: the newest]
    #[arg(long, value_name = "ID")]
    pub(super) backup: Option<BackupId>,
    /// New or empty directory. It is named DIR.restoring until the restore completes.
    #[arg(long, value_name = "DIR")]
    pub(super) to: PathBuf,
    /// Run `stele check` on the restored directory before renaming it. The checksums of the backup
    /// are always verified.
    #[arg(long)]
    pub(super) verify: bool,
    /// Read no more than so many bytes in a second, as in 20MiB. [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub(super) bytes_per_second: Option<ByteSize>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}
