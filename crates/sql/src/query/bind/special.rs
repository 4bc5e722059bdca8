//! Constructs that are no functions but were written as calls: casts, CASE, IN, COALESCE, NULLIF,
//! ANY and ALL.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{Case, InList, ScalarFunction};
use relational::{DataType, Error, SqlState};

use super::rule::Binder;
use super::{BoundFunction, Work, external, named_function, type_of};
use crate::expression::resolve::{common_type, resolve};
use crate::values::{CastContext, can_cast, parse_type, type_name, unknown_type};

/// Most nodes of an expression that is copied within another.
const COPIED_NODES_MAX: usize = 10_000;

/// Names under which the constructs are called.
pub(super) const SPECIAL: &[&str] = &[
    "__cast",
    "__case",
    "__in",
    "__coalesce",
    "__nullif",
    "__any",
    "__all",
    ANY_OF,
    ALL_OF,
    ARRAY_OF,
];

/// True if a row of a subquery of truth values is true.
pub(super) const ANY_OF: &str = "__any_of";
/// True if all rows of a subquery of truth values are true.
pub(super) const ALL_OF: &str = "__all_of";
/// The values of a subquery as an array.
pub(super) const ARRAY_OF: &str = "__array_of";

/// Returns the text of a constant argument.
pub(super) fn constant_text(scalar: Option<&ScalarValue>) -> Option<&str> {
    match scalar? {
        ScalarValue::Utf8(Some(text)) => Some(text),
        _ => None,
    }
}

/// Returns the type of a construct; nothing if the name is a function's.
pub(super) fn special_type(
    name: &str,
    types: &[DataType],
    scalars: &[Option<&ScalarValue>],
) -> Option<relational::Result<DataType>> {
    Some(match name {
        "__cast" => cast_target(constant_text(scalars.get(1).copied().flatten()).unwrap_or("")),
        "__case" => common_type(&case_results(types), "CASE"),
        "__coalesce" => common_type(types, "COALESCE"),
        "__nullif" => Ok(types.first().cloned().unwrap_or(DataType::Unknown)),
        "__in" | "__any" | "__all" | ANY_OF | ALL_OF => Ok(DataType::Bool),
        ARRAY_OF => Ok(DataType::Array(Box::new(match types.first() {
            None | Some(DataType::Unknown) => DataType::Text,
            Some(known) => known.clone(),
        }))),
        _ => return None,
    })
}

/// Returns the type that a cast names, or 42704.
fn cast_target(name: &str) -> relational::Result<DataType> {
    parse_type(name).ok_or_else(|| unknown_type(name))
}

/// Returns the types of the results among conditions and results, the last of which is ELSE.
fn case_results(types: &[DataType]) -> Vec<DataType> {
    let Some((last, pairs)) = types.split_last() else { return Vec::new() };
    let mut results: Vec<DataType> = vec![last.clone()];
    results.extend(pairs.chunks(2).filter_map(|pair| pair.get(1).cloned()));
    results
}

/// Returns the call that marks a subquery.
pub(super) fn marked(name: &str, args: Vec<Expr>) -> Result<Expr> {
    let missing = || external(Error::internal(format!("{name} is no function")));
    let function = named_function(name).ok_or_else(missing)?;
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(function, args)))
}

/// Returns a copy of an expression. 54001 if it is large: nested copies double with each level.
fn copied(expr: &Expr) -> Result<Expr> {
    let mut nodes = 0;
    expr.apply(|_| {
        nodes += 1;
        Ok(if nodes > COPIED_NODES_MAX {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    match nodes > COPIED_NODES_MAX {
        true => Err(external(crate::query::rewrite::too_large())),
        false => Ok(expr.clone()),
    }
}

fn is_constant(expr: &Expr) -> bool {
    !expr.any_column_refs()
}

impl Binder<'_> {
    /// Returns the bound form of a construct.
    pub(super) fn bind_special(
        &self,
        name: &str,
        args: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<Expr> {
        match name {
            "__cast" => self.bind_cast(args, schema),
            "__case" => self.bind_case(args, schema),
            "__coalesce" => self.bind_coalesce(args, schema),
            "__nullif" => self.bind_nullif(args, schema),
            "__in" => self.bind_in(args, schema),
            // The subquery in it is replaced when the plan is made.
            ANY_OF | ALL_OF | ARRAY_OF => marked(name, args),
            _ => self.bind_quantified(name == "__any", args, schema),
        }
    }

    fn types(&self, args: &[Expr], schema: &DFSchema) -> Result<Vec<DataType>> {
        args.iter().map(|arg| type_of(arg, schema)).collect()
    }

    fn bind_cast(&self, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        let mut args = args.into_iter();
        let (Some(value), Some(Expr::Literal(ScalarValue::Utf8(Some(name)), _))) =
            (args.next(), args.next())
        else {
            return Err(external(Error::internal("a cast has an expression and a type")));
        };
        let to = cast_target(&name).map_err(external)?;
        let from = type_of(&value, schema)?;
        if !can_cast(&from, &to, CastContext::Explicit) {
            let (from, to) = (type_name(&from), type_name(&to));
            let message = format!("cannot cast type {from} to {to}");
            return Err(external(Error::new(SqlState::CANNOT_COERCE, message)));
        }
        self.convert(value, &from, &to, CastContext::Explicit)
    }

    fn bind_case(&self, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        let types = self.types(&args, schema)?;
        let common = common_type(&case_results(&types), "CASE").map_err(external)?;
        let last = args.len().saturating_sub(1);
        let mut pairs = Vec::new();
        let mut condition = None;
        let mut other = None;
        for (at, (arg, from)) in args.into_iter().zip(types).enumerate() {
            if at < last && at % 2 == 0 {
                condition =
                    Some(self.convert(arg, &from, &DataType::Bool, CastContext::Implicit)?);
                continue;
            }
            let value = self.convert(arg, &from, &common, CastContext::Implicit)?;
            match condition.take() {
                Some(when) => pairs.push((Box::new(when), Box::new(value))),
                None => other = Some(Box::new(value)),
            }
        }
        if pairs.is_empty() {
            return Ok(other.map_or(Expr::Literal(ScalarValue::Null, None), |other| *other));
        }
        self.of_json(Expr::Case(Case::new(None, pairs, other)), &common)
    }

    /// Gives a value of `data_type` its type if that is json or jsonb: to Arrow a CASE of them is a text.
    fn of_json(&self, value: Expr, data_type: &DataType) -> Result<Expr> {
        match data_type {
            DataType::Json | DataType::Jsonb => {
                self.convert(value, &DataType::Text, data_type, CastContext::Explicit)
            }
            _ => Ok(value),
        }
    }

    fn bind_coalesce(&self, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        let types = self.types(&args, schema)?;
        let common = common_type(&types, "COALESCE").map_err(external)?;
        let mut values = Vec::new();
        for (arg, from) in args.into_iter().zip(types) {
            values.push(self.convert(arg, &from, &common, CastContext::Implicit)?);
        }
        let Some(last) = values.pop() else {
            let message = "COALESCE needs an argument";
            return Err(external(Error::new(SqlState::SYNTAX_ERROR, message)));
        };
        if values.is_empty() {
            return Ok(last);
        }
        let mut pairs = Vec::with_capacity(values.len());
        for value in values {
            let is_there = Expr::IsNotNull(Box::new(copied(&value)?));
            pairs.push((Box::new(is_there), Box::new(value)));
        }
        self.of_json(Expr::Case(Case::new(None, pairs, Some(Box::new(last)))), &common)
    }

    fn bind_nullif(&self, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        let [left, right] = <[Expr; 2]>::try_from(args).map_err(|_| {
            external(Error::new(SqlState::SYNTAX_ERROR, "NULLIF needs two arguments"))
        })?;
        let from = type_of(&left, schema)?;
        let equal = self.bind_call("op:=", vec![copied(&left)?, right], schema)?;
        let to = if from == DataType::Unknown { DataType::Text } else { from.clone() };
        let value = self.convert(left, &from, &to, CastContext::Implicit)?;
        let null = super::rule::null_literal(&to).map_err(external)?;
        let pairs = vec![(Box::new(equal), Box::new(null))];
        self.of_json(Expr::Case(Case::new(None, pairs, Some(Box::new(value)))), &to)
    }

    fn bind_in(&self, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        let types = self.types(&args, schema)?;
        let common = common_type(&types, "IN");
        let is_real = matches!(common, Ok(DataType::Float4));
        let is_mixed = types.iter().any(|t| !matches!(t, DataType::Float4 | DataType::Unknown));
        if is_real && is_mixed {
            return self.bind_in_real(args, &types, schema);
        }
        if let Ok(common) = common
            && (super::compares_plainly(&common) || super::rule::compares_by_key(&common))
        {
            let mut converted = Vec::new();
            for (arg, from) in args.into_iter().zip(&types) {
                let value = self.convert(arg, from, &common, CastContext::Implicit)?;
                converted.push(match super::rule::compares_by_key(&common) {
                    true => super::equality::key(value, &common),
                    false => value,
                });
            }
            let first = converted.remove(0);
            return Ok(Expr::InList(InList::new(Box::new(first), converted, false)));
        }
        self.equal_to_one(args, schema)
    }

    /// Returns IN over real and other numbers: several items without columns become real, and the operand is
    /// compared with each item as by `=`.
    fn bind_in_real(
        &self,
        mut args: Vec<Expr>,
        types: &[DataType],
        schema: &DFSchema,
    ) -> Result<Expr> {
        let constants = args.iter().skip(1).filter(|item| is_constant(item)).count();
        if constants > 1 {
            for (item, from) in args.iter_mut().zip(types).skip(1) {
                if is_constant(item) {
                    let to = DataType::Float4;
                    *item = self.convert(item.clone(), from, &to, CastContext::Implicit)?;
                }
            }
        }
        self.equal_to_one(args, schema)
    }

    /// Returns whether the first expression equals one of the others.
    fn equal_to_one(&self, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        let mut args = args.into_iter();
        let Some(first) = args.next() else {
            return Err(external(Error::internal("IN has an operand")));
        };
        let mut equal = Vec::new();
        for arg in args {
            equal.push(self.bind_call("op:=", vec![first.clone(), arg], schema)?);
        }
        let either = crate::query::rewrite::balanced(equal, Expr::or);
        either.ok_or_else(|| external(Error::internal("IN has a list")))
    }

    fn bind_quantified(&self, any: bool, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        let [left, Expr::Literal(ScalarValue::Utf8(Some(symbol)), _), right] =
            <[Expr; 3]>::try_from(args)
                .map_err(|_| external(Error::internal("ANY has two operands")))?
        else {
            return Err(external(Error::internal("ANY has an operator")));
        };
        let (left_type, right_type) = (type_of(&left, schema)?, type_of(&right, schema)?);
        let element = match &right_type {
            DataType::Array(element) => (**element).clone(),
            DataType::Unknown if left_type == DataType::Unknown => DataType::Text,
            DataType::Unknown => left_type.clone(),
            _ => {
                let message = "op ANY/ALL (array) requires array on right side";
                return Err(external(Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
            }
        };
        let name = format!("op:{symbol}");
        let bound = resolve(&name, &[left_type.clone(), element]).map_err(external)?;
        let (own, items) = (bound.arguments[0].clone(), bound.arguments[1].clone());
        let left = self.convert(left, &left_type, &own, CastContext::Implicit)?;
        let array = DataType::Array(Box::new(items));
        let right = self.convert(right, &right_type, &array, CastContext::Implicit)?;
        let work = Work::Quantified { any, bound: Box::new(bound) };
        let types = vec![own, array];
        Ok(BoundFunction::call(
            if any { "any" } else { "all" },
            work,
            types,
            DataType::Bool,
            vec![left, right],
        ))
    }
}
