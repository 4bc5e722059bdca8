//! The connections of clients: accepted, secured by TLS if the server has a certificate, and counted,
//! until one of the two fronts takes them, if they have a place (`entry.rs`).
//!
//! Invariants:
//! 1. A connection is counted from its acceptance until it is closed, whatever becomes of it.
//! 2. A handshake lasts [`Limits::handshake`] at most, and at most [`Limits::handshakes_max`] are in
//!    progress. One more ends the oldest: a silent client makes no other one wait.
//! 3. A handshake takes the certificates that were read last. An open connection keeps its own.

mod connection;
mod entry;
mod of_this_machine;

pub(crate) use connection::{Connection, Peer};
pub(crate) use entry::Entry;
pub(crate) use of_this_machine::Origin;

use super::security::metrics::{Handshakes, OpenConnection, SecurityMetrics};
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use security::tls::{ServerTls, name_of};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// Connections that are ready and that the front has not taken yet.
const READY_MAX: usize = 64;
/// Pause after an error of the listener, such as too many open files.
const ERROR_PAUSE: Duration = Duration::from_millis(50);

/// A front that takes connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// The front of gRPC, over HTTP/2.
    Bigtable,
    /// The front of probes, metrics and `/admin`.
    Http,
}

impl Front {
    /// Returns the name of the front in metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Bigtable => "bigtable",
            Self::Http => "http",
        }
    }

    fn config(self, tls: &ServerTls) -> Arc<ServerConfig> {
        match self {
            Self::Bigtable => Arc::clone(&tls.http2),
            Self::Http => Arc::clone(&tls.http1),
        }
    }
}

/// Certificates that are read last, for as long as the server runs.
pub(crate) type CurrentTls = Arc<ArcSwap<ServerTls>>;

/// Bounds of handshakes in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) handshake: Duration,
    pub(crate) handshakes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { handshake: Duration::from_secs(10), handshakes_max: 512 }
    }
}

/// Accepts connections until the receiver is dropped.
pub(crate) fn accept(
    listener: TcpListener,
    front: Front,
    tls: Option<CurrentTls>,
    metrics: &SecurityMetrics,
    limits: Limits,
) -> mpsc::Receiver<Connection> {
    let (out, ready) = mpsc::channel(READY_MAX);
    let handshakes = metrics.handshakes(front);
    let door = Door { front, tls, limits, handshakes, metrics: metrics.clone(), out };
    tokio::spawn(door.run(listener));
    ready
}

struct Door {
    front: Front,
    tls: Option<CurrentTls>,
    limits: Limits,
    handshakes: Handshakes,
    metrics: SecurityMetrics,
    out: mpsc::Sender<Connection>,
}

impl Door {
    async fn run(self, listener: TcpListener) {
        let (mut tasks, mut oldest) = (JoinSet::new(), VecDeque::new());
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = tasks.join_next() => continue,
                () = self.out.closed() => return,
            };
            match accepted {
                Ok((stream, address)) => {
                    self.enter(stream, address, &mut tasks, &mut oldest).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    /// Hands a plain connection over, or starts the handshake of one with TLS.
    async fn enter(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        tasks: &mut JoinSet<()>,
        oldest: &mut VecDeque<AbortHandle>,
    ) {
        let open = self.metrics.opened(self.front);
        // Without it an answer may wait for the client's acknowledgement; the connection works anyway.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else {
            let _ = self.out.send(Connection::plain(stream, open)).await;
            return;
        };
        if oldest.len() >= self.limits.handshakes_max {
            oldest.retain(|handshake| !handshake.is_finished());
        }
        if oldest.len() >= self.limits.handshakes_max
            && let Some(handshake) = oldest.pop_front()
        {
            handshake.abort();
            self.handshakes.crowded_out();
        }
        let acceptor = TlsAcceptor::from(self.front.config(&tls.load()));
        let (out, counted) = (self.out.clone(), self.handshakes.clone());
        let limit = self.limits.handshake;
        oldest.push_back(tasks.spawn(async move {
            if let Some(ready) = shake(acceptor, stream, address, open, limit, &counted).await {
                let _ = out.send(ready).await;
            }
        }));
    }
}

/// Secures a connection, within `limit`. Returns nothing for one that failed; it is counted.
async fn shake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    open: OpenConnection,
    limit: Duration,
    counted: &Handshakes,
) -> Option<Connection> {
    match tokio::time::timeout(limit, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            counted.done();
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let identity = shown.and_then(name_of).map(|name| format!("cert:{name}").into());
            let peer = Peer { identity, address: Some(address.ip()) };
            Some(Connection::secured(stream, peer, open))
        }
        Ok(Err(error)) => {
            counted.failed();
            tracing::debug!(%address, %error, "a TLS handshake failed");
            None
        }
        Err(_) => {
            counted.timed_out();
            None
        }
    }
}

#[cfg(test)]
mod tests;
