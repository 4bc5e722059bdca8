//! Tells the table layer what other nodes change in the directory.
//!
//! News come from the mirror, one at a time and in its order: the latest state of what changed, not
//! every change. A node hears of its own changes too.

use super::meta::{DirectoryMeta, named, versioned};
use super::{Item, Key, Mirror, Revision};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use table::{Bytes, TableName, Versioned};
use tokio::task::JoinHandle;

/// Hears what changes in the schema of a cluster. Calls may block.
pub trait MetaNews: Send + Sync + 'static {
    /// Tables that are new or have another version now, and tables that are gone.
    fn tables(&self, changed: Vec<Versioned>, gone: Vec<TableName>);

    /// Records of fronts that are new or have other bytes now, and names of records that are gone.
    fn records(&self, changed: Vec<(String, Bytes)>, gone: Vec<String>);
}

/// Tells `news` what the mirror shows now, then what changes, until the task is aborted: it keeps the
/// mirror. The content of a copy on disk is told too.
pub fn follow(
    mirror: &Mirror,
    meta: Arc<DirectoryMeta>,
    news: Arc<dyn MetaNews>,
) -> JoinHandle<()> {
    let (mut state, mirror) = (mirror.state(), mirror.clone());
    tokio::spawn(async move {
        let mut told = Told::default();
        loop {
            state.mark_unchanged();
            let (items, meta, news) = (mirror.items(), Arc::clone(&meta), Arc::clone(&news));
            let turn = tokio::task::spawn_blocking(move || {
                told.turn(&items, &meta, &*news);
                told
            });
            told = match turn.await {
                Ok(told) => told,
                Err(error) => {
                    tracing::error!(%error, "news of the directory are told no more");
                    return;
                }
            };
            if state.changed().await.is_err() {
                return;
            }
        }
    })
}

/// Revisions of the items that were told.
#[derive(Default)]
struct Told(HashMap<String, Revision>);

impl Told {
    fn turn(&mut self, items: &BTreeMap<String, Item>, meta: &DirectoryMeta, news: &dyn MetaNews) {
        let (tables, gone) = self.changed(items, Key::TABLES);
        let tables: Vec<_> = tables.iter().filter_map(|item| readable(versioned(item))).collect();
        let names = gone.iter().filter_map(|key| key.strip_prefix(Key::TABLES));
        let names: Vec<_> = names.filter_map(|name| TableName::new(name).ok()).collect();
        if !tables.is_empty() || !names.is_empty() {
            news.tables(tables, names);
        }
        let (records, gone) = self.changed(items, Key::RECORDS);
        let told: Vec<_> = records.iter().filter_map(|item| readable(named(item))).collect();
        let names = gone.iter().filter_map(|key| key.strip_prefix(Key::RECORDS));
        let names: Vec<_> = names.map(str::to_owned).collect();
        if !told.is_empty() || !names.is_empty() {
            news.records(told, names);
            meta.shown(&records, &gone);
        }
    }

    /// Returns the items below `prefix` that are not as they were told, and the keys that are gone.
    fn changed(
        &mut self,
        items: &BTreeMap<String, Item>,
        prefix: &str,
    ) -> (Vec<Item>, Vec<String>) {
        let from = items.range(prefix.to_owned()..);
        let below = from.take_while(|(key, _)| key.starts_with(prefix)).map(|(_, item)| item);
        let changed = below.filter(|item| self.0.get(&item.key) != Some(&item.revision));
        let changed: Vec<_> = changed.cloned().collect();
        let known = self.0.keys().filter(|key| key.starts_with(prefix));
        let gone: Vec<_> = known.filter(|key| !items.contains_key(*key)).cloned().collect();
        self.0.extend(changed.iter().map(|item| (item.key.clone(), item.revision)));
        gone.iter().for_each(|key| {
            self.0.remove(key);
        });
        (changed, gone)
    }
}

/// Logs what cannot be read, such as a record that a newer program wrote.
fn readable<T>(read: table::Result<T>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "an item of the directory is passed over"))
        .ok()
}
