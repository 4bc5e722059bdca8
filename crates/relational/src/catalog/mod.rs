//! The catalog: every object of the database, as of one moment.
//!
//! 1. A catalog does not change once it is shared; a change makes another one of a higher version.
//! 2. Objects that a user makes have numbers from [`FIRST_USER_OID`] on, which stay over restarts. Tables,
//!    indexes, views, sequences, schemas, roles and constraints share one row of numbers.
//! 3. Tables, indexes, views and sequences of a schema share one room of names.

mod foreign_key;
mod layout;
mod missing;
mod objects;
mod place;
pub(crate) mod record;
mod table;
mod wide;

pub(crate) use foreign_key::are_comparable;
pub use foreign_key::{ForeignKey, KeyAction, KeyMatch};
pub use layout::{IndexLayout, Layout, ROWS_PART, StoredColumn};
pub(crate) use layout::{LOADS_PART, SEGMENTS_PART};
pub use objects::{
    Grant, PUBLIC_ROLE, Privileges, ReadName, Role, Schema, Sequence, ViewDefinition,
};
pub use place::{KeyPlace, TablePart};
pub use table::{
    Check, Column, ColumnNumber, Columnar, Identity, Index, IndexPart, PrimaryKey, Table,
};
pub(crate) use wide::CellTables;
pub use wide::{BIGTABLE_SCHEMA, WideColumn, WideEncoding, WideSource, WideTable};

use crate::types::Oid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The first number of an object that a user makes.
pub const FIRST_USER_OID: Oid = 16_384;
/// The number of the schema `public`, as PostgreSQL has it.
pub const PUBLIC_SCHEMA: Oid = 2_200;
/// The number of the role that owns a new database.
pub const BOOTSTRAP_ROLE: Oid = 10;
/// The number of the database.
pub const DATABASE_OID: Oid = 5;

/// Every object of the database, as of one moment.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Name of the whole database.
    pub database: String,
    /// Number of the catalog's version: another one after each change.
    pub version: u64,
    /// Number that the next object gets.
    pub(crate) next_oid: Oid,
    schemas: BTreeMap<Oid, Arc<Schema>>,
    tables: BTreeMap<Oid, Arc<Table>>,
    views: BTreeMap<Oid, Arc<ViewDefinition>>,
    sequences: BTreeMap<Oid, Arc<Sequence>>,
    roles: BTreeMap<Oid, Arc<Role>>,
    /// Bigtable tables that have records.
    wides: BTreeMap<Oid, Arc<WideTable>>,
    /// The relations of the schema `bigtable`: the tables of the store.
    cells: Arc<CellTables>,
    /// Tables, indexes, views and sequences by schema and name.
    names: BTreeMap<Oid, BTreeMap<String, Oid>>,
    /// Tables by the numbers of their indexes, primary keys among them.
    indexes: BTreeMap<Oid, Oid>,
    /// Tables with foreign keys, by the tables that these reference.
    references: BTreeMap<Oid, BTreeSet<Oid>>,
}

/// A named thing of a schema.
#[derive(Debug, Clone)]
pub enum Relation {
    /// A table with rows of columns.
    Table(Arc<Table>),
    /// An index or a primary key by its number, with its table.
    Index(Oid, Arc<Table>),
    /// A query with a name.
    View(Arc<ViewDefinition>),
    /// A sequence that gives numbers.
    Sequence(Arc<Sequence>),
    /// A Bigtable table, which is read only.
    Wide(Arc<WideTable>),
}

impl Relation {
    /// Returns the number of the relation in the catalog.
    pub fn oid(&self) -> Oid {
        match self {
            Self::Table(table) => table.oid,
            Self::Index(oid, _) => *oid,
            Self::View(view) => view.oid,
            Self::Sequence(sequence) => sequence.oid,
            Self::Wide(wide) => wide.oid,
        }
    }
}

impl Catalog {
    /// Returns a catalog without any object, for records that are read.
    pub(crate) fn empty() -> Self {
        let mut catalog = Self { version: 1, ..Self::default() };
        catalog.put_schema(bigtable_schema());
        catalog
    }

    /// Returns the catalog of a new database: the schema `public`, and a superuser that owns it.
    pub fn new(database: &str, owner: &str) -> Self {
        let mut catalog =
            Self { database: database.to_owned(), next_oid: FIRST_USER_OID, ..Self::empty() };
        catalog.put_role(Role {
            oid: BOOTSTRAP_ROLE,
            name: owner.to_owned(),
            superuser: true,
            login: true,
            create_role: true,
            inherit: true,
            password: None,
            member_of: Vec::new(),
            comment: None,
        });
        let usage = Grant {
            role: PUBLIC_ROLE,
            grantor: BOOTSTRAP_ROLE,
            privileges: Privileges::USAGE,
            grantable: Privileges::default(),
        };
        catalog.put_schema(Schema {
            oid: PUBLIC_SCHEMA,
            name: "public".to_owned(),
            owner: BOOTSTRAP_ROLE,
            comment: Some("standard public schema".to_owned()),
            grants: vec![usage],
        });
        catalog
    }

    /// Returns a table by its number.
    pub fn table(&self, oid: Oid) -> Option<&Arc<Table>> {
        self.tables.get(&oid)
    }

    /// Returns all tables in the order of their numbers.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// Returns a view by its number.
    pub fn view(&self, oid: Oid) -> Option<&Arc<ViewDefinition>> {
        self.views.get(&oid)
    }

    /// Returns all views in the order of their numbers.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewDefinition>> {
        self.views.values()
    }

    /// Returns a sequence by its number.
    pub fn sequence(&self, oid: Oid) -> Option<&Arc<Sequence>> {
        self.sequences.get(&oid)
    }

    /// Returns all sequences in the order of their numbers.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.sequences.values()
    }

    /// Returns the sequence that a column owns: that of a serial or an identity column.
    pub fn sequence_of(&self, table: Oid, column: ColumnNumber) -> Option<&Arc<Sequence>> {
        self.sequences().find(|sequence| sequence.owned_by == Some((table, column)))
    }

    /// Returns a schema by its number.
    pub fn schema(&self, oid: Oid) -> Option<&Arc<Schema>> {
        self.schemas.get(&oid)
    }

    /// Returns a schema by its name.
    pub fn schema_named(&self, name: &str) -> Option<&Arc<Schema>> {
        self.schemas().find(|schema| schema.name == name)
    }

    /// Returns all schemas in the order of their numbers.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.schemas.values()
    }

    /// Returns a role by its number.
    pub fn role(&self, oid: Oid) -> Option<&Arc<Role>> {
        self.roles.get(&oid)
    }

    /// Returns a role by its name.
    pub fn role_named(&self, name: &str) -> Option<&Arc<Role>> {
        self.roles().find(|role| role.name == name)
    }

    /// Returns all roles in the order of their numbers.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.roles.values()
    }

    /// Returns the table of an index or of a primary key, by the number of the index.
    pub fn table_of_index(&self, index: Oid) -> Option<&Arc<Table>> {
        self.indexes.get(&index).and_then(|table| self.table(*table))
    }

    /// Returns true if a table has foreign keys, or foreign keys reference it.
    pub fn has_foreign_keys(&self, table: Oid) -> bool {
        self.references.contains_key(&table)
            || self.table(table).is_some_and(|table| !table.foreign_keys.is_empty())
    }

    /// Returns the foreign keys that reference a table, its own among them, each with the table that has it.
    pub fn references_to(&self, table: Oid) -> impl Iterator<Item = (&Arc<Table>, &ForeignKey)> {
        let tables = self.references.get(&table).into_iter().flatten();
        tables.filter_map(|oid| self.table(*oid)).flat_map(move |of| {
            let keys = of.foreign_keys.iter().filter(move |key| key.references == table);
            keys.map(move |key| (of, key))
        })
    }

    /// Returns a Bigtable table by its number.
    pub fn wide(&self, oid: Oid) -> Option<&Arc<WideTable>> {
        let declared = self.wides.get(&oid).filter(|wide| !wide.has_cells());
        declared.or_else(|| self.cells.get(oid))
    }

    /// Returns all Bigtable tables: the declared ones, and the relations of the schema `bigtable`.
    pub fn wides(&self) -> impl Iterator<Item = &Arc<WideTable>> {
        let declared = self.wides.values().filter(|wide| !wide.has_cells());
        declared.chain(self.cells.by_name.values())
    }

    /// Returns the Bigtable tables that have records.
    pub(crate) fn kept_wides(&self) -> &BTreeMap<Oid, Arc<WideTable>> {
        &self.wides
    }

    /// Returns the version of the store's tables that the catalog knows.
    pub(crate) fn cells_version(&self) -> Option<u64> {
        self.cells.version
    }

    /// Takes note of the tables of the store, by their full names.
    pub(crate) fn set_cells(&mut self, version: u64, tables: &[String]) {
        let kept = self.wides.values().filter(|wide| wide.has_cells());
        self.cells = Arc::new(CellTables::of(version, tables, kept));
    }

    /// Adds a Bigtable table, or replaces the one of its number.
    pub(crate) fn put_wide(&mut self, wide: WideTable) {
        let wide = Arc::new(wide);
        if wide.has_cells() {
            if self.cells.get(wide.oid).is_some() {
                Arc::make_mut(&mut self.cells).put(Arc::clone(&wide));
            }
        } else {
            self.remove_wide(wide.oid);
            self.name(wide.schema, &wide.name, wide.oid);
        }
        self.wides.insert(wide.oid, wide);
    }

    pub(crate) fn remove_wide(&mut self, oid: Oid) {
        if let Some(wide) = self.wides.remove(&oid) {
            self.unname(wide.schema, &wide.name);
        }
    }

    /// Returns the same catalog without any Bigtable table.
    pub(crate) fn without_wides(&self) -> Self {
        let mut catalog = self.clone();
        let known: Vec<Oid> = catalog.wides.keys().copied().collect();
        for oid in known {
            catalog.remove_wide(oid);
        }
        catalog.cells = Arc::default();
        catalog
    }

    /// Returns a table, index, view or sequence by the number of its schema and its name.
    pub fn find(&self, schema: Oid, name: &str) -> Option<Relation> {
        if schema == BIGTABLE_SCHEMA {
            return self.cells.by_name.get(name).map(|wide| Relation::Wide(Arc::clone(wide)));
        }
        self.relation(*self.names.get(&schema)?.get(name)?)
    }

    /// Returns a table, index, view or sequence by its number.
    pub fn relation(&self, oid: Oid) -> Option<Relation> {
        if let Some(table) = self.table(oid) {
            return Some(Relation::Table(Arc::clone(table)));
        }
        if let Some(table) = self.table_of_index(oid) {
            return Some(Relation::Index(oid, Arc::clone(table)));
        }
        if let Some(wide) = self.wide(oid) {
            return Some(Relation::Wide(Arc::clone(wide)));
        }
        let view = self.view(oid).map(|view| Relation::View(Arc::clone(view)));
        view.or_else(|| self.sequence(oid).map(|found| Relation::Sequence(Arc::clone(found))))
    }

    /// Returns the numbers of all objects, in no order: also of indexes and constraints.
    pub(crate) fn oids(&self) -> impl Iterator<Item = Oid> {
        let relations = self.tables.keys().chain(self.views.keys()).chain(self.sequences.keys());
        let others = self.schemas.keys().chain(self.roles.keys()).chain(self.indexes.keys());
        let constraints = self.tables().flat_map(|table| {
            let checks = table.checks.iter().map(|check| check.oid);
            let key = table.primary_key.iter().map(|key| key.constraint);
            let unique = table.indexes.iter().filter_map(|index| index.constraint);
            let foreign = table.foreign_keys.iter().map(|key| key.oid);
            checks.chain(key).chain(unique).chain(foreign)
        });
        relations.chain(others).copied().chain(constraints)
    }

    /// Returns the next unused number, and counts it as used.
    pub(crate) fn take_oid(&mut self) -> Oid {
        let oid = self.next_oid;
        self.next_oid += 1;
        oid
    }

    fn name(&mut self, schema: Oid, name: &str, oid: Oid) {
        self.names.entry(schema).or_default().insert(name.to_owned(), oid);
    }

    fn unname(&mut self, schema: Oid, name: &str) {
        if let Some(names) = self.names.get_mut(&schema) {
            names.remove(name);
        }
    }

    /// Adds a table, or replaces the one of its number.
    pub(crate) fn put_table(&mut self, mut table: Table) {
        self.remove_table(table.oid);
        table.layout = Layout::of(&table);
        self.name(table.schema, &table.name, table.oid);
        let key = table.primary_key.iter().map(|key| (key.oid, key.name.clone()));
        let indexes = table.indexes.iter().map(|index| (index.oid, index.name.clone()));
        for (oid, name) in key.chain(indexes).collect::<Vec<_>>() {
            self.name(table.schema, &name, oid);
            self.indexes.insert(oid, table.oid);
        }
        for key in &table.foreign_keys {
            self.references.entry(key.references).or_default().insert(table.oid);
        }
        self.tables.insert(table.oid, Arc::new(table));
    }

    pub(crate) fn remove_table(&mut self, oid: Oid) {
        let Some(table) = self.tables.remove(&oid) else { return };
        self.unname(table.schema, &table.name);
        let key = table.primary_key.iter().map(|key| (key.oid, &key.name));
        for (oid, name) in key.chain(table.indexes.iter().map(|index| (index.oid, &index.name))) {
            self.unname(table.schema, name);
            self.indexes.remove(&oid);
        }
        for key in &table.foreign_keys {
            if let Some(tables) = self.references.get_mut(&key.references) {
                tables.remove(&oid);
                if tables.is_empty() {
                    self.references.remove(&key.references);
                }
            }
        }
    }

    /// Adds a view, or replaces the one of its number.
    pub(crate) fn put_view(&mut self, view: ViewDefinition) {
        self.remove_view(view.oid);
        self.name(view.schema, &view.name, view.oid);
        self.views.insert(view.oid, Arc::new(view));
    }

    pub(crate) fn remove_view(&mut self, oid: Oid) {
        if let Some(view) = self.views.remove(&oid) {
            self.unname(view.schema, &view.name);
        }
    }

    /// Adds a sequence, or replaces the one of its number.
    pub(crate) fn put_sequence(&mut self, sequence: Sequence) {
        self.remove_sequence(sequence.oid);
        self.name(sequence.schema, &sequence.name, sequence.oid);
        self.sequences.insert(sequence.oid, Arc::new(sequence));
    }

    pub(crate) fn remove_sequence(&mut self, oid: Oid) {
        if let Some(sequence) = self.sequences.remove(&oid) {
            self.unname(sequence.schema, &sequence.name);
        }
    }

    pub(crate) fn put_schema(&mut self, schema: Schema) {
        self.schemas.insert(schema.oid, Arc::new(schema));
    }

    pub(crate) fn remove_schema(&mut self, oid: Oid) {
        self.schemas.remove(&oid);
        self.names.remove(&oid);
    }

    pub(crate) fn put_role(&mut self, role: Role) {
        self.roles.insert(role.oid, Arc::new(role));
    }

    pub(crate) fn remove_role(&mut self, oid: Oid) {
        self.roles.remove(&oid);
    }

    /// Returns true if the schema has a table, index, view or sequence.
    pub(crate) fn has_relations(&self, schema: Oid) -> bool {
        self.names.get(&schema).is_some_and(|names| !names.is_empty())
    }
}

/// The schema with the tables of the store. It has a record only if something of it was changed.
fn bigtable_schema() -> Schema {
    Schema {
        oid: BIGTABLE_SCHEMA,
        name: "bigtable".to_owned(),
        owner: BOOTSTRAP_ROLE,
        comment: Some("the Bigtable tables of this store, cell by cell".to_owned()),
        grants: Vec::new(),
    }
}
