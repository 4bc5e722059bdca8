//! The certificate by which a node knows another one: it must be valid for the host at which the
//! directory has the node. So a certificate of the same authority that is of a client, or of another host,
//! makes no one this node. Nodes of one host are not told apart.

use super::greeting::{Greeting, Refusal};
use super::{Book, NodeEntry};
use rustls::client::verify_server_name;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use security::tls::server_name;
use std::sync::Arc;

/// The certificate that a connection showed, which an authority of nodes signed; `None` without TLS.
pub(super) type Shown = Option<Arc<CertificateDer<'static>>>;

/// Refuses a greeting of a connection that shows another certificate than its sender has.
pub(super) fn check(shown: &Shown, greeting: &Greeting, book: &dyn Book) -> Result<(), Refusal> {
    let Some(shown) = shown else { return Ok(()) };
    let node = greeting.from;
    let checked = match book.entry(node) {
        Some(NodeEntry { address, .. }) => is_of(shown, &address),
        None => Err("its address is not known here yet".to_owned()),
    };
    checked.map_err(|why| Refusal::Certificate { node, why })
}

fn is_of(shown: &CertificateDer<'_>, address: &str) -> Result<(), String> {
    let name = server_name(address).ok_or_else(|| format!("{address} is not HOST:PORT"))?;
    let parsed = ParsedCertificate::try_from(shown).map_err(|error| error.to_string())?;
    verify_server_name(&parsed, &name)
        .map_err(|error| format!("the node is at {address}, and the certificate is not ({error})"))
}
