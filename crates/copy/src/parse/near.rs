//! Searches for bytes that are mostly near: fields are short, and a call of a search costs more than they do.

use crate::values::word;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Returns a word whose lowest set bit is in the first byte that equals `byte`. Bits above it mean nothing.
#[inline(always)]
fn marks(word: u64, byte: u8) -> u64 {
    let others = word ^ (ONES * u64::from(byte));
    others.wrapping_sub(ONES) & !others & HIGH_BITS
}

/// Returns the place of a byte in `from..to`, or `to`.
#[inline(always)]
pub(super) fn find_near(data: &[u8], byte: u8, from: usize, to: usize) -> usize {
    if let Some(word) = word(data, from) {
        let marks = marks(word, byte);
        if marks != 0 {
            return (from + (marks.trailing_zeros() / 8) as usize).min(to);
        }
    }
    memchr::memchr(byte, &data[from..to]).map_or(to, |found| from + found)
}

/// Returns the place of the first of three bytes from `from` on, or the end of the data.
#[inline(always)]
pub(super) fn find_near3(data: &[u8], bytes: [u8; 3], from: usize) -> usize {
    let [a, b, c] = bytes;
    if let Some(word) = word(data, from) {
        let marks = marks(word, a) | marks(word, b) | marks(word, c);
        if marks != 0 {
            return from + (marks.trailing_zeros() / 8) as usize;
        }
    }
    memchr::memchr3(a, b, c, &data[from..]).map_or(data.len(), |found| from + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_bytes_are_found() {
        for len in 0..40 {
            for at in 0..=len {
                // Bytes one above and one below the wanted one, where a borrow might go wrong.
                let mut data: Vec<u8> =
                    (0..len).map(|n| if n % 2 == 0 { b'+' } else { b'-' }).collect();
                data.extend_from_slice(b"------------");
                if at < len {
                    data[at] = b',';
                }
                for from in 0..=at {
                    assert_eq!(find_near(&data, b',', from, len), at, "{from} {len}");
                    for bytes in [[b',', b'"', b'\n'], [b'"', b',', b'\n'], [b'"', b'\n', b',']] {
                        let want = if at < len { at } else { data.len() };
                        assert_eq!(find_near3(&data, bytes, from), want, "{from} {len}");
                    }
                }
            }
        }
    }
}
