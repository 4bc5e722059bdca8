//! HTTP/2 as attackers speak it: by the `h2` crate with every freedom, and by bare frames.

use super::attacker::Field;
use super::attacks::Call;
use crate::AnyError;
use bytes::{Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use prost::Message;
use std::time::Duration;
use tonic::codegen::http::Request;
use tonic::{Code, Status};

pub(super) const READ_ROWS: &str = "/google.bigtable.v2.Bigtable/ReadRows";
pub(super) const MUTATE_ROW: &str = "/google.bigtable.v2.Bigtable/MutateRow";
pub(super) const CHECK_AND_MUTATE_ROW: &str = "/google.bigtable.v2.Bigtable/CheckAndMutateRow";

/// First bytes of every connection.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of the HTTP/2 frames that attackers write.
pub(super) mod frame {
    pub(in crate::hostile) const HEADERS: u8 = 1;
    pub(in crate::hostile) const SETTINGS: u8 = 4;
    pub(in crate::hostile) const PING: u8 = 6;
    pub(in crate::hostile) const CONTINUATION: u8 = 9;
}

/// A connection by the `h2` crate.
pub(super) struct Peer {
    requests: SendRequest<Bytes>,
    authority: String,
    /// Header by which the attackers sign in.
    authorization: Option<String>,
    connection: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Peer {
    /// Connects, and takes at most `window` bytes of a stream ahead of its reader.
    pub(super) async fn connect(field: &Field, window: u32) -> Result<Self, AnyError> {
        let stream = field.connect().await?;
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(16 << 20);
        builder.initial_max_send_streams(usize::MAX).max_concurrent_reset_streams(1 << 20);
        let (requests, connection) = builder.handshake(stream).await?;
        let (authority, authorization) = (field.address.to_string(), field.authorization());
        Ok(Self { requests, authority, authorization, connection: tokio::spawn(connection) })
    }

    /// Begins a call of the method at `path`; its body is still to be sent.
    pub(super) async fn begin(
        &self,
        path: &str,
        timeout: Option<&str>,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), AnyError> {
        self.begin_as(self.authorization.as_deref(), path, timeout).await
    }

    async fn begin_as(
        &self,
        authorization: Option<&str>,
        path: &str,
        timeout: Option<&str>,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), AnyError> {
        let mut request = Request::post(format!("http://{}{path}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(timeout) = timeout {
            request = request.header("grpc-timeout", timeout);
        }
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let mut requests = self.requests.clone().ready().await?;
        Ok(requests.send_request(request.body(())?, false)?)
    }

    /// Sends a call with its only message.
    pub(super) async fn send(
        &self,
        path: &str,
        message: &impl Message,
        timeout: Option<&str>,
    ) -> Result<ResponseFuture, AnyError> {
        let (answer, mut upload) = self.begin(path, timeout).await?;
        upload.send_data(framed(&message.encode_to_vec()), true)?;
        Ok(answer)
    }

    /// Calls a method and reads its answer to the end; returns its code.
    pub(super) async fn call(
        &self,
        path: &str,
        message: &impl Message,
        timeout: Option<&str>,
    ) -> Result<Code, AnyError> {
        finish(self.send(path, message, timeout).await?).await
    }

    /// Makes a call with other credentials, or with none; returns its code.
    pub(super) async fn call_as(
        &self,
        authorization: Option<&str>,
        call: &Call,
    ) -> Result<Code, AnyError> {
        let (answer, mut upload) = self.begin_as(authorization, call.path, None).await?;
        // A server that refuses the call may have ended it before its message.
        let _ = upload.send_data(framed(&call.request), true);
        finish(answer).await
    }

    /// Returns whether the server still keeps the connection.
    pub(super) fn is_open(&self) -> bool {
        !self.connection.is_finished()
    }
}

/// Reads an answer to its end; returns its code.
pub(super) async fn finish(answer: ResponseFuture) -> Result<Code, AnyError> {
    let answer = answer.await?;
    let mut headers = answer.headers().clone();
    let mut body = answer.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    headers.extend(body.trailers().await?.unwrap_or_default());
    let status = Status::from_header_map(&headers).ok_or("no status")?;
    Ok(status.code())
}

/// Takes one piece of `body` after another, each after a pause.
pub(super) async fn sip(body: &mut RecvStream, pause: Duration) -> Result<(), AnyError> {
    while let Some(data) = body.data().await {
        let len = data?.len();
        tokio::time::sleep(pause).await;
        body.flow_control().release_capacity(len)?;
    }
    Ok(())
}

/// Returns a message of gRPC with the prefix that tells its length.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::from(&prefix(message.len() as u32)[..]);
    bytes.extend_from_slice(message);
    bytes.freeze()
}

/// Returns the prefix of a message of `len` bytes.
pub(super) fn prefix(len: u32) -> [u8; 5] {
    let [a, b, c, d] = len.to_be_bytes();
    [0, a, b, c, d]
}

/// Returns a frame of HTTP/2.
pub(super) fn bare_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let head = [&len[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// Returns what opens a connection: the preface and empty settings.
pub(super) fn opening() -> Vec<u8> {
    [PREFACE, &bare_frame(frame::SETTINGS, 0, 0, &[])].concat()
}

/// Returns a header block of `count` fields with values of `len` bytes, none of which is indexed.
pub(super) fn junk_headers(count: usize, len: u8) -> Vec<u8> {
    let field = |number: usize| {
        let name = format!("x-junk-{number:04}");
        [&[0, name.len() as u8], name.as_bytes(), &[len], &vec![b'j'; usize::from(len)]].concat()
    };
    (0..count).flat_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_prefixes_are_those_of_the_protocols() {
        assert_eq!(prefix(256 << 20), [0, 16, 0, 0, 0]);
        assert_eq!(framed(b"ab")[..], [0, 0, 0, 0, 2, b'a', b'b']);
        let ping = bare_frame(frame::PING, 0, 0, b"hostile!");
        assert_eq!(ping[..], *b"\0\0\x08\x06\0\0\0\0\0hostile!");
        let block = junk_headers(2, 3);
        assert_eq!(block[..], *b"\0\x0bx-junk-0000\x03jjj\0\x0bx-junk-0001\x03jjj");
    }
}
