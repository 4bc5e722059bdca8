//! Compression of the body of a page.

use crate::{Error, HEADER_BYTES};
use arrow_buffer::{Buffer, MutableBuffer};

/// Compression of a page. The byte on disk is frozen: docs/format/column_segment.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Compression {
    /// The body as it is.
    None = 0,
    /// The block format of LZ4.
    #[default]
    Lz4 = 1,
    /// Zstandard, level 1: shorter than LZ4, up to four times the time to decode.
    Zstd = 2,
}

const ZSTD_LEVEL: i32 = 1;

impl Compression {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::None),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns the compressed body if that saves at least an eighth of it.
    pub(super) fn compress(self, body: &[u8]) -> Option<Vec<u8>> {
        let compressed = match self {
            Self::None => return None,
            Self::Lz4 => lz4::block::compress(body, None, false).ok()?,
            Self::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL).ok()?,
        };
        (compressed.len() <= body.len() - body.len().div_ceil(8)).then_some(compressed)
    }

    /// Returns a body of `len` bytes, which was checked to be within the limits.
    pub(super) fn decompress(self, stored: Buffer, len: usize) -> Result<Buffer, Error> {
        let damage = Error::corrupt("compressed body", HEADER_BYTES);
        let mut body = match self {
            Self::None => return Ok(stored),
            Self::Lz4 | Self::Zstd => MutableBuffer::from_len_zeroed(len),
        };
        let decompressed = match self {
            Self::None => Ok(len),
            Self::Lz4 => lz4_len(len)
                .and_then(|len| lz4::block::decompress_to_buffer(&stored, Some(len), &mut body)),
            Self::Zstd => zstd::bulk::decompress_to_buffer(&stored, &mut body[..]),
        };
        if decompressed.ok() == Some(len) { Ok(body.into()) } else { Err(damage) }
    }
}

/// Returns a length as LZ4 takes it.
fn lz4_len(len: usize) -> std::io::Result<i32> {
    i32::try_from(len).map_err(std::io::Error::other)
}
