//! The way of calls to the data service, past the router.
//!
//! A router costs each call allocations and another body. Reads and writes are nearly all calls, and one
//! look at the path tells them.

use crate::api::server::bigtable_server::BigtableServer;
use crate::call::authorize::Authorized;
use crate::call::bounds::service::Bounded;
use crate::call::deadline::InTime;
use crate::call::explain::Explained;
use crate::call::timing::Timed;
use crate::data::DataService;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use table::Store;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::service::Routes;
use tower_layer::Layer;
use tower_service::Service;

/// The data service, as it is called.
pub(crate) type DataServer<S> = BigtableServer<Authorized<DataService<S>>>;

/// A service with what every call passes.
pub(crate) type Called<T> = Timed<Explained<Bounded<InTime<T>>>>;

/// A layer around the services of [`crate::services_for`], which hands calls of the data service to it
/// directly.
pub struct DataFirst<S: Store>(pub(crate) Called<DataServer<S>>);

impl<S: Store> Clone for DataFirst<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Store> Layer<Routes> for DataFirst<S> {
    type Service = Direct<S>;

    fn layer(&self, routes: Routes) -> Direct<S> {
        Direct { data: self.0.clone(), routes }
    }
}

/// The data service, and the router of all.
pub struct Direct<S: Store> {
    data: Called<DataServer<S>>,
    routes: Routes,
}

impl<S: Store> Clone for Direct<S> {
    fn clone(&self) -> Self {
        Self { data: self.data.clone(), routes: self.routes.clone() }
    }
}

impl<S: Store> Service<Request<Body>> for Direct<S> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer<S>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(())) // As all services here always are.
    }

    fn call(&mut self, request: Request<Body>) -> Answer<S> {
        Answer(match is_of_data::<S>(request.uri().path()) {
            true => Way::Data(self.data.call(request)),
            false => Way::Routed(self.routes.call(request)),
        })
    }
}

/// Returns whether a path is of a method of the data service.
fn is_of_data<S: Store>(path: &str) -> bool {
    let below = path.strip_prefix('/').and_then(|path| path.strip_prefix(DataServer::<S>::NAME));
    below.is_some_and(|method| method.starts_with('/'))
}

/// The answer of a call.
pub struct Answer<S: Store>(Way<S>);

enum Way<S: Store> {
    Data(<Called<DataServer<S>> as Service<Request<Body>>>::Future),
    Routed(<Routes as Service<Request<Body>>>::Future),
}

impl<S: Store> Future for Answer<S> {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Way::Data(answer) => Pin::new(answer).poll(context),
            Way::Routed(answer) => Pin::new(answer).poll(context),
        }
    }
}
