//! The layer below which each gRPC request has a caller.

use super::gate::{Gate, UNAUTHENTICATED};
use crate::serve::connections::Peer;
use bigtable::CallerHandle;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

/// Service that answers everybody: probes have no credentials.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// The layer. Without a gate it lets everything through.
#[derive(Clone)]
pub(crate) struct Authenticate(pub(crate) Option<Arc<Gate>>);

impl<S> Layer<S> for Authenticate {
    type Service = Authenticated<S>;

    fn layer(&self, inner: S) -> Authenticated<S> {
        Authenticated { inner, gate: self.0.clone() }
    }
}

/// A service whose requests have callers.
#[derive(Clone)]
pub(crate) struct Authenticated<S> {
    inner: S,
    gate: Option<Arc<Gate>>,
}

impl<S> Service<Request<Body>> for Authenticated<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Unpin,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(gate) = &self.gate else { return Answer::Served(self.inner.call(request)) };
        let path = request.uri().path();
        if path.starts_with(HEALTH) {
            return Answer::Served(self.inner.call(request));
        }
        let unknown = Peer::default();
        let peer = request.extensions().get::<Peer>().unwrap_or(&unknown);
        match gate.admit(peer, request.headers()) {
            Some(admitted) => {
                request.extensions_mut().insert(CallerHandle(Arc::new(admitted)));
                Answer::Served(self.inner.call(request))
            }
            None => {
                gate.note_stranger(path);
                Answer::Refused
            }
        }
    }
}

/// The answer of a service, or a refusal.
#[derive(Debug)]
pub(crate) enum Answer<F> {
    Served(F),
    Refused,
}

impl<F> Future for Answer<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match &mut *self {
            Self::Served(answer) => Pin::new(answer).poll(context),
            Self::Refused => Poll::Ready(Ok(Status::unauthenticated(UNAUTHENTICATED).into_http())),
        }
    }
}
