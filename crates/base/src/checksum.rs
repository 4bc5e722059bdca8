//! The two checksums of Stele's files, each for one thing.

use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// crc32c of `parts` taken as one string of bytes: checks records of the commit log and manifest.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// [`xxh3`] of bytes that come piece by piece.
#[derive(Default)]
pub struct Xxh3(XxHash3_64);

impl Xxh3 {
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
