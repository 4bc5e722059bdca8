//! The SQL text of indexes, constraints and views.

use relational::catalog::{ForeignKey, IndexPart, KeyAction, KeyMatch};
use relational::{Catalog, Table};

use crate::expression::functions::quote_ident;

/// A constraint of a table.
pub(super) struct Constraint<'a> {
    pub(super) oid: u32,
    pub(super) name: &'a str,
    /// `p`, `u`, `f` or `c`, as in `pg_constraint`.
    pub(super) kind: &'static str,
    /// The index that keeps it, or that a foreign key references; 0 for CHECK.
    pub(super) index: u32,
    /// Numbers of its columns; none for CHECK.
    pub(super) columns: Vec<i16>,
    pub(super) foreign: Option<&'a ForeignKey>,
    pub(super) expression: Option<&'a str>,
}

/// Returns the constraints of a table.
pub(super) fn constraint_names(table: &Table) -> Vec<Constraint<'_>> {
    let numbers = |parts: &[IndexPart]| parts.iter().map(|part| part.column).collect::<Vec<_>>();
    let (foreign, expression) = (None, None);
    let mut out = Vec::new();
    if let Some(key) = &table.primary_key {
        let (oid, name, index) = (key.constraint, key.name.as_str(), key.oid);
        let columns = numbers(&key.parts);
        out.push(Constraint { oid, name, kind: "p", index, columns, foreign, expression });
    }
    for found in &table.indexes {
        let Some(oid) = found.constraint else { continue };
        let (name, index, columns) = (found.name.as_str(), found.oid, numbers(&found.parts));
        out.push(Constraint { oid, name, kind: "u", index, columns, foreign, expression });
    }
    for check in &table.checks {
        let (oid, name, expression) =
            (check.oid, check.name.as_str(), Some(check.expression.as_str()));
        let columns = Vec::new();
        out.push(Constraint { oid, name, kind: "c", index: 0, columns, foreign, expression });
    }
    for key in &table.foreign_keys {
        let (oid, name, index) = (key.oid, key.name.as_str(), key.index);
        let (columns, foreign) = (key.columns.clone(), Some(key));
        out.push(Constraint { oid, name, kind: "f", index, columns, foreign, expression });
    }
    out
}

/// Returns the letter that `pg_constraint` has for an action.
pub(super) fn action_code(action: KeyAction) -> &'static str {
    match action {
        KeyAction::NoAction => "a",
        KeyAction::Restrict => "r",
        KeyAction::Cascade => "c",
        KeyAction::SetNull => "n",
        KeyAction::SetDefault => "d",
    }
}

/// Returns the words of an action.
pub(super) fn action_words(action: KeyAction) -> &'static str {
    match action {
        KeyAction::NoAction => "NO ACTION",
        KeyAction::Restrict => "RESTRICT",
        KeyAction::Cascade => "CASCADE",
        KeyAction::SetNull => "SET NULL",
        KeyAction::SetDefault => "SET DEFAULT",
    }
}

fn column_names(table: &Table, numbers: &[i16]) -> String {
    let names: Vec<_> = numbers.iter().map(|number| column_name(table, *number)).collect();
    names.join(", ")
}

/// Returns the text of a foreign key of a table; `name` gives the name of the referenced one.
fn foreign_key(
    catalog: &Catalog,
    table: &Table,
    key: &ForeignKey,
    name: impl Fn(&Table) -> String,
) -> Option<String> {
    let referenced = catalog.table(key.references)?;
    let mut text = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        column_names(table, &key.columns),
        name(referenced),
        column_names(referenced, &key.referenced)
    );
    if key.matching == KeyMatch::Full {
        text.push_str(" MATCH FULL");
    }
    for (verb, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if action != KeyAction::NoAction {
            text.push_str(&format!(" ON {verb} {}", action_words(action)));
        }
    }
    Some(text)
}

fn column_name(table: &Table, number: i16) -> String {
    let found = table.columns.iter().find(|column| column.number == number);
    found.map_or_else(String::new, |column| quote_ident(&column.name))
}

/// Returns the columns of a key, with their order where it is not the plain one.
fn columns(table: &Table, parts: &[IndexPart]) -> String {
    let text = |part: &IndexPart| {
        let name = column_name(table, part.column);
        let order = match (part.descending, part.nulls_first) {
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
        columns(table, parts)
    ))
}

/// Returns the name of one column of an index, from 1.
pub(super) fn index_column(catalog: &Catalog, oid: u32, at: usize) -> Option<String> {
    let table = catalog.table_of_index(oid)?;
    let part = table.index_parts(oid)?.get(at.checked_sub(1)?)?;
    Some(column_name(table, part.column))
}

/// Returns the text of a constraint as ALTER TABLE ADD takes it; `name` gives the name of a referenced table.
pub(super) fn constraint(
    catalog: &Catalog,
    oid: u32,
    name: impl Fn(&Table) -> String,
) -> Option<String> {
    for table in catalog.tables() {
        let Some(found) = constraint_names(table).into_iter().find(|found| found.oid == oid) else {
            continue;
        };
        if let Some(key) = found.foreign {
            return foreign_key(catalog, table, key, name);
        }
        let names = column_names(table, &found.columns);
        return Some(match found.kind {
            "p" => format!("PRIMARY KEY ({names})"),
            "u" => format!("UNIQUE ({names})"),
            _ => format!("CHECK ({})", found.expression.unwrap_or_default()),
        });
    }
    None
}
