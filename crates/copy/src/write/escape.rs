//! Escapes of text and quotes of CSV.

use crate::options::{Format, Options};
use crate::parse::Shape;

/// Writes values so that they are read back as they are.
pub(super) struct Escapes {
    shape: Shape,
    /// True for bytes that a text escapes.
    is_special: [bool; 256],
    is_alone: bool,
    /// True if digits, signs and points never need an escape or quotes.
    pub(super) has_plain_numbers: bool,
}

impl Escapes {
    pub(super) fn new(options: &Options, columns: usize) -> Self {
        let shape = Shape::of(options);
        let mut is_special = [false; 256];
        for byte in [8, 9, 10, 11, 12, 13, b'\\', shape.delimiter] {
            is_special[usize::from(byte)] = true;
        }
        let has_plain_numbers = shape.has_plain_numbers;
        Self { shape, is_special, is_alone: columns == 1, has_plain_numbers }
    }

    /// Appends a delimiter before all fields but the first.
    pub(super) fn separate(&self, number: usize, out: &mut Vec<u8>) {
        if number > 0 {
            out.push(self.shape.delimiter);
        }
    }

    pub(super) fn put_null(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shape.null);
    }

    /// Appends a value. `is_forced` quotes it in CSV.
    pub(super) fn put(&self, value: &[u8], is_forced: bool, out: &mut Vec<u8>) {
        match self.shape.format {
            Format::Csv => self.put_csv(value, is_forced, out),
            _ => self.put_escaped(value, out),
        }
    }

    fn put_escaped(&self, value: &[u8], out: &mut Vec<u8>) {
        let delimiter = self.shape.delimiter;
        // Without an early end, so that the compiler looks at many bytes at once.
        let has_special = value.iter().fold(false, |found, byte| {
            found | (byte.wrapping_sub(8) < 6) | (*byte == b'\\') | (*byte == delimiter)
        });
        let mut rest = value;
        if !has_special {
            out.extend_from_slice(value);
            return;
        }
        while let Some(at) = rest.iter().position(|byte| self.is_special[usize::from(*byte)]) {
            out.extend_from_slice(&rest[..at]);
            let letter = match rest[at] {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                byte => byte,
            };
            out.extend_from_slice(&[b'\\', letter]);
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
    }

    fn put_csv(&self, value: &[u8], is_forced: bool, out: &mut Vec<u8>) {
        let Shape { quote, escape, delimiter, .. } = &self.shape;
        let is_mark = self.is_alone && value == b"\\.";
        let must = is_forced || is_mark || self.shape.is_null(value);
        let has_special = value.iter().fold(false, |found, byte| {
            found | (byte == quote) | (byte == delimiter) | (*byte == b'\n') | (*byte == b'\r')
        });
        if !must && !has_special {
            out.extend_from_slice(value);
            return;
        }
        out.push(*quote);
        for byte in value {
            if byte == quote || byte == escape {
                out.push(*escape);
            }
            out.push(*byte);
        }
        out.push(*quote);
    }
}
