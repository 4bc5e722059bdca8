//! Casts: which types can be cast to which, and the values that come of it.

use super::types::{SqlType, Value, float32};
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
            Value::Float(value) => text_of_float(*value, from),
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
        SqlType::Int64 => int64(trimmed(text)).map(Value::Int64),
        SqlType::Float64 => trimmed(text).parse().ok().map(Value::Float),
        SqlType::Float32 => {
            trimmed(text).parse::<f32>().ok().map(|value| Value::Float(value.into()))
        }
        _ => None,
    }
}

/// Returns a number without the white space around it.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r'])
}

/// Returns the number of decimal digits, or of hexadecimal ones after `0x`.
fn int64(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        None => text.parse().ok(),
        // A second sign is no digit.
        Some(hex) if hex.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            i64::from_str_radix(&format!("{sign}{hex}"), 16).ok()
        }
        Some(_) => None,
    }
}

fn of_float(value: f64, from: &SqlType, to: &SqlType) -> Option<Value> {
    match to {
        SqlType::Float64 => Some(Value::Float(value)),
        SqlType::Float32 => float32(value).map(Value::Float),
        SqlType::String => Some(Value::String(text_of_float(value, from))),
        // No float lies between the largest INT64 and 2^63.
        SqlType::Int64 => {
            let rounded = value.round();
            let fits = (-(2f64.powi(63))..2f64.powi(63)).contains(&rounded);
            fits.then_some(Value::Int64(rounded as i64))
        }
        _ => None,
    }
}

/// Returns the text of a float of type `of`: with few digits, or with all that tell it from others.
fn text_of_float(value: f64, of: &SqlType) -> String {
    let is_short = *of == SqlType::Float32;
    let (few, all) = if is_short { (6, 9) } else { (15, 17) };
    let text = general(value, few);
    let is_same = match is_short {
        true => text.parse() == Ok(value as f32),
        false => text.parse() == Ok(value),
    };
    if is_same { text } else { general(value, all) }
}

/// Returns a float with at most `digits` digits, in the form of `%g` of the C library.
fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let parts = scientific.split_once('e');
    let Some((mantissa, Ok(exponent))) =
        parts.map(|(mantissa, exponent)| (mantissa, exponent.parse::<i32>()))
    else {
        // An infinity has no exponent.
        return scientific;
    };
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(digits as i32 - 1 - exponent) {
        Ok(decimals) if exponent >= -4 => short(&format!("{value:.decimals$}")),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", short(mantissa), exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_the_text_of_googlesql() {
        for (value, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e-7, "1e-07"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1_234_567_890_123_456.0, "1234567890123456"),
            (12_345_678_901_234_567.0, "12345678901234568"),
            (1.5e300, "1.5e+300"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::from_bits(1), "4.94065645841247e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text_of_float(value, &SqlType::Float64), want);
        }
        for (value, want) in [
            (0.1f32, "0.1"),
            (1e-7, "1e-07"),
            (123_456.0, "123456"),
            (1e6, "1e+06"),
            (16_777_216.0, "16777216"),
            (1.0 / 3.0, "0.333333343"),
            (f32::MAX, "3.40282347e+38"),
            (f32::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text_of_float(value.into(), &SqlType::Float32), want);
        }
    }

    #[test]
    fn texts_are_numbers_in_decimal_or_hexadecimal() {
        for (text, want) in [
            ("0x1F", Some(31)),
            ("-0X1f", Some(-31)),
            ("+0x0", Some(0)),
            ("-0x8000000000000000", Some(i64::MIN)),
            (" 7\t", Some(7)),
            ("+7", Some(7)),
            ("0x8000000000000000", None),
            ("0x", None),
            ("-0x", None),
            ("0x-1", None),
            ("0x+1", None),
            ("1F", None),
            ("1 2", None),
            ("", None),
        ] {
            let want = want.map(Value::Int64);
            assert_eq!(of_text(text, &SqlType::Int64), want, "{text}");
        }
        assert_eq!(of_text(" 1.5 ", &SqlType::Float64), Some(Value::Float(1.5)));
    }

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
