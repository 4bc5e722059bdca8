//! Keys and values of the benchmarks: drawn from a seed, so that no table of them is kept.

/// A small, fast generator (splitmix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills `out` with random bytes.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Whether a key is one that was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// Loaded.
    Present,
    /// Of the same shape, never loaded.
    Absent,
}

/// Writes key `number` of a kind: random printable bytes, the same for the same number.
pub(crate) fn key(number: u64, kind: KeyKind, out: &mut [u8]) {
    let salt = if kind == KeyKind::Present { 0x5354_454c_4500_0001 } else { 0x4142_5345_4e54_0001 };
    Draw(number.wrapping_mul(0xd129_9cb1_92a3_f1e5) ^ salt).fill(out);
    for byte in out {
        *byte = b'0' + (*byte & 0x3f);
    }
}

/// Writes the value of key `number`: incompressible bytes.
pub(crate) fn value(number: u64, out: &mut [u8]) {
    Draw(number ^ 0x7661_6c75_6500_0001).fill(out);
}
