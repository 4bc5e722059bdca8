//! `pg_catalog` and `information_schema` as tables made from the catalog.
//!
//! 1. OIDs are the ones that the catalog keeps, so that they are stable over restarts.

mod attributes;
mod definitions;
mod functions;
mod grants;
mod keywords;
mod privileges;
mod relations;
mod server;
mod sizes;
mod standard;
mod types;
mod viewer;
mod wide;

use std::sync::LazyLock;

use relational::{Catalog, DataType, Row, Value};

use crate::expression::EvalContext;
use crate::values::parse_type;

pub(crate) use functions::FUNCTIONS;
pub(crate) use keywords::FUNCTIONS as KEYWORDS;

/// Number of the schema `pg_catalog`.
pub(crate) const PG_CATALOG: u32 = 11;
/// Number of the schema `information_schema`.
pub(crate) const INFORMATION_SCHEMA: u32 = 13_000;

/// Makes the rows of a table.
type Rows = fn(&Catalog, &EvalContext) -> Vec<Row>;

/// One line of a list of tables: name, columns with their types, rows.
type Definition = (&'static str, &'static str, Rows);

/// A table whose rows are made from the catalog.
pub(crate) struct VirtualTable {
    schema: &'static str,
    name: &'static str,
    columns: Vec<(String, DataType)>,
    rows: Rows,
}

impl std::fmt::Debug for VirtualTable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.schema, self.name)
    }
}

static TABLES: LazyLock<Vec<VirtualTable>> = LazyLock::new(|| {
    let lists = [
        ("pg_catalog", relations::TABLES),
        ("pg_catalog", attributes::TABLES),
        ("pg_catalog", types::TABLES),
        ("pg_catalog", server::TABLES),
        ("pg_catalog", wide::TABLES),
        ("information_schema", standard::TABLES),
    ];
    let tables = lists.into_iter().flat_map(|(schema, list)| {
        list.iter().map(move |(name, columns, rows)| VirtualTable {
            schema,
            name,
            columns: columns_of(columns),
            rows: *rows,
        })
    });
    tables.collect()
});

/// Returns the columns of a text like `oid oid, relname name`.
fn columns_of(text: &str) -> Vec<(String, DataType)> {
    let column = |part: &str| {
        let (name, data_type) = part.trim().split_once(' ')?;
        Some((name.to_owned(), parse_type(data_type)?))
    };
    text.split(',').filter_map(column).collect()
}

impl VirtualTable {
    /// Returns names and types of the columns.
    pub(crate) fn columns(&self) -> Vec<(String, DataType)> {
        self.columns.clone()
    }

    /// Returns the rows, each with a value for every column.
    pub(crate) fn rows(&self, catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
        let mut rows = (self.rows)(catalog, context);
        for row in &mut rows {
            debug_assert_eq!(row.len(), self.columns.len(), "{self:?}");
            row.resize(self.columns.len(), Value::Null);
        }
        rows
    }
}

/// Returns a table of a schema.
pub(crate) fn table(schema: &str, name: &str) -> Option<&'static VirtualTable> {
    TABLES.iter().find(|table| table.schema == schema && table.name == name)
}

/// Numbers of PostgreSQL's own tables, which clients name.
const NUMBERS: &[(&str, u32)] = &[
    ("pg_type", 1247),
    ("pg_attribute", 1249),
    ("pg_proc", 1255),
    ("pg_class", 1259),
    ("pg_authid", 1260),
    ("pg_auth_members", 1261),
    ("pg_database", 1262),
    ("pg_tablespace", 1213),
    ("pg_sequence", 2224),
    ("pg_am", 2601),
    ("pg_attrdef", 2604),
    ("pg_cast", 2605),
    ("pg_constraint", 2606),
    ("pg_conversion", 2607),
    ("pg_depend", 2608),
    ("pg_description", 2609),
    ("pg_index", 2610),
    ("pg_inherits", 2611),
    ("pg_language", 2612),
    ("pg_namespace", 2615),
    ("pg_opclass", 2616),
    ("pg_operator", 2617),
    ("pg_rewrite", 2618),
    ("pg_trigger", 2620),
    ("pg_opfamily", 2753),
    ("pg_extension", 3079),
    ("pg_foreign_data_wrapper", 2328),
    ("pg_foreign_server", 1417),
    ("pg_foreign_table", 3118),
    ("pg_event_trigger", 3466),
    ("pg_policy", 3256),
    ("pg_collation", 3456),
    ("pg_enum", 3501),
    ("pg_range", 3541),
    ("pg_ts_config", 3602),
    ("pg_largeobject_metadata", 2995),
    ("pg_shdescription", 2396),
];
/// Number of the first table that has none in PostgreSQL, or another one in each version.
const FIRST_NUMBER: u32 = 13_100;

/// A table made from the catalog, with its number.
pub(super) struct Numbered {
    /// Number by which `pg_class` knows it.
    pub(super) oid: u32,
    /// Number of the schema around it.
    pub(super) schema: u32,
    /// The table with its columns and rows.
    pub(super) table: &'static VirtualTable,
}

/// Returns all tables that are made from the catalog.
pub(super) fn numbered() -> impl Iterator<Item = Numbered> {
    TABLES.iter().zip(FIRST_NUMBER..).map(|(table, own)| {
        let known = NUMBERS.iter().find(|(name, _)| *name == table.name).map(|(_, oid)| *oid);
        match table.schema {
            "pg_catalog" => Numbered { oid: known.unwrap_or(own), schema: PG_CATALOG, table },
            _ => Numbered { oid: own, schema: INFORMATION_SCHEMA, table },
        }
    })
}

/// Columns that are vectors: clients get their values as numbers with blanks between, under the OID of the type.
const VECTORS: &[(&str, &str, u32)] = &[
    ("pg_index", "indkey", 22),
    ("pg_index", "indoption", 22),
    ("pg_index", "indclass", 30),
    ("pg_index", "indcollation", 30),
    ("pg_proc", "proargtypes", 30),
];

/// Returns the number that PostgreSQL gives to a table, if it is one there, and not a view.
pub(crate) fn number_of(table: &VirtualTable) -> Option<u32> {
    let known = NUMBERS.iter().find(|(name, _)| *name == table.name);
    known.filter(|_| table.schema == "pg_catalog").map(|(_, oid)| *oid)
}

/// Returns the OID of the vector type that a column has, by the numbers of its table and itself; nothing for other
/// columns.
pub(crate) fn vector_type(oid: u32, number: i16) -> Option<u32> {
    let (name, _) = NUMBERS.iter().find(|(_, known)| *known == oid)?;
    let place = usize::try_from(number).ok()?.checked_sub(1)?;
    let (column, _) = table("pg_catalog", name)?.columns.get(place)?;
    let found = VECTORS.iter().find(|(owner, vector, _)| owner == name && vector == column);
    found.map(|(.., oid)| *oid)
}

impl Numbered {
    /// Returns `r` for a table that is one in PostgreSQL, `v` for a view.
    pub(super) fn kind(&self) -> &'static str {
        if NUMBERS.iter().any(|(_, oid)| *oid == self.oid) { "r" } else { "v" }
    }

    /// Returns the name of the table.
    pub(super) fn name(&self) -> &'static str {
        self.table.name
    }
}

/// Returns no rows, for tables of things that this server does not have.
pub(super) fn nothing(_catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    Vec::new()
}

/// Values of rows from the types that they are computed with.
pub(super) trait Cell {
    /// Returns the value for a row.
    fn cell(self) -> Value;
}

macro_rules! cells {
    ($($from:ty => $kind:path),*) => {$(
        impl Cell for $from {
            fn cell(self) -> Value {
                $kind(self)
            }
        }
    )*};
}
cells!(u32 => Value::Oid, i16 => Value::Int2, i32 => Value::Int4, i64 => Value::Int8, bool => Value::Bool);
cells!(f32 => Value::Float4);

impl Cell for &str {
    fn cell(self) -> Value {
        Value::text(self)
    }
}

impl Cell for String {
    fn cell(self) -> Value {
        Value::text(self)
    }
}

impl Cell for Value {
    fn cell(self) -> Value {
        self
    }
}

impl<T: Cell> Cell for Option<T> {
    fn cell(self) -> Value {
        self.map_or(Value::Null, Cell::cell)
    }
}

/// Makes a row of cells.
macro_rules! row {
    ($($cell:expr),* $(,)?) => {
        vec![$(crate::catalogs::Cell::cell($cell)),*]
    };
}
pub(super) use row;

/// Returns an array as a cell.
pub(super) fn list(element: &DataType, values: Vec<Value>) -> Value {
    Value::Array(std::sync::Arc::new(relational::Array::of(element.clone(), values)))
}
