//! Numbers of 0 to 64 bits, packed in blocks of 64: a block of numbers of `b` bits has `b` words.
//!
//! Each width has a function of its own, so that all shifts and masks are constants. Numbers do not cross
//! blocks, and a block begins and ends with a word.

/// Count of numbers in a block.
pub(crate) const BLOCK: usize = 64;

/// Returns the bytes of `count` packed numbers.
pub(crate) fn packed_bytes(count: usize, bits: u32) -> usize {
    count.div_ceil(BLOCK) * 8 * bits as usize
}

/// Appends numbers, each below 2 to the `bits`.
pub(crate) fn pack(numbers: impl Iterator<Item = u64>, bits: u32, to: &mut Vec<u8>) {
    if bits == 0 {
        return;
    }
    let (mut word, mut filled, mut in_block) = (0u64, 0u32, 0);
    let mut put = |number: u64| {
        debug_assert!(bits == 64 || number >> bits == 0);
        word |= number << filled;
        filled += bits;
        if filled >= 64 {
            to.extend_from_slice(&word.to_le_bytes());
            filled -= 64;
            // The rest did not fit; a shift by 64 is no shift in Rust.
            word = number.checked_shr(bits - filled).unwrap_or(0);
        }
        in_block = (in_block + 1) % BLOCK;
        in_block
    };
    let mut rest = 0;
    numbers.for_each(|number| rest = put(number));
    while rest != 0 {
        rest = put(0);
    }
}

/// Calls `each` with the numbers of each block in turn; the last block has `count % 64` of them if that
/// is not 0. `packed` must have [`packed_bytes`] bytes, and `bits` be at most 64.
pub(crate) fn unpack(packed: &[u8], bits: u32, count: usize, mut each: impl FnMut(&[u64])) {
    let mut numbers = [0u64; BLOCK];
    let unpack_block = UNPACK[bits as usize];
    let block_bytes = 8 * bits as usize;
    for block in 0..count.div_ceil(BLOCK) {
        unpack_block(&packed[block * block_bytes..(block + 1) * block_bytes], &mut numbers);
        each(&numbers[..BLOCK.min(count - block * BLOCK)]);
    }
}

/// Returns one of the numbers. `packed` is as in [`unpack`], and `index` below the count.
pub(crate) fn unpack_one(packed: &[u8], bits: u32, index: usize) -> u64 {
    if bits == 0 {
        return 0;
    }
    let first_bit = index % BLOCK * bits as usize;
    let word = index / BLOCK * bits as usize + first_bit / 64;
    let shift = (first_bit % 64) as u32;
    let at = |word: usize| {
        packed
            .get(8 * word..8 * word + 8)
            .and_then(|b| b.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    };
    let mut number = at(word) >> shift;
    if shift + bits > 64 {
        number |= at(word + 1) << (64 - shift);
    }
    number & mask(bits)
}

/// Returns a number with the low `bits` set.
const fn mask(bits: u32) -> u64 {
    if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Unpacks the words of one block.
fn unpack_block<const BITS: usize>(packed: &[u8], numbers: &mut [u64; BLOCK]) {
    let mut words = [0u64; BITS];
    for (word, bytes) in words.iter_mut().zip(packed.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    macro_rules! number {
        ($($i:literal)*) => {
            $(numbers[$i] = number_of::<BITS>(&words, $i);)*
        };
    }
    number!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    number!(32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59);
    number!(60 61 62 63);
}

#[inline(always)]
fn number_of<const BITS: usize>(words: &[u64; BITS], index: usize) -> u64 {
    if BITS == 0 {
        return 0;
    }
    let (word, shift) = (index * BITS / 64, index * BITS % 64);
    let mut number = words[word] >> shift;
    if shift + BITS > 64 {
        number |= words[word + 1] << (64 - shift);
    }
    number & mask(BITS as u32)
}

macro_rules! table {
    ($($bits:literal)*) => {
        /// The function of each width.
        static UNPACK: [fn(&[u8], &mut [u64; BLOCK]); 65] = [$(unpack_block::<$bits>),*];
    };
}
table!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn every_width_gives_back_what_was_packed() {
        let mut random = StdRng::seed_from_u64(11);
        for bits in 0..=64 {
            for count in [1, 2, 63, 64, 65, 128, 1000] {
                let mut numbers: Vec<u64> =
                    (0..count).map(|_| random.random::<u64>() & mask(bits)).collect();
                numbers[0] = mask(bits);
                *numbers.last_mut().unwrap() = mask(bits);
                let mut packed = Vec::new();
                pack(numbers.iter().copied(), bits, &mut packed);
                assert_eq!(packed.len(), packed_bytes(count, bits), "{bits} bits");
                let mut unpacked = Vec::new();
                unpack(&packed, bits, count, |block| unpacked.extend_from_slice(block));
                assert_eq!(unpacked, numbers, "{bits} bits");
                for (index, number) in numbers.iter().enumerate() {
                    assert_eq!(unpack_one(&packed, bits, index), *number, "{bits} bits");
                }
            }
        }
    }

    #[test]
    fn packed_bits_lie_as_the_format_page_says() {
        let mut packed = Vec::new();
        pack([1, 2, 3, 4].into_iter(), 3, &mut packed);
        // 100 011 010 001, the first number in the lowest bits.
        assert_eq!(packed[..2], [0b1101_0001, 0b0000_1000]);
        assert_eq!(packed.len(), 24);
        assert!(packed[2..].iter().all(|byte| *byte == 0));
    }
}
