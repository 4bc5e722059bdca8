//! The list of relations: tables, their indexes, views, and declared Bigtable tables.

use super::super::super::Console;
use super::super::super::request::failure::Failure;
use super::super::super::request::guard::Visitor;
use super::super::super::request::params::Params;
use super::super::super::request::work::answer;
use super::{GET_TABLE, LIST, check_passwords, database};
use ::relational::catalog::{Index, ViewDefinition, WideTable};
use ::relational::{Catalog, Table};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;

const RELATIONS_MAX: usize = 500;

/// A page of the list of relations.
#[derive(Debug, Serialize)]
struct RelationsView {
    database: String,
    relations: Vec<RelationView>,
    /// True if more relations follow.
    more: bool,
}

/// A relation of a list.
#[derive(Debug, Serialize)]
struct RelationView {
    oid: u32,
    schema: String,
    name: String,
    kind: &'static str,
    /// The table of an index, or the Bigtable table of a declared one, if the visitor may see its schema.
    of: Option<String>,
    columns: usize,
    /// Bytes on disk, about, and those in memory of a table with a tree of its own. Nothing of what has none
    /// of its own, and in a list of tables alone.
    bytes: Option<u64>,
}

/// A relation that may be listed.
#[derive(Clone, Copy)]
enum Relation<'a> {
    Table(&'a Table),
    Index(&'a Table, &'a Index),
    View(&'a ViewDefinition),
    Wide(&'a WideTable),
}

impl<'a> Relation<'a> {
    /// Returns the number of its schema, and its name.
    fn place(self) -> (u32, &'a str) {
        match self {
            Self::Table(table) => (table.schema, table.name.as_str()),
            Self::Index(table, index) => (table.schema, index.name.as_str()),
            Self::View(view) => (view.schema, view.name.as_str()),
            Self::Wide(wide) => (wide.schema, wide.name.as_str()),
        }
    }

    fn told(self, schema: &str, visitor: &Visitor, with_sizes: bool) -> RelationView {
        let (_, name) = self.place();
        let (oid, kind, of, columns) = match self {
            Self::Table(table) => (table.oid, "table", None, table.columns.len()),
            Self::Index(table, index) => {
                (index.oid, "index", Some(table.name.clone()), index.parts.len())
            }
            Self::View(view) => (view.oid, "view", None, view.columns.len()),
            Self::Wide(wide) => {
                let may_see = visitor.may_on(GET_TABLE, &wide.table);
                let of = may_see.then(|| wide.table.clone());
                (wide.oid, "bigtable table", of, wide.columns.len())
            }
        };
        let bytes = if with_sizes { self.bytes() } else { None };
        let (schema, name) = (schema.to_owned(), name.to_owned());
        RelationView { oid, schema, name, kind, of, columns, bytes }
    }

    /// Returns the bytes, if there are any of its own. May read index partitions of SSTables.
    fn bytes(self) -> Option<u64> {
        match self {
            Self::Table(table) => Some(table.bytes()),
            Self::Index(table, index) => Some(table.bytes_of_index(index.oid)),
            Self::View(_) | Self::Wide(_) => None,
        }
    }
}

/// Answers with the relations whose name has the text `filter` in it, in order of schema and name, after
/// the one of `after_schema` and `after`. `kind=table` asks for tables alone, without their sizes.
pub(in super::super::super) async fn list(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["after_schema", "after", "filter", "kind"])?;
    if params.text("kind").is_some_and(|kind| kind != "table") {
        return Err(Failure::parameter("kind", "must be table, or left out"));
    }
    visitor.needs(LIST)?;
    let database = database(&console)?;
    let place = console.reads.take()?;
    let told = move || -> Result<_, Failure> {
        let catalog = database.catalog();
        check_passwords(&catalog, &visitor)?;
        Ok(page(&catalog, &params, &visitor))
    };
    answer(place, told).await
}

fn page(catalog: &Catalog, params: &Params, visitor: &Visitor) -> RelationsView {
    let only_tables = params.text("kind").is_some();
    let filter = params.text("filter").unwrap_or_default();
    let after =
        params.text("after").map(|name| (params.text("after_schema").unwrap_or_default(), name));
    let listed = listed(catalog, only_tables).into_iter();
    let wanted = listed.filter_map(|relation| {
        let (schema, name) = relation.place();
        let schema = catalog.schema(schema)?.name.as_str();
        let is_later = after.is_none_or(|after| (schema, name) > after);
        (is_later && name.contains(filter)).then_some((schema, name, relation))
    });
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort_by_key(|(schema, name, _)| (*schema, *name));
    let more = wanted.len() > RELATIONS_MAX;
    let told = wanted.iter().take(RELATIONS_MAX);
    let relations =
        told.map(|(schema, _, relation)| relation.told(schema, visitor, !only_tables)).collect();
    RelationsView { database: catalog.database.clone(), relations, more }
}

/// Returns the relations that may be listed, in no order. Tables of the store are in the list of Bigtable
/// tables.
fn listed(catalog: &Catalog, only_tables: bool) -> Vec<Relation<'_>> {
    let mut found = Vec::new();
    for table in catalog.tables() {
        found.push(Relation::Table(table));
        if !only_tables {
            let indexes = table.indexes.iter();
            found.extend(indexes.map(|index| Relation::Index(table, index)));
        }
    }
    if !only_tables {
        found.extend(catalog.views().map(|view| Relation::View(view)));
        let declared = catalog.wides().filter(|wide| !wide.has_cells());
        found.extend(declared.map(|wide| Relation::Wide(wide)));
    }
    found
}
