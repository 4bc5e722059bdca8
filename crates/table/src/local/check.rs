//! Compares the tables of a directory that nobody has open with its trees, and changes nothing.
//!
//! A tree that no table names is worth a note: nobody can read it, and nobody drops it unless an
//! intent names it, as a crash between two steps of a schema change leaves it
//! (docs/format/schema.md, "Changes"). A table whose tree is missing, or another
//! table's, is damage: no crash leaves one, and a server refuses it.

use super::meta::{
    INTENT_PREFIX, NEXT_TREE_ROW, RECORD_PREFIX, SYSTEM_TREE, TABLE_PREFIX, decode_intent,
    decode_owned, decode_record, decode_shelved, decode_table, is_schema_row, is_shelf_row,
    trees_of,
};
use crate::schema::OwnedTrees;
use base::env::Env;
use engine::TreeId;
use engine::check::{TreeReading, read_tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Mismatches between tables and trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Misfits {
    /// Mismatches that a server refuses.
    pub findings: Vec<String>,
    /// Trees of no table: what the next start of a server removes, and what it keeps.
    pub notes: Vec<String>,
}

/// Compares tables and trees of the data directory `dir`. `None` if it is not a server's: no tree of
/// it holds a schema, and nothing else. Takes as long as reading the schema and the log.
///
/// Errors as of [`read_tree`].
pub fn check_tables(env: &Env, dir: &Path) -> engine::Result<Option<Misfits>> {
    let TreeReading { trees, rows } = read_tree(env, dir, SYSTEM_TREE, &is_schema_row)?;
    // A server has tree ids set aside before it creates a tree; another program has no such row.
    let rows = rows.filter(|rows| rows.iter().any(|(row, _)| row == NEXT_TREE_ROW));
    let Some(rows) = rows else { return Ok(None) };
    let records =
        rows.iter().filter_map(|(row, cells)| Some((&row[..], &cells.first()?.value[..])));
    Ok(Some(compare(&trees, records)))
}

/// Compares `trees` with the records of the schema, each a row and its value.
fn compare<'a>(trees: &[TreeId], records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Misfits {
    let mut misfits = Misfits::default();
    let (mut claimed, mut intended) = (BTreeMap::new(), BTreeSet::new());
    for (row, record) in records {
        if row.starts_with(INTENT_PREFIX) {
            match decode_intent(row, record) {
                Ok(trees) => intended.extend(trees),
                Err(error) => misfits.findings.push(error.to_string()),
            }
        }
        if row.starts_with(RECORD_PREFIX)
            && let Err(error) = decode_record(row, record)
        {
            misfits.findings.push(error.to_string());
        }
        let table = if row.starts_with(TABLE_PREFIX) {
            match OwnedTrees::is_record(record) {
                true => decode_owned(row, record).map(|owned| (owned.name, owned.trees)),
                false => decode_table(row, record)
                    .map(|table| (table.name.to_string(), trees_of(&table))),
            }
        } else if is_shelf_row(row) {
            let name = row.escape_ascii().to_string();
            decode_shelved(row, record).map(|shelved| (name, trees_of(&shelved.schema)))
        } else {
            continue;
        };
        let (name, of_table) = match table {
            Ok(table) => table,
            Err(error) => {
                misfits.findings.push(error.to_string());
                continue;
            }
        };
        for tree in of_table {
            let (name, number) = (&name, tree.0);
            if let Some(other) = claimed.insert(tree, name.clone()) {
                let what = format!("tables {name} and {other} both use tree {number}");
                misfits.findings.push(what);
            } else if !trees.contains(&tree) {
                let what = format!("table {name} uses tree {number}, which does not exist");
                misfits.findings.push(what);
            }
        }
    }
    let of_tablets = trees.iter().filter(|tree| **tree >= TreeId::FIRST_OF_TABLES);
    for tree in of_tablets.filter(|tree| !claimed.contains_key(tree)) {
        let then = match intended.contains(tree) {
            true => "its creation or deletion was interrupted; the next server start removes it",
            false => "it is kept; 'stele adopt' makes it a table",
        };
        misfits.notes.push(format!("tree {} belongs to no table: {then}", tree.0));
    }
    misfits
}
