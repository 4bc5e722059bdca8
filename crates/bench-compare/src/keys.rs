//! Keys and values, the same for every engine.
//!
//! A key is a function of its number, so no table of keys is kept. A value is a piece of one pool
//! of random bytes, chosen by number and version: incompressible, and free to make.

use bench_core::{KeyKind, SplitMix64, mix, random_key};

/// What keys look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum KeyShape {
    /// 50 random bytes of 64 values each.
    Random,
    /// URLs of about 80 bytes with long common prefixes.
    Url,
    /// `record-` and 16 digits; neighbours differ in the last digit.
    Sequential,
}

impl KeyShape {
    /// Appends key `number` of a kind to `out`.
    pub(crate) fn append(self, number: u64, kind: KeyKind, out: &mut Vec<u8>) {
        match self {
            Self::Random => {
                let start = out.len();
                out.resize(start + RANDOM_BYTES, 0);
                random_key(number, kind, &mut out[start..]);
            }
            Self::Url => url(number, kind, out),
            Self::Sequential => {
                let number = 2 * number + u64::from(kind == KeyKind::Absent);
                out.extend_from_slice(b"record-");
                decimal(number, 16, out);
            }
        }
    }
}

const RANDOM_BYTES: usize = 50;

/// A few hundred sites, each with sections, each with many items.
fn url(number: u64, kind: KeyKind, out: &mut Vec<u8>) {
    let hash = mix(number ^ 0x5552_4c00);
    out.extend_from_slice(b"https://www.shop-");
    decimal(hash % 300, 3, out);
    out.extend_from_slice(b".example.com/catalogue/section-");
    decimal((hash >> 16) % 40, 4, out);
    out.extend_from_slice(b"/product/item-");
    decimal(2 * number + u64::from(kind == KeyKind::Absent), 10, out);
    out.extend_from_slice(b".html");
}

fn decimal(mut number: u64, digits: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + digits, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The longest value.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 10;

/// Small enough to stay in a core's cache, so that making values costs the engines nothing.
const POOL_BYTES: usize = 256 << 10;

/// Random bytes of which values are pieces.
pub(crate) struct ValuePool {
    bytes: Vec<u8>,
}

impl ValuePool {
    /// The pool of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut bytes = vec![0; POOL_BYTES + VALUE_BYTES_MAX];
        SplitMix64(seed ^ 0x7661_6c75_6573).fill(&mut bytes);
        Self { bytes }
    }

    /// Value of `len` bytes of version `version` of key `number`.
    pub(crate) fn value(&self, number: u64, version: u64, len: usize) -> &[u8] {
        let offset = mix(number ^ (version << 48)) as usize % POOL_BYTES;
        &self.bytes[offset..offset + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_distinct_and_absent_ones_are_never_present() {
        for shape in [KeyShape::Random, KeyShape::Url, KeyShape::Sequential] {
            let mut seen = BTreeSet::new();
            for number in 0..2000 {
                for kind in [KeyKind::Present, KeyKind::Absent] {
                    let mut key = Vec::new();
                    shape.append(number, kind, &mut key);
                    assert!(seen.insert(key), "{shape:?} {number} {kind:?} is met twice");
                }
            }
        }
    }
}
