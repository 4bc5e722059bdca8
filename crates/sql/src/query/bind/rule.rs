//! The analyzer rule that binds named calls, and the conversions that it inserts.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Alias, Cast, Placeholder};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, Operator, Projection, RecursiveQuery, Subquery, Union,
};
use datafusion::optimizer::AnalyzerRule;
use parking_lot::Mutex;
use relational::{DataType, Error, SqlState, Value};

use super::named::NamedFunction;
use super::special::SPECIAL;
use super::{BoundFunction, Work, external, type_of};
use crate::expression::registry::Volatility;
use crate::expression::resolve::{bare, common_type, resolve};
use crate::query::arrow::{
    arrow_type, field_of, metadata_of, scalar_of, type_of_arrow, type_of_field,
};
use crate::values::{CastContext, Settings, can_cast, cast_with, parse_value, type_name};

/// The type of texts that lose the blanks at their end, of any length.
const ANY_CHAR: DataType = DataType::Char(10_485_760);

/// Types of the parameters, as far as they are known: given by the client, or inferred.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Mutex<Vec<DataType>>);

impl Parameters {
    /// Returns parameters with the types that a client gave.
    pub(crate) fn new(given: &[DataType]) -> Self {
        Self(Mutex::new(given.to_vec()))
    }

    /// Returns the types that are known so far; other parts of the statement may tell the rest.
    pub(crate) fn found(&self) -> Vec<DataType> {
        self.0.lock().clone()
    }

    /// Makes text of all parameters of which nothing told the type.
    pub(crate) fn settle(&self) {
        let mut known = self.0.lock();
        let unknown = known.iter_mut().filter(|data_type| **data_type == DataType::Unknown);
        unknown.for_each(|data_type| *data_type = DataType::Text);
    }

    /// Returns the type of a parameter, which `wanted` decides if nothing did before.
    fn decide(&self, at: usize, wanted: &DataType) -> DataType {
        let mut known = self.0.lock();
        if known.len() <= at {
            known.resize(at + 1, DataType::Unknown);
        }
        if known[at] == DataType::Unknown && *wanted != DataType::Unknown {
            known[at] = bare(wanted);
            if let DataType::Char(_) = known[at] {
                known[at] = DataType::Text;
            }
        }
        known[at].clone()
    }
}

/// Returns the place of a parameter from 0.
pub(crate) fn place_of(parameter: &Placeholder) -> Result<usize> {
    let number = parameter.id.trim_start_matches('$').parse::<usize>().ok();
    number.filter(|number| (1..=65_535).contains(number)).map(|number| number - 1).ok_or_else(
        || {
            let message = format!("there is no parameter {}", parameter.id);
            external(Error::new(SqlState::UNDEFINED_PARAMETER, message))
        },
    )
}

/// The rule for one statement.
#[derive(Debug)]
pub(crate) struct Bind {
    /// Settings with which literals are read.
    pub(crate) settings: Arc<Settings>,
    /// Parameters of the statement to bind.
    pub(crate) parameters: Arc<Parameters>,
}

impl AnalyzerRule for Bind {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let binder = Binder { settings: &self.settings, parameters: &self.parameters };
        binder.plan(plan, &DFSchema::empty())
    }

    fn name(&self) -> &str {
        "bind"
    }
}

/// Returns a lone expression bound against a schema.
pub(crate) fn bind_expr(
    expr: Expr,
    schema: &DFSchema,
    settings: &Settings,
    parameters: &Parameters,
) -> Result<Expr> {
    Binder { settings, parameters }.expr(expr, schema)
}

/// Returns NULL of a type.
pub(super) fn null_literal(data_type: &DataType) -> relational::Result<Expr> {
    literal(&Value::Null, data_type)
}

/// Returns a value as a literal that carries its type.
pub(crate) fn literal(value: &Value, data_type: &DataType) -> relational::Result<Expr> {
    let scalar = scalar_of(value, data_type)?;
    let metadata = FieldMetadata::from(metadata_of(data_type));
    Ok(Expr::Literal(scalar, Some(metadata)))
}

/// Returns whether Arrow compares values of a type as PostgreSQL does.
pub(crate) fn compares_plainly(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Bool
            | DataType::Int2
            | DataType::Int4
            | DataType::Int8
            | DataType::Oid
            | DataType::Text
            | DataType::Varchar(_)
            | DataType::Char(_)
            | DataType::Name
            | DataType::Bytea
            | DataType::Uuid
            | DataType::Date
            | DataType::Time
            | DataType::Timestamp
            | DataType::TimestampTz
    )
}

/// Returns whether values of a type are compared by keys that are computed of them.
pub(super) fn compares_by_key(data_type: &DataType) -> bool {
    super::equality::needs_key(data_type) || matches!(data_type, DataType::Numeric(_))
}

/// Binds plans and expressions of one statement.
pub(super) struct Binder<'a> {
    settings: &'a Settings,
    parameters: &'a Parameters,
}

impl Binder<'_> {
    fn plan(&self, plan: LogicalPlan, outer: &DFSchema) -> Result<LogicalPlan> {
        let bound = plan.map_children(|child| self.plan(child, outer).map(Transformed::yes))?.data;
        let bound = match bound {
            LogicalPlan::Union(union) => self.union(union)?,
            LogicalPlan::RecursiveQuery(query) => self.recursive(query)?,
            other => other,
        };
        let mut schema = merge_schema(&bound.inputs());
        if let LogicalPlan::TableScan(scan) = &bound {
            let source = DFSchema::try_from_qualified_schema(
                scan.table_name.clone(),
                &scan.source.schema(),
            )?;
            schema.merge(&source);
        }
        schema.merge(outer);
        let names = NamePreserver::new(&bound);
        let rewritten = bound.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = self.expr(expr, &schema)?;
            Ok(Transformed::yes(name.restore(new)))
        })?;
        self.equalities(rewritten.data.recompute_schema()?)
    }

    /// Binds an expression and the subqueries in it, innermost first.
    pub(super) fn expr(&self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        expr.transform_up(|expr| {
            Ok(Transformed::yes(match expr {
                Expr::ScalarFunction(call) => {
                    match call.func.inner().downcast_ref::<NamedFunction>() {
                        Some(_) => self.bind_call(call.func.name(), call.args, schema)?,
                        None => Expr::ScalarFunction(call),
                    }
                }
                Expr::ScalarSubquery(subquery) => {
                    Expr::ScalarSubquery(self.subquery(subquery, schema)?)
                }
                Expr::Exists(mut exists) => {
                    exists.subquery = self.subquery(exists.subquery, schema)?;
                    Expr::Exists(exists)
                }
                Expr::InSubquery(mut inside) => {
                    inside.subquery = self.subquery(inside.subquery, schema)?;
                    self.in_subquery(inside, schema)?
                }
                Expr::SetComparison(mut compared) => {
                    compared.subquery = self.subquery(compared.subquery, schema)?;
                    self.set_comparison(compared, schema)?
                }
                Expr::AggregateFunction(aggregate) => self.aggregate(aggregate, schema)?,
                Expr::WindowFunction(window) => self.window(*window, schema)?,
                Expr::Placeholder(parameter) if parameter.field.is_none() => {
                    self.parameter(parameter, &DataType::Unknown)?
                }
                other => other,
            }))
        })
        .map(|transformed| transformed.data)
    }

    fn subquery(&self, subquery: Subquery, outer: &DFSchema) -> Result<Subquery> {
        let plan = self.plan(Arc::unwrap_or_clone(Arc::clone(&subquery.subquery)), outer)?;
        Ok(subquery.with_plan(Arc::new(plan)))
    }

    /// Returns a typed parameter, whose type `wanted` decides if nothing did before.
    fn parameter(&self, parameter: Placeholder, wanted: &DataType) -> Result<Expr> {
        let at = place_of(&parameter)?;
        let decided = self.parameters.decide(at, wanted);
        let field = match decided {
            DataType::Unknown => None,
            decided => Some(Arc::new(field_of(&parameter.id, &decided))),
        };
        Ok(Expr::Placeholder(Placeholder::new_with_field(parameter.id, field)))
    }

    /// Returns the bound form of a call by name.
    pub(super) fn bind_call(&self, name: &str, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        if SPECIAL.contains(&name) {
            return self.bind_special(name, args, schema);
        }
        let types: Result<Vec<DataType>> = args.iter().map(|arg| type_of(arg, schema)).collect();
        let types = types?;
        let bound = resolve(name, &types).map_err(external)?;
        let mut converted = Vec::with_capacity(args.len());
        for ((arg, from), to) in args.into_iter().zip(&types).zip(&bound.arguments) {
            converted.push(self.convert(arg, from, to, CastContext::Implicit)?);
        }
        if let Some(op) = comparison(name)
            && bound.arguments.len() == 2
        {
            match &bound.arguments[0] {
                plain if compares_plainly(plain) => return Ok(compared(converted, op)),
                data_type if compares_by_key(data_type) => {
                    let keys =
                        converted.into_iter().map(|arg| super::equality::key(arg, data_type));
                    return Ok(compared(keys.collect(), op));
                }
                _ => {}
            }
        }
        let (arguments, returns) = (bound.arguments.clone(), bound.returns.clone());
        let work = Work::Call(Box::new(bound));
        Ok(BoundFunction::call(name, work, arguments, returns, converted))
    }

    /// Returns an expression converted to a type that the place allows. Literals are read at once.
    pub(super) fn convert(
        &self,
        expr: Expr,
        from: &DataType,
        to: &DataType,
        context: CastContext,
    ) -> Result<Expr> {
        let expr = match expr {
            Expr::Placeholder(parameter) if *from == DataType::Unknown => {
                let typed = self.parameter(parameter, to)?;
                let Expr::Placeholder(parameter) = &typed else { return Ok(typed) };
                let decided =
                    parameter.field.as_ref().map_or(to.clone(), |field| type_of_field(field));
                return self.convert(typed, &decided, to, context);
            }
            Expr::Literal(ScalarValue::Null, _) => return null_literal(to).map_err(external),
            Expr::Literal(ScalarValue::Utf8(None), _) => return null_literal(to).map_err(external),
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) if *from == DataType::Unknown => {
                let read = match (context, to) {
                    (CastContext::Explicit, _) => {
                        cast_with(Value::text(text), to, context, self.settings)
                    }
                    (CastContext::Implicit, DataType::Char(_)) => {
                        parse_value(&text, &ANY_CHAR, self.settings)
                    }
                    _ => parse_value(&text, to, self.settings),
                };
                return read.and_then(|value| literal(&value, to)).map_err(external);
            }
            other => other,
        };
        // Texts of fixed lengths are kept and compared without the blanks at their ends.
        if let (DataType::Char(_), CastContext::Implicit) = (to, context)
            && can_cast(from, to, context)
        {
            if let DataType::Char(_) = from {
                return Ok(expr);
            }
            let work = Work::Cast { to: ANY_CHAR, context };
            return Ok(BoundFunction::call(
                "cast",
                work,
                vec![from.clone()],
                to.clone(),
                vec![expr],
            ));
        }
        let modified = matches!(
            to,
            DataType::Varchar(Some(_)) | DataType::Char(_) | DataType::Numeric(Some(_))
        );
        // Overloads know char without its length.
        let any_length = context == CastContext::Implicit
            && matches!((from, to), (DataType::Char(_), DataType::Char(_)));
        if from == to || any_length || (!modified && bare(from) == bare(to)) {
            return Ok(expr);
        }
        if !can_cast(from, to, context) {
            let (from, to) = (type_name(from), type_name(to));
            let message = format!("expression is of type {from}, and {to} is needed");
            return Err(external(Error::new(SqlState::DATATYPE_MISMATCH, message)));
        }
        use DataType::{Float8, Int2, Int4, Int8, Text, Varchar};
        match (from, to) {
            (Int2, Int4 | Int8 | Float8) | (Int4, Int8 | Float8) => {
                Ok(widen(expr, &arrow_type(to)))
            }
            // The same Arrow type, and nothing to cut.
            (Text | Varchar(_) | DataType::Name | DataType::Char(_), Text | Varchar(None)) => {
                Ok(expr)
            }
            _ => {
                let work = Work::Cast { to: to.clone(), context };
                Ok(BoundFunction::call("cast", work, vec![from.clone()], to.clone(), vec![expr]))
            }
        }
    }

    /// Gives the branches of a union one type for each column.
    fn union(&self, union: Union) -> Result<LogicalPlan> {
        let width = union.inputs.first().map_or(0, |input| input.schema().fields().len());
        let mut types = Vec::with_capacity(width);
        for at in 0..width {
            let mut column = Vec::new();
            for input in &union.inputs {
                column.push(output_type(input, at));
            }
            let common = common_type(&column, "UNION").map_err(external)?;
            for parameter in union.inputs.iter().filter_map(|input| parameter_at(input, at)) {
                self.parameters.decide(place_of(parameter)?, &common);
            }
            types.push(common);
        }
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in union.inputs {
            inputs.push(Arc::new(self.project(Arc::unwrap_or_clone(input), &types)?));
        }
        Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
    }

    /// Gives both terms of a recursive query the same columns, their types as metadata included.
    fn recursive(&self, query: RecursiveQuery) -> Result<LogicalPlan> {
        let RecursiveQuery { name, static_term, recursive_term, is_distinct, .. } = query;
        let fields: Vec<_> =
            static_term.schema().iter().map(|(q, f)| (q.cloned(), f.clone())).collect();
        let types: Vec<DataType> =
            (0..fields.len()).map(|at| known(output_type(&static_term, at))).collect();
        let named = |term: &Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
            let mut items = Vec::with_capacity(fields.len());
            for (at, (qualifier, field)) in term.schema().iter().enumerate() {
                let Some(to) = types.get(at) else { continue };
                let from = type_of_field(field);
                let column = Expr::Column(Column::from((qualifier, field)));
                let value = match field.data_type() {
                    ArrowType::Null => null_literal(to).map_err(external)?,
                    own if *own == arrow_type(to) => column,
                    _ => self.convert(column, &from, to, CastContext::Implicit)?,
                };
                let (qualifier, field) = &fields[at];
                let metadata = FieldMetadata::from(metadata_of(to));
                items.push(Expr::Alias(
                    Alias::new(value, qualifier.clone(), field.name())
                        .with_metadata(Some(metadata)),
                ));
            }
            Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(items, Arc::clone(term))?)))
        };
        let (first, more) = (named(&static_term)?, named(&recursive_term)?);
        RecursiveQuery::try_new(name, first, more, is_distinct).map(LogicalPlan::RecursiveQuery)
    }

    fn project(&self, input: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
        let schema = Arc::clone(input.schema());
        let mut changed = false;
        let mut exprs = Vec::with_capacity(types.len());
        for (at, ((qualifier, field), to)) in schema.iter().zip(types).enumerate() {
            let from = match output_type(&input, at) {
                DataType::Unknown => type_of_field(field),
                known => known,
            };
            let column = Expr::Column(Column::from((qualifier, field)));
            let same = *field.data_type() == arrow_type(to);
            let new = match field.data_type() {
                ArrowType::Null => null_literal(to).map_err(external)?,
                _ if same => column.clone(),
                _ => self.convert(column.clone(), &from, to, CastContext::Explicit)?,
            };
            changed |= !same;
            exprs.push(match same {
                true => column,
                false => new.alias_qualified(qualifier.cloned(), field.name().clone()),
            });
        }
        if !changed {
            return Ok(input);
        }
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
    }
}

/// Returns the type of a column whose values are literals without a type.
fn known(data_type: DataType) -> DataType {
    if data_type == DataType::Unknown { DataType::Text } else { data_type }
}

/// Returns the type of a column of a plan; unknown if it is a literal without a type.
pub(super) fn output_type(plan: &LogicalPlan, at: usize) -> DataType {
    if let LogicalPlan::Projection(projection) = plan
        && let Some(expr) = projection.expr.get(at)
        && let Ok(DataType::Unknown) = type_of(expr, projection.input.schema())
    {
        return DataType::Unknown;
    }
    let field = plan.schema().field(at);
    match field.data_type() {
        ArrowType::Null => DataType::Unknown,
        _ => type_of_field(field),
    }
}

fn compared(mut operands: Vec<Expr>, op: Operator) -> Expr {
    let right = operands.pop().unwrap_or(Expr::Literal(ScalarValue::Null, None));
    let left = operands.pop().unwrap_or(Expr::Literal(ScalarValue::Null, None));
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Returns an Arrow cast that loses nothing.
pub(super) fn widen(expr: Expr, to: &ArrowType) -> Expr {
    if let Expr::Literal(value, _) = &expr
        && let Ok(value) = value.cast_to(to)
    {
        let metadata = FieldMetadata::from(metadata_of(&type_of_arrow(to)));
        return Expr::Literal(value, Some(metadata));
    }
    Expr::Cast(Cast::new(Box::new(expr), to.clone()))
}

/// Returns the parameter without a type that a column of a plan is.
fn parameter_at(plan: &LogicalPlan, at: usize) -> Option<&Placeholder> {
    let LogicalPlan::Projection(projection) = plan else { return None };
    let mut expr = projection.expr.get(at)?;
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    match expr {
        Expr::Placeholder(parameter) if parameter.field.is_none() => Some(parameter),
        _ => None,
    }
}

/// Returns Arrow's operator of a comparison.
fn comparison(name: &str) -> Option<Operator> {
    Some(match name {
        "op:=" => Operator::Eq,
        "op:<>" => Operator::NotEq,
        "op:<" => Operator::Lt,
        "op:<=" => Operator::LtEq,
        "op:>" => Operator::Gt,
        "op:>=" => Operator::GtEq,
        "op:is distinct" => Operator::IsDistinctFrom,
        "op:is not distinct" => Operator::IsNotDistinctFrom,
        _ => return None,
    })
}

/// Returns whether a call needs the context of the statement.
pub(crate) fn needs_context(work: &Work) -> bool {
    match work {
        Work::Call(bound) => bound.overload.volatility != Volatility::Immutable,
        Work::Quantified { bound, .. } => bound.overload.volatility != Volatility::Immutable,
        Work::Cast { .. } => true,
        Work::Key => false,
    }
}
