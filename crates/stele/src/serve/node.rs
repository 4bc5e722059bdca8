//! The server as a node of a cluster.

use super::listen;
use super::security::cluster::ClusterTls;
use crate::cluster::directory;
use crate::config::{Cluster, Config, ConfigError};
use anyhow::Context;
use base::env::Env;
use cluster::directory::NodePlace;
use cluster::link::LinkOptions;
use cluster::member::{Member, MemberOptions};
use table::Local;
use tokio::net::TcpListener;

/// Binds the address for connections of other nodes.
pub(super) async fn bind(config: &Config) -> anyhow::Result<Option<TcpListener>> {
    let Some(cluster) = &config.cluster else { return Ok(None) };
    Ok(Some(listen::bind("cluster_listen", &cluster.listen, config.reach).await?))
}

/// Starts the node, which takes connections of `listener`. `tune` sets options of its tables.
pub(super) async fn start(
    config: &Config,
    cluster: &Cluster,
    (listener, tls): (TcpListener, ClusterTls),
    tune: impl FnOnce(Local) -> Local + Send + 'static,
) -> anyhow::Result<Member> {
    let env = Env::real(config.engine.background_threads);
    let seed = env.clock.now_micros() as u64 ^ u64::from(std::process::id()) << 48;
    let options = MemberOptions {
        env,
        dir: config.data_dir.clone(),
        engine: config.engine.clone(),
        directory: directory(&cluster.directory, tls.etcd)?,
        place: NodePlace {
            address: advertised(cluster, &listener)?,
            region: cluster.region.clone(),
            zone: cluster.zone.clone(),
        },
        listener,
        link: LinkOptions { tls: tls.links, ..LinkOptions::default() },
        seed,
    };
    let shown = config.data_dir.display();
    let started = Member::start(options, tune).await;
    started.with_context(|| format!("could not start the node of the cluster in {shown}"))
}

/// Returns the address at which others reach the listener.
fn advertised(cluster: &Cluster, listener: &TcpListener) -> anyhow::Result<String> {
    if let Some(address) = &cluster.advertise {
        return Ok(address.clone());
    }
    let address = listener.local_addr()?;
    if address.ip().is_unspecified() {
        let text =
            "advertise is not set; other nodes need an address for a node that listens on all";
        return Err(ConfigError(text.to_owned()).into());
    }
    Ok(address.to_string())
}
