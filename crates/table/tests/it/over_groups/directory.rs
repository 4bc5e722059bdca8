//! The schema of a cluster in memory.

use engine::TreeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use table::local::{Intent, MetaChange, MetaStore};
use table::shelf::ShelfMap;
use table::{Bytes, Error, Removal, Result, SharedMeta, TableName, TableSchema, Versioned};

#[derive(Default)]
pub(super) struct Directory(Mutex<Contents>, Mutex<usize>, Mutex<Asked>);

/// The questions for single tables so far.
#[derive(Default)]
struct Asked {
    names: Vec<TableName>,
    /// True while all such questions fail.
    down: bool,
}

impl Directory {
    /// Does not answer questions for one table any more, or does again.
    pub(super) fn set_down(&self, down: bool) {
        self.2.lock().down = down;
    }

    /// Returns the tables that were asked for, in order.
    pub(super) fn asked(&self) -> Vec<TableName> {
        self.2.lock().names.clone()
    }

    /// Lets questions for one table wait while the result lives. It counts the questions before.
    pub(super) fn hang(&self) -> parking_lot::MutexGuard<'_, usize> {
        self.1.lock()
    }
}

#[derive(Default)]
struct Contents {
    version: u64,
    trees: u32,
    tables: BTreeMap<TableName, Versioned>,
    /// Trees of each intent, with its version.
    intents: BTreeMap<Vec<TreeId>, u64>,
    records: BTreeMap<String, Bytes>,
}

impl Contents {
    fn change(&mut self, changes: &[MetaChange<'_>], version: u64) {
        for change in changes {
            match change {
                MetaChange::PutTable(schema) => {
                    let schema = TableSchema::clone(schema);
                    self.tables.insert(schema.name.clone(), Versioned { schema, version });
                }
                MetaChange::RemoveTable(name) => drop(self.tables.remove(*name)),
                MetaChange::Intend(trees) => {
                    self.intents.insert(trees.to_vec(), version);
                }
                MetaChange::Forget(trees) => {
                    self.intents.remove(*trees);
                }
                MetaChange::Record(change) => match &change.value {
                    Some(value) => drop(self.records.insert(change.name.clone(), value.clone())),
                    None => drop(self.records.remove(&change.name)),
                },
                MetaChange::Shelve(..) | MetaChange::Unshelve(..) => panic!("{change:?}"),
            }
        }
    }
}

impl MetaStore for Directory {
    fn tables(&self) -> Result<Vec<TableSchema>> {
        Ok(self.versioned_tables()?.into_iter().map(|known| known.schema).collect())
    }

    fn put_table(&self, _: &TableSchema) -> Result<()> {
        panic!("it needs a version");
    }

    fn intend(&self, trees: &[TreeId]) -> Result<()> {
        self.change(&[MetaChange::Intend(trees)])
    }

    fn forget(&self, trees: &[TreeId]) -> Result<()> {
        self.change(&[MetaChange::Forget(trees)])
    }

    fn intents(&self) -> Result<Vec<Intent>> {
        Ok(self.0.lock().intents.keys().cloned().collect())
    }

    fn change(&self, changes: &[MetaChange<'_>]) -> Result<()> {
        self.0.lock().change(changes, 0);
        Ok(())
    }

    fn shelved(&self) -> Result<ShelfMap> {
        Ok(ShelfMap::new())
    }

    fn records(&self) -> Result<Vec<(String, Bytes)>> {
        Ok(self.0.lock().records.clone().into_iter().collect())
    }

    fn reserve_trees(&self, count: u32) -> Result<TreeId> {
        let mut contents = self.0.lock();
        contents.trees += count;
        Ok(TreeId(TreeId::FIRST_OF_TABLES.0 + contents.trees - count))
    }
}

impl SharedMeta for Directory {
    fn next_version(&self) -> Result<u64> {
        let mut contents = self.0.lock();
        contents.version += 1;
        Ok(contents.version)
    }

    fn versioned_table(&self, name: &TableName) -> Result<Option<Versioned>> {
        *self.1.lock() += 1;
        let mut asked = self.2.lock();
        asked.names.push(name.clone());
        match asked.down {
            true => Err(Error::Unavailable("the directory does not answer".into())),
            false => Ok(self.0.lock().tables.get(name).cloned()),
        }
    }

    fn intend_new(&self, trees: &[TreeId], version: u64) -> Result<()> {
        self.0.lock().change(&[MetaChange::Intend(trees)], version);
        Ok(())
    }

    fn removals(&self) -> Result<Vec<Removal>> {
        let intents = self.0.lock().intents.clone().into_iter();
        Ok(intents.map(|(trees, version)| Removal { trees, version }).collect())
    }

    fn claim(&self, _: &Removal) -> Result<()> {
        Ok(())
    }

    fn versioned_tables(&self) -> Result<Vec<Versioned>> {
        Ok(self.0.lock().tables.values().cloned().collect())
    }

    fn change_if(
        &self,
        table: &TableName,
        before: Option<u64>,
        changes: &[MetaChange<'_>],
    ) -> Result<u64> {
        let mut contents = self.0.lock();
        if contents.tables.get(table).map(|known| known.version) != before {
            return Err(Error::Aborted("the table was changed meanwhile".into()));
        }
        contents.version += 1;
        let version = contents.version;
        contents.change(changes, version);
        Ok(version)
    }
}
