//! `/metrics`: what the server counts, as Prometheus text.
//!
//! In: counters of requests, connections and security, the engine's readings, and what the system tells
//! of the process. Out: families, which one renderer writes. A scrape is made on a blocking thread, and
//! scrapes take turns (`scrape`).
//!
//! Names keep to the rules that `promtool check metrics` tests: base units, the unit last, `_total` after
//! counters alone, labels instead of names that vary, and a meaning for each family. docs/metrics.md lists
//! all families; a test here writes it.

mod cluster;
mod families;
mod of_requests;
mod process;
pub(crate) mod requests;
pub(crate) mod scrape;
mod server;
#[cfg(feature = "sql")]
mod sql;
pub(crate) mod tables;
pub(crate) mod tablets;
#[cfg(test)]
mod tests;

pub(crate) use families::Families;
pub(crate) use server::{Disk, disk};

use super::state::State;
use ::cluster::member::Watcher;
use axum::extract;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use engine::{HistogramUnit, MetricKind, Metrics};
use scrape::Busy;
use std::sync::Arc;

/// Version 0.0.4 of the text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers a scrape with all families.
pub(super) async fn answer(extract::State(state): extract::State<Arc<State>>) -> Response {
    let server = Arc::clone(&state);
    match state.scrapes().run(move || families(&server).text()).await {
        Ok(Ok(text)) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(Busy) => {
            let text = "other scrapes are under way; try again in a second\n";
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response()
        }
    }
}

/// Returns all families of the server. Blocks.
fn families(state: &State) -> Families {
    let mut families = Families::default();
    state.requests().add(&mut families);
    families.take(state.security().gather());
    server::add(state, &mut families);
    process::add(&mut families);
    #[cfg(feature = "sql")]
    if let Some((counts, memory)) = state.sql() {
        sql::add(counts, [memory.bytes(), memory.max()], &mut families);
    }
    if let Some(readings) = state.cluster().and_then(Watcher::readings) {
        cluster::add(&readings, &mut families);
    }
    match (state.engine(), state.store()) {
        (Some(engine), Some(store)) => {
            let named = store.named_tables();
            let all = tables::add(store, engine, &named, state.shares(), &mut families);
            tablets::add(store, engine, &named, state.hot_tablets(), &mut families);
            add_engine(&all, &mut families);
        }
        (Some(engine), None) => add_engine(&engine.metrics(), &mut families),
        (None, _) => {}
    }
    families
}

/// Adds the readings of the engine, over all trees.
fn add_engine(all: &Metrics, families: &mut Families) {
    let Metrics { readings, histograms } = all;
    for reading in readings {
        let name = format!("stele_{}", reading.name);
        let value = reading.value as f64;
        match reading.kind {
            MetricKind::Counter => families.counter(&name, reading.help, &reading.labels, value),
            MetricKind::Gauge => families.gauge(&name, reading.help, &reading.labels, value),
        }
    }
    for histogram in histograms {
        let name = format!("stele_{}", histogram.name);
        let per_unit = match histogram.unit {
            HistogramUnit::Micros => families::MICROS_PER_SECOND,
            HistogramUnit::Ones => 1.0,
        };
        let (help, labels) = (histogram.help, &histogram.labels);
        families.histogram(&name, help, labels, &histogram.buckets, per_unit);
    }
}
