//! Opening a database: reads the catalog, or makes a new one.

use super::garbage::{Load, clean_up, clear_part};
use super::group::{Group, GroupTerm};
use super::store::{Form, Store};
use super::{
    CATALOG_TREE, Conflicts, Database, DatabaseOptions, Garbage, Published, Storage, TreeKeys,
    blocking, secret,
};
use crate::catalog::record::{OBJECTS_PREFIX, Object, STATES_PREFIX, sequence_state_row};
use crate::catalog::{BOOTSTRAP_ROLE, Catalog, PUBLIC_SCHEMA, Table};
use crate::error::{Error, Result};
use crate::format::segment::{loads, read_load_key};
use crate::transaction::put_record;
use engine::{Direction, RowRange, TreeId};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use table::{Local, TreeOwnership};

impl Database {
    /// Opens the database in a store, or makes an empty one.
    ///
    /// 0A000 on a node of a cluster. XX001 if the catalog is damaged, is of a newer Stele, or names a tree
    /// that is missing.
    pub async fn open(local: &Local, options: DatabaseOptions) -> Result<Arc<Self>> {
        let trees = local.tree_ownership();
        let trees = trees.map_err(|error| Error::unsupported(error.to_string()))?;
        Self::open_store(Store::new(local.clone(), Form::Machine(trees)), options).await
    }

    /// Opens the database in the tree of a group for one term, or makes an empty one. The node leads the group
    /// in that term, and its engine has all of earlier terms. `local` has the tables of the node.
    ///
    /// XX001 as of [`Self::open`]. 40001 if the term is over; 40003 and 53000 if the group does not answer or has
    /// no room: it can be tried again.
    pub async fn open_in_group(
        local: &Local,
        at: GroupTerm,
        options: DatabaseOptions,
    ) -> Result<Arc<Self>> {
        let tree = local.engine().tree(at.tree)?;
        let form = Form::Group(Group::new(at, tree));
        Self::open_store(Store::new(local.clone(), form), options).await
    }

    async fn open_store(store: Store, options: DatabaseOptions) -> Result<Arc<Self>> {
        let database = blocking(move || Self::open_blocking(store, options).map(Arc::new)).await?;
        tokio::spawn(clean_up(Arc::clone(&database.garbage), Arc::downgrade(&database)));
        Ok(database)
    }

    fn open_blocking(store: Store, options: DatabaseOptions) -> Result<Self> {
        let catalog_keys = store.keys_or_create(CATALOG_TREE)?;
        let garbage = Arc::<Garbage>::default();
        let catalog = match read_catalog(&catalog_keys, &store, &garbage)? {
            Some(catalog) => catalog,
            None => new_catalog(&store, &options)?,
        };
        match store.form() {
            Form::Machine(trees) => check_ownership(trees, &catalog)?,
            Form::Group(group) => drop_strays(&store, group, &catalog)?,
        }
        let catalog = without_unfinished_indexes(catalog, &store)?;
        remove_loads(&catalog, &store)?;
        forget_sequences(&catalog, &catalog_keys, &store)?;
        let secret = secret::read_or_make(&catalog_keys, &store)?;
        if let Form::Machine(_) = store.form() {
            store.engine().sync()?;
        }
        Ok(Self {
            store: Arc::new(store),
            catalog_keys,
            catalog_version: AtomicU64::new(catalog.version),
            published: Published::new(catalog),
            locks: Arc::default(),
            conflicts: Arc::<Conflicts>::default(),
            sequences: Mutex::default(),
            garbage,
            secret,
            options,
        })
    }
}

/// Returns the catalog in its tree; nothing in a new store.
fn read_catalog(keys: &TreeKeys, store: &Store, garbage: &Arc<Garbage>) -> Result<Option<Catalog>> {
    let mut catalog = Catalog::empty();
    let (mut is_there, mut has_objects) = (false, false);
    let mut scan = keys.scan(None, RowRange::prefix(OBJECTS_PREFIX), Direction::Forward)?;
    while let Some((row, record)) = scan.next()? {
        let mut object = Object::decode(row, record)?;
        is_there |= matches!(object, Object::Database(_));
        has_objects = true;
        if let Object::Table(table) = &mut object {
            table.storage = Some(storage(table, store, garbage)?);
        }
        catalog.put(object);
    }
    if has_objects {
        check_header(&catalog, is_there)?;
        check_foreign_keys(&catalog)?;
    }
    Ok(is_there.then_some(catalog))
}

/// Fails with XX001 if objects are there without a header, or with a number that the header has yet to give:
/// a row of the catalog is lost.
fn check_header(catalog: &Catalog, is_there: bool) -> Result<()> {
    let last = catalog.oids().max();
    match last {
        Some(_) if !is_there => {
            Err(Error::corrupted("the catalog of tables has no header; restore a backup"))
        }
        Some(last) if last >= catalog.next_oid => {
            let next = catalog.next_oid;
            let text = format!("the catalog of tables has object {last}, but gives {next} next");
            Err(Error::corrupted(format!("{text}; restore a backup")))
        }
        _ => Ok(()),
    }
}

/// Fails with XX001 if a foreign key references a table, an index or columns that are not there.
fn check_foreign_keys(catalog: &Catalog) -> Result<()> {
    for table in catalog.tables() {
        for key in &table.foreign_keys {
            let referenced = catalog.table(key.references);
            let parts = referenced.and_then(|table| table.index_parts(key.index));
            let fits = parts.is_some_and(|parts| {
                parts.len() == key.referenced.len()
                    && parts.iter().all(|part| key.referenced.contains(&part.column))
            });
            if !fits {
                let (name, table) = (&key.name, &table.name);
                let text = format!("foreign key {name} of table {table} references no unique key");
                return Err(Error::corrupted(format!("{text}; restore a backup")));
            }
        }
    }
    Ok(())
}

fn storage(table: &Table, store: &Store, garbage: &Arc<Garbage>) -> Result<Arc<Storage>> {
    Storage::open(store, table.tree, table.columnar, garbage).map_err(|error| {
        let text = format!("table {} uses tree {}: {}", table.name, table.tree, error.message);
        Error::corrupted(format!("{text}; 'stele adopt' gives it an empty tree"))
    })
}

/// Makes the catalog of a new database, durably once the log is synced.
fn new_catalog(store: &Store, options: &DatabaseOptions) -> Result<Catalog> {
    let catalog = Catalog::new(&options.name, &options.owner);
    let mut batches = store.batches();
    put_record(&mut batches, &catalog.header())?;
    for oid in [PUBLIC_SCHEMA, BOOTSTRAP_ROLE] {
        let object = catalog.object(oid);
        let object = object.ok_or_else(|| Error::internal("a new catalog lacks an object"))?;
        put_record(&mut batches, &object)?;
    }
    store.write_blocking(batches)?;
    Ok(catalog)
}

/// Removes keys of trees that no table has, and has new trees be numbered behind all others.
fn drop_strays(store: &Store, group: &Group, catalog: &Catalog) -> Result<()> {
    let known: BTreeSet<u32> = catalog.tables().map(|table| table.tree).collect();
    let strays = group.strays(&known)?;
    known.iter().chain(&strays).for_each(|tree| group.give_above(*tree));
    match strays.is_empty() {
        true => Ok(()),
        false => store.drop_trees(&strays),
    }
}

/// Fails with XX001 if a table uses a tree that it does not own, which then may be another one's. Tells of
/// trees that are owned by tables which the catalog does not have.
fn check_ownership(trees: &TreeOwnership, catalog: &Catalog) -> Result<()> {
    let known: HashSet<_> = catalog.tables().flat_map(|table| table.trees()).map(TreeId).collect();
    let owned: HashSet<_> = trees.owned()?.into_iter().flat_map(|owned| owned.trees).collect();
    let trees_of = |table: &Arc<Table>| table.trees().map(TreeId).collect::<Vec<_>>();
    let used = catalog
        .tables()
        .flat_map(|table| trees_of(table).into_iter().map(move |tree| (table, tree)));
    if let Some((table, tree)) = used.into_iter().find(|(_, tree)| !owned.contains(tree)) {
        let (name, tree) = (&table.name, tree.0);
        let text = format!("table {name} uses tree {tree}, which the schema does not give to it");
        return Err(Error::corrupted(format!("{text}; restore a backup")));
    }
    for owned in trees.owned()? {
        for tree in owned.trees.iter().filter(|tree| !known.contains(tree)) {
            let (table, tree) = (&owned.name, tree.0);
            tracing::warn!(table, tree, "kept the tree of a table that the catalog does not have");
        }
    }
    Ok(())
}

/// Drops indexes whose build was interrupted.
fn without_unfinished_indexes(mut catalog: Catalog, store: &Store) -> Result<Catalog> {
    let unfinished = |table: &&Arc<Table>| table.indexes.iter().any(|index| !index.ready);
    let tables: Vec<_> = catalog.tables().filter(unfinished).cloned().collect();
    for table in tables {
        let mut table = Table::clone(&table);
        let mut entries = store.batches();
        for index in table.indexes.extract_if(.., |index| !index.ready) {
            let name = &index.name;
            tracing::warn!(name, "dropped an index whose build was interrupted");
            clear_part(&mut entries, table.tree, index.part);
        }
        store.write_blocking(entries)?;
        let mut record = store.batches();
        put_record(&mut record, &Object::Table(Box::new(table.clone())))?;
        store.write_blocking(record)?;
        catalog.put_table(table);
    }
    Ok(catalog)
}

/// Removes pages of columnar tables that no commit made part of them.
fn remove_loads(catalog: &Catalog, store: &Store) -> Result<()> {
    for table in catalog.tables() {
        let Some(columnar) = table.columnar else { continue };
        let mut batches = store.batches();
        let keys = store.keys(table.tree)?;
        let mut scan = keys.scan(None, loads(), Direction::Forward)?;
        while let Some(key) = scan.next_key()? {
            let segments = read_load_key(key)?;
            Load { tree: table.tree, pages: columnar.pages, segments }.remove(&mut batches);
        }
        if !batches.is_empty() {
            store.write_blocking(batches)?;
            let flushed = store.page_keys(columnar.pages)?.flush();
            if let Err(error) = flushed {
                tracing::warn!(%error, "pages of a bulk load without a commit keep their disk space");
            }
        }
    }
    Ok(())
}

/// Removes the states of sequences whose creation was never committed.
fn forget_sequences(catalog: &Catalog, keys: &TreeKeys, store: &Store) -> Result<()> {
    let known: HashSet<_> =
        catalog.sequences().map(|sequence| sequence_state_row(sequence.oid)).collect();
    let mut batches = store.batches();
    let mut scan = keys.scan(None, RowRange::prefix(STATES_PREFIX), Direction::Forward)?;
    while let Some(row) = scan.next_key()? {
        if !known.contains(row) {
            batches.delete(CATALOG_TREE.0, row);
        }
    }
    store.write_blocking(batches)
}
