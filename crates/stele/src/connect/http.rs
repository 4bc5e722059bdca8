//! Requests to the HTTP side of a server.

use super::Server;
use crate::config::ConfigError;
use crate::serve::admin::HEADER;
use anyhow::{Context, Result, anyhow, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;

/// An answer is never larger.
const ANSWER_BYTES_MAX: usize = 16 << 20;

impl Server {
    /// Sends a request to a path below `/admin` and returns the body of its answer. An answer other
    /// than 200 is an error.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let address = &self.address;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", address)
            .header("content-type", "application/json")
            .header(HEADER, "1")
            .body(Full::new(body))
            .map_err(|error| ConfigError(format!("{address:?} is not HOST:PORT: {error}")))?;
        if let Some(token) = self.authorization()? {
            let mut value = HeaderValue::from_bytes(token.as_bytes())?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let stream = self.open().await.context(
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
        Ok(body)
    }
}
