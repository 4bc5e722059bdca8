//! The structure of one relation: columns, keys, indexes, constraints, sizes.

use super::super::super::Console;
use super::super::super::request::failure::Failure;
use super::super::super::request::guard::Visitor;
use super::super::super::request::params::Params;
use super::super::super::request::work::answer;
use super::{LIST, check_passwords, database, missing, oid};
use ::relational::catalog::{ForeignKey, IndexPart, ViewDefinition, WideSource, WideTable};
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
/// Constraints of each kind, and indexes, that are told.
const PARTS_MAX: usize = 500;

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
        told(&catalog, oid).ok_or_else(|| missing(oid))
    };
    answer(place, told).await
}

fn told(catalog: &Catalog, oid: u32) -> Option<Value> {
    let mut told = match catalog.relation(oid)? {
        catalog::Relation::Table(table) | catalog::Relation::Index(_, table) => {
            of_table(catalog, &table)
        }
        catalog::Relation::View(view) => of_view(catalog, &view),
        catalog::Relation::Wide(wide) if !wide.has_cells() => of_wide(catalog, &wide),
        catalog::Relation::Wide(_) | catalog::Relation::Sequence(_) => return None,
    };
    told["database"] = json!(catalog.database);
    Some(told)
}

fn of_table(catalog: &Catalog, table: &Table) -> Value {
    let columns = table.columns.iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.data_type.to_string(),
            "not_null": column.not_null,
            "default": column.default.as_deref().map(|text| cut(text, TEXT_BYTES_MAX)),
            "generated": column.generated.as_deref().map(|text| cut(text, TEXT_BYTES_MAX)),
            "is_identity": column.identity.is_some(),
            "comment": column.comment.as_deref().map(|text| cut(text, TEXT_BYTES_MAX)),
        })
    });
    let indexes: u64 = table.indexes.iter().map(|index| table.bytes_of_index(index.oid)).sum();
    let bytes = table.bytes();
    let key = table.primary_key.as_ref().map(|key| {
        json!({
            "name": key.name,
            "columns": parts(table, &key.parts),
            "bytes": bytes.saturating_sub(indexes),
            "key_prefix": prefix(table.layout.key.prefix()),
        })
    });
    let checks = table.checks.iter().take(PARTS_MAX).map(
        |check| json!({"name": check.name, "expression": cut(&check.expression, TEXT_BYTES_MAX)}),
    );
    let foreign_keys = table.foreign_keys.iter().take(PARTS_MAX);
    json!({
        "oid": table.oid,
        "kind": "table",
        "schema": schema_name(catalog, table.schema),
        "name": table.name,
        "owner": owner_name(catalog, table.owner),
        "comment": table.comment.as_deref().map(|text| cut(text, TEXT_BYTES_MAX)),
        "columns": columns.collect::<Vec<_>>(),
        "primary_key": key,
        "indexes": indexes_of(table),
        "checks": checks.collect::<Vec<_>>(),
        "foreign_keys": foreign_keys.map(|key| foreign_key(catalog, table, key)).collect::<Vec<_>>(),
        "tree": table.tree,
        "bytes": bytes,
        "rows_bytes": bytes.saturating_sub(indexes),
    })
}

fn indexes_of(table: &Table) -> Vec<Value> {
    let layouts = table.indexes.iter().zip(&table.layout.indexes).take(PARTS_MAX);
    let told = layouts.map(|(index, layout)| {
        json!({
            "oid": index.oid,
            "name": index.name,
            "unique": index.unique,
            "is_constraint": index.constraint.is_some(),
            "is_ready": index.ready,
            "columns": parts(table, &index.parts),
            "bytes": table.bytes_of_index(index.oid),
            "key_prefix": prefix(layout.codec.prefix()),
        })
    });
    told.collect()
}

/// Returns the columns of a key with their order, where it is not the usual one.
fn parts(table: &Table, parts: &[IndexPart]) -> Vec<Value> {
    let told = parts.iter().map(|part| {
        let order = match (part.descending, part.nulls_first) {
            (false, false) => "",
            (false, true) => "NULLS FIRST",
            (true, true) => "DESC",
            (true, false) => "DESC NULLS LAST",
        };
        json!({"name": column_name(table, part.column), "order": order})
    });
    told.collect()
}

fn foreign_key(catalog: &Catalog, table: &Table, key: &ForeignKey) -> Value {
    let other = catalog.table(key.references);
    json!({
        "name": key.name,
        "columns": column_names(table, &key.columns),
        "references": key.references,
        "schema": other.map(|other| schema_name(catalog, other.schema)),
        "table": other.map(|other| &other.name),
        "referenced": other.map(|other| column_names(other, &key.referenced)),
    })
}

fn of_view(catalog: &Catalog, view: &ViewDefinition) -> Value {
    let columns = view.columns.iter();
    let columns = columns.map(|(name, of)| json!({"name": name, "type": of.to_string()}));
    json!({
        "oid": view.oid,
        "kind": "view",
        "schema": schema_name(catalog, view.schema),
        "name": view.name,
        "owner": owner_name(catalog, view.owner),
        "comment": view.comment.as_deref().map(|text| cut(text, TEXT_BYTES_MAX)),
        "columns": columns.collect::<Vec<_>>(),
        "query": cut(&view.query, QUERY_BYTES_MAX),
    })
}

fn of_wide(catalog: &Catalog, wide: &WideTable) -> Value {
    let columns = wide.columns.iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.data_type.to_string(),
            "not_null": column.not_null,
            "source": source(&column.source),
        })
    });
    json!({
        "oid": wide.oid,
        "kind": "bigtable table",
        "schema": schema_name(catalog, wide.schema),
        "name": wide.name,
        "owner": owner_name(catalog, wide.owner),
        "comment": wide.comment.as_deref().map(|text| cut(text, TEXT_BYTES_MAX)),
        "columns": columns.collect::<Vec<_>>(),
        "table": wide.table,
    })
}

/// Returns the part of a Bigtable row that a column has the values of.
fn source(of: &WideSource) -> String {
    match of {
        WideSource::Key => "row key".to_owned(),
        WideSource::Family => "family of the cell".to_owned(),
        WideSource::Qualifier => "qualifier of the cell".to_owned(),
        WideSource::Timestamp => "timestamp of the cell".to_owned(),
        WideSource::Value => "value of the cell".to_owned(),
        WideSource::Newest { family, qualifier } => {
            let qualifier = String::from_utf8_lossy(qualifier);
            format!("newest cell of {family}:{}", cut(&qualifier, TEXT_BYTES_MAX))
        }
    }
}

fn column_name(table: &Table, number: i16) -> &str {
    let place = table.place(number);
    place.and_then(|place| table.columns.get(place)).map_or("", |column| column.name.as_str())
}

fn column_names<'a>(table: &'a Table, numbers: &[i16]) -> Vec<&'a str> {
    numbers.iter().map(|number| column_name(table, *number)).collect()
}

fn schema_name(catalog: &Catalog, schema: u32) -> &str {
    catalog.schema(schema).map_or("", |schema| schema.name.as_str())
}

fn owner_name(catalog: &Catalog, owner: u32) -> &str {
    catalog.role(owner).map_or("", |role| role.name.as_str())
}

/// Returns the bytes that begin the keys of a part of a tree, as base64url.
fn prefix(bytes: [u8; 2]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the beginning of a text, with a mark if there is more.
fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{} …", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc …");
        assert_eq!(cut("aéé", 4), "aé …");
    }
}
