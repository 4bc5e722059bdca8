//! The command lines of `checkpoint`, `clone`, `backup` and `restore`.

use crate::config::ConfigError;
use crate::size::ByteSize;
use backup::{BackupId, Destination, Missing, PlainHttp, S3Options};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// The data directory of a stopped server, or http://HOST:PORT, the HTTP address of a running
    /// one on this machine.
    #[arg(value_name = "DIR|SERVER")]
    pub(super) source: String,
    /// A new or empty directory on the same file system.
    #[arg(value_name = "NEW")]
    pub(super) into: PathBuf,
}

/// Arguments of `clone`.
#[derive(Debug, Args)]
pub(crate) struct CloneArgs {
    /// The data directory of a stopped server, or a checkpoint.
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// A new or empty directory on the same file system.
    #[arg(value_name = "NEW")]
    pub(super) into: PathBuf,
}

/// What a URL does not say.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Object stores")]
pub(crate) struct StoreArgs {
    /// Address of an S3-compatible store that is not Amazon's. [default: AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Region. Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN,
    /// or the role of the machine. [default: AWS_REGION]
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// Certificates (PEM) of authorities to believe beside those of the system.
    /// [default: AWS_CA_BUNDLE]
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// Speak to an endpoint without TLS that is not on this machine: everyone on the way can read
    /// the data and change it.
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
    // Here, for clap does not see that arguments which have others flattened into them are given.
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// What to do with backups, if not to make one.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Show which backups there are, what they hold, and which are unfinished.
    List(ListArgs),
    /// Read backups whole and compare every checksum. Changes nothing.
    ///
    /// Prints each finding with object and offset. Exit status: 0 whole, 1 damaged or it failed,
    /// 2 refused.
    Verify(VerifyArgs),
    /// Delete backups, and every object that no backup needs any more.
    ///
    /// While a backup is being made, objects are left for the next time: it may count on them.
    /// Naming the id of an unfinished backup that nobody makes any more gives it up.
    Delete(DeleteArgs),
}

/// Arguments of `backup` itself.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The data directory of a stopped server, or http://HOST:PORT, the HTTP address of a running
    /// one on this machine.
    #[arg(value_name = "DIR|SERVER")]
    pub(super) source: String,
    /// Where backups go: a directory, file:///DIR or s3://BUCKET/PREFIX. One place for each store.
    #[arg(long, value_name = "URL")]
    pub(super) to: String,
    /// Send no more than so many bytes in a second, as in 20MiB. [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub(super) bytes_per_second: Option<ByteSize>,
    /// Check the whole checkpoint before anything is sent, as `stele check` does.
    #[arg(long)]
    pub(super) check: bool,
    /// Make a new backup, where an interrupted one would be gone on with.
    #[arg(long)]
    pub(super) new: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `backup list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Where the backups are.
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
    /// The backup to verify. [default: all]
    #[arg(value_name = "ID")]
    pub(super) id: Option<BackupId>,
    /// Where the backups are.
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
    /// The backups to delete. Without any, only what is left over of others is.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<BackupId>,
    /// Delete all backups but so many, the newest.
    #[arg(long, value_name = "COUNT", conflicts_with = "ids",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keep: Option<u32>,
    /// Where the backups are.
    #[arg(long, value_name = "URL")]
    pub(super) from: String,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Where the backups are: a directory, file:///DIR or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "URL")]
    pub(super) from: String,
    /// The backup to restore. [default: the newest]
    #[arg(long, value_name = "ID")]
    pub(super) backup: Option<BackupId>,
    /// A new or empty directory. Until all is there, it is DIR.restoring.
    #[arg(long, value_name = "DIR")]
    pub(super) to: PathBuf,
    /// Check the whole directory before it gets its name, as `stele check` does. Every checksum of
    /// the backup is compared in any case.
    #[arg(long)]
    pub(super) verify: bool,
    /// Read no more than so many bytes in a second, as in 20MiB. [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub(super) bytes_per_second: Option<ByteSize>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}
