//! Spans of requests: which requests are traced, and what their spans say.
//!
//! 1. A request whose caller names a trace is traced if the caller records it. Of all others, a part is
//!    chosen by chance.
//! 2. A request that is not traced costs a random number.
//! 3. Spans wait in a bounded queue for the exporter. A request never waits for room in it: spans
//!    without room are dropped, and counted.
//! 4. A span has no value, no row key and no token. The text of a statement has `?` for each literal.

use super::otlp::{KeyValue, Span, SpanKind, Status, StatusCode};
use super::trace_parent::TraceParent;
use super::{Ended, Protocol};
use base::env::{Clock, SystemClock};
use engine::perf_context::{PerfCount, PerfTime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Traced requests whose spans wait for the exporter. Most have fewer than five spans, which take 2 KiB.
pub(super) const REQUESTS_MAX: usize = 512;

/// Counts that a span has, with their names there.
const COUNTS: [(PerfCount, &str); 18] = [
    (PerfCount::PointReads, "stele.point_reads"),
    (PerfCount::Merged, "stele.merged"),
    (PerfCount::Scans, "stele.scans"),
    (PerfCount::Files, "stele.files"),
    (PerfCount::FilesOutOfRange, "stele.files_out_of_range"),
    (PerfCount::FilteredByRow, "stele.filtered_by_row"),
    (PerfCount::FilteredByFamily, "stele.filtered_by_family"),
    (PerfCount::FilteredByColumn, "stele.filtered_by_column"),
    (PerfCount::FilteredByPrefix, "stele.filtered_by_prefix"),
    (PerfCount::Blocks, "stele.blocks"),
    (PerfCount::DiskBlocks, "stele.blocks_from_disk"),
    (PerfCount::DiskBytes, "stele.disk_bytes"),
    (PerfCount::RowsSeen, "stele.rows_seen"),
    (PerfCount::CellsSeen, "stele.cells_seen"),
    (PerfCount::RowsReturned, "stele.rows_returned"),
    (PerfCount::BytesReturned, "stele.bytes_returned"),
    (PerfCount::RowsWritten, "stele.rows_written"),
    (PerfCount::BytesWritten, "stele.bytes_written"),
];

/// Codes of gRPC for which the server is to blame.
const GRPC_ERRORS: [&str; 6] =
    ["UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"];
/// Classes of SQLSTATE for which the server is to blame: what it lacks, and its defects.
const SQL_ERRORS: [&str; 4] = ["0A", "53", "58", "XX"];

/// Spans since the start. Relaxed: each count stands by itself.
#[derive(Debug, Default)]
pub(crate) struct SpanCounts {
    pub(super) exported: AtomicU64,
    pub(super) dropped: AtomicU64,
}

impl SpanCounts {
    /// Returns the numbers of spans that the collector took, and that it never got.
    pub(crate) fn read(&self) -> [(&'static str, u64); 2] {
        [("exported", &self.exported), ("dropped", &self.dropped)]
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// The place of a request in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traced {
    trace: u128,
    span: u64,
    /// The span of the caller; 0 without one.
    parent: u64,
    /// When the request came, by the monotonic clock.
    begun: Duration,
}

impl Traced {
    /// Returns the place of a request that comes now.
    fn now(trace: u128, span: u64, parent: u64) -> Self {
        Self { trace, span, parent, begun: SystemClock.monotonic() }
    }
}

/// Chooses requests, and queues their spans.
#[derive(Debug)]
pub(super) struct Tracer {
    /// Requests without a trace are traced if their random number lies below this. `u64::MAX`: all.
    chosen_below: u64,
    /// State of the random numbers: a Weyl sequence. Relaxed: each number stands by itself.
    random: AtomicU64,
    queue: mpsc::Sender<Vec<Span>>,
    counts: Arc<SpanCounts>,
}

impl Tracer {
    /// Traces a `part` of the requests without a trace of their own, 0 to 1, and queues spans in `queue`.
    pub(super) fn new(
        part: f64,
        seed: u64,
        queue: mpsc::Sender<Vec<Span>>,
        counts: Arc<SpanCounts>,
    ) -> Self {
        // A float beyond the range becomes its end.
        let chosen_below = (part * 2f64.powi(64)) as u64;
        Self { chosen_below, random: AtomicU64::new(seed), queue, counts }
    }

    /// Returns the place of a request, if it is to be traced.
    pub(super) fn choose(&self, parent: Option<TraceParent>) -> Option<Traced> {
        let random = self.random();
        let is_chosen = random < self.chosen_below || self.chosen_below == u64::MAX;
        match parent {
            Some(TraceParent { sampled: false, .. }) => None,
            Some(TraceParent { trace, parent, .. }) => Some(Traced::now(trace, random, parent)),
            None if is_chosen => {
                let trace = u128::from(self.random()) << 64 | u128::from(random);
                Some(Traced::now(trace, self.random(), 0))
            }
            None => None,
        }
    }

    /// Returns a random number that is not 0: SplitMix64.
    fn random(&self) -> u64 {
        let mut bits = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31).max(1)
    }

    /// Queues the spans of a request that has ended.
    pub(super) fn ended(&self, request: &Ended<'_>, traced: Traced) {
        let spans = self.spans(request, traced);
        let count = spans.len() as u64;
        if self.queue.try_send(spans).is_err() {
            self.counts.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Returns the span of a request, and one for each part of its time.
    fn spans(&self, request: &Ended<'_>, traced: Traced) -> Vec<Span> {
        let end = Moment::now();
        let whole = Span {
            kind: SpanKind::Server.into(),
            parent_span_id: bytes_of(traced.parent),
            status: status(request),
            attributes: attributes(request),
            ..span(traced, traced.span, request.method, end.times(traced.begun, None))
        };
        let parts = request.context.parts().map(|part| Span {
            parent_span_id: bytes_of(traced.span),
            ..span(traced, self.random(), part.part.label(), end.times(part.begun, Some(part.took)))
        });
        std::iter::once(whole).chain(parts).collect()
    }
}

/// Returns a span between two times, in nanoseconds since 1970.
fn span(traced: Traced, id: u64, name: &str, (begin, end): (u64, u64)) -> Span {
    Span {
        trace_id: traced.trace.to_be_bytes().to_vec(),
        span_id: bytes_of(id),
        name: name.to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: begin,
        end_time_unix_nano: end,
        ..Span::default()
    }
}

/// Returns the bytes of the id of a span; none of 0.
fn bytes_of(id: u64) -> Vec<u8> {
    if id == 0 { Vec::new() } else { id.to_be_bytes().to_vec() }
}

/// Returns the status of a span: an error where the server, not the client, is to blame.
fn status(request: &Ended<'_>) -> Option<Status> {
    let code = request.code;
    let is_error = match request.protocol {
        Protocol::Grpc => GRPC_ERRORS.contains(&code),
        Protocol::Sql { .. } => SQL_ERRORS.iter().any(|class| code.starts_with(class)),
    };
    is_error.then(|| Status { message: code.to_owned(), code: StatusCode::Error.into() })
}

fn attributes(request: &Ended<'_>) -> Vec<KeyValue> {
    let mut attributes = vec![KeyValue::text("stele.request_id", request.id.to_string())];
    match request.protocol {
        Protocol::Grpc => attributes.extend([
            KeyValue::text("rpc.system", "grpc"),
            KeyValue::text("rpc.method", request.method),
            KeyValue::text("rpc.grpc.status", request.code),
        ]),
        Protocol::Sql { session, text } => {
            attributes.extend([
                KeyValue::text("db.system.name", "postgresql"),
                KeyValue::text("db.operation.name", request.method),
                KeyValue::text("db.response.status_code", request.code),
                KeyValue::integer("stele.session", session.unsigned_abs().into()),
            ]);
            attributes.extend(text().map(|text| KeyValue::text("db.query.text", text)));
        }
    }
    if let Some(subject) = request.context.subject() {
        attributes.push(KeyValue::text("db.collection.name", &*subject.table));
        attributes.push(KeyValue::integer("stele.keys", subject.keys as u64));
    }
    let counts = COUNTS.iter().map(|(which, name)| (*name, request.context.count(*which)));
    let counts = counts.filter(|(_, count)| *count > 0);
    attributes.extend(counts.map(|(name, count)| KeyValue::integer(name, count)));
    let times = PerfTime::ALL.map(|part| (part, request.context.time(part)));
    let times = times.into_iter().filter(|(_, time)| *time > Duration::ZERO);
    attributes.extend(
        times.map(|(part, time)| KeyValue::millis(&format!("stele.{}_ms", part.label()), time)),
    );
    let left_out = request.context.parts_left_out();
    if left_out > 0 {
        attributes.push(KeyValue::integer("stele.parts_left_out", left_out as u64));
    }
    attributes
}

/// A moment by both clocks: parts of requests have times of the monotonic one.
struct Moment {
    nanos: u64,
    monotonic: Duration,
}

impl Moment {
    fn now() -> Self {
        let nanos = u64::try_from(SystemClock.now_micros()).unwrap_or(0).saturating_mul(1_000);
        Self { nanos, monotonic: SystemClock.monotonic() }
    }

    /// Returns the begin and end of what began at `begun`, in nanoseconds since 1970. Without a length it
    /// ends now.
    fn times(&self, begun: Duration, took: Option<Duration>) -> (u64, u64) {
        let begin = self.nanos.saturating_sub(nanos(self.monotonic.saturating_sub(begun)));
        (begin, took.map_or(self.nanos, |took| begin.saturating_add(nanos(took))))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::otlp::Value;
    use super::*;

    fn tracer(part: f64) -> (Tracer, mpsc::Receiver<Vec<Span>>) {
        let (sender, receiver) = mpsc::channel(1);
        (Tracer::new(part, 7, sender, Arc::default()), receiver)
    }

    #[test]
    fn a_part_is_chosen_and_callers_decide_for_their_traces() {
        for (part, want) in [(0.0, 0..=0), (0.1, 800..=1_200), (1.0, 10_000..=10_000)] {
            let (tracer, _queue) = tracer(part);
            let chosen = (0..10_000).filter(|_| tracer.choose(None).is_some()).count();
            assert!(want.contains(&chosen), "{part}: {chosen}");
            for sampled in [false, true] {
                let parent = TraceParent { trace: 1 << 100, parent: 5, sampled };
                let traced = tracer.choose(Some(parent));
                assert_eq!(traced.map(|t| (t.trace, t.parent)), sampled.then_some((1 << 100, 5)));
            }
        }
    }

    #[test]
    fn a_span_tells_all_times_and_how_many_of_their_parts_have_no_span() {
        use crate::serve::request_id::RequestId;
        use engine::perf_context::{Detail, PerfContext, timed, within};
        let (tracer, mut queue) = tracer(1.0);
        let mut context = Some(Arc::new(PerfContext::new(Detail::Beginnings)));
        let begun = SystemClock.monotonic().saturating_sub(Duration::from_millis(10));
        within(&mut context, || {
            (0..70).for_each(|_| timed(PerfTime::DiskRead, Some(begun)));
        });
        let context = context.unwrap();
        let ended = Ended {
            protocol: Protocol::Grpc,
            method: "ReadRows",
            code: "OK",
            id: &RequestId::Own(1, 2),
            took: Duration::from_millis(10),
            answered_after: None,
            context: &context,
            traced: None,
        };
        tracer.ended(&ended, tracer.choose(None).unwrap());
        let spans = queue.try_recv().unwrap();
        assert_eq!(spans.len(), 65);
        let value = |name: &str| {
            let mut named = spans[0].attributes.iter().filter(|one| one.key == name);
            named.next().and_then(|one| one.value.as_ref()?.value.clone())
        };
        let Some(Value::Double(millis)) = value("stele.disk_read_ms") else { panic!("{spans:?}") };
        assert!(millis >= 700.0, "{millis}");
        assert_eq!(value("stele.parts_left_out"), Some(Value::Integer(6)));
        assert_eq!(value("stele.step_ms"), None);
    }

    #[test]
    fn a_full_queue_drops_spans_and_counts_them() {
        use crate::serve::request_id::RequestId;
        use engine::perf_context::{Detail, PerfContext};
        let (tracer, mut queue) = tracer(1.0);
        let context = PerfContext::new(Detail::Beginnings);
        let id = RequestId::Own(1, 2);
        let ended = Ended {
            protocol: Protocol::Grpc,
            method: "ReadRows",
            code: "DATA_LOSS",
            id: &id,
            took: Duration::from_millis(3),
            answered_after: None,
            context: &context,
            traced: None,
        };
        let traced = tracer.choose(None).unwrap();
        (0..3).for_each(|_| tracer.ended(&ended, traced));
        assert_eq!(tracer.counts.read(), [("exported", 0), ("dropped", 2)]);
        let spans = queue.try_recv().unwrap();
        let [span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((span.name.as_str(), span.trace_id.len()), ("ReadRows", 16));
        assert_eq!((span.span_id.len(), span.parent_span_id.len()), (8, 0));
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        assert_eq!(span.status.as_ref().unwrap().code, i32::from(StatusCode::Error));
    }
}
