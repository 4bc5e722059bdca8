//! Floating point.

use super::{syntax, trim};
use crate::error::{Error, Result, State, shorten};

/// Returns the number of 64 bits nearest to a text. Overflow and underflow are 22003.
pub(crate) fn parse_float8(text: &str) -> Result<f64> {
    parse(text, "double precision")
}

/// Returns the number of 32 bits nearest to a text. Overflow and underflow are 22003.
pub(crate) fn parse_float4(text: &str) -> Result<f32> {
    let trimmed = trim(text);
    if let Some(value) = special(trimmed) {
        return Ok(value as f32);
    }
    let wide = parse(text, "real")?;
    let value: f32 = trimmed.parse().map_err(|_| syntax(text, "real"))?;
    if value.is_infinite() || (value == 0.0 && wide != 0.0) {
        return Err(range(trimmed, "real"));
    }
    Ok(value)
}

fn parse(text: &str, name: &str) -> Result<f64> {
    let trimmed = trim(text);
    let is_plain = trimmed.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    if !is_plain {
        return special(trimmed).ok_or_else(|| syntax(text, name));
    }
    let value: f64 = trimmed.parse().map_err(|_| syntax(text, name))?;
    let mantissa = trimmed.split(['e', 'E']).next().unwrap_or_default();
    let is_nought = || !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if value.is_infinite() || (value == 0.0 && !is_nought()) {
        return Err(range(trimmed, name));
    }
    Ok(value)
}

fn special(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is = |word: &str| unsigned.eq_ignore_ascii_case(word);
    if is("nan") {
        return Some(f64::NAN);
    }
    let is_infinite = is("infinity") || is("inf");
    is_infinite.then_some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY })
}

fn range(text: &str, name: &str) -> Error {
    let text = shorten(text.as_bytes());
    let message = format!("\"{text}\" is out of range for type {name}");
    Error::new(State::NUMERIC_VALUE_OUT_OF_RANGE, message)
}
