//! The console: pages for people, at `/console/` of the HTTP address.
//!
//! The assets are embedded (`assets`). They need nothing from elsewhere and no build step. The pages
//! ask the JSON API below `/console/api/v1/`, which `docs/console.md` describes: `overview` tells the
//! samples of the last minutes (`samples`, made of `readings`) with advice (`advice`), and `data` tells of
//! tables and their rows.
//!
//! Invariants:
//! 1. Every request of the API passes `guard`: its sender is known or on this machine, and it has a
//!    header that no page of another origin can send.
//! 2. Every answer is bounded, whatever the store holds. Samples are computed once for all pages.
//! 3. `readings` alone knows the names of metrics.

mod advice;
mod assets;
mod cluster;
mod data;
mod overview;
mod readings;
mod request;
mod samples;
#[cfg(test)]
mod tests;

pub(crate) use samples::run as sample;

use super::security::gate::Gate;
use super::state::State;
use axum::Router;
use axum::middleware;
use axum::response::Redirect;
use axum::routing::{any, get, post};
use request::work::Places;
use request::{failure, guard};
use samples::Samples;
use std::sync::Arc;

/// Path of the first page.
pub(crate) const PATH: &str = "/console/";
/// Path below which the API is.
const API: &str = "/console/api/v1";

/// Requests for data that have a place at a time, and requests for samples.
const READS_MAX: usize = 8;
const OVERVIEWS_MAX: usize = 32;

/// The console of a server.
pub(crate) struct Console {
    server: Arc<State>,
    gate: Option<Arc<Gate>>,
    samples: Samples,
    /// Places of requests for data, and of requests for samples.
    reads: Places,
    overviews: Places,
}

impl Console {
    /// Returns the console of `server`, for callers that pass `gate`.
    pub(crate) fn new(server: Arc<State>, gate: Option<Arc<Gate>>) -> Self {
        let (reads, overviews) = (Places::new(READS_MAX), Places::new(OVERVIEWS_MAX));
        Self { server, gate, samples: Samples::default(), reads, overviews }
    }
}

/// Returns the routes of the console.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(console: Arc<Console>) -> Router<S> {
    let api = Router::new()
        .route("/session", get(overview::session))
        .route("/overview", get(overview::overview))
        .route("/cluster", get(cluster::cluster))
        .route("/tables", get(data::tables::list))
        .route("/table", get(data::tables::table))
        .route("/tree", get(data::tree::tree))
        .route("/heat", get(data::heat::heat))
        .route("/query", post(data::query::query))
        .route("/explain", post(data::query::explain))
        .route("/backups", get(data::backups::backups))
        .route("/rows", get(data::rows::rows))
        .route("/row", get(data::rows::row))
        .route("/cell", get(data::rows::cell));
    #[cfg(feature = "sql")]
    let api = api
        .route("/sql/tables", get(data::sql::list::list))
        .route("/sql/table", get(data::sql::structure::table))
        .route("/sql/rows", get(data::sql::rows::rows))
        .route("/sql/query", post(data::sql::prompt::query))
        .route("/sql/tree", get(data::sql::tree::tree));
    let api = api
        .route("/{*path}", any(failure::unknown_path))
        .method_not_allowed_fallback(failure::wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&console), guard::check));
    let pages = Router::new()
        .route("/console", get(async || Redirect::temporary(PATH)))
        .route(PATH, get(assets::serve))
        .route("/console/{*path}", get(assets::serve))
        .layer(middleware::from_fn_with_state(Arc::clone(&console), guard::check_place));
    Router::new().nest(API, api).merge(pages).with_state(console)
}
