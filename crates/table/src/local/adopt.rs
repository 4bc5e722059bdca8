//! Makes tables and trees fit each other again after a repair.
//!
//! An open keeps trees that no table names, but nobody can read them, and refuses tables whose trees
//! are missing. A repair may have saved a tree and lost the record of its table, or the reverse; and
//! a store that servers are given by another program has trees and no tables at all.

use super::meta::{
    EngineMeta, MetaChange, MetaStore, owned_row, record_row, shelf_row, table_row, trees_of,
};
use super::tables::drop_trees;
use crate::error::Result;
use crate::gc::GcRule;
use crate::limits::Granularity;
use crate::schema::{FamilySchema, TOKENS, TableName, TableSchema, Tablet, ValueType};
use crate::shelf::Shelf;
use bytes::Bytes;
use engine::{Engine, FamilyId, Owner, RowRange, ScanRequest, TreeId, TreeOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Prefix of tables that were found without their record; `tree-N` follows.
pub const RECOVERED: &str = "projects/recovered/instances/recovered/tables/";

/// Makes the schema in `engine`, the outcome of a repair, fit its trees. Gives a line for each
/// thing that was done; none if all fit. `now_micros` is the creation time of new tables.
///
/// - A record that cannot be read is removed.
/// - A table whose tree is missing gets an empty one; if the tree was dropped, or is another
///   table's, the record was that of a deleted table, and is removed.
/// - A tree with data that no table names becomes a table of its own under [`RECOVERED`], with a
///   family `family-N` for each number it has cells of, without GC rules.
///
/// - Such a tree without data is dropped.
///
/// Nothing is done if the store is of a program that embeds the engine, or the first tree holds
/// something else than a schema.
pub fn adopt_trees(engine: &Engine, now_micros: i64) -> Result<Vec<String>> {
    if engine.owner() == Some(Owner::Embedder) {
        return Ok(vec![
            "the directory does not belong to servers; its trees are unchanged".into(),
        ]);
    }
    engine.claim(Owner::Server)?;
    let meta = EngineMeta::open(engine.clone())?;
    if !meta.is_schema()? {
        return Ok(vec![
            "the directory does not belong to servers; its trees are unchanged".into(),
        ]);
    }
    let mut done = Vec::new();
    let (mut tables, damaged) = meta.readable_tables()?;
    for row in damaged {
        meta.remove_record(&row)?;
        done.push(format!("record '{}' is unreadable and was removed", row.escape_ascii()));
    }
    // If two claim a tree, the newer one has it, and a table before one out of service.
    tables.sort_by_key(|table| std::cmp::Reverse(table.created_micros));
    let tables = tables.into_iter().map(|table| {
        (vec![table_row(&table.name)], format!("table {}", table.name), trees_of(&table))
    });
    let mut claims: Vec<_> = tables.collect();
    for owned in meta.readable_owned()? {
        let what = format!("table {}", owned.name);
        claims.push((vec![owned_row(&owned.name)], what, owned.trees));
    }
    for ((shelf, name), shelved) in meta.readable_shelved()? {
        let what = format!("{name}, a table out of service,");
        let rows = match shelf {
            Shelf::Deleted => vec![shelf_row(shelf, &name)],
            Shelf::Backup => vec![shelf_row(shelf, &name), record_row(&name)],
        };
        claims.push((rows, what, trees_of(&shelved.schema)));
    }
    let mut claimed = BTreeSet::new();
    for (rows, what, trees) in claims {
        let taken = trees.iter().any(|tree| claimed.contains(tree));
        if taken || !create_missing(engine, &what, &trees, &mut done)? {
            rows.iter().try_for_each(|row| meta.remove_record(row))?;
            done.push(format!("{what} was deleted; its record was removed"));
        } else {
            claimed.extend(trees);
        }
    }
    let orphans: Vec<TreeId> = engine.trees().into_iter().filter(is_orphan(&claimed)).collect();
    if !orphans.is_empty() {
        meta.begin_numbers()?;
    }
    for tree in orphans {
        done.push(adopt_tree(engine, &meta, tree, now_micros)?);
    }
    Ok(done)
}

/// Makes a table of a tree that none names, or drops it if it is empty; says which.
fn adopt_tree(engine: &Engine, meta: &EngineMeta, tree: TreeId, now_micros: i64) -> Result<String> {
    let number = tree.0;
    let Some(table) = table_of(engine, tree, now_micros)? else {
        meta.intend(&[tree])?;
        drop_trees(engine, meta, &[tree])?;
        return Ok(format!("tree {number} has no data and no table; it was removed"));
    };
    meta.change(&[MetaChange::PutTable(&table), MetaChange::Forget(&[tree])])?;
    let name = &table.name;
    Ok(format!("tree {number} has data but no table; it is now table {name}"))
}

/// Returns whether a tree is one of tables, and none of those that are claimed.
fn is_orphan(claimed: &BTreeSet<TreeId>) -> impl Fn(&TreeId) -> bool {
    |tree| *tree >= TreeId::FIRST_OF_TABLES && !claimed.contains(tree)
}

/// Creates the trees of a table that are missing; `false` if one of them was dropped.
fn create_missing(
    engine: &Engine,
    what: &str,
    trees: &[TreeId],
    done: &mut Vec<String>,
) -> Result<bool> {
    let there: BTreeSet<TreeId> = engine.trees().into_iter().collect();
    for tree in trees.iter().filter(|tree| !there.contains(tree)) {
        match engine.create_tree(*tree, TreeOptions::default()) {
            Ok(_) => done
                .push(format!("tree {} of {what} is lost; the table is now empty there", tree.0)),
            Err(engine::Error::InvalidArgument(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// A table for a tree that has none; `None` if the tree is empty.
fn table_of(engine: &Engine, tree: TreeId, now_micros: i64) -> Result<Option<TableSchema>> {
    let (families, granularity) = families_of(engine, tree)?;
    let Some(last) = families.last() else { return Ok(None) };
    let next_family = last.0.saturating_add(1);
    let family = |id: &FamilyId| {
        let name: Arc<str> = format!("family-{}", id.0).into();
        let (gc, value_type) = (GcRule::default(), ValueType::Raw);
        (Arc::clone(&name), FamilySchema { id: *id, name, gc, value_type })
    };
    Ok(Some(TableSchema {
        name: TableName::new(format!("{RECOVERED}tree-{}", tree.0))?,
        families: families.iter().map(family).collect::<BTreeMap<_, _>>(),
        next_family,
        tablets: vec![Tablet { start: Bytes::new(), tree }],
        deletion_protection: false,
        created_micros: now_micros,
        granularity,
        row_key_schema: None,
    }))
}

/// Returns the families that any cell of the tree has, and the coarsest granularity of all timestamps.
fn families_of(engine: &Engine, tree: TreeId) -> Result<(BTreeSet<FamilyId>, Granularity)> {
    let (mut families, mut granularity) = (BTreeSet::new(), Granularity::Millis);
    let mut scan = engine.tree(tree)?.scan(&ScanRequest::rows(RowRange::ALL), None)?;
    while scan.next_row()?.is_some() {
        while let Some(cell) = scan.next_cell()? {
            if cell.family == TOKENS {
                continue;
            }
            families.insert(cell.family);
            if granularity.truncate(cell.timestamp) != cell.timestamp {
                granularity = Granularity::Micros;
            }
        }
    }
    Ok((families, granularity))
}
