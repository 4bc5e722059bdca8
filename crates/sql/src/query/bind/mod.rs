//! Binds the calls of a logical plan to overloads with PostgreSQL's rules.
//!
//! While DataFusion makes the plan, a call is a [`NamedFunction`], which knows its type but cannot
//! run. The analyzer rule [`Bind`] then converts arguments and replaces each by a [`BoundFunction`],
//! by Arrow's own comparison, or by CASE.
//!
//! 1. The type that a named call told is the type that its replacement has.
//! 2. A literal of text without a type is unknown; it takes the type that its place asks for.
//! 3. No named call is left in a plan that runs.

mod aggregates;
mod bound;
mod equality;
mod kernels;
mod named;
mod operators;
mod rule;
mod special;
mod subquery;

use datafusion::common::{DFSchema, DataFusionError, ExprSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};
use relational::DataType;

use super::arrow::{TYPE_KEY, type_of_field};

pub(crate) use aggregates::{aggregates, in_context};
pub(crate) use bound::{BoundFunction, Work};
pub(crate) use named::{any_arguments, named_function};
pub(crate) use operators::{Operators, operator_name};
pub(crate) use rule::{
    Bind, Parameters, bind_expr, compares_plainly, literal, needs_context, place_of,
};

pub(crate) use subquery::equal_to_any;

/// Returns an error of SQL as DataFusion carries it.
pub(crate) fn external(problem: relational::Error) -> DataFusionError {
    DataFusionError::External(Box::new(problem))
}

/// Returns the type of an expression; unknown for literals and parameters without one.
pub(crate) fn type_of(expr: &Expr, schema: &DFSchema) -> datafusion::common::Result<DataType> {
    match expr {
        Expr::Literal(value, metadata) => {
            let told =
                metadata.as_ref().is_some_and(|metadata| metadata.inner().contains_key(TYPE_KEY));
            if is_unknown(value, told) {
                return Ok(DataType::Unknown);
            }
        }
        Expr::Placeholder(parameter) => {
            return Ok(parameter
                .field
                .as_ref()
                .map_or(DataType::Unknown, |field| type_of_field(field)));
        }
        Expr::Alias(alias) => return type_of(&alias.expr, schema),
        _ => {}
    }
    let (_, field) = expr.to_field(schema as &dyn ExprSchema)?;
    Ok(type_of_field(&field))
}

/// Returns whether a literal has no type of its own.
pub(crate) fn is_unknown(value: &ScalarValue, told: bool) -> bool {
    matches!(value, ScalarValue::Null) || (!told && matches!(value, ScalarValue::Utf8(_)))
}
