//! The text form of values.

use relational::{DataType, Value};

use super::array::array_text;
use super::settings::{ByteaOutput, Settings};
use super::time;

/// Appends the text form of a value, which must not be NULL, to `out`.
pub fn encode_text(value: &Value, data_type: &DataType, settings: &Settings, out: &mut Vec<u8>) {
    if let (Value::Text(text), DataType::Char(length)) = (value, data_type) {
        out.extend_from_slice(text.as_bytes());
        let missing = (*length as usize).saturating_sub(text.chars().count());
        out.extend(std::iter::repeat_n(b' ', missing));
        return;
    }
    match value {
        Value::Text(text) | Value::Jsonb(text) => out.extend_from_slice(text.as_bytes()),
        other => out.extend_from_slice(value_text(other, settings).as_bytes()),
    }
}

/// Returns the text form of a value. NULL gives an empty text.
pub fn value_text(value: &Value, settings: &Settings) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(value) => if *value { "t" } else { "f" }.to_owned(),
        Value::Int2(value) => value.to_string(),
        Value::Int4(value) => value.to_string(),
        Value::Int8(value) => value.to_string(),
        Value::Oid(value) => value.to_string(),
        Value::Float4(value) => float4_text(*value, settings),
        Value::Float8(value) => float8_text(*value, settings),
        Value::Numeric(value) => value.to_string(),
        Value::Text(text) | Value::Jsonb(text) => text.to_string(),
        Value::Bytea(bytes) => bytea_text(bytes, settings.bytea_output),
        Value::Uuid(bytes) => uuid_text(bytes),
        Value::Date(days) => time::date_text(*days),
        Value::Time(micros) => time::time_text(*micros),
        Value::Timestamp(micros) => time::timestamp_text(*micros),
        Value::TimestampTz(micros) => time::timestamptz_text(*micros, settings.zone),
        Value::Interval { months, days, micros } => {
            time::interval_text((*months, *days, *micros), settings.interval_style)
        }
        Value::Array(array) => array_text(array, settings),
    }
}

/// Returns the text of a number of 64 bits.
pub fn float8_text(value: f64, settings: &Settings) -> String {
    if settings.extra_float_digits > 0 {
        return float_text(value, &format!("{value:e}"), 15);
    }
    let digits = (15 + settings.extra_float_digits).max(1) as usize;
    float_text(value, &trim_exponent(&format!("{value:.*e}", digits - 1)), digits as i32)
}

/// Returns the text of a number of 32 bits.
pub fn float4_text(value: f32, settings: &Settings) -> String {
    if settings.extra_float_digits > 0 {
        return float_text(f64::from(value), &format!("{value:e}"), 6);
    }
    let digits = (6 + settings.extra_float_digits).max(1) as usize;
    let text = trim_exponent(&format!("{value:.*e}", digits - 1));
    float_text(f64::from(value), &text, digits as i32)
}

/// Removes zeros at the end of the mantissa.
fn trim_exponent(text: &str) -> String {
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            format!("{mantissa}e{exponent}")
        }
        _ => text.to_owned(),
    }
}

/// Returns digits in plain form if the exponent lies in `-4..digits_max`, else with an exponent.
fn float_text(value: f64, scientific: &str, digits_max: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits_max).contains(&exponent) {
        return plain(mantissa, exponent);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns a mantissa and an exponent as a number without exponent.
fn plain(mantissa: &str, exponent: i32) -> String {
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        format!("{sign}{digits}{}", "0".repeat(whole - digits.len()))
    } else {
        format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
    }
}

fn bytea_text(bytes: &[u8], output: ByteaOutput) -> String {
    let mut out = String::with_capacity(bytes.len() * 2 + 2);
    if output == ByteaOutput::Hex {
        out.push_str("\\x");
    }
    for byte in bytes {
        match (output, *byte) {
            (ByteaOutput::Hex, byte) => {
                out.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
                out.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
            }
            (ByteaOutput::Escape, b'\\') => out.push_str("\\\\"),
            (ByteaOutput::Escape, byte @ 0x20..0x7f) => out.push(char::from(byte)),
            (ByteaOutput::Escape, byte) => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut out = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    out
}
