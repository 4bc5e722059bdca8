//! Connections to an endpoint.

use crate::Error;
use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tower::service_fn;

/// Time that a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Silence after which a peer with calls in flight is asked if it is still there.
const PING_AFTER: Duration = Duration::from_secs(30);
/// Bytes that a peer may send ahead, so that the answers of scans keep flowing.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

/// A way to open streams to one server.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    fn address(&self) -> &str;
    /// Returns whether streams are by TLS.
    fn is_secured(&self) -> bool;
    /// Returns the header `authorization` of the next call. An error fails the call.
    fn authorization(&self) -> Result<Option<MetadataValue<Ascii>>, String>;
    async fn open(&self) -> io::Result<Box<dyn Stream>>;
}

/// A stream of bytes to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection whose calls carry the headers of the run.
pub(crate) type Service = InterceptedService<Channel, Headers>;

#[derive(Clone)]
pub(crate) struct Headers {
    dial: Arc<dyn Dial>,
    /// Routing parameters, by which Google's front ends choose a server.
    routing: MetadataValue<Ascii>,
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let headers = request.metadata_mut();
        headers.insert("x-goog-request-params", self.routing.clone());
        if let Some(token) = self.dial.authorization().map_err(Status::unauthenticated)? {
            headers.insert("authorization", token);
        }
        Ok(request)
    }
}

/// Opens one connection. `routing` are the parameters of its calls, such as the name of a table.
pub(crate) async fn connect(
    dial: &Arc<dyn Dial>,
    routing: &[(&str, &str)],
) -> Result<Service, Error> {
    let address = dial.address();
    let malformed = || Error::Setting(format!("--endpoint {address:?} is not HOST:PORT"));
    let scheme = if dial.is_secured() { "https" } else { "http" };
    let origin = format!("{scheme}://{address}").parse().map_err(|_| malformed())?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|_| malformed())?
        .origin(origin)
        .connect_timeout(CONNECT_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(CONNECT_TIMEOUT);
    let dialer = Arc::clone(dial);
    let open = service_fn(move |_| {
        let dialer = Arc::clone(&dialer);
        async move { dialer.open().await.map(TokioIo::new) }
    });
    let channel = endpoint
        .connect_with_connector(open)
        .await
        .map_err(|error| Error::Connect { address: address.to_owned(), source: Box::new(error) })?;
    let routing = form_urlencoded::Serializer::new(String::new()).extend_pairs(routing).finish();
    let routing = routing.parse().map_err(|_| malformed())?;
    Ok(InterceptedService::new(channel, Headers { dial: Arc::clone(dial), routing }))
}
