//! Fingerprint2011, the 64-bit hash of sketches: every program that adds to a sketch must use the same.
//! docs/format/hll.md describes it.

const K0: u64 = 0xa5b8_5c5e_198e_d849;
const K1: u64 = 0x8d58_ac26_afe1_2e47;
const K2: u64 = 0xc47b_6e9e_3a97_0ed3;
const K3: u64 = 0xc6a4_a793_5bd1_e995;

/// Returns the fingerprint of `bytes`.
pub(super) fn fingerprint(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let hash = match len {
        0..=32 => short(bytes),
        33..=64 => medium(bytes),
        _ => long(bytes),
    };
    let head = if len >= 8 { word(bytes, 0) } else { K0 };
    let tail = if len >= 9 { word(bytes, len - 8) } else { K0 };
    // 0 and 1 are not given, as in the original.
    match pair(hash.wrapping_add(tail), head) {
        small @ 0..=1 => small.wrapping_add(!1),
        hash => hash,
    }
}

/// The little-endian word at `at`, which lies in `bytes`.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn fold(word: u64) -> u64 {
    word ^ word >> 47
}

fn pair(high: u64, low: u64) -> u64 {
    let first = fold((low ^ high).wrapping_mul(K3));
    fold((high ^ first).wrapping_mul(K3)).wrapping_mul(K3)
}

fn short(bytes: &[u8]) -> u64 {
    let seed = K0 ^ K1 ^ K2 ^ (bytes.len() as u64).wrapping_mul(K3);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = words.iter().fold(seed, |hash, word| {
        let data = fold(u64::from_le_bytes(*word).wrapping_mul(K3)).wrapping_mul(K3);
        (hash ^ data).wrapping_mul(K3)
    });
    if !rest.is_empty() {
        let data = rest.iter().rev().fold(0, |data, byte| data << 8 | u64::from(*byte));
        hash = (hash ^ data).wrapping_mul(K3);
    }
    fold(fold(hash).wrapping_mul(K3))
}

/// One of the two halves of the hash of 33 to 64 bytes: words from `at` on, and `last`, from `start`.
fn half(bytes: &[u8], start: u64, at: usize, last: u64) -> (u64, u64) {
    let second = start.wrapping_add(last).rotate_right(52);
    let third = start.rotate_right(37);
    let start = start.wrapping_add(word(bytes, at));
    let third = third.wrapping_add(start.rotate_right(7));
    let start = start.wrapping_add(word(bytes, at + 8));
    (start.wrapping_add(last), second.wrapping_add(start.rotate_right(31)).wrapping_add(third))
}

fn medium(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let mixed = (len as u64).wrapping_add(word(bytes, len - 16)).wrapping_mul(K0);
    let first = half(bytes, word(bytes, 0).wrapping_add(mixed), 8, word(bytes, 24));
    let start = word(bytes, 16).wrapping_add(word(bytes, len - 32));
    let second = half(bytes, start, len - 24, word(bytes, len - 8));
    let hash = first.0.wrapping_add(second.1).wrapping_mul(K2);
    let hash = fold(hash.wrapping_add(second.0.wrapping_add(first.1).wrapping_mul(K0)));
    fold(hash.wrapping_mul(K0).wrapping_add(first.1)).wrapping_mul(K2)
}

/// Mixes 32 bytes into two seeds.
fn block(bytes: &[u8], at: usize, first: u64, second: u64) -> (u64, u64) {
    let first = first.wrapping_add(word(bytes, at));
    let last = word(bytes, at + 24);
    let second = second.wrapping_add(first).wrapping_add(last).rotate_right(51);
    let sum = first.wrapping_add(word(bytes, at + 8)).wrapping_add(word(bytes, at + 16));
    let second = second.wrapping_add(sum.rotate_right(23));
    (sum.wrapping_add(last), second.wrapping_add(first))
}

fn long(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let mut x = word(bytes, 0);
    let mut y = word(bytes, len - 16) ^ K1;
    let mut z = word(bytes, len - 56) ^ K0;
    let mut v = block(bytes, len - 64, len as u64, y);
    let mut w = block(bytes, len - 32, (len as u64).wrapping_mul(K1), K0);
    z = z.wrapping_add(fold(v.1).wrapping_mul(K1));
    x = z.wrapping_add(x).rotate_right(39).wrapping_mul(K1);
    y = y.rotate_right(33).wrapping_mul(K1);
    for at in (0..(len - 1) & !63).step_by(64) {
        let sum = x.wrapping_add(y).wrapping_add(v.0).wrapping_add(word(bytes, at + 16));
        x = sum.rotate_right(37).wrapping_mul(K1) ^ w.1;
        let sum = y.wrapping_add(v.1).wrapping_add(word(bytes, at + 48));
        y = sum.rotate_right(42).wrapping_mul(K1) ^ v.0;
        z = (z ^ w.0).rotate_right(33);
        v = block(bytes, at, v.1.wrapping_mul(K1), x.wrapping_add(w.0));
        w = block(bytes, at + 32, z.wrapping_add(w.1), y);
        (x, z) = (z, x);
    }
    let first = pair(v.0, w.0).wrapping_add(fold(y).wrapping_mul(K1)).wrapping_add(z);
    pair(first, pair(v.1, w.1).wrapping_add(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_those_of_other_programs() {
        for (text, times, want) in [
            ("test", 1, 8_473_225_671_271_759_044),
            ("test", 8, 7_345_148_637_025_587_076),
            ("test", 64, 4_904_844_928_629_814_570),
        ] {
            assert_eq!(fingerprint(text.repeat(times).as_bytes()), want, "{text} {times}");
        }
        let bytes = [1, 1, 0, 1, 0, 0, 0, 0];
        assert_eq!(fingerprint(&bytes) as i64, -7_885_230_138_691_441_470);
    }

    /// Hashes of inputs of every length up to 3200, each made from hashes before, folded into one number that
    /// other programs have published.
    #[test]
    fn fingerprints_of_every_length_are_those_of_other_programs() {
        let mix = |hash: u64| (hash ^ hash >> 41).wrapping_mul(949_921_979);
        let letter = |hash: u64| b'a' + ((hash & 0xf_ffff) % 26) as u8;
        let mut buffer: Vec<u8> = Vec::new();
        let mut hash = 0;
        for i in 0..800_usize {
            for round in 0..4 {
                let len = match round {
                    0 => i,
                    1 => i * i % buffer.len(),
                    2 => i * i * i % buffer.len(),
                    _ => buffer.len(),
                };
                hash = mix(hash ^ fingerprint(&buffer[..len]));
                buffer.push(letter(hash));
            }
            let len = buffer.len();
            let at = |place: usize| u64::from(buffer[place]);
            let [x0, x1, x2, x3] = [at(len - 1), at(len - 2), at(len - 3), at(len / 2)];
            let first = ((x0 << 16) + (x1 << 8) + x2) as usize % len;
            let second = ((x1 << 16) + (x2 << 8) + x3) as usize % len;
            buffer[first] ^= x3 as u8;
            buffer[second] ^= (i % 256) as u8;
        }
        assert_eq!(hash, 0xeaa3_b1c9_8526_1632);
    }
}
