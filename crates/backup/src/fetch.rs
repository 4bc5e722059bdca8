//! Brings a file back, chunk by chunk, each checked before it is used.
//!
//! 1. The trailer comes first: its sum is the one of the record, or the object is damaged.
//! 2. A chunk is given away only if its sum is the one of the trailer.
//! 3. No more than a chunk and two requests of a few MiB is held in memory ([`crate::ranges`]).

use crate::destination::{Destination, malformed};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::names::{self, BackupId};
use crate::object::{CHUNK_BYTES, Trailer, object_len};
use crate::record::{BackupFile, kind_byte};
use base::checksum::xxh3;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;

/// A file at the destination.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    /// The object it is kept in.
    pub(crate) object: String,
    /// The file as the record describes it.
    pub(crate) file: BackupFile,
}

impl Incoming {
    pub(crate) fn new(id: &BackupId, file: BackupFile) -> Self {
        Self { object: names::object(id, file.file, file.place), file }
    }

    /// The trailer, checked against the record.
    pub(crate) async fn trailer(&self, destination: &Destination) -> Result<Trailer> {
        let BackupFile { bytes, sum, file, .. } = self.file;
        let trailer = read_trailer(destination, &self.object, bytes).await?;
        if trailer.sum() != sum || trailer.kind != kind_byte(file) {
            let what = "its trailer does not match the record of the file";
            return Err(Error::damaged(&self.object, bytes, what));
        }
        Ok(trailer)
    }

    /// The chunks from number `from` on, as they come.
    pub(crate) fn read<'a>(
        &'a self,
        destination: &Destination,
        trailer: &'a Trailer,
        from: u64,
        meter: &'a Meter,
    ) -> Chunks<'a> {
        let at = (from * CHUNK_BYTES as u64).min(self.file.bytes);
        let stream = destination.read(&self.object, at..self.file.bytes);
        Chunks { of: self, trailer, stream, buffer: BytesMut::new(), at, meter }
    }
}

/// The trailer of the object `name` that holds a file of `bytes`. Its length is bounded by theirs.
pub(crate) async fn read_trailer(
    destination: &Destination,
    name: &str,
    bytes: u64,
) -> Result<Trailer> {
    let mut stream = destination.read(name, bytes..object_len(bytes));
    let mut read = BytesMut::new();
    while let Some(piece) = stream.next().await {
        read.extend_from_slice(&piece?);
    }
    Trailer::decode(&read, bytes).map_err(malformed(name))
}

/// Chunks of a file on their way.
pub(crate) struct Chunks<'a> {
    of: &'a Incoming,
    trailer: &'a Trailer,
    stream: BoxStream<'static, Result<Bytes>>,
    buffer: BytesMut,
    /// Offset of the next chunk.
    at: u64,
    meter: &'a Meter,
}

impl Chunks<'_> {
    /// The next chunk and its offset; `None` at the end of the file.
    pub(crate) async fn next(&mut self) -> Result<Option<(u64, Bytes)>> {
        let Self { of, at, .. } = *self;
        let len = (of.file.bytes - at).min(CHUNK_BYTES as u64) as usize;
        if len == 0 {
            return Ok(None);
        }
        while self.buffer.len() < len {
            let Some(piece) = self.stream.next().await else {
                let end = at + self.buffer.len() as u64;
                return Err(Error::damaged(
                    &of.object,
                    end,
                    "the object store returned too few bytes",
                ));
            };
            self.buffer.extend_from_slice(&piece?);
        }
        let chunk = self.buffer.split_to(len).freeze();
        let sum = self.trailer.sums.get((at / CHUNK_BYTES as u64) as usize);
        if sum != Some(&xxh3(&chunk)) {
            let what = format!("wrong checksum of the {len} bytes from there");
            return Err(Error::damaged(&of.object, at, what));
        }
        self.meter.pass(len as u64).await;
        self.at += len as u64;
        Ok(Some((at, chunk)))
    }
}
