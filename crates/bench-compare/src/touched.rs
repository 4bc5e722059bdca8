//! What a reader does with the bytes an engine lends it: touches them, and sums what it touched.
//!
//! The sum does not depend on the order of answers, so engines that answer a multi-get in their
//! own order agree with those that keep ours. It reads one word of every cache line of a value:
//! a value that was lent but never fetched from memory would make an engine look too fast.

/// The sum over all that was lent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Sum over words of the values, with lengths and positions mixed in.
    pub(crate) sum: u64,
    /// How many values (or entries) were lent.
    pub(crate) values: u64,
    /// How many keys were asked for and not found.
    pub(crate) missing: u64,
}

const LINE: usize = 64;

impl Touched {
    /// Touches `value`.
    #[inline]
    pub(crate) fn value(&mut self, value: &[u8]) {
        self.sum = self.sum.wrapping_add(fold(value));
        self.values += 1;
    }

    /// Touches an entry of a scan.
    #[inline]
    pub(crate) fn entry(&mut self, key: &[u8], value: &[u8]) {
        let both = fold(value) ^ last_word(key).rotate_left(32);
        self.sum = self.sum.wrapping_add(both);
        self.values += 1;
    }

    /// Notes that a key was not there.
    #[inline]
    pub(crate) fn missing(&mut self) {
        self.missing += 1;
    }
}

#[inline]
fn fold(bytes: &[u8]) -> u64 {
    let mut sum = bytes.len() as u64 ^ last_word(bytes);
    for line in bytes.chunks_exact(LINE) {
        sum = sum.rotate_left(9).wrapping_add(first_word(line));
    }
    sum
}

#[inline]
fn first_word(line: &[u8]) -> u64 {
    line.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    match bytes.last_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_bytes_do() {
        let sum = |values: &[&[u8]]| {
            let mut touched = Touched::default();
            values.iter().for_each(|value| touched.value(value));
            touched
        };
        let (a, b) = (&[7u8; 300][..], &[8u8; 3][..]);
        assert_eq!(sum(&[a, b]), sum(&[b, a]));
        assert_ne!(sum(&[a, b]), sum(&[a, a]));
        assert_ne!(sum(&[&a[..299]]), sum(&[a]));
    }
}
