//! The client's side of TLS, for commands that talk to a server.

use super::{certificates, private_key, provider, roots};
use crate::{Error, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of a client's TLS, all of them PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// Authorities that are trusted; by default the ones of the operating system.
    pub ca: Option<PathBuf>,
    /// Certificate of the client and its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl ClientFiles {
    /// Returns every file that is read.
    pub fn paths(&self) -> Vec<&Path> {
        let mut paths: Vec<&Path> = self.ca.as_deref().into_iter().collect();
        if let Some((certificate, key)) = &self.certificate {
            paths.extend([certificate.as_path(), key.as_path()]);
        }
        paths
    }

    /// Reads all files. `protocol` is what the client speaks inside of TLS, such as `h2`.
    pub fn load(&self, protocol: &str) -> Result<Arc<ClientConfig>> {
        let trusted = self.ca.as_deref().map_or_else(system_roots, roots)?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::invalid(Path::new("TLS"), error))?
            .with_root_certificates(trusted);
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| Error::invalid(certificate, error))?,
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Ok(Arc::new(config))
    }
}

/// Returns the authorities of the operating system. Unreadable ones are left out.
fn system_roots() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Ok(roots)
}

/// Returns the name that the certificate of the server at `HOST:PORT` must have.
pub fn server_name(address: &str) -> Option<ServerName<'static>> {
    let (host, _) = address.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_server_is_its_host() {
        for (address, want) in [
            ("localhost:8086", Some("localhost")),
            ("127.0.0.1:8086", Some("127.0.0.1")),
            ("[::1]:8086", Some("::1")),
            ("stele.example:1", Some("stele.example")),
            ("localhost", None),
            (":8086", None),
            ("a b:1", None),
        ] {
            let name = server_name(address).map(|name| name.to_str().into_owned());
            assert_eq!(name.as_deref(), want, "{address}");
        }
    }
}
