//! A table as requests use it: immutable, replaced by a change of its schema.

use super::admission::Admission;
use crate::meter::{StoreMeter, TableMeter};
use crate::schema::{FamilySchema, TableName, TableSchema};
use crate::shape::Shape;
use engine::TreeId;
use std::sync::Arc;

/// A table as requests use it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) schema: Arc<TableSchema>,
    /// By id; `None` for dropped families and for id 0.
    pub(super) families: Vec<Option<FamilySchema>>,
    /// Version of its record in the directory of a cluster, or [`super::ALONE`].
    pub(super) version: u64,
    pub(super) kept: KeptState,
}

/// The state of a table that is kept over schema changes.
#[derive(Debug, Clone)]
pub(super) struct KeptState {
    /// The bound of its waiting writes.
    pub(super) admission: Arc<Admission>,
    pub(super) meter: Arc<TableMeter>,
}

impl Table {
    pub(super) fn new(schema: TableSchema, version: u64, kept: KeptState) -> Self {
        let mut families = vec![None; usize::from(schema.next_family)];
        for family in schema.families.values() {
            families[usize::from(family.id.0)] = Some(family.clone());
        }
        Self { schema: Arc::new(schema), families, version, kept }
    }

    /// The tree of the tablet that has `row`.
    pub(super) fn tree_of(&self, row: &[u8]) -> TreeId {
        self.schema.tablets[self.schema.tablet_of(row)].tree
    }
}

impl KeptState {
    pub(super) fn new(table: &TableName, meter: &Arc<StoreMeter>, shape: &Shape) -> Self {
        Self {
            admission: Arc::new(Admission::new(shape.waiting_bytes_max)),
            meter: Arc::new(TableMeter::new(table.clone(), meter)),
        }
    }
}
