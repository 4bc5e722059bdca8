//! Keys and values as functions of a number, so that no table of them is kept.

use crate::random::SplitMix64;

/// Whether a key is one that was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// Loaded.
    Present,
    /// Of the same shape, never loaded.
    Absent,
}

/// Writes key `number` of a kind: random printable bytes, the same for the same number.
#[inline]
pub fn random_key(number: u64, kind: KeyKind, out: &mut [u8]) {
    let salt = if kind == KeyKind::Present { 0x5354_454c_4500_0001 } else { 0x4142_5345_4e54_0001 };
    SplitMix64(number.wrapping_mul(0xd129_9cb1_92a3_f1e5) ^ salt).fill(out);
    for byte in out {
        *byte = b'0' + (*byte & 0x3f);
    }
}

/// Writes the value of key `number`: incompressible bytes.
#[inline]
pub fn random_value(number: u64, out: &mut [u8]) {
    SplitMix64(number ^ 0x7661_6c75_6500_0001).fill(out);
}
