//! Values as functions of the data set, the cell and its timestamp: incompressible bytes.

use bench_core::{SplitMix64, mix};
use bytes::Bytes;

/// Returns the value of `cell` at a timestamp in the data set of `seed`.
pub(crate) fn value(seed: u64, cell: u64, timestamp: i64, len: usize) -> Bytes {
    let mut bytes = vec![0; len];
    generator(seed, cell, timestamp).fill(&mut bytes);
    bytes.into()
}

/// Returns whether `bytes` is the value of `cell` at a timestamp.
pub(crate) fn is_value(seed: u64, cell: u64, timestamp: i64, len: usize, bytes: &[u8]) -> bool {
    if bytes.len() != len {
        return false;
    }
    let mut random = generator(seed, cell, timestamp);
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| u64::from_le_bytes(*word) == random.next_u64())
        && (rest.is_empty() || rest == &random.next_u64().to_le_bytes()[..rest.len()])
}

fn generator(seed: u64, cell: u64, timestamp: i64) -> SplitMix64 {
    let of_cell = mix(seed ^ cell.wrapping_mul(0xd129_9cb1_92a3_f1e5));
    SplitMix64(mix(of_cell ^ timestamp.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_by_its_cell_and_time() {
        for len in [1, 7, 8, 9, 100] {
            let bytes = value(1, 2, 3000, len);
            assert!(is_value(1, 2, 3000, len, &bytes));
            for other in [(2, 2, 3000), (1, 3, 3000), (1, 2, 4000)] {
                assert!(!is_value(other.0, other.1, other.2, 100, &value(1, 2, 3000, 100)));
            }
            assert!(!is_value(1, 2, 3000, len + 1, &bytes));
            for at in 0..len {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 1;
                assert!(!is_value(1, 2, 3000, len, &bytes), "byte {at} of {len}");
            }
        }
        assert!(is_value(1, 2, 3000, 0, b""));
    }
}
