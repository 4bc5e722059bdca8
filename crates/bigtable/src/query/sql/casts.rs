//! Casts: which types can be cast to which, and the values that come of it.

use super::types::{SqlType, Value};
use super::{Refusal, Result, shown};
use bytes::Bytes;

/// Returns whether values of one type can be cast to another, if not each of them.
pub(super) fn exists(from: &SqlType, to: &SqlType) -> bool {
    use SqlType as T;
    let number = |of: &T| matches!(of, T::Int64 | T::Float32 | T::Float64);
    match (from, to) {
        (from, to) if from == to => true,
        (T::String, T::Bytes | T::Bool) | (T::Bytes | T::Bool, T::String) => true,
        (T::Bool, T::Int64) | (T::Int64, T::Bool) => true,
        (T::String, to) => number(to),
        (from, T::String) => number(from),
        (from, to) => number(from) && number(to),
    }
}

/// Returns the value of type `from` as one of type `to`.
pub(super) fn cast(value: &Value, from: &SqlType, to: &SqlType) -> Result<Value> {
    if let (Value::Array(items), SqlType::Array(from), SqlType::Array(to)) = (value, from, to) {
        let items = items.iter().map(|item| cast(item, from, to));
        return items.collect::<Result<_>>().map(Value::Array);
    }
    let cast = match (value, to) {
        (value, to) if from == to => Some(value.clone()),
        (Value::Null, _) => Some(Value::Null),
        (Value::Bytes(bytes), SqlType::String) => {
            std::str::from_utf8(bytes).ok().map(|text| Value::String(text.to_owned()))
        }
        (Value::String(text), _) => of_text(text, to),
        (Value::Bool(value), SqlType::String) => Some(Value::String(value.to_string())),
        (Value::Bool(value), SqlType::Int64) => Some(Value::Int64(i64::from(*value))),
        (Value::Int64(value), SqlType::Bool) => Some(Value::Bool(*value != 0)),
        (Value::Int64(value), SqlType::String) => Some(Value::String(value.to_string())),
        (Value::Int64(value), _) => of_float(*value as f64, from, to),
        (Value::Float(value), _) => of_float(*value, from, to),
        _ => None,
    };
    cast.ok_or_else(|| {
        let text = match value {
            Value::String(text) => format!("'{}'", shown(text)),
            Value::Bytes(bytes) => format!("b'{}'", shown(&String::from_utf8_lossy(bytes))),
            Value::Float(value) => value.to_string(),
            _ => from.to_string(),
        };
        Refusal::Value(format!("{text} cannot be cast to {to}"))
    })
}

fn of_text(text: &str, to: &SqlType) -> Option<Value> {
    match to {
        SqlType::Bytes => Some(Value::Bytes(Bytes::copy_from_slice(text.as_bytes()))),
        SqlType::Bool if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
        SqlType::Bool if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
        SqlType::Int64 => text.parse().ok().map(Value::Int64),
        SqlType::Float64 => text.parse().ok().map(Value::Float),
        SqlType::Float32 => text.parse::<f32>().ok().map(|value| Value::Float(value.into())),
        _ => None,
    }
}

fn of_float(value: f64, from: &SqlType, to: &SqlType) -> Option<Value> {
    match to {
        SqlType::Float64 => Some(Value::Float(value)),
        SqlType::Float32 => {
            let narrow = value as f32;
            (narrow.is_finite() || !value.is_finite()).then(|| Value::Float(narrow.into()))
        }
        SqlType::String if *from == SqlType::Float32 => {
            Some(Value::String((value as f32).to_string()))
        }
        SqlType::String => Some(Value::String(value.to_string())),
        // No float lies between the largest INT64 and 2^63.
        SqlType::Int64 => {
            let rounded = value.round();
            let fits = (-(2f64.powi(63))..2f64.powi(63)).contains(&rounded);
            fits.then_some(Value::Int64(rounded as i64))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cast_or_refused() {
        use SqlType as T;
        let text = |text: &str| Value::String(text.into());
        for (value, from, to, want) in [
            (Value::Bytes("abc".into()), T::Bytes, T::String, Some(text("abc"))),
            (Value::Bytes(vec![0xff].into()), T::Bytes, T::String, None),
            (text("-7"), T::String, T::Int64, Some(Value::Int64(-7))),
            (text("7.5"), T::String, T::Int64, None),
            (text("7.5"), T::String, T::Float64, Some(Value::Float(7.5))),
            (text("TRUE"), T::String, T::Bool, Some(Value::Bool(true))),
            (Value::Float(2.5), T::Float64, T::Int64, Some(Value::Int64(3))),
            (Value::Float(9.3e18), T::Float64, T::Int64, None),
            (Value::Float(f64::NAN), T::Float64, T::Int64, None),
            (Value::Float(1e300), T::Float64, T::Float32, None),
            (Value::Float(1.2f32.into()), T::Float32, T::String, Some(text("1.2"))),
            (Value::Int64(3), T::Int64, T::Float64, Some(Value::Float(3.0))),
            (Value::Null, T::String, T::Int64, Some(Value::Null)),
        ] {
            assert!(exists(&from, &to), "{from} {to}");
            assert_eq!(cast(&value, &from, &to).ok(), want, "{value:?} {to}");
        }
        assert!(!exists(&T::Bytes, &T::Int64));
        assert!(!exists(&T::Date, &T::String));
    }
}
