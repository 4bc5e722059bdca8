//! The schema of a cluster, for the table layer: its calls block, the directory's do not.
//!
//! 1. A table changes only if its record has the version that the change was decided on.
//! 2. A record of a front changes only if it has the revision that this node last showed its fronts,
//!    by [`MetaStore::records`] or [`DirectoryMeta::shown`]. Else the call is `Aborted`, and comes
//!    again after the news.
//! 3. While the directory does not answer, every change is `Unavailable` and says so. A change whose
//!    answer was lost may have been made; the mirror shows it when the directory answers.
//! 4. Intents are of a node: no other node carries them out.

use super::error::Error as DirectoryError;
use super::join::take;
use super::records::{TableRecord, decode_record, decode_trees, encode_record, encode_trees};
use super::{Change, Directory, Item, Key, Mirror, Outcome, Revision, Write};
use crate::group::NodeId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use table::local::{Intent, MetaChange, MetaStore};
use table::{
    Bytes, Error, RecordChange, Result, SharedMeta, ShelfMap, TableName, TableSchema, TreeId,
    Versioned,
};
use tokio::runtime::Handle;

/// Tree ids that are taken from the directory at once, beyond those asked for.
const TREES_AHEAD: u32 = 64;

/// The schema of a cluster in its directory. Calls must not come from a task of a runtime.
pub struct DirectoryMeta {
    directory: Arc<dyn Directory>,
    node: NodeId,
    runtime: Handle,
    /// Revisions of the records that fronts of this node were shown.
    shown: Mutex<HashMap<String, Revision>>,
    /// Tree ids that are taken and not given: the next, and the one after the last.
    aside: Mutex<(u32, u32)>,
}

impl DirectoryMeta {
    /// Returns the schema that the mirror's directory keeps, for `node`. The runtime of the caller makes
    /// the calls.
    pub fn new(mirror: &Mirror, node: NodeId) -> Self {
        Self {
            directory: Arc::clone(mirror.directory()),
            node,
            runtime: Handle::current(),
            shown: Mutex::default(),
            aside: Mutex::new((0, 0)),
        }
    }

    /// Takes note that fronts of this node were shown these items of records, and none for `gone`.
    /// Called after they were.
    pub fn shown(&self, items: &[Item], gone: &[String]) {
        let mut shown = self.shown.lock();
        shown.extend(items.iter().map(|item| (item.key.clone(), item.revision)));
        gone.iter().for_each(|key| {
            shown.remove(key);
        });
    }

    fn wait<T>(&self, call: impl Future<Output = super::Result<T>>) -> Result<T> {
        self.runtime.block_on(call).map_err(Error::from)
    }

    fn read(&self, prefix: &str) -> Result<Vec<Item>> {
        Ok(self.wait(self.directory.read(prefix))?.items)
    }

    fn one(&self, key: &Key) -> Result<Option<Item>> {
        let name = key.to_string();
        Ok(self.read(&name)?.into_iter().find(|item| item.key == name))
    }

    /// Makes a change; `conflict` says what another node has changed.
    fn make(&self, change: Change, conflict: impl FnOnce() -> String) -> Result<Revision> {
        match self.wait(self.directory.change(change))? {
            Outcome::Done(revision) => Ok(revision),
            Outcome::Conflict => Err(Error::Aborted(conflict())),
        }
    }

    /// Adds changes of records and intents to a change. Returns the records' keys.
    fn add<'a>(
        &self,
        mut change: Change,
        of: impl IntoIterator<Item = &'a MetaChange<'a>>,
    ) -> Result<(Change, Vec<String>)> {
        let mut records = Vec::new();
        for part in of {
            change = match part {
                MetaChange::Record(record) => {
                    let key = Key::Record(record.name.clone());
                    let name = key.to_string();
                    let shown = self.shown.lock().get(&name).copied().unwrap_or_default();
                    records.push(name);
                    change.expect(&key, shown).write(write_of(&key, record))
                }
                MetaChange::Intend(trees) => change.write(self.intend_write(trees)),
                MetaChange::Forget(trees) => change.write(Write::remove(&self.intent(trees))),
                MetaChange::PutTable(_) | MetaChange::RemoveTable(_) => {
                    let text = "a table of a cluster is changed with its version";
                    return Err(Error::Internal(text.to_owned()));
                }
                MetaChange::Shelve(..) | MetaChange::Unshelve(..) => return Err(no_shelf()),
            };
        }
        Ok((change, records))
    }

    /// Makes a change whose parts were added, and notes the new revisions of its records.
    fn make_added(&self, change: Change, records: Vec<String>, table: &str) -> Result<()> {
        let written: Vec<_> = change
            .writes
            .iter()
            .filter(|write| matches!(write, Write::Put { .. }))
            .map(|write| write.key().to_owned())
            .collect();
        let revision = self.make(change, || {
            format!("{table} was changed through another node at the same time; repeat the call")
        })?;
        let mut shown = self.shown.lock();
        for key in records {
            match written.contains(&key) {
                true => shown.insert(key, revision),
                false => shown.remove(&key),
            };
        }
        Ok(())
    }

    fn intent(&self, trees: &[TreeId]) -> Key {
        Key::Intent(self.node, trees.first().map_or(0, |tree| tree.0))
    }

    fn intend_write(&self, trees: &[TreeId]) -> Write {
        let ids: Vec<_> = trees.iter().map(|tree| tree.0).collect();
        Write::put(&self.intent(trees), encode_trees(&ids))
    }
}

fn write_of(key: &Key, record: &RecordChange) -> Write {
    match &record.value {
        Some(value) => Write::put(key, encode_record(value)),
        None => Write::remove(key),
    }
}

fn no_shelf() -> Error {
    let text = "a cluster keeps no deleted tables and no backups of tables yet";
    Error::FailedPrecondition(text.to_owned())
}

/// Returns name and bytes of a front's record.
pub(super) fn named(item: &Item) -> Result<(String, Bytes)> {
    let name = item.key.strip_prefix(Key::RECORDS).unwrap_or(&item.key);
    Ok((name.to_owned(), decode_record(name, &item.value)?))
}

/// Returns the table of an item.
pub(super) fn versioned(item: &Item) -> Result<Versioned> {
    let name = item.key.strip_prefix(Key::TABLES).unwrap_or(&item.key);
    let record = TableRecord::decode(name, &item.value)?;
    Ok(Versioned { schema: record.schema, version: record.version })
}

impl MetaStore for DirectoryMeta {
    fn tables(&self) -> Result<Vec<TableSchema>> {
        Ok(self.versioned_tables()?.into_iter().map(|table| table.schema).collect())
    }

    fn put_table(&self, table: &TableSchema) -> Result<()> {
        self.change(&[MetaChange::PutTable(table)])
    }

    fn intend(&self, trees: &[TreeId]) -> Result<()> {
        self.change(&[MetaChange::Intend(trees)])
    }

    fn forget(&self, trees: &[TreeId]) -> Result<()> {
        self.change(&[MetaChange::Forget(trees)])
    }

    fn intents(&self) -> Result<Vec<Intent>> {
        let items = self.read(&Key::intents_of(self.node))?;
        items
            .iter()
            .map(|item| {
                let key = Key::parse(&item.key).ok_or_else(|| {
                    DirectoryError::damaged(&item.key, "not the key of an intent")
                })?;
                let trees = decode_trees(&key, &item.value)?;
                Ok(trees.into_iter().map(TreeId).collect())
            })
            .collect()
    }

    fn change(&self, changes: &[MetaChange<'_>]) -> Result<()> {
        let (change, records) = self.add(Change::default(), changes)?;
        self.make_added(change, records, "a record")
    }

    fn shelved(&self) -> Result<ShelfMap> {
        Ok(ShelfMap::new())
    }

    fn records(&self) -> Result<Vec<(String, Bytes)>> {
        let items = self.read(Key::RECORDS)?;
        self.shown(&items, &[]);
        items.iter().map(named).collect()
    }

    fn reserve_trees(&self, count: u32) -> Result<TreeId> {
        let mut aside = self.aside.lock();
        if let Some(rest) = aside.0.checked_add(count).filter(|rest| *rest <= aside.1) {
            return Ok(TreeId(std::mem::replace(&mut aside.0, rest)));
        }
        let least = u64::from(TreeId::FIRST_OF_TABLES.0);
        let all = u64::from(count) + u64::from(TREES_AHEAD);
        let first = self.wait(take(&*self.directory, &Key::NextTree, least, all))?;
        let used_up = |_| Error::ResourceExhausted("all tree ids are used up".to_owned());
        let first_tree = u32::try_from(first).map_err(used_up)?;
        let end = u32::try_from(first + all).map_err(used_up)?;
        *aside = (first_tree + count, end);
        Ok(TreeId(first_tree))
    }
}

impl SharedMeta for DirectoryMeta {
    fn next_version(&self) -> Result<u64> {
        self.wait(take(&*self.directory, &Key::NextVersion, 1, 1))
    }

    fn versioned_table(&self, name: &TableName) -> Result<Option<Versioned>> {
        self.one(&Key::Table(name.as_str().to_owned()))?.as_ref().map(versioned).transpose()
    }

    fn versioned_tables(&self) -> Result<Vec<Versioned>> {
        self.read(Key::TABLES)?.iter().map(versioned).collect()
    }

    fn change_if(
        &self,
        table: &TableName,
        before: Option<u64>,
        after: u64,
        changes: &[MetaChange<'_>],
    ) -> Result<()> {
        let key = Key::Table(table.as_str().to_owned());
        let there = self.one(&key)?;
        let version = there.as_ref().map(versioned).transpose()?.map(|there| there.version);
        if version != before {
            let text = format!("table {table} was changed through another node; repeat the call");
            return Err(Error::Aborted(text));
        }
        let revision = there.map_or(Revision(0), |item| item.revision);
        let (of_table, others): (Vec<_>, Vec<_>) = changes.iter().partition(|change| {
            matches!(change, MetaChange::PutTable(_) | MetaChange::RemoveTable(_))
        });
        let mut change = Change::default().expect(&key, revision);
        for part in of_table {
            change = match part {
                MetaChange::PutTable(schema) if schema.name == *table => {
                    let record = TableRecord { version: after, schema: TableSchema::clone(schema) };
                    change.write(Write::put(&key, record.encode()))
                }
                MetaChange::RemoveTable(name) if *name == table => {
                    change.write(Write::remove(&key))
                }
                _ => {
                    return Err(Error::Internal(format!(
                        "a change of {table} names another table"
                    )));
                }
            };
        }
        let (change, records) = self.add(change, others)?;
        self.make_added(change, records, table.as_str())
    }
}
