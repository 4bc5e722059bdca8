//! The LSM tree of a table of SQL, or the files of it that have entries of one of its indexes.

use super::super::super::Console;
use super::super::super::request::failure::Failure;
use super::super::super::request::guard::Visitor;
use super::super::super::request::params::Params;
use super::super::super::request::shown::Allowance;
use super::super::super::request::work::answer;
use super::super::of_store;
use super::super::tree::{Drawn, KEYS_BYTES_MAX, drawn};
use super::{READ, check_passwords, database, number, of_sql, oid, table_of};
use ::relational::catalog::TablePart;
use ::relational::{Database, Table};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;

/// Indexes that one answer tells of.
const INDEXES_MAX: usize = 500;

/// An index of the table.
#[derive(Debug, Serialize)]
struct IndexView {
    oid: u32,
    name: String,
    bytes: u64,
}

/// The tree that has the rows and indexes of a table.
#[derive(Debug, Serialize)]
struct TreeView {
    schema: String,
    name: String,
    /// Number of the tree of the engine.
    tree: u32,
    /// True if other tables are in the same tree: on a node of a cluster.
    is_shared: bool,
    indexes: Vec<IndexView>,
    /// Number of indexes, of which the first are told.
    index_count: usize,
    #[serde(flatten)]
    drawn: Drawn,
}

/// Answers with the tree of the table `oid`, or with the files that have entries of `index` if the request
/// names one. The keys of files are keys of rows, so the visitor must be one who may read them.
pub(in super::super::super) async fn tree(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["oid", "index"])?;
    let (oid, index) = (oid(&params)?, number(&params, "index")?);
    visitor.needs("stele.compactions.get")?;
    visitor.needs(READ)?;
    let database = database(&console)?;
    let place = console.reads.take()?;
    let told = move || -> Result<_, Failure> {
        let catalog = database.catalog();
        check_passwords(&catalog, &visitor)?;
        let table = table_of(&catalog, oid)?;
        let schema = catalog.schema(table.schema).map_or("", |schema| schema.name.as_str());
        told(&database, schema, table, index)
    };
    answer(place, told).await
}

fn told(
    database: &Database,
    schema: &str,
    table: &Table,
    index: Option<u32>,
) -> Result<TreeView, Failure> {
    let part = index.map_or(TablePart::All, TablePart::Index);
    let place = table.place_of(part).map_err(|error| of_sql(&error))?;
    let mut left = Allowance::of(KEYS_BYTES_MAX);
    let drawn = drawn(database.engine(), place.tree, &place.rows, &mut left);
    let drawn = drawn.map_err(|error| of_store(::table::Error::from(error)))?;
    let indexes = table.indexes.iter().take(INDEXES_MAX).map(|index| IndexView {
        oid: index.oid,
        name: index.name.clone(),
        bytes: table.bytes_of_index(index.oid),
    });
    Ok(TreeView {
        schema: schema.to_owned(),
        name: table.name.clone(),
        tree: place.tree.0,
        is_shared: place.is_shared,
        indexes: indexes.collect(),
        index_count: table.indexes.len(),
        drawn,
    })
}
