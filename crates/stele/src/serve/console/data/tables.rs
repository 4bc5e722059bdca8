//! Lists of tables, and one table's schema.

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::params::Params;
use super::super::request::work::{answer, within};
use super::{of_store, schema};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use table::{ChangeStreams, Store, TableSchema};

const TABLES_MAX: usize = 500;

/// A page of the list of tables.
#[derive(Debug, Serialize)]
struct TablesView {
    tables: Vec<TableView>,
    /// True if more tables follow.
    more: bool,
}

/// A table of a list.
#[derive(Debug, Serialize)]
struct TableView {
    name: String,
    families: usize,
    tablets: usize,
}

/// Answers with the tables whose instance the visitor may list, in order of name: those after the name
/// `after` whose name has the text `filter` in it.
pub(in super::super) async fn list(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["after", "filter"])?;
    let store = console.server.store().ok_or_else(Failure::opening)?;
    let place = console.reads.take()?;
    let tables = within(async { store.list_tables("").await.map_err(of_store) }).await?;
    answer(place, move || Ok(page(&tables, &params, &visitor))).await
}

/// Returns the page of the tables that a visitor may list.
fn page(tables: &[Arc<TableSchema>], params: &Params, visitor: &Visitor) -> TablesView {
    let (after, filter) = (params.text("after"), params.text("filter").unwrap_or_default());
    let mut allowed = Listed::new(visitor);
    let mut tables = tables.iter().filter(|table| {
        let name = table.name.as_str();
        after.is_none_or(|after| name > after) && name.contains(filter) && allowed.has(name)
    });
    let told = tables.by_ref().take(TABLES_MAX).map(|table| TableView {
        name: table.name.as_str().to_owned(),
        families: table.families.len(),
        tablets: table.tablets.len(),
    });
    TablesView { tables: told.collect(), more: tables.next().is_some() }
}

/// The instances whose tables a visitor may list. Tables come in order of name, so that one answer of
/// the policy serves all tables of an instance.
struct Listed<'a> {
    visitor: &'a Visitor,
    instance: String,
    allowed: bool,
}

impl<'a> Listed<'a> {
    fn new(visitor: &'a Visitor) -> Self {
        Self { visitor, instance: String::new(), allowed: false }
    }

    fn has(&mut self, table: &str) -> bool {
        let instance = table.split("/tables/").next().unwrap_or_default();
        if self.instance != instance {
            self.allowed = self.visitor.may_on("bigtable.tables.list", instance);
            instance.clone_into(&mut self.instance);
        }
        self.allowed
    }
}

/// Answers with the schema of the table `name`.
pub(in super::super) async fn table(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["name"])?;
    let name = params.required("name")?;
    let table = bigtable::table_name("name", name).map_err(of_store)?;
    visitor.needs_on("bigtable.tables.get", name)?;
    let store = console.server.store().ok_or_else(Failure::opening)?;
    let place = console.reads.take()?;
    let schema = within(async { store.get_table(&table).await.map_err(of_store) }).await?;
    let retention = store.change_retention(&table).map_err(of_store)?;
    let told = move || {
        let mut told = schema::told(&schema);
        told["change_retention_seconds"] = json!(retention.map(|kept| kept.as_secs()));
        Ok(told)
    };
    answer(place, told).await
}
