//! The cell and its one order (docs/format/cell_order.md).
//!
//! A tree holds **entries**. Most entries are cells, `(row, family, qualifier, timestamp) →
//! value`; the others are tombstones, which hide cells written before them. Entries are ordered
//! by row bytes ascending, then by column (family id, scope, qualifier bytes) ascending, then by
//! timestamp **descending**, then by sequence number **descending**.
//!
//! Invariants other files lean on:
//! 1. No two entries of a tree share row, column, timestamp and sequence number.
//! 2. A tombstone sorts before every cell it can hide: row tombstones have family 0 and come
//!    first in the row, family tombstones come first in their family, and a column tombstone
//!    carries the newest timestamp it covers as its own. One pass in order therefore knows all
//!    that hides a cell when it meets the cell.

use std::cmp::Ordering;
use std::fmt;

/// One LSM tree of the engine (a tablet, or a system tree). Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u32);

impl TreeId {
    /// The first tree that a server gives to a table. It keeps smaller ids for itself.
    pub const FIRST_OF_TABLES: Self = Self(16);
}

/// A column family, by its id in the user's schema. 0 is reserved for row tombstones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyId(pub u16);

impl FamilyId {
    /// The family of row tombstones; no user cell has it.
    pub const ROW: Self = Self(0);
}

/// The version of a cell, chosen by the user; by convention microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The oldest timestamp.
    pub const MIN: Self = Self(i64::MIN);
    /// The newest timestamp.
    pub const MAX: Self = Self(i64::MAX);
}

/// Commit order of a mutation, consecutive over the whole engine. 56 bits; 0 is "before all".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// The largest that fits the formats.
    pub const MAX: Self = Self((1 << 56) - 1);
}

/// Scope of a tombstone, and the middle part of the column order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Scope {
    /// The whole row; its family is [`FamilyId::ROW`] and its qualifier empty.
    Row = 0,
    /// One family of the row; its qualifier is empty.
    Family = 1,
    /// One column. Every cell has this scope.
    Column = 2,
}

impl Scope {
    /// The scope of a byte on disk; `None` for a byte that names none.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Row),
            1 => Some(Self::Family),
            2 => Some(Self::Column),
            _ => None,
        }
    }
}

/// Kind of an entry. The byte on disk is frozen; 0 stays invalid to catch zeroed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A cell with its value.
    Put = 1,
    /// A merge operand: one byte of operator ([`crate::merge_operator::Operator`]), then
    /// its operand. All operands of one `(row, column, timestamp)` down to the newest put or
    /// covering tombstone fold into one cell.
    Merge = 2,
    /// Hides cells of its scope whose sequence number is smaller and whose timestamp lies in
    /// `[oldest, entry timestamp]`, both included; `oldest` is the value, an `i64` little-endian.
    Tombstone = 3,
}

impl Kind {
    /// The kind of a byte on disk; `None` for a byte that names none.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Put),
            2 => Some(Self::Merge),
            3 => Some(Self::Tombstone),
            _ => None,
        }
    }
}

/// A column: what an entry of a row belongs to. The derived order is the order of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column<'a> {
    /// Family id; 0 only with [`Scope::Row`].
    pub family: FamilyId,
    /// `Column` for cells; wider for tombstones.
    pub scope: Scope,
    /// Any bytes, may be empty; empty for wider scopes.
    pub qualifier: &'a [u8],
}

impl<'a> Column<'a> {
    /// The column `family:qualifier`.
    pub fn of(family: FamilyId, qualifier: &'a [u8]) -> Self {
        Self { family, scope: Scope::Column, qualifier }
    }

    /// Column of the tombstones of a whole row.
    pub const ROW: Column<'static> =
        Column { family: FamilyId::ROW, scope: Scope::Row, qualifier: &[] };

    /// Returns the column of the tombstones of a whole family.
    pub fn family(family: FamilyId) -> Column<'static> {
        Column { family, scope: Scope::Family, qualifier: &[] }
    }
}

/// Sort key of an entry of a row, and its kind: all but its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryKey<'a> {
    /// Family, scope and qualifier.
    pub column: Column<'a>,
    /// A cell's version; of a tombstone the newest timestamp it covers.
    pub timestamp: Timestamp,
    /// When it was written.
    pub sequence: SequenceNumber,
    /// Put, merge operand or tombstone.
    pub kind: Kind,
}

impl<'a> EntryKey<'a> {
    /// Order within one row: column ascending, timestamp descending, sequence descending.
    pub fn cmp_in_row(&self, other: &EntryKey<'_>) -> Ordering {
        self.column
            .cmp(&other.column)
            .then_with(|| other.timestamp.cmp(&self.timestamp))
            .then_with(|| other.sequence.cmp(&self.sequence))
    }

    /// The entry of this key with `value`.
    pub fn with_value(self, value: &'a [u8]) -> Entry<'a> {
        let Self { column, timestamp, sequence, kind } = self;
        Entry { column, timestamp, sequence, kind, value }
    }
}

/// One entry of a row, borrowed from where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry<'a> {
    /// Family, scope and qualifier.
    pub column: Column<'a>,
    /// A cell's version; of a tombstone the newest timestamp it covers.
    pub timestamp: Timestamp,
    /// When it was written.
    pub sequence: SequenceNumber,
    /// Put, merge operand or tombstone.
    pub kind: Kind,
    /// Value, operand, or the oldest covered timestamp.
    pub value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry without its value.
    pub fn key(&self) -> EntryKey<'a> {
        let Self { column, timestamp, sequence, kind, .. } = *self;
        EntryKey { column, timestamp, sequence, kind }
    }

    /// Order within one row: column ascending, timestamp descending, sequence descending.
    pub fn cmp_in_row(&self, other: &Entry<'_>) -> Ordering {
        self.key().cmp_in_row(&other.key())
    }

    /// For a tombstone, the oldest timestamp it covers; `None` if its value is malformed.
    pub fn tombstone_oldest(&self) -> Option<Timestamp> {
        Some(Timestamp(i64::from_le_bytes(self.value.try_into().ok()?)))
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{:?}/{}@{}#{},{:?}={}",
            self.column.family.0,
            self.column.scope,
            self.column.qualifier.escape_ascii(),
            self.timestamp.0,
            self.sequence.0,
            self.kind,
            self.value.escape_ascii()
        )
    }
}

/// A dropped range of rows: hides every cell of rows in `[start, end)` with a smaller sequence
/// number, whatever its timestamp. Kept beside the entries, never among them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RangeTombstone {
    /// First row covered.
    pub start: Vec<u8>,
    /// First row not covered; `None` reaches to the end of the tree.
    pub end: Option<Vec<u8>>,
    /// When the range was dropped.
    pub sequence: SequenceNumber,
}

impl RangeTombstone {
    /// Returns whether `row` lies in the dropped range.
    pub fn covers(&self, row: &[u8]) -> bool {
        self.start.as_slice() <= row && self.end.as_deref().is_none_or(|end| row < end)
    }
}
