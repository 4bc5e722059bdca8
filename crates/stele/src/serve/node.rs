//! The server as a node of a cluster.

use super::listen;
use crate::cluster::{directory, loaded};
use crate::config::{Cluster, Config, ConfigError};
use anyhow::Context;
use base::env::Env;
use cluster::directory::NodePlace;
use cluster::link::{LinkOptions, LinkTls};
use cluster::member::{Member, MemberOptions};
use security::tls::{ClientCertificates, ClientFiles};
use table::Local;
use tokio::net::TcpListener;

/// Binds the address for connections of other nodes.
pub(super) async fn bind(config: &Config) -> anyhow::Result<Option<TcpListener>> {
    let Some(cluster) = &config.cluster else { return Ok(None) };
    Ok(Some(listen::bind("cluster_listen", &cluster.listen, config.reach).await?))
}

/// Starts the node. `tune` sets options of its tables.
pub(super) async fn start(
    config: &Config,
    cluster: &Cluster,
    listener: TcpListener,
    tune: impl FnOnce(Local) -> Local + Send + 'static,
) -> anyhow::Result<Member> {
    let env = Env::real(config.engine.background_threads);
    let seed = env.clock.now_micros() as u64 ^ u64::from(std::process::id()) << 48;
    let options = MemberOptions {
        env,
        dir: config.data_dir.clone(),
        engine: config.engine.clone(),
        directory: directory(&cluster.directory)?,
        place: NodePlace {
            address: advertised(cluster, &listener)?,
            region: cluster.region.clone(),
            zone: cluster.zone.clone(),
        },
        listener,
        link: LinkOptions { tls: link_tls(config)?, ..LinkOptions::default() },
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

/// Nodes show each other the certificate of their server, and trust the authority of clients.
fn link_tls(config: &Config) -> anyhow::Result<Option<LinkTls>> {
    let Some(files) = &config.security.tls else { return Ok(None) };
    let ca = match &files.clients {
        ClientCertificates::Required(ca) | ClientCertificates::Optional(ca) => ca.clone(),
        ClientCertificates::None => {
            let text = "tls_client_ca is not set; nodes of a cluster with TLS need the authority that signed \
                        the certificates of the other nodes";
            return Err(ConfigError(text.to_owned()).into());
        }
    };
    let mut server = files.clone();
    server.clients = ClientCertificates::Required(ca.clone());
    let certificate = Some((files.certificate.clone(), files.key.clone()));
    let client = ClientFiles { ca: Some(ca), certificate };
    Ok(Some(LinkTls { server: loaded(server.load())?.http2, client: loaded(client.load("h2"))? }))
}
