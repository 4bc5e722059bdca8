//! Counts and times every gRPC request by method and outcome, and names it: its caller, and its id
//! (`request_id`), which its error tells.
//!
//! A gRPC outcome stands in the `grpc-status` header of a response without a body, else in the
//! trailers after it. So the response body is watched to its end; a body dropped before its end
//! is a request the client cancelled. Paths come from clients: one that is of no method of ours is
//! counted as `unknown`, however it ends, so that labels stay few.

use super::metrics::requests::{InFlight, Requests};
use super::request_id::{RequestId, RequestIds};
use super::security::authenticate;
use super::security::gate::Gate;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tower::{Layer, Service};

/// The layer that observes all services below it.
#[derive(Clone)]
pub(crate) struct Observe {
    requests: Requests,
    ids: RequestIds,
    gate: Option<Arc<Gate>>,
}

impl Observe {
    /// Counts into `requests`, names requests by `ids`, and lets callers in whom `gate` knows; without a
    /// gate, everybody.
    pub(crate) fn new(requests: Requests, ids: RequestIds, gate: Option<Arc<Gate>>) -> Self {
        Self { requests, ids, gate }
    }
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { inner, observe: self.clone() }
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub(crate) struct Observed<S> {
    inner: S,
    observe: Observe,
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Observe { requests, ids, gate } = &self.observe;
        let in_flight = requests.start(request.uri().path());
        let id = ids.of(request.headers());
        let known = match gate {
            Some(gate) => authenticate::admit(gate, &mut request, &id),
            None => true,
        };
        let answer = known.then(|| self.inner.call(request));
        Answer { answer, call: Some(Call { in_flight, id }) }
    }
}

/// A request that was begun.
struct Call {
    in_flight: InFlight,
    id: RequestId,
}

impl Call {
    /// Takes the outcome from headers or trailers, if they have it, and adds the id to an error.
    fn end(&mut self, headers: &mut HeaderMap) {
        self.in_flight.set_code(headers);
        if self.id.add_to(headers) {
            let (method, code) = (self.in_flight.method(), self.in_flight.code());
            tracing::debug!(request = %self.id, method, code, "a request failed");
        }
    }
}

pin_project! {
    /// The answer of a service whose requests are counted.
    pub(crate) struct Answer<F> {
        // `None` for a caller who is not known.
        #[pin]
        answer: Option<F>,
        // `None` when the answer was given.
        call: Option<Call>,
    }
}

impl<F, E> Future for Answer<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = Result<Response<ObservedBody>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = match this.answer.as_pin_mut() {
            Some(answer) => ready!(answer.poll(cx))?,
            None => authenticate::refusal().into_http(),
        };
        let Some(mut call) = this.call.take() else { return Poll::Pending };
        call.end(response.headers_mut());
        Poll::Ready(Ok(response.map(|inner| ObservedBody { inner, call })))
    }
}

/// A response body that counts its request when it ends or is dropped.
pub(crate) struct ObservedBody {
    inner: Body,
    call: Call,
}

impl http_body::Body for ObservedBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            self.call.end(trailers);
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
