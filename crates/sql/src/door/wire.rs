//! Messages of one connection over its stream. The bytes are `pgwire`'s; this file cuts the stream into
//! messages, within bounds.
//!
//! Invariants:
//! 1. A message is buffered only up to [`Bounds::message_bytes_max`], and a statement up to
//!    [`Bounds::statement_bytes_max`]. A longer statement is read past, without a buffer, and refused;
//!    any other longer message ends the connection.
//! 2. [`Wire::next`] may be dropped at any await: nothing that was read is lost.
//! 3. Messages are sent in the order of [`Wire::put`], at the latest by [`Wire::flush`].

use super::shape::{self, Misshapen};
use bytes::{Buf, BytesMut};
use pgwire::error::PgWireError;
use pgwire::messages::{
    DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion,
};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest message before the client is known.
const STARTUP_BYTES_MAX: usize = 10_000;
/// Longest message after the start of a client that was not let in yet: more than any password needs.
const STRANGER_BYTES_MAX: usize = 64 << 10;
/// Bytes of answers that make [`Wire::drain`] write.
const OUTPUT_BYTES: usize = 64 << 10;
/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// Capacity above which an empty buffer is given back.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Bounds of messages, before and after a client is let in.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Longest message in bytes. Longer ones end their connection.
    pub message_bytes_max: usize,
    /// Longest text of a statement in bytes.
    pub statement_bytes_max: usize,
}

impl Bounds {
    /// Bounds of a client that was not let in yet.
    pub(crate) const STRANGER: Self =
        Self { message_bytes_max: STRANGER_BYTES_MAX, statement_bytes_max: STRANGER_BYTES_MAX };
}

impl Default for Bounds {
    fn default() -> Self {
        Self { message_bytes_max: 64 << 20, statement_bytes_max: 16 << 20 }
    }
}

/// Something that a client sent.
#[derive(Debug)]
pub(crate) enum Inbound {
    Message(PgWireFrontendMessage),
    /// A statement that was read to its end and is not executed.
    Refused {
        is_extended: bool,
        why: Refusal,
    },
}

/// Reason for which a statement is not executed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It has more than this number of bytes.
    TooLong(usize),
    /// It is no text in UTF-8.
    Encoding(String),
}

/// Reason for which a connection ends.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The client closed its connection or went away.
    Closed,
    Io(io::Error),
    /// The client broke the protocol; it is told so.
    Protocol(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<PgWireError> for Broken {
    fn from(error: PgWireError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// A connection that speaks in messages.
pub(crate) struct Wire<S> {
    stream: S,
    input: BytesMut,
    output: BytesMut,
    context: DecodeContext,
    bounds: Bounds,
    /// Bytes of a refused statement that are still to be read past.
    skip: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Returns the connection over `stream`, whose first message is that of a start.
    pub(crate) fn new(stream: S, bounds: Bounds) -> Self {
        Self {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            context: DecodeContext::new(ProtocolVersion::PROTOCOL3_2),
            bounds,
            skip: 0,
        }
    }

    /// Returns the stream, if the client sent nothing beyond its last message.
    pub(crate) fn into_stream(self) -> Result<S, Broken> {
        if self.input.is_empty() {
            return Ok(self.stream);
        }
        Err(Broken::Protocol("received unencrypted data after SSL request".into()))
    }

    /// Returns the next message of a start: a request for TLS, a cancel request, or the start itself.
    pub(crate) async fn next_start(&mut self) -> Result<PgWireFrontendMessage, Broken> {
        self.fill(8).await?;
        let len = self.length_at(0);
        if !(8..=STARTUP_BYTES_MAX).contains(&len) {
            return Err(Broken::Protocol("invalid length of startup packet".into()));
        }
        self.fill(len).await?;
        let mut frame = self.input.split_to(len);
        self.context.awaiting_frontend_startup = true;
        for awaiting_ssl in [true, false] {
            self.context.awaiting_frontend_ssl = awaiting_ssl;
            let message = PgWireFrontendMessage::decode(&mut frame, &self.context)?;
            match message {
                Some(PgWireFrontendMessage::SslNegotiation(
                    pgwire::messages::SslNegotiationMetaMessage::None,
                ))
                | None => {}
                Some(message) => return Ok(message),
            }
        }
        Err(Broken::Protocol("invalid startup packet layout".into()))
    }

    /// Ends the start: every further message has a type.
    pub(crate) fn started(&mut self, version: ProtocolVersion) {
        self.context.awaiting_frontend_ssl = false;
        self.context.awaiting_frontend_startup = false;
        self.context.protocol_version = version;
    }

    /// Has other bounds from the next message on.
    pub(crate) fn bound(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Returns the next message of the client, as soon as it is whole.
    pub(crate) async fn next(&mut self) -> Result<Inbound, Broken> {
        self.read_past().await?;
        self.fill(5).await?;
        let (kind, len) = (self.input[0], self.length_at(1));
        if len < 4 {
            return Err(Broken::Protocol("invalid message length".into()));
        }
        let is_statement = matches!(kind, b'Q' | b'P');
        if is_statement && len > self.bounds.statement_bytes_max && len < 1 << 30 {
            self.input.advance(5);
            self.skip = len - 4;
            self.read_past().await?;
            let why = Refusal::TooLong(self.bounds.statement_bytes_max);
            return Ok(Inbound::Refused { is_extended: kind == b'P', why });
        }
        if len > self.bounds.message_bytes_max {
            return Err(Broken::Protocol(format!(
                "invalid message length {len}; the longest is {}",
                self.bounds.message_bytes_max
            )));
        }
        self.fill(len + 1).await?;
        let mut frame = self.input.split_to(len + 1);
        match shape::check(kind, &frame[5..]) {
            Ok(()) => {}
            Err(bad @ Misshapen::Encoding(_)) => {
                let why = Refusal::Encoding(bad.to_string());
                return Ok(Inbound::Refused { is_extended: kind == b'P', why });
            }
            Err(bad) => return Err(Broken::Protocol(bad.to_string())),
        }
        let message = PgWireFrontendMessage::decode(&mut frame, &self.context)?;
        message.map(Inbound::Message).ok_or_else(|| Broken::Protocol("invalid message".into()))
    }

    /// Appends a message to what is sent next.
    pub(crate) fn put(&mut self, message: &PgWireBackendMessage) -> Result<(), Broken> {
        Ok(message.encode(&mut self.output)?)
    }

    /// Sends what waits if it is much.
    pub(crate) async fn drain(&mut self) -> Result<(), Broken> {
        if self.output.len() < OUTPUT_BYTES { Ok(()) } else { self.flush().await }
    }

    /// Sends everything that waits to be sent to the client.
    pub(crate) async fn flush(&mut self) -> Result<(), Broken> {
        while self.output.has_remaining() {
            if self.stream.write_buf(&mut self.output).await? == 0 {
                return Err(Broken::Closed);
            }
        }
        if self.output.capacity() > KEPT_BYTES_MAX {
            self.output = BytesMut::new();
        }
        Ok(self.stream.flush().await?)
    }

    /// Ends the connection. Errors do not matter any more.
    pub(crate) async fn close(&mut self) {
        let _ = self.flush().await;
        let _ = self.stream.shutdown().await;
    }

    fn length_at(&self, at: usize) -> usize {
        let bytes = [self.input[at], self.input[at + 1], self.input[at + 2], self.input[at + 3]];
        u32::from_be_bytes(bytes) as usize
    }

    /// Reads until `len` bytes are there.
    async fn fill(&mut self, len: usize) -> Result<(), Broken> {
        while self.input.len() < len {
            if self.input.is_empty() && self.input.capacity() > KEPT_BYTES_MAX {
                self.input = BytesMut::new();
            }
            // A length says how much will come, not how much is there: the buffer grows with the bytes.
            self.input.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(Broken::Closed);
            }
        }
        Ok(())
    }

    async fn read_past(&mut self) -> Result<(), Broken> {
        while self.skip > 0 {
            self.fill(1).await?;
            let here = self.skip.min(self.input.len());
            self.input.advance(here);
            self.skip -= here;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    const SMALL: Bounds = Bounds { message_bytes_max: 1_000, statement_bytes_max: 100 };

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend(body);
        bytes
    }

    async fn after(bytes: Vec<u8>) -> (Wire<tokio::io::DuplexStream>, tokio::task::JoinHandle<()>) {
        let (mut client, server) = duplex(64);
        let sender = tokio::spawn(async move {
            let _ = client.write_all(&bytes).await;
        });
        let mut wire = Wire::new(server, SMALL);
        wire.started(ProtocolVersion::PROTOCOL3_0);
        (wire, sender)
    }

    #[tokio::test]
    async fn a_long_statement_is_refused_and_the_next_message_read() {
        let mut bytes = message(b'Q', &[b'x'; 500]);
        bytes.extend(message(b'Q', b"SELECT 1\0"));
        let (mut wire, _sender) = after(bytes).await;
        let first = wire.next().await.unwrap();
        let Inbound::Refused { is_extended: false, why: Refusal::TooLong(100) } = first else {
            panic!("{first:?}");
        };
        let Inbound::Message(PgWireFrontendMessage::Query(query)) = wire.next().await.unwrap()
        else {
            panic!("no query");
        };
        assert_eq!(query.query, "SELECT 1");
        assert!(matches!(wire.next().await, Err(Broken::Closed)));
    }

    #[tokio::test]
    async fn an_oversized_or_half_message_ends_the_connection() {
        for (case, bytes) in [
            ("too long", message(b'B', &[0; 2_000])),
            ("length below four", vec![b'Q', 0, 0, 0, 3]),
            ("unknown type", message(b'!', b"")),
            ("misshapen", message(b'E', b"\0")),
        ] {
            let (mut wire, _sender) = after(bytes).await;
            let got = wire.next().await;
            assert!(matches!(got, Err(Broken::Protocol(_))), "{case}: {got:?}");
        }
        let whole = message(b'Q', b"SELECT 1\0");
        for len in 0..whole.len() {
            let (mut wire, _sender) = after(whole[..len].to_vec()).await;
            let got = wire.next().await;
            assert!(matches!(got, Err(Broken::Closed)), "{len}: {got:?}");
        }
    }

    #[tokio::test]
    async fn a_stranger_sends_short_messages_only() {
        // The length is refused before any of the body is there.
        let (mut wire, _sender) = after(vec![b'p', 0, 1, 0, 1]).await;
        wire.bound(Bounds::STRANGER);
        assert!(matches!(wire.next().await, Err(Broken::Protocol(_))));
    }

    #[tokio::test]
    async fn a_start_is_bounded() {
        for start in [vec![0, 0, 0, 7, 0, 3, 0, 0], vec![0, 1, 0, 0, 0, 3, 0, 0]] {
            let (mut wire, _sender) = after(start).await;
            assert!(matches!(wire.next_start().await, Err(Broken::Protocol(_))));
        }
    }
}
