//! What a table is known by beyond its name: for clients that leave work, come back, and must find the
//! table that they left.

use crate::schema::{TableName, TableSchema};
use engine::{StoreId, TreeId};
use std::fmt;

/// Says which table this is. No other table has the same, in any store: also none that was made anew
/// under its name, and none of a store that was made anew in its place.
///
/// As text: `NAME@CREATED/TREE@STORE`, and `;OPENED` behind it where the store may lose writes that it
/// acknowledged when the machine loses its power.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableIdentity {
    pub name: TableName,
    /// When it was created, microseconds since the Unix epoch.
    pub created_micros: i64,
    /// The tree of its first rows. A store gives the number of a tree once.
    pub tree: Option<TreeId>,
    /// The store that keeps it.
    pub store: StoreId,
    /// When the store was opened, microseconds since the Unix epoch; `None` if every write that it
    /// acknowledges is durable. Where this changes, acknowledged writes may be gone.
    pub opened_micros: Option<i64>,
}

impl TableIdentity {
    pub(crate) fn new(table: &TableSchema, store: StoreId, opened_micros: Option<i64>) -> Self {
        Self {
            name: table.name.clone(),
            created_micros: table.created_micros,
            tree: table.tablets.first().map(|tablet| tablet.tree),
            store,
            opened_micros,
        }
    }

    /// The part of the text of an identity that stays the same for as long as the table lives.
    pub fn lasting(text: &str) -> &str {
        text.split_once(';').map_or(text, |(lasting, _)| lasting)
    }
}

impl fmt::Display for TableIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tree = self.tree.map_or(0, |tree| tree.0);
        write!(f, "{}@{}/{tree}@{}", self.name, self.created_micros, self.store)?;
        match self.opened_micros {
            Some(opened) => write!(f, ";{opened}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_all_but_when_the_store_was_opened() {
        let name = TableName::new("projects/p/instances/i/tables/t").unwrap();
        let (tree, store) = (Some(TreeId(16)), StoreId(7));
        let durable = TableIdentity { name, created_micros: 5, tree, store, opened_micros: None };
        let text = durable.to_string();
        assert_eq!(text, format!("projects/p/instances/i/tables/t@5/16@{store}"));
        assert_eq!(TableIdentity::lasting(&text), text);
        let opened = TableIdentity { opened_micros: Some(9), ..durable };
        assert_eq!(opened.to_string(), format!("{text};9"));
        assert_eq!(TableIdentity::lasting(&opened.to_string()), text);
    }
}
