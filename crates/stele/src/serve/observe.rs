//! Counts and times every gRPC request by method and outcome.
//!
//! A gRPC outcome stands in the `grpc-status` header of a response without a body, else in the
//! trailers after it. So the response body is watched to its end; a body dropped before its end
//! is a request the client cancelled. Paths come from clients: one that is of no method of ours is
//! counted as `unknown`, however it ends, so that labels stay few.

use super::metrics::requests::{InFlight, Requests};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

/// The layer that observes all services below it.
#[derive(Clone)]
pub(crate) struct Observe {
    requests: Requests,
}

impl Observe {
    /// Counts into `requests`.
    pub(crate) fn new(requests: Requests) -> Self {
        Self { requests }
    }
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { inner, requests: self.requests.clone() }
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub(crate) struct Observed<S> {
    inner: S,
    requests: Requests,
}

impl<S, B> Service<Request<B>> for Observed<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<ObservedBody>;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let in_flight = self.requests.start(request.uri().path());
        Answer { answer: self.inner.call(request), in_flight: Some(in_flight) }
    }
}

pin_project! {
    /// The answer of a service whose requests are counted.
    pub(crate) struct Answer<F> {
        #[pin]
        answer: F,
        // `None` when the answer was given.
        in_flight: Option<InFlight>,
    }
}

impl<F, E> Future for Answer<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = Result<Response<ObservedBody>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.answer.poll(cx))?;
        let Some(mut in_flight) = this.in_flight.take() else { return Poll::Pending };
        in_flight.set_code(response.headers());
        Poll::Ready(Ok(response.map(|inner| ObservedBody { inner, in_flight })))
    }
}

/// A response body that counts its request when it ends or is dropped.
pub(crate) struct ObservedBody {
    inner: Body,
    in_flight: InFlight,
}

impl http_body::Body for ObservedBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            self.in_flight.set_code(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
