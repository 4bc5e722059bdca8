//! Tables of FROM that name columns of tables before them.
//!
//! 1. The rows of such a table are computed for each row beside it, as a list, and the list is spread. With
//!    LEFT JOIN a list without rows is NULL, so that its row stays.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, Result, UnnestOptions};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias,
};

use super::call::Part;
use super::{Kind, convert};
use crate::query::Engine;

/// Name of the column that holds the lists.
const LISTS: &str = "\u{1}rows";

/// Returns the body of a join's lateral side, as a table with its names; nothing for other joins.
pub(super) fn body(join: &Join) -> Option<Result<LogicalPlan>> {
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return None;
    }
    match join.right.as_ref() {
        LogicalPlan::Subquery(subquery) => Some(Ok(subquery.subquery.as_ref().clone())),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => {
                let body = Arc::clone(&subquery.subquery);
                let named = SubqueryAlias::try_new(body, alias.alias.clone());
                Some(named.map(LogicalPlan::SubqueryAlias))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the join as rows of the left side with the spread lists of the right side.
pub(super) fn replace(join: Join, engine: &Engine) -> Result<LogicalPlan> {
    let Some(body) = body(&join) else { return Ok(LogicalPlan::Join(join)) };
    let left = Arc::unwrap_or_clone(Arc::clone(&join.left));
    let right: Vec<_> =
        join.right.schema().iter().map(|(q, f)| (q.cloned(), Arc::clone(f))).collect();
    let body = filtered(body?, &join, left.schema())?;
    let kind = Kind::Rows { outer: join.join_type == JoinType::Left };
    let lists = convert::call(kind, body, left.schema(), engine)?.alias(LISTS);
    let kept: Vec<Expr> = left.schema().iter().map(Expr::from).collect();
    let mut items = kept.clone();
    items.push(lists);
    let projection = Projection::try_new(items, Arc::new(left))?;
    let options = UnnestOptions::new().with_preserve_nulls(join.join_type == JoinType::Left);
    let spread = LogicalPlanBuilder::from(LogicalPlan::Projection(projection))
        .unnest_column_with_options(Column::from_name(LISTS), options)?
        .build()?;
    let mut items = kept;
    for (at, (qualifier, field)) in right.into_iter().enumerate() {
        items.push(part(at, &field).alias_qualified(qualifier, field.name().clone()));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(items, Arc::new(spread))?))
}

fn part(at: usize, field: &FieldRef) -> Expr {
    let function = Part::new(at, Arc::clone(field));
    let list = Expr::Column(Column::from_name(LISTS));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function.into()), vec![list]))
}

/// Returns the body with the join's own condition, in which columns of the left side are outer ones.
fn filtered(body: LogicalPlan, join: &Join, left: &DFSchema) -> Result<LogicalPlan> {
    let pairs = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let all = pairs.chain(join.filter.clone()).reduce(Expr::and);
    let Some(condition) = all else { return Ok(body) };
    let condition = condition.transform_up(|expr| match expr {
        Expr::Column(column) if left.has_column(&column) => {
            let (_, field) = left.qualified_field_from_column(&column)?;
            Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(LogicalPlan::Filter(Filter::try_new(condition.data, Arc::new(body))?))
}
