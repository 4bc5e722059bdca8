//! Counts and times every gRPC request by method and outcome.
//!
//! A gRPC outcome stands in the `grpc-status` header of a response without a body, else in the
//! trailers after it. So the response body is watched to its end; a body dropped before its end
//! is a request the client cancelled. Paths come from clients: one that is of no method of ours is
//! counted as `unknown`, however it ends, so that labels stay few.

use http_body::{Frame, SizeHint};
use prometheus::{HistogramOpts, HistogramVec, IntGauge, Registry, TextEncoder};
use std::future::Future;
use std::pin::Pin;
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
const CANCELLED: &str = "CANCELLED";

/// The request counters. Cheap to clone; clones count into the same place.
#[derive(Clone)]
pub(crate) struct Requests {
    registry: Registry,
    seconds: HistogramVec,
    in_flight: IntGauge,
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
        Self { registry, seconds, in_flight }
    }

    /// The counters in Prometheus text form.
    pub(crate) fn render(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn start(&self, method: &'static str) -> InFlight {
        self.in_flight.inc();
        InFlight { requests: self.clone(), method, started: Instant::now(), code: CANCELLED }
    }
}

/// One request from its arrival on; counted when dropped.
struct InFlight {
    requests: Requests,
    method: &'static str,
    started: Instant,
    code: &'static str,
}

impl InFlight {
    fn set_code(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            self.code = code_name(Code::from_bytes(status.as_bytes()));
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let seconds = self.started.elapsed().as_secs_f64();
        self.requests.seconds.with_label_values(&[self.method, self.code]).observe(seconds);
        self.requests.in_flight.dec();
    }
}

/// Returns the name of a code as gRPC writes it.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => CANCELLED,
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
    S::Future: Send + 'static,
{
    type Response = Response<ObservedBody>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut in_flight = self.requests.start(method(request.uri().path()));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            in_flight.set_code(response.headers());
            Ok(response.map(|inner| ObservedBody { inner, in_flight }))
        })
    }
}

/// Paths of the methods that are served besides the Bigtable ones.
const OTHER_METHODS: [&str; 2] = ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];
/// Label of all paths of no method.
const UNKNOWN: &str = "unknown";

/// Returns the name of the method at `path`: `MutateRow` of `/google.bigtable.v2.Bigtable/MutateRow`.
fn method(path: &str) -> &'static str {
    let known = bigtable::METHODS.iter().chain(&OTHER_METHODS).find(|known| **known == path);
    known.and_then(|known| known.rsplit('/').next()).unwrap_or(UNKNOWN)
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
        requests.start(method("/google.bigtable.v2.Bigtable/MutateRow")).set_code(&headers("0"));
        drop(requests.start(method("/google.bigtable.v2.Bigtable/ReadRows")));
        requests.start(method("/grpc.health.v1.Health/Check")).set_code(&headers("0"));
        for path in ["/google.bigtable.v2.Bigtable/Invented", "/Invented/ReadRows", "/", ""] {
            requests.start(method(path)).set_code(&headers("12"));
            drop(requests.start(method(path)));
        }
        let open = requests.start(method("/google.bigtable.v2.Bigtable/ReadRows"));
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
