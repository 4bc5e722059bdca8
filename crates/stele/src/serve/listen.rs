//! Binding addresses, loopback only unless told otherwise.

use crate::config::ConfigError;
use anyhow::Context;
use std::net::SocketAddr;
use tokio::net::{TcpListener, lookup_host};

/// Listens on `address` (`HOST:PORT`). An address that other machines can reach is refused unless
/// `insecure`, since there is neither encryption nor authentication yet.
pub(crate) async fn bind(
    option: &str,
    address: &str,
    insecure: bool,
) -> anyhow::Result<TcpListener> {
    let resolved: Vec<SocketAddr> = lookup_host(address)
        .await
        .map_err(|error| {
            ConfigError(format!("invalid {option} {address:?}; use HOST:PORT: {error}"))
        })?
        .collect();
    if !insecure && let Some(open) = resolved.iter().find(|at| !at.ip().is_loopback()) {
        return Err(ConfigError(format!(
            "{option} {open} is reachable from other machines, and connections are neither \
             encrypted nor authenticated; listen on 127.0.0.1 behind a TLS proxy, or pass \
             --insecure-listen if everyone on that network may read and write all data"
        ))
        .into());
    }
    TcpListener::bind(resolved.as_slice()).await.with_context(|| {
        format!("could not listen on {address}; choose another address with {option}")
    })
}
