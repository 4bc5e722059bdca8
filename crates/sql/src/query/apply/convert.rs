//! Chooses the subqueries that run once for each row, and replaces them by calls.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use super::joinable::{Asked, is_joinable, without_items};
use super::outer::{OuterColumn, names_far, names_outer, take_outer};
use super::{Apply, Kind, lateral, mark_of};
use crate::query::Engine;

/// Subqueries of one query that are tried one by one; of more, all run for each row.
const TRIED_MAX: usize = 6;

/// Returns the plan with calls in place of the subqueries that DataFusion cannot join.
pub(crate) fn convert(plan: LogicalPlan, engine: &Engine) -> Result<LogicalPlan> {
    let (mut count, mut marked) = (0, false);
    let all = {
        let mut chosen = |_: usize| true;
        let mut walk = Walk { count: 0, marked: false, chosen: &mut chosen, engine };
        let all = walk.plan(plan.clone())?;
        (count, marked) = (count + walk.count, marked || walk.marked);
        all
    };
    if count == 0 && !marked {
        return Ok(plan);
    }
    let with = |kept: &[usize]| {
        let mut chosen = |at: usize| !kept.contains(&at);
        Walk { count: 0, marked: false, chosen: &mut chosen, engine }.plan(plan.clone())
    };
    let every: Vec<usize> = (0..count).collect();
    let joined = with(&every)?;
    if fits(&joined, engine)? {
        return Ok(joined);
    }
    if !(2..=TRIED_MAX).contains(&count) {
        return Ok(all);
    }
    let mut kept = Vec::new();
    for at in 0..count {
        if fits(&with(&[at])?, engine)? {
            kept.push(at);
        }
    }
    let mixed = with(&kept)?;
    Ok(if fits(&mixed, engine)? { mixed } else { all })
}

/// Returns whether DataFusion leaves no subquery that it cannot run.
fn fits(plan: &LogicalPlan, engine: &Engine) -> Result<bool> {
    if names_far(plan)? {
        return Ok(false);
    }
    let state = engine.state();
    let Ok(plan) = state.optimizer().optimize(plan.clone(), state, |_, _| {}) else {
        return Ok(false);
    };
    let mut left = names_outer(&plan)?;
    plan.apply_with_subqueries(|node| {
        let values = matches!(node, LogicalPlan::Values(_));
        left |= matches!(node, LogicalPlan::Subquery(_));
        node.apply_expressions(|expr| {
            left |= expr.exists(|expr| {
                Ok(match expr {
                    Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
                    Expr::ScalarSubquery(_) => values,
                    _ => false,
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(!left)
}

/// One walk over a plan, which numbers its subqueries.
struct Walk<'a> {
    count: usize,
    marked: bool,
    chosen: &'a mut dyn FnMut(usize) -> bool,
    engine: &'a Engine,
}

impl Walk<'_> {
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = plan.map_children(|child| self.plan(child).map(Transformed::yes))?.data;
        let plan = match plan {
            LogicalPlan::Join(join) => {
                let body = lateral::body(&join).transpose()?;
                let body = body.map(|body| self.goes_by_row(&body, Asked::Rows)).transpose()?;
                match body {
                    Some(true) => lateral::replace(join, self.engine)?,
                    _ => LogicalPlan::Join(join),
                }
            }
            other => other,
        };
        let schema = merge_schema(&plan.inputs());
        let names = datafusion::logical_expr::expr_rewriter::NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_down(|expr| self.expr(expr, &schema))?;
            Ok(new.update_data(|new| name.restore(new)))
        })?;
        match plan.transformed {
            true => plan.data.recompute_schema(),
            false => Ok(plan.data),
        }
    }

    /// Returns whether a body is to run for each row. One that must not be joined has no number.
    fn goes_by_row(&mut self, body: &LogicalPlan, asked: Asked) -> Result<bool> {
        if !is_joinable(body, asked)? {
            self.marked = true;
            return Ok(true);
        }
        self.count += 1;
        Ok((self.chosen)(self.count - 1))
    }

    fn expr(&mut self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        if let Some(kind) = mark_of(&expr) {
            self.marked = true;
            let Expr::ScalarFunction(call) = expr else { return Ok(Transformed::no(expr)) };
            return match call.args.as_slice() {
                [Expr::ScalarSubquery(subquery)] => {
                    self.call(kind, subquery, schema).map(Transformed::yes)
                }
                _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
            };
        }
        let (expr, kind, asked, subquery) = match expr {
            Expr::ScalarSubquery(subquery) => {
                (Expr::ScalarSubquery(subquery.clone()), Kind::Scalar, Asked::Value, subquery)
            }
            Expr::Exists(mut exists) => {
                let body = without_items(&exists.subquery.subquery)?;
                exists.subquery = exists.subquery.with_plan(Arc::new(body));
                let subquery = exists.subquery.clone();
                (Expr::Exists(exists), Kind::Exists, Asked::Exists, subquery)
            }
            Expr::InSubquery(list) => {
                let subquery = list.subquery.clone();
                (Expr::InSubquery(list), Kind::Any, Asked::In, subquery)
            }
            other => return Ok(Transformed::no(other)),
        };
        if !self.goes_by_row(&subquery.subquery, asked)? {
            return Ok(Transformed::yes(expr));
        }
        let new = match expr {
            Expr::Exists(exists) => not_if(exists.negated, self.call(kind, &subquery, schema)?),
            Expr::InSubquery(list) => {
                let negated = list.negated;
                let truths = crate::query::bind::equal_to_any(*list.expr, subquery, schema)?;
                not_if(negated, self.call(kind, &truths, schema)?)
            }
            _ => self.call(kind, &subquery, schema)?,
        };
        Ok(Transformed::yes(new))
    }

    fn call(&self, kind: Kind, subquery: &Subquery, schema: &DFSchema) -> Result<Expr> {
        call(kind, Arc::unwrap_or_clone(Arc::clone(&subquery.subquery)), schema, self.engine)
    }
}

/// Returns the call that runs a body for each row of a place with the columns of `schema`.
pub(super) fn call(
    kind: Kind,
    body: LogicalPlan,
    schema: &DFSchema,
    engine: &Engine,
) -> Result<Expr> {
    let (body, outer) = take_outer(body, schema)?;
    // Subqueries inside the body are chosen for themselves.
    let body = convert(body, engine)?;
    let arguments = outer.iter().map(|outer| outer.argument.clone()).collect();
    let outer = outer.into_iter().map(|OuterColumn { id, field, .. }| (id, field)).collect();
    let function = Apply::new(kind, body, outer)?;
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function.into()), arguments)))
}

fn not_if(negated: bool, expr: Expr) -> Expr {
    if negated { Expr::Not(Box::new(expr)) } else { expr }
}
