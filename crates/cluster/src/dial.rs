//! Connections to a server of gRPC: plain or by TLS.

use arc_swap::ArcSwap;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use security::tls::server_name;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Longest time for a connection, with the handshake of TLS.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// When a connection is asked for a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pings {
    /// Pause of the connection after which it is asked.
    pub(crate) after: Duration,
    /// Time that it has for an answer.
    pub(crate) bound: Duration,
    /// True if connections without a call are asked too. A server may take offence.
    pub(crate) idle: bool,
}

/// A server and how to reach it.
#[derive(Debug, Clone)]
pub(crate) struct Dialed {
    /// Address of the server, `HOST:PORT`.
    pub(crate) address: String,
    /// Configuration of TLS, which each new connection loads; `None` connects without.
    pub(crate) tls: Option<Arc<ArcSwap<ClientConfig>>>,
}

/// A stream to a server.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Dialed {
    async fn open(&self) -> Result<Box<dyn Stream>> {
        let opened = tokio::time::timeout(CONNECT_MAX, self.open_slowly()).await;
        opened.unwrap_or_else(|_| {
            let seconds = CONNECT_MAX.as_secs();
            let text = format!("{} did not take a connection in {seconds} s", self.address);
            Err(Error::new(ErrorKind::TimedOut, text))
        })
    }

    async fn open_slowly(&self) -> Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = server_name(&self.address).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, format!("{} is not HOST:PORT", self.address))
        })?;
        Ok(Box::new(TlsConnector::from(tls.load_full()).connect(name, stream).await?))
    }

    /// Returns a channel that connects when it is first used, and again after it broke. A peer that
    /// answers no ping breaks it.
    pub(crate) fn channel(&self, endpoint: Endpoint, pings: Pings) -> Channel {
        let server = self.clone();
        let open = service_fn(move |_| {
            let server = server.clone();
            async move { server.open().await.map(TokioIo::new) }
        });
        endpoint
            // Calls that are dropped are reset. Servers that are dialled are trusted: none is cut off for
            // sending what was on its way.
            .http2_max_local_error_reset_streams(None)
            .http2_keep_alive_interval(pings.after)
            .keep_alive_timeout(pings.bound)
            .keep_alive_while_idle(pings.idle)
            .connect_with_connector_lazy(open)
    }
}

/// Returns the endpoint of a server at `HOST:PORT`; an error if that is not an address.
pub(crate) fn endpoint(server: &Dialed) -> std::result::Result<Endpoint, String> {
    let scheme = if server.tls.is_some() { "https" } else { "http" };
    let wrong = |_| format!("{:?} is not HOST:PORT", server.address);
    if server.address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        return Err(format!("{:?} is not HOST:PORT", server.address));
    }
    // The connector does TLS: the scheme that tonic looks at is always http.
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).map_err(wrong)?;
    let origin = format!("{scheme}://{}", server.address);
    let origin = origin.parse().map_err(|_| format!("{:?} is not HOST:PORT", server.address))?;
    Ok(endpoint.origin(origin))
}

/// Returns whether a call failed before its endpoint could get it: the connection failed.
pub(crate) fn was_not_sent(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Returns what a status says, with the error of the connection below it.
pub(crate) fn told(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
