//! The HTTP side: `/healthz` (the process lives), `/readyz` (clients are served), `/metrics`
//! (Prometheus text, from `metrics`), the pages for people at `/console/` (`console`), and what `stele
//! admin` (`admin`), `stele checkpoint` and `stele backup` (`checkpoint`) ask. Profiles are at
//! `/debug/pprof/profile` and `/debug/pprof/heap` (`profile`). All but the first two are
//! only for those who call the server by its own name
//! (`host`). Clients of a server that knows its callers get access tokens at `/token`
//! (`security::token`). `serving` bounds the connections, and `taken` the
//! time that clients take.

mod host;
mod serving;
mod taken;

pub(crate) use serving::Limits;

use super::connections::{Connection, Entry};
use super::console::{self, Console};
use super::metrics;
use super::security::gate::Gate;
use super::security::{http as gate, token};
use super::state::{Phase, State};
use axum::Router;
use axum::extract;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use host::Hosts;
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
    console: Arc<Console>,
    admitted: Admitted,
    limits: Limits,
    stopped: watch::Receiver<()>,
) {
    let entry = Entry::new(limits.connections_max, limits.per_address_max, state.security());
    let tokens = admitted.gate.clone().map_or_else(Router::new, token::routes);
    let router = Router::new()
        .route("/metrics", get(metrics::answer))
        .merge(super::admin::routes())
        .merge(super::checkpoint::routes())
        .merge(super::profile::routes(admitted.gate.as_ref()))
        .layer(middleware::from_fn_with_state(admitted.gate, gate::check))
        .route("/", get(async || Redirect::temporary(console::PATH)))
        .merge(console::routes(console))
        .layer(middleware::from_fn_with_state(admitted.hosts, host::check))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .merge(tokens)
        .with_state(state);
    serving::serve(connections, router, entry, limits, stopped).await;
}

async fn readyz(extract::State(state): extract::State<Arc<State>>) -> impl IntoResponse {
    match state.phase() {
        Phase::Serving => (StatusCode::OK, "ready\n"),
        Phase::Recovering => (StatusCode::SERVICE_UNAVAILABLE, "opening the data directory\n"),
        Phase::Draining => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
    }
}
