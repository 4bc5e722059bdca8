//! Asks a running server for a checkpoint, over its HTTP address.

use crate::config::ConfigError;
use crate::serve::admin::HEADER;
use crate::serve::checkpoint::{Made, Wanted};
use anyhow::{Context, Result, anyhow, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// An answer is never larger.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A server that is on this machine, by its HTTP address.
#[derive(Debug, Clone)]
pub(super) struct Server {
    address: String,
}

impl Server {
    /// The server that `source` names: `http://HOST:PORT`. `None` if it names none.
    pub(super) fn of(source: &str) -> Option<Self> {
        let address = source.strip_prefix("http://")?.trim_end_matches('/').to_owned();
        Some(Self { address })
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
        let address = &self.address;
        let asked = self.exchange(method, body).await;
        asked.with_context(|| format!("could not query the server at http://{address}"))
    }

    async fn exchange(&self, method: Method, body: Bytes) -> Result<Made> {
        let address = &self.address;
        let request = Request::builder()
            .method(method)
            .uri("/admin/checkpoint")
            .header("host", address)
            .header("content-type", "application/json")
            .header(HEADER, "1")
            .body(Full::new(body))
            .map_err(|error| ConfigError(format!("{address:?} is not HOST:PORT: {error}")))?;
        let stream = TcpStream::connect(address).await;
        let stream = stream.context(
            "no connection; check that the server runs and that this is its HTTP address",
        )?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        connection.abort();
        let body = body.map_err(|error| anyhow!(error))?.to_bytes();
        if status != StatusCode::OK {
            bail!("the server responded {status}: {}", String::from_utf8_lossy(&body).trim_end());
        }
        serde_json::from_slice(&body)
            .context("invalid response; the server may have another version")
    }
}
