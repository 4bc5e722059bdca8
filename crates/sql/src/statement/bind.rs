//! Expressions of statements, bound to the columns of a table and to parameters.
//!
//! Literals and parameters, of which most statements consist, are bound here. All other expressions are
//! compiled by `expression`, which knows functions, operators and types.
//!
//! Invariants:
//! 1. A literal or a parameter without a type takes the type of the column that it is written to or
//!    compared with.
//! 2. Errors about names have the position of the name in the text of the statement.

use super::parse::position_of;
use super::{Column, Environment, Run, name_of};
use crate::expression::{Compiled, EvalContext, Scope, ScopeColumn, compile};
use crate::query;
use crate::values::{self, CastContext};
use datafusion::sql::sqlparser::ast::{
    Expr, Query, Statement, UnaryOperator, Value as Literal, ValueWithSpan, visit_expressions,
};
use datafusion::sql::sqlparser::parser::Parser;
use relational::catalog::Table;
use relational::{DataType, Error, Numeric, Result, SqlState, Value};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Context of the evaluation of expressions. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Eval {
    pub(crate) context: EvalContext,
    pub(crate) params: Arc<[Value]>,
}

impl Eval {
    /// Returns the settings that forms of values depend on.
    pub(crate) fn settings(&self) -> &values::Settings {
        &self.context.settings
    }
}

/// An expression that is ready to be evaluated.
pub(crate) enum Bound {
    Constant(Value, DataType),
    /// A parameter by its place, with the type of the value it becomes and its own.
    Param(usize, DataType, DataType),
    /// The value at a place of the row.
    Place(usize, DataType),
    Compiled(Box<Compiled>),
}

impl Bound {
    /// Returns the value for a row.
    pub(crate) fn value(&self, row: &[Value], eval: &Eval) -> Result<Value> {
        match self {
            Self::Constant(value, _) => Ok(value.clone()),
            Self::Place(place, _) => Ok(row.get(*place).cloned().unwrap_or_default()),
            Self::Param(place, to, own) => {
                let value = eval.params.get(*place).cloned().ok_or_else(|| {
                    let message = format!("there is no parameter ${}", place + 1);
                    Error::new(SqlState::UNDEFINED_PARAMETER, message)
                })?;
                if to == own {
                    return Ok(value);
                }
                values::cast_with(value, to, CastContext::Assignment, eval.settings())
            }
            Self::Compiled(compiled) => compiled.evaluate(row, &eval.params, &eval.context),
        }
    }

    /// Returns whether two evaluations in one statement may differ.
    pub(crate) fn is_volatile(&self) -> bool {
        matches!(self, Self::Compiled(compiled) if compiled.is_volatile())
    }

    /// Returns the place of the column that the expression is, if it is one.
    pub(crate) fn place(&self) -> Option<usize> {
        match self {
            Self::Place(place, _) => Some(*place),
            _ => None,
        }
    }

    /// Returns the type of the values in a result.
    pub(crate) fn result_type(&self) -> DataType {
        let data_type = match self {
            Self::Constant(_, data_type)
            | Self::Param(_, data_type, _)
            | Self::Place(_, data_type) => data_type,
            Self::Compiled(compiled) => compiled.data_type(),
        };
        match data_type {
            DataType::Unknown => DataType::Text,
            known => known.clone(),
        }
    }
}

/// Binds expressions that share columns and parameters.
pub(crate) struct Binder<'a> {
    engine: &'a query::Engine,
    context: EvalContext,
    columns: Vec<ScopeColumn>,
    text: &'a str,
    params: &'a mut Vec<DataType>,
}

fn columns_of(table: &Table, alias: &str) -> Vec<ScopeColumn> {
    let column = |column: &relational::catalog::Column| ScopeColumn {
        table: Some(alias.to_owned()),
        name: column.name.clone(),
        data_type: column.data_type.clone(),
    };
    table.columns.iter().map(column).collect()
}

impl<'a> Binder<'a> {
    fn new(
        environment: &'a Environment<'_>,
        text: &'a str,
        columns: Vec<ScopeColumn>,
        params: &'a mut Vec<DataType>,
    ) -> Self {
        let context = environment.context();
        Self { engine: &environment.shared.engine, context, columns, text, params }
    }

    /// Binds to the columns of a table that is called `alias`.
    pub(crate) fn of_table(
        environment: &'a Environment<'_>,
        text: &'a str,
        table: &Table,
        alias: &str,
        params: &'a mut Vec<DataType>,
    ) -> Self {
        Self::new(environment, text, columns_of(table, alias), params)
    }

    /// Binds to the columns of a table, and behind them to the columns of the row that was not inserted.
    pub(crate) fn of_conflict(
        environment: &'a Environment<'_>,
        text: &'a str,
        table: &Table,
        alias: &str,
        params: &'a mut Vec<DataType>,
    ) -> Self {
        let mut columns = columns_of(table, alias);
        columns.extend(columns_of(table, "excluded"));
        Self::new(environment, text, columns, params)
    }

    /// Binds to parameters only: no column has a name here.
    pub(crate) fn without_columns(
        environment: &'a Environment<'_>,
        text: &'a str,
        params: &'a mut Vec<DataType>,
    ) -> Self {
        Self::new(environment, text, Vec::new(), params)
    }

    /// Binds an expression of any type.
    pub(crate) fn bind(&mut self, expression: &Expr) -> Result<Bound> {
        if let Some(place) = self.column(expression) {
            return Ok(Bound::Place(place, self.columns[place].data_type.clone()));
        }
        let compiled = self.compile(expression)?;
        Ok(Bound::Compiled(Box::new(compiled)))
    }

    /// Binds an expression whose value is written to a column.
    pub(crate) fn bind_to(
        &mut self,
        expression: &Expr,
        to: &DataType,
        column: &str,
    ) -> Result<Bound> {
        if let Some(bound) = self.simple(expression, to)? {
            return Ok(bound);
        }
        let compiled = self.compile(expression)?.assigned_to(to, column)?;
        self.infer(&compiled);
        Ok(Bound::Compiled(Box::new(compiled)))
    }

    /// Binds a constant that is compared with a column of the type `beside`. The value may be of another
    /// type.
    pub(crate) fn bind_beside(&mut self, expression: &Expr, beside: &DataType) -> Result<Bound> {
        let beside = match beside {
            DataType::Varchar(_) | DataType::Char(_) | DataType::Name => &DataType::Text,
            DataType::Numeric(_) => &DataType::Numeric(None),
            other => other,
        };
        match expression {
            Expr::Value(ValueWithSpan { value: Literal::SingleQuotedString(text), .. }) => {
                let value = values::parse_value(text, beside, &self.context.settings)?;
                Ok(Bound::Constant(value, beside.clone()))
            }
            Expr::Value(ValueWithSpan { value: Literal::Number(text, _), .. }) => {
                let (value, data_type) = number(&text.to_string())?;
                Ok(Bound::Constant(value, data_type))
            }
            Expr::Value(ValueWithSpan { value: Literal::Placeholder(name), .. }) => {
                let (place, own) = self.param(name, beside)?;
                Ok(Bound::Param(place, own.clone(), own))
            }
            other => {
                let compiled = self.compile(other)?;
                Ok(Bound::Compiled(Box::new(compiled)))
            }
        }
    }

    /// Binds a condition, whose type must be boolean.
    pub(crate) fn bind_condition(&mut self, expression: &Expr) -> Result<Bound> {
        let compiled = self.compile(expression)?;
        match compiled.data_type() {
            DataType::Bool | DataType::Unknown => Ok(Bound::Compiled(Box::new(compiled))),
            other => {
                let message = format!(
                    "argument of WHERE must be type boolean, not type {}",
                    values::type_name(other)
                );
                Err(Error::new(SqlState::DATATYPE_MISMATCH, message))
            }
        }
    }

    /// Binds the number of a LIMIT.
    pub(crate) fn bind_number(&mut self, expression: &Expr) -> Result<Bound> {
        self.bind_to(expression, &DataType::Int8, "LIMIT")
    }

    /// Returns the place of the column that an expression names, if it is one and the only one.
    fn column(&self, expression: &Expr) -> Option<usize> {
        let (table, name) = match expression {
            Expr::Identifier(name) => (None, name_of(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, name] => (Some(name_of(table)), name_of(name)),
                _ => return None,
            },
            _ => return None,
        };
        let is_meant = |column: &ScopeColumn| {
            column.name == name
                && table.as_ref().is_none_or(|table| column.table.as_ref() == Some(table))
        };
        let mut found = (0..self.columns.len()).filter(|place| is_meant(&self.columns[*place]));
        match (found.next(), found.next()) {
            (Some(place), None) => Some(place),
            _ => None,
        }
    }

    /// Binds a literal or a parameter that is written to a column.
    fn simple(&mut self, expression: &Expr, to: &DataType) -> Result<Option<Bound>> {
        let settings = Arc::clone(&self.context.settings);
        let assigned = |value: Value| {
            let value = values::cast_with(value, to, CastContext::Assignment, &settings)?;
            Ok(Some(Bound::Constant(value, to.clone())))
        };
        match expression {
            Expr::Nested(inner) => self.simple(inner, to),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } if is_number(to) => {
                match expr.as_ref() {
                    Expr::Value(ValueWithSpan { value: Literal::Number(text, _), .. }) => {
                        assigned(number(&format!("-{text}"))?.0)
                    }
                    _ => Ok(None),
                }
            }
            Expr::Value(ValueWithSpan { value, span }) => match value {
                Literal::Null => Ok(Some(Bound::Constant(Value::Null, to.clone()))),
                Literal::Boolean(value) if *to == DataType::Bool => assigned(Value::Bool(*value)),
                Literal::Number(text, _) if is_number(to) => assigned(number(&text.to_string())?.0),
                Literal::SingleQuotedString(text) => {
                    let parsed = values::parse_value(text, to, &settings);
                    let value = parsed.map_err(|error| match span.start.line {
                        0 => error,
                        _ => error.at(position_of(self.text, span.start)),
                    })?;
                    Ok(Some(Bound::Constant(value, to.clone())))
                }
                Literal::Placeholder(name) => {
                    let (place, own) = self.param(name, to)?;
                    if own != *to && !values::can_cast(&own, to, CastContext::Assignment) {
                        return Ok(None);
                    }
                    Ok(Some(Bound::Param(place, to.clone(), own)))
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Returns place and type of a parameter, which takes the type `wanted` if it has none.
    fn param(&mut self, name: &str, wanted: &DataType) -> Result<(usize, DataType)> {
        let place = name.trim_start_matches('$').parse::<usize>().ok();
        let place = place.and_then(|number| number.checked_sub(1));
        let known = place.and_then(|place| self.params.get_mut(place).map(|known| (place, known)));
        let Some((place, known)) = known else {
            let message = format!("there is no parameter {name}");
            return Err(Error::new(SqlState::UNDEFINED_PARAMETER, message));
        };
        if *known == DataType::Unknown {
            *known = wanted.clone();
        }
        Ok((place, known.clone()))
    }

    fn compile(&mut self, expression: &Expr) -> Result<Compiled> {
        let scope = Scope {
            engine: self.engine,
            evaluation: &self.context,
            columns: &self.columns,
            param_types: self.params,
        };
        let compiled = compile(expression, &scope);
        let compiled = compiled.map_err(|error| placed(error, expression, self.text))?;
        self.infer(&compiled);
        Ok(compiled)
    }

    fn infer(&mut self, compiled: &Compiled) {
        for (known, found) in self.params.iter_mut().zip(compiled.param_types()) {
            if *known == DataType::Unknown {
                known.clone_from(found);
            }
        }
    }
}

/// Adds the position of the name that an error is about.
fn placed(error: Error, expression: &Expr, text: &str) -> Error {
    let is_about_name =
        matches!(error.state, SqlState::UNDEFINED_COLUMN | SqlState::AMBIGUOUS_COLUMN);
    if error.position.is_some() || !is_about_name || text.is_empty() {
        return error;
    }
    let Some(name) = error.message.split('"').nth(1) else { return error };
    let name = name.rsplit('.').next().unwrap_or(name).to_owned();
    let found = visit_expressions(expression, |expression| {
        let (first, last) = match expression {
            Expr::Identifier(ident) => (ident, ident),
            Expr::CompoundIdentifier(parts) => match (parts.first(), parts.last()) {
                (Some(first), Some(last)) => (first, last),
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        match name_of(last) == name && first.span.start.line > 0 {
            true => ControlFlow::Break(first.span.start),
            false => ControlFlow::Continue(()),
        }
    });
    match found {
        ControlFlow::Break(start) => error.at(position_of(text, start)),
        ControlFlow::Continue(()) => error,
    }
}

fn is_number(data_type: &DataType) -> bool {
    use DataType::{Float4, Float8, Int2, Int4, Int8};
    matches!(data_type, Int2 | Int4 | Int8 | Float4 | Float8 | DataType::Numeric(_))
}

/// Returns the value of a number, of the smallest type that has it.
fn number(text: &str) -> Result<(Value, DataType)> {
    if let Ok(number) = text.parse::<i32>() {
        return Ok((Value::Int4(number), DataType::Int4));
    }
    if let Ok(number) = text.parse::<i64>() {
        return Ok((Value::Int8(number), DataType::Int8));
    }
    let number = text.parse::<Numeric>().map_err(|_| {
        let message = format!("invalid input syntax for type numeric: \"{text}\"");
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
    })?;
    Ok((Value::Numeric(number), DataType::Numeric(None)))
}

/// Parses an expression that the catalog keeps.
pub(crate) fn parse_expression(text: &str) -> Result<Expr> {
    let dialect = query::Dialect::for_length(text.len());
    let parsed = Parser::new(&dialect).try_with_sql(text);
    let parsed = parsed.and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| {
        let message = format!("an expression of the catalog cannot be read: {error}");
        Error::new(SqlState::SYNTAX_ERROR, message)
    })
}

/// Parses a query that was made here.
pub(crate) fn parse_query(text: &str) -> Result<Query> {
    let parsed = Parser::parse_sql(&query::Dialect::for_length(text.len()), text);
    match parsed.unwrap_or_default().pop() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(Error::internal("a query that was made cannot be read")),
    }
}

/// Returns whether an expression is the word DEFAULT.
pub(crate) fn is_default(expression: &Expr) -> bool {
    matches!(expression, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// Returns the name of a column of a result that has none of its own.
pub(crate) fn column_label(expression: &Expr) -> String {
    match expression {
        Expr::Identifier(name) => name_of(name),
        Expr::CompoundIdentifier(parts) => parts.last().map(name_of).unwrap_or_default(),
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            last.map(name_of).unwrap_or_default()
        }
        Expr::Nested(inner) => column_label(inner),
        Expr::Cast { expr, data_type, .. } => match column_label(expr).as_str() {
            "?column?" => super::data_type(data_type)
                .map_or_else(|_| "?column?".into(), |known| values::type_short_name(&known)),
            label => label.to_owned(),
        },
        Expr::Case { .. } => "case".into(),
        Expr::Value(ValueWithSpan { value: Literal::Boolean(_), .. }) => "bool".into(),
        Expr::Extract { .. } => "extract".into(),
        Expr::Substring { .. } => "substring".into(),
        Expr::Trim { .. } => "btrim".into(),
        Expr::Position { .. } => "position".into(),
        Expr::Array(_) => "array".into(),
        Expr::Exists { .. } => "exists".into(),
        _ => "?column?".into(),
    }
}

/// Fails with 42804 if a column takes no values of a type.
pub(crate) fn check_assignment(from: &DataType, to: &DataType, column: &str) -> Result<()> {
    if from == to || values::can_cast(from, to, CastContext::Assignment) {
        return Ok(());
    }
    let (from, to) = (values::type_name(from), values::type_name(to));
    let message = format!("column \"{column}\" is of type {to} but expression is of type {from}");
    Err(Error::new(SqlState::DATATYPE_MISMATCH, message)
        .with_hint("You will need to rewrite or cast the expression."))
}

/// Returns the value of an argument of EXECUTE.
pub(crate) fn literal(
    environment: &Environment<'_>,
    expression: &Expr,
    to: &DataType,
    params: &Arc<[Value]>,
) -> Result<Value> {
    let mut types = vec![DataType::Unknown; params.len()];
    let mut binder = Binder::without_columns(environment, "", &mut types);
    let bound = binder.bind_to(expression, to, "parameter")?;
    bound.value(&[], &Eval { context: environment.context(), params: Arc::clone(params) })
}

/// Plans a query by the query side.
pub(crate) fn plan_query(
    environment: &Environment<'_>,
    text: &str,
    query: &Query,
    params: &mut [DataType],
) -> Result<query::Planned> {
    let context = query::QueryContext {
        engine: Arc::clone(&environment.shared.engine),
        evaluation: environment.context(),
        param_types: params.to_vec(),
    };
    let planned = query::plan(&context, query, text)?;
    environment.check_reads(planned.reads())?;
    for (known, found) in params.iter_mut().zip(planned.param_types()) {
        if *known == DataType::Unknown {
            known.clone_from(found);
        }
    }
    Ok(planned)
}

/// Returns the columns of a planned query.
pub(crate) fn query_columns(planned: &query::Planned) -> Arc<[Column]> {
    let column = |column: &query::OutColumn| Column {
        name: column.name.clone(),
        data_type: column.data_type.clone(),
        table: column.table_oid,
        number: column.attnum,
        vector: column.vector,
    };
    planned.columns().iter().map(column).collect()
}

fn query_run(run: &mut Run<'_>) -> query::Run {
    let evaluation = run.eval.context.clone();
    let (view, cancel) = (run.transaction.view(), run.flag.clone());
    query::Run { view, evaluation, cancel, counts: engine::perf_context::current() }
}

/// Starts a planned query in the snapshot of its statement.
pub(crate) async fn execute_query(
    planned: &query::Planned,
    run: &mut Run<'_>,
) -> Result<query::RowStream> {
    let execution = query_run(run);
    planned.execute(execution, &run.eval.params).await
}

/// Returns the plan of a planned query as lines of text.
pub(crate) async fn explain_query(
    planned: &query::Planned,
    is_analyzed: bool,
    run: &mut Run<'_>,
) -> Result<Vec<String>> {
    let execution = query_run(run);
    planned.explain(execution, &run.eval.params, is_analyzed).await
}
