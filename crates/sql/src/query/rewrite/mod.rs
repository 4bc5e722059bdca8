//! Rewrites the syntax of a query before DataFusion binds it: constructs whose meaning PostgreSQL
//! defines become calls of functions that `bind/` resolves.
//!
//! 1. A rewritten query has the columns of the written one, with PostgreSQL's names. Names that
//!    DataFusion wants unique get a suffix behind [`SUFFIX`], which the result does not show.
//! 2. Numbers that are positions or limits stay numbers.

mod all_rows;
mod calls;
mod correlated;
mod joins;
mod names;
mod repeated;
mod sets;
mod subqueries;
mod syntax;
mod windows;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Fetch, GroupByExpr, LimitClause, OrderByKind, Query, Select, TableFactor, Value,
    VisitMut, VisitorMut,
};
use relational::{Error, Result};

pub(crate) use names::{SUFFIX, Suffixes};
pub(super) use syntax::{balanced, too_large};

/// Rewrites a query in place. Returns whether `suffixes` may make a difference. Errors: 0A000 for syntax that is
/// not supported.
pub(crate) fn rewrite_query(query: &mut Query, suffixes: Suffixes) -> Result<bool> {
    let mut rewriter = Rewriter { suffixes, is_open: false };
    finish(query.visit(&mut rewriter))?;
    syntax::show_names(&mut query.body);
    Ok(rewriter.is_open)
}

/// Rewrites a lone expression in place.
pub(crate) fn rewrite_expr(expr: &mut Expr) -> Result<()> {
    finish(expr.visit(&mut Rewriter { suffixes: Suffixes::Unnamed, is_open: false }))
}

fn finish(flow: ControlFlow<Error>) -> Result<()> {
    match flow {
        ControlFlow::Break(problem) => Err(problem),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rewriter {
    suffixes: Suffixes,
    /// True if a column stands beside a wildcard.
    is_open: bool,
}

impl VisitorMut for Rewriter {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if !query.locks.is_empty() {
            let message = "FOR UPDATE and FOR SHARE are not supported in a subquery or a view";
            return ControlFlow::Break(Error::unsupported(message));
        }
        if let Some(Fetch { quantity, with_ties, percent }) = query.fetch.take() {
            if with_ties || percent {
                return ControlFlow::Break(Error::unsupported("FETCH with ties is not supported"));
            }
            let one = Expr::value(Value::Number("1".to_owned(), false));
            let limit = Some(quantity.unwrap_or(one));
            match &mut query.limit_clause {
                Some(LimitClause::LimitOffset { limit: place, .. }) => *place = limit,
                _ => {
                    let offset = None;
                    query.limit_clause =
                        Some(LimitClause::LimitOffset { limit, offset, limit_by: Vec::new() });
                }
            }
        }
        sets::spread_values(&mut query.body);
        match all_rows::number(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(problem) => ControlFlow::Break(problem),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            limit.iter_mut().for_each(calls::unwrap_number);
            if matches!(limit, Some(Expr::Value(value)) if value.value == Value::Null) {
                *limit = None;
            }
            offset.iter_mut().for_each(|offset| calls::unwrap_number(&mut offset.value));
        }
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(items) = &mut order.kind
        {
            items.iter_mut().for_each(|item| calls::unwrap_number(&mut item.expr));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if let Err(problem) = repeated::check(select).and_then(|()| joins::merge(select)) {
            return ControlFlow::Break(problem);
        }
        self.is_open |= names::name_columns(select, self.suffixes);
        windows::spread(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if let GroupByExpr::Expressions(items, _) = &mut select.group_by {
            items.iter_mut().for_each(calls::unwrap_number);
        }
        windows::unwrap_frames(select);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match sets::table_function(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(problem) => ControlFlow::Break(problem),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(options) = sets::option_list(expr) {
            *expr = options;
        }
        subqueries::protect(expr);
        subqueries::bind_minus(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let taken = std::mem::replace(expr, Expr::value(Value::Null));
        match syntax::rewrite(taken) {
            Ok(new) => {
                *expr = new;
                ControlFlow::Continue(())
            }
            Err(problem) => ControlFlow::Break(problem),
        }
    }
}
