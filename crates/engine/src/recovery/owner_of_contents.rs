//! Whose a store of before owners is: what it has tells (`owner`, invariant 1).

use crate::cell::{FamilyId, TreeId};
use crate::error::{Error, Result};
use crate::manifest::Owner;
use crate::read::scan::Scan;
use crate::state::ownership::SCHEMA;

/// The row of a server's schema that is there before any tree of a table is.
const NEXT_TREE: &[u8] = b"next_tree";
/// How all others began, before there were owners.
const TABLES: &[u8] = b"table/";

/// The owner that the contents tell, where the manifest does not: `trees`, and what `scan` walks, the
/// tree of a server's schema. Whoever opens a damaged tree finds the damage where it matters to him.
pub(crate) fn told_by_contents(
    trees: &[TreeId],
    scan: impl FnOnce() -> Result<Scan>,
) -> Result<Option<Owner>> {
    match by_contents(trees, scan) {
        Err(Error::Corruption(_)) => Ok(None),
        told => told,
    }
}

/// The owner that the contents of a store of before owners tell.
pub(crate) fn by_contents(
    trees: &[TreeId],
    scan: impl FnOnce() -> Result<Scan>,
) -> Result<Option<Owner>> {
    if trees.is_empty() {
        return Ok(None);
    }
    if !trees.contains(&SCHEMA) {
        return Ok(Some(Owner::Embedder));
    }
    let mut scan = scan()?;
    let mut numbered = false;
    let mut rows = 0;
    while let Some(row) = scan.next_row()? {
        rows += 1;
        numbered |= row == NEXT_TREE;
        if row != NEXT_TREE && !row.starts_with(TABLES) {
            return Ok(Some(Owner::Embedder));
        }
        match scan.next_cell()? {
            Some(cell) if cell.family == FamilyId(1) && cell.qualifier.is_empty() => {}
            _ => return Ok(Some(Owner::Embedder)),
        }
    }
    Ok(match (numbered, rows, trees.len()) {
        (true, ..) => Some(Owner::Server),
        // Both make tree 1 before anything is in it.
        (false, 0, 1) => None,
        _ => Some(Owner::Embedder),
    })
}
