//! The SQL text of indexes, constraints and views.

use relational::catalog::IndexPart;
use relational::{Catalog, Table};

use crate::expression::functions::quote_ident;

/// A constraint of a table.
pub(super) struct Constraint<'a> {
    pub(super) oid: u32,
    pub(super) name: &'a str,
    /// `p`, `u` or `c`, as in `pg_constraint`.
    pub(super) kind: &'static str,
    /// The index that keeps it, 0 for CHECK.
    pub(super) index: u32,
    pub(super) parts: Option<&'a [IndexPart]>,
    pub(super) expression: Option<&'a str>,
}

/// Returns the constraints of a table.
pub(super) fn constraint_names(table: &Table) -> Vec<Constraint<'_>> {
    let mut out = Vec::new();
    if let Some(key) = &table.primary_key {
        let (oid, name, index) = (key.constraint, key.name.as_str(), key.oid);
        let parts = Some(key.parts.as_slice());
        out.push(Constraint { oid, name, kind: "p", index, parts, expression: None });
    }
    for index in &table.indexes {
        let Some(oid) = index.constraint else { continue };
        let parts = Some(index.parts.as_slice());
        let name = index.name.as_str();
        out.push(Constraint { oid, name, kind: "u", index: index.oid, parts, expression: None });
    }
    for check in &table.checks {
        let (oid, name, expression) =
            (check.oid, check.name.as_str(), Some(check.expression.as_str()));
        out.push(Constraint { oid, name, kind: "c", index: 0, parts: None, expression });
    }
    out
}

fn column_name(table: &Table, number: i16) -> String {
    let found = table.columns.iter().find(|column| column.number == number);
    found.map_or_else(String::new, |column| quote_ident(&column.name))
}

/// Returns the columns of a key, with their order where it is not the plain one.
fn columns(table: &Table, parts: &[IndexPart], orders: bool) -> String {
    let text = |part: &IndexPart| {
        let name = column_name(table, part.column);
        let order = match (part.descending, part.nulls_first) {
            _ if !orders => "",
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        };
        format!("{name}{order}")
    };
    let texts: Vec<String> = parts.iter().map(text).collect();
    texts.join(", ")
}

/// Returns the text of CREATE INDEX; nothing for a number of something else.
pub(super) fn index(catalog: &Catalog, oid: u32) -> Option<String> {
    let table = catalog.table_of_index(oid)?;
    let (_, name, parts) = super::relations::keys(table).into_iter().find(|key| key.0 == oid)?;
    let unique = match table.index(oid) {
        Some(index) if !index.unique => "",
        _ => "UNIQUE ",
    };
    let schema = catalog.schema(table.schema).map(|schema| quote_ident(&schema.name))?;
    Some(format!(
        "CREATE {unique}INDEX {} ON {schema}.{} USING btree ({})",
        quote_ident(name),
        quote_ident(&table.name),
        columns(table, parts, true)
    ))
}

/// Returns the name of one column of an index, from 1.
pub(super) fn index_column(catalog: &Catalog, oid: u32, at: usize) -> Option<String> {
    let table = catalog.table_of_index(oid)?;
    let part = table.index_parts(oid)?.get(at.checked_sub(1)?)?;
    Some(column_name(table, part.column))
}

/// Returns the text of a constraint as ALTER TABLE ADD takes it.
pub(super) fn constraint(catalog: &Catalog, oid: u32) -> Option<String> {
    for table in catalog.tables() {
        let Some(found) = constraint_names(table).into_iter().find(|found| found.oid == oid) else {
            continue;
        };
        let names = found.parts.map(|parts| columns(table, parts, false)).unwrap_or_default();
        return Some(match found.kind {
            "p" => format!("PRIMARY KEY ({names})"),
            "u" => format!("UNIQUE ({names})"),
            _ => format!("CHECK ({})", found.expression.unwrap_or_default()),
        });
    }
    None
}
