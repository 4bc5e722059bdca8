//! The schema of a cluster, for the table layer: its calls block, the directory's do not.
//!
//! 1. A table changes only if its record has the version that the change was decided on.
//! 2. A record of a front changes only if it has the revision that this node last showed its fronts,
//!    by [`MetaStore::records`] or [`DirectoryMeta::shown`]. Else the call is `Aborted`, and comes
//!    again after the news.
//! 3. While the directory does not answer, every change is `Unavailable` and says so. A change whose
//!    answer was lost may have been made; the mirror shows it when the directory answers.
//! 4. Intents are of a node: no other node carries them out, unless it takes them over from one that is
//!    gone ([`DirectoryMeta::adopt_intents`]). An intent that was taken over, or claimed, is another one:
//!    a change that was to forget it is refused.
//! 5. Ids and versions are above all that this node uses, whatever the directory's counters say, and nothing is
//!    asked of a directory that is older than this node's copy ([`super::checked`]): an id that is given
//!    twice would lay a table over the rows of another one.
//! 6. Versions are given in the order of the changes that have them: the counter is changed with the record.

use super::counters::{Used, take};
use super::error::Error as DirectoryError;
use super::records::{
    TableRecord, decode_counter, decode_intent, decode_record, encode_counter, encode_intent,
    encode_record,
};
use super::{Change, Directory, Item, Key, Mirror, Outcome, Revision, Write};
use crate::group::{GroupId, NodeId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use table::local::{Intent, MetaChange, MetaStore};
use table::{
    Bytes, Error, RecordChange, Removal, Result, SharedMeta, ShelfMap, TableName, TableSchema,
    TreeId, Versioned,
};
use tokio::runtime::Handle;

/// Times that a change is made up, where others draw versions meanwhile.
const DRAWS_MAX: u32 = 64;
/// Placements that are removed by one change.
const REMOVALS_AT_ONCE: usize = 64;
/// Tree ids that are taken from the directory at once, beyond those asked for.
const TREES_AHEAD: u32 = 64;

/// The schema of a cluster in its directory. Calls must not come from a task of a runtime.
pub struct DirectoryMeta {
    directory: Arc<dyn Directory>,
    node: NodeId,
    runtime: Handle,
    /// Tells the numbers that this node uses.
    used: Box<dyn Fn() -> Used + Send + Sync>,
    /// Revisions of the records that fronts of this node were shown.
    shown: Mutex<HashMap<String, Revision>>,
    /// Revisions of this node's intents, as it wrote them.
    intended: Mutex<HashMap<String, Revision>>,
    /// Revisions of intents as this node wrote them when it took them for its own.
    claimed: Mutex<HashMap<String, Revision>>,
    /// Tree ids that are taken and not given: the next, and the one after the last.
    aside: Mutex<(u32, u32)>,
}

impl DirectoryMeta {
    /// Returns the schema that the mirror's directory keeps, for `node`, which uses the numbers that `used`
    /// tells. The runtime of the caller makes the calls.
    pub fn new(
        mirror: &Mirror,
        node: NodeId,
        used: impl Fn() -> Used + Send + Sync + 'static,
    ) -> Self {
        Self {
            directory: mirror.directory(),
            node,
            used: Box::new(used),
            runtime: Handle::current(),
            shown: Mutex::default(),
            intended: Mutex::default(),
            claimed: Mutex::default(),
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
        Ok(self.wait(self.directory.get(key))?.item().cloned())
    }

    /// Adds changes of records and intents to a change, which has `version`. Returns the records' keys.
    fn add<'a>(
        &self,
        mut change: Change,
        of: impl IntoIterator<Item = &'a MetaChange<'a>>,
        version: u64,
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
                MetaChange::Intend(trees) => {
                    let trees = trees.to_vec();
                    change.write(self.intend_write(&Removal { trees, version }))
                }
                MetaChange::Forget(trees) => {
                    let key = self.intent(trees);
                    if let Some(intended) = self.intended.lock().get(&key.to_string()) {
                        change = change.expect(&key, *intended);
                    }
                    change.write(Write::remove(&key))
                }
                MetaChange::PutTable(_) | MetaChange::RemoveTable(_) => {
                    let text = "a table of a cluster is changed with its version";
                    return Err(Error::Internal(text.to_owned()));
                }
                MetaChange::Shelve(..) | MetaChange::Unshelve(..) => return Err(no_shelf()),
            };
        }
        Ok((change, records))
    }

    /// Makes a change whose parts were added, and notes the new revisions of its records and intents.
    /// Returns false if something was not as the change expected.
    fn make_added(&self, change: Change, records: Vec<String>) -> Result<bool> {
        let writes = change.writes.clone();
        let revision = match self.wait(self.directory.change(change))? {
            Outcome::Done(revision) => revision,
            Outcome::Conflict => return Ok(false),
        };
        let (mut shown, mut intended) = (self.shown.lock(), self.intended.lock());
        for write in writes {
            let key = write.key().to_owned();
            let noted = match () {
                () if key.starts_with(Key::INTENTS) => &mut *intended,
                () if records.contains(&key) => &mut *shown,
                () => continue,
            };
            match write {
                Write::Put { .. } => noted.insert(key, revision),
                Write::Remove { .. } => noted.remove(&key),
            };
        }
        Ok(true)
    }

    /// Takes over what nodes that are gone have left unfinished. `is_gone` says which nodes are. Returns the
    /// number of intents that are this node's now.
    pub fn adopt_intents(&self, is_gone: impl Fn(NodeId) -> bool) -> Result<usize> {
        let mut adopted = 0;
        for item in self.read(Key::INTENTS)? {
            let Some(key @ Key::Intent(owner, tree)) = Key::parse(&item.key) else { continue };
            if owner == self.node || !is_gone(owner) {
                continue;
            }
            let mine = Key::Intent(self.node, tree);
            let change = Change::default()
                .expect(&key, item.revision)
                .expect(&mine, Revision(0))
                .write(Write::remove(&key))
                .write(Write::put(&mine, item.value.clone()));
            adopted += usize::from(self.make_added(change, Vec::new())?);
        }
        Ok(adopted)
    }

    /// Reads the counter of versions: the version to be given, the one after it, and the counter's revision.
    fn version_counter(&self) -> Result<(u64, u64, Revision)> {
        let (next, revision) = match self.one(&Key::NextVersion)? {
            Some(item) => (decode_counter(&Key::NextVersion, &item.value)?, item.revision),
            None => (0, Revision(0)),
        };
        let used_up = || Error::ResourceExhausted("all versions are used up".to_owned());
        let least = (self.used)().version.checked_add(1).ok_or_else(used_up)?;
        let version = next.max(least);
        Ok((version, version.checked_add(1).ok_or_else(used_up)?, revision))
    }

    /// Adds the change of a table's record.
    fn add_table(
        change: Change,
        part: &MetaChange<'_>,
        table: &TableName,
        version: u64,
    ) -> Result<Change> {
        let key = Key::Table(table.as_str().to_owned());
        match part {
            MetaChange::PutTable(schema) if schema.name == *table => {
                let record = TableRecord { version, schema: TableSchema::clone(schema) };
                Ok(change.write(Write::put(&key, record.encode())))
            }
            MetaChange::RemoveTable(name) if *name == table => {
                Ok(change.write(Write::remove(&key)))
            }
            _ => Err(Error::Internal(format!("a change of {table} names another table"))),
        }
    }

    fn intent(&self, trees: &[TreeId]) -> Key {
        Key::Intent(self.node, trees.first().map_or(0, |tree| tree.0))
    }

    fn intend_write(&self, removal: &Removal) -> Write {
        Write::put(&self.intent(&removal.trees), encode_intent(removal))
    }
}

fn write_of(key: &Key, record: &RecordChange) -> Write {
    match &record.value {
        Some(value) => Write::put(key, encode_record(value)),
        None => Write::remove(key),
    }
}

fn group_of(tree: TreeId) -> GroupId {
    GroupId(tree.0.into())
}

fn changed_elsewhere(what: &str) -> Error {
    Error::Aborted(format!(
        "{what} was changed through another node at the same time; repeat the call"
    ))
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
        Ok(self.removals()?.into_iter().map(|removal| removal.trees).collect())
    }

    fn change(&self, changes: &[MetaChange<'_>]) -> Result<()> {
        let (change, records) = self.add(Change::default(), changes, 0)?;
        match self.make_added(change, records)? {
            true => Ok(()),
            false => Err(changed_elsewhere("a record")),
        }
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
        let least = u64::from(TreeId::FIRST_OF_TABLES.0).max((self.used)().tree + 1);
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
        let least = (self.used)().version.saturating_add(1);
        self.wait(take(&*self.directory, &Key::NextVersion, least, 1))
    }

    fn versioned_table(&self, name: &TableName) -> Result<Option<Versioned>> {
        self.one(&Key::Table(name.as_str().to_owned()))?.as_ref().map(versioned).transpose()
    }

    fn versioned_tables(&self) -> Result<Vec<Versioned>> {
        self.read(Key::TABLES)?.iter().map(versioned).collect()
    }

    fn intend_new(&self, trees: &[TreeId], version: u64) -> Result<()> {
        let removal = Removal { trees: trees.to_vec(), version };
        let change = Change::default().write(self.intend_write(&removal));
        self.make_added(change, Vec::new()).map(drop)
    }

    fn removals(&self) -> Result<Vec<Removal>> {
        let items = self.read(&Key::intents_of(self.node))?;
        items
            .iter()
            .map(|item| {
                let key = Key::parse(&item.key).ok_or_else(|| {
                    DirectoryError::damaged(&item.key, "not the key of an intent")
                })?;
                Ok(decode_intent(&key, &item.value)?)
            })
            .collect()
    }

    fn claim(&self, removal: &Removal) -> Result<()> {
        let key = self.intent(&removal.trees);
        let name = key.to_string();
        let there = self.one(&key)?.map(|item| item.revision);
        if there.is_some() && self.claimed.lock().get(&name).copied() == there {
            return Ok(());
        }
        // Also if the value is the same: it is of another revision then.
        let change = Change::default().write(self.intend_write(removal));
        self.make_added(change, Vec::new())?;
        if let Some(revision) = self.intended.lock().get(&name) {
            self.claimed.lock().insert(name, *revision);
        }
        Ok(())
    }

    fn change_if(
        &self,
        table: &TableName,
        before: Option<u64>,
        changes: &[MetaChange<'_>],
    ) -> Result<u64> {
        let key = Key::Table(table.as_str().to_owned());
        let (of_table, others): (Vec<_>, Vec<_>) = changes.iter().partition(|change| {
            matches!(change, MetaChange::PutTable(_) | MetaChange::RemoveTable(_))
        });
        let mut drawn = None;
        for _ in 0..DRAWS_MAX {
            let (version, next, counted) = self.version_counter()?;
            if drawn.replace(counted) == Some(counted) {
                // The last try found something else than the counter changed.
                break;
            }
            let there = self.one(&key)?;
            let found = there.as_ref().map(versioned).transpose()?.map(|there| there.version);
            if found != before {
                break;
            }
            let revision = there.map_or(Revision(0), |item| item.revision);
            let next = Write::put(&Key::NextVersion, encode_counter(next));
            let change = Change::default().expect(&key, revision);
            let mut change = change.expect(&Key::NextVersion, counted).write(next);
            for part in &of_table {
                change = Self::add_table(change, part, table, version)?;
            }
            let (change, records) = self.add(change, others.iter().copied(), version)?;
            if self.make_added(change, records)? {
                return Ok(version);
            }
        }
        Err(changed_elsewhere(&format!("table {table}")))
    }

    fn abandon(&self, trees: &[TreeId]) -> Result<()> {
        *self.aside.lock() = (0, 0);
        self.forget(trees)
    }

    fn removed(&self, trees: &[TreeId]) -> Result<()> {
        for some in trees.chunks(REMOVALS_AT_ONCE) {
            let placement = |tree: &TreeId| Write::remove(&Key::Placement(group_of(*tree)));
            let change = some.iter().map(placement).fold(Change::default(), Change::write);
            self.wait(self.directory.change(change))?;
        }
        self.forget(trees)
    }
}
