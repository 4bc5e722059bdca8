//! A client of the services in the same process, on behalf of a visitor.

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::work::TIME_MAX;
use bigtable::CallerHandle;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2::bigtable_table_admin_client::BigtableTableAdminClient;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::bigtable_client::BigtableClient;
use std::convert::Infallible;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::service::Routes;
use tonic::IntoRequest;
use tower::Service;

/// Longest message of an answer. The services cut large answers into smaller ones for [`CLIENT`].
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Name of the console in the header by which clients tell theirs.
const CLIENT: &str = concat!("stele-console/", env!("CARGO_PKG_VERSION"));
const CLIENT_HEADER: &str = "x-goog-api-client";

/// The services, called by one visitor.
#[derive(Clone)]
pub(super) struct InProcess {
    routes: Routes,
    caller: Option<CallerHandle>,
}

impl Service<Request<Body>> for InProcess {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <Routes as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        <Routes as Service<Request<Body>>>::poll_ready(&mut self.routes, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().insert(CLIENT_HEADER, HeaderValue::from_static(CLIENT));
        if let Some(caller) = &self.caller {
            request.extensions_mut().insert(caller.clone());
        }
        self.routes.call(request)
    }
}

/// Returns a client of the data service.
pub(super) fn data(
    console: &Console,
    visitor: &Visitor,
) -> Result<BigtableClient<InProcess>, Failure> {
    let client = BigtableClient::new(services(console, visitor)?);
    Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX))
}

/// Returns a client of the service that administers tables.
pub(super) fn admin(
    console: &Console,
    visitor: &Visitor,
) -> Result<BigtableTableAdminClient<InProcess>, Failure> {
    Ok(BigtableTableAdminClient::new(services(console, visitor)?))
}

fn services(console: &Console, visitor: &Visitor) -> Result<InProcess, Failure> {
    let routes = console.server.routes().ok_or_else(Failure::opening)?.clone();
    Ok(InProcess { routes, caller: visitor.caller() })
}

/// Returns a request that ends after some seconds.
pub(super) fn in_time<T>(message: T) -> tonic::Request<T> {
    let mut request = message.into_request();
    request.set_timeout(TIME_MAX);
    request
}
