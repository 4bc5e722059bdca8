//! Requests of `stele admin` to a running server, under `/admin` of its HTTP address.
//!
//! | request | does |
//! |---|---|
//! | `GET /admin/compactions` | tells what runs, and whether compactions are paused |
//! | `POST /admin/compactions/pause`, `.../resume` | pauses or resumes, and tells the same |
//!
//! Every answer is the same JSON object ([`Compactions`]). A request without the header `HEADER` is
//! refused: a page in a browser on the same machine cannot send it without asking first, which
//! nobody here answers.

use super::state::State as Server;
use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use engine::{CompactionReason, Engine, RunningCompaction};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Header without which nothing is answered; its value does not matter.
pub(crate) const HEADER: &str = "x-stele-admin";

/// State of compactions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Compactions {
    pub(crate) paused: bool,
    pub(crate) running: Vec<Compaction>,
}

/// One that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Compaction {
    pub(crate) tree: u32,
    pub(crate) reason: String,
    pub(crate) ssts: usize,
    pub(crate) bytes_total: u64,
    pub(crate) bytes_written: u64,
    pub(crate) seconds: u64,
}

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/admin/compactions", get(|server, headers| act(server, headers, |_| ())))
        .route("/admin/compactions/pause", post(pause))
        .route("/admin/compactions/resume", post(resume))
}

async fn pause(server: State<Arc<Server>>, headers: HeaderMap) -> Response {
    act(server, headers, |engine| {
        engine.pause_compactions();
        tracing::info!("compactions are paused");
    })
    .await
}

async fn resume(server: State<Arc<Server>>, headers: HeaderMap) -> Response {
    act(server, headers, |engine| {
        engine.resume_compactions();
        tracing::info!("compactions are resumed");
    })
    .await
}

async fn act(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    act: impl FnOnce(&Engine),
) -> Response {
    if !headers.contains_key(HEADER) {
        let text = format!("send the header {HEADER} with any value\n");
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    let Some(engine) = server.engine() else {
        let text = "the data directory is still opening; retry when /readyz is ready\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    act(engine);
    Json(compactions(engine)).into_response()
}

fn compactions(engine: &Engine) -> Compactions {
    let running = engine.compactions();
    Compactions {
        paused: engine.compactions_paused(),
        running: running.iter().map(Compaction::of).collect(),
    }
}

/// Returns the word for the reason of a compaction.
pub(crate) fn reason(of: CompactionReason) -> &'static str {
    match of {
        CompactionReason::Shape => "shape",
        CompactionReason::Garbage => "garbage",
        CompactionReason::Quiet => "reads",
        CompactionReason::ByHand => "manual",
    }
}

impl Compaction {
    fn of(running: &RunningCompaction) -> Self {
        Self {
            tree: running.tree.0,
            reason: reason(running.reason).to_owned(),
            ssts: running.ssts,
            bytes_total: running.bytes_total,
            bytes_written: running.bytes_written,
            seconds: running.running_for.as_secs(),
        }
    }
}
