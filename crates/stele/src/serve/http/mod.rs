//! The HTTP side: `/healthz` (the process lives), `/readyz` (clients are served), `/metrics`
//! (Prometheus text), and what `stele admin` (`admin`), `stele checkpoint` and `stele backup`
//! (`checkpoint`) ask. All but the first two are only for those who call the server by its own name
//! (`host`). Clients of a server that knows its callers get access tokens at `/token`
//! (`security::token`). `serving` bounds the connections.

mod host;
mod serving;

pub(crate) use serving::Limits;

use super::connections::{Connection, Entry};
use super::security::gate::Gate;
use super::security::{http as gate, token};
use super::state::{Phase, State};
use axum::Router;
use axum::extract;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::get;
use bigtable::Bounds;
use engine::HistogramReading;
use host::Hosts;
use std::fmt::Write;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Callers of all but the probes.
pub(crate) struct Admitted {
    /// Names by which they may call the server.
    pub(crate) hosts: Hosts,
    /// Gate that they have to pass.
    pub(crate) gate: Option<Arc<Gate>>,
}

/// Serves `connections` until `stopped` closes.
pub(crate) async fn serve(
    connections: mpsc::Receiver<Connection>,
    state: Arc<State>,
    admitted: Admitted,
    limits: Limits,
    stopped: watch::Receiver<()>,
) {
    let entry = Entry::new(limits.connections_max, limits.per_address_max, state.security());
    let tokens = admitted.gate.clone().map_or_else(Router::new, token::routes);
    let router = Router::new()
        .route("/metrics", get(metrics))
        .merge(super::admin::routes())
        .merge(super::checkpoint::routes())
        .layer(middleware::from_fn_with_state(admitted.gate, gate::check))
        .layer(middleware::from_fn_with_state(admitted.hosts, host::check))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .merge(tokens)
        .with_state(state);
    serving::serve(connections, router, entry, limits.head, stopped).await;
}

async fn readyz(extract::State(state): extract::State<Arc<State>>) -> impl IntoResponse {
    match state.phase() {
        Phase::Serving => (StatusCode::OK, "ready\n"),
        Phase::Recovering => (StatusCode::SERVICE_UNAVAILABLE, "opening the data directory\n"),
        Phase::Draining => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
    }
}

async fn metrics(extract::State(state): extract::State<Arc<State>>) -> impl IntoResponse {
    match render(&state) {
        Ok(text) => ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// All metrics in Prometheus text form, version 0.0.4.
fn render(state: &State) -> prometheus::Result<String> {
    let mut text = state.requests().render()? + &state.security().render()?;
    let version = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    family(&mut text, "stele_build_info", "Constant 1, labelled with the version.", &version, 1);
    let uptime = state.uptime().as_secs();
    family(&mut text, "stele_uptime_seconds", "Seconds since the server started.", "", uptime);
    let ready = u64::from(state.phase() == Phase::Serving);
    family(&mut text, "stele_ready", "1 while the server accepts requests, else 0.", "", ready);
    let engine = state.engine().map(|engine| engine.metrics()).unwrap_or_default();
    for (name, help, value) in engine.values {
        family(&mut text, &format!("stele_{name}"), help, "", value);
    }
    engine.histograms.iter().for_each(|histogram| distribution(&mut text, histogram));
    calls(&mut text, state);
    Ok(text)
}

/// Adds what calls hold of their bounds, and the calls that were refused.
fn calls(text: &mut String, state: &State) {
    let holdings = state.bounds().map(Bounds::holdings).unwrap_or_default();
    for (name, help, value) in [
        ("stele_calls_in_flight", "Calls that count towards calls-max.", holdings.calls),
        (
            "stele_upload_bytes",
            "Bytes of requests that are being uploaded, or came in parts and are worked on.",
            holdings.upload_bytes,
        ),
        (
            "stele_answer_bytes",
            "Bytes of answers that were read and that clients have not taken.",
            holdings.answer_bytes,
        ),
    ] {
        family(text, name, help, "", value as u64);
    }
    let name = "stele_refused_calls_total";
    let help = "Calls that were refused, for their callers or for want of room, by reason.";
    let no_room = state.bounds().into_iter().flat_map(Bounds::refusals);
    let no_room = no_room.map(|(refusal, count)| (refusal.label(), count));
    head(text, name, help);
    for (reason, count) in state.security().refused().counts().into_iter().chain(no_room) {
        sample(text, name, &format!("{{reason=\"{reason}\"}}"), count);
    }
}

/// Adds a histogram of durations, in seconds.
fn distribution(text: &mut String, histogram: &HistogramReading) {
    let (name, help) = (format!("stele_{}", histogram.name), histogram.help);
    let mut line = |line: std::fmt::Arguments<'_>| {
        let written = text.write_fmt(line);
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    };
    line(format_args!("# HELP {name} {help}\n# TYPE {name} histogram\n"));
    let mut below = 0;
    for (bound, count) in histogram.bounds_micros.iter().zip(&histogram.counts) {
        below += count;
        let seconds = *bound as f64 / 1e6;
        line(format_args!("{name}_bucket{{le=\"{seconds}\"}} {below}\n"));
    }
    let count = histogram.count();
    line(format_args!("{name}_bucket{{le=\"+Inf\"}} {count}\n"));
    line(format_args!("{name}_sum {}\n", histogram.sum_micros as f64 / 1e6));
    line(format_args!("{name}_count {count}\n"));
}

/// Adds a metric with one sample.
fn family(text: &mut String, name: &str, help: &str, labels: &str, value: u64) {
    head(text, name, help);
    sample(text, name, labels, value);
}

fn head(text: &mut String, name: &str, help: &str) {
    let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    let written = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

fn sample(text: &mut String, name: &str, labels: &str, value: u64) {
    let written = writeln!(text, "{name}{labels} {value}");
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}
