//! Equality of grouped, joined and sorted values: PostgreSQL takes 1.0 and 1.00 for one value, and the floats 0
//! and -0, Arrow does not.
//!
//! Values of such types are grouped, joined and sorted by their key, which equal values share. A group shows
//! the value that came first.
//!
//! 1. A node has the columns that it had: a projection above it gives them their names.
//! 2. A numeric with a scale needs no key, as all its values have that scale.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, Case, WindowFunction};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Join, LogicalPlan, Projection, SortExpr, WindowFrame,
    WindowFrameBound, WindowFrameUnits,
};
use relational::DataType;

use super::aggregates::first;
use super::rule::Binder;
use super::{BoundFunction, Work, external, type_of};
use crate::expression::resolve::resolve;
use crate::values::CastContext;

/// Returns the bytes, or the plain float, by which a value compares.
pub(super) fn key(expr: Expr, data_type: &DataType) -> Expr {
    let returns = match data_type {
        DataType::Float4 | DataType::Float8 => data_type.clone(),
        _ => DataType::Bytea,
    };
    BoundFunction::call("key", Work::Key, vec![data_type.clone()], returns, vec![expr])
}

/// Returns whether equal values of a type may have different forms in Arrow.
pub(super) fn needs_key(data_type: &DataType) -> bool {
    use DataType::{Array, Float4, Float8, Interval, Jsonb, Numeric};
    match data_type {
        Array(element) => needs_key(element),
        other => matches!(other, Numeric(None) | Interval | Jsonb | Float4 | Float8),
    }
}

impl Binder<'_> {
    /// Returns a bound node whose equalities are PostgreSQL's.
    pub(super) fn equalities(&self, node: LogicalPlan) -> Result<LogicalPlan> {
        match node {
            LogicalPlan::Aggregate(aggregate) => self.grouped(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let schema = Arc::clone(input.schema());
                let columns: Vec<Expr> = schema.iter().map(Expr::from).collect();
                for column in &columns {
                    if needs_key(&type_of(column, &schema)?) {
                        let aggregate = Aggregate::try_new(input, columns, Vec::new())?;
                        return self.grouped(aggregate);
                    }
                }
                Ok(LogicalPlan::Distinct(Distinct::All(input)))
            }
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                let schema = Arc::clone(on.input.schema());
                for expr in &mut on.on_expr {
                    self.by_key(expr, &schema)?;
                }
                for sort in on.sort_expr.iter_mut().flatten() {
                    self.by_key(&mut sort.expr, &schema)?;
                }
                Ok(LogicalPlan::Distinct(Distinct::On(on)))
            }
            LogicalPlan::Join(join) => self.joined(join),
            LogicalPlan::Sort(mut sort) => {
                let schema = Arc::clone(sort.input.schema());
                self.sorted(&mut sort.expr, &schema)?;
                Ok(LogicalPlan::Sort(sort))
            }
            other => Ok(other),
        }
    }

    /// Puts a key in place of an expression whose type needs it.
    fn by_key(&self, expr: &mut Expr, schema: &DFSchema) -> Result<()> {
        let data_type = type_of(expr, schema)?;
        if needs_key(&data_type) {
            let taken = std::mem::replace(expr, Expr::Literal(ScalarValue::Null, None));
            *expr = key(taken, &data_type);
        }
        Ok(())
    }

    fn sorted(&self, sorts: &mut [SortExpr], schema: &DFSchema) -> Result<()> {
        sorts.iter_mut().try_for_each(|sort| self.by_key(&mut sort.expr, schema))
    }

    fn joined(&self, mut join: Join) -> Result<LogicalPlan> {
        let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
        let mut changed = false;
        for (own, other) in &mut join.on {
            let (from, to) = (type_of(own, &left)?, type_of(other, &right)?);
            if from == to && !needs_key(&from) {
                continue;
            }
            let bound = resolve("op:=", &[from.clone(), to.clone()]).map_err(external)?;
            *own = self.comparable(own.clone(), &from, &bound.arguments[0])?;
            *other = self.comparable(other.clone(), &to, &bound.arguments[1])?;
            changed = true;
        }
        let node = LogicalPlan::Join(join);
        if changed { node.recompute_schema() } else { Ok(node) }
    }

    /// Returns an operand of an equality in the form that Arrow compares.
    pub(super) fn comparable(&self, expr: Expr, from: &DataType, to: &DataType) -> Result<Expr> {
        let expr = self.convert(expr, from, to, CastContext::Implicit)?;
        Ok(if needs_key(to) || matches!(to, DataType::Numeric(_)) { key(expr, to) } else { expr })
    }

    fn grouped(&self, aggregate: Aggregate) -> Result<LogicalPlan> {
        let input = Arc::clone(aggregate.input.schema());
        let groups: Vec<Expr> =
            grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
        let mut keys: Vec<Option<DataType>> = Vec::with_capacity(groups.len());
        for group in &groups {
            let data_type = type_of(group, &input)?;
            keys.push(needs_key(&data_type).then_some(data_type));
        }
        if keys.iter().all(Option::is_none) {
            return Ok(LogicalPlan::Aggregate(aggregate));
        }
        let keyed = |expr: Expr| {
            let at = groups.iter().position(|group| *group == expr);
            at.and_then(|at| keys[at].as_ref()).map(|data_type| key(expr, data_type))
        };
        let sets = aggregate.group_expr.iter().map(|group| replaced(group.clone(), &keyed));
        let sets: Result<Vec<Expr>> = sets.collect();
        let mut calls = Vec::with_capacity(aggregate.aggr_expr.len() + groups.len());
        for call in &aggregate.aggr_expr {
            calls.push(in_grouping(call.clone(), &keyed)?);
        }
        let own = groups.len() + calls.len();
        let mut firsts = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            if keys[at].is_some() {
                let args = vec![group.clone()];
                let call = AggregateFunction::new_udf(first(), args, false, None, Vec::new(), None);
                firsts.push(at);
                calls.push(Expr::AggregateFunction(call).alias(format!("\u{1}first{at}")));
            }
        }
        let new = Aggregate::try_new(Arc::clone(&aggregate.input), sets?, calls)?;
        let fields: Vec<Expr> = new.schema.iter().map(Expr::from).collect();
        // A grouping number may stand between groups and calls.
        let count = aggregate.schema.fields().len();
        debug_assert!(fields.len() == count + firsts.len() && own <= count);
        let mut items = Vec::with_capacity(count);
        for (at, (qualifier, field)) in aggregate.schema.iter().enumerate() {
            let column = fields[at].clone();
            let value = match firsts.iter().position(|first| *first == at) {
                Some(first) => {
                    let shown = fields[count + first].clone();
                    let present = Expr::IsNotNull(Box::new(column));
                    Expr::Case(Case::new(None, vec![(Box::new(present), Box::new(shown))], None))
                }
                None => column,
            };
            items.push(value.alias_qualified(qualifier.cloned(), field.name().clone()));
        }
        let new = Arc::new(LogicalPlan::Aggregate(new));
        Ok(LogicalPlan::Projection(Projection::try_new(items, new)?))
    }

    /// Returns a window function whose peers are equal values.
    pub(super) fn window(&self, mut window: WindowFunction, schema: &DFSchema) -> Result<Expr> {
        for expr in &mut window.params.partition_by {
            self.by_key(expr, schema)?;
        }
        self.sorted(&mut window.params.order_by, schema)?;
        let plain = |bound: &WindowFrameBound| match bound {
            WindowFrameBound::CurrentRow => true,
            WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => by.is_null(),
        };
        let frame = &window.params.window_frame;
        let is_range = frame.units == WindowFrameUnits::Range
            && plain(&frame.start_bound)
            && plain(&frame.end_bound);
        // Without offsets a range ends where a group ends, and groups compare values of all types.
        if is_range && !window.params.order_by.is_empty() {
            let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
            window.params.window_frame =
                WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
        }
        Ok(Expr::WindowFunction(Box::new(window)))
    }
}

/// Returns an expression of GROUP BY with keys in place of the groups that need them.
fn replaced(expr: Expr, keyed: &dyn Fn(Expr) -> Option<Expr>) -> Result<Expr> {
    let new = expr.transform_down(|expr| match keyed(expr.clone()) {
        Some(new) => Ok(Transformed::new(new, true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(expr)),
    })?;
    Ok(new.data)
}

/// Returns an aggregate; the groups that GROUPING names become their keys.
fn in_grouping(call: Expr, keyed: &dyn Fn(Expr) -> Option<Expr>) -> Result<Expr> {
    let new = call.transform_up(|expr| match expr {
        Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
            for arg in &mut call.params.args {
                *arg = replaced(arg.clone(), keyed)?;
            }
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(new.data)
}
