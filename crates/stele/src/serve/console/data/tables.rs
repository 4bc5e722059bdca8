//! Lists of tables, and one table's schema.

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::params::Params;
use super::{of_store, schema};
use axum::Json;
use axum::extract::{RawQuery, State};
use serde_json::{Value, json};
use std::sync::Arc;
use table::{ChangeStreams, Store};

const TABLES_MAX: usize = 500;

/// Answers with the tables whose instance the visitor may list, in order of name: those after the name
/// `after` whose name has the text `filter` in it.
pub(in super::super) async fn list(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Failure> {
    let params = Params::of(query, &["after", "filter"])?;
    let store = console.server.store().ok_or_else(Failure::opening)?;
    let (after, filter) = (params.text("after"), params.text("filter").unwrap_or_default());
    let tables = store.list_tables("").await.map_err(of_store)?;
    let mut allowed = Listed::new(&visitor);
    let mut tables = tables.iter().filter(|table| {
        let name = table.name.as_str();
        after.is_none_or(|after| name > after) && name.contains(filter) && allowed.has(name)
    });
    let page: Vec<_> = tables.by_ref().take(TABLES_MAX).collect();
    let more = tables.next().is_some();
    let told = page.iter().map(|table| {
        json!({
            "name": table.name.as_str(),
            "families": table.families.len(),
            "tablets": table.tablets.len(),
        })
    });
    Ok(Json(json!({ "tables": told.collect::<Vec<_>>(), "more": more })))
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
) -> Result<Json<Value>, Failure> {
    let params = Params::of(query, &["name"])?;
    let name = params.required("name")?;
    let table = bigtable::table_name("name", name).map_err(of_store)?;
    visitor.needs_on("bigtable.tables.get", name)?;
    let store = console.server.store().ok_or_else(Failure::opening)?;
    let schema = store.get_table(&table).await.map_err(of_store)?;
    let retention = store.change_retention(&table).map_err(of_store)?;
    let mut told = schema::told(&schema);
    told["change_retention_seconds"] = json!(retention.map(|kept| kept.as_secs()));
    Ok(Json(told))
}
