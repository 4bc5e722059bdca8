//! Messages of gRPC that are bytes.

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Gives bytes on as they are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AsBytes;

/// Frames that are ready are written together up to so many bytes.
fn buffers() -> BufferSettings {
    BufferSettings::new(16 << 10, 64 << 10)
}

impl Codec for AsBytes {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for AsBytes {
    type Item = Bytes;
    type Error = Status;

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message);
        Ok(())
    }
}

impl Decoder for AsBytes {
    type Item = Bytes;
    type Error = Status;

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
