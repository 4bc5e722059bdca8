//! The first page: who looks, and how the server is doing.

use super::super::state::{Phase, State as Server};
use super::Console;
use super::request::failure::Failure;
use super::request::guard::Visitor;
use super::request::params::Params;
use super::samples::INTERVAL;
use axum::Json;
use axum::extract::{RawQuery, State};
use base::env::{Clock, SystemClock};
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers with the visitor's name and the parts of the console that the visitor may use.
pub(super) async fn session(State(console): State<Arc<Console>>, visitor: Visitor) -> Json<Value> {
    Json(json!({
        "identity": visitor.name(),
        "authenticates": console.gate.is_some(),
        "version": env!("CARGO_PKG_VERSION"),
        "may": {
            "overview": visitor.may("stele.metrics.get"),
        },
    }))
}

/// Answers with the samples after the one that `after` names, and with advice.
pub(super) async fn overview(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Failure> {
    visitor.needs("stele.metrics.get")?;
    let after = Params::of(query, &["after"])?.number("after", u64::MAX)?;
    let (samples, advice) = console.samples.after(after);
    let samples: Vec<_> = samples.iter().map(|sample| &**sample).collect();
    Ok(Json(json!({
        "server": server(&console.server),
        "now_ms": SystemClock.now_micros() / 1_000,
        "interval_seconds": INTERVAL.as_secs(),
        "samples": samples,
        "advice": &advice[..],
    })))
}

fn server(server: &Server) -> Value {
    let phase = match server.phase() {
        Phase::Recovering => "opening",
        Phase::Serving => "serving",
        Phase::Draining => "stopping",
    };
    json!({ "phase": phase, "uptime_seconds": server.uptime().as_secs() })
}
