//! The functions that a query may call: their types, and their values.
//!
//! A function of which an argument is NULL gives NULL, except COALESCE and IFNULL.

use super::types::{SqlType, Value};
use super::{Refusal, Result, invalid};
use bytes::Bytes;
use std::borrow::Cow;

/// A function with the types of its arguments settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    StartsWith,
    EndsWith,
    Concat,
    Length,
    Lower,
    Upper,
    Coalesce,
    ToInt64,
    ToFloat32,
    ToFloat64,
    ToHex,
    BytesToText,
    TimestampOf {
        /// Number of units in a second.
        per_second: i64,
    },
    DateOf,
    MapContainsKey,
    MapEmpty,
    MapEntries,
    MapKeys,
    MapValues,
}

/// Functions over many rows, refused as such.
const AGGREGATES: &[&str] = &[
    "ANY_VALUE",
    "APPROX_COUNT_DISTINCT",
    "ARRAY_AGG",
    "AVG",
    "COUNT",
    "COUNTIF",
    "MAX",
    "MIN",
    "STRING_AGG",
    "SUM",
];

impl Function {
    /// Returns the function called `name`.
    pub(super) fn named(name: &str) -> Result<Self> {
        let upper = name.to_ascii_uppercase();
        Ok(match upper.as_str() {
            "STARTS_WITH" => Self::StartsWith,
            "ENDS_WITH" => Self::EndsWith,
            "CONCAT" => Self::Concat,
            "LENGTH" => Self::Length,
            "LOWER" => Self::Lower,
            "UPPER" => Self::Upper,
            "COALESCE" | "IFNULL" => Self::Coalesce,
            "TO_INT64" => Self::ToInt64,
            "TO_FLOAT32" => Self::ToFloat32,
            "TO_FLOAT64" => Self::ToFloat64,
            "TO_HEX" => Self::ToHex,
            "SAFE_CONVERT_BYTES_TO_STRING" => Self::BytesToText,
            "TIMESTAMP_FROM_UNIX_SECONDS" => Self::TimestampOf { per_second: 1 },
            "TIMESTAMP_FROM_UNIX_MILLIS" => Self::TimestampOf { per_second: 1_000 },
            "TIMESTAMP_FROM_UNIX_MICROS" => Self::TimestampOf { per_second: 1_000_000 },
            "DATE" => Self::DateOf,
            "MAP_CONTAINS_KEY" => Self::MapContainsKey,
            "MAP_EMPTY" => Self::MapEmpty,
            "MAP_ENTRIES" => Self::MapEntries,
            "MAP_KEYS" => Self::MapKeys,
            "MAP_VALUES" => Self::MapValues,
            _ if AGGREGATES.contains(&upper.as_str()) => {
                return super::unsupported(format!("the aggregate function {upper}"));
            }
            _ => return super::unsupported(format!("the function {}", super::shown(name))),
        })
    }

    /// Returns whether all arguments are brought to one type first.
    pub(super) fn unifies(self) -> bool {
        matches!(self, Self::StartsWith | Self::EndsWith | Self::Concat | Self::Coalesce)
    }

    /// Returns the type of the result, for arguments of the types `args`.
    pub(super) fn result(self, name: &str, args: &[SqlType]) -> Result<SqlType> {
        use SqlType as T;
        let text = |of: &T| matches!(of, T::String | T::Bytes);
        Ok(match (self, args) {
            (Self::StartsWith | Self::EndsWith, [of, _]) if args.len() == 2 && text(of) => T::Bool,
            (Self::Concat, [of, ..]) if text(of) => of.clone(),
            (Self::Length, [of]) if text(of) => T::Int64,
            (Self::Lower | Self::Upper, [T::String]) => T::String,
            (Self::Coalesce, [of, ..]) => of.clone(),
            (Self::ToInt64, [T::Bytes]) => T::Int64,
            (Self::ToFloat32, [T::Bytes]) => T::Float32,
            (Self::ToFloat64, [T::Bytes]) => T::Float64,
            (Self::ToHex | Self::BytesToText, [T::Bytes]) => T::String,
            (Self::TimestampOf { .. }, [T::Int64]) => T::Timestamp,
            (Self::DateOf, [T::Int64, T::Int64, T::Int64]) => T::Date,
            (Self::MapContainsKey, [T::Map(key, _), of]) if **key == *of => T::Bool,
            (Self::MapEmpty, [T::Map(..)]) => T::Bool,
            (Self::MapKeys, [T::Map(key, _)]) => T::Array(key.clone()),
            (Self::MapValues, [T::Map(_, value)]) => T::Array(value.clone()),
            (Self::MapEntries, [T::Map(key, value)]) => {
                let field = |name: &str, of: &T| (name.to_owned(), of.clone());
                let fields = vec![field("key", key), field("value", value)];
                T::Array(Box::new(T::Struct(fields)))
            }
            _ => {
                let args: Vec<String> = args.iter().map(SqlType::to_string).collect();
                let (name, args) = (name.to_ascii_uppercase(), args.join(", "));
                return invalid(format!("no signature of {name} takes ({args})"));
            }
        })
    }

    /// Returns about how many bytes the value for `args` has.
    pub(super) fn result_bytes(self, args: &[Cow<'_, Value>]) -> usize {
        let all = args.iter().map(|arg| raw(arg).len()).fold(0, usize::saturating_add);
        match self {
            Self::Concat | Self::Coalesce | Self::Lower | Self::Upper | Self::BytesToText => all,
            Self::ToHex => 2 * all,
            _ => 0,
        }
    }

    /// Returns the value for `args`.
    pub(super) fn call(self, args: &[Cow<'_, Value>]) -> Result<Value> {
        if self == Self::Coalesce {
            let first = args.iter().find(|arg| ***arg != Value::Null);
            return Ok(first.map_or(Value::Null, |arg| (**arg).clone()));
        }
        if args.iter().any(|arg| **arg == Value::Null) {
            return Ok(Value::Null);
        }
        if self == Self::Concat {
            return Ok(concat(args));
        }
        match args {
            [arg] => self.of_one(arg),
            [first, second] => Ok(self.of_two(first, second)),
            [year, month, day] => date(year, month, day),
            _ => Ok(Value::Null),
        }
    }

    fn of_one(self, arg: &Value) -> Result<Value> {
        Ok(match (self, arg) {
            (Self::Length, Value::String(text)) => Value::Int64(text.chars().count() as i64),
            (Self::Length, Value::Bytes(bytes)) => Value::Int64(bytes.len() as i64),
            (Self::Lower, Value::String(text)) => Value::String(text.to_lowercase()),
            (Self::Upper, Value::String(text)) => Value::String(text.to_uppercase()),
            (Self::ToInt64, Value::Bytes(bytes)) => {
                Value::Int64(i64::from_be_bytes(exactly(bytes, "INT64")?))
            }
            (Self::ToFloat64, Value::Bytes(bytes)) => {
                Value::Float(f64::from_be_bytes(exactly(bytes, "FLOAT64")?))
            }
            (Self::ToFloat32, Value::Bytes(bytes)) => {
                Value::Float(f32::from_be_bytes(exactly(bytes, "FLOAT32")?).into())
            }
            (Self::ToHex, Value::Bytes(bytes)) => {
                let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
                Value::String(
                    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect(),
                )
            }
            (Self::BytesToText, Value::Bytes(bytes)) => {
                Value::String(String::from_utf8_lossy(bytes).into_owned())
            }
            (Self::TimestampOf { per_second }, Value::Int64(time)) => {
                let nanos = time.rem_euclid(per_second) * (1_000_000_000 / per_second);
                Value::Timestamp(time.div_euclid(per_second), nanos as i32)
            }
            (Self::MapEmpty, Value::Array(entries)) => Value::Bool(entries.is_empty()),
            (Self::MapKeys, Value::Array(entries)) => Value::Array(side(entries, 0)),
            (Self::MapValues, Value::Array(entries)) => Value::Array(side(entries, 1)),
            (Self::MapEntries, entries) => entries.clone(),
            // A concatenation or coalescence of one.
            (_, arg) => arg.clone(),
        })
    }

    fn of_two(self, first: &Value, second: &Value) -> Value {
        match (self, first, second) {
            (Self::StartsWith, first, second) => Value::Bool(raw(first).starts_with(raw(second))),
            (Self::EndsWith, first, second) => Value::Bool(raw(first).ends_with(raw(second))),
            (Self::MapContainsKey, Value::Array(entries), key) => {
                Value::Bool(side(entries, 0).contains(key))
            }
            _ => Value::Null,
        }
    }
}

/// Returns the bytes of a text or of bytes.
pub(crate) fn raw(value: &Value) -> &[u8] {
    match value {
        Value::String(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

fn exactly<const N: usize>(bytes: &Bytes, to: &str) -> Result<[u8; N]> {
    <[u8; N]>::try_from(&bytes[..]).map_err(|_| {
        let len = bytes.len();
        Refusal::Value(format!("{to} needs {N} bytes, and the value has {len}"))
    })
}

/// Returns the keys (0) or the values (1) of a map.
fn side(entries: &[Value], side: usize) -> Vec<Value> {
    let of = |entry: &Value| match entry {
        Value::Array(pair) => pair.get(side).cloned(),
        _ => None,
    };
    entries.iter().filter_map(of).collect()
}

fn concat(args: &[Cow<'_, Value>]) -> Value {
    let whole: Vec<u8> = args.iter().flat_map(|arg| raw(arg)).copied().collect();
    match (args.first().map(|arg| &**arg), String::from_utf8(whole)) {
        (Some(Value::String(_)), Ok(text)) => Value::String(text),
        (_, Ok(text)) => Value::Bytes(text.into()),
        (_, Err(error)) => Value::Bytes(error.into_bytes().into()),
    }
}

fn date(year: &Value, month: &Value, day: &Value) -> Result<Value> {
    let (Value::Int64(year), Value::Int64(month), Value::Int64(day)) = (year, month, day) else {
        return Ok(Value::Null);
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_date = (1..=9_999).contains(year) && (1..=12).contains(month);
    if !is_date || !(1..=days).contains(day) {
        return Err(Refusal::Value(format!("there is no date {year}-{month}-{day}")));
    }
    Ok(Value::Date(*year as i32, *month as i32, *day as i32))
}
