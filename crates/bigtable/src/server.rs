//! The services put together, and the HTTP/2 settings they are served with.

use crate::admin::directory::{Directory, KnownNames};
use crate::admin::instances::InstanceAdminService;
use crate::admin::operations::Operations;
use crate::admin::tables::TableAdminService;
use crate::api::server::bigtable_instance_admin_server::BigtableInstanceAdminServer;
use crate::api::server::bigtable_server::BigtableServer;
use crate::api::server::bigtable_table_admin_server::BigtableTableAdminServer;
use crate::api::server::operations_server::OperationsServer;
use crate::call::authorize::{Authorized, Callers};
use crate::call::bounds::Bounds;
use crate::call::bounds::service::Bounded;
use crate::call::deadline::InTime;
use crate::call::explain::Explained;
use crate::call::timing::Timed;
use crate::connection::{ConnectionLimits, Guarded, Places};
use crate::data::DataService;
use crate::direct::{Called, DataFirst};
use futures::{Stream, TryStreamExt};
use std::convert::Infallible;
use std::future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use table::Store;
use tokio::net::{TcpListener, TcpStream};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tower_service::Service;

/// Largest request taken: one row as large as a row may be written, and room for its frame.
pub const REQUEST_BYTES_MAX: usize = table::limits::ROW_BYTES_MAX + (1 << 20);

/// Flow-control window of one stream, and of the whole connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// A connection that is silent for this long is pinged, and closed if no answer comes in time.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Requests that a client may cancel before they were looked at. Clients that cancel many (hedged
/// reads) must not be taken for an attack at the default of 20.
const PENDING_RESETS_MAX: usize = 1_000;

/// Memory for which there may be one more call in flight.
const CALL_BYTES: usize = 16 << 10;
/// Calls in flight that a server of any memory takes.
const CALLS_MIN: usize = 2_000;
/// Part of the memory that requests may have while they are uploaded.
const UPLOADS_PART: usize = 4;
/// Part of the memory that rows may have that were read and not taken.
const ANSWERS_PART: usize = 4;

/// Bounds of what clients may make a server hold and do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open connections in all, and from one address (of IPv6: one network of 64 bits).
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    /// Bounds of each connection by itself.
    pub connection: ConnectionLimits,
    /// Requests in flight on one connection; further ones wait at the client.
    pub streams_per_connection_max: u32,
    /// Calls in flight in all, and of one identity.
    pub calls_max: usize,
    pub calls_per_identity_max: usize,
    /// Bytes of all requests that are being uploaded, of which an identity may have half. One alone may be
    /// as large as its method allows.
    pub upload_bytes_max: usize,
    /// Bytes of all rows that were read and that clients have not taken, of which an identity may have
    /// half. One large row alone may have more, and each read has a few small batches.
    pub answer_bytes_max: usize,
}

impl Limits {
    /// Bounds that suit a memory budget.
    pub fn within(memory_bytes: usize) -> Self {
        let calls_max = (memory_bytes / CALL_BYTES).max(CALLS_MIN);
        Self {
            connections_max: 10_000,
            connections_per_address_max: 5_000,
            connection: ConnectionLimits::default(),
            streams_per_connection_max: 1_000,
            calls_max,
            calls_per_identity_max: calls_max.div_ceil(2),
            upload_bytes_max: memory_bytes / UPLOADS_PART,
            answer_bytes_max: memory_bytes / ANSWERS_PART,
        }
    }
}

/// The gRPC services of the Bigtable API over `store`, to be added to a [`Server`]. Methods that
/// are not served are answered with `Unimplemented` and a message that names them. A call ends with
/// `DeadlineExceeded` at the deadline that its client gave it. Everybody may call everything.
pub fn routes<S: Store>(store: Arc<S>, limits: &Limits) -> Routes {
    routes_for(store, KnownNames::All, Callers::Anybody, &Bounds::new(limits))
}

/// As [`routes`], for requests that use `known` names of instances and app profiles, from `callers`,
/// within `bounds`.
pub fn routes_for<S: Store>(
    store: Arc<S>,
    known: KnownNames,
    callers: Callers,
    bounds: &Bounds,
) -> Routes {
    services_for(store, known, callers, bounds).0
}

/// As [`routes_for`], with a layer for the [`Server`] that serves them: calls of the data service cost
/// less below it.
pub fn services_for<S: Store>(
    store: Arc<S>,
    known: KnownNames,
    callers: Callers,
    bounds: &Bounds,
) -> (Routes, DataFirst<S>) {
    let operations = Operations::new(store.clone());
    let directory = Arc::new(Directory::new(store.clone(), known));
    let data = Authorized::new(DataService::new(store, directory.clone()), callers);
    let data = BigtableServer::new(data).max_decoding_message_size(REQUEST_BYTES_MAX);
    let data = called(data, bounds);
    let tables = TableAdminService::new(directory.clone(), operations.clone());
    let tables = BigtableTableAdminServer::new(Authorized::new(tables, callers));
    let instances = InstanceAdminService::new(directory, operations.clone());
    let instances = Authorized::new(instances, callers);
    let instances = BigtableInstanceAdminServer::new(instances);
    let operations = OperationsServer::new(Authorized::new(operations, callers));
    let routes = Routes::new(data.clone())
        .add_service(called(tables, bounds))
        .add_service(called(instances, bounds))
        .add_service(called(operations, bounds));
    (routes, DataFirst(data))
}

/// Returns `service` with what every call passes.
fn called<T>(service: T, bounds: &Bounds) -> Called<T> {
    Timed(Explained(Bounded::new(InTime(service), bounds)))
}

/// Returns `service` with what every call of [`routes`] passes, for a service beside them.
pub fn bounded<T>(
    service: T,
    bounds: &Bounds,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
+ NamedService
+ Clone
+ Send
+ Sync
+ 'static
+ use<T>
where
    T: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    T: NamedService + Clone + Send + Sync + 'static,
    T::Future: Send + Unpin + 'static,
{
    called(service, bounds)
}

/// A server with the connection settings that suit [`routes`].
pub fn server(limits: &Limits) -> Server {
    Server::builder()
        .max_concurrent_streams(limits.streams_per_connection_max)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS_MAX))
}

/// The connections that come to `listener` and have a place, without Nagle's delay and guarded. The
/// others are closed.
pub fn incoming(
    listener: TcpListener,
    limits: &Limits,
) -> impl Stream<Item = io::Result<Guarded<TcpStream>>> + Send + 'static + use<> {
    let places = Places::new(limits.connections_max, limits.connections_per_address_max);
    let limits = limits.connection;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    incoming.try_filter_map(move |stream| {
        let place = stream.peer_addr().ok().and_then(|peer| places.take(peer.ip()).ok());
        future::ready(Ok(place.map(|place| Guarded::new(stream, limits).holding(place))))
    })
}
