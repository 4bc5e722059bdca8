//! The CHECK constraints that read a column.

use crate::statement::bind::parse_expression;
use crate::statement::name_of;
use datafusion::sql::sqlparser::ast::{Expr, visit_expressions};
use relational::Result;
use relational::catalog::Table;
use std::collections::HashSet;
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
    names(expression).contains(column)
}

/// Returns the names of the columns in the text of an expression; none if it cannot be read.
pub(crate) fn names_in(expression: &str) -> HashSet<String> {
    parse_expression(expression).as_ref().map(names).unwrap_or_default()
}

fn names(expression: &Expr) -> HashSet<String> {
    let mut found = HashSet::new();
    let _ = visit_expressions(expression, |part| {
        let name = match part {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        found.extend(name.map(name_of));
        ControlFlow::<()>::Continue(())
    });
    found
}
