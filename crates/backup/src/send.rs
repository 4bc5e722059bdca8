//! Sends a file as an object: read once, summed on the way, whole at the destination or not there.

use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::object::{CHUNK_BYTES, Trailer, object_len, trailer_len};
use base::checksum::xxh3;
use base::env::FileSystem;
use base::env::fs::ReadFile;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Shortest part of a large object. Stores ask for 5 MiB, and some for parts of one length.
const PART_BYTES_MIN: u64 = 8 << 20;
/// Stores take 10,000 parts of an object.
const PARTS_MAX: u64 = 9_000;

/// A file to send.
pub(crate) struct Outgoing {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// The byte of its kind.
    pub(crate) kind: u8,
}

/// Length of the parts of an object of `bytes`, a multiple of a chunk: what is held in memory of it.
fn part_bytes(bytes: u64) -> u64 {
    let least = bytes.div_ceil(PARTS_MAX).next_multiple_of(CHUNK_BYTES as u64);
    least.max(PART_BYTES_MIN)
}

/// Sends `file` as the object `name`; gives the sum of the object.
pub(crate) async fn send(
    destination: &Destination,
    name: &str,
    file: &Outgoing,
    meter: &Meter,
) -> Result<u64> {
    let (fs, path) = (Arc::clone(&file.fs), file.path.clone());
    let source = blocking(move || open(&*fs, &path)).await?;
    let mut trailer = Trailer { kind: file.kind, bytes: file.bytes, sums: Vec::new() };
    let part = part_bytes(object_len(file.bytes));
    if object_len(file.bytes) <= part {
        let bytes = next_part(file, &source, 0, part, &mut trailer).await?;
        meter.pass(bytes.len() as u64).await;
        destination.put(name, bytes).await?;
        return Ok(trailer.sum());
    }
    let mut parts = destination.put_parts(name).await?;
    let sent = async {
        let mut at = 0;
        loop {
            let bytes = next_part(file, &source, at, part, &mut trailer).await?;
            at = (at + part).min(file.bytes);
            meter.pass(bytes.len() as u64).await;
            parts.put(bytes).await?;
            if at == file.bytes {
                break;
            }
        }
        parts.finish().await
    };
    let sent = sent.await;
    if sent.is_err() {
        parts.abort().await;
    }
    sent.map(|()| trailer.sum())
}

fn open(fs: &dyn FileSystem, path: &Path) -> Result<Arc<dyn ReadFile>> {
    let file = fs.open_read(path).map_err(|error| engine::Error::io("open", path, &error))?;
    Ok(file)
}

/// Reads the part of `file` that begins at `at`, and notes the sums of its chunks. The last part ends
/// with the trailer.
async fn next_part(
    file: &Outgoing,
    source: &Arc<dyn ReadFile>,
    at: u64,
    part: u64,
    trailer: &mut Trailer,
) -> Result<Bytes> {
    let (source, path) = (Arc::clone(source), file.path.clone());
    let len = part.min(file.bytes - at);
    let room = if at + len == file.bytes { trailer_len(file.bytes) } else { 0 };
    let (mut bytes, sums) = blocking(move || {
        let mut bytes = Vec::with_capacity((len + room) as usize);
        bytes.resize(len as usize, 0);
        let read = source.read_exact_at(&mut bytes, at);
        read.map_err(|error| engine::Error::io("read", &path, &error))?;
        let sums: Vec<u64> = bytes.chunks(CHUNK_BYTES).map(xxh3).collect();
        Ok((bytes, sums))
    })
    .await?;
    trailer.sums.extend(sums);
    if room > 0 {
        bytes.extend_from_slice(&trailer.encode());
    }
    Ok(bytes.into())
}

/// The XXH3-128 of the content of a file that has no identity.
pub(crate) async fn content_hash(file: &Outgoing) -> Result<u128> {
    let (fs, path, len) = (Arc::clone(&file.fs), file.path.clone(), file.bytes);
    blocking(move || {
        let source = open(&*fs, &path)?;
        let mut hash = XxHash3_128::new();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut at = 0;
        while at < len {
            let chunk = &mut buffer[..(len - at).min(CHUNK_BYTES as u64) as usize];
            let read = source.read_exact_at(chunk, at);
            read.map_err(|error| engine::Error::io("read", &path, &error))?;
            hash.write(chunk);
            at += chunk.len() as u64;
        }
        Ok(hash.finish_128())
    })
    .await
}

/// Runs `act`, which waits for the disk, where waiting is allowed.
pub(crate) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(act).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Error::Refused("stopped".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::FILE_BYTES_MAX;

    #[test]
    fn every_file_fits_into_the_parts_that_a_store_takes() {
        for bytes in [1, PART_BYTES_MIN, 100 << 30, object_len(FILE_BYTES_MAX)] {
            let part = part_bytes(bytes);
            assert!(part >= PART_BYTES_MIN && part.is_multiple_of(CHUNK_BYTES as u64), "{bytes}");
            assert!(bytes.div_ceil(part) <= PARTS_MAX, "{bytes}");
        }
    }
}
