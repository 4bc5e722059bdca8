//! Plans the bodies of calls for one execution.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use futures::future::BoxFuture;

use super::call::Apply;
use super::run::Ready;
use super::slot::{Slot, Slots};
use crate::query::Engine;
use crate::query::bind::external;
use relational::CancelFlag;

/// The parts of one execution that a body needs.
pub(crate) struct Planner<'a> {
    /// The engine of the server.
    pub(crate) engine: &'a Engine,
    /// Ends the execution with 57014.
    pub(crate) cancel: &'a CancelFlag,
    /// Sets parameters, context and view of the execution.
    pub(crate) prepare: &'a (dyn Fn(LogicalPlan) -> Result<LogicalPlan> + Send + Sync),
}

/// Returns the plan, already prepared, with calls that can run, and its height: 0 without calls.
pub(crate) fn ready<'a>(
    plan: LogicalPlan,
    planner: &'a Planner<'a>,
) -> BoxFuture<'a, Result<(LogicalPlan, usize)>> {
    Box::pin(async move {
        let mut bodies = Vec::new();
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::ScalarFunction(call) = expr
                        && let Some(apply) = call.func.inner().downcast_ref::<Apply>()
                    {
                        let body = Arc::clone(&apply.body);
                        bodies.push((apply.id(), body, apply.outer.clone()));
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        if bodies.is_empty() {
            return Ok((plan, 0));
        }
        let (mut made, mut below) = (HashMap::new(), 0);
        for (id, body, outer) in bodies {
            let (body, height) = physical(body, &outer, planner).await?;
            below = height.max(below);
            made.insert(id, Arc::new(body));
        }
        let plan = plan.transform_up_with_subqueries(|node| {
            node.map_expressions(|expr| {
                expr.transform_up(|expr| match expr {
                    Expr::ScalarFunction(mut call) => {
                        let apply = call.func.inner().downcast_ref::<Apply>();
                        let with = apply.and_then(|apply| {
                            made.get(&apply.id()).map(|body| apply.with(Arc::clone(body)))
                        });
                        match with {
                            Some(with) => {
                                call.func = Arc::new(with.into());
                                Ok(Transformed::yes(Expr::ScalarFunction(call)))
                            }
                            None => Ok(Transformed::no(Expr::ScalarFunction(call))),
                        }
                    }
                    other => Ok(Transformed::no(other)),
                })
            })
        })?;
        Ok((plan.data, below + 1))
    })
}

/// Returns a body that can run, and its height.
async fn physical(
    body: Arc<LogicalPlan>,
    outer: &[(String, datafusion::arrow::datatypes::FieldRef)],
    planner: &Planner<'_>,
) -> Result<(Ready, usize)> {
    let body = (planner.prepare)(Arc::unwrap_or_clone(body))?;
    let (body, height) = ready(body, planner).await?;
    let state = planner.engine.inner_state();
    let body = state.optimizer().optimize(body, state, |_, _| {})?;
    let slots = Slots::default();
    let body = body.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| {
                let Expr::Placeholder(parameter) = &expr else { return Ok(Transformed::no(expr)) };
                let found = outer.iter().position(|(id, _)| *id == parameter.id);
                let Some(at) = found else { return Ok(Transformed::no(expr)) };
                let slot = Slot::new(at, Arc::clone(&outer[at].1), Arc::clone(&slots));
                let call = ScalarFunction::new_udf(Arc::new(slot.into()), Vec::new());
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            })
        })
    })?;
    let plan = state.query_planner().create_physical_plan(&body.data, state).await?;
    let threads = planner.engine.threads(height).map_err(external)?;
    let body = Ready::new(plan, (planner.engine.task(), threads), slots, planner.cancel)?;
    Ok((body, height))
}
