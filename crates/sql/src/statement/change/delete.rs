//! DELETE: of rows of one table, which other tables may choose.

use super::found::{Finder, Found, changed_table, needs_query};
use super::returning::reads_row;
use super::{References, Returning, Target, check_of_rows};
use crate::statement::bind::Binder;
use crate::statement::{Column, Environment, Output, Rows, Run};
use datafusion::sql::sqlparser::ast::{self, FromTable};
use relational::catalog::{Privileges, Relation};
use relational::{DataType, Error, LockMode, Oid, Result, SqlState};
use std::sync::Arc;

/// A planned DELETE, to be started any number of times.
pub(crate) struct Delete {
    target: Target,
    finder: Finder,
    returning: Option<Returning>,
}

impl Delete {
    /// Returns the number of the table.
    pub(crate) fn table(&self) -> Oid {
        self.target.table.oid
    }

    /// Plans a DELETE of one table.
    pub(crate) fn plan(
        environment: &Environment<'_>,
        text: &Arc<str>,
        delete: &ast::Delete,
        params: &mut Vec<DataType>,
    ) -> Result<Self> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = from.as_slice() else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "DELETE takes one table"));
        };
        if !delete.tables.is_empty() || delete.limit.is_some() || !delete.order_by.is_empty() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "this form of DELETE is not SQL"));
        }
        let (table, alias) = changed_table(environment, text, from)?;
        let relation = Relation::Table(Arc::clone(&table));
        environment.check(&relation, Privileges::DELETE)?;
        check_of_rows(&table, "DELETE")?;
        let is_returned = delete.returning.iter().flatten().any(reads_row);
        if delete.selection.is_some() || is_returned {
            environment.check(&relation, Privileges::SELECT)?;
        }
        let target = Target::of(environment, &table)?;
        let returning = match &delete.returning {
            None => None,
            Some(list) => {
                let mut binder = Binder::of_table(environment, text, &table, &alias, params);
                Some(Returning::bind(&mut binder, &table, &alias, list)?)
            }
        };
        let condition = delete.selection.as_ref();
        let mut guessed = params.clone();
        let by_access = match &delete.using {
            Some(_) => None,
            None => {
                let mut binder = Binder::of_table(environment, text, &table, &alias, &mut guessed);
                match Finder::by_access(&mut binder, &table, &alias, condition) {
                    Err(error) if needs_query(&error) => None,
                    found => Some(found?),
                }
            }
        };
        let finder = match by_access {
            Some(finder) => {
                *params = guessed;
                finder
            }
            None => {
                let mut all = vec![from.clone()];
                all.extend(delete.using.iter().flatten().cloned());
                let target = (&table, alias.as_str());
                Finder::by_query(environment, text, target, all, condition, Vec::new(), params)?
            }
        };
        Ok(Self { target, finder, returning })
    }

    /// Returns the columns of RETURNING.
    pub(crate) fn columns(&self) -> Option<Arc<[Column]>> {
        self.returning.as_ref().map(Returning::columns)
    }

    /// Returns the plan as lines of text.
    pub(crate) fn explain(&self) -> Vec<String> {
        let mut lines = vec![format!("Delete on {}", self.target.table.name)];
        lines.extend(self.finder.explain().into_iter().map(|line| format!("  ->  {line}")));
        lines
    }

    /// Deletes the rows that the plan finds.
    pub(crate) async fn start(&self, run: &mut Run<'_>) -> Result<Output> {
        let found = self.finder.find(run, &self.target, LockMode::Update).await?;
        let (mut count, mut returned) = (0, Returning::kept());
        let mut references = References::of(run, self.target.table.oid);
        for Found { row, .. } in found {
            run.flag.check()?;
            if let Some(returning) = &self.returning {
                returned.push(returning.row(&row, &run.eval())?)?;
            }
            run.transaction.delete(self.target.table.oid, &row).await?;
            references.deleted(&row)?;
            count += 1;
        }
        references.finish(run).await?;
        let tag = format!("DELETE {count}");
        Ok(match self.columns() {
            Some(columns) => Output::Rows(Box::new(Rows::ready(columns, returned.rows(), &tag))),
            None => Output::Done(tag),
        })
    }
}
