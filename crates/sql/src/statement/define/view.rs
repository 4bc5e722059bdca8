//! Views: queries with names.

use super::new_name;
use crate::statement::bind::{plan_query, query_columns};
use crate::statement::{Run, name_of};
use datafusion::sql::sqlparser::ast::CreateView;
use relational::catalog::Relation;
use relational::{DataType, Error, NewView, Oid, Result, SqlState};
use std::sync::Arc;

/// Carries out a CREATE VIEW.
pub(super) async fn create(
    create: &CreateView,
    text: &Arc<str>,
    run: &mut Run<'_>,
) -> Result<&'static str> {
    if create.materialized {
        return Err(Error::unsupported("materialized views are not supported"));
    }
    if create.temporary {
        return Err(Error::unsupported("temporary views are not supported"));
    }
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let (schema, name) = new_name(&environment, &create.name)?;
    if create.if_not_exists && catalog.find(schema, &name).is_some() {
        run.notice(format!("relation \"{name}\" already exists, skipping"));
        return Ok("CREATE VIEW");
    }
    if let Some(replaced @ Relation::View(_)) = catalog.find(schema, &name)
        && create.or_replace
    {
        environment.check_owner(&replaced)?;
    }
    if !create.query.locks.is_empty() {
        return Err(Error::unsupported("views with FOR UPDATE or FOR SHARE are not supported"));
    }
    let planned = plan_query(&environment, text, &create.query, &mut [])?;
    let found = query_columns(&planned);
    if create.columns.len() > found.len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    let names = create.columns.iter().map(|column| name_of(&column.name));
    let names = names.map(Some).chain(std::iter::repeat(None));
    let columns = found.iter().zip(names).map(|(column, name)| {
        let data_type = match &column.data_type {
            DataType::Unknown => DataType::Text,
            known => known.clone(),
        };
        (name.unwrap_or_else(|| column.name.clone()), data_type)
    });
    let columns: Vec<(String, DataType)> = columns.collect();
    check_names(&columns)?;
    let mut names = planned.reads().to_vec();
    names.sort_by_key(|read| read.oid);
    names.dedup();
    let mut reads: Vec<Oid> = names.iter().map(|read| read.oid).collect();
    reads.dedup();
    let new = NewView {
        schema,
        name,
        owner: run.role()?,
        query: create.query.to_string(),
        columns,
        reads,
        names,
        replace: create.or_replace,
    };
    run.transaction.create_view(new).await?;
    Ok("CREATE VIEW")
}

/// Fails with 42701 if two columns have the same name.
fn check_names(columns: &[(String, DataType)]) -> Result<()> {
    for (at, (name, _)) in columns.iter().enumerate() {
        if columns[..at].iter().any(|(other, _)| other == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}
