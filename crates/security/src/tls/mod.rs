//! TLS by `rustls`, with `ring` as its cryptography.
//!
//! `server.rs` reads what a server shows and whom it trusts, `client.rs` the same for a client,
//! `peer.rs` the name in a certificate, and `dev.rs` makes certificates for trying.

mod client;
mod dev;
mod peer;
mod server;

pub use client::{ClientFiles, server_name};
pub use dev::{DevNames, make_dev_certificates};
pub use peer::{expiry, name_of};
pub use server::{ClientCertificates, ServerFiles, ServerTls};

use crate::files;
use crate::{Error, Result};
use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads the certificates of a PEM file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let content = files::read(path)?;
    let certificates: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&content).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(Error::invalid(path, "has no certificate in PEM")),
        Err(error) => Err(Error::invalid(path, format_args!("malformed PEM: {error}"))),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let content = files::read(path)?;
    PrivateKeyDer::from_pem_slice(&content)
        .map_err(|error| Error::invalid(path, format_args!("has no private key in PEM: {error}")))
}

/// Reads the certificates of authorities that are trusted.
fn roots(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| Error::invalid(path, error))?;
    }
    Ok(roots)
}
