//! Compares the tables of a directory that nobody has open with its trees, and changes nothing.
//!
//! A tree that no table names is what a crash leaves between two steps of a schema change
//! (docs/format/schema.md, "Changes"): it is worth a note. A table whose tree is missing, or another
//! table's, is damage: no crash leaves one, and a server refuses it.

use super::meta::{FIRST_TABLET_TREE, NEXT_TREE_ROW, SYSTEM_TREE, TABLE_PREFIX, decode_table};
use base::env::Env;
use engine::TreeId;
use engine::check::{TreeReading, read_tree};
use std::collections::BTreeMap;
use std::path::Path;

/// Where tables and trees do not fit each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Misfits {
    /// What a server refuses.
    pub findings: Vec<String>,
    /// What the next start of a server removes.
    pub notes: Vec<String>,
}

/// Compares tables and trees of the data directory `dir`. `None` if it is not a server's: no tree of
/// it holds a schema, and nothing else. Takes as long as reading the schema and the log.
///
/// Errors as of [`read_tree`].
pub fn check_tables(env: &Env, dir: &Path) -> engine::Result<Option<Misfits>> {
    let expected = |row: &[u8]| row == NEXT_TREE_ROW || row.starts_with(TABLE_PREFIX);
    let TreeReading { trees, rows } = read_tree(env, dir, SYSTEM_TREE, &expected)?;
    // A server has tree ids set aside before it creates a tree; another program has no such row.
    let rows = rows.filter(|rows| rows.iter().any(|(row, _)| row == NEXT_TREE_ROW));
    let Some(rows) = rows else { return Ok(None) };
    let records = rows.iter().filter(|(row, _)| row.starts_with(TABLE_PREFIX));
    let records = records.filter_map(|(row, cells)| Some((&row[..], &cells.first()?.value[..])));
    Ok(Some(compare(&trees, records)))
}

/// Compares `trees` with the records of tables, each the row of a table and its value.
fn compare<'a>(trees: &[TreeId], records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Misfits {
    let mut misfits = Misfits::default();
    let mut claimed = BTreeMap::new();
    for (row, record) in records {
        let table = match decode_table(row, record) {
            Ok(table) => table,
            Err(error) => {
                misfits.findings.push(error.to_string());
                continue;
            }
        };
        for tree in table.tablets.iter().map(|tablet| tablet.tree) {
            let (name, number) = (&table.name, tree.0);
            if let Some(other) = claimed.insert(tree, name.clone()) {
                let what = format!("table {name} names tree {number}, as table {other} does");
                misfits.findings.push(what);
            } else if !trees.contains(&tree) {
                let what = format!("table {name} names tree {number}, which does not exist");
                misfits.findings.push(what);
            }
        }
    }
    // A record that cannot be read may name any of them.
    let all_known = misfits.findings.is_empty();
    let of_tablets = trees.iter().filter(|tree| **tree >= FIRST_TABLET_TREE);
    for tree in of_tablets.filter(|tree| !claimed.contains_key(tree)) {
        let then = if all_known { "; the next start of a server removes it" } else { "" };
        misfits.notes.push(format!("tree {} belongs to no table{then}", tree.0));
    }
    misfits
}
