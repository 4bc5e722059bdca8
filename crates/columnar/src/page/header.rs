//! Header of a page.

use super::Compression;
use crate::encoding::TREE_TAGS_MAX;
use crate::{ColumnType, Error, HEADER_BYTES, ROWS_MAX, body_bytes_max};
use base::checksum::crc32c;
use base::codec::PutBytes;

pub(super) const VERSION: u8 = 1;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// Fields of the header, but for version and checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) column_type: ColumnType,
    pub(super) compression: Compression,
    pub(super) rows: usize,
    pub(super) nulls: usize,
    pub(super) body_bytes: usize,
    pub(super) stored_bytes: usize,
    pub(super) tree: [u8; TREE_TAGS_MAX],
}

impl Header {
    /// Returns the bytes of the null bitmap with its padding.
    pub(super) fn bitmap_bytes(&self) -> usize {
        bitmap_bytes(self.rows, self.nulls)
    }

    /// Returns the header of a page with these stored bytes.
    pub(super) fn encode(&self, stored: &[u8]) -> [u8; HEADER_BYTES] {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend([VERSION, self.column_type as u8, self.compression as u8, 0]);
        for number in [self.rows, self.nulls, self.body_bytes, self.stored_bytes] {
            header.put_u32(u32::try_from(number).unwrap_or(u32::MAX));
        }
        header.extend(self.tree);
        header.resize(CHECKSUM_AT, 0);
        header.put_u32(crc32c(&[&header, stored]));
        let mut out = [0; HEADER_BYTES];
        out.copy_from_slice(&header);
        out
    }

    /// Reads the header of a page and compares its checksum.
    pub(super) fn decode(page: &[u8]) -> Result<Self, Error> {
        let Some((header, stored)) = page.split_at_checked(HEADER_BYTES) else {
            return Err(Error::corrupt("page ends inside its header", page.len()));
        };
        if header[0] != VERSION {
            return Err(unknown_version(header[0]));
        }
        let number = |at| header[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let [rows, nulls, body_bytes, stored_bytes] = [4, 8, 12, 16].map(|at| number(at) as usize);
        let (tree, rest) = header[20..CHECKSUM_AT].split_at(TREE_TAGS_MAX);
        if number(CHECKSUM_AT) != crc32c(&[&header[..CHECKSUM_AT], stored]) {
            return Err(Error::corrupt("checksum of the page", CHECKSUM_AT));
        }
        let damage = |what, at| Err(Error::corrupt(what, at));
        let Some(column_type) = ColumnType::from_byte(header[1]) else {
            return damage("type of the column", 1);
        };
        let Some(compression) = Compression::from_byte(header[2]) else {
            return damage("compression of the page", 2);
        };
        if header[3] != 0 || rest.iter().any(|byte| *byte != 0) {
            return damage("reserved bytes of the header", 3);
        }
        if !(1..=ROWS_MAX).contains(&rows) || nulls > rows {
            return damage("rows and nulls of the page", 4);
        }
        if body_bytes > body_bytes_max(rows) || body_bytes <= bitmap_bytes(rows, nulls) {
            return damage("length of the body", 12);
        }
        let whole = compression == Compression::None;
        if stored_bytes != stored.len() || whole != (stored_bytes == body_bytes) {
            return damage("length of the stored body", 16);
        }
        let tree = tree.try_into().unwrap_or_default();
        Ok(Self { column_type, compression, rows, nulls, body_bytes, stored_bytes, tree })
    }
}

/// Returns the bytes of the null bitmap of a page with its padding; 0 if it has none.
pub(super) fn bitmap_bytes(rows: usize, nulls: usize) -> usize {
    if nulls == 0 || nulls == rows { 0 } else { rows.div_ceil(8).next_multiple_of(64) }
}

/// Returns a page with the version, the length and the checksum that belong to its other bytes; `None`
/// if they are too few for a header.
pub(crate) fn with_checksum(page: &[u8]) -> Option<Vec<u8>> {
    let mut page = page.to_vec();
    let stored = u32::try_from(page.len().checked_sub(HEADER_BYTES)?).ok()?;
    page[0] = VERSION;
    page[16..20].copy_from_slice(&stored.to_le_bytes());
    let checksum = crc32c(&[&page[..CHECKSUM_AT], &page[HEADER_BYTES..]]);
    page[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Some(page)
}

/// Returns why a version is refused.
pub(crate) fn unknown_version(found: u8) -> Error {
    match found {
        0 => Error::corrupt("version 0", 0),
        found => Error::Version { found },
    }
}
