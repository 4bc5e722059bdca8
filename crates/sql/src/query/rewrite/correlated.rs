//! Subqueries that are used as values, in a form that DataFusion can take out of the expression.
//!
//! 1. A subquery that may return a second row fails then: it becomes an aggregate. DataFusion runs a
//!    correlated subquery only if it is one, and only if the columns of both sides are compared by `=`.
//! 2. A condition of the outer query alone is asked before: without it the value is NULL. So it is not taken
//!    out of an aggregate.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, Select, SetExpr, TableFactor, Value, visit_expressions,
};
use std::ops::ControlFlow;

use super::calls::call;

/// Returns the value of a subquery.
pub(super) fn value(query: Box<Query>) -> Expr {
    let (mut query, is_single) = super::sets::single_value(query);
    let SetExpr::Select(select) = query.body.as_mut() else { return Expr::Subquery(query) };
    let Some(inner) = names(select) else { return Expr::Subquery(query) };
    let mut conditions = Vec::new();
    if let Some(all) = select.selection.take() {
        split(all, &mut conditions);
    }
    // An aggregate has a value for no rows, too.
    let apart = |condition: &Expr| is_single && is_of_outer(condition, &inner);
    let (outer, own): (Vec<_>, Vec<_>) = conditions.into_iter().partition(apart);
    select.selection = join(own);
    let subquery = Expr::Subquery(query);
    let Some(condition) = join(outer) else { return subquery };
    call("__case", vec![condition, subquery, Expr::value(Value::Null)])
}

/// Returns the names of the relations of a SELECT; nothing if one has no simple name.
fn names(select: &Select) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for table in &select.from {
        for factor in
            std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
        {
            let TableFactor::Table { name, alias, .. } = factor else { return None };
            let last = || name.0.last().and_then(|part| part.as_ident());
            names.push(folded(alias.as_ref().map(|alias| &alias.name).or_else(last)?));
        }
    }
    (!names.is_empty()).then_some(names)
}

fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

fn split(expr: Expr, into: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            split(*left, into);
            split(*right, into);
        }
        Expr::Nested(inner) => split(*inner, into),
        other => into.push(other),
    }
}

fn join(conditions: Vec<Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

/// Returns the relation that a column names; nothing for other expressions.
fn relation_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::CompoundIdentifier(parts) if parts.len() >= 2 => {
            parts.get(parts.len() - 2).map(folded)
        }
        _ => None,
    }
}

/// Returns whether a condition names columns of the outer query, and nothing else that may be the
/// subquery's.
fn is_of_outer(condition: &Expr, inner: &[String]) -> bool {
    let mut columns = 0;
    let flow = visit_expressions(condition, |expr| {
        match expr {
            Expr::Identifier(_)
            | Expr::Subquery(_)
            | Expr::Exists { .. }
            | Expr::InSubquery { .. } => return ControlFlow::Break(()),
            _ => {}
        }
        match relation_of(expr) {
            Some(name) if inner.contains(&name) => return ControlFlow::Break(()),
            Some(_) => columns += 1,
            None => {}
        }
        ControlFlow::Continue(())
    });
    flow.is_continue() && columns > 0
}
