//! Binary operators as calls: DataFusion asks this planner for each of them.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use relational::Error;

use super::external;
use super::named::named_function;

/// Plans all operators but AND and OR as calls of `op:` functions.
#[derive(Debug)]
pub(crate) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if matches!(raw.op, BinaryOperator::And | BinaryOperator::Or) {
            return Ok(PlannerResult::Original(raw));
        }
        let unsupported =
            || external(Error::unsupported(format!("operator {} is not supported", raw.op)));
        let name = operator_name(&raw.op).ok_or_else(unsupported)?;
        let function = named_function(&format!("op:{name}")).ok_or_else(unsupported)?;
        let call = ScalarFunction::new_udf(function, vec![raw.left, raw.right]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

/// Returns the symbol of an operator in PostgreSQL.
pub(crate) fn operator_name(op: &BinaryOperator) -> Option<String> {
    Some(match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last()?.clone(),
        BinaryOperator::NotEq => "<>".to_owned(),
        BinaryOperator::PGBitwiseXor => "#".to_owned(),
        BinaryOperator::BitwiseXor | BinaryOperator::PGExp => "^".to_owned(),
        BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor => return None,
        other => {
            let symbol = other.to_string();
            match symbol.chars().any(char::is_alphanumeric) {
                true => return None,
                false => symbol,
            }
        }
    })
}
