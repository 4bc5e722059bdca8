//! Schemas that groups lack. A change of a table is made in the directory first and given to its groups second; it
//! may end in between, with the node that made it.
//!
//! 1. A node with a replica that lacks the directory's schema gives it to all groups of the table, on whatever node their leader is:
//!    the leader may not reach the directory.
//! 2. It does so when it finds the same in two looks, so that the call that made the change comes first.
//! 3. A replica that stays behind for good costs one call for each version.

use crate::directory::{Key, Mirror, TableRecord};
use crate::format::Descriptor;
use crate::node::Node;
use futures::{StreamExt, stream};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use table::{Groups, Versioned};

/// Pause between two looks at the schemas.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Tables that are given their schema at the same time.
const AT_ONCE: usize = 8;

/// The header of this file describes it.
pub(super) struct Schemas {
    pub(super) node: Arc<Node>,
    pub(super) mirror: Mirror,
    pub(super) groups: Arc<dyn Groups>,
}

impl Schemas {
    /// Works until it is dropped.
    pub(super) async fn run(self) {
        let mut behind = Behind::default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let descriptors = self.node.descriptors();
            let lacking =
                lacking(descriptors.iter().map(|(_, one)| &**one), |table| self.record(table));
            let due = behind.look(lacking);
            let groups = &self.groups;
            let set = due.into_iter().map(|known| async move {
                let set = groups.set_schema(&known.schema, known.version).await;
                (known, set)
            });
            let outcomes: Vec<_> = stream::iter(set).buffer_unordered(AT_ONCE).collect().await;
            for (known, outcome) in outcomes {
                let (table, version) = (&known.schema.name, known.version);
                match outcome {
                    Ok(()) => {
                        tracing::info!(%table, version, "gave a table's schema to groups that lacked it");
                        behind.done(&known);
                    }
                    Err(error) => {
                        tracing::warn!(%error, %table, version, "groups lack the schema of their table; trying again");
                    }
                }
            }
        }
    }

    fn record(&self, table: &str) -> Option<TableRecord> {
        let item = self.mirror.get(&Key::Table(table.to_owned()))?;
        TableRecord::decode(table, &item.value).ok()
    }
}

/// Returns the tables, as `record` has them, of which a descriptor has an older schema. A table of another creation
/// under its name is another one.
fn lacking<'a>(
    descriptors: impl Iterator<Item = &'a Descriptor>,
    record: impl Fn(&str) -> Option<TableRecord>,
) -> Vec<Versioned> {
    let mut tables = BTreeMap::<&str, Option<TableRecord>>::new();
    let mut lacking = BTreeMap::<&str, Versioned>::new();
    for descriptor in descriptors {
        let table = &*descriptor.table;
        let newest = tables.entry(table).or_insert_with(|| record(table));
        let Some(TableRecord { version, schema }) = newest else { continue };
        let has = |tree| schema.tablets.iter().any(|tablet| tablet.tree == tree);
        let is_behind =
            descriptor.schema_version < *version && descriptor.schema != schema.to_record();
        if is_behind && descriptor.trees.iter().all(|tree| has(*tree)) {
            lacking
                .entry(table)
                .or_insert_with(|| Versioned { schema: schema.clone(), version: *version });
        }
    }
    lacking.into_values().collect()
}

/// The tables that were found, each with its version, and true if the groups were given it.
#[derive(Default)]
struct Behind(BTreeMap<String, (u64, bool)>);

impl Behind {
    /// Looks at the tables of which a replica lacks the schema, and returns the ones whose groups are to get it.
    fn look(&mut self, lacking: Vec<Versioned>) -> Vec<Versioned> {
        let before = std::mem::take(&mut self.0);
        let mut due = Vec::new();
        for known in lacking {
            let name = known.schema.name.to_string();
            let found = before.get(&name).copied().filter(|(version, _)| *version == known.version);
            self.0.insert(name, found.unwrap_or((known.version, false)));
            if matches!(found, Some((_, false))) {
                due.push(known);
            }
        }
        due
    }

    fn done(&mut self, known: &Versioned) {
        self.0.insert(known.schema.name.to_string(), (known.version, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{Member, NodeId, ReplicaId};
    use table::{Bytes, Granularity, TableName, TableSchema, TreeId};

    fn schema(next_family: u16) -> TableSchema {
        TableSchema {
            name: TableName::new("projects/p/instances/i/tables/t").unwrap(),
            families: BTreeMap::new(),
            next_family,
            tablets: vec![table::schema::Tablet { start: Bytes::new(), tree: TreeId(16) }],
            deletion_protection: false,
            created_micros: 7,
            granularity: Granularity::Millis,
            row_key_schema: None,
        }
    }

    fn descriptor(tree: u32, version: u64, schema: &TableSchema) -> Descriptor {
        Descriptor {
            members: vec![Member { replica: ReplicaId(1), node: NodeId(1) }],
            trees: vec![TreeId(tree)],
            table: schema.name.to_string(),
            schema_version: version,
            schema: schema.to_record().into(),
        }
    }

    #[test]
    fn groups_get_the_schema_of_the_directory_if_they_lack_it_in_two_looks() {
        let record = |_: &str| Some(TableRecord { version: 9, schema: schema(2) });
        let look = |behind: &mut Behind, descriptor: Descriptor| {
            let due = behind.look(lacking([&descriptor].into_iter(), record));
            due.iter().map(|known| known.version).collect::<Vec<_>>()
        };
        let mut behind = Behind::default();
        let old = || descriptor(16, 8, &schema(1));
        assert_eq!(look(&mut behind, old()), [] as [u64; 0], "the change may be under way");
        assert_eq!(look(&mut behind, old()), [9]);
        assert_eq!(look(&mut behind, old()), [9], "again, after a failure");
        behind.done(&Versioned { schema: schema(2), version: 9 });
        assert_eq!(look(&mut behind, old()), [] as [u64; 0], "the replica here is behind for good");
        for has_it in [
            descriptor(16, 9, &schema(2)),
            descriptor(16, 10, &schema(1)),
            // A table that was just created, and another one of the name.
            descriptor(16, 8, &schema(2)),
            descriptor(17, 8, &schema(1)),
        ] {
            let mut behind = Behind::default();
            look(&mut behind, has_it.clone());
            assert_eq!(look(&mut behind, has_it), [] as [u64; 0]);
        }
        let gone = lacking([&old()].into_iter(), |_| None);
        assert!(gone.is_empty(), "a directory that lacks a table tells nothing of it");
    }
}
