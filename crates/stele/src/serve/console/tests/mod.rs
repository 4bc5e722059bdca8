//! Requests of pages and of the API, without a process.

mod access;
mod data;
mod pages;
#[cfg(feature = "sql")]
mod sql;

use super::super::connections::Peer;
use super::super::security::gate::Gate;
use super::super::state::State;
use super::*;
use ::table::mutate::WriteTime;
use ::table::{
    CreateTable, FamilySpec, Granularity, Local, RowMutation, RowMutations, Store, TableName,
    Timestamp,
};
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response, StatusCode};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bigtable::{Bounds, Callers, KnownNames, Limits};
use engine::{Engine, Options};
use serde_json::Value;
use std::net::IpAddr;
use tower::ServiceExt;

const HERE: &str = "127.0.0.1";
const INSTANCE: &str = "projects/p/instances/i";
const TABLE: &str = "projects/p/instances/i/tables/t";

/// Returns the answer to a request with these headers from an address.
async fn ask(
    console: &Arc<Console>,
    from: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Response<Body> {
    answer(console, from, Request::get(path), headers, Body::empty()).await
}

async fn answer(
    console: &Arc<Console>,
    from: &str,
    request: axum::http::request::Builder,
    headers: &[(&str, &str)],
    body: Body,
) -> Response<Body> {
    let add = |request: axum::http::request::Builder, (name, value): &(&str, &str)| {
        request.header(*name, *value)
    };
    let address = Some(from.parse::<IpAddr>().unwrap());
    let peer = ConnectInfo(Peer { address, ..Peer::default() });
    let request = headers.iter().fold(request, add).extension(peer).body(body).unwrap();
    routes::<()>(Arc::clone(console)).oneshot(request).await.unwrap()
}

async fn json(answer: Response<Body>) -> Value {
    let body = axum::body::to_bytes(answer.into_body(), 16 << 20).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Returns the console of a server that has not opened its directory.
fn open() -> Arc<Console> {
    Arc::new(Console::new(Arc::new(State::new(None)), None))
}

/// A server that serves a store, without listeners.
struct Server {
    console: Arc<Console>,
    store: Arc<Local>,
    engine: Engine,
    _dir: tempfile::TempDir,
}

impl Server {
    /// Returns a server with one table, `t`, with the families `f` and `g`.
    async fn start(gate: Option<Arc<Gate>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(dir.path(), Options::default()).unwrap();
        let clock = Arc::new(base::env::SystemClock);
        let store = Arc::new(Local::open(engine.clone(), clock).unwrap());
        let callers = if gate.is_some() { Callers::Named } else { Callers::Anybody };
        let bounds = Bounds::new(&Limits::within(64 << 20));
        let (routes, _) =
            bigtable::services_for(Arc::clone(&store), KnownNames::All, callers, &bounds);
        let state = Arc::new(State::new(None));
        state.set_engine(engine.clone());
        state.set_store(Arc::clone(&store));
        state.set_routes(routes);
        let console = Arc::new(Console::new(state, gate));
        let server = Self { console, store, engine, _dir: dir };
        server.create("t").await;
        server
    }

    async fn create(&self, id: &str) {
        self.create_with(id, Granularity::default()).await;
    }

    async fn create_with(&self, id: &str, granularity: Granularity) {
        let families = ["f", "g"].map(|name| (name.to_owned(), FamilySpec::default()));
        let table = CreateTable {
            name: TableName::new(format!("{INSTANCE}/tables/{id}")).unwrap(),
            families: families.into(),
            splits: Vec::new(),
            deletion_protection: false,
            granularity,
            row_key_schema: None,
        };
        self.store.create_table(table).await.unwrap();
    }

    /// Writes cells of a row of `t`: family, qualifier, value.
    async fn write(&self, row: &[u8], cells: &[(&str, &[u8], Vec<u8>)]) {
        let cell = |(at, (family, qualifier, value)): (usize, &(&str, &[u8], Vec<u8>))| {
            RowMutation::SetCell {
                family: (*family).to_owned(),
                qualifier: qualifier.to_vec().into(),
                timestamp: WriteTime::At(Timestamp(1_000 * (at as i64 + 1))),
                value: value.clone().into(),
            }
        };
        let mutations = cells.iter().enumerate().map(cell).collect();
        let row = RowMutations { row: row.to_vec().into(), mutations };
        self.store.mutate_row(&TableName::new(TABLE).unwrap(), row).await.unwrap();
    }

    /// Returns status and answer of a request of the API, by a visitor with a token if there is one.
    async fn get(&self, path: &str, token: Option<&str>) -> (StatusCode, Value) {
        self.send(Request::get(format!("{API}{path}")), token, Body::empty()).await
    }

    /// Returns status and answer of a request with a query of SQL.
    async fn sql(&self, path: &str, query: &str, token: Option<&str>) -> (StatusCode, Value) {
        let body = serde_json::json!({ "instance": INSTANCE, "query": query }).to_string();
        self.send(Request::post(format!("{API}{path}")), token, body.into()).await
    }

    async fn send(
        &self,
        request: axum::http::request::Builder,
        token: Option<&str>,
        body: Body,
    ) -> (StatusCode, Value) {
        let bearer = format!("Bearer {}", token.unwrap_or_default());
        let mut headers = vec![(guard::HEADER, "1")];
        headers.extend(token.map(|_| ("authorization", bearer.as_str())));
        let answer = answer(&self.console, HERE, request, &headers, body).await;
        let status = answer.status();
        (status, json(answer).await)
    }
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decoded(shown: &Value) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(shown["data"].as_str().unwrap()).unwrap()
}
