//! What ties the blocks of a file to it (docs/format/sstable.md). Since version 2 the checksum of a
//! block is also of the identity of its file and of its offset, so that bytes which look like a
//! block are none anywhere but where they were written as one: a value may hold such bytes.
//!
//! The identity stands in a header at the start of the file and in the footer, each with a checksum
//! of its own. Either is enough to tell the version and to read the blocks.
//!
//! ```text
//! header   0 magic   8 version u16   10 zero, 6 bytes   16 identity, 16 bytes
//!          32 XXH3-64 of bytes 0..32
//! ```

use super::damage::{Damage, ensure};
use super::{FORMAT_VERSION, FooterError};
use crate::files::FileIdentity;
use base::checksum::xxh3;
use base::codec::{ByteReader, PutBytes};

/// Length of the header.
pub(crate) const HEADER_LEN: usize = 40;

const HEADER_CHECKED_LEN: usize = 32;

/// The first bytes of an SSTable since version 2: `STELEHDR`.
const MAGIC: u64 = u64::from_le_bytes(*b"STELEHDR");

/// Form of the checksums of a file's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frames {
    /// Checksum of the block alone: version 1. The file has no header.
    Unmarked,
    /// Checksum of the block, its file and its offset.
    Of(FileIdentity),
}

impl Frames {
    /// The seed of the checksum of the block at `offset`.
    pub(crate) fn seed(self, offset: u64) -> u64 {
        let Self::Of(FileIdentity(identity)) = self else { return 0 };
        let mut place = [0; 24];
        place[..16].copy_from_slice(&identity.to_le_bytes());
        place[16..].copy_from_slice(&offset.to_le_bytes());
        xxh3(&place)
    }

    /// Returns the start of the first block of the file.
    pub(crate) fn blocks_start(self) -> u64 {
        match self {
            Self::Unmarked => 0,
            Self::Of(_) => HEADER_LEN as u64,
        }
    }
}

/// The header of a file of this identity.
pub(crate) fn encode_header(identity: FileIdentity) -> [u8; HEADER_LEN] {
    let mut out = Vec::with_capacity(HEADER_LEN);
    out.put_u64(MAGIC);
    out.put_u16(FORMAT_VERSION);
    out.resize(16, 0);
    out.extend_from_slice(&identity.0.to_le_bytes());
    out.put_u64(xxh3(&out[..HEADER_CHECKED_LEN]));
    out.try_into().expect("the fields above are 40 bytes")
}

/// The identity in the header of a file.
pub(crate) fn decode_header(bytes: &[u8; HEADER_LEN]) -> Result<FileIdentity, FooterError> {
    let decode = |error| Damage::decode(0, error);
    let mut reader = ByteReader::new(bytes);
    let magic = reader.u64("magic").map_err(decode)?;
    let version = reader.u16("version").map_err(decode)?;
    ensure(magic == MAGIC, 0, "the file does not begin as an SSTable")?;
    let checksum = xxh3(&bytes[..HEADER_CHECKED_LEN]).to_le_bytes();
    ensure(checksum == bytes[HEADER_CHECKED_LEN..], 32, "header checksum")?;
    if version > FORMAT_VERSION {
        return Err(FooterError::newer(version));
    }
    ensure(version == FORMAT_VERSION, 8, "a header of a version that has none")?;
    ensure(bytes[10..16] == [0; 6], 10, "reserved bytes are not zero")?;
    let identity = bytes[16..HEADER_CHECKED_LEN].try_into().expect("16 bytes");
    Ok(FileIdentity(u128::from_le_bytes(identity)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_no_flipped_byte_does() {
        let identity = FileIdentity(7 << 100 | 5);
        let bytes = encode_header(identity);
        assert_eq!(decode_header(&bytes), Ok(identity));
        for at in 0..HEADER_LEN {
            for flip in [1, 0x80, 0xff] {
                let mut flipped = bytes;
                flipped[at] ^= flip;
                assert!(matches!(decode_header(&flipped), Err(FooterError::Damage(_))));
            }
        }
        let mut newer = bytes;
        newer[8] = 3;
        let checksum = xxh3(&newer[..HEADER_CHECKED_LEN]).to_le_bytes();
        newer[HEADER_CHECKED_LEN..].copy_from_slice(&checksum);
        assert!(matches!(decode_header(&newer), Err(FooterError::Newer(_))));
    }

    #[test]
    fn each_place_of_each_file_has_a_seed_of_its_own() {
        let files = [FileIdentity(1), FileIdentity(1 << 64), FileIdentity(u128::MAX)];
        let seeds = files.iter().flat_map(|file| [0, 1, 40, 1 << 40].map(|at| (file, at)));
        let seeds: std::collections::BTreeSet<u64> =
            seeds.map(|(file, at)| Frames::Of(*file).seed(at)).collect();
        assert_eq!(seeds.len(), 12);
        assert_eq!(Frames::Unmarked.seed(40), 0);
    }
}
