//! Asks a running server for a checkpoint, over its HTTP address.

use crate::connect::{self, ConnectArgs};
use crate::serve::checkpoint::{Made, Wanted};
use anyhow::{Context, Result};
use hyper::Method;
use hyper::body::Bytes;

/// A server that is on this machine.
pub(super) struct Server {
    server: connect::Server,
    source: String,
}

impl Server {
    /// The server that `source` names: `http://HOST:PORT` or `https://HOST:PORT`. `None` if it names
    /// none.
    pub(super) fn of(source: &str, connect: &ConnectArgs) -> Result<Option<Self>> {
        if !source.starts_with("http://") && !source.starts_with("https://") {
            return Ok(None);
        }
        let server = connect.server(source, "http/1.1")?;
        Ok(Some(Self { server, source: source.trim_end_matches('/').to_owned() }))
    }

    /// Asks where the server's data directory is.
    pub(super) async fn data_dir(&self) -> Result<Made> {
        self.ask(Method::GET, Bytes::new()).await
    }

    /// Has the server make a checkpoint.
    pub(super) async fn checkpoint(&self, wanted: &Wanted) -> Result<Made> {
        self.ask(Method::POST, serde_json::to_vec(wanted)?.into()).await
    }

    async fn ask(&self, method: Method, body: Bytes) -> Result<Made> {
        let asked = self.server.ask(method, "/admin/checkpoint", body).await;
        let asked = asked.with_context(|| format!("could not query the server at {}", self.source));
        serde_json::from_slice(&asked?)
            .context("invalid response; the server may have another version")
    }
}
