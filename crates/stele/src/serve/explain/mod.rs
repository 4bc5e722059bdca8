//! The end of a request: a line in the log if it was slow, and spans if it is traced.
//!
//! Each request has a perf context ([`engine::perf_context`]), in which all of its work is polled. It is
//! looked at once, when the request has ended.

mod export;
mod otlp;
mod slow;
mod spans;
mod trace_parent;

pub(crate) use slow::SlowCounts;
pub(crate) use spans::{SpanCounts, Traced};
pub(crate) use trace_parent::TraceParent;

use super::request_id::RequestId;
use crate::config::Traces;
use anyhow::Context;
use base::env::{FileSystem, RealFileSystem};
use engine::perf_context::{Detail, PerfContext};
use slow::SlowLog;
use spans::{REQUESTS_MAX, Tracer};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::codegen::http::HeaderMap;

/// A request that has ended.
pub(crate) struct Ended<'a> {
    pub(crate) protocol: Protocol<'a>,
    pub(crate) method: &'static str,
    pub(crate) code: &'a str,
    pub(crate) id: &'a RequestId,
    pub(crate) took: Duration,
    /// Time until the answer began.
    pub(crate) answered_after: Option<Duration>,
    pub(crate) context: &'a PerfContext,
    pub(crate) traced: Option<Traced>,
}

/// The protocol of a request.
#[derive(Clone, Copy)]
pub(crate) enum Protocol<'a> {
    /// A call, with a gRPC status as its code.
    Grpc,
    /// A statement of a PostgreSQL client, with a SQLSTATE as its code.
    #[cfg_attr(not(feature = "sql"), expect(dead_code))]
    Sql {
        /// Process number of the session.
        session: i32,
        /// Returns the text without its literals.
        text: &'a dyn Fn() -> Option<String>,
    },
}

/// Explains requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Explain(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    slow: SlowLog,
    tracer: Option<Tracer>,
}

impl Explain {
    /// Logs requests that take `threshold` or longer, and counts them in `slow`. Sends spans, which are
    /// counted in `spans`, where `traces` says. The task sends them; it ends after the last clone of the value,
    /// and has then sent what there was.
    pub(crate) fn new(
        (threshold, slow): (Duration, &Arc<SlowCounts>),
        (traces, spans): (Option<&Traces>, &Arc<SpanCounts>),
    ) -> anyhow::Result<(Self, JoinHandle<()>)> {
        let slow = SlowLog::new(threshold, Arc::clone(slow));
        let (tracer, exporter) = match traces {
            Some(traces) => {
                let (tracer, exporter) = tracer(traces, spans)?;
                (Some(tracer), exporter)
            }
            None => (None, tokio::spawn(std::future::ready(()))),
        };
        Ok((Self(Arc::new(Parts { slow, tracer })), exporter))
    }

    /// Begins a request with these headers; returns its perf context, and its trace if it is traced. Only one
    /// of a `known` caller is: others must not fill the queue, or choose traces.
    pub(crate) fn begin(
        &self,
        headers: &HeaderMap,
        known: bool,
    ) -> (Arc<PerfContext>, Option<Traced>) {
        let parent = || TraceParent::of(headers);
        let traced = if known { self.choose(parent) } else { None };
        (Arc::new(PerfContext::new(detail(traced.as_ref()))), traced)
    }

    /// Returns the trace of a request that begins, if it is traced.
    pub(crate) fn choose(&self, parent: impl FnOnce() -> Option<TraceParent>) -> Option<Traced> {
        self.0.tracer.as_ref().and_then(|tracer| tracer.choose(parent()))
    }

    /// Takes note of a request that has ended.
    pub(crate) fn ended(&self, request: &Ended<'_>) {
        self.0.slow.note(request);
        if let (Some(tracer), Some(traced)) = (&self.0.tracer, request.traced) {
            tracer.ended(request, traced);
        }
    }
}

/// Returns the detail that the context of a request has.
pub(crate) fn detail(traced: Option<&Traced>) -> Detail {
    if traced.is_some() { Detail::Beginnings } else { Detail::Sums }
}

/// Returns what chooses requests to trace, and the task that sends their spans.
fn tracer(traces: &Traces, counts: &Arc<SpanCounts>) -> anyhow::Result<(Tracer, JoinHandle<()>)> {
    let collector = export::connect(&traces.endpoint)?;
    let seed = RealFileSystem.unique().context("the system gives no random numbers")?;
    let (sender, queue) = mpsc::channel(REQUESTS_MAX);
    let exporter = tokio::spawn(export::run(queue, collector, Arc::clone(counts)));
    Ok((Tracer::new(traces.sampling, seed as u64, sender, Arc::clone(counts)), exporter))
}
