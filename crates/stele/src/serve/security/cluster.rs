//! TLS of a node with the rest of its cluster: certificates for other nodes and for etcd. Their files are
//! read again as the listeners' are.

use super::reload::{Reloaded, stamped};
use crate::cluster::loaded;
use crate::config::{Cluster, ConfigError};
use arc_swap::ArcSwap;
use cluster::link::LinkTls;
use rustls::{ClientConfig, ServerConfig};
use security::tls::{ClientCertificates, ClientFiles, ServerFiles};
use std::path::PathBuf;
use std::sync::Arc;

/// Configurations that new connections load.
pub(crate) struct ClusterTls {
    /// For connections from and to other nodes; `None` for plain ones.
    pub(crate) links: Option<LinkTls>,
    /// For connections to etcd; `None` for plain ones, and without etcd.
    pub(crate) etcd: Option<Arc<ArcSwap<ClientConfig>>>,
}

/// Reads the files. `tls` are the ones that the server's listeners use. Adds what is to be read again to `sets`.
pub(super) fn load(
    tls: Option<&ServerFiles>,
    cluster: &Cluster,
    sets: &mut Vec<Reloaded>,
) -> Result<ClusterTls, ConfigError> {
    let links = tls.map(|files| load_links(files, sets)).transpose()?;
    let etcd = cluster.directory.etcd_files();
    let etcd = etcd.map(|files| load_etcd(files, sets)).transpose()?;
    Ok(ClusterTls { links, etcd })
}

/// Nodes show each other the certificate of their server, and trust the authority of clients.
struct LinkFiles {
    server: ServerFiles,
    client: ClientFiles,
}

impl LinkFiles {
    fn of(files: &ServerFiles, ca: PathBuf) -> Self {
        let mut server = files.clone();
        server.clients = ClientCertificates::Required(ca.clone());
        let certificate = Some((files.certificate.clone(), files.key.clone()));
        Self { server, client: ClientFiles { ca: Some(ca), certificate } }
    }

    fn load(&self) -> security::Result<(Arc<ServerConfig>, Arc<ClientConfig>)> {
        Ok((self.server.load()?.http2, self.client.load("h2")?))
    }
}

fn load_links(files: &ServerFiles, sets: &mut Vec<Reloaded>) -> Result<LinkTls, ConfigError> {
    let ca = match &files.clients {
        ClientCertificates::Required(ca) | ClientCertificates::Optional(ca) => ca.clone(),
        ClientCertificates::None => {
            let text = "tls_client_ca is not set; nodes of a cluster with TLS need the authority that signed \
                        the certificates of the other nodes";
            return Err(ConfigError(text.to_owned()));
        }
    };
    let files = LinkFiles::of(files, ca);
    let seen = stamped(files.server.paths());
    let (server, client) = loaded(files.load())?;
    let current = LinkTls { server: Arc::new(server.into()), client: Arc::new(client.into()) };
    let slots = current.clone();
    sets.push(Reloaded::new("links", seen, move || {
        let (server, client) = files.load()?;
        slots.server.store(server);
        slots.client.store(client);
        Ok(None)
    }));
    Ok(current)
}

fn load_etcd(
    files: &ClientFiles,
    sets: &mut Vec<Reloaded>,
) -> Result<Arc<ArcSwap<ClientConfig>>, ConfigError> {
    let seen = stamped(files.paths());
    let current = Arc::new(ArcSwap::from(loaded(files.load("h2"))?));
    let (files, slot) = (files.clone(), Arc::clone(&current));
    sets.push(Reloaded::new("etcd", seen, move || {
        slot.store(files.load("h2")?);
        Ok(None)
    }));
    Ok(current)
}
