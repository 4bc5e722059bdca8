//! WITH before UPDATE and DELETE: its queries go into the queries and the tables of the statement that may name
//! them, each of which computes them for itself.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, SetExpr, Statement, TableAlias, TableFactor, VisitMut, VisitorMut,
    With,
};
use relational::{Error, Result};

use crate::statement::bind::parse_query;

/// Most queries of a statement into which WITH is copied.
const COPIES_MAX: usize = 16;

/// Returns whether a statement is an UPDATE or DELETE behind WITH.
pub(super) fn is_before_change(statement: &Statement) -> bool {
    let Statement::Query(query) = statement else { return false };
    query.with.is_some() && matches!(query.body.as_ref(), SetExpr::Update(_) | SetExpr::Delete(_))
}

/// Returns an UPDATE or DELETE behind WITH as a statement of its own, and other statements as they are. Errors:
/// 0A000 if WITH would have to be copied too often.
pub(super) fn into_parts(statement: Statement) -> Result<Statement> {
    let is_meant = is_before_change(&statement);
    let Statement::Query(query) = statement else { return Ok(statement) };
    let Some(with) = query.with.clone().filter(|_| is_meant) else {
        return Ok(Statement::Query(query));
    };
    let Query { body, .. } = *query;
    let (SetExpr::Update(mut statement) | SetExpr::Delete(mut statement)) = *body else {
        return Err(Error::internal("a statement behind WITH is of no kind"));
    };
    let mut parts = Parts { with, depth: 0, copies: 0 };
    match parts.give(&mut statement) {
        ControlFlow::Continue(()) => Ok(statement),
        ControlFlow::Break(problem) => Err(problem),
    }
}

/// Gives the queries of WITH to the outermost queries of a statement.
struct Parts {
    with: With,
    /// Queries around the place at hand.
    depth: usize,
    copies: usize,
}

impl Parts {
    fn give(&mut self, statement: &mut Statement) -> ControlFlow<Error> {
        match statement {
            Statement::Update(update) => {
                update.assignments.visit(self)?;
                update.from.visit(self)?;
                update.selection.visit(self)
            }
            Statement::Delete(delete) => {
                delete.using.visit(self)?;
                delete.selection.visit(self)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Returns the name of the query of WITH that a table is.
    fn named(&self, table: &ObjectName) -> Option<Ident> {
        let [part] = table.0.as_slice() else { return None };
        let folded = |ident: &Ident| match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_ascii_lowercase(),
        };
        let name = part.as_ident()?;
        let mut all = self.with.cte_tables.iter();
        all.any(|cte| folded(&cte.alias.name) == folded(name)).then(|| name.clone())
    }
}

impl VisitorMut for Parts {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let Some(found) = self.named(name).filter(|_| self.depth == 0) else {
            return ControlFlow::Continue(());
        };
        let subquery = match parse_query(&format!("SELECT * FROM {found}")) {
            Ok(query) => Box::new(query),
            Err(problem) => return ControlFlow::Break(problem),
        };
        let own = TableAlias { explicit: true, name: found, columns: Vec::new(), at: None };
        let alias = Some(alias.take().unwrap_or(own));
        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        if self.depth > 1 {
            return ControlFlow::Continue(());
        }
        self.copies += 1;
        if self.copies > COPIES_MAX {
            let message = format!("WITH before more than {COPIES_MAX} subqueries is not supported");
            return ControlFlow::Break(Error::unsupported(message));
        }
        let mut with = self.with.clone();
        if let Some(own) = query.with.take() {
            let is_hidden = |name: &Ident| own.cte_tables.iter().any(|cte| cte.alias.name == *name);
            with.cte_tables.retain(|cte| !is_hidden(&cte.alias.name));
            with.recursive |= own.recursive;
            with.cte_tables.extend(own.cte_tables);
        }
        query.with = Some(with);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Parsed, parse};

    /// Returns the statement that a text is taken for.
    fn taken(text: &str) -> String {
        match parse(text).unwrap().pop() {
            Some(Parsed::Tree(statement)) => statement.to_string(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn with_goes_into_the_queries_and_tables_of_a_change() {
        for (text, meant) in [
            (
                "WITH q AS (SELECT 1 AS k) UPDATE t SET a = 2 WHERE id IN (SELECT k FROM q)",
                "UPDATE t SET a = 2 WHERE id IN (WITH q AS (SELECT 1 AS k) SELECT k FROM q)",
            ),
            (
                "WITH q AS (SELECT 1 AS k) DELETE FROM t USING q AS z WHERE id = k",
                "DELETE FROM t USING (WITH q AS (SELECT 1 AS k) SELECT * FROM q) AS z WHERE id = k",
            ),
            (
                "WITH q AS (SELECT 1 AS k) UPDATE t SET a = k FROM q, r WHERE id = k",
                "UPDATE t SET a = k FROM (WITH q AS (SELECT 1 AS k) SELECT * FROM q) AS q, r WHERE id = k",
            ),
        ] {
            assert_eq!(taken(text), meant, "{text}");
        }
    }

    #[test]
    fn with_is_not_copied_without_bound() {
        let text = |count: usize| {
            let part = " OR id IN (SELECT k FROM q)".repeat(count);
            format!("WITH q AS (SELECT 1 AS k) DELETE FROM t WHERE false{part}")
        };
        assert!(parse(&text(16)).is_ok());
        assert_eq!(parse(&text(17)).unwrap_err().state.to_string(), "0A000");
    }
}
