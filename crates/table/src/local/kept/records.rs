//! The records of fronts: a copy of all of them in memory, behind the copy in the system tree.
//!
//! 1. Memory shows a change after the system tree has it on disk.
//! 2. Changes come one at a time, under the lock of schema changes.

use super::super::meta::MetaChange;
use super::super::{Core, Local};
use crate::error::{Error, Result};
use crate::limits;
use crate::records::{RecordChange, Records};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Records by name, and the bytes that they take.
#[derive(Debug, Default)]
pub(in crate::local) struct RecordMap {
    by_name: BTreeMap<String, Bytes>,
    bytes: usize,
}

impl RecordMap {
    /// Returns the map of records that were read.
    pub(in crate::local) fn of(records: Vec<(String, Bytes)>) -> Self {
        let bytes = records.iter().map(|(name, value)| cost(name, value)).sum();
        Self { by_name: records.into_iter().collect(), bytes }
    }

    /// Returns the records whose name starts with `prefix`.
    fn names(&self, prefix: &str) -> impl Iterator<Item = (&String, &Bytes)> {
        let from = self.by_name.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(move |(name, _)| name.starts_with(prefix))
    }

    fn apply(&mut self, change: RecordChange) {
        let RecordChange { name, value } = change;
        let (new, old) = match value {
            Some(value) => {
                let new = cost(&name, &value);
                (new, self.by_name.insert(name.clone(), value))
            }
            None => (0, self.by_name.remove(&name)),
        };
        self.bytes = (self.bytes + new).saturating_sub(old.map_or(0, |old| cost(&name, &old)));
    }
}

fn cost(name: &str, value: &Bytes) -> usize {
    name.len() + value.len()
}

impl Core {
    pub(in crate::local) fn change_records(&self, changes: Vec<RecordChange>) -> Result<()> {
        let _changing = self.schema_change.lock();
        self.check_records(&changes)?;
        let writes: Vec<_> = changes.iter().map(MetaChange::Record).collect();
        self.meta.change(&writes)?;
        self.publish_records(changes);
        Ok(())
    }

    /// Refuses records that are too large, or too many.
    pub(in crate::local) fn check_records(&self, changes: &[RecordChange]) -> Result<()> {
        changes.iter().try_for_each(RecordChange::check)?;
        let records = self.records.read();
        let (mut added, mut removed) = (0, 0);
        for RecordChange { name, value } in changes {
            added += value.as_ref().map_or(0, |value| cost(name, value));
            removed += records.by_name.get(name).map_or(0, |value| cost(name, value));
        }
        let shelf = self.shelf.read();
        let shelved = shelf.values().flat_map(|shelved| &shelved.records);
        let shelved: usize = shelved.map(|(name, value)| cost(name, value)).sum();
        let after = (records.bytes + shelved + added).saturating_sub(removed);
        if added > removed && after > limits::RECORDS_BYTES_MAX {
            let max = limits::RECORDS_BYTES_MAX;
            let text =
                format!("the records of instances, backups and operations are over {max} bytes");
            return Err(Error::ResourceExhausted(text));
        }
        Ok(())
    }

    /// Returns what is recorded below the resource `name`.
    pub(in crate::local) fn records_below(&self, name: &str) -> Vec<(String, Bytes)> {
        let (prefix, records) = (format!("{name}/"), self.records.read());
        records.names(&prefix).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Shows the records that another node changed, and no others.
    pub(in crate::local) fn replace_records(&self, records: Vec<(String, Bytes)>) {
        *self.records.write() = RecordMap::of(records);
    }

    /// Shows changes that are on disk.
    pub(in crate::local) fn publish_records(&self, changes: Vec<RecordChange>) {
        let mut records = self.records.write();
        changes.into_iter().for_each(|change| records.apply(change));
    }
}

#[async_trait]
impl Records for Local {
    fn record(&self, name: &str) -> Option<Bytes> {
        self.core.records.read().by_name.get(name).cloned()
    }

    fn records(&self, prefix: &str) -> Vec<(String, Bytes)> {
        let records = self.core.records.read();
        records.names(prefix).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    async fn change_records(&self, changes: Vec<RecordChange>) -> Result<()> {
        self.change(move |core| core.change_records(changes)).await
    }
}
