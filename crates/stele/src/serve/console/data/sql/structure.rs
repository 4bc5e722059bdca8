//! The structure of one relation: columns, keys, indexes, constraints, sizes.
//!
//! Invariants:
//! 1. Texts and names of an answer take of one allowance, indexes and constraints before columns. What has no
//!    room is cut with a mark, or said in `more`. Columns are all told.
//! 2. What a declared Bigtable table reads is told to those who may see the schema of that table.

use super::super::super::Console;
use super::super::super::request::failure::Failure;
use super::super::super::request::guard::Visitor;
use super::super::super::request::params::Params;
use super::super::super::request::shown::Allowance;
use super::super::super::request::work::answer;
use super::{GET_TABLE, LIST, check_passwords, database, missing, oid};
use ::relational::catalog::{
    Check, Column, ForeignKey, Index, IndexPart, TablePart, ViewDefinition, WideSource, WideTable,
};
use ::relational::{Catalog, Table, catalog};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::sync::Arc;

/// Bytes of an expression or a comment that are told, and of the query of a view.
const TEXT_BYTES_MAX: usize = 2 << 10;
const QUERY_BYTES_MAX: usize = 64 << 10;
/// Bytes of all texts, and of the names in indexes and constraints.
const TEXTS_BYTES_MAX: usize = 1 << 20;
/// Constraints of each kind, and indexes, that are told.
const PARTS_MAX: usize = 500;
/// Room that a name takes beside its bytes.
const NAME_ROOM: usize = 32;

/// Answers with the structure of the relation `oid`: a table, also by the number of one of its indexes, a
/// view, or a declared Bigtable table.
pub(in super::super::super) async fn table(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["oid"])?;
    let oid = oid(&params)?;
    visitor.needs(LIST)?;
    let database = database(&console)?;
    let place = console.reads.take()?;
    let told = move || -> Result<_, Failure> {
        let catalog = database.catalog();
        check_passwords(&catalog, &visitor)?;
        told(&catalog, oid, &visitor).ok_or_else(|| missing(oid))
    };
    answer(place, told).await
}

fn told(catalog: &Catalog, oid: u32, visitor: &Visitor) -> Option<Value> {
    let mut left = Allowance::of(TEXTS_BYTES_MAX);
    let mut told = match catalog.relation(oid)? {
        catalog::Relation::Table(table) | catalog::Relation::Index(_, table) => {
            of_table(catalog, &table, &mut left)
        }
        catalog::Relation::View(view) => of_view(catalog, &view, &mut left),
        catalog::Relation::Wide(wide) if !wide.has_cells() => {
            of_wide(catalog, &wide, visitor, &mut left)
        }
        catalog::Relation::Wide(_) | catalog::Relation::Sequence(_) => return None,
    };
    told["database"] = json!(catalog.database);
    Some(told)
}

fn of_table(catalog: &Catalog, table: &Table, left: &mut Allowance) -> Value {
    let comment = text(table.comment.as_ref(), left);
    let rows_bytes = table.bytes_of_rows();
    let key = table.primary_key.as_ref().map(|key| {
        json!({
            "name": key.name,
            "columns": parts(table, &key.parts, left),
            "bytes": rows_bytes,
            "key_prefix": prefix(table, TablePart::Rows),
        })
    });
    let (indexes, more_indexes) = some(&table.indexes, left, |one, left| index(table, one, left));
    let (foreign_keys, more_foreign_keys) =
        some(&table.foreign_keys, left, |one, left| foreign_key(catalog, table, one, left));
    let (checks, more_checks) = some(&table.checks, left, check);
    let columns: Vec<Value> = table.columns.iter().map(|one| column(one, left)).collect();
    let place = table.place_of(TablePart::All).ok();
    json!({
        "oid": table.oid,
        "kind": "table",
        "schema": schema_name(catalog, table.schema),
        "name": table.name,
        "owner": owner_name(catalog, table.owner),
        "comment": comment,
        "columns": columns,
        "primary_key": key,
        "indexes": indexes,
        "checks": checks,
        "foreign_keys": foreign_keys,
        "more": {
            "indexes": more_indexes,
            "checks": more_checks,
            "foreign_keys": more_foreign_keys,
        },
        "tree": place.as_ref().map(|place| place.tree.0),
        "is_shared": place.is_some_and(|place| place.is_shared),
        "bytes": table.bytes(),
        "rows_bytes": rows_bytes,
    })
}

/// Tells parts of a table while there is room. Returns also whether there are more.
fn some<T>(
    all: &[T],
    left: &mut Allowance,
    mut tell: impl FnMut(&T, &mut Allowance) -> Value,
) -> (Vec<Value>, bool) {
    let mut told = Vec::new();
    for one in all.iter().take(PARTS_MAX) {
        if left.is_spent() {
            break;
        }
        told.push(tell(one, left));
    }
    let more = told.len() < all.len();
    (told, more)
}

fn column(of: &Column, left: &mut Allowance) -> Value {
    json!({
        "name": of.name,
        "type": of.data_type.to_string(),
        "not_null": of.not_null,
        "default": text(of.default.as_ref(), left),
        "generated": text(of.generated.as_ref(), left),
        "is_identity": of.identity.is_some(),
        "comment": text(of.comment.as_ref(), left),
    })
}

fn index(table: &Table, of: &Index, left: &mut Allowance) -> Value {
    json!({
        "oid": of.oid,
        "name": name(&of.name, left),
        "unique": of.unique,
        "is_constraint": of.constraint.is_some(),
        "is_ready": of.ready,
        "columns": parts(table, &of.parts, left),
        "bytes": table.bytes_of_index(of.oid),
        "key_prefix": prefix(table, TablePart::Index(of.oid)),
    })
}

fn check(of: &Check, left: &mut Allowance) -> Value {
    let expression = left.text(&of.expression, TEXT_BYTES_MAX);
    json!({"name": name(&of.name, left), "expression": expression})
}

/// Returns the columns of a key with their order, where it is not the usual one.
fn parts(table: &Table, parts: &[IndexPart], left: &mut Allowance) -> Vec<Value> {
    let told = parts.iter().map(|part| {
        let order = match (part.descending, part.nulls_first) {
            (false, false) => "",
            (false, true) => "NULLS FIRST",
            (true, true) => "DESC",
            (true, false) => "DESC NULLS LAST",
        };
        json!({"name": name(column_name(table, part.column), left), "order": order})
    });
    told.collect()
}

fn foreign_key(catalog: &Catalog, table: &Table, key: &ForeignKey, left: &mut Allowance) -> Value {
    let other = catalog.table(key.references);
    json!({
        "name": name(&key.name, left),
        "columns": column_names(table, &key.columns, left),
        "references": key.references,
        "schema": other.map(|other| schema_name(catalog, other.schema)),
        "table": other.map(|other| &other.name),
        "referenced": other.map(|other| column_names(other, &key.referenced, left)),
    })
}

fn of_view(catalog: &Catalog, view: &ViewDefinition, left: &mut Allowance) -> Value {
    let columns = view.columns.iter();
    let columns = columns.map(|(name, of)| json!({"name": name, "type": of.to_string()}));
    json!({
        "oid": view.oid,
        "kind": "view",
        "schema": schema_name(catalog, view.schema),
        "name": view.name,
        "owner": owner_name(catalog, view.owner),
        "comment": text(view.comment.as_ref(), left),
        "columns": columns.collect::<Vec<_>>(),
        "query": left.text(&view.query, QUERY_BYTES_MAX),
    })
}

fn of_wide(catalog: &Catalog, wide: &WideTable, visitor: &Visitor, left: &mut Allowance) -> Value {
    let may_see = visitor.may_on(GET_TABLE, &wide.table);
    let comment = text(wide.comment.as_ref(), left);
    let columns = wide.columns.iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.data_type.to_string(),
            "not_null": column.not_null,
            "source": may_see.then(|| source(&column.source, left)),
        })
    });
    let columns: Vec<Value> = columns.collect();
    json!({
        "oid": wide.oid,
        "kind": "bigtable table",
        "schema": schema_name(catalog, wide.schema),
        "name": wide.name,
        "owner": owner_name(catalog, wide.owner),
        "comment": comment,
        "columns": columns,
        "table": may_see.then_some(&wide.table),
    })
}

/// Returns the part of a Bigtable row that a column has the values of.
fn source(of: &WideSource, left: &mut Allowance) -> String {
    match of {
        WideSource::Key => "row key".to_owned(),
        WideSource::Family => "family of the cell".to_owned(),
        WideSource::Qualifier => "qualifier of the cell".to_owned(),
        WideSource::Timestamp => "timestamp of the cell".to_owned(),
        WideSource::Value => "value of the cell".to_owned(),
        WideSource::Newest { family, qualifier } => {
            let qualifier = String::from_utf8_lossy(qualifier);
            format!("newest cell of {family}:{}", left.text(&qualifier, TEXT_BYTES_MAX))
        }
    }
}

fn column_name(table: &Table, number: i16) -> &str {
    let place = table.place(number);
    place.and_then(|place| table.columns.get(place)).map_or("", |column| column.name.as_str())
}

fn column_names<'a>(table: &'a Table, numbers: &[i16], left: &mut Allowance) -> Vec<&'a str> {
    numbers.iter().map(|number| name(column_name(table, *number), left)).collect()
}

/// Returns a name, which is short, and takes its room.
fn name<'a>(name: &'a str, left: &mut Allowance) -> &'a str {
    left.take(name.len() + NAME_ROOM);
    name
}

/// Returns the beginning of a text, if there is one.
fn text(text: Option<&String>, left: &mut Allowance) -> Option<String> {
    text.map(|text| left.text(text, TEXT_BYTES_MAX))
}

fn schema_name(catalog: &Catalog, schema: u32) -> &str {
    catalog.schema(schema).map_or("", |schema| schema.name.as_str())
}

fn owner_name(catalog: &Catalog, owner: u32) -> &str {
    catalog.role(owner).map_or("", |role| role.name.as_str())
}

/// Returns the bytes that begin the keys of a part in its tree, as base64url.
fn prefix(table: &Table, part: TablePart) -> Option<String> {
    let place = table.place_of(part).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(place.rows.start))
}
