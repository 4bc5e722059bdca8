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
use crate::call::deadline::InTime;
use crate::call::explain::Explained;
use crate::data::DataService;
use std::sync::Arc;
use std::time::Duration;
use table::Store;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Largest request taken: one row as large as a row may be written, and room for its frame.
pub const REQUEST_BYTES_MAX: usize = table::limits::ROW_BYTES_MAX + (1 << 20);

/// Requests in flight on one connection; further ones wait at the client.
const STREAMS_PER_CONNECTION_MAX: u32 = 1_000;
/// Flow-control window of one stream, and of the whole connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// A connection that is silent for this long is pinged, and closed if no answer comes in time.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Requests that a client may cancel before they were looked at. Clients that cancel many (hedged
/// reads) must not be taken for an attack at the default of 20.
const PENDING_RESETS_MAX: usize = 1_000;

/// The gRPC services of the Bigtable API over `store`, to be added to a [`Server`]. Methods that
/// are not served are answered with `Unimplemented` and a message that names them. A call ends with
/// `DeadlineExceeded` at the deadline that its client gave it. Everybody may call everything.
pub fn routes<S: Store>(store: Arc<S>) -> Routes {
    routes_for(store, KnownNames::All, Callers::Anybody)
}

/// As [`routes`], for requests that use `known` names of instances and app profiles, from `callers`.
pub fn routes_for<S: Store>(store: Arc<S>, known: KnownNames, callers: Callers) -> Routes {
    let operations = Operations::new(store.clone());
    let directory = Arc::new(Directory::new(store.clone(), known));
    let data = Authorized::new(DataService::new(store, directory.clone()), callers);
    let data = BigtableServer::new(data).max_decoding_message_size(REQUEST_BYTES_MAX);
    let tables = TableAdminService::new(directory.clone(), operations.clone());
    let tables = BigtableTableAdminServer::new(Authorized::new(tables, callers));
    let instances = InstanceAdminService::new(directory, operations.clone());
    let instances = Authorized::new(instances, callers);
    let instances = BigtableInstanceAdminServer::new(instances);
    Routes::new(Explained(InTime(data)))
        .add_service(Explained(InTime(tables)))
        .add_service(Explained(InTime(instances)))
        .add_service(Explained(InTime(OperationsServer::new(Authorized::new(operations, callers)))))
}

/// A server with the connection settings that suit [`routes`].
pub fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS_MAX))
}

/// The connections that come to `listener`, without Nagle's delay.
pub fn incoming(listener: TcpListener) -> TcpIncoming {
    TcpIncoming::from(listener).with_nodelay(Some(true))
}
