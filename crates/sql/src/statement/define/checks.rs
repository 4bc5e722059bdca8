//! The CHECK constraints that read a column.

use crate::statement::bind::parse_expression;
use crate::statement::name_of;
use datafusion::sql::sqlparser::ast::{Expr, visit_expressions};
use relational::Result;
use relational::catalog::Table;
use std::ops::ControlFlow;

/// Returns the names of the checks of a table that read a column.
pub(super) fn reading(table: &Table, column: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for check in &table.checks {
        if reads(&parse_expression(&check.expression)?, column) {
            names.push(check.name.clone());
        }
    }
    Ok(names)
}

fn reads(expression: &Expr, column: &str) -> bool {
    let found = visit_expressions(expression, |part| {
        let name = match part {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        match name.is_some_and(|name| name_of(name) == column) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}
