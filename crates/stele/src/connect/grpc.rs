//! Connections to the Bigtable service of a server.
//!
//! 1. A connection whose peer does not answer a ping is closed: its calls fail, and the next call connects
//!    again.
//! 2. A server that answers pings but not the call is given up after [`SILENCE_MAX`]: each await of an
//!    answer goes through [`answered`].

use super::Server;
use anyhow::{Context, Result};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{self, Endpoint};
use tonic::{Request, Status};
use tower::service_fn;

/// Longest time in which a connection is made, with the handshake of TLS.
const CONNECT_MAX: Duration = Duration::from_secs(20);
/// Pause of a busy connection after which the server is asked for a sign of life, and the time that it
/// has for one.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_MAX: Duration = Duration::from_secs(20);
/// Longest silence of a server within a call.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Awaits an answer of a server, or the next message of one, for two minutes.
pub(crate) async fn answered<T>(
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let answer = tokio::time::timeout(SILENCE_MAX, answer).await;
    answer.unwrap_or_else(|_| {
        let seconds = SILENCE_MAX.as_secs();
        Err(Status::deadline_exceeded(format!("the server said nothing for {seconds} seconds")))
    })
}

/// A connection on which each request carries the token, if there is one.
pub(crate) type Channel = InterceptedService<transport::Channel, Authorize>;

/// Adds the token to each request.
#[derive(Clone)]
pub(crate) struct Authorize(Server);

impl Interceptor for Authorize {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let token = self.0.authorization();
        if let Some(token) = token.map_err(|error| Status::unauthenticated(format!("{error:#}")))? {
            request.metadata_mut().insert("authorization", token);
        }
        Ok(request)
    }
}

impl Server {
    /// Returns where and how connections are made.
    fn endpoint(&self) -> Result<Endpoint> {
        let address = &self.address;
        let scheme = if self.is_secured() { "https" } else { "http" };
        Ok(Endpoint::from_shared(format!("http://{address}"))
            .with_context(|| format!("{address:?} is not HOST:PORT"))?
            .origin(
                format!("{scheme}://{address}")
                    .parse()
                    .with_context(|| format!("{address:?} is not HOST:PORT"))?,
            )
            .connect_timeout(CONNECT_MAX)
            .http2_keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_MAX))
    }

    /// Returns a connection that is made when a call first needs it, and again when it is lost.
    pub(crate) fn lazily(self) -> Result<Channel> {
        let (endpoint, authorize) = (self.endpoint()?, Authorize(self.clone()));
        let open = service_fn(move |_| {
            let server = self.clone();
            async move { server.open().await.map(TokioIo::new) }
        });
        Ok(InterceptedService::new(endpoint.connect_with_connector_lazy(open), authorize))
    }

    /// Connects to the Bigtable service. `instead` says what the caller may do if no server responds.
    pub(crate) async fn bigtable(self, instead: &str) -> Result<Channel> {
        let (endpoint, address) = (self.endpoint()?, self.address.clone());
        let authorize = Authorize(self.clone());
        let open = service_fn(move |_| {
            let server = self.clone();
            async move { server.open().await.map(TokioIo::new) }
        });
        let channel = endpoint.connect_with_connector(open).await.with_context(|| {
            format!(
                "no server responds at {address}; start one with `stele serve`, pass another \
                 address with --endpoint, or {instead}"
            )
        })?;
        Ok(InterceptedService::new(channel, authorize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[tokio::test(start_paused = true)]
    async fn a_call_without_answer_ends() {
        let silent = answered(std::future::pending::<Result<(), Status>>()).await;
        assert_eq!(silent.unwrap_err().code(), Code::DeadlineExceeded);
        assert_eq!(answered(async { Ok(7) }).await.unwrap(), 7);
    }
}
