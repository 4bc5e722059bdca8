//! The places of the keys of a table: the tree of the engine that has them, and a range of its rows. For
//! readers of files and sizes; rows are read by views.

use super::Table;
use crate::error::{Error, Result};
use crate::read::KeyRange;
use crate::state::SqlState;
use crate::types::Oid;
use engine::{RowRange, TreeId};

/// A part of the keys of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablePart {
    /// Its rows and all its indexes.
    All,
    /// The rows, which are the primary key too.
    Rows,
    /// The entries of an index by its number.
    Index(Oid),
}

/// A range of keys in a tree of the engine.
#[derive(Debug, Clone)]
pub struct KeyPlace {
    /// The tree. On a node of a cluster all tables of the database are in one.
    pub tree: TreeId,
    /// The rows of the tree that are the keys. Of a part, they begin with the bytes that all its keys begin with.
    pub rows: RowRange,
    /// True if the tree has other tables too.
    pub is_shared: bool,
}

impl Table {
    /// Returns where a part of the keys is. 42704 for an index that is not one of the table, XX000 if the
    /// tree of the table is not open.
    pub fn place_of(&self, part: TablePart) -> Result<KeyPlace> {
        let rows = match part {
            TablePart::All => RowRange::ALL,
            TablePart::Rows => KeyRange::ALL.rows(&self.layout.key)?,
            TablePart::Index(oid) => {
                let place = self.indexes.iter().position(|index| index.oid == oid);
                let layout = place.and_then(|place| self.layout.indexes.get(place));
                let missing = || {
                    let message =
                        format!("table \"{}\" has no index of the number {oid}", self.name);
                    Error::new(SqlState::UNDEFINED_OBJECT, message)
                };
                KeyRange::ALL.rows(&layout.ok_or_else(missing)?.codec)?
            }
        };
        Ok(self.storage()?.keys.place(rows))
    }
}
