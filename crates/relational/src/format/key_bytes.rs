//! Order-preserving bytes of numbers and strings, and their reader.
//!
//! Each encoding tells where it ends, so that no encoding is the beginning of another one and bytes of
//! several values compare as the values do. A reader of a descending value sees the bytes inverted.

use crate::error::{Error, Result};

/// First byte of the integer 0; longer positive integers have larger ones, negative smaller ones.
const ZERO: u8 = 0x80;

/// Appends an integer: a byte that tells sign and length, then its significant bytes, big-endian.
pub(super) fn put_integer(out: &mut Vec<u8>, number: i64) {
    let magnitude = if number < 0 { !number } else { number } as u64;
    let length = (8 - magnitude.leading_zeros() as usize / 8).min(8);
    let length = if magnitude == 0 { 0 } else { length };
    let first = if number < 0 { ZERO - 1 - length as u8 } else { ZERO + length as u8 };
    out.push(first);
    out.extend_from_slice(&number.to_be_bytes()[8 - length..]);
}

/// Appends text, which has no NUL, and the byte that ends it.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Appends bytes of any kind: 0 becomes 0 and 255, and 0 and 1 end them.
pub(super) fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 1]);
}

/// Appends a floating-point number: its bits, so flipped that they order as the numbers do.
pub(super) fn put_float(out: &mut Vec<u8>, number: f64) {
    let number = match number {
        number if number.is_nan() => f64::NAN.abs(),
        // Zero has no sign.
        0.0 => 0.0,
        number => number,
    };
    let bits = number.to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    out.extend_from_slice(&ordered.to_be_bytes());
}

/// Reads values from a key. A damaged key is an error, never a panic.
pub(super) struct KeyReader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// All ones while the value is of a descending part.
    flip: u8,
}

impl<'a> KeyReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, flip: 0 }
    }

    /// Sets if the bytes that follow are inverted.
    pub(super) fn set_descending(&mut self, descending: bool) {
        self.flip = if descending { 0xff } else { 0 };
    }

    /// Returns the number of bytes that were read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or_else(truncated)?;
        self.at += 1;
        Ok(byte ^ self.flip)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let slice = self.bytes.get(self.at..self.at + N).ok_or_else(truncated)?;
        self.at += N;
        let mut array = [0; N];
        for (to, from) in array.iter_mut().zip(slice) {
            *to = *from ^ self.flip;
        }
        Ok(array)
    }

    pub(super) fn integer(&mut self) -> Result<i64> {
        let first = self.byte()?;
        let (negative, length) = match first {
            ZERO.. => (false, first - ZERO),
            _ => (true, ZERO - 1 - first),
        };
        if length > 8 {
            return Err(damaged("the length of an integer"));
        }
        let mut number = if negative { -1i64 } else { 0 };
        for _ in 0..length {
            number = number << 8 | i64::from(self.byte()?);
        }
        if (number < 0) != negative {
            return Err(damaged("the sign of an integer"));
        }
        Ok(number)
    }

    pub(super) fn text(&mut self) -> Result<String> {
        let mut text = Vec::new();
        loop {
            match self.byte()? {
                0 => break,
                byte => text.push(byte),
            }
        }
        String::from_utf8(text).map_err(|_| damaged("text that is not UTF-8"))
    }

    pub(super) fn escaped(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            match self.byte()? {
                0 => match self.byte()? {
                    0xff => bytes.push(0),
                    1 => return Ok(bytes),
                    _ => return Err(damaged("an escape")),
                },
                byte => bytes.push(byte),
            }
        }
    }

    pub(super) fn float(&mut self) -> Result<f64> {
        let ordered = u64::from_be_bytes(self.array()?);
        let bits = if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { !ordered };
        Ok(f64::from_bits(bits))
    }
}

fn truncated() -> Error {
    damaged("its end")
}

/// Returns the error of a key whose bytes break the format.
pub(super) fn damaged(what: &str) -> Error {
    Error::corrupted(format!("a key is damaged: {what}"))
}
