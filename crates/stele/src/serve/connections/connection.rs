//! One connection of a client, plain or by TLS, and what is known of the client.

use super::super::security::metrics::OpenConnection;
use std::io::{IoSlice, Result};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// The other end of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    /// Identity by the certificate that the client showed, which was verified: `cert:NAME`.
    pub(crate) identity: Option<Arc<str>>,
    /// Address that the connection comes from, if the system tells it.
    pub(crate) address: Option<IpAddr>,
}

impl Peer {
    /// Returns whether the connection comes from this machine. One of unknown origin counts as from beyond.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        self.address.is_some_and(|address| address.to_canonical().is_loopback())
    }
}

/// An accepted connection. Dropping it closes and uncounts it.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    peer: Peer,
    _open: OpenConnection,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    pub(super) fn plain(stream: TcpStream, open: OpenConnection) -> Self {
        let address = stream.peer_addr().ok().map(|address| address.ip());
        let peer = Peer { address, ..Peer::default() };
        Self { stream: Stream::Plain(stream), peer, _open: open }
    }

    pub(super) fn secured(stream: TlsStream<TcpStream>, peer: Peer, open: OpenConnection) -> Self {
        Self { stream: Stream::Tls(Box::new(stream)), peer, _open: open }
    }

    /// Returns the address of the client.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        match &self.stream {
            Stream::Plain(stream) => stream.peer_addr(),
            Stream::Tls(stream) => stream.get_ref().0.peer_addr(),
        }
    }

    /// Returns the other end of it.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

/// Calls the same method of whichever stream there is.
macro_rules! on_stream {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.get_mut().stream {
            Stream::Plain($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Stream::Tls($stream) => {
                let $stream = Pin::new(&mut **$stream);
                $call
            }
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        on_stream!(self, stream => stream.poll_read(context, into))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        on_stream!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        on_stream!(self, stream => stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        on_stream!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        on_stream!(self, stream => stream.poll_shutdown(context))
    }
}
