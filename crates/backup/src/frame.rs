//! The frame of small objects, and what it holds (docs/format/backup.md). Decoding is pure, never
//! panics, and takes memory in proportion to the bytes it is given.

use base::checksum::xxh3;
use base::codec::{ByteReader, DecodeError, PutBytes};
use engine::StoreId;
use std::fmt;

/// Version that is written, and the newest that is read.
pub(crate) const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"STELEBAK";
const HEADER_LEN: usize = 16;
const SUM_LEN: usize = 8;
/// Longest text of where something was begun.
const WHERE_BYTES_MAX: usize = 4096;

/// Kind of a small object. The byte is frozen; 0 stays invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Store = 1,
    Intent = 2,
    Record = 3,
    Removal = 4,
    /// In the place of the record of a backup that was given up.
    GivenUp = 5,
}

/// Why bytes are not what they should be, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Offset in the object.
    pub(crate) at: u64,
    /// Description of the damage.
    pub(crate) what: String,
}

impl Malformed {
    pub(crate) fn new(at: usize, what: impl fmt::Display) -> Self {
        Self { at: at as u64, what: what.to_string() }
    }
}

impl From<DecodeError> for Malformed {
    fn from(error: DecodeError) -> Self {
        Self::new(HEADER_LEN, error)
    }
}

/// `payload` in its frame.
pub(crate) fn encode(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + payload.len() + SUM_LEN);
    out.extend_from_slice(&MAGIC);
    out.put_u32(VERSION);
    out.extend_from_slice(&[kind as u8, 0, 0, 0]);
    out.extend_from_slice(payload);
    out.put_u64(xxh3(&out));
    out
}

/// The payload of an object of `kind`, checked.
pub(crate) fn decode(kind: Kind, bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut header = ByteReader::new(bytes);
    let magic = header.bytes(MAGIC.len(), "magic").map_err(|error| Malformed::new(0, error))?;
    if magic != MAGIC {
        return Err(Malformed::new(0, "it is not an object of a Stele backup"));
    }
    let version = header.u32("version").map_err(|error| Malformed::new(8, error))?;
    if version > VERSION {
        let what = format!(
            "it has format version {version}, but this Stele reads versions up to {VERSION}; use \
             a newer Stele"
        );
        return Err(Malformed::new(8, what));
    }
    let end = bytes.len().checked_sub(SUM_LEN).filter(|end| *end >= HEADER_LEN);
    let end = end.ok_or_else(|| Malformed::new(bytes.len(), "it ends early"))?;
    let sum = ByteReader::new(&bytes[end..]).u64("checksum")?;
    if sum != xxh3(&bytes[..end]) {
        return Err(Malformed::new(0, "wrong checksum"));
    }
    if version == 0 || bytes[12..HEADER_LEN] != [kind as u8, 0, 0, 0] {
        return Err(Malformed::new(8, format!("it is not of the kind {kind:?}")));
    }
    Ok(&bytes[HEADER_LEN..end])
}

/// Returns whether `bytes` say that they are of `kind`. Nothing is checked.
pub(crate) fn is_of(kind: Kind, bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) && bytes.get(12) == Some(&(kind as u8))
}

pub(crate) fn put_u128(out: &mut Vec<u8>, value: u128) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn u128_of(
    reader: &mut ByteReader<'_>,
    what: &'static str,
) -> Result<u128, DecodeError> {
    let (low, high) = (reader.u64(what)?, reader.u64(what)?);
    Ok(u128::from(high) << 64 | u128::from(low))
}

pub(crate) fn text_of(
    reader: &mut ByteReader<'_>,
    what: &'static str,
    bytes_max: usize,
) -> Result<String, Malformed> {
    let text = reader.string(what)?;
    if text.len() > bytes_max {
        return Err(Malformed::new(HEADER_LEN, format!("{what} of more than {bytes_max} bytes")));
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Encodes the object that says which store a destination belongs to.
pub(crate) fn encode_store(store: StoreId) -> Vec<u8> {
    encode(Kind::Store, &store.0.to_le_bytes())
}

pub(crate) fn decode_store(bytes: &[u8]) -> Result<StoreId, Malformed> {
    let mut reader = ByteReader::new(decode(Kind::Store, bytes)?);
    let store = StoreId(u128_of(&mut reader, "store id")?);
    reader.finish()?;
    Ok(store)
}

/// Work that was begun: an intent, a removal, or one that gave a backup up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// When, in microseconds since 1970.
    pub micros: i64,
    /// Description of the place.
    pub place: String,
}

impl Begun {
    pub(crate) fn encode(&self, kind: Kind) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.put_i64(self.micros);
        let end = self.place.len().min(WHERE_BYTES_MAX);
        payload.put_string(&self.place.as_bytes()[..end]);
        encode(kind, &payload)
    }

    pub(crate) fn decode(kind: Kind, bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = ByteReader::new(decode(kind, bytes)?);
        let micros = reader.i64("time")?;
        let place = text_of(&mut reader, "place", WHERE_BYTES_MAX)?;
        reader.finish()?;
        Ok(Self { micros, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_and_every_cut_is_refused() {
        let begun = Begun { micros: 5, place: "host:/data".into() };
        let bytes = begun.encode(Kind::Intent);
        assert_eq!(Begun::decode(Kind::Intent, &bytes), Ok(begun));
        assert!(Begun::decode(Kind::Removal, &bytes).is_err());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(Begun::decode(Kind::Intent, &flipped).is_err(), "bit {bit} of {at}");
            }
            assert!(Begun::decode(Kind::Intent, &bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_its_number() {
        let mut bytes = encode_store(StoreId(7));
        assert_eq!(decode_store(&bytes), Ok(StoreId(7)));
        bytes[8] = 2;
        let refused = decode_store(&bytes).unwrap_err();
        assert!(
            refused.what.contains("version 2") && refused.what.contains("newer"),
            "{refused:?}"
        );
    }
}
