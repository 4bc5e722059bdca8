//! The two checksums of Stele's files, each for one thing.

/// crc32c of `parts` taken as one string of bytes: checks records of the commit log and manifest.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// XXH3-64: checks blocks of SSTables and hashes rows for filters. Frozen in the file formats.
pub fn xxh3(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
