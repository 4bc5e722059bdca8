//! Questions of reads to filters.

use super::{column_key, family_key};
use crate::cell::FamilyId;
use crate::options::FilterGranularity;
use base::checksum::xxh3;

/// A question to the filters of any number of files; its row is hashed once.
#[derive(Debug, Clone, Copy)]
pub struct FilterQuery<'a> {
    row: &'a [u8],
    pub(super) hash: u64,
    asked: Asked,
    family: FamilyId,
    qualifier: &'a [u8],
}

/// What is asked for, of a row unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Anything.
    Row,
    Family,
    Column,
    /// Any row with a prefix.
    Prefix,
}

impl Asked {
    /// All that can be asked for.
    pub const ALL: [Self; 4] = [Self::Row, Self::Family, Self::Column, Self::Prefix];
}

impl<'a> FilterQuery<'a> {
    /// "Is anything of `row` here?"
    pub fn row(row: &'a [u8]) -> Self {
        Self { row, hash: xxh3(row), asked: Asked::Row, family: FamilyId::ROW, qualifier: &[] }
    }

    /// "Is a cell of `family` in `row` here, or any tombstone of `row`?"
    pub fn family(row: &'a [u8], family: FamilyId) -> Self {
        Self { asked: Asked::Family, family, ..Self::row(row) }
    }

    /// "Is a cell of `family:qualifier` in `row` here, or any tombstone of `row`?"
    pub fn column(row: &'a [u8], family: FamilyId, qualifier: &'a [u8]) -> Self {
        Self { asked: Asked::Column, family, qualifier, ..Self::row(row) }
    }

    /// "Is any row with `prefix` here?" It stands in place of the row, and only
    /// [`super::SstReader::filter_says`] can be asked.
    pub fn prefix(prefix: &'a [u8]) -> Self {
        Self { asked: Asked::Prefix, ..Self::row(prefix) }
    }

    /// The same of a family of the row.
    pub fn family_of(&self, family: FamilyId) -> Self {
        Self { asked: Asked::Family, family, ..*self }
    }

    /// The same of a column of the row.
    pub fn column_of(&self, family: FamilyId, qualifier: &'a [u8]) -> Self {
        Self { asked: Asked::Column, family, qualifier, ..*self }
    }

    /// Returns the part of the row that the query asks for.
    pub fn asked(&self) -> Asked {
        self.asked
    }

    /// The finest key that a filter of `granularity` has for the question; `None` for the row's.
    pub(super) fn finest(&self, granularity: FilterGranularity) -> Option<u64> {
        match (granularity, self.asked) {
            (FilterGranularity::Row, _) | (_, Asked::Row) => None,
            (FilterGranularity::Column, Asked::Column) => {
                Some(column_key(self.hash, self.family, self.qualifier))
            }
            _ => Some(family_key(self.hash, self.family)),
        }
    }

    /// The hash of the row asked about.
    pub fn row_hash(&self) -> u64 {
        self.hash
    }

    /// The row asked about.
    pub fn asked_row(&self) -> &'a [u8] {
        self.row
    }
}
