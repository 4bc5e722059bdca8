//! Comparisons with the rows of a subquery: IN, ANY and ALL.
//!
//! 1. Both sides have one type, and the form in which Arrow compares it.
//! 2. ANY and ALL become marked calls over a subquery of truth values, which run for each row.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Subquery};
use relational::{DataType, Error, SqlState};

use super::rule::{Binder, output_type};
use super::special::{ALL_OF, ANY_OF, marked};
use super::{external, type_of};
use crate::expression::resolve::resolve;
use crate::query::arrow::type_of_field;
use crate::values::CastContext;

/// Returns the one column of a subquery, or 42601.
fn only_column(plan: &LogicalPlan) -> Result<Expr> {
    let mut columns = plan.schema().iter().map(Expr::from);
    match (columns.next(), columns.next()) {
        (Some(column), None) => Ok(column),
        _ => {
            let message = "subquery has too many columns";
            Err(external(Error::new(SqlState::SYNTAX_ERROR, message)))
        }
    }
}

/// Returns a subquery with one expression of its columns.
fn projected(subquery: &Subquery, expr: Expr) -> Result<Subquery> {
    let projection = Projection::try_new(vec![expr], Arc::clone(&subquery.subquery))?;
    let plan = LogicalPlan::Projection(projection);
    let outer_ref_columns = plan.all_out_ref_exprs();
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans.clone() })
}

/// Returns an expression of the outer query as the subquery names it.
fn as_outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let outer = expr.transform_up(|expr| match expr {
        Expr::Column(column) if schema.has_column(&column) => {
            let (_, field) = schema.qualified_field_from_column(&column)?;
            Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(outer.data)
}

/// Returns the subquery of the truth values of `expr = row`, for operands in comparable form.
pub(crate) fn equal_to_any(expr: Expr, subquery: Subquery, schema: &DFSchema) -> Result<Subquery> {
    let column = only_column(&subquery.subquery)?;
    let truth = as_outer(expr, schema)?.eq(column).alias("truth");
    projected(&subquery, truth)
}

impl Binder<'_> {
    /// Returns IN with both sides in comparable form.
    pub(super) fn in_subquery(&self, mut list: InSubquery, schema: &DFSchema) -> Result<Expr> {
        let plan = &list.subquery.subquery;
        let column = only_column(plan)?;
        let own = type_of(&list.expr, schema)?;
        let (shown, items) = (output_type(plan, 0), type_of_field(plan.schema().field(0)));
        let bound = resolve("op:=", &[own.clone(), shown]).map_err(external)?;
        list.expr = Box::new(self.comparable(*list.expr, &own, &bound.arguments[0])?);
        let item =
            self.convert(column.clone(), &items, &bound.arguments[1], CastContext::Explicit)?;
        let item = self.comparable(item, &bound.arguments[1], &bound.arguments[1])?;
        if item != column {
            list.subquery = projected(&list.subquery, item.alias("item"))?;
        }
        Ok(Expr::InSubquery(list))
    }

    /// Returns ANY or ALL over a subquery as a marked call.
    pub(super) fn set_comparison(
        &self,
        compared: SetComparison,
        schema: &DFSchema,
    ) -> Result<Expr> {
        let SetComparison { expr, subquery, op, quantifier } = compared;
        let name = match quantifier {
            SetQuantifier::Any => ANY_OF,
            SetQuantifier::All => ALL_OF,
        };
        let column = only_column(&subquery.subquery)?;
        let symbol = match op.to_string().as_str() {
            "!=" => "<>".to_owned(),
            other => other.to_owned(),
        };
        let mut both = subquery.subquery.schema().as_ref().clone();
        both.merge(schema);
        let operands = vec![as_outer(*expr, schema)?, column];
        let truth = self.bind_call(&format!("op:{symbol}"), operands, &both)?;
        if type_of(&truth, &both)? != DataType::Bool {
            let message = "op ANY/ALL (array) requires operator to yield boolean";
            return Err(external(Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
        }
        let truths = projected(&subquery, truth.alias("truth"))?;
        marked(name, vec![Expr::ScalarSubquery(truths)])
    }
}
