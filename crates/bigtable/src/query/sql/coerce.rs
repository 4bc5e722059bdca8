//! Types that meet: constants adapt to what they meet, a text to bytes and a whole number to a float.

use super::expr::{Cast, Expr};
use super::literals::Constant;
use super::types::{SqlType, Value};
use super::{Result, invalid};

/// An expression with its type.
pub(super) struct Typed {
    pub(super) expr: Expr,
    /// `None` for NULL, which is of any type.
    pub(super) r#type: Option<SqlType>,
}

pub(super) fn typed(expr: Expr, r#type: SqlType) -> Typed {
    Typed { expr, r#type: Some(r#type) }
}

pub(super) fn literal(constant: Constant) -> Typed {
    let (value, r#type) = match constant {
        Constant::Null => return Typed { expr: Expr::Literal(Value::Null), r#type: None },
        Constant::Bool(value) => (Value::Bool(value), SqlType::Bool),
        Constant::Int64(value) => (Value::Int64(value), SqlType::Int64),
        Constant::Float(value) => (Value::Float(value), SqlType::Float64),
        Constant::String(text) => (Value::String(text), SqlType::String),
        Constant::Bytes(bytes) => (Value::Bytes(bytes.into()), SqlType::Bytes),
    };
    typed(Expr::Literal(value), r#type)
}

pub(super) fn not(condition: Expr, negated: bool) -> Expr {
    if negated { Expr::Not(Box::new(condition)) } else { condition }
}

pub(super) fn cast_to(expr: Expr, from: SqlType, to: SqlType) -> Expr {
    if from == to { expr } else { Expr::Cast(Box::new(Cast { expr, from, to, safe: false })) }
}

/// Returns an expression as bytes, if it is bytes, a text or NULL.
pub(super) fn as_bytes(of: Typed) -> Option<Expr> {
    match of.r#type {
        None => Some(of.expr),
        Some(from @ (SqlType::Bytes | SqlType::String)) => {
            Some(cast_to(of.expr, from, SqlType::Bytes))
        }
        Some(_) => None,
    }
}

/// Brings expressions to one type, which is missing if all expressions are NULL.
pub(super) fn unify(of: Vec<Typed>, what: &str) -> Result<(Vec<Expr>, Option<SqlType>)> {
    let mut common: Option<SqlType> = None;
    for typed in &of {
        let Some(next) = &typed.r#type else { continue };
        common = Some(match common {
            None => next.clone(),
            Some(common) => match meeting(&common, next) {
                Some(both) => both,
                None => return invalid(format!("{what} cannot take {common} with {next}")),
            },
        });
    }
    let mut exprs = Vec::with_capacity(of.len());
    for Typed { expr, r#type } in of {
        exprs.push(match (r#type, &common) {
            (Some(from), Some(to)) if from != *to => {
                if from == SqlType::String && !expr.is_constant() {
                    return invalid(format!("{what} cannot take {from} with {to}"));
                }
                cast_to(expr, from, to.clone())
            }
            _ => expr,
        });
    }
    Ok((exprs, common))
}

/// Returns the type of two types that meet.
fn meeting(left: &SqlType, right: &SqlType) -> Option<SqlType> {
    use SqlType as T;
    match (left, right) {
        (left, right) if left == right => Some(left.clone()),
        (T::String, T::Bytes) | (T::Bytes, T::String) => Some(T::Bytes),
        (T::Int64 | T::Float32 | T::Float64, T::Int64 | T::Float32 | T::Float64) => {
            Some(T::Float64)
        }
        _ => None,
    }
}

pub(super) fn unified<const N: usize>(
    of: [Typed; N],
    what: &str,
) -> Result<([Expr; N], Option<SqlType>)> {
    let (exprs, common) = unify(of.into(), what)?;
    match exprs.try_into() {
        Ok(exprs) => Ok((exprs, common)),
        Err(_) => invalid(format!("{what} has another number of operands")),
    }
}

/// Brings expressions to one type that has an order.
pub(super) fn ordered<const N: usize>(of: [Typed; N], what: &str) -> Result<[Expr; N]> {
    let (exprs, common) = unified(of, what)?;
    check_ordered(common.as_ref(), what)?;
    Ok(exprs)
}

pub(super) fn check_ordered(of: Option<&SqlType>, what: &str) -> Result<()> {
    match of {
        Some(of) if !of.is_ordered() => invalid(format!("{what} cannot compare {of}")),
        _ => Ok(()),
    }
}
