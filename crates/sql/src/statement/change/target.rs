//! The table that a statement changes, with everything that its rows must pass.

use crate::statement::bind::{Binder, Bound, Eval, parse_expression};
use crate::statement::names::schema_name;
use crate::statement::{Environment, Run};
use crate::values;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Value as Literal,
};
use relational::catalog::{Column, Identity, Relation, Table};
use relational::{DataType, Error, Oid, Result, Row, SqlState, Value};
use std::sync::Arc;

/// Value of a column that a row gives none for.
pub(crate) enum Default {
    Null,
    Expression(Box<Bound>),
    /// The next number of a sequence.
    Sequence(Oid),
}

/// A table whose rows are written.
pub(crate) struct Target {
    pub(crate) table: Arc<Table>,
    schema: String,
    checks: Vec<(String, Bound)>,
    /// Places of generated columns, with what computes them.
    generated: Vec<(usize, Bound)>,
}

impl Target {
    /// Returns a table with its checks and generated columns, bound.
    pub(crate) fn of(environment: &Environment<'_>, table: &Arc<Table>) -> Result<Self> {
        let mut none = Vec::new();
        let mut binder = Binder::of_table(environment, "", table, &table.name, &mut none);
        let mut checks = Vec::new();
        for check in &table.checks {
            let expression = parse_expression(&check.expression)?;
            checks.push((check.name.clone(), binder.bind(&expression)?));
        }
        let mut generated = Vec::new();
        for (place, column) in table.columns.iter().enumerate() {
            if let Some(text) = &column.generated {
                let expression = parse_expression(text)?;
                generated
                    .push((place, binder.bind_to(&expression, &column.data_type, &column.name)?));
            }
        }
        let schema = schema_name(environment.catalog, table);
        Ok(Self { table: Arc::clone(table), schema, checks, generated })
    }

    /// Returns the value of the column at `place` in a row that gives none.
    pub(crate) fn default_of(
        &self,
        environment: &Environment<'_>,
        place: usize,
    ) -> Result<Default> {
        let column = &self.table.columns[place];
        let owned = environment.catalog.sequence_of(self.table.oid, column.number);
        match (&column.default, owned) {
            (None, Some(sequence)) if column.identity.is_some() => {
                Ok(Default::Sequence(sequence.oid))
            }
            (Some(text), owned) => {
                let expression = parse_expression(text)?;
                if let Some(sequence) = owned
                    && is_next_of(environment, &expression, sequence.oid)
                {
                    return Ok(Default::Sequence(sequence.oid));
                }
                let mut none = Vec::new();
                let mut binder = Binder::without_columns(environment, "", &mut none);
                let bound = binder.bind_to(&expression, &column.data_type, &column.name)?;
                Ok(Default::Expression(Box::new(bound)))
            }
            (None, _) => Ok(Default::Null),
        }
    }

    /// Fails if a statement may not give the column a value of its own.
    pub(crate) fn check_is_writable(&self, column: &Column, verb: &str) -> Result<()> {
        let refused = |detail: String| {
            let name = &column.name;
            let message = match verb {
                "insert" => format!("cannot insert a non-DEFAULT value into column \"{name}\""),
                _ => format!("column \"{name}\" can only be updated to DEFAULT"),
            };
            Err(Error::new(SqlState::GENERATED_ALWAYS, message).with_detail(detail))
        };
        if column.generated.is_some() {
            return refused(format!("Column \"{}\" is a generated column.", column.name));
        }
        if column.identity == Some(Identity::Always) {
            let detail = "is an identity column defined as GENERATED ALWAYS.";
            return refused(format!("Column \"{}\" {detail}", column.name));
        }
        Ok(())
    }

    /// Computes the generated columns of a row, and checks it.
    pub(crate) fn finish(&self, row: &mut Row, eval: &Eval) -> Result<()> {
        self.round(row);
        for (place, bound) in &self.generated {
            let value = bound.value(row, eval)?;
            if let Some(slot) = row.get_mut(*place) {
                *slot = value;
            }
        }
        if !self.generated.is_empty() {
            self.round(row);
        }
        for (name, check) in &self.checks {
            if check.value(row, eval)? == Value::Bool(false) {
                let table = &self.table.name;
                let message = format!(
                    "new row for relation \"{table}\" violates check constraint \"{name}\""
                );
                return Err(Error::new(SqlState::CHECK_VIOLATION, message)
                    .with_detail(self.failing(row, eval.settings()))
                    .of_table(self.schema.clone(), table.clone())
                    .of_constraint(name.clone()));
            }
        }
        Ok(())
    }

    /// Rounds moments to the precision of their columns.
    fn round(&self, row: &mut Row) {
        for (value, column) in row.iter_mut().zip(&self.table.columns) {
            if let Some(digits) = column.precision {
                *value = values::round_moment(std::mem::take(value), digits);
            }
        }
    }

    fn failing(&self, row: &Row, settings: &values::Settings) -> String {
        let texts = row.iter().take(self.table.columns.len()).map(|value| match value {
            Value::Null => "null".to_owned(),
            value => {
                let mut text = values::value_text(value, settings);
                if text.chars().count() > 64 {
                    text = text.chars().take(64).chain("...".chars()).collect();
                }
                text
            }
        });
        format!("Failing row contains ({}).", texts.collect::<Vec<_>>().join(", "))
    }
}

/// Returns whether an expression is exactly `nextval` of a sequence.
fn is_next_of(environment: &Environment<'_>, expression: &Expr, sequence: Oid) -> bool {
    let Expr::Function(function) = expression else { return false };
    let FunctionArguments::List(list) = &function.args else { return false };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else {
        return false;
    };
    let argument = match argument {
        Expr::Cast { expr, .. } => expr.as_ref(),
        other => other,
    };
    let Expr::Value(value) = argument else { return false };
    let Literal::SingleQuotedString(name) = &value.value else { return false };
    let name = match parse_expression(name) {
        Ok(Expr::Identifier(name)) => ObjectName::from(vec![name]),
        Ok(Expr::CompoundIdentifier(parts)) => ObjectName::from(parts),
        _ => return false,
    };
    let is_call = function.name.to_string().trim_start_matches("pg_catalog.") == "nextval";
    let found = environment.find(&name);
    is_call && matches!(found, Ok(Some(Relation::Sequence(found))) if found.oid == sequence)
}

impl Default {
    /// Returns the value for one row.
    pub(crate) async fn value(&self, run: &mut Run<'_>, data_type: &DataType) -> Result<Value> {
        match self {
            Self::Null => Ok(Value::Null),
            Self::Expression(bound) => bound.value(&[], &run.eval()),
            Self::Sequence(sequence) => {
                let number = run.nextval(*sequence).await?;
                values::cast(Value::Int8(number), data_type, run.settings.of_values())
            }
        }
    }
}
