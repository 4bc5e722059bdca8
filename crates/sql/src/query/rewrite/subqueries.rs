//! Subqueries beside IN, ANY and ALL.
//!
//! 1. A subquery that is compared as a set keeps all its rows: [`protect`] hides it from the rewriting of
//!    subqueries that are values.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins, UnaryOperator,
};
use relational::{Error, Result, SqlState};

use super::calls::call;
use super::sets::select_of;
use super::syntax::{binary, not_if};

/// Lets a minus bind closer than `^`, as PostgreSQL does.
pub(super) fn bind_minus(expr: &mut Expr) {
    let Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr else { return };
    let Expr::BinaryOp { op: BinaryOperator::PGExp, .. } = inner.as_ref() else { return };
    let mut power = std::mem::replace(inner.as_mut(), Expr::Wildcard(hidden()));
    let mut base = &mut power;
    while let Expr::BinaryOp { left, op: BinaryOperator::PGExp, .. } = base {
        base = left.as_mut();
    }
    let inner = Box::new(std::mem::replace(base, Expr::Wildcard(hidden())));
    *base = Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner };
    *expr = power;
}

/// Hides the subquery of ANY or ALL as one of EXISTS, until its operator is rewritten.
pub(super) fn protect(expr: &mut Expr) {
    let (Expr::AnyOp { right, .. } | Expr::AllOp { right, .. }) = expr else { return };
    while let Expr::Nested(inner) = right.as_mut() {
        *right = std::mem::replace(inner, Box::new(Expr::Wildcard(hidden())));
    }
    if let Expr::Subquery(query) = right.as_mut() {
        let subquery = std::mem::replace(query, Box::new(crate::query::empty_query()));
        **right = Expr::Exists { subquery, negated: false };
    }
}

fn hidden() -> datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken {
    datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty()
}

/// Returns the subquery that [`protect`] hid.
pub(super) fn unprotected(expr: Expr) -> Expr {
    match expr {
        Expr::Exists { subquery, negated: false } => Expr::Subquery(subquery),
        other => other,
    }
}

/// Returns `left IN (subquery)`, or its opposite.
pub(super) fn within(left: Expr, right: Expr, negated: bool) -> Expr {
    match unprotected(right) {
        Expr::Subquery(subquery) => Expr::InSubquery { expr: Box::new(left), subquery, negated },
        other => not_if(negated, binary(left, BinaryOperator::Eq, other)),
    }
}

/// Returns IN over a subquery. Rows are compared column by column, in a subquery of truth values.
pub(super) fn in_rows(expr: Expr, subquery: Box<Query>, negated: bool) -> Result<Expr> {
    let Expr::Tuple(parts) = expr else {
        return Ok(Expr::InSubquery { expr: Box::new(expr), subquery, negated });
    };
    if let SetExpr::Select(select) = subquery.body.as_ref() {
        let wild = |item: &SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        };
        let count = select.projection.len();
        if !select.projection.iter().any(wild) && count != parts.len() {
            let what = if count > parts.len() { "many" } else { "few" };
            let message = format!("subquery has too {what} columns");
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    let table = Ident::with_quote('"', "\u{1}rows");
    let names: Vec<Ident> =
        (0..parts.len()).map(|at| Ident::with_quote('"', format!("\u{1}c{at}"))).collect();
    let pairs = parts.into_iter().zip(&names).map(|(part, name)| {
        let column = Expr::CompoundIdentifier(vec![table.clone(), name.clone()]);
        binary(part, BinaryOperator::Eq, column)
    });
    let truth = pairs.reduce(|left, right| binary(left, BinaryOperator::And, right));
    let truth = truth.ok_or_else(|| Error::unsupported("empty rows are not supported"))?;
    let alias = Ident::with_quote('"', "truth");
    let mut select = select_of(vec![SelectItem::ExprWithAlias { expr: truth, alias }]);
    let columns = names.into_iter().map(|name| TableAliasColumnDef { name, data_type: None });
    let alias = TableAlias { explicit: true, name: table, columns: columns.collect(), at: None };
    let (lateral, sample) = (false, None);
    let relation = TableFactor::Derived { lateral, subquery, alias: Some(alias), sample };
    select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    let mut query = crate::query::empty_query();
    query.body = Box::new(SetExpr::Select(Box::new(select)));
    Ok(not_if(negated, call("__any_of", vec![Expr::Subquery(Box::new(query))])))
}
