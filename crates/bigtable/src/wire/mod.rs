//! The codec of all methods.
//!
//! Requests with an unknown member of a oneof are refused before they are decoded (`members.rs`),
//! and replies have all values of their maps (`maps.rs`). Replies of `ReadRows` come as bytes that
//! are already a `ReadRowsResponse` (see `chunks.rs`). Requests that change rows have messages of
//! their own (`mutations.rs`).

pub(crate) mod fields;
pub(crate) mod forms;
pub(crate) mod maps;
pub(crate) mod members;
pub(crate) mod mutations;

use crate::call::status;
use bytes::{Buf, BufMut, Bytes};
use forms::Formed;
use std::marker::PhantomData;
use table::Error;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Returns the sizes of a call's buffers: most messages are small, and larger ones reserve what they need. Beyond the second
/// number a stream gives what it has before it encodes more.
fn buffers() -> BufferSettings {
    BufferSettings::new(1 << 10, 32 << 10)
}

/// An encoded `ReadRowsResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadRowsMessage(pub(crate) Bytes);

/// A message that a method answers with.
pub(crate) trait Reply: Send + 'static {
    /// Appends the encoded message to `into`.
    fn put(self, into: &mut EncodeBuf<'_>);
}

impl<M: Formed> Reply for M {
    fn put(self, into: &mut EncodeBuf<'_>) {
        if M::FORM.children.is_empty() {
            into.reserve(self.encoded_len());
            self.encode(into).expect("the buffer grows");
        } else {
            let encoded = maps::encode(&self);
            into.reserve(encoded.len());
            into.put_slice(&encoded);
        }
    }
}

impl Reply for ReadRowsMessage {
    fn put(self, into: &mut EncodeBuf<'_>) {
        into.reserve(self.0.len());
        into.put(self.0);
    }
}

/// Encodes replies `R` and decodes requests `Q`.
#[derive(Debug)]
pub(crate) struct Codec<R, Q> {
    messages: PhantomData<fn(R) -> Q>,
}

impl<R, Q> Default for Codec<R, Q> {
    fn default() -> Self {
        Self { messages: PhantomData }
    }
}

impl<R: Reply, Q: Formed + Default> tonic::codec::Codec for Codec<R, Q> {
    type Encode = R;
    type Decode = Q;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<R: Reply, Q> Encoder for Codec<R, Q> {
    type Item = R;
    type Error = Status;

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }

    fn encode(&mut self, reply: R, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        reply.put(into);
        Ok(())
    }
}

impl<R, Q: Formed + Default> Decoder for Codec<R, Q> {
    type Item = Q;
    type Error = Status;

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        let message = from.copy_to_bytes(from.remaining());
        members::check(Q::FORM, &message).map_err(status::from_error)?;
        Q::decode(message).map(Some).map_err(|error| {
            status::from_error(Error::invalid("", format!("malformed request: {error}")))
        })
    }
}
