//! The columns of tables that the columns of a result come from, unchanged.

use datafusion::common::Column;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

use super::tables::RelationTable;

/// Number of a table, and of a column in it.
type Origin = (u32, i16);

/// Returns the origin of the column `at` of a plan; nothing if it is computed.
pub(super) fn origin(plan: &LogicalPlan, at: usize) -> Option<Origin> {
    match plan {
        LogicalPlan::Projection(projection) => of_expr(projection.expr.get(at)?, &projection.input),
        LogicalPlan::Aggregate(aggregate) => {
            of_expr(aggregate.group_expr.get(at)?, &aggregate.input)
        }
        LogicalPlan::Filter(filter) => origin(&filter.input, at),
        LogicalPlan::Sort(sort) => origin(&sort.input, at),
        LogicalPlan::Limit(limit) => origin(&limit.input, at),
        LogicalPlan::SubqueryAlias(alias) => origin(&alias.input, at),
        LogicalPlan::Distinct(Distinct::All(input)) => origin(input, at),
        LogicalPlan::Window(window) => {
            let width = window.input.schema().fields().len();
            if at < width { origin(&window.input, at) } else { None }
        }
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match at.checked_sub(left) {
                None => origin(&join.left, at),
                Some(at) => origin(&join.right, at),
            }
        }
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let table = provider.downcast_ref::<RelationTable>()?;
            let place = match &scan.projection {
                Some(places) => *places.get(at)?,
                None => at,
            };
            table.origin(place)
        }
        _ => None,
    }
}

fn of_expr(expr: &Expr, input: &LogicalPlan) -> Option<Origin> {
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, input),
        Expr::Column(column) => of_column(column, input),
        _ => None,
    }
}

fn of_column(column: &Column, input: &LogicalPlan) -> Option<Origin> {
    origin(input, input.schema().maybe_index_of_column(column)?)
}
