//! Calls of other nodes: bytes in, a stream of bytes out. The layer above knows their content.

use super::codec::AsBytes;
use super::sender::Link;
use super::{FRAME_BYTES_MAX, Local, server};
use crate::dial::{Dialed, endpoint, told, was_not_sent};
use crate::group::NodeId;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// Answers of a call, in order. Nothing follows an error.
pub type Answers = BoxStream<'static, Result<Bytes, CallError>>;

/// Waits for the end of answers after the last one that counts. A call that is dropped before its end is
/// cancelled, which its connection has to remember for some time.
pub async fn finish(mut answers: Answers) {
    let _ = answers.next().await;
}

/// Purposes that calls can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// An operation on rows, which the called node may carry out.
    Forward,
    /// Creates a replica of a group on the called node.
    CreateReplica,
    /// Removes a replica of a group from the called node.
    RemoveReplica,
    /// Gives a group, which the called node leads, the schema of its table.
    SetSchema,
    /// Asks which node leads a group.
    Leader,
    /// Asks how the node is.
    Status,
    /// Asks which node and start was reached. The link answers it.
    Identity,
    /// Asks which node and start the called node reaches at the caller's address. The link answers it.
    Reach,
}

/// Why a call has no answer, or no further one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The call did not reach its node, or was refused before anything was done.
    NotDone(String),
    /// The connection broke, or the node failed: the call may have taken effect.
    Unknown(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDone(text) | Self::Unknown(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CallError {}

impl CallKind {
    /// All purposes that calls can have.
    pub const ALL: [Self; 8] = [
        Self::Forward,
        Self::CreateReplica,
        Self::RemoveReplica,
        Self::SetSchema,
        Self::Leader,
        Self::Status,
        Self::Identity,
        Self::Reach,
    ];

    /// Returns the path of the method of gRPC.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Forward => "/stele.node.v1.Node/Forward",
            Self::CreateReplica => "/stele.node.v1.Node/CreateReplica",
            Self::RemoveReplica => "/stele.node.v1.Node/RemoveReplica",
            Self::SetSchema => "/stele.node.v1.Node/SetSchema",
            Self::Leader => "/stele.node.v1.Node/Leader",
            Self::Status => "/stele.node.v1.Node/Status",
            Self::Identity => "/stele.node.v1.Node/Identity",
            Self::Reach => "/stele.node.v1.Node/Reach",
        }
    }
}

/// A connection for calls, which stays open between them.
pub(super) struct CallChannel {
    address: String,
    channel: Channel,
}

impl Link {
    /// Calls another node, and returns its answers as they come. Waits as long as the node works, but not
    /// for a node that answers no ping: the caller bounds the call by dropping it.
    pub async fn call(
        &self,
        to: NodeId,
        kind: CallKind,
        request: Bytes,
    ) -> Result<Answers, CallError> {
        if request.len() > FRAME_BYTES_MAX {
            let text = format!("a call has at most {FRAME_BYTES_MAX} bytes, not {}", request.len());
            return Err(CallError::NotDone(text));
        }
        call_on(self.channel_to(to)?, &self.context.us, to, kind, request).await
    }

    /// Returns the connection for calls to a node, at its present address.
    fn channel_to(&self, to: NodeId) -> Result<Channel, CallError> {
        let Some(entry) = self.context.book.entry(to) else {
            return Err(CallError::NotDone(format!("no address of node {} is known", to.0)));
        };
        let mut channels = self.channels.lock();
        if let Some(open) = channels.get(&to).filter(|open| open.address == entry.address) {
            return Ok(open.channel.clone());
        }
        let tls = self.context.options.tls.as_ref().map(|tls| Arc::clone(&tls.client));
        let server = Dialed { address: entry.address.clone(), tls };
        let reached = endpoint(&server)
            .map_err(|text| CallError::NotDone(format!("node {}: {text}", to.0)))?;
        let channel = server.channel(reached, self.context.options.pings());
        let open = CallChannel { address: entry.address, channel: channel.clone() };
        channels.insert(to, open);
        Ok(channel)
    }
}

/// Calls a node on a connection, as `us`.
pub(super) async fn call_on(
    channel: Channel,
    us: &Local,
    to: NodeId,
    kind: CallKind,
    request: Bytes,
) -> Result<Answers, CallError> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(FRAME_BYTES_MAX);
    let name = format!("node {}", to.0);
    grpc.ready().await.map_err(|error| CallError::NotDone(format!("{name}: {error}")))?;
    let greeting = us.greeting(to, 0);
    let mut request = Request::new(request);
    server::greet(request.metadata_mut(), &greeting);
    let path = PathAndQuery::from_static(kind.path());
    let answers = grpc.server_streaming(request, path, AsBytes).await;
    let answers = answers.map_err(|status| error_of(&name, &status))?.into_inner();
    Ok(answers.map_err(move |status| error_of(&name, &status)).boxed())
}

fn error_of(name: &str, status: &Status) -> CallError {
    let text = format!("{name}: {}", told(status));
    // A server that says this has done nothing.
    let refused = matches!(status.code(), Code::FailedPrecondition | Code::Unimplemented);
    if refused || was_not_sent(status) {
        CallError::NotDone(text)
    } else {
        CallError::Unknown(text)
    }
}
