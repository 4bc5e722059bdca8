//! The binary form of values, in network byte order.
//!
//! numeric: digits u16, weight i16, sign u16, scale u16, digits of base 10,000.
//! array: dimensions i32, has-nulls i32, element OID u32, then length and lower bound of each
//! dimension, then each element with its length (-1 is NULL).
//!
//! 1. A length or a count is checked against the bytes that follow before anything is reserved.

use std::sync::Arc;

use relational::{Array, ArrayDimension, Bytes, DataType, Error, Numeric, Result, SqlState, Value};

use super::array::check_dimensions;
use super::parse::parse_value;
use super::settings::Settings;
use super::{error, fit, json, time, type_from_oid, type_oid, utf8};

const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_NAN: u16 = 0xc000;
const NUMERIC_INFINITY: u16 = 0xd000;
const NUMERIC_MINUS_INFINITY: u16 = 0xf000;
/// The version byte in front of a jsonb.
const JSONB_VERSION: u8 = 1;

/// Appends the binary form of a value, which must not be NULL, to `out`.
pub fn encode_binary(value: &Value, data_type: &DataType, settings: &Settings, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Int2(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Int4(value) | Value::Date(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Int8(value)
        | Value::Time(value)
        | Value::Timestamp(value)
        | Value::TimestampTz(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Numeric(value) => encode_numeric(value, out),
        Value::Text(_) => super::encode_text(value, data_type, settings, out),
        Value::Bytea(bytes) => out.extend_from_slice(bytes),
        Value::Uuid(bytes) => out.extend_from_slice(bytes),
        Value::Interval { months, days, micros } => {
            out.extend_from_slice(&micros.to_be_bytes());
            out.extend_from_slice(&days.to_be_bytes());
            out.extend_from_slice(&months.to_be_bytes());
        }
        Value::Jsonb(text) => {
            out.push(JSONB_VERSION);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Array(array) => encode_array(array, settings, out),
    }
}

fn encode_array(array: &Array, settings: &Settings, out: &mut Vec<u8>) {
    let nulls = array.values.iter().any(Value::is_null);
    out.extend_from_slice(&(array.dimensions.len() as i32).to_be_bytes());
    out.extend_from_slice(&i32::from(nulls).to_be_bytes());
    out.extend_from_slice(&type_oid(&array.element).to_be_bytes());
    for dimension in &array.dimensions {
        out.extend_from_slice(&dimension.length.to_be_bytes());
        out.extend_from_slice(&dimension.lower.to_be_bytes());
    }
    for value in &array.values {
        if value.is_null() {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        }
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        encode_binary(value, &array.element, settings, out);
        let length = (out.len() - at - 4) as i32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Writes the digits of the number's text in groups of four around the point.
fn encode_numeric(value: &Numeric, out: &mut Vec<u8>) {
    let head = |out: &mut Vec<u8>, count: u16, weight: i16, sign: u16, scale: u16| {
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&weight.to_be_bytes());
        out.extend_from_slice(&sign.to_be_bytes());
        out.extend_from_slice(&scale.to_be_bytes());
    };
    match value {
        Numeric::NaN => return head(out, 0, 0, NUMERIC_NAN, 0),
        Numeric::Infinity => return head(out, 0, 0, NUMERIC_INFINITY, 0),
        Numeric::NegativeInfinity => return head(out, 0, 0, NUMERIC_MINUS_INFINITY, 0),
        Numeric::Finite(_) => {}
    }
    let text = value.to_string();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let pad = (4 - whole.len() % 4) % 4;
    let mut padded = "0".repeat(pad);
    padded.push_str(whole);
    padded.push_str(fraction);
    padded.push_str(&"0".repeat((4 - padded.len() % 4) % 4));
    let mut groups: Vec<u16> = padded
        .as_bytes()
        .chunks(4)
        .map(|group| group.iter().fold(0, |sum, d| sum * 10 + u16::from(d - b'0')))
        .collect();
    let mut weight = ((whole.len() + pad) / 4) as i16 - 1;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    weight -= zeros as i16;
    if groups.is_empty() {
        weight = 0;
    }
    let sign = if negative { NUMERIC_NEGATIVE } else { 0 };
    head(out, groups.len() as u16, weight, sign, fraction.len() as u16);
    for group in groups {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

/// Reads fields from the front of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| {
            error(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
        })?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }
}

fn bad(message: impl Into<String>) -> Error {
    error(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

/// Returns the value of a binary form. Bytes left over are 22P03.
pub fn decode_binary(bytes: &[u8], data_type: &DataType, settings: &Settings) -> Result<Value> {
    let mut fields = Fields(bytes);
    let value = decode(&mut fields, data_type, settings)?;
    if !fields.0.is_empty() {
        return Err(bad("incorrect binary data format"));
    }
    Ok(value)
}

fn decode(fields: &mut Fields<'_>, data_type: &DataType, settings: &Settings) -> Result<Value> {
    Ok(match data_type {
        DataType::Bool => Value::Bool(fields.array::<1>()?[0] != 0),
        DataType::Int2 => Value::Int2(fields.array().map(i16::from_be_bytes)?),
        DataType::Int4 => Value::Int4(fields.i32()?),
        DataType::Int8 => Value::Int8(fields.i64()?),
        DataType::Oid => Value::Oid(fields.i32()? as u32),
        DataType::Float4 => Value::Float4(fields.array().map(f32::from_be_bytes)?),
        DataType::Float8 => Value::Float8(fields.array().map(f64::from_be_bytes)?),
        DataType::Numeric(_) => fit(Value::Numeric(decode_numeric(fields)?), data_type)?,
        DataType::Text
        | DataType::Varchar(_)
        | DataType::Char(_)
        | DataType::Name
        | DataType::Unknown
        | DataType::Json => {
            let text = utf8(fields.take(fields.0.len())?)?;
            parse_value(text, data_type, settings)?
        }
        DataType::Jsonb => {
            if fields.array::<1>()?[0] != JSONB_VERSION {
                return Err(bad("unsupported jsonb version number"));
            }
            let text = utf8(fields.take(fields.0.len())?)?;
            Value::Jsonb(Arc::from(json::parse(text)?.to_string()))
        }
        DataType::Bytea => Value::Bytea(Bytes::copy_from_slice(fields.take(fields.0.len())?)),
        DataType::Uuid => Value::Uuid(fields.array()?),
        DataType::Date => {
            let days = fields.i32()?;
            if !matches!(days, i32::MIN | i32::MAX) {
                time::check_date(days.into())?;
            }
            Value::Date(days)
        }
        DataType::Time => {
            let micros = fields.i64()?;
            if !(0..=time::DAY).contains(&micros) {
                return Err(error(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range"));
            }
            Value::Time(micros)
        }
        DataType::Timestamp => Value::Timestamp(decode_timestamp(fields)?),
        DataType::TimestampTz => Value::TimestampTz(decode_timestamp(fields)?),
        DataType::Interval => {
            let micros = fields.i64()?;
            let days = fields.i32()?;
            Value::Interval { months: fields.i32()?, days, micros }
        }
        DataType::Array(element) => {
            Value::Array(Arc::new(decode_array(fields, element, settings)?))
        }
    })
}

fn decode_timestamp(fields: &mut Fields<'_>) -> Result<i64> {
    let micros = fields.i64()?;
    if matches!(micros, i64::MIN | i64::MAX) {
        return Ok(micros);
    }
    time::check_timestamp(Some(micros))
}

fn decode_numeric(fields: &mut Fields<'_>) -> Result<Numeric> {
    let (count, weight) = (fields.u16()?, fields.u16()? as i16);
    let (sign, scale) = (fields.u16()?, usize::from(fields.u16()?));
    match sign {
        NUMERIC_NAN => return Ok(Numeric::NaN),
        NUMERIC_INFINITY => return Ok(Numeric::Infinity),
        NUMERIC_MINUS_INFINITY => return Ok(Numeric::NegativeInfinity),
        0 | NUMERIC_NEGATIVE => {}
        _ => return Err(bad("invalid sign in external \"numeric\" value")),
    }
    if scale > 0x3fff {
        return Err(bad("invalid scale in external \"numeric\" value"));
    }
    let mut groups = Vec::new();
    for _ in 0..count {
        let group = fields.u16()?;
        if group > 9999 {
            return Err(bad("invalid digit in external \"numeric\" value"));
        }
        groups.push(group);
    }
    let group =
        |at: i32| usize::try_from(at).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0);
    let mut text = String::from(if sign == NUMERIC_NEGATIVE { "-" } else { "" });
    text.push('0');
    let weight = i32::from(weight);
    for at in 0..=weight.max(-1) {
        text.push_str(&format!("{:04}", group(at)));
    }
    if scale > 0 {
        let mut fraction = String::new();
        for at in 0..scale.div_ceil(4) as i32 {
            fraction.push_str(&format!("{:04}", group(weight + 1 + at)));
        }
        fraction.truncate(scale);
        text.push('.');
        text.push_str(&fraction);
    }
    text.parse()
}

fn decode_array(fields: &mut Fields<'_>, element: &DataType, settings: &Settings) -> Result<Array> {
    let count = fields.i32()?;
    fields.i32()?;
    let oid = fields.i32()? as u32;
    if !(0..=6).contains(&count) {
        return Err(bad("invalid number of array dimensions"));
    }
    if oid != type_oid(element) {
        // Text and varchar share their form; other types do not.
        let sent = type_from_oid(oid).filter(|sent| sent.is_textual() && element.is_textual());
        sent.ok_or_else(|| bad("wrong element type in array"))?;
    }
    let mut dimensions = Vec::new();
    let mut total = 1_u64;
    for _ in 0..count {
        let (length, lower) = (fields.i32()?, fields.i32()?);
        let length = u32::try_from(length).map_err(|_| bad("invalid array length"))?;
        total = total.saturating_mul(length.into());
        dimensions.push(ArrayDimension { length, lower });
    }
    if count == 0 || total == 0 {
        return Ok(Array::of(element.clone(), Vec::new()));
    }
    check_dimensions(&dimensions)?;
    // Each element takes four bytes at least.
    if total > (fields.0.len() / 4) as u64 {
        return Err(bad("insufficient data left in message"));
    }
    let mut values = Vec::with_capacity(total as usize);
    for _ in 0..total {
        let length = fields.i32()?;
        values.push(match usize::try_from(length) {
            Ok(length) => decode_binary(fields.take(length)?, element, settings)?,
            Err(_) => Value::Null,
        });
    }
    Ok(Array { element: element.clone(), dimensions, values })
}
