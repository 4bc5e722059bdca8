//! Bigtable tables as PostgreSQL's catalog has foreign tables.

use relational::catalog::{WideColumn, WideEncoding, WideSource};
use relational::{Catalog, DataType, Result, Row, Value};

use super::{Definition, list, row};
use crate::expression::EvalContext;
use crate::expression::functions::{quote_ident, quote_literal};
use crate::expression::registry::Call;

pub(super) const TABLES: &[Definition] = &[
    ("pg_foreign_table", "ftrelid oid, ftserver oid, ftoptions text[]", tables),
    (
        "pg_foreign_server",
        "oid oid, srvname name, srvowner oid, srvfdw oid, srvtype text, srvversion text, \
         srvacl text[], srvoptions text[]",
        servers,
    ),
    (
        "pg_foreign_data_wrapper",
        "oid oid, fdwname name, fdwowner oid, fdwhandler oid, fdwvalidator oid, fdwacl text[], \
         fdwoptions text[]",
        wrappers,
    ),
];

/// Number of the only server: the Bigtable tables of this store.
const SERVER: u32 = 13_002;
/// Number of the only foreign-data wrapper.
const WRAPPER: u32 = 13_003;

fn tables(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let options = |table: &str| options(&[("table", table)]);
    catalog.wides().map(|wide| row![wide.oid, SERVER, options(&wide.table)]).collect()
}

fn servers(_catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let none = || Value::Null;
    vec![row![SERVER, "bigtable", 10_u32, WRAPPER, none(), none(), none(), none()]]
}

fn wrappers(_catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    vec![row![WRAPPER, "bigtable", 10_u32, 0_u32, 0_u32, Value::Null, Value::Null]]
}

/// Returns the options of a column, or NULL if it has none.
pub(super) fn column_options(column: &WideColumn) -> Value {
    let WideSource::Newest { family, qualifier } = &column.source else { return Value::Null };
    let name = format!("{family}:{}", String::from_utf8_lossy(qualifier));
    match column.encoding {
        WideEncoding::Text => options(&[("column", &name)]),
        WideEncoding::Binary => options(&[("column", &name), ("encoding", "binary")]),
    }
}

fn options(options: &[(&str, &str)]) -> Value {
    let texts = options.iter().map(|(name, value)| Value::text(format!("{name}={value}")));
    list(&DataType::Text, texts.collect())
}

/// Returns options as a declaration writes them, each as a text.
pub(super) fn option_texts(call: &Call<'_>) -> Result<Value> {
    let Value::Array(options) = call.value(0) else { return Ok(Value::Null) };
    let written = |option: &Value| {
        let option = option.to_string();
        let (name, value) = option.split_once('=').unwrap_or((&option, ""));
        Value::text(format!("{} {}", quote_ident(name), quote_literal(value)))
    };
    Ok(list(&DataType::Text, options.values.iter().map(written).collect()))
}
