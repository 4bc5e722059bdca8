//! `x IN (SELECT …)` where it matters whether the answer is NULL or false.
//!
//! DataFusion marks the rows that have an equal one, and takes all others for false. That is right for the
//! conditions of WHERE and ON, and for IN below AND and OR in them, but not below NOT, nor for a value, nor for
//! NOT IN whose rows depend on the outer row, or whose value is no column beside it. There IN becomes a CASE that asks for the reasons of NULL: `x` itself, or a NULL among the rows of the subquery.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, Subquery,
};

/// Returns the plan in which IN over a subquery is NULL where PostgreSQL says so.
pub(crate) fn with_unknown(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|node| {
        let is_condition = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = match is_condition {
                true => condition(expr, &schema, false)?,
                false => value(expr, &schema)?,
            };
            changed |= new.transformed;
            Ok(new.update_data(|new| name.restore(new)))
        })?;
        // A value that was never NULL may be now, in all nodes above, too.
        match changed {
            true => Ok(Transformed::yes(node.data.recompute_schema()?)),
            false => Ok(node),
        }
    })?;
    Ok(plan.data)
}

/// Rewrites a condition, whose NULL counts as false. Below OR that is true of IN, not of NOT IN.
fn condition(expr: Expr, schema: &DFSchema, below_or: bool) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::And | Operator::Or) =>
        {
            let below_or = below_or || op == Operator::Or;
            let left = condition(*left, schema, below_or)?;
            let right = condition(*right, schema, below_or)?;
            let transformed = left.transformed || right.transformed;
            let both = BinaryExpr::new(Box::new(left.data), op, Box::new(right.data));
            let both = Transformed::no(Expr::BinaryExpr(both));
            Ok(if transformed { Transformed::yes(both.data) } else { both })
        }
        Expr::Not(inner) if matches!(*inner, Expr::InSubquery(_)) => {
            let Expr::InSubquery(list) = *inner else { return Ok(Transformed::no(*inner)) };
            let negated = !list.negated;
            let list = Expr::InSubquery(InSubquery { negated, ..list });
            condition(list, schema, below_or).map(|new| Transformed::yes(new.data))
        }
        Expr::InSubquery(list)
            if list.negated && (below_or || is_correlated(&list) || !is_column(&list, schema)) =>
        {
            strict(list, schema)
        }
        Expr::InSubquery(list) => Ok(Transformed::no(Expr::InSubquery(list))),
        other => value(other, schema),
    }
}

/// Returns whether the rows of IN depend on the outer row. DataFusion's join takes a NULL among the rows of one outer
/// row for a NULL among the rows of all.
fn is_correlated(list: &InSubquery) -> bool {
    !list.subquery.subquery.all_out_ref_exprs().is_empty()
}

/// Returns whether the value is a column of the row itself. DataFusion's join takes no NULL of the rows into account for
/// others.
fn is_column(list: &InSubquery, schema: &DFSchema) -> bool {
    matches!(&*list.expr, Expr::Column(column) if schema.has_column(column))
}

/// Rewrites an expression whose NULL matters.
fn value(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::InSubquery(list) => strict(list, schema),
        other => Ok(Transformed::no(other)),
    })
}

/// Returns IN as a CASE that tells NULL from false; itself if it is never NULL.
fn strict(list: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let InSubquery { expr, subquery, negated } = list;
    let rows = Arc::clone(&subquery.subquery);
    // An expression of an outer query has no schema here.
    let may_be_null = expr.nullable(schema).unwrap_or(true);
    let rows_may = rows.schema().fields().iter().any(|field| field.is_nullable());
    if !may_be_null && !rows_may {
        return Ok(Transformed::no(Expr::InSubquery(InSubquery { expr, subquery, negated })));
    }
    let unknown = || Box::new(Expr::Literal(ScalarValue::Boolean(None), None));
    let truth = |truth| Box::new(Expr::Literal(ScalarValue::Boolean(Some(truth)), None));
    let inside = InSubquery { expr: expr.clone(), subquery: subquery.clone(), negated: false };
    let mut cases = vec![(Box::new(Expr::InSubquery(inside)), truth(true))];
    if may_be_null {
        let is_null = Expr::IsNull(expr).and(exists(subquery.clone()));
        cases.push((Box::new(is_null), unknown()));
    }
    if rows_may {
        let item = rows.schema().iter().next().map(Expr::from);
        let is_null = item.map_or(Expr::Literal(ScalarValue::Boolean(None), None), Expr::is_null);
        let nulls = LogicalPlan::Filter(Filter::try_new(is_null, rows)?);
        cases.push((Box::new(exists(subquery.with_plan(Arc::new(nulls)))), unknown()));
    }
    let case = Expr::Case(Case::new(None, cases, Some(truth(false))));
    Ok(Transformed::yes(if negated { Expr::Not(Box::new(case)) } else { case }))
}

fn exists(subquery: Subquery) -> Expr {
    Expr::Exists(Exists { subquery, negated: false })
}
