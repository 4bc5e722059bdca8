//! Counters of gRPC requests by method and status code.
//!
//! A request finds its histogram by two numbers: there is no look at the labels of others, and threads
//! seldom meet on a cache line.

use super::Families;
use super::families::MICROS_PER_SECOND;
use base::histogram::{Buckets, Histogram};
use googleapis_tonic_google_rpc::google::rpc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};
use tonic::Code;
use tonic::codegen::http::HeaderMap;

/// Codes of gRPC: 0 to 16.
const CODES: usize = 17;

/// The request counters. Cheap to clone; clones count into the same place.
#[derive(Clone)]
pub(crate) struct Requests(Arc<Counters>);

/// The metrics that requests change.
struct Counters {
    /// Latencies by method and code; made when the first request ends so.
    latency: [[OnceLock<Histogram>; CODES]; METHODS],
    /// Requests in flight. Relaxed: guards nothing else.
    in_flight: AtomicI64,
}

impl Requests {
    /// Returns counters that begin at zero.
    pub(crate) fn new() -> Self {
        let latency = std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new()));
        Self(Arc::new(Counters { latency, in_flight: AtomicI64::new(0) }))
    }

    /// Adds the families of requests.
    pub(super) fn add(&self, families: &mut Families) {
        self.each(|method, code, latency| {
            families.histogram(
                "stele_grpc_request_seconds",
                "Request latency until the end of the response, by method and status code.",
                &[("code", code), ("method", method)],
                &latency,
                MICROS_PER_SECOND,
            );
        });
        let help = "Requests in flight.";
        families.gauge("stele_grpc_requests_in_flight", help, &[], self.in_flight() as f64);
    }

    /// Tells the latency, in microseconds, of each method and code that requests had.
    pub(crate) fn each(&self, mut tell: impl FnMut(&'static str, &'static str, Buckets)) {
        for (method, codes) in self.0.latency.iter().enumerate() {
            for (code, histogram) in codes.iter().enumerate() {
                let Some(histogram) = histogram.get() else { continue };
                let code = code_name(Code::from_i32(code as i32));
                tell(Method(method).name(), code, histogram.read());
            }
        }
    }

    /// Returns the number of requests in flight.
    pub(crate) fn in_flight(&self) -> i64 {
        self.0.in_flight.load(Ordering::Relaxed).max(0)
    }

    /// Begins a request of the method at `path`.
    pub(crate) fn start(&self, path: &str) -> InFlight {
        self.0.in_flight.fetch_add(1, Ordering::Relaxed);
        let (counters, method) = (Arc::clone(&self.0), Method::at(path));
        InFlight { counters, method, started: Instant::now(), code: Code::Cancelled }
    }
}

/// One request from its arrival on; counted when dropped.
pub(crate) struct InFlight {
    counters: Arc<Counters>,
    method: Method,
    started: Instant,
    code: Code,
}

impl InFlight {
    /// Returns the label of the method.
    pub(crate) fn method(&self) -> &'static str {
        self.method.name()
    }

    /// Returns the name of the outcome; `CANCELLED` before there is one.
    pub(crate) fn code(&self) -> &'static str {
        code_name(self.code)
    }

    /// Returns the time since the request came.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes the outcome from headers or trailers, if they have it.
    pub(crate) fn set_code(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            self.code = Code::from_bytes(status.as_bytes());
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let latency = &self.counters.latency[self.method.0][self.code as usize];
        latency.get_or_init(Histogram::of_durations).record_time(self.started.elapsed());
        self.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the name of a code as gRPC writes it.
pub(crate) fn code_name(code: Code) -> &'static str {
    rpc::Code::try_from(i32::from(code)).unwrap_or(rpc::Code::Unknown).as_str_name()
}

/// Paths of the methods that are served besides the Bigtable ones.
const OTHER_METHODS: [&str; 2] = ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];
/// Label of all paths of no method.
const UNKNOWN: &str = "unknown";
/// Labels of methods, with that of unknown ones.
const METHODS: usize = bigtable::METHODS.len() + OTHER_METHODS.len() + 1;

/// For each known path the first one with the same label: some methods are served by two services, and a series
/// must not come twice.
static FIRST_OF_LABEL: LazyLock<Vec<usize>> = LazyLock::new(|| {
    let labels: Vec<&str> = (0..METHODS).map(|at| Method(at).name()).collect();
    let first = |label| labels.iter().position(|known| known == label);
    labels.iter().enumerate().map(|(at, label)| first(label).unwrap_or(at)).collect()
});

/// A method that is counted apart, or all unknown ones: an index into the known paths.
#[derive(Debug, Clone, Copy)]
struct Method(usize);

impl Method {
    /// Returns the method at `path`, which is that of another service if it has the same label.
    fn at(path: &str) -> Self {
        let mut known = bigtable::METHODS.iter().chain(&OTHER_METHODS);
        let at = known.position(|known| *known == path).unwrap_or(METHODS - 1);
        Self(FIRST_OF_LABEL[at])
    }

    /// Returns its label: `MutateRow` of `/google.bigtable.v2.Bigtable/MutateRow`.
    fn name(self) -> &'static str {
        let path = bigtable::METHODS.iter().chain(&OTHER_METHODS).nth(self.0);
        path.and_then(|path| path.rsplit('/').next()).unwrap_or(UNKNOWN)
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
        requests.start("/google.bigtable.v2.Bigtable/MutateRow").set_code(&headers("0"));
        drop(requests.start("/google.bigtable.v2.Bigtable/ReadRows"));
        requests.start("/grpc.health.v1.Health/Check").set_code(&headers("0"));
        for path in ["/google.bigtable.v2.Bigtable/Invented", "/Invented/ReadRows", "/", ""] {
            requests.start(path).set_code(&headers("12"));
            drop(requests.start(path));
        }
        let open = requests.start("/google.bigtable.v2.Bigtable/ReadRows");
        let mut families = Families::default();
        requests.add(&mut families);
        let text = families.text().unwrap();
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

    #[test]
    fn a_method_of_two_services_is_one_series() {
        let requests = Requests::new();
        let paths = bigtable::METHODS.iter().filter(|path| path.ends_with("/GetIamPolicy"));
        let asked = paths.map(|path| requests.start(path).set_code(&headers("0"))).count();
        assert!(asked > 1, "{asked} services have it");
        let mut families = Families::default();
        requests.add(&mut families);
        let text = families.text().unwrap();
        let line = format!(
            "stele_grpc_request_seconds_count{{code=\"OK\",method=\"GetIamPolicy\"}} {asked}"
        );
        assert_eq!(text.lines().filter(|have| *have == line).count(), 1, "{text}");
    }
}
