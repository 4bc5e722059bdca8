//! Sends spans to a collector by OTLP over gRPC.
//!
//! 1. A batch is tried once: spans that the collector does not take are dropped, and counted. So a
//!    collector that is away costs no memory beyond the queue, and nothing is sent twice.
//! 2. A failure is logged once a minute at most.

use super::otlp::{
    EXPORT, ExportTraceServiceRequest, ExportTraceServiceResponse, KeyValue, Resource,
    ResourceSpans, Scope, ScopeSpans, Span,
};
use super::spans::SpanCounts;
use crate::connect::{Channel, ConnectArgs};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// Spans after which a batch takes no further request.
const BATCH_SPANS: usize = 512;
/// Time for which a batch waits for more spans.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Time that the collector has for a batch.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the collector's text, escaped, that a line has.
const REASON_MAX: usize = 256;
/// Time between two lines about failures.
const SILENCE: Duration = Duration::from_secs(60);

/// Returns a connection to the collector at `endpoint`, which is made when it is needed.
pub(super) fn connect(endpoint: &str) -> Result<Channel> {
    let server = ConnectArgs::default().server(endpoint, "h2");
    let channel = server.and_then(crate::connect::Server::lazily);
    channel.with_context(|| format!("invalid otlp_endpoint {endpoint:?}"))
}

/// Sends the spans that come from `queue` to a collector, until the queue is closed.
pub(super) async fn run(
    mut queue: mpsc::Receiver<Vec<Span>>,
    collector: Channel,
    counts: Arc<SpanCounts>,
) {
    let mut grpc = Grpc::new(collector);
    let mut logged: Option<Instant> = None;
    while let Some(spans) = queue.recv().await {
        let batch = gather(spans, &mut queue).await;
        let all = batch.len() as u64;
        let sent = timeout(PATIENCE, send(&mut grpc, batch)).await;
        let sent = sent.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in 10 s")));
        let rejected = *sent.as_ref().unwrap_or(&all);
        counts.dropped.fetch_add(rejected.min(all), Ordering::Relaxed);
        counts.exported.fetch_add(all.saturating_sub(rejected), Ordering::Relaxed);
        if let Err(error) = sent
            && logged.is_none_or(|at| at.elapsed() >= SILENCE)
        {
            logged = Some(Instant::now());
            let (code, reason) = (error.code(), reason(&error));
            tracing::warn!(?code, reason, "the collector of spans took none; they are dropped");
        }
    }
}

/// Returns the beginning of the collector's text, on one line.
fn reason(error: &Status) -> String {
    let mut text = error.message().escape_debug().to_string();
    text.truncate(text.floor_char_boundary(REASON_MAX));
    text
}

/// Adds the spans to come to a batch until it is large enough, or its time is over.
async fn gather(mut batch: Vec<Span>, queue: &mut mpsc::Receiver<Vec<Span>>) -> Vec<Span> {
    let end = Instant::now() + BATCH_TIME;
    while batch.len() < BATCH_SPANS {
        match timeout_at(end, queue.recv()).await {
            Ok(Some(spans)) => batch.extend(spans),
            Ok(None) | Err(_) => break,
        }
    }
    batch
}

/// Sends a batch; returns the number of spans that the collector did not take.
async fn send(grpc: &mut Grpc<Channel>, spans: Vec<Span>) -> Result<u64, Status> {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: vec![
            KeyValue::text("service.name", "stele"),
            KeyValue::text("service.version", version),
        ],
    };
    let scope = Scope { name: "stele".to_owned(), version: version.to_owned() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    let resource_spans = vec![ResourceSpans { resource: Some(resource), scope_spans }];
    let request = ExportTraceServiceRequest { resource_spans };
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<ExportTraceServiceRequest, ExportTraceServiceResponse>::default();
    let path = PathAndQuery::from_static(EXPORT);
    let answer = grpc.unary(Request::new(request), path, codec).await?.into_inner();
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
    Ok(u64::try_from(rejected).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_collector_is_cut_and_forges_no_line() {
        let error = Status::internal(format!("a\nb\u{1b}{}", "x".repeat(1_000)));
        let told = reason(&error);
        assert!(told.starts_with("a\\nb\\u{1b}xxx"), "{told}");
        assert!(told.len() == REASON_MAX && !told.chars().any(char::is_control));
        for (letter, most) in [("\u{1b}", 256), ("ä", 256), ("\u{10ffff}", 250)] {
            let told = reason(&Status::internal(letter.repeat(1_000)));
            assert!((most - 10..=REASON_MAX).contains(&told.len()), "{}", told.len());
        }
    }
}
