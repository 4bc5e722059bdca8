//! The first page: who looks, and how the server is doing.

use super::super::state::{Phase, State as Server};
use super::Console;
use super::advice::Advice;
use super::request::failure::Failure;
use super::request::guard::Visitor;
use super::request::params::Params;
use super::request::work::answer;
use super::samples::{INTERVAL, Sample};
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use base::env::{Clock, SystemClock};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers with the visitor's name and the parts of the console that the visitor may use.
pub(super) async fn session(State(console): State<Arc<Console>>, visitor: Visitor) -> Json<Value> {
    Json(json!({
        "identity": visitor.name(),
        "authenticates": console.gate.is_some(),
        "version": env!("CARGO_PKG_VERSION"),
        "cluster": console.server.cluster().is_some(),
        "sql": has_sql(&console.server),
        "may": {
            "overview": visitor.may("stele.metrics.get"),
            "sql_tables": may_list_sql(&visitor),
            "sql_query": may_query_sql(&visitor),
        },
    }))
}

/// Returns whether the server serves PostgreSQL clients.
#[cfg(feature = "sql")]
fn has_sql(server: &Server) -> bool {
    server.sql_seat().is_some()
}

#[cfg(not(feature = "sql"))]
fn has_sql(_: &Server) -> bool {
    false
}

/// Returns whether the visitor may list tables of SQL.
#[cfg(feature = "sql")]
fn may_list_sql(visitor: &Visitor) -> bool {
    visitor.may(super::data::sql::LIST)
}

#[cfg(not(feature = "sql"))]
fn may_list_sql(_: &Visitor) -> bool {
    false
}

/// Returns whether the visitor may run queries over tables of SQL.
#[cfg(feature = "sql")]
fn may_query_sql(visitor: &Visitor) -> bool {
    may_list_sql(visitor) && visitor.may(super::data::sql::READ)
}

#[cfg(not(feature = "sql"))]
fn may_query_sql(_: &Visitor) -> bool {
    false
}

/// The state of the server.
#[derive(Debug, Serialize)]
struct ServerView {
    phase: &'static str,
    uptime_seconds: u64,
}

/// Samples, with advice as of the last one.
#[derive(Debug, Serialize)]
struct OverviewView {
    server: ServerView,
    now_ms: i64,
    interval_seconds: u64,
    #[serde(serialize_with = "samples")]
    samples: Vec<Arc<Sample>>,
    #[serde(serialize_with = "advice")]
    advice: Arc<[Advice]>,
}

fn samples<S: Serializer>(of: &[Arc<Sample>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(of.iter().map(|sample| &**sample))
}

fn advice<S: Serializer>(of: &Arc<[Advice]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(of.iter())
}

/// Answers with the samples after the one that `after` names, and with advice.
pub(super) async fn overview(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    visitor.needs("stele.metrics.get")?;
    let after = Params::of(query, &["after"])?.number("after", u64::MAX)?;
    let place = console.overviews.take()?;
    let (samples, advice) = console.samples.after(after);
    let overview = OverviewView {
        server: server(&console.server),
        now_ms: SystemClock.now_micros() / 1_000,
        interval_seconds: INTERVAL.as_secs(),
        samples,
        advice,
    };
    answer(place, move || Ok(overview)).await
}

fn server(server: &Server) -> ServerView {
    let phase = match server.phase() {
        Phase::Recovering => "opening",
        Phase::Serving => "serving",
        Phase::Draining => "stopping",
    };
    ServerView { phase, uptime_seconds: server.uptime().as_secs() }
}
