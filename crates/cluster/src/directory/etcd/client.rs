//! Calls of etcd, over several endpoints.
//!
//! 1. A call that may have been sent is repeated at another endpoint only if it may be made twice. A
//!    change is not: its own first attempt would make the second one fail.
//! 2. A call that did not reach its endpoint goes to the next one at once.
//! 3. An attempt is bounded by [`ATTEMPT_MAX`], a call with all its attempts by [`CALL_MAX`].

use super::EtcdOptions;
use crate::dial::{Dialed, Pings, endpoint, told, was_not_sent};
use crate::directory::error::{Error, Result};
use arc_swap::ArcSwap;
use futures::Stream;
use prost::Message;
use rustls::ClientConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// Longest wait for one endpoint.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// Longest wait of a call.
const CALL_MAX: Duration = Duration::from_secs(8);
/// Largest answer: a page of the largest values, or the events of one change.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Etcd closes connections that ping more often than every 5 seconds, or without a call.
const PINGS: Pings =
    Pings { after: Duration::from_secs(8), bound: Duration::from_secs(3), idle: false };

/// The harm of a call that takes effect twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Twice is as good as once.
    Harmless,
    /// An attempt that may have been sent is the last one.
    Never,
}

/// Connections to all endpoints of one etcd.
pub(super) struct Client {
    channels: Vec<Channel>,
    names: Vec<String>,
    /// Endpoint that is asked first. Publishes nothing.
    preferred: AtomicUsize,
    /// Configuration of TLS, if connections are encrypted.
    tls: Option<Arc<ArcSwap<ClientConfig>>>,
}

impl Client {
    /// Returns a client that connects when it is used.
    pub(super) fn new(options: &EtcdOptions) -> Result<Self> {
        if options.endpoints.is_empty() {
            return Err(Error::Invalid("etcd needs at least one endpoint".to_owned()));
        }
        let (mut channels, mut names) = (Vec::new(), Vec::new());
        for address in &options.endpoints {
            let server = Dialed { address: address.clone(), tls: options.tls.clone() };
            let reached = endpoint(&server)
                .map_err(|text| Error::Invalid(format!("endpoint of etcd: {text}")))?;
            channels.push(server.channel(reached, PINGS));
            names.push(address.clone());
        }
        let tls = options.tls.clone();
        Ok(Self { channels, names, preferred: AtomicUsize::new(0), tls })
    }

    /// Returns what may help where a connection breaks. By TLS 1.3 a client without a certificate is
    /// refused after its side of the handshake is done, and may see no more than a closed connection.
    fn advice(&self) -> &'static str {
        let is_uncertified =
            |tls: &Arc<ArcSwap<ClientConfig>>| !tls.load().client_auth_cert_resolver.has_certs();
        if self.tls.as_ref().is_some_and(is_uncertified) {
            "; it may want the certificate of a client, see etcd_cert and etcd_key"
        } else {
            ""
        }
    }

    /// Returns the addresses of all endpoints.
    pub(super) fn names(&self) -> String {
        self.names.join(",")
    }

    /// Makes a call with one answer.
    pub(super) async fn call<Q, R>(
        &self,
        path: &'static str,
        request: Q,
        twice: Repeat,
    ) -> Result<R>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.attempts(twice, |channel| {
            let request = Request::new(request.clone());
            async move {
                let mut grpc = grpc(channel);
                ready(&mut grpc).await?;
                let codec = ProstCodec::<Q, R>::default();
                let path = PathAndQuery::from_static(path);
                Ok(grpc.unary(request, path, codec).await?.into_inner())
            }
        })
        .await
    }

    /// Opens a stream of requests and answers. A member of etcd that loses its leader ends the stream.
    pub(super) async fn stream<Q, R, S>(
        &self,
        path: &'static str,
        requests: impl Fn() -> S,
    ) -> Result<Streaming<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
        S: Stream<Item = Q> + Send + 'static,
    {
        self.attempts(Repeat::Harmless, |channel| {
            let mut request = Request::new(requests());
            let value = MetadataValue::from_static("true");
            request.metadata_mut().insert("hasleader", value);
            async move {
                let mut grpc = grpc(channel);
                ready(&mut grpc).await?;
                let codec = ProstCodec::<Q, R>::default();
                let path = PathAndQuery::from_static(path);
                Ok(grpc.streaming(request, path, codec).await?.into_inner())
            }
        })
        .await
    }

    /// Tries endpoints until one answers, beginning with the one that answered last.
    async fn attempts<T, F: Future<Output = std::result::Result<T, Status>>>(
        &self,
        twice: Repeat,
        attempt: impl Fn(Channel) -> F,
    ) -> Result<T> {
        let all = async {
            let first = self.preferred.load(Ordering::Relaxed);
            let mut last = String::new();
            for step in 0..self.channels.len() {
                let at = (first + step) % self.channels.len();
                let name = &self.names[at];
                let answer = tokio::time::timeout(ATTEMPT_MAX, attempt(self.channels[at].clone()));
                let status = match answer.await {
                    Ok(Ok(answer)) => {
                        self.preferred.store(at, Ordering::Relaxed);
                        return Ok(answer);
                    }
                    Ok(Err(status)) => status,
                    Err(_) => {
                        let text = format!("no answer in {} s", ATTEMPT_MAX.as_secs());
                        Status::deadline_exceeded(text)
                    }
                };
                if is_answer(&status) {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Err(error_of(&status));
                }
                self.preferred.store((at + 1) % self.channels.len(), Ordering::Relaxed);
                last = format!("etcd at {name}: {}{}", told(&status), self.advice());
                if twice == Repeat::Never && !was_not_sent(&status) {
                    return Err(Error::Unavailable(format!(
                        "{last}; the change may have been made"
                    )));
                }
            }
            Err(Error::Unavailable(last))
        };
        let bounded = tokio::time::timeout(CALL_MAX, all).await;
        bounded.unwrap_or_else(|_| {
            let seconds = CALL_MAX.as_secs();
            Err(Error::Unavailable(format!("etcd at {}: no answer in {seconds} s", self.names())))
        })
    }
}

/// Returns true if etcd decided so; false if its answer is not known.
fn is_answer(status: &Status) -> bool {
    let is_broken = std::error::Error::source(status).is_some();
    !is_broken && !matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded)
}

fn grpc(channel: Channel) -> Grpc<Channel> {
    Grpc::new(channel)
        .max_decoding_message_size(ANSWER_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX)
}

/// Waits for room on the connection. Nothing was sent if this fails.
async fn ready(grpc: &mut Grpc<Channel>) -> std::result::Result<(), Status> {
    grpc.ready().await.map_err(|error| {
        let mut status = Status::unavailable(error.to_string());
        status.set_source(std::sync::Arc::new(error));
        status
    })
}

/// Returns the error for an answer of etcd that refuses a call. Etcd tells a full database and an
/// overload by the same code, so the text repeats its words.
pub(super) fn error_of(status: &Status) -> Error {
    let text = status.message();
    match status.code() {
        Code::ResourceExhausted => Error::Full(format!(
            "etcd: {text}; if its database is full, compact and defragment it, then disarm the alarm"
        )),
        Code::OutOfRange => Error::Compacted,
        Code::NotFound => Error::LeaseLost,
        Code::InvalidArgument => Error::Invalid(format!("etcd: {text}")),
        Code::Unauthenticated | Code::PermissionDenied => {
            Error::Refused(format!("etcd refuses this program: {text}"))
        }
        _ => Error::Unavailable(format!("etcd: {}", told(status))),
    }
}
