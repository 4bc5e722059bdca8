//! Bounds-checked little-endian reading and writing of untrusted bytes.
//!
//! Integers are little-endian and fixed-width; `varint` is unsigned LEB128 in its shortest form
//! (at most 10 bytes), any longer form is refused so that each value has one encoding.

use std::fmt;

/// Reason why bytes could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ended before the named item.
    Truncated(&'static str),
    /// A variable-length integer was too long or not in its shortest form.
    Varint(&'static str),
    /// Bytes were left over where the format has none.
    Trailing,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(what) => write!(f, "input ends inside {what}"),
            Self::Varint(what) => write!(f, "malformed variable-length integer: {what}"),
            Self::Trailing => write!(f, "bytes left over at the end"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reads items from the front of a byte slice. Never panics; never reads past the end.
#[derive(Debug, Clone, Copy)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// A reader over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns whether every byte was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let Some((head, rest)) = self.rest.split_at_checked(len) else {
            return Err(DecodeError::Truncated(what));
        };
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::Truncated(what));
        };
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// A little-endian `u16`.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// A little-endian `u32`.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// A little-endian `u64`.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A little-endian `i64`.
    pub fn i64(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array(what)?))
    }

    /// An unsigned LEB128 integer in its shortest form.
    pub fn varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 || shift > 0 && byte == 0 {
                return Err(DecodeError::Varint(what));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Varint(what))
    }

    /// A byte string preceded by its length as a varint. Borrows, so no length can allocate.
    pub fn string(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.varint(what)?;
        let len = usize::try_from(len).map_err(|_| DecodeError::Truncated(what))?;
        self.bytes(len, what)
    }

    /// Ends the reading; an error if bytes are left.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }
}

/// Appends items to a byte vector: the mirror of [`ByteReader`].
pub trait PutBytes {
    /// Appends a little-endian `u16`.
    fn put_u16(&mut self, value: u16);
    /// Appends a little-endian `u32`.
    fn put_u32(&mut self, value: u32);
    /// Appends a little-endian `u64`.
    fn put_u64(&mut self, value: u64);
    /// Appends a little-endian `i64`.
    fn put_i64(&mut self, value: i64);
    /// Appends an unsigned LEB128 integer.
    fn put_varint(&mut self, value: u64);
    /// Appends a byte string preceded by its length as a varint.
    fn put_string(&mut self, bytes: &[u8]);
}

impl PutBytes for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_i64(&mut self, value: i64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }
    fn put_string(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_items_read_back(a: u16, b: u32, c: u64, d: i64, e: u64, s: Vec<u8>) {
            let mut out = Vec::new();
            out.put_u16(a);
            out.put_u32(b);
            out.put_u64(c);
            out.put_i64(d);
            out.put_varint(e);
            out.put_string(&s);
            let mut reader = ByteReader::new(&out);
            prop_assert_eq!(reader.u16("a").unwrap(), a);
            prop_assert_eq!(reader.u32("b").unwrap(), b);
            prop_assert_eq!(reader.u64("c").unwrap(), c);
            prop_assert_eq!(reader.i64("d").unwrap(), d);
            prop_assert_eq!(reader.varint("e").unwrap(), e);
            prop_assert_eq!(reader.string("s").unwrap(), &s[..]);
            prop_assert!(reader.finish().is_ok());
        }

        #[test]
        fn an_accepted_varint_has_one_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let mut reader = ByteReader::new(&bytes);
            if let Ok(value) = reader.varint("v") {
                let mut again = Vec::new();
                again.put_varint(value);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
            }
        }
    }

    #[test]
    fn a_length_past_the_end_is_refused() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2];
        let mut reader = ByteReader::new(&bytes);
        assert_eq!(reader.string("key"), Err(DecodeError::Truncated("key")));
    }
}
