//! Binding addresses, loopback only unless the server is secured or told otherwise.

use crate::config::{ConfigError, Reach};
use anyhow::Context;
use std::net::SocketAddr;
use tokio::net::{TcpListener, lookup_host};

/// Listens on `address` (`HOST:PORT`). With [`Reach::Loopback`] an address that other machines can
/// reach is refused.
pub(crate) async fn bind(option: &str, address: &str, reach: Reach) -> anyhow::Result<TcpListener> {
    let resolved: Vec<SocketAddr> = lookup_host(address)
        .await
        .map_err(|error| {
            ConfigError(format!("invalid {option} {address:?}; use HOST:PORT: {error}"))
        })?
        .collect();
    let open = resolved.iter().find(|at| !at.ip().is_loopback());
    if reach == Reach::Loopback
        && let Some(open) = open
    {
        return Err(ConfigError(format!(
            "{option} {open} is reachable from other machines, which needs TLS and authentication; \
             pass --tls-cert, --tls-key, and --tls-client-ca or --identities, or listen on 127.0.0.1, or pass \
             --insecure-listen if everyone on that network may read and write all data"
        ))
        .into());
    }
    TcpListener::bind(resolved.as_slice()).await.with_context(|| {
        format!("could not listen on {address}; choose another address with {option}")
    })
}
