//! Compiles expressions to trees that compute single values.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::Expr as Syntax;
use datafusion::sql::sqlparser::parser::Parser;
use relational::{DataType, Error, Result, SqlState, Value};

use super::context::EvalContext;
use crate::query::bind::{BoundFunction, Parameters, bind_expr, place_of, type_of};
use crate::query::{Dialect, Engine, Provider, from_datafusion, rewrite_expr};
use crate::values::{CastContext, can_cast, cast, cast_with, type_name};

/// A column that an expression may name.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// The table's name or alias.
    pub table: Option<String>,
    /// The name of the column.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
}

/// The session's part in the compilation of an expression.
pub struct Scope<'a> {
    /// The engine of the server, which binds names.
    pub engine: &'a Engine,
    /// Catalog, settings and roles of the session.
    pub evaluation: &'a EvalContext,
    /// Columns of the row, in its order.
    pub columns: &'a [ScopeColumn],
    /// Types of parameters; unknown ones are inferred.
    pub param_types: &'a [DataType],
}

/// An expression that was compiled.
#[derive(Clone, Debug)]
pub struct Compiled {
    node: Node,
    data_type: DataType,
    param_types: Vec<DataType>,
    is_volatile: bool,
}

#[derive(Clone, Debug)]
enum Node {
    Value(Value),
    Column(usize),
    Parameter(usize),
    Call(Arc<Expr>, Vec<Node>),
    Compare(Operator, Box<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Not(Box<Node>),
    /// IS NULL, IS TRUE and their kin: the test, and whether it is turned round.
    Is(Test, bool, Box<Node>),
    Case(Vec<(Node, Node)>, Box<Node>),
    In(Box<Node>, Vec<Node>, bool),
    Cast(DataType, Box<Node>),
    Convert(DataType, CastContext, Box<Node>),
}

#[derive(Clone, Copy, Debug)]
enum Test {
    Null,
    True,
    False,
}

/// Compiles an expression in SQL text, as the catalog keeps DEFAULT and CHECK.
pub fn compile_text(text: &str, scope: &Scope<'_>) -> Result<Compiled> {
    let bad = |problem: datafusion::sql::sqlparser::parser::ParserError| {
        Error::new(SqlState::SYNTAX_ERROR, format!("syntax error in an expression: {problem}"))
    };
    let dialect = Dialect::for_length(text.len());
    let mut parser = Parser::new(&dialect).try_with_sql(text).map_err(bad)?;
    let syntax = parser.parse_expr().map_err(bad)?;
    compile(&syntax, scope)
}

/// Compiles an expression. Errors: undefined names, types that do not fit, and 0A000 for subqueries, aggregates
/// and window functions.
pub fn compile(syntax: &Syntax, scope: &Scope<'_>) -> Result<Compiled> {
    let mut syntax = syntax.clone();
    rewrite_expr(&mut syntax)?;
    let fields = scope.columns.iter().map(|column| {
        let table = column.table.as_deref().map(TableReference::bare);
        let field: Field = crate::query::field_of(&column.name, &column.data_type);
        (table, Arc::new(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), Default::default());
    let schema = schema.map_err(from_datafusion)?;
    debug_assert!(Schema::empty().fields().is_empty());
    let provider = Provider::new(scope.engine, scope.evaluation);
    let planned = SqlToRel::new(&provider)
        .sql_to_expr(syntax, &schema, &mut PlannerContext::new())
        .map_err(from_datafusion)?;
    let parameters = Parameters::new(scope.param_types);
    let settings = &scope.evaluation.settings;
    let bound = bind_expr(planned, &schema, settings, &parameters).map_err(from_datafusion)?;
    let data_type = type_of(&bound, &schema).map_err(from_datafusion)?;
    let node = node(&bound, &schema)?;
    let (param_types, is_volatile) = (parameters.found(), bound.is_volatile());
    Ok(Compiled { node, data_type, param_types, is_volatile })
}

fn pair(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Box<[Node; 2]>> {
    Ok(Box::new([node(left, schema)?, node(right, schema)?]))
}

fn node(expr: &Expr, schema: &DFSchema) -> Result<Node> {
    let inner = |expr: &Expr| node(expr, schema).map(Box::new);
    Ok(match expr {
        Expr::Alias(alias) => return node(&alias.expr, schema),
        Expr::Literal(value, _) => {
            let data_type = type_of(expr, schema).map_err(from_datafusion)?;
            Node::Value(crate::query::scalar_value(value, &data_type)?)
        }
        Expr::Column(column) => {
            Node::Column(schema.index_of_column(column).map_err(from_datafusion)?)
        }
        Expr::Placeholder(parameter) => {
            Node::Parameter(place_of(parameter).map_err(from_datafusion)?)
        }
        Expr::ScalarFunction(call) => {
            let nodes: Result<Vec<Node>> = call.args.iter().map(|arg| node(arg, schema)).collect();
            match call.func.inner().downcast_ref::<BoundFunction>() {
                Some(_) => Node::Call(Arc::new(expr.clone()), nodes?),
                None => return Err(Error::internal("a call was not bound")),
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => Node::And(pair(left, right, schema)?),
            Operator::Or => Node::Or(pair(left, right, schema)?),
            _ => Node::Compare(*op, pair(left, right, schema)?),
        },
        Expr::Not(operand) => Node::Not(inner(operand)?),
        Expr::IsNull(operand) | Expr::IsUnknown(operand) => {
            Node::Is(Test::Null, false, inner(operand)?)
        }
        Expr::IsNotNull(operand) | Expr::IsNotUnknown(operand) => {
            Node::Is(Test::Null, true, inner(operand)?)
        }
        Expr::IsTrue(operand) => Node::Is(Test::True, false, inner(operand)?),
        Expr::IsNotTrue(operand) => Node::Is(Test::True, true, inner(operand)?),
        Expr::IsFalse(operand) => Node::Is(Test::False, false, inner(operand)?),
        Expr::IsNotFalse(operand) => Node::Is(Test::False, true, inner(operand)?),
        Expr::Case(case) if case.expr.is_none() => {
            let mut pairs = Vec::new();
            for (when, then) in &case.when_then_expr {
                pairs.push((node(when, schema)?, node(then, schema)?));
            }
            let other = match &case.else_expr {
                Some(other) => node(other, schema)?,
                None => Node::Value(Value::Null),
            };
            Node::Case(pairs, Box::new(other))
        }
        Expr::InList(list) => {
            let items: Result<Vec<Node>> =
                list.list.iter().map(|item| node(item, schema)).collect();
            Node::In(inner(&list.expr)?, items?, list.negated)
        }
        Expr::Cast(cast) => {
            Node::Cast(crate::query::type_of_field(&cast.field), inner(&cast.expr)?)
        }
        Expr::ScalarSubquery(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_) => {
            return Err(Error::unsupported("cannot use subquery in this expression"));
        }
        Expr::AggregateFunction(_) => {
            let message = "aggregate functions are not allowed in this expression";
            return Err(Error::new(SqlState::GROUPING_ERROR, message));
        }
        Expr::WindowFunction(_) => {
            let message = "window functions are not allowed in this expression";
            return Err(Error::new(SqlState::WINDOWING_ERROR, message));
        }
        _ => return Err(Error::unsupported("this expression is not supported here")),
    })
}

impl Compiled {
    /// Returns the type of the values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns whether two evaluations in one statement may differ.
    pub(crate) fn is_volatile(&self) -> bool {
        self.is_volatile
    }

    /// Returns the types of the parameters, given or inferred.
    pub fn param_types(&self) -> &[DataType] {
        &self.param_types
    }

    /// Returns the expression converted to the type of a column, as an assignment does. 42804 if
    /// there is no such conversion; `column` is named in the message.
    pub fn assigned_to(self, to: &DataType, column: &str) -> Result<Compiled> {
        if self.data_type == *to {
            return Ok(self);
        }
        if !can_cast(&self.data_type, to, CastContext::Assignment) {
            let (from, to) = (type_name(&self.data_type), type_name(to));
            let message =
                format!("column \"{column}\" is of type {to} but expression is of type {from}");
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("You will need to rewrite or cast the expression."));
        }
        let mut param_types = self.param_types;
        if let (Node::Parameter(at), DataType::Text) = (&self.node, &self.data_type) {
            if let Some(place) = param_types.get_mut(*at) {
                *place = to.clone();
            }
        } else if let (Node::Parameter(at), DataType::Unknown) = (&self.node, &self.data_type)
            && let Some(place) = param_types.get_mut(*at)
        {
            *place = to.clone();
        }
        let node = Node::Convert(to.clone(), CastContext::Assignment, Box::new(self.node));
        Ok(Compiled { node, data_type: to.clone(), param_types, is_volatile: self.is_volatile })
    }

    /// Returns the value for a row and parameters. Errors: the errors of the functions.
    pub fn evaluate(
        &self,
        row: &[Value],
        params: &[Value],
        context: &EvalContext,
    ) -> Result<Value> {
        self.node.value(row, params, context)
    }
}

impl Node {
    fn value(&self, row: &[Value], params: &[Value], context: &EvalContext) -> Result<Value> {
        let of = |node: &Node| node.value(row, params, context);
        Ok(match self {
            Node::Value(value) => value.clone(),
            Node::Column(at) => row.get(*at).cloned().unwrap_or_default(),
            Node::Parameter(at) => params.get(*at).cloned().ok_or_else(|| {
                let message = format!("there is no parameter ${}", at + 1);
                Error::new(SqlState::UNDEFINED_PARAMETER, message)
            })?,
            Node::Call(call, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(of(argument)?);
                }
                let Expr::ScalarFunction(call) = call.as_ref() else { return Ok(Value::Null) };
                match call.func.inner().downcast_ref::<BoundFunction>() {
                    Some(bound) => bound.value(&values, context)?,
                    None => Value::Null,
                }
            }
            Node::Compare(op, sides) => compared(*op, &of(&sides[0])?, &of(&sides[1])?),
            Node::And(sides) => match of(&sides[0])? {
                Value::Bool(false) => Value::Bool(false),
                left => match (left, of(&sides[1])?) {
                    (_, Value::Bool(false)) => Value::Bool(false),
                    (Value::Bool(true), Value::Bool(true)) => Value::Bool(true),
                    _ => Value::Null,
                },
            },
            Node::Or(sides) => match of(&sides[0])? {
                Value::Bool(true) => Value::Bool(true),
                left => match (left, of(&sides[1])?) {
                    (_, Value::Bool(true)) => Value::Bool(true),
                    (Value::Bool(false), Value::Bool(false)) => Value::Bool(false),
                    _ => Value::Null,
                },
            },
            Node::Not(operand) => match of(operand)? {
                Value::Bool(value) => Value::Bool(!value),
                _ => Value::Null,
            },
            Node::Is(test, turned, operand) => {
                let found = match (test, of(operand)?) {
                    (Test::Null, value) => value.is_null(),
                    (Test::True, Value::Bool(value)) => value,
                    (Test::False, Value::Bool(value)) => !value,
                    _ => false,
                };
                Value::Bool(found != *turned)
            }
            Node::Case(pairs, other) => {
                for (when, then) in pairs {
                    if matches!(of(when)?, Value::Bool(true)) {
                        return of(then);
                    }
                }
                of(other)?
            }
            Node::In(operand, items, negated) => {
                let wanted = of(operand)?;
                let mut open = wanted.is_null();
                for item in items {
                    match compared(Operator::Eq, &wanted, &of(item)?) {
                        Value::Bool(true) => return Ok(Value::Bool(!negated)),
                        Value::Bool(false) => {}
                        _ => open = true,
                    }
                }
                if open { Value::Null } else { Value::Bool(*negated) }
            }
            Node::Cast(to, operand) => cast(of(operand)?, to, &context.settings)?,
            Node::Convert(to, place, operand) => {
                cast_with(of(operand)?, to, *place, &context.settings)?
            }
        })
    }
}

fn compared(op: Operator, left: &Value, right: &Value) -> Value {
    let order = left.cmp(right);
    match op {
        Operator::IsDistinctFrom => return Value::Bool(order != Ordering::Equal),
        Operator::IsNotDistinctFrom => return Value::Bool(order == Ordering::Equal),
        _ if left.is_null() || right.is_null() => return Value::Null,
        _ => {}
    }
    Value::Bool(match op {
        Operator::Eq => order.is_eq(),
        Operator::NotEq => order.is_ne(),
        Operator::Lt => order.is_lt(),
        Operator::LtEq => order.is_le(),
        Operator::Gt => order.is_gt(),
        _ => order.is_ge(),
    })
}
