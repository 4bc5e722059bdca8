//! Counts and times every gRPC request by method and outcome.
//!
//! A gRPC outcome stands in the `grpc-status` header of a response without a body, else in the
//! trailers after it. So the response body is watched to its end; a body dropped before its end
//! is a request the client cancelled. Paths come from clients: one that is of no method of ours is
//! counted as `unknown`, however it ends, so that labels stay few.

use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntGauge, Registry, TextEncoder};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tower::{Layer, Service};

/// Upper ends of the latency buckets, in seconds.
const BUCKETS: [f64; 15] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
    30.0,
];

/// Codes of gRPC: 0 to 16.
const CODES: usize = 17;

/// The request counters. Cheap to clone; clones count into the same place.
#[derive(Clone)]
pub(crate) struct Requests {
    registry: Registry,
    counters: Arc<Counters>,
}

/// The metrics that requests change.
struct Counters {
    seconds: HistogramVec,
    /// The histograms of `seconds` that were needed so far, by method and code. A request finds its own
    /// without a look at the labels of others.
    resolved: [[OnceLock<Histogram>; CODES]; METHODS],
    in_flight: IntGauge,
}

impl Counters {
    fn observe(&self, method: Method, code: Code, seconds: f64) {
        let resolve = || self.seconds.with_label_values(&[method.name(), code_name(code)]);
        self.resolved[method.0][code as usize].get_or_init(resolve).observe(seconds);
    }
}

impl Requests {
    /// Counters at zero.
    pub(crate) fn new() -> Self {
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "stele_grpc_request_seconds",
                "Request latency until the end of the response, by method and status code.",
            )
            .buckets(BUCKETS.to_vec()),
            &["method", "code"],
        )
        .expect("the histogram's name, labels and buckets are well-formed");
        let in_flight = IntGauge::new("stele_grpc_requests_in_flight", "Requests in flight.")
            .expect("the gauge's name is well-formed");
        let registry = Registry::new();
        for collector in [
            Box::new(seconds.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(in_flight.clone()),
        ] {
            registry.register(collector).expect("each metric is registered once");
        }
        let resolved = std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new()));
        Self { registry, counters: Arc::new(Counters { seconds, resolved, in_flight }) }
    }

    /// The counters in Prometheus text form.
    pub(crate) fn render(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn start(&self, method: Method) -> InFlight {
        self.counters.in_flight.inc();
        let counters = Arc::clone(&self.counters);
        InFlight { counters, method, started: Instant::now(), code: Code::Cancelled }
    }
}

/// One request from its arrival on; counted when dropped.
struct InFlight {
    counters: Arc<Counters>,
    method: Method,
    started: Instant,
    code: Code,
}

impl InFlight {
    fn set_code(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            self.code = Code::from_bytes(status.as_bytes());
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let seconds = self.started.elapsed().as_secs_f64();
        self.counters.observe(self.method, self.code, seconds);
        self.counters.in_flight.dec();
    }
}

/// Returns the name of a code as gRPC writes it.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

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
        let in_flight = self.requests.start(Method::at(request.uri().path()));
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

/// Paths of the methods that are served besides the Bigtable ones.
const OTHER_METHODS: [&str; 2] = ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];
/// Label of all paths of no method.
const UNKNOWN: &str = "unknown";
/// Labels of methods, with that of unknown ones.
const METHODS: usize = bigtable::METHODS.len() + OTHER_METHODS.len() + 1;

/// A method that is counted apart, or all unknown ones: an index into the known paths.
#[derive(Debug, Clone, Copy)]
struct Method(usize);

impl Method {
    /// Returns the method at `path`.
    fn at(path: &str) -> Self {
        let mut known = bigtable::METHODS.iter().chain(&OTHER_METHODS);
        Self(known.position(|known| *known == path).unwrap_or(METHODS - 1))
    }

    /// Returns its label: `MutateRow` of `/google.bigtable.v2.Bigtable/MutateRow`.
    fn name(self) -> &'static str {
        let path = bigtable::METHODS.iter().chain(&OTHER_METHODS).nth(self.0);
        path.and_then(|path| path.rsplit('/').next()).unwrap_or(UNKNOWN)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(code: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", code.parse().expect("digits are a header value"));
        headers
    }

    #[test]
    fn a_request_is_counted_by_method_and_outcome() {
        let requests = Requests::new();
        requests
            .start(Method::at("/google.bigtable.v2.Bigtable/MutateRow"))
            .set_code(&headers("0"));
        drop(requests.start(Method::at("/google.bigtable.v2.Bigtable/ReadRows")));
        requests.start(Method::at("/grpc.health.v1.Health/Check")).set_code(&headers("0"));
        for path in ["/google.bigtable.v2.Bigtable/Invented", "/Invented/ReadRows", "/", ""] {
            requests.start(Method::at(path)).set_code(&headers("12"));
            drop(requests.start(Method::at(path)));
        }
        let open = requests.start(Method::at("/google.bigtable.v2.Bigtable/ReadRows"));
        let text = requests.render().unwrap();
        drop(open);
        for line in [
            "stele_grpc_request_seconds_count{code=\"OK\",method=\"MutateRow\"} 1",
            "stele_grpc_request_seconds_count{code=\"CANCELLED\",method=\"ReadRows\"} 1",
            "stele_grpc_request_seconds_count{code=\"OK\",method=\"Check\"} 1",
            "stele_grpc_request_seconds_count{code=\"UNIMPLEMENTED\",method=\"unknown\"} 4",
            "stele_grpc_request_seconds_count{code=\"CANCELLED\",method=\"unknown\"} 4",
            "stele_grpc_requests_in_flight 1",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} not in\n{text}");
        }
        assert!(!text.contains("Invented"), "{text}");
    }
}
