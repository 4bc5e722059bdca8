//! Bytes of rows and keys in trees: docs/format/relational_key.md and docs/format/relational_row.md.
//!
//! Bytes of a tree may be damaged: whatever they are, decoding ends with a value or with XX001, and takes
//! memory in proportion to their length only.

pub mod key;
mod key_bytes;
mod key_numeric;
pub mod row;
mod row_value;
pub(crate) mod segment;

/// The family of all cells of tables.
pub(crate) const FAMILY: engine::FamilyId = engine::FamilyId(1);

pub(crate) use row_value::{decode_value, encode_value};
