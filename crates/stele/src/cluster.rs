//! `stele cluster`: founds a cluster.

use crate::config::{ConfigError, DirectoryAt, EtcdTls};
use arc_swap::ArcSwap;
use base::env::{Clock, FileSystem, RealFileSystem, SystemClock};
use clap::{Args, Subcommand};
use cluster::directory::{
    ClusterRecord, Directory, EtcdDirectory, EtcdOptions, LocalDirectory, found,
};
use engine::ClusterId;
use rustls::ClientConfig;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// Prefix of all keys of a cluster in etcd.
const PREFIX: &str = "stele/";

/// Arguments of the command `cluster`.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Found a cluster in an etcd that has none. Then start its nodes with serve --join.
    Init(InitArgs),
}

#[derive(Debug, Args)]
struct InitArgs {
    /// Addresses of the members of etcd as HOST:PORT, or https://HOST:PORT, separated by commas; or
    /// file:PATH for nodes of one machine.
    #[arg(long, value_name = "ETCD")]
    etcd: String,

    #[command(flatten)]
    tls: EtcdTls,

    /// Replicas of each tablet, 1 to 7. An odd number is best: 3 replicas outlive the loss of one node,
    /// 5 that of two. It cannot be changed later.
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u8).range(1..=7))]
    replicas: u8,
}

/// Founds a cluster and tells how to go on.
pub(crate) fn run(args: &ClusterArgs) -> anyhow::Result<ExitCode> {
    let What::Init(InitArgs { etcd, tls, replicas }) = &args.what;
    let id = init(&DirectoryAt::resolve(etcd, tls)?, *replicas)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "Founded cluster {id} with {replicas} replicas of each tablet")?;
    writeln!(out, "Start at least {replicas} nodes, each with a data directory of its own:")?;
    writeln!(out, "  stele serve --join {etcd} --data-dir DIR --cluster-listen HOST:PORT")?;
    Ok(ExitCode::SUCCESS)
}

/// Founds a cluster, and returns its id.
pub(crate) fn init(at: &DirectoryAt, replicas: u8) -> anyhow::Result<ClusterId> {
    let id = ClusterId(RealFileSystem.unique()?);
    let record = ClusterRecord { id, replicas, founded_micros: SystemClock.now_micros() };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let tls = at.etcd_files().map(|files| loaded(files.load("h2"))).transpose()?;
    let tls = tls.map(|tls| Arc::new(tls.into()));
    let founded =
        runtime.block_on(async { anyhow::Ok(found(&*directory(at, tls)?, &record).await?) });
    founded.map(|()| id)
}

/// Returns the directory of a cluster, to whose etcd `tls` connects. Its futures run in the runtime of the
/// caller.
pub(crate) fn directory(
    at: &DirectoryAt,
    tls: Option<Arc<ArcSwap<ClientConfig>>>,
) -> anyhow::Result<Arc<dyn Directory>> {
    Ok(match at {
        DirectoryAt::File(path) => Arc::new(LocalDirectory::new(path, Arc::new(SystemClock))),
        DirectoryAt::Etcd(etcd) => {
            let (endpoints, prefix) = (etcd.members.clone(), PREFIX.to_owned());
            let options = EtcdOptions { endpoints, tls, prefix };
            Arc::new(EtcdDirectory::new(options)?)
        }
    })
}

/// Returns what was read from files that the configuration names.
pub(crate) fn loaded<T>(read: security::Result<T>) -> Result<T, ConfigError> {
    read.map_err(|error| ConfigError(error.to_string()))
}
