//! Whose a store is: an embedding program's, or a server's, which reads the schema in tree 1 and
//! takes all other trees for its tables.
//!
//! 1. The manifest tells the owner from the store's first tree on. A store of before owners is a
//!    server's if tree 1 holds a schema and nothing else, nobody's if it has nothing at all, and an
//!    embedding program's otherwise.
//! 2. Who opens an engine is an embedding program until it claims the store as a server.
//! 3. Nobody writes to the store of another owner: no batch, no tree, no file. Reads, flushes and
//!    compactions, which change nothing of what it holds, go on.

use crate::cell::TreeId;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::manifest::{Edit, LogPosition, ManifestSet, Owner, State};
use crate::options::Options;
use crate::state::ownership::SCHEMA;
use crate::tree::TreeState;
use base::env::Env;
use std::path::Path;

/// Gives the store in `dir`, which nobody has open, from an embedding program to servers. The trees
/// that a server keeps for itself, those below 16, get other ids; tells from which to which. Trees
/// are as they were, and no table names them yet. Takes as long as flushing them; a crash leaves it
/// done or not.
///
/// `Unusable` if the directory is in use, or not a data directory; otherwise as [`Engine::open`].
pub fn give_to_server(env: &Env, dir: &Path, options: Options) -> Result<Vec<(TreeId, TreeId)>> {
    if crate::manifest::load(&*env.fs, dir)?.is_none() {
        let what = "no data directory: it has no CURRENT".to_owned();
        return Err(Error::Unusable { dir: dir.to_owned(), what });
    }
    let engine = Engine::open_with_env(env.clone(), dir, options)?;
    if engine.owner() == Some(Owner::Server) {
        engine.claim(Owner::Server)?;
        engine.close()?;
        return Ok(Vec::new());
    }
    for tree in engine.trees().into_iter().filter(|tree| *tree < TreeId::FIRST_OF_TABLES) {
        engine.tree(tree)?.flush()?;
    }
    engine.close()?;
    drop(engine);
    let _lock = crate::recovery::lock(&*env.fs, dir)?;
    let manifest = ManifestSet::open(env.fs.clone(), dir)?;
    let mut moved = Vec::new();
    manifest.change(|state| {
        let mut edits = vec![Edit::Owner(Owner::Server)];
        moved = move_low_trees(state, &mut edits);
        Ok(edits)
    })?;
    manifest.close()?;
    Ok(moved)
}

/// Returns the trees of `engine` that have SSTables which name a tree below 16 as their own, in order:
/// those that [`give_to_server`] moved, until they are compacted whole. A repair that finds no
/// manifest believes what files name. Files of copies name another tree, too, and are shared with it.
pub fn trees_with_moved_ssts(engine: &Engine) -> Result<Vec<TreeId>> {
    let mut moved = engine.trees();
    moved.retain(|tree| engine.shared().tree(*tree).is_ok_and(|tree| has_moved_ssts(&tree)));
    Ok(moved)
}

fn has_moved_ssts(tree: &TreeState) -> bool {
    let view = tree.view();
    let mut origins =
        view.files.iter().flat_map(|run| run.iter()).map(|sst| &sst.properties().origin);
    origins.any(|origin| {
        origin
            .as_ref()
            .is_some_and(|origin| origin.tree != tree.id && origin.tree < TreeId::FIRST_OF_TABLES)
    })
}

/// Moves all that trees below 16 have to new ones.
fn move_low_trees(state: &State, edits: &mut Vec<Edit>) -> Vec<(TreeId, TreeId)> {
    let used = state.trees.keys().chain(state.used.keys()).map(|tree| tree.0).max().unwrap_or(0);
    let mut next = TreeId::FIRST_OF_TABLES.0.max(used.saturating_add(1));
    let mut moved = Vec::new();
    let low = state.trees.iter().filter(|(tree, _)| **tree < TreeId::FIRST_OF_TABLES);
    for (from, version) in low {
        let (from, to) = (*from, TreeId(next));
        if version.runs().next().is_some() {
            edits.push(Edit::CreateTree { tree: to, options: version.options.clone() });
            for (level, runs) in version.levels.iter().enumerate() {
                for run in runs {
                    let run_id = run.id;
                    edits.extend(run.ssts.iter().flat_map(|meta| {
                        let (number, meta) = (meta.number, (**meta).clone());
                        [
                            Edit::RemoveSst { tree: from, level, run: run_id, number },
                            Edit::AddSst { tree: to, level, run: run_id, meta },
                        ]
                    }));
                }
            }
            // The log has nothing of a tree before it was made.
            edits.push(Edit::Flushed { tree: to, position: LogPosition(version.flushed.0) });
            moved.push((from, to));
            next = next.saturating_add(1);
        }
        if from != SCHEMA {
            edits.push(Edit::DropTree { tree: from });
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;
    use crate::cell::{Column, FamilyId, Timestamp};
    use crate::options::TreeOptions;
    use crate::read::drivers::ColumnOf;
    use crate::recovery::owner_of_contents::by_contents;
    use crate::request::{RowRange, ScanRequest};
    use base::env::sim::SimEnv;

    const DIR: &str = "data";

    fn open(machine: &SimEnv) -> Engine {
        Engine::open_with_env(machine.env(), Path::new(DIR), Options::default()).unwrap()
    }

    fn write(engine: &Engine, tree: TreeId, row: &[u8]) {
        let mut batch = WriteBatch::new();
        batch.put(row, Column::of(FamilyId(1), b""), Timestamp(0), b"value");
        engine.tree(tree).unwrap().write(&batch).unwrap();
    }

    #[test]
    fn a_store_belongs_to_who_makes_its_first_tree_or_claims_it_before() {
        let machine = SimEnv::new(1);
        let engine = open(&machine);
        assert_eq!(engine.owner(), None);
        engine.create_tree(TreeId(1), TreeOptions::default()).unwrap();
        assert_eq!(engine.owner(), Some(Owner::Embedder));
        let refused = engine.claim(Owner::Server);
        assert!(matches!(refused, Err(Error::Unusable { .. })), "{refused:?}");
        drop(engine);
        let machine = machine.power_loss();
        assert_eq!(open(&machine).owner(), Some(Owner::Embedder));

        let machine = SimEnv::new(2);
        let engine = open(&machine);
        engine.claim(Owner::Server).unwrap();
        engine.create_tree(TreeId(1), TreeOptions::default()).unwrap();
        drop(engine);
        let machine = machine.power_loss();
        let engine = open(&machine);
        assert_eq!(engine.owner(), Some(Owner::Server));
        let refused = engine.create_tree(TreeId(2), TreeOptions::default());
        assert!(matches!(refused, Err(Error::Unusable { .. })), "{refused:?}");
    }

    #[test]
    fn contents_tell_the_owner_of_a_store_of_before_owners() {
        /// Trees, rows of the schema, and whose store has them.
        type Case = (&'static [u32], &'static [&'static [u8]], Option<Owner>);
        let cases: [Case; 9] = [
            (&[], &[], None),
            (&[1], &[], None),
            (&[1, 16], &[], Some(Owner::Embedder)),
            (&[7], &[], Some(Owner::Embedder)),
            (&[1], &[b"next_tree"], Some(Owner::Server)),
            (&[1, 16], &[b"next_tree", b"table/a"], Some(Owner::Server)),
            (&[1, 16], &[b"table/a"], Some(Owner::Embedder)),
            (&[1], &[b"next_tree", b"other"], Some(Owner::Embedder)),
            (&[1], &[b"key"], Some(Owner::Embedder)),
        ];
        for (trees, rows, owner) in cases {
            let engine = open(&SimEnv::new(1));
            for tree in trees {
                engine.create_tree(TreeId(*tree), TreeOptions::default()).unwrap();
            }
            rows.iter().for_each(|row| write(&engine, TreeId(1), row));
            let schema = || {
                engine
                    .tree(SCHEMA)
                    .and_then(|tree| tree.scan(&ScanRequest::rows(RowRange::ALL), None))
            };
            let told = by_contents(&engine.trees(), schema).unwrap();
            assert_eq!(told, owner, "{trees:?} {rows:?}");
        }
    }

    /// Whatever moment the power goes, all trees are the one's or all are the other's.
    #[test]
    fn a_store_is_given_whole_or_not_at_all() {
        let store = |machine: &SimEnv| {
            let engine = open(machine);
            for tree in [1, 3, 30].map(TreeId) {
                engine.create_tree(tree, TreeOptions::default())?;
                write(&engine, tree, format!("row {}", tree.0).as_bytes());
            }
            engine.close()
        };
        let give =
            |machine: &SimEnv| give_to_server(&machine.env(), Path::new(DIR), Options::default());
        let machine = SimEnv::new(1);
        store(&machine).unwrap();
        let before = machine.fs.operations();
        let moved = give(&machine).unwrap();
        assert_eq!(moved, [(TreeId(1), TreeId(31)), (TreeId(3), TreeId(32))]);
        let operations = machine.fs.operations();
        assert!(operations > before + 10);
        let mut given = 0;
        for operation in before + 1..=operations {
            let machine = SimEnv::new(1);
            store(&machine).unwrap();
            machine.fs.power_off_at(operation);
            let _ = give(&machine);
            let machine = machine.power_loss();
            let engine = open(&machine);
            let places = match engine.owner().unwrap() {
                Owner::Embedder => [1, 3, 30],
                Owner::Server => [31, 32, 30],
            };
            given += usize::from(places[0] == 31);
            for (tree, row) in places.into_iter().zip(["row 1", "row 3", "row 30"]) {
                let cell = engine.tree(TreeId(tree)).and_then(|tree| {
                    tree.get(ColumnOf::new(row.as_bytes(), FamilyId(1), b""), None)
                });
                assert!(cell.unwrap().is_some(), "{row} after a loss at {operation}");
            }
        }
        assert!(given > 0 && given < (operations - before) as usize, "{given}");
    }
}
