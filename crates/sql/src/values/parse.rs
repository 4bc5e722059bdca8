//! Reads the text form of values.

use std::sync::Arc;

use relational::{Bytes, DataType, Error, Numeric, Result, SqlState, Value};

use super::array::parse_array;
use super::settings::Settings;
use super::{error, fit, json, time, type_name};

/// Returns the error of a text that no value of the type has.
pub(super) fn syntax(text: &str, name: &str) -> Error {
    let message = format!("invalid input syntax for type {name}: \"{text}\"");
    error(SqlState::INVALID_TEXT_REPRESENTATION, message)
}

fn range(text: &str, name: &str) -> Error {
    let message = format!("value \"{text}\" is out of range for type {name}");
    error(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// Returns the value of a text, cut or checked to the type's modifiers.
pub fn parse_value(text: &str, data_type: &DataType, settings: &Settings) -> Result<Value> {
    Ok(match data_type {
        DataType::Bool => Value::Bool(parse_bool(text)?),
        DataType::Int2 => Value::Int2(parse_integer(text, "smallint")?),
        DataType::Int4 => Value::Int4(parse_integer(text, "integer")?),
        DataType::Int8 => Value::Int8(parse_integer(text, "bigint")?),
        DataType::Oid => Value::Oid(parse_oid(text)?),
        DataType::Float4 => Value::Float4(parse_float4(text)?),
        DataType::Float8 => Value::Float8(parse_float(text, "double precision")?),
        DataType::Numeric(_) => {
            let number: Numeric = text.trim().parse().map_err(|problem: Error| {
                if problem.state == SqlState::INVALID_TEXT_REPRESENTATION {
                    syntax(text, "numeric")
                } else {
                    problem
                }
            })?;
            fit(Value::Numeric(number), data_type)?
        }
        DataType::Text | DataType::Unknown => Value::Text(Arc::from(text)),
        DataType::Varchar(_) | DataType::Char(_) | DataType::Name => {
            fit(Value::Text(Arc::from(text)), data_type)?
        }
        DataType::Bytea => Value::Bytea(parse_bytea(text)?),
        DataType::Uuid => Value::Uuid(parse_uuid(text)?),
        DataType::Date => Value::Date(time::parse_date(text, settings)?),
        DataType::Time => Value::Time(time::parse_time(text, settings)?),
        DataType::Timestamp => Value::Timestamp(time::parse_timestamp(text, settings)?),
        DataType::TimestampTz => Value::TimestampTz(time::parse_timestamptz(text, settings)?),
        DataType::Interval => {
            let (months, days, micros) = time::parse_interval(text)?;
            Value::Interval { months, days, micros }
        }
        DataType::Json => {
            json::parse(text)?;
            Value::Text(Arc::from(text))
        }
        DataType::Jsonb => Value::Jsonb(Arc::from(json::parse(text)?.to_string())),
        DataType::Array(element) => Value::Array(Arc::new(parse_array(text, element, settings)?)),
    })
}

fn parse_bool(text: &str) -> Result<bool> {
    let lower = text.trim().to_ascii_lowercase();
    let is = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
    if is("true", 1) || is("yes", 1) || is("on", 2) || lower == "1" {
        Ok(true)
    } else if is("false", 1) || is("no", 1) || is("off", 2) || lower == "0" {
        Ok(false)
    } else {
        Err(syntax(text, "boolean"))
    }
}

fn parse_integer<T: TryFrom<i64>>(text: &str, name: &str) -> Result<T> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(syntax(text, name));
    }
    let number: i64 = trimmed.parse().map_err(|_| range(text, name))?;
    T::try_from(number).map_err(|_| range(text, name))
}

fn parse_oid(text: &str) -> Result<u32> {
    let number: i64 = parse_integer(text, "oid")?;
    let negative = i32::try_from(number).map(|number| number as u32);
    u32::try_from(number).or(negative).map_err(|_| range(text, "oid"))
}

/// Returns the number of 64 bits nearest to a decimal text. Overflow and underflow are 22003.
fn parse_float(text: &str, name: &str) -> Result<f64> {
    let trimmed = text.trim();
    let special = special_float(trimmed);
    if let Some(value) = special {
        return Ok(value);
    }
    let plain = trimmed.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let value: f64 = match trimmed.parse() {
        Ok(value) if plain => value,
        _ => return Err(syntax(text, name)),
    };
    check_float(value, trimmed, name)
}

fn parse_float4(text: &str) -> Result<f32> {
    let trimmed = text.trim();
    let wide = match special_float(trimmed) {
        Some(value) => return Ok(value as f32),
        None => parse_float(text, "real")?,
    };
    let value: f32 = trimmed.parse().map_err(|_| syntax(text, "real"))?;
    if value.is_infinite() || (value == 0.0 && wide != 0.0) {
        return Err(float_range(trimmed, "real"));
    }
    Ok(value)
}

fn special_float(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    Some(match lower.as_str() {
        "nan" => f64::NAN,
        "infinity" | "inf" | "+infinity" | "+inf" => f64::INFINITY,
        "-infinity" | "-inf" => f64::NEG_INFINITY,
        _ => return None,
    })
}

/// Refuses a number that overflowed, or that underflowed to zero.
fn check_float(value: f64, text: &str, name: &str) -> Result<f64> {
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    let zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if value.is_infinite() || (value == 0.0 && !zero) {
        return Err(float_range(text, name));
    }
    Ok(value)
}

fn float_range(text: &str, name: &str) -> Error {
    let message = format!("\"{text}\" is out of range for type {name}");
    error(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Returns the bytes of `\x0a1b` or of the escape form.
fn parse_bytea(text: &str) -> Result<Bytes> {
    if let Some(digits) = text.strip_prefix("\\x") {
        return parse_hex(digits);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        match after {
            [b'\\', after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = after;
            }
            _ => {
                let message = "invalid input syntax for type bytea";
                return Err(error(SqlState::INVALID_TEXT_REPRESENTATION, message));
            }
        }
    }
    Ok(Bytes::from(out))
}

fn parse_hex(digits: &str) -> Result<Bytes> {
    let state = SqlState::INVALID_PARAMETER_VALUE;
    let mut out = Vec::with_capacity(digits.len() / 2);
    let mut high = None;
    for symbol in digits.chars() {
        if symbol.is_ascii_whitespace() && high.is_none() {
            continue;
        }
        let digit = u8::try_from(symbol)
            .ok()
            .and_then(hex_digit)
            .ok_or_else(|| error(state, format!("invalid hexadecimal digit: \"{symbol}\"")))?;
        match high.take() {
            None => high = Some(digit),
            Some(high) => out.push(high << 4 | digit),
        }
    }
    if high.is_some() {
        let message = "invalid hexadecimal data: odd number of digits";
        return Err(error(state, message));
    }
    Ok(Bytes::from(out))
}

/// Returns the bytes of a UUID: 32 digits, hyphens after any group of four, braces around.
fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let bad = || syntax(text, &type_name(&DataType::Uuid));
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(bad)?,
        None => text,
    };
    let mut out = [0; 16];
    let mut digits = 0;
    let mut bytes = inner.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let digit = hex_digit(byte).filter(|_| digits < 32).ok_or_else(bad)?;
        out[digits / 2] = out[digits / 2] << 4 | digit;
        digits += 1;
        if digits % 4 == 0 && digits < 32 && bytes.peek() == Some(&b'-') {
            bytes.next();
        }
    }
    if digits != 32 {
        return Err(bad());
    }
    Ok(out)
}
