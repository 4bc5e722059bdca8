//! The trailer of an object that holds a file: a sum of each chunk (docs/format/backup.md). Pure.

use crate::frame::Malformed;
use base::checksum::xxh3;
use base::codec::{ByteReader, PutBytes};

/// Bytes that one sum checks.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// Longest file that is backed up.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 40;
/// Length of the footer.
pub(crate) const FOOTER_LEN: usize = 32;
const VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"STELEOBJ";

/// Length of the trailer of a file of `bytes`.
pub(crate) fn trailer_len(bytes: u64) -> u64 {
    8 * bytes.div_ceil(CHUNK_BYTES as u64) + FOOTER_LEN as u64
}

/// Length of the object of a file of `bytes`.
pub(crate) fn object_len(bytes: u64) -> u64 {
    bytes + trailer_len(bytes)
}

/// Contents of a trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// The byte of the kind of file.
    pub(crate) kind: u8,
    /// Length of the file.
    pub(crate) bytes: u64,
    /// Sum of each chunk.
    pub(crate) sums: Vec<u64>,
}

impl Trailer {
    fn fields(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 * self.sums.len() + FOOTER_LEN);
        self.sums.iter().for_each(|sum| out.put_u64(*sum));
        out.put_u64(self.bytes);
        out.put_u32(CHUNK_BYTES as u32);
        out.put_u16(VERSION);
        out.extend_from_slice(&[self.kind, 0]);
        out
    }

    /// The sum of the object: of all that the trailer says.
    pub(crate) fn sum(&self) -> u64 {
        xxh3(&self.fields())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.fields();
        out.put_u64(xxh3(&out));
        out.extend_from_slice(&MAGIC);
        out
    }

    /// The trailer of the object of a file of `bytes`, whose last [`trailer_len`] bytes these are.
    /// Offsets in the error are from the start of the object.
    pub(crate) fn decode(trailer: &[u8], bytes: u64) -> Result<Self, Malformed> {
        let wrong = |at: usize, what: &str| Malformed { at: bytes + at as u64, what: what.into() };
        if trailer.len() as u64 != trailer_len(bytes) {
            return Err(wrong(trailer.len(), "its trailer ends early"));
        }
        let footer = trailer.len() - FOOTER_LEN;
        let checked = footer + 16;
        let mut reader = ByteReader::new(&trailer[footer..]);
        let mut read = || {
            Ok((
                reader.u64("length")?,
                reader.u32("chunk length")?,
                reader.u16("version")?,
                reader.u8("kind")?,
                reader.u8("reserved")?,
                reader.u64("sum")?,
                reader.bytes(MAGIC.len(), "magic")?,
            ))
        };
        let fields: Result<_, base::codec::DecodeError> = read();
        let (length, chunk, version, kind, reserved, sum, magic) =
            fields.map_err(|error| wrong(footer, &error.to_string()))?;
        if magic != MAGIC {
            return Err(wrong(footer, "it has no footer"));
        }
        if version > VERSION {
            let what = format!(
                "it has format version {version}, but this Stele reads versions up to {VERSION}; \
                 use a newer Stele"
            );
            return Err(wrong(footer, &what));
        }
        if sum != xxh3(&trailer[..checked]) {
            return Err(wrong(0, "wrong checksum of its trailer"));
        }
        let plain = version == VERSION && chunk == CHUNK_BYTES as u32 && reserved == 0;
        if !plain || length != bytes || !(1..=3).contains(&kind) {
            return Err(wrong(footer, "its footer is malformed"));
        }
        let sums = trailer[..footer].chunks_exact(8);
        let sums = sums.map(|sum| u64::from_le_bytes(sum.try_into().expect("eight bytes")));
        Ok(Self { kind, bytes, sums: sums.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_reads_back_and_every_flip_and_cut_is_refused() {
        for bytes in [0, 1, CHUNK_BYTES as u64, CHUNK_BYTES as u64 + 1] {
            let sums = (0..bytes.div_ceil(CHUNK_BYTES as u64)).map(|n| n * 77).collect();
            let trailer = Trailer { kind: 1, bytes, sums };
            let encoded = trailer.encode();
            assert_eq!(encoded.len() as u64, trailer_len(bytes));
            assert_eq!(Trailer::decode(&encoded, bytes), Ok(trailer.clone()));
            assert!(Trailer::decode(&encoded, bytes + 1).is_err());
            for at in 0..encoded.len() {
                let mut flipped = encoded.clone();
                flipped[at] ^= 0x10;
                assert!(Trailer::decode(&flipped, bytes).is_err(), "{bytes}: {at}");
                assert!(Trailer::decode(&encoded[..at], bytes).is_err(), "{bytes}: cut at {at}");
            }
        }
    }
}
