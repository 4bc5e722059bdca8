//! The commit of a transaction: one atomic write, then its locks end.
//!
//! 1. Rows, index entries, records of the catalog and ownership of trees are in one write.
//! 2. Locks end when the write is visible, or refused. They live as long as the write, even if no task waits
//!    for the commit any more.
//! 3. A changed catalog is published between both: later writers know the table as it is.
//! 4. While it is not known if a change of the catalog was written, its locks stay, and no other one begins.

use super::{Isolation, Overlay, Transaction};
use crate::catalog::record::{Object, sequence_state_row};
use crate::catalog::{Catalog, Table};
use crate::database::{
    Batches, CATALOG_TREE, Conflicts, Database, LoadedSegments, Store, blocking, clear_part,
    put_state,
};
use crate::error::{Error, Result};
use crate::locks::HeldLocks;
use crate::state::SqlState;
use crate::types::Oid;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of writes from which their batches are built on a thread that may block.
const INLINE_BYTES_MAX: usize = 1 << 20;

/// Things that a write under way keeps: the locks, and the note of what it wrote.
struct Kept {
    store: Arc<Store>,
    conflicts: Arc<Conflicts>,
    written: Overlay,
    /// Dropped last: it ends the locks.
    _locks: HeldLocks,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.conflicts.note(&self.store, &self.written);
    }
}

/// The difference that a transaction made to the catalog.
struct CatalogChange {
    catalog: Arc<Catalog>,
    batches: Batches,
    /// Tables that are gone, or have another tree.
    left: Vec<Arc<Table>>,
    /// Parts of trees whose indexes are gone.
    dropped_parts: Vec<(u32, u16)>,
    dropped_sequences: Vec<Oid>,
}

impl Transaction {
    /// Commits: when this returns all writes are visible, and as durable as the store says. After an error
    /// nothing is written, unless the state is 40003: then the next start tells.
    pub async fn commit(mut self) -> Result<()> {
        if self.base.is_some() {
            return self.commit_catalog().await;
        }
        if self.writes.is_empty() {
            return Ok(());
        }
        let written = self.writes.overlay().clone();
        let store = Arc::clone(&self.database.store);
        let rows = |store: &Store, written: &Overlay| {
            let mut batches = store.batches();
            add_rows(&mut batches, written, &BTreeSet::new());
            batches.ready()
        };
        let ready = match self.writes.bytes() {
            0..INLINE_BYTES_MAX => rows(&store, &written)?,
            _ => {
                let (store, written) = (Arc::clone(&store), written.clone());
                blocking(move || rows(&store, &written)).await?
            }
        };
        let locks = std::mem::replace(&mut self.locks, self.database.locks.holder());
        let conflicts = Arc::clone(&self.database.conflicts);
        let kept = Kept { store: Arc::clone(&store), conflicts, written, _locks: locks };
        if self.loaded.is_empty() {
            return store.write(ready, Arc::new(kept)).await;
        }
        let commit = async move {
            let loaded = self.keep_loaded();
            let committed = store.write(ready, Arc::new(kept)).await;
            give_up(&loaded, &committed);
            committed
        };
        to_its_end(commit).await
    }

    /// Commits changes of the catalog with the rows. It is carried out to its end even if no task waits for it.
    async fn commit_catalog(mut self) -> Result<()> {
        let base = self.base.take().unwrap_or_else(|| Arc::clone(&self.catalog));
        let store = Arc::clone(&self.database.store);
        let change = CatalogChange::between(&base, &self.catalog, &store)?;
        let alive: BTreeSet<u32> = self.catalog.tables().map(|table| table.tree).collect();
        let written = self.writes.overlay().trees().map(|(tree, _)| tree);
        let gone: BTreeSet<u32> = written.filter(|tree| !alive.contains(tree)).collect();
        let written = self.writes.overlay().clone();
        let CatalogChange { catalog, mut batches, left, dropped_parts, dropped_sequences } = change;
        let mut restarts = self.restarts.take();
        restarts.retain(|sequence, _| self.catalog.sequence(*sequence).is_some());
        for (sequence, state) in &restarts {
            put_state(&mut batches, *sequence, *state);
        }
        let ready = blocking(move || {
            add_rows(&mut batches, &written, &gone);
            for (tree, part) in dropped_parts {
                clear_part(&mut batches, tree, part);
            }
            batches.ready()
        });
        let ready = ready.await?;
        let commit = async move {
            let database = Arc::clone(&self.database);
            let mut paused = Vec::with_capacity(restarts.len());
            for sequence in restarts.keys() {
                paused.push(database.pause(*sequence).await);
            }
            database.announce(Arc::clone(&catalog));
            let loaded = self.keep_loaded();
            if let Err(error) = store.write(ready, Arc::new(())).await
                && !database.was_written(&catalog, &error).await
            {
                database.withdraw();
                let failed = Err(error);
                give_up(&loaded, &failed);
                return failed;
            }
            self.committed(&catalog, &left, &dropped_sequences);
            drop(paused);
            let made_garbage = !left.is_empty() || self.has_unkept(&catalog);
            drop((base, left, catalog));
            drop(self);
            if made_garbage {
                database.drop_garbage().await;
            }
            Ok(())
        };
        to_its_end(commit).await
    }

    /// Publishes what is committed, and notes it for others, while the locks are still held.
    fn committed(&mut self, catalog: &Arc<Catalog>, left: &[Arc<Table>], sequences: &[Oid]) {
        let database: &Arc<Database> = &self.database;
        database.publish(Arc::clone(catalog));
        database.conflicts.note(&database.store, self.writes.overlay());
        sequences.iter().for_each(|sequence| database.forget_sequence(*sequence));
        let created = self.created.iter().filter(|made| has_tree(catalog, made.number()));
        created.for_each(|storage| storage.keep());
        let built = self.built.iter().filter(|part| has_part(catalog, part.place()));
        built.for_each(|part| part.keep());
        let storages = left.iter().filter_map(|table| table.storage.as_ref());
        storages.for_each(|storage| storage.drop_when_unused());
        if self.isolation == Isolation::ReadCommitted {
            self.snapshot = None;
        }
        self.catalog = Arc::clone(catalog);
    }

    /// Returns true if the transaction made a tree or a part that `catalog` does not have.
    fn has_unkept(&self, catalog: &Catalog) -> bool {
        self.created.iter().any(|made| !has_tree(catalog, made.number()))
            || self.built.iter().any(|part| !has_part(catalog, part.place()))
    }
}

/// Carries out a commit even if no task waits for it any more.
async fn to_its_end(commit: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    match tokio::spawn(commit).await {
        Ok(committed) => committed,
        Err(error) => Err(Error::internal(format!("a commit ended: {error}"))),
    }
}

/// Has pages removed whose commit failed. If that is not known, the next open removes them or keeps them.
fn give_up(loaded: &[Arc<LoadedSegments>], committed: &Result<()>) {
    if let Err(error) = committed
        && error.state != SqlState::STATEMENT_COMPLETION_UNKNOWN
    {
        loaded.iter().for_each(|loaded| loaded.give_up());
    }
}

/// Returns true if a table has the tree.
fn has_tree(catalog: &Catalog, tree: u32) -> bool {
    catalog.tables().any(|table| table.tree == tree)
}

/// Returns true if an index has the part of a tree.
fn has_part(catalog: &Catalog, (tree, part): (u32, u16)) -> bool {
    let mut of_tree = catalog.tables().filter(|table| table.tree == tree);
    of_tree.any(|table| table.indexes.iter().any(|index| index.part == part))
}

impl CatalogChange {
    /// Returns what turns one catalog into another.
    fn between(base: &Catalog, catalog: &Arc<Catalog>, store: &Store) -> Result<Self> {
        let mut change = Self {
            catalog: Arc::clone(catalog),
            batches: store.batches(),
            left: Vec::new(),
            dropped_parts: Vec::new(),
            dropped_sequences: Vec::new(),
        };
        put_record(&mut change.batches, &catalog.header())?;
        for oid in oids(base) {
            if let (Some(before), None) = (base.object(oid), catalog.object(oid)) {
                change.batches.delete(CATALOG_TREE.0, &before.row());
            }
        }
        for oid in oids(catalog) {
            if !is_same(base, catalog, oid)
                && let Some(object) = catalog.object(oid)
            {
                put_record(&mut change.batches, &object)?;
            }
        }
        change.add_tables(base, catalog, store);
        let gone = base.sequences().filter(|sequence| catalog.sequence(sequence.oid).is_none());
        for sequence in gone {
            change.batches.delete(CATALOG_TREE.0, &sequence_state_row(sequence.oid));
            change.dropped_sequences.push(sequence.oid);
        }
        Ok(change)
    }

    fn add_tables(&mut self, base: &Catalog, catalog: &Catalog, store: &Store) {
        for table in base.tables() {
            match catalog.table(table.oid) {
                None => {
                    store.forget(&mut self.batches, table);
                    store.disown(&mut self.batches, table);
                    self.left.push(Arc::clone(table));
                }
                Some(now) if now.tree != table.tree => {
                    store.disown(&mut self.batches, table);
                    self.left.push(Arc::clone(table));
                }
                Some(now) => {
                    let is_gone = |part: u16| now.indexes.iter().all(|index| index.part != part);
                    let parts = table.indexes.iter().map(|index| index.part);
                    let gone = parts.filter(|part| is_gone(*part));
                    self.dropped_parts.extend(gone.map(|part| (table.tree, part)));
                }
            }
        }
        for table in catalog.tables() {
            if base.table(table.oid).is_none_or(|before| before.tree != table.tree) {
                store.claim(&mut self.batches, table);
            }
        }
    }
}

impl Database {
    /// Returns true if the change to `catalog`, whose write failed, was written after all. Waits until that is
    /// known, unless the next start or the next term tells.
    async fn was_written(&self, catalog: &Catalog, error: &Error) -> bool {
        error.state == SqlState::STATEMENT_COMPLETION_UNKNOWN
            && self.store.settle().await
            && self.version_at(&self.store.snapshot()) == Some(catalog.version)
    }
}

/// Adds rows and index entries to a write, but for trees in `without`.
fn add_rows(batches: &mut Batches, written: &Overlay, without: &BTreeSet<u32>) {
    for (tree, entries) in written.trees().filter(|(tree, _)| !without.contains(tree)) {
        for (key, value) in entries {
            match value {
                Some(value) => batches.put(tree, key, value),
                None => batches.delete(tree, key),
            }
        }
    }
}

/// Returns the numbers of all objects that have records.
pub(super) fn oids(catalog: &Catalog) -> Vec<Oid> {
    let relations = catalog.tables().map(|table| table.oid);
    let relations = relations.chain(catalog.views().map(|view| view.oid));
    let relations = relations.chain(catalog.sequences().map(|sequence| sequence.oid));
    let relations = relations.chain(catalog.kept_wides().keys().copied());
    let others = catalog.schemas().map(|schema| schema.oid);
    let others = others.chain(catalog.roles().map(|role| role.oid));
    relations.chain(others).collect()
}

/// Returns true if both catalogs share the object.
fn is_same(base: &Catalog, catalog: &Catalog, oid: Oid) -> bool {
    fn shared<T>(one: Option<&Arc<T>>, two: Option<&Arc<T>>) -> bool {
        matches!((one, two), (Some(one), Some(two)) if Arc::ptr_eq(one, two))
    }
    shared(base.table(oid), catalog.table(oid))
        || shared(base.view(oid), catalog.view(oid))
        || shared(base.sequence(oid), catalog.sequence(oid))
        || shared(base.schema(oid), catalog.schema(oid))
        || shared(base.role(oid), catalog.role(oid))
        || shared(base.kept_wides().get(&oid), catalog.kept_wides().get(&oid))
}

/// Adds the record of an object to a write.
pub(crate) fn put_record(batches: &mut Batches, object: &Object) -> Result<()> {
    batches.put(CATALOG_TREE.0, &object.row(), &object.encode()?);
    Ok(())
}
