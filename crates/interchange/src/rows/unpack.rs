//! Decompression up to a limit, whatever the data claims.

use std::io::Read;

/// Compression of streams that others write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Deflate without a header, as Avro has it.
    Deflate,
    /// Deflate with the header of zlib.
    Zlib,
    /// Deflate with the header of gzip.
    Gzip,
    /// Frames of Zstandard, one after the other.
    Zstd,
}

/// Logarithm of the largest window of Zstandard, 128 MiB: what a decoder takes unasked.
const WINDOW_LOG_MAX: u32 = 27;

/// Returns the content of `data`, at most `max` bytes, or the reason why it cannot be read.
pub(super) fn unpack(packing: Packing, data: &[u8], max: usize) -> Result<Vec<u8>, String> {
    match packing {
        Packing::Deflate => all(flate2::read::DeflateDecoder::new(data), max),
        Packing::Zlib => all(flate2::read::ZlibDecoder::new(data), max),
        Packing::Gzip => all(flate2::read::MultiGzDecoder::new(data), max),
        Packing::Zstd => {
            let mut stream = zstd::stream::read::Decoder::new(data).map_err(|e| e.to_string())?;
            stream.window_log_max(WINDOW_LOG_MAX).map_err(|error| error.to_string())?;
            all(stream, max)
        }
    }
}

fn all(stream: impl Read, max: usize) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let read = stream.take(max as u64 + 1).read_to_end(&mut content);
    let read = read.map_err(|error| format!("compressed data is damaged: {error}"))?;
    if read > max { Err(too_long(max)) } else { Ok(content) }
}

/// As [`unpack`] for the raw format of Snappy.
pub(super) fn snappy(data: &[u8], max: usize) -> Result<Vec<u8>, String> {
    let damaged = |error: snap::Error| format!("compressed data is damaged: {error}");
    let len = snap::raw::decompress_len(data).map_err(damaged)?;
    // A copy makes at most 64 bytes of two.
    if len > max || len / 64 > data.len() {
        return Err(too_long(max.min(data.len().saturating_mul(64))));
    }
    snap::raw::Decoder::new().decompress_vec(data).map_err(damaged)
}

fn too_long(max: usize) -> String {
    format!("compressed data holds more than {max} bytes")
}
