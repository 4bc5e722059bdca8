//! Names that a subquery in FROM gives to several of its columns: a reference to such a name is ambiguous.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, SetExpr, TableAlias, TableFactor, TableWithJoins, Visit, Visitor,
};
use relational::{Error, Result, SqlState};

use super::finish;
use super::names::{column_names, folded};

/// A name that a table of FROM has more than once.
struct Repeated {
    table: Option<String>,
    column: String,
}

/// Fails with 42702 if a SELECT names a column that a subquery in its FROM gives more than once. `*` may stand for both.
pub(super) fn check(select: &Select) -> Result<()> {
    let mut repeated = Vec::new();
    select.from.iter().for_each(|from| of_tables(from, &mut repeated));
    if repeated.is_empty() {
        return Ok(());
    }
    let mut references = References { repeated, depth: 0 };
    finish(references.look_at(select))
}

fn of_tables(from: &TableWithJoins, repeated: &mut Vec<Repeated>) {
    let joined = from.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&from.relation).chain(joined) {
        match factor {
            TableFactor::Derived { subquery, alias, .. } => {
                of_subquery(subquery, alias.as_ref(), repeated);
            }
            TableFactor::NestedJoin { table_with_joins, .. } => {
                of_tables(table_with_joins, repeated);
            }
            _ => {}
        }
    }
}

fn of_subquery(subquery: &Query, alias: Option<&TableAlias>, repeated: &mut Vec<Repeated>) {
    let Some(mut names) = names_of(&subquery.body) else { return };
    let given = alias.iter().flat_map(|alias| &alias.columns);
    for (name, column) in names.iter_mut().zip(given) {
        *name = folded(&column.name);
    }
    let table = alias.map(|alias| folded(&alias.name));
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            repeated.push(Repeated { table: table.clone(), column: name.clone() });
        }
    }
}

/// Returns the names of the columns of a query; nothing if they are not written out.
fn names_of(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => column_names(select),
        SetExpr::Query(query) => names_of(&query.body),
        SetExpr::SetOperation { left, .. } => names_of(left),
        _ => None,
    }
}

/// Looks for the names in the expressions of a SELECT, but for the ones of its subqueries, which may mean others.
struct References {
    repeated: Vec<Repeated>,
    /// Queries around the expression, below the SELECT.
    depth: usize,
}

impl References {
    fn look_at(&mut self, select: &Select) -> ControlFlow<Error> {
        select.projection.visit(self)?;
        select.from.visit(self)?;
        select.selection.visit(self)?;
        select.group_by.visit(self)?;
        select.having.visit(self)
    }
}

impl Visitor for References {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<Error> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        let (table, column) = match expr {
            Expr::Identifier(column) if self.depth == 0 => (None, folded(column)),
            Expr::CompoundIdentifier(parts) if self.depth == 0 => match parts.as_slice() {
                [table, column] => (Some(folded(table)), folded(column)),
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        let is_meant =
            |one: &Repeated| one.column == column && (table.is_none() || one.table == table);
        if !self.repeated.iter().any(is_meant) {
            return ControlFlow::Continue(());
        }
        let message = format!("column reference \"{column}\" is ambiguous");
        ControlFlow::Break(Error::new(SqlState::AMBIGUOUS_COLUMN, message))
    }
}
