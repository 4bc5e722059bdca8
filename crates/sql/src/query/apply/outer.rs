//! The outer columns that the body of a subquery names.
//!
//! 1. A name means the nearest query that has it: a subquery inside the body that has the column itself
//!    hides the outer one. So do the tables before a lateral table inside the body.
//! 2. A body that is inside another one may have placeholders of that one. They are arguments of its call, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use super::OUTER;

/// Numbers of placeholders, which no two calls share.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// An outer column of a body.
pub(super) struct OuterColumn {
    /// The name of its placeholder.
    pub(super) id: String,
    /// The type of its values.
    pub(super) field: FieldRef,
    /// The column, as the place of the call names it.
    pub(super) argument: Expr,
    /// True if a subquery inside the body names it.
    is_far: bool,
}

/// Returns a body with placeholders for its outer columns, and the columns. `outer` has the columns of the
/// place at which the subquery stands; columns of queries further out stay outer references there.
pub(super) fn take_outer(
    body: LogicalPlan,
    outer: &DFSchema,
) -> Result<(LogicalPlan, Vec<OuterColumn>)> {
    let mut found = Vec::new();
    let body = in_plan(body, outer, &[], &mut found)?;
    Ok((body, found))
}

fn in_plan(
    plan: LogicalPlan,
    outer: &DFSchema,
    nearer: &[Arc<DFSchema>],
    found: &mut Vec<OuterColumn>,
) -> Result<LogicalPlan> {
    in_node(plan, outer, nearer, &[], found)?.recompute_schema()
}

/// Does the work of [`in_plan`] for a node. `before` has the columns of the tables before it in its FROM, which only
/// a lateral table names.
fn in_node(
    node: LogicalPlan,
    outer: &DFSchema,
    nearer: &[Arc<DFSchema>],
    before: &[Arc<DFSchema>],
    found: &mut Vec<OuterColumn>,
) -> Result<LogicalPlan> {
    let node = match node {
        LogicalPlan::Subquery(lateral) => {
            let nearer = [nearer, before].concat();
            let body = Arc::unwrap_or_clone(lateral.subquery);
            let body = in_plan(body, outer, &nearer, found)?;
            if !names_outer(&body)? {
                return Ok(body);
            }
            let outer_ref_columns = body.all_out_ref_exprs();
            let subquery = Arc::new(body);
            return Ok(LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, ..lateral }));
        }
        LogicalPlan::Join(mut join) => {
            let mut beside = before.to_vec();
            beside.push(Arc::clone(join.left.schema()));
            let left = Arc::unwrap_or_clone(join.left);
            join.left = Arc::new(in_node(left, outer, nearer, before, found)?);
            let right = Arc::unwrap_or_clone(join.right);
            join.right = Arc::new(in_node(right, outer, nearer, &beside, found)?);
            LogicalPlan::Join(join)
        }
        other => {
            let before = if matches!(other, LogicalPlan::SubqueryAlias(_)) { before } else { &[] };
            let child = |child| in_node(child, outer, nearer, before, found).map(Transformed::yes);
            other.map_children(child)?.data
        }
    };
    let beside = Arc::new(merge_schema(&node.inputs()));
    // A column that is an outer one has the name of that, which nodes above may know.
    let names = NamePreserver::new(&node);
    let in_expr = |expr| {
        let name = names.save(&expr);
        let new = in_expr(expr, outer, nearer, &beside, found)?;
        Ok(Transformed::yes(name.restore(new)))
    };
    Ok(node.map_expressions(in_expr)?.data)
}

fn in_expr(
    expr: Expr,
    outer: &DFSchema,
    nearer: &[Arc<DFSchema>],
    beside: &Arc<DFSchema>,
    found: &mut Vec<OuterColumn>,
) -> Result<Expr> {
    let rewritten = expr.transform_up(|expr| {
        let mut inside = |subquery: Subquery| -> Result<Subquery> {
            let mut nearer = nearer.to_vec();
            nearer.push(Arc::clone(beside));
            let body = Arc::unwrap_or_clone(Arc::clone(&subquery.subquery));
            let body = in_plan(body, outer, &nearer, found)?;
            let outer_ref_columns = body.all_out_ref_exprs();
            Ok(Subquery { subquery: Arc::new(body), outer_ref_columns, ..subquery })
        };
        Ok(Transformed::yes(match expr {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(inside(subquery)?),
            Expr::Exists(mut exists) => {
                exists.subquery = inside(exists.subquery)?;
                Expr::Exists(exists)
            }
            Expr::InSubquery(mut list) => {
                list.subquery = inside(list.subquery)?;
                Expr::InSubquery(list)
            }
            Expr::SetComparison(mut compared) => {
                compared.subquery = inside(compared.subquery)?;
                Expr::SetComparison(compared)
            }
            Expr::OuterReferenceColumn(field, column) => {
                if nearer.iter().any(|schema| schema.has_column(&column)) {
                    return Ok(Transformed::no(Expr::OuterReferenceColumn(field, column)));
                }
                let argument = match outer.has_column(&column) {
                    true => Expr::Column(column),
                    false => Expr::OuterReferenceColumn(Arc::clone(&field), column),
                };
                placeholder(field, argument, !nearer.is_empty(), found)
            }
            Expr::Placeholder(of_outer) if of_outer.id.starts_with(OUTER) => {
                let Some(field) = of_outer.field.clone() else {
                    return Ok(Transformed::no(Expr::Placeholder(of_outer)));
                };
                placeholder(field, Expr::Placeholder(of_outer), !nearer.is_empty(), found)
            }
            other => return Ok(Transformed::no(other)),
        }))
    })?;
    Ok(rewritten.data)
}

/// Returns the placeholder of an outer column, which is noted with its `argument`.
fn placeholder(
    field: FieldRef,
    argument: Expr,
    is_far: bool,
    found: &mut Vec<OuterColumn>,
) -> Expr {
    let at = found.iter().position(|known| known.argument == argument);
    let at = at.unwrap_or_else(|| {
        let id = format!("{OUTER}{}", NEXT.fetch_add(1, Ordering::Relaxed));
        found.push(OuterColumn { id, field, argument, is_far });
        found.len() - 1
    });
    let known = &mut found[at];
    known.is_far |= is_far;
    Expr::Placeholder(Placeholder::new_with_field(known.id.clone(), Some(Arc::clone(&known.field))))
}

/// Returns whether a subquery of a plan has one inside that names columns from outside of both. DataFusion joins
/// the inner one where these columns are not.
pub(super) fn names_far(plan: &LogicalPlan) -> Result<bool> {
    let mut is_far = false;
    let mut look = |body: &Arc<LogicalPlan>| -> Result<()> {
        let body = Arc::unwrap_or_clone(Arc::clone(body));
        let (_, found) = take_outer(body, &DFSchema::empty())?;
        let is_column = |argument: &Expr| matches!(argument, Expr::OuterReferenceColumn(..));
        is_far |= found.iter().any(|column| column.is_far && is_column(&column.argument));
        Ok(())
    };
    plan.apply(|node| {
        if let LogicalPlan::Subquery(lateral) = node {
            look(&lateral.subquery)?;
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                match expr {
                    Expr::ScalarSubquery(subquery) => look(&subquery.subquery)?,
                    Expr::Exists(exists) => look(&exists.subquery.subquery)?,
                    Expr::InSubquery(list) => look(&list.subquery.subquery)?,
                    Expr::SetComparison(compared) => look(&compared.subquery.subquery)?,
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(is_far)
}

/// Returns whether a plan names columns of a query around it.
pub(super) fn names_outer(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(matches!(expr, Expr::OuterReferenceColumn(..))))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}
