//! Schema operations. All block; each change is durable before it is published.
//!
//! The order of steps in each is what docs/format/schema.md promises after a crash. Elision rules
//! are set before writers can see a new family, and after readers have lost a dropped one.

use super::meta::{MetaChange, MetaStore, trees_of};
use super::table::KeptState;
use super::{ALONE, Core, Table};
use crate::error::{Error, Result};
use crate::gc::TableRules;
use crate::limits;
use crate::records::RecordChange;
use crate::schema::types::RowKeySchema;
use crate::schema::{
    CreateTable, FamilyChange, FamilySchema, FamilySpec, TableName, TableSchema, TableUpdate,
    Tablet, ValueType,
};
use bytes::Bytes;
use engine::{Engine, FamilyId, RowRange, TreeId, TreeOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The fate of a table that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterDelete {
    /// It can come back for as long as deleted tables are kept.
    MayComeBack,
    /// Its rows are gone for good.
    Gone,
}

impl Core {
    pub(super) fn create_table(&self, table: CreateTable) -> Result<Arc<TableSchema>> {
        let (mut schema, splits) = self.new_schema(table)?;
        let _changing = self.schema_change.lock();
        if self.tables.read().contains_key(&schema.name) {
            let name = schema.name.to_string();
            return Err(Error::AlreadyExists { what: "table", name });
        }
        let first = self.meta.reserve_trees(splits.len() as u32 + 1)?;
        schema.tablets = tablets(splits, first);
        let trees = trees_of(&schema);
        self.meta.intend(&trees)?;
        if let Err(error) = self.create_trees(&schema) {
            self.drop_intended(&trees);
            return Err(error);
        }
        // After an error here the record may be there when the store opens again: the trees stay.
        self.meta.change(&[MetaChange::PutTable(&schema), MetaChange::Forget(&trees)])?;
        Ok(self.publish(schema))
    }

    /// Returns the schema of a new table, which has no tablets yet, and the keys at which it is split.
    pub(super) fn new_schema(&self, table: CreateTable) -> Result<(TableSchema, Vec<Bytes>)> {
        let splits = check_splits(table.splits)?;
        let mut schema = TableSchema {
            name: table.name,
            families: BTreeMap::new(),
            next_family: 1,
            tablets: Vec::new(),
            deletion_protection: table.deletion_protection,
            created_micros: self.clock.now_micros(),
            granularity: table.granularity,
            row_key_schema: None,
        };
        for (name, spec) in table.families {
            create_family(&mut schema, &name, spec)?;
        }
        set_row_key_schema(&mut schema, table.row_key_schema, false)?;
        Ok((schema, splits))
    }

    /// Drops trees that are noted to be dropped. What fails is left to the next open.
    pub(super) fn drop_intended(&self, trees: &[TreeId]) {
        if let Err(error) = drop_trees(&self.engine, &*self.meta, trees) {
            tracing::warn!(%error, ?trees, "could not drop the trees of a table; the next open drops them");
        }
    }

    fn create_trees(&self, schema: &TableSchema) -> Result<()> {
        for tablet in &schema.tablets {
            self.engine.create_tree(tablet.tree, TreeOptions::default())?;
        }
        self.set_rules(schema)
    }

    pub(super) fn delete_table(&self, name: &TableName, after: AfterDelete) -> Result<()> {
        let _changing = self.schema_change.lock();
        let table = self.table(name)?;
        check_unprotected(&table.schema)?;
        let below = self.records_below(name.as_str());
        if after == AfterDelete::MayComeBack && self.deleted_for.load(Ordering::Relaxed) > 0 {
            return self.shelve_deleted(&table, below);
        }
        let below: Vec<_> = below.into_iter().map(|(name, _)| RecordChange::remove(name)).collect();
        let trees = trees_of(&table.schema);
        let mut changes: Vec<_> = below.iter().map(MetaChange::Record).collect();
        changes.extend([MetaChange::RemoveTable(name), MetaChange::Intend(&trees)]);
        self.meta.change(&changes)?;
        self.forget_table(name);
        self.publish_records(below);
        // The table is gone whatever happens to its trees.
        self.drop_intended(&trees);
        Ok(())
    }

    pub(super) fn update_table(
        &self,
        name: &TableName,
        update: TableUpdate,
    ) -> Result<Arc<TableSchema>> {
        let _changing = self.schema_change.lock();
        let mut schema = TableSchema::clone(&self.table(name)?.schema);
        let change_retention = update.change_retention;
        apply_update(&mut schema, update)?;
        self.meta.put_table(&schema)?;
        let schema = self.publish(schema);
        if let Some(retention) = change_retention {
            self.keep_changes_of(&schema, retention)?;
        }
        Ok(schema)
    }

    pub(super) fn modify_families(
        &self,
        name: &TableName,
        changes: Vec<FamilyChange>,
    ) -> Result<Arc<TableSchema>> {
        let _changing = self.schema_change.lock();
        let mut schema = TableSchema::clone(&self.table(name)?.schema);
        apply_changes(&mut schema, changes)?;
        self.meta.put_table(&schema)?;
        // New families are known to the rules before anyone can write to them.
        self.set_rules(&schema)?;
        Ok(self.publish(schema))
    }

    pub(super) fn set_rules(&self, schema: &TableSchema) -> Result<()> {
        let rules = Arc::new(TableRules::of(schema));
        for tablet in &schema.tablets {
            self.engine.tree(tablet.tree)?.set_elision_rules(rules.clone())?;
        }
        Ok(())
    }

    pub(super) fn new_kept(&self, table: &TableName) -> KeptState {
        KeptState::new(table, &self.meter, &self.shape)
    }

    /// Removes a table from the ones that requests find.
    pub(super) fn forget_table(&self, name: &TableName) {
        self.note_tables(&mut self.tables.write()).remove(name);
    }

    /// Counts a change of the tables that requests find, which the caller makes.
    pub(super) fn note_tables<'a>(
        &self,
        tables: &'a mut BTreeMap<TableName, Arc<Table>>,
    ) -> &'a mut BTreeMap<TableName, Arc<Table>> {
        self.tables_version.fetch_add(1, Ordering::Release);
        tables
    }

    pub(super) fn publish(&self, schema: TableSchema) -> Arc<TableSchema> {
        self.publish_as(schema, ALONE)
    }

    pub(super) fn publish_as(&self, schema: TableSchema, version: u64) -> Arc<TableSchema> {
        let mut tables = self.tables.write();
        let before = tables.get(&schema.name).map(|table| table.kept.clone());
        let kept = before.unwrap_or_else(|| self.new_kept(&schema.name));
        let table = Arc::new(Table::new(schema, version, kept));
        let schema = Arc::clone(&table.schema);
        self.note_tables(&mut tables).insert(schema.name.clone(), table);
        schema
    }
}

/// Drops `trees`, which are noted to be dropped, as far as they are there, and removes the note.
pub(super) fn drop_trees(engine: &Engine, meta: &dyn MetaStore, trees: &[TreeId]) -> Result<()> {
    for tree in trees {
        match engine.drop_tree(*tree) {
            Ok(()) | Err(engine::Error::UnknownTree(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    meta.forget(trees)
}

/// The parts of `ranges` (sorted, disjoint) that lie in each tablet, in row order.
pub(super) fn parts(schema: &TableSchema, ranges: &[RowRange]) -> Vec<(TreeId, RowRange)> {
    let mut parts = Vec::with_capacity(ranges.len());
    for range in ranges {
        let first = schema.tablet_of(&range.start);
        for (at, tablet) in schema.tablets.iter().enumerate().skip(first) {
            if range.end.as_deref().is_some_and(|end| end <= tablet.start.as_ref()) {
                break;
            }
            let next = schema.tablets.get(at + 1).map(|next| next.start.to_vec());
            let start = range.start.as_slice().max(&tablet.start).to_vec();
            let end = match (&range.end, next) {
                (Some(end), Some(next)) => Some(next.min(end.clone())),
                (end, next) => end.clone().or(next),
            };
            parts.push((tablet.tree, RowRange { start, end }));
        }
    }
    parts
}

fn check_splits(mut splits: Vec<Bytes>) -> Result<Vec<Bytes>> {
    splits.retain(|split| !split.is_empty());
    splits.sort_unstable();
    splits.dedup();
    if splits.len() > limits::SPLITS_MAX {
        let message =
            format!("{} splits are over the limit of {}", splits.len(), limits::SPLITS_MAX);
        return Err(Error::invalid("initial_splits", message));
    }
    for split in &splits {
        limits::check_row_key("initial_splits", split)?;
    }
    Ok(splits)
}

/// Returns the tablets of a new table: the trees from `first` on.
pub(super) fn tablets(splits: Vec<Bytes>, first: TreeId) -> Vec<Tablet> {
    let starts = std::iter::once(Bytes::new()).chain(splits);
    starts.zip(first.0..).map(|(start, tree)| Tablet { start, tree: TreeId(tree) }).collect()
}

/// Refuses to delete a table that is protected.
pub(super) fn check_unprotected(schema: &TableSchema) -> Result<()> {
    if schema.deletion_protection {
        let text = format!("table {} is protected from deletion", schema.name);
        return Err(Error::FailedPrecondition(text));
    }
    Ok(())
}

/// Changes the settings that a schema has.
pub(super) fn apply_update(schema: &mut TableSchema, update: TableUpdate) -> Result<()> {
    if let Some(protected) = update.deletion_protection {
        schema.deletion_protection = protected;
    }
    if let Some(wanted) = update.row_key_schema {
        set_row_key_schema(schema, wanted, update.ignore_warnings)?;
    }
    Ok(())
}

/// Applies `changes` in their order. After an error `schema` is of no use.
pub(super) fn apply_changes(schema: &mut TableSchema, changes: Vec<FamilyChange>) -> Result<()> {
    for (at, change) in changes.into_iter().enumerate() {
        let applied = apply_change(schema, change);
        applied.map_err(|error| error.within(&format!("modifications[{at}]")))?;
    }
    Ok(())
}

fn apply_change(schema: &mut TableSchema, change: FamilyChange) -> Result<()> {
    match change {
        FamilyChange::Create { name, spec } => create_family(schema, &name, spec),
        FamilyChange::Update { name, gc, value_type } => {
            let Some(family) = schema.families.get_mut(name.as_str()) else {
                return Err(Error::no_family(name));
            };
            if let Some(value_type) = value_type {
                set_value_type(family, value_type)?;
            }
            if let Some(gc) = gc {
                gc.validate()?;
                family.gc = gc;
            }
            Ok(())
        }
        FamilyChange::Drop { name } => {
            check_unprotected(schema)?;
            let dropped = schema.families.remove(name.as_str());
            dropped.map(|_| ()).ok_or_else(|| Error::no_family(name))
        }
    }
}

/// Aggregates fold what was written as one, so no family becomes one later, or is one no longer.
fn set_value_type(family: &mut FamilySchema, wanted: ValueType) -> Result<()> {
    let is_aggregate = |value_type| matches!(value_type, ValueType::Aggregate(_));
    if wanted != family.value_type && (is_aggregate(wanted) || is_aggregate(family.value_type)) {
        let message = "Immutable fields 'value_type.aggregate_type' cannot be updated";
        return Err(Error::invalid("value_type", message));
    }
    family.value_type = wanted;
    Ok(())
}

fn set_row_key_schema(
    schema: &mut TableSchema,
    wanted: Option<RowKeySchema>,
    ignore_warnings: bool,
) -> Result<()> {
    let refuse = |message| Err(Error::invalid("row_key_schema", message));
    match (&schema.row_key_schema, &wanted) {
        (None, Some(wanted)) => wanted.check(schema.families.keys().map(|name| &**name))?,
        (Some(_), None) if !ignore_warnings => {
            return refuse("the schema is removed only with ignore_warnings set");
        }
        (Some(now), Some(wanted)) if now != wanted => {
            return refuse("a schema cannot be changed, only removed with ignore_warnings set");
        }
        _ => {}
    }
    schema.row_key_schema = wanted;
    Ok(())
}

fn create_family(schema: &mut TableSchema, name: &str, spec: FamilySpec) -> Result<()> {
    limits::check_family_name("family", name)?;
    spec.gc.validate()?;
    if schema.families.contains_key(name) {
        return Err(Error::AlreadyExists { what: "column family", name: name.to_owned() });
    }
    if schema.row_key_schema.as_ref().is_some_and(|keys| keys.has_field(name)) {
        let message = format!("the row key schema has a field '{name}'");
        return Err(Error::invalid("family", message));
    }
    if schema.families.len() >= limits::FAMILIES_MAX {
        let max = limits::FAMILIES_MAX;
        return Err(Error::invalid("family", format!("a table has at most {max} families")));
    }
    let id = FamilyId(schema.next_family);
    schema.next_family = schema.next_family.checked_add(1).ok_or_else(|| {
        Error::ResourceExhausted(format!("table {} has used all family ids", schema.name))
    })?;
    let name: Arc<str> = name.into();
    let family = FamilySchema { id, name: name.clone(), gc: spec.gc, value_type: spec.value_type };
    schema.families.insert(name, family);
    Ok(())
}
