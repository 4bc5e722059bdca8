//! Queries: access to one table by its keys is carried out here, everything else by the query side.
//!
//! Invariants:
//! 1. A query is carried out here only if all of its expressions can be bound here. Then its results
//!    equal the query side's.
//! 2. Rows that are locked are read as the last commit left them, and their condition is tested again.

mod locked;
mod scan;
mod single;

pub(crate) use scan::{Scan, blocking, has_row, scan_all};
pub(crate) use single::explain_access;

use super::explain::Explain;
use super::names::wrong_kind;
use super::{Column, Environment, Output, Rows, Run, Source};
use crate::query;
use datafusion::sql::sqlparser::ast;
use locked::Locked;
use relational::{DataType, Error, Oid, Result};
use single::Single;
use std::sync::Arc;

/// A planned query, to be started any number of times.
pub(crate) struct Select {
    columns: Arc<[Column]>,
    way: Way,
}

enum Way {
    /// Rows of one table, by its keys.
    Single(Box<Single>),
    /// Rows of one table, which are locked.
    Locked(Box<Locked>),
    /// A query of the query side.
    Planned(Box<query::Planned>),
}

impl Select {
    /// Plans a query by keys or by the query side.
    pub(crate) fn plan(
        environment: &Environment<'_>,
        text: &Arc<str>,
        query: &ast::Query,
        params: &mut Vec<DataType>,
    ) -> Result<Self> {
        environment.check_query(query)?;
        if !query.locks.is_empty() {
            let locked = Locked::plan(environment, text, query, params)?;
            return Ok(Self { columns: locked.columns(), way: Way::Locked(Box::new(locked)) });
        }
        let mut guessed = params.clone();
        if let Some(single) = Single::plan(environment, text, query, &mut guessed)
            && single.is_narrow()
        {
            *params = guessed;
            return Ok(Self { columns: single.columns(), way: Way::Single(Box::new(single)) });
        }
        Self::by_query(environment, text, query, params)
    }

    /// Plans a query by the query side, whose tables the caller may read.
    pub(crate) fn by_query(
        environment: &Environment<'_>,
        text: &Arc<str>,
        query: &ast::Query,
        params: &mut [DataType],
    ) -> Result<Self> {
        let planned = super::bind::plan_query(environment, text, query, params)?;
        let columns = super::bind::query_columns(&planned);
        Ok(Self { columns, way: Way::Planned(Box::new(planned)) })
    }

    /// Returns the columns of the rows.
    pub(crate) fn columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.columns)
    }

    /// Returns the number of the table whose rows are locked, if any are.
    pub(crate) fn locked_table(&self) -> Option<Oid> {
        match &self.way {
            Way::Locked(locked) => Some(locked.table()),
            Way::Single(_) | Way::Planned(_) => None,
        }
    }

    /// Starts the query in the snapshot of its statement.
    pub(crate) async fn start(&self, run: &mut Run<'_>) -> Result<Output> {
        Ok(Output::Rows(Box::new(self.rows(run).await?)))
    }

    /// Starts the query, and returns its rows.
    pub(crate) async fn rows(&self, run: &mut Run<'_>) -> Result<Rows> {
        match &self.way {
            Way::Single(single) => single.rows(run).await,
            Way::Locked(locked) => {
                let rows = locked.rows(run).await?;
                Ok(Rows::ready(self.columns(), rows, "SELECT"))
            }
            Way::Planned(planned) => {
                let stream = super::bind::execute_query(planned, run).await?;
                Ok(Rows::of(self.columns(), Source::Stream(stream)))
            }
        }
    }

    /// Returns the plan as lines of text. With ANALYZE the query is carried out.
    pub(crate) async fn explain(&self, explain: Explain, run: &mut Run<'_>) -> Result<Vec<String>> {
        let mut lines = match &self.way {
            Way::Single(single) => single.explain(),
            Way::Locked(locked) => locked.explain(),
            Way::Planned(planned) => {
                return super::bind::explain_query(planned, explain.is_analyzed, run).await;
            }
        };
        if explain.is_analyzed {
            let started = std::time::Instant::now();
            let mut rows = self.rows(run).await?;
            let mut count = 0;
            loop {
                let batch = rows.next(1_000).await?.len();
                if batch == 0 {
                    break;
                }
                count += batch;
            }
            lines.push(format!("Rows: {count}"));
            let time = started.elapsed().as_secs_f64() * 1e3;
            lines.push(format!("Execution Time: {time:.3} ms"));
        }
        Ok(lines)
    }
}

/// Returns the only table of a FROM, with the name that the query gives it; nothing if it is anything else.
pub(crate) fn only_table(
    environment: &Environment<'_>,
    from: &ast::TableWithJoins,
) -> Result<Option<(Arc<relational::catalog::Table>, String)>> {
    use relational::catalog::Relation;
    let ast::TableFactor::Table { name, alias, args: None, sample: None, .. } = &from.relation
    else {
        return Ok(None);
    };
    if !from.joins.is_empty() || alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
        return Ok(None);
    }
    let table = match environment.find(name)? {
        Some(Relation::Table(table)) => table,
        Some(other @ Relation::Index(..)) => return Err(wrong_kind(name, &other, "a table")),
        _ => return Ok(None),
    };
    let alias = alias.as_ref().map(|alias| super::name_of(&alias.name));
    let alias = alias.unwrap_or_else(|| table.name.clone());
    Ok(Some((table, alias)))
}

/// Returns the error of a query whose rows cannot be locked.
pub(crate) fn not_lockable(clause: &str) -> Error {
    Error::unsupported(format!("FOR UPDATE and FOR SHARE are not supported with {clause}"))
}
