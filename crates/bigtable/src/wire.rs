//! The codec of `ReadRows`: requests are decoded as usual, replies come as bytes that are already
//! a `ReadRowsResponse` (see `chunks.rs`).

use crate::api::data::ReadRowsRequest;
use bytes::{BufMut, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

/// An encoded `ReadRowsResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadRowsMessage(pub(crate) Bytes);

/// Decodes the request, passes encoded replies through.
#[derive(Debug, Default)]
pub(crate) struct ReadRowsCodec;

impl Codec for ReadRowsCodec {
    type Encode = ReadRowsMessage;
    type Decode = ReadRowsRequest;
    type Encoder = PassEncoded;
    type Decoder = ProstDecoder<ReadRowsRequest>;

    fn encoder(&mut self) -> Self::Encoder {
        PassEncoded
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<ReadRowsRequest, ReadRowsRequest>::raw_decoder(BufferSettings::default())
    }
}

/// Copies an encoded message into the frame.
#[derive(Debug)]
pub(crate) struct PassEncoded;

impl Encoder for PassEncoded {
    type Item = ReadRowsMessage;
    type Error = Status;

    fn encode(&mut self, item: Self::Item, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.reserve(item.0.len());
        into.put(item.0);
        Ok(())
    }
}
