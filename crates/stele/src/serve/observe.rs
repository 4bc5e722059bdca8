//! Counts and times every gRPC request by method and outcome, and names it: its caller, and its id
//! (`request_id`), which its error tells.
//!
//! A gRPC outcome stands in the `grpc-status` header of a response without a body, else in the
//! trailers after it. So the response body is watched to its end; a body dropped before its end
//! is a request the client cancelled. Whatever is done for a request, in polls of its answer and of its body, is done
//! within its perf context, which explains it at its end (`explain`). Paths come from clients: one that is of no method of ours is
//! counted as `unknown`, however it ends, so that labels stay few.

use super::explain::{Ended, Explain, Protocol, Traced};
use super::metrics::requests::{InFlight, Requests};
use super::request_id::{RequestId, RequestIds};
use super::security::authenticate;
use super::security::gate::Gate;
use engine::perf_context::{self, PerfContext};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tower::{Layer, Service};

/// The layer that observes all services below it.
#[derive(Clone)]
pub(crate) struct Observe {
    requests: Requests,
    ids: RequestIds,
    explain: Explain,
    gate: Option<Arc<Gate>>,
}

impl Observe {
    /// Counts into `requests`, names requests by `ids`, explains them by `explain`, and lets callers in
    /// whom `gate` knows; without a gate, everybody.
    pub(crate) fn new(
        requests: Requests,
        ids: RequestIds,
        explain: Explain,
        gate: Option<Arc<Gate>>,
    ) -> Self {
        Self { requests, ids, explain, gate }
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
        let Observe { requests, ids, explain, gate } = &self.observe;
        let in_flight = requests.start(request.uri().path());
        let is_health = authenticate::is_health(request.uri().path());
        let id = ids.of(request.headers());
        let known = match gate {
            Some(gate) => authenticate::admit(gate, &mut request, &id),
            None => true,
        };
        let (context, traced) = explain.begin(request.headers(), known && !is_health);
        let mut context = Some(context);
        let inner = &mut self.inner;
        let begin = || known.then(|| inner.call(request));
        let answer = perf_context::within(&mut context, begin);
        let explain = explain.clone();
        Answer {
            answer,
            call: Some(Call { in_flight, id, explain, context, traced, answered_after: None }),
        }
    }
}

/// A request that was begun.
struct Call {
    in_flight: InFlight,
    id: RequestId,
    explain: Explain,
    /// `None` while something is done within it.
    context: Option<Arc<PerfContext>>,
    traced: Option<Traced>,
    answered_after: Option<Duration>,
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

impl Drop for Call {
    fn drop(&mut self) {
        let Some(context) = self.context.as_deref() else { return };
        self.explain.ended(&Ended {
            protocol: Protocol::Grpc,
            method: self.in_flight.method(),
            code: self.in_flight.code(),
            id: &self.id,
            took: self.in_flight.elapsed(),
            answered_after: self.answered_after,
            context,
            traced: self.traced,
        });
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

    impl<F> PinnedDrop for Answer<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // The waits of a request that is given up are counted for it.
            if let Some(call) = this.call {
                perf_context::within(&mut call.context, || this.answer.set(None));
            }
        }
    }
}

impl<F, E> Future for Answer<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = Result<Response<ObservedBody>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(call) = this.call else { return Poll::Pending };
        let mut response = match this.answer.as_pin_mut() {
            Some(answer) => ready!(perf_context::within(&mut call.context, || answer.poll(cx)))?,
            None => authenticate::refusal().into_http(),
        };
        let Some(mut call) = this.call.take() else { return Poll::Pending };
        call.answered_after = Some(call.in_flight.elapsed());
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
        let Self { inner, call } = &mut *self;
        let poll = || Pin::new(inner).poll_frame(cx);
        let mut frame = ready!(perf_context::within(&mut call.context, poll));
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

impl Drop for ObservedBody {
    fn drop(&mut self) {
        let Self { inner, call } = self;
        // The read that ends with the body is counted for the request.
        perf_context::within(&mut call.context, || drop(std::mem::take(inner)));
    }
}
