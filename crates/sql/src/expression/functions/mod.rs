//! The functions and operators, one file for each kind.
//!
//! 1. A body gets arguments of exactly the types of its signature; NULL comes only to bodies
//!    flagged `null`.

use relational::{Array, DataType, Error, Numeric, Result, SqlState, Value};

use super::registry::{Call, Definition};

mod arithmetic;
mod array;
mod compare;
mod datetime;
mod encoding;
mod json;
mod matches;
mod math;
mod number;
mod pattern;
mod sessions;
mod string;
mod system;

pub(crate) use arithmetic::integer_range;
pub(crate) use json::to_json;
pub(crate) use string::{quote_ident, quote_literal};
pub(crate) use system::format_type;

/// Returns the lines of all tables.
pub(super) fn all() -> impl Iterator<Item = Definition> {
    [
        arithmetic::TABLE,
        array::TABLE,
        compare::TABLE,
        datetime::TABLE,
        encoding::TABLE,
        json::TABLE,
        matches::TABLE,
        math::TABLE,
        number::TABLE,
        pattern::TABLE,
        sessions::TABLE,
        string::TABLE,
        system::TABLE,
        crate::catalogs::FUNCTIONS,
        crate::catalogs::KEYWORDS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

impl Call<'_> {
    /// Returns an argument by its place.
    pub(crate) fn value(&self, at: usize) -> &Value {
        self.arguments.get(at).unwrap_or(&Value::Null)
    }

    /// Returns an argument that is text or jsonb.
    pub(crate) fn text(&self, at: usize) -> &str {
        match self.value(at) {
            Value::Text(text) | Value::Jsonb(text) => text,
            _ => "",
        }
    }

    /// Returns an integer argument of any size.
    pub(crate) fn int(&self, at: usize) -> i64 {
        match self.value(at) {
            Value::Int2(value) => i64::from(*value),
            Value::Int4(value) => i64::from(*value),
            Value::Int8(value) => *value,
            Value::Oid(value) => i64::from(*value),
            _ => 0,
        }
    }

    /// Returns an argument of floating point.
    pub(crate) fn float(&self, at: usize) -> f64 {
        match self.value(at) {
            Value::Float4(value) => f64::from(*value),
            Value::Float8(value) => *value,
            _ => 0.0,
        }
    }

    /// Returns an argument as a numeric.
    pub(crate) fn numeric(&self, at: usize) -> Numeric {
        match self.value(at) {
            Value::Numeric(value) => value.clone(),
            _ => Numeric::from(self.int(at)),
        }
    }

    /// Returns an argument that is a truth value.
    pub(crate) fn bool(&self, at: usize) -> bool {
        matches!(self.value(at), Value::Bool(true))
    }

    /// Returns the elements of an array argument.
    pub(crate) fn items(&self, at: usize) -> &[Value] {
        match self.value(at) {
            Value::Array(array) => &array.values,
            _ => &[],
        }
    }

    /// Returns the bytes of an argument.
    pub(crate) fn bytes(&self, at: usize) -> &[u8] {
        match self.value(at) {
            Value::Bytea(bytes) => bytes,
            Value::Text(text) => text.as_bytes(),
            _ => &[],
        }
    }

    /// Returns months, days and microseconds of an interval.
    pub(crate) fn span(&self, at: usize) -> (i32, i32, i64) {
        match self.value(at) {
            Value::Interval { months, days, micros } => (*months, *days, *micros),
            _ => (0, 0, 0),
        }
    }

    /// Returns the number of a moment, a date or a time.
    pub(crate) fn moment(&self, at: usize) -> i64 {
        match self.value(at) {
            Value::Timestamp(micros) | Value::TimestampTz(micros) | Value::Time(micros) => *micros,
            Value::Date(days) => i64::from(*days),
            _ => 0,
        }
    }
}

/// Returns a value of text.
pub(crate) fn text(text: impl AsRef<str>) -> Result<Value> {
    Ok(Value::text(text.as_ref()))
}

/// Returns an integer of 32 bits, or 22003.
pub(crate) fn int4(value: i64) -> Result<Value> {
    i32::try_from(value).map(Value::Int4).map_err(|_| integer_range(&DataType::Int4))
}

/// Returns an interval as a value.
pub(crate) fn span((months, days, micros): (i32, i32, i64)) -> Result<Value> {
    Ok(Value::Interval { months, days, micros })
}

/// Returns an array of one dimension.
pub(crate) fn array(element: &DataType, values: Vec<Value>) -> Result<Value> {
    if element.element().is_some() {
        return Err(Error::unsupported("arrays of several dimensions are not supported"));
    }
    Ok(Value::Array(std::sync::Arc::new(Array::of(element.clone(), values))))
}

/// Returns the error of an argument that a function does not take (22023).
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
