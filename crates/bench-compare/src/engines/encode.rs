//! How a cell becomes a key of an ordered map of bytes: what a user of such a map would do.
//!
//! - [`Model::Keys`]: the row key.
//! - [`Model::Versions`]: row key, then the timestamp in big-endian, inverted so that the newest
//!   comes first.
//! - [`Model::Columns`]: row key, family byte, qualifier. Row keys are equally long, so no
//!   terminator is needed.

use crate::data::{Cell, Model, QUALIFIERS};
use crate::engines::Part;
use crate::touched::Touched;

/// Bytes of an encoded timestamp.
const TIMESTAMP_BYTES: usize = 8;
/// Bytes of an encoded family and qualifier.
const COLUMN_BYTES: usize = 1 + QUALIFIERS[0].len();

/// Replaces `key` by the key of `cell`.
pub(crate) fn key_of(model: Model, cell: &Cell<'_>, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(cell.row);
    match model {
        Model::Keys => {}
        Model::Versions => key.extend_from_slice(&(!cell.timestamp).to_be_bytes()),
        Model::Columns => {
            key.push(cell.family);
            key.extend_from_slice(cell.qualifier);
        }
    }
}

/// Replaces `key` by the key of the column, or by the prefix of all keys, that `part` of `row`
/// means.
pub(crate) fn key_of_part(row: &[u8], part: Part, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(row);
    match part {
        Part::Column(family, column) => {
            key.push(family);
            key.extend_from_slice(QUALIFIERS[usize::from(column)]);
        }
        Part::Family(family) => key.push(family),
        Part::Row => {}
    }
}

/// Entries of a scan over encoded keys, as the rows they stand for.
pub(crate) struct Rows {
    model: Model,
    /// The row of the last entry, where only its newest version counts.
    last: Vec<u8>,
}

impl Rows {
    /// Before the first entry.
    pub(crate) fn new(model: Model) -> Self {
        Self { model, last: Vec::new() }
    }

    /// Touches an entry, unless it is an older version. Returns whether it counts.
    #[inline]
    pub(crate) fn touch(&mut self, key: &[u8], value: &[u8], touched: &mut Touched) -> bool {
        match self.model {
            Model::Keys => touched.entry(key, value),
            Model::Columns => touched.entry(&key[..key.len() - COLUMN_BYTES], value),
            Model::Versions => {
                let row = &key[..key.len() - TIMESTAMP_BYTES];
                if row == self.last {
                    return false;
                }
                self.last.clear();
                self.last.extend_from_slice(row);
                touched.entry(row, value);
            }
        }
        true
    }
}
