//! Bodies of subqueries that DataFusion may join.
//!
//! DataFusion takes the conditions that name outer columns out of a body, and adds the columns of the body that they
//! name to its rows. All other work of the body is done before, for the rows of all outer rows together.
//!
//! 1. So nothing in a joined body depends on which rows there are for one outer row: no window, no limit, no row of
//!    an aggregate that has no groups, but for the one that DataFusion knows, at the top of a value.
//! 2. DataFusion finds the added columns by their names alone, without their tables. So no other column of the
//!    rows has the name of one of them.
//! 3. No added column has, at any place of the body, the whole name of an outer one: DataFusion renames both.
//! 4. A value that DataFusion could compute without its aggregate would be NULL without rows: it is the aggregate itself.
//! 5. A body with a subquery that must not be joined is not joined either. It chooses for itself when it runs.
//!
//! Whatever is not known to be right is not joinable.

use std::collections::HashSet;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Join, LogicalPlan, LogicalPlanBuilder, SkipType, lit,
};

use super::lateral;

/// The question that a query has for a subquery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// If it has a row.
    Exists,
    /// If one of its rows is equal to a value.
    In,
    /// The value of its only row.
    Value,
    /// All of its rows, each with its number of times.
    Rows,
}

/// The place of a node in a body.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    asked: Asked,
    /// The outer columns that the body names.
    outer: &'a [Column],
    /// Only projections and aliases are above.
    is_top: bool,
    /// An aggregate is above, for which it matters how often a row is there.
    is_counted: bool,
}

/// Returns whether DataFusion joins a body rightly, if it joins it at all.
pub(super) fn is_joinable(body: &LogicalPlan, asked: Asked) -> Result<bool> {
    if !are_all_joinable(body)? {
        return Ok(false);
    }
    let outer: Vec<Column> = body
        .all_out_ref_exprs()
        .into_iter()
        .filter_map(|expr| match expr {
            Expr::OuterReferenceColumn(_, column) => Some(column),
            _ => None,
        })
        .collect();
    let place = Place { asked, outer: &outer, is_top: true, is_counted: false };
    Ok(added(body, place)?.is_some())
}

/// Returns a body of EXISTS that has one column, as far as its own columns mean nothing.
pub(super) fn without_items(body: &LogicalPlan) -> Result<LogicalPlan> {
    match body {
        LogicalPlan::Projection(items) => {
            let input = LogicalPlanBuilder::from(items.input.as_ref().clone());
            input.project([lit(1_i32).alias("one")])?.build()
        }
        other => Ok(other.clone()),
    }
}

/// Returns whether all subqueries in a body are joinable.
fn are_all_joinable(body: &LogicalPlan) -> Result<bool> {
    let mut all = true;
    body.apply(|node| {
        if let LogicalPlan::Join(join) = node
            && let Some(rows) = lateral::body(join)
        {
            all &= is_joinable(&rows?, Asked::Rows)?;
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                all &= match expr {
                    Expr::ScalarSubquery(subquery) => {
                        is_joinable(&subquery.subquery, Asked::Value)?
                    }
                    Expr::Exists(exists) => {
                        is_joinable(&without_items(&exists.subquery.subquery)?, Asked::Exists)?
                    }
                    Expr::InSubquery(list) => is_joinable(&list.subquery.subquery, Asked::In)?,
                    _ => true,
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(all)
}

/// Returns the columns that are added to the rows of a node, as the node above names them; nothing if it is not joinable.
fn added(node: &LogicalPlan, place: Place<'_>) -> Result<Option<Vec<Column>>> {
    if node.all_out_ref_exprs().is_empty() {
        return Ok(Some(Vec::new()));
    }
    let below = Place { is_top: false, ..place };
    match node {
        LogicalPlan::Filter(filter) => {
            let columns = added(&filter.input, below)?;
            let Some(mut columns) = columns else { return Ok(None) };
            for condition in split_conjunction(&filter.predicate) {
                if !condition.contains_outer() {
                    continue;
                }
                if has_subquery(condition)? {
                    return Ok(None);
                }
                columns.extend(condition.column_refs().into_iter().cloned());
            }
            Ok(distinct(columns, place.outer))
        }
        _ if node.contains_outer_reference() => Ok(None),
        LogicalPlan::Projection(items)
            if place.asked == Asked::Value && place.is_top && !are_plain(&items.expr) =>
        {
            Ok(None)
        }
        LogicalPlan::Projection(items) => {
            let columns = added(&items.input, place)?;
            Ok(columns.filter(|columns| passes(columns, &items.expr)))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let rename = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
            let columns = added(&alias.input, place)?;
            let columns = columns.map(|columns| columns.into_iter().map(rename).collect());
            Ok(columns.and_then(|columns| distinct(columns, place.outer)))
        }
        LogicalPlan::Aggregate(groups) => {
            let has_sets =
                groups.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_)));
            let fits = match place.asked {
                Asked::Value => place.is_top && groups.group_expr.is_empty(),
                Asked::Exists | Asked::In => !groups.group_expr.is_empty(),
                // Groups without a value are taken for a DISTINCT, whose rows may come several times.
                Asked::Rows => !groups.group_expr.is_empty() && !groups.aggr_expr.is_empty(),
            };
            if has_sets || !fits || place.is_counted {
                return Ok(None);
            }
            let columns = added(&groups.input, Place { is_counted: true, ..below })?;
            Ok(columns.filter(|columns| {
                passes(columns, &groups.group_expr) && passes(columns, &groups.aggr_expr)
            }))
        }
        LogicalPlan::Distinct(Distinct::All(input))
            if matches!(place.asked, Asked::Exists | Asked::In) && !place.is_counted =>
        {
            added(input, place)
        }
        LogicalPlan::Limit(limit) if place.asked == Asked::Exists && place.is_top => {
            let skips_none = matches!(limit.get_skip_type()?, SkipType::Literal(0));
            let fetches = matches!(limit.get_fetch_type()?, FetchType::Literal(_));
            if skips_none && fetches { added(&limit.input, place) } else { Ok(None) }
        }
        LogicalPlan::Join(Join { left, right, join_type: JoinType::Inner, .. }) => {
            let (left, right) = (added(left, below)?, added(right, below)?);
            let both = left.zip(right).map(|(left, right)| [left, right].concat());
            Ok(both.and_then(|both| distinct(both, place.outer)))
        }
        _ => Ok(None),
    }
}

/// Returns each of the columns once; nothing if two of them have one name, or one of them is called as an outer one.
fn distinct(columns: Vec<Column>, outer: &[Column]) -> Option<Vec<Column>> {
    if columns.iter().any(|column| outer.contains(column)) {
        return None;
    }
    let mut once: Vec<Column> = Vec::with_capacity(columns.len());
    for column in columns {
        if !once.contains(&column) {
            once.push(column);
        }
    }
    let names: HashSet<&str> = once.iter().map(|column| column.name.as_str()).collect();
    (names.len() == once.len()).then_some(once)
}

/// Returns whether no item but a column itself has the name of one of the columns.
fn passes(columns: &[Column], items: &[Expr]) -> bool {
    items.iter().all(|item| {
        let (_, name) = item.qualified_name();
        let named = columns.iter().find(|column| column.name == name);
        named.is_none_or(|column| matches!(item, Expr::Column(own) if own == column))
    })
}

/// Returns whether all items are columns, be it under other names.
fn are_plain(items: &[Expr]) -> bool {
    items.iter().all(|item| match item {
        Expr::Alias(alias) => matches!(&*alias.expr, Expr::Column(_)),
        other => matches!(other, Expr::Column(_)),
    })
}

fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    })
}
