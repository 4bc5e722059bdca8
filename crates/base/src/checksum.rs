//! The two checksums of Stele's files, each for one thing.

use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// crc32c of `parts` taken as one string of bytes: checks records of the commit log and manifest.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// [`xxh3_seeded`] of bytes that come piece by piece; by default with the seed 0.
#[derive(Default)]
pub struct Xxh3(XxHash3_64);

impl Xxh3 {
    /// Begins with no bytes and this seed; 0 is that of [`xxh3`].
    pub fn seeded(seed: u64) -> Self {
        Self(XxHash3_64::with_seed(seed))
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The checksum of the bytes so far.
    pub fn digest(&self) -> u64 {
        self.0.finish()
    }
}

/// XXH3-64: checks blocks of SSTables and hashes rows for filters. Frozen in the file formats.
pub fn xxh3(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// XXH3-64 with a seed, of which 0 gives what [`xxh3`] does: checks blocks of SSTables that tell
/// their place. Frozen in the file formats.
pub fn xxh3_seeded(seed: u64, bytes: &[u8]) -> u64 {
    match seed {
        0 => XxHash3_64::oneshot(bytes),
        seed => XxHash3_64::oneshot_with_seed(seed, bytes),
    }
}
