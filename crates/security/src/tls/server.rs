//! The server's side of TLS.

use super::{certificates, expiry, private_key, provider, roots};
use crate::{Error, Result};
use rustls::ServerConfig;
use rustls::server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of the protocols inside of TLS.
const HTTP_1: &[u8] = b"http/1.1";
const HTTP_2: &[u8] = b"h2";
const POSTGRESQL: &[u8] = b"postgresql";

/// Rule for the certificates that clients show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client is not asked for one.
    None,
    /// A client may show one, which an authority in the file must have signed.
    Optional(PathBuf),
    /// A client must show one, which an authority in the file must have signed.
    Required(PathBuf),
}

/// Files of a server's TLS, all of them PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// Certificate of the server, and those between it and an authority.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Rule for certificates of clients.
    pub clients: ClientCertificates,
}

/// Configurations that were read together.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// For connections of HTTP/2 alone, as gRPC needs it.
    pub http2: Arc<ServerConfig>,
    /// For connections of HTTP/1.1 alone.
    pub http1: Arc<ServerConfig>,
    /// For connections of PostgreSQL clients. One that names no protocol is served as well.
    pub postgresql: Arc<ServerConfig>,
    /// End of the server's certificate, in seconds since 1970.
    pub expires_at: i64,
}

impl ServerFiles {
    /// Returns every file that is read.
    pub fn paths(&self) -> Vec<&Path> {
        let mut paths = vec![self.certificate.as_path(), self.key.as_path()];
        paths.extend(self.clients.file());
        paths
    }

    /// Reads all files. An error leaves nothing behind.
    pub fn load(&self) -> Result<ServerTls> {
        let chain = certificates(&self.certificate)?;
        let expires_at = chain.first().and_then(expiry).unwrap_or_default();
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::invalid(&self.certificate, error))?
            .with_client_cert_verifier(self.clients.verifier()?)
            .with_single_cert(chain, private_key(&self.key)?)
            .map_err(|error| {
                let text = format!("does not go with the key {}: {error}", self.key.display());
                Error::invalid(&self.certificate, text)
            })?;
        let with = |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config)
        };
        let (http2, http1, postgresql) = (with(HTTP_2), with(HTTP_1), with(POSTGRESQL));
        Ok(ServerTls { http2, http1, postgresql, expires_at })
    }
}

impl ClientCertificates {
    fn file(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::Optional(file) | Self::Required(file) => Some(file),
        }
    }

    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>> {
        let Some(file) = self.file() else { return Ok(Arc::new(NoClientAuth)) };
        let trusted = Arc::new(roots(file)?);
        let builder = WebPkiClientVerifier::builder_with_provider(trusted, provider());
        let builder = match self {
            Self::Optional(_) => builder.allow_unauthenticated(),
            _ => builder,
        };
        let built = builder.build().map_err(|error| Error::invalid(file, error))?;
        Ok(built)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{DevNames, make_dev_certificates};

    fn files(dir: &Path, clients: ClientCertificates) -> ServerFiles {
        ServerFiles {
            certificate: dir.join("server.pem"),
            key: dir.join("server-key.pem"),
            clients,
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_refused_by_name() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for dir in [&dir, &other] {
            make_dev_certificates(dir.path(), &DevNames::default()).unwrap();
        }
        let dir = dir.path();
        let ca = dir.join("ca.pem");
        let good = files(dir, ClientCertificates::Required(ca.clone()));
        assert!(good.load().is_ok());
        assert_eq!(good.paths().len(), 3);
        let garbage = dir.join("garbage.pem");
        std::fs::write(&garbage, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .unwrap();
        let empty = dir.join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        for (wrong, file, said) in [
            (
                ServerFiles { key: other.path().join("server-key.pem"), ..good.clone() },
                "server.pem",
                "does not go with the key",
            ),
            (ServerFiles { key: ca.clone(), ..good.clone() }, "ca.pem", "no private key"),
            (
                ServerFiles { certificate: dir.join("server-key.pem"), ..good.clone() },
                "server-key.pem",
                "no certificate",
            ),
            (ServerFiles { certificate: garbage.clone(), ..good.clone() }, "garbage.pem", ""),
            (files(dir, ClientCertificates::Required(garbage)), "garbage.pem", ""),
            (files(dir, ClientCertificates::Optional(empty)), "empty.pem", "no certificate"),
            (
                files(dir, ClientCertificates::Optional(dir.join("gone.pem"))),
                "gone.pem",
                "No such file",
            ),
        ] {
            let text = wrong.load().expect_err(said).to_string();
            assert!(text.contains(file) && text.contains(said), "{text}");
            assert!(!text.contains("PRIVATE"), "{text}");
        }
    }

    #[test]
    fn each_configuration_offers_one_protocol() {
        let dir = tempfile::tempdir().unwrap();
        make_dev_certificates(dir.path(), &DevNames::default()).unwrap();
        let tls = files(dir.path(), ClientCertificates::None).load().unwrap();
        assert_eq!(tls.http2.alpn_protocols, [b"h2".to_vec()]);
        assert_eq!(tls.http1.alpn_protocols, [b"http/1.1".to_vec()]);
        assert_eq!(tls.postgresql.alpn_protocols, [b"postgresql".to_vec()]);
        assert!(tls.expires_at > 1_700_000_000);
    }
}
