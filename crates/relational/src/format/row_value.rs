//! Bytes of one value in the cell of a row.
//!
//! A kind of three bits tells how long the bytes are, whatever the type, so that values of columns that
//! were dropped, or are not wanted, are skipped. The type of the column tells what they mean.

use crate::error::{Error, Result};
use crate::types::{Array, ArrayDimension, DataType, Numeric, Value};
use base::codec::{ByteReader, DecodeError, PutBytes};
use bigdecimal::num_bigint::{BigInt, Sign};
use bytes::Bytes;
use std::sync::Arc;

/// The layout of the bytes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// NULL, which has no bytes.
    Null = 0,
    /// False, which has no bytes.
    False = 1,
    /// True, which has no bytes.
    True = 2,
    /// A signed integer as a varint.
    Integer = 3,
    /// Four bytes of a floating-point number.
    Four = 4,
    /// Eight bytes of a floating-point number.
    Eight = 5,
    /// Sixteen bytes of a UUID.
    Sixteen = 6,
    /// A length as a varint, and that many bytes.
    Bytes = 7,
}

/// Most values of an array, in proportion to its bytes: each takes a byte at least.
const DIMENSIONS_MAX: u64 = 6;

impl Kind {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(false) => Self::False,
            Value::Bool(true) => Self::True,
            Value::Int2(_)
            | Value::Int4(_)
            | Value::Int8(_)
            | Value::Date(_)
            | Value::Time(_)
            | Value::Timestamp(_)
            | Value::TimestampTz(_)
            | Value::Oid(_) => Self::Integer,
            Value::Float4(_) => Self::Four,
            Value::Float8(_) => Self::Eight,
            Value::Uuid(_) => Self::Sixteen,
            Value::Numeric(_)
            | Value::Text(_)
            | Value::Bytea(_)
            | Value::Interval { .. }
            | Value::Jsonb(_)
            | Value::Array(_) => Self::Bytes,
        }
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        match bits & 7 {
            0 => Self::Null,
            1 => Self::False,
            2 => Self::True,
            3 => Self::Integer,
            4 => Self::Four,
            5 => Self::Eight,
            6 => Self::Sixteen,
            _ => Self::Bytes,
        }
    }

    /// Moves a reader behind the bytes of a value.
    pub(super) fn skip(self, reader: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        match self {
            Self::Null | Self::False | Self::True => {}
            Self::Integer => drop(reader.varint("integer")?),
            Self::Four => drop(reader.bytes(4, "number")?),
            Self::Eight => drop(reader.bytes(8, "number")?),
            Self::Sixteen => drop(reader.bytes(16, "uuid")?),
            Self::Bytes => drop(reader.string("bytes")?),
        }
        Ok(())
    }
}

/// Appends the bytes of a value behind its kind.
pub(super) fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Int2(number) => put_signed(out, (*number).into()),
        Value::Int4(number) | Value::Date(number) => put_signed(out, (*number).into()),
        Value::Int8(number)
        | Value::Time(number)
        | Value::Timestamp(number)
        | Value::TimestampTz(number) => put_signed(out, *number),
        Value::Oid(number) => put_signed(out, (*number).into()),
        Value::Float4(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Float8(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Uuid(bytes) => out.extend_from_slice(bytes),
        Value::Text(text) | Value::Jsonb(text) => out.put_string(text.as_bytes()),
        Value::Bytea(bytes) => out.put_string(bytes),
        Value::Numeric(number) => out.put_string(&numeric_bytes(number)),
        Value::Interval { months, days, micros } => {
            let mut bytes = Vec::with_capacity(12);
            put_signed(&mut bytes, (*months).into());
            put_signed(&mut bytes, (*days).into());
            put_signed(&mut bytes, *micros);
            out.put_string(&bytes);
        }
        Value::Array(array) => out.put_string(&array_bytes(array)),
    }
}

fn put_signed(out: &mut Vec<u8>, number: i64) {
    out.put_varint((number << 1 ^ number >> 63) as u64);
}

fn signed(reader: &mut ByteReader<'_>) -> Result<i64, DecodeError> {
    let bits = reader.varint("integer")?;
    Ok((bits >> 1) as i64 ^ -((bits & 1) as i64))
}

/// Class of a decimal number; then scale and magnitude of a finite one.
fn numeric_bytes(number: &Numeric) -> Vec<u8> {
    let Some((digits, scale)) = number.parts() else {
        return vec![match number {
            Numeric::NegativeInfinity => 2,
            Numeric::Infinity => 3,
            _ => 4,
        }];
    };
    let mut bytes = vec![u8::from(digits.sign() == Sign::Minus)];
    bytes.put_varint(scale.max(0) as u64);
    bytes.extend_from_slice(&digits.magnitude().to_bytes_le());
    bytes
}

fn numeric_of(bytes: &[u8]) -> Result<Numeric> {
    let mut reader = ByteReader::new(bytes);
    let sign = match reader.u8("class").map_err(damaged)? {
        0 => Sign::Plus,
        1 => Sign::Minus,
        2 => return Ok(Numeric::NegativeInfinity),
        3 => return Ok(Numeric::Infinity),
        4 => return Ok(Numeric::NaN),
        _ => return Err(wrong("the class of a decimal number")),
    };
    let scale = reader.varint("scale").map_err(damaged)?;
    if scale > 16_383 {
        return Err(wrong("the scale of a decimal number"));
    }
    let digits = BigInt::from_bytes_le(sign, reader.rest());
    Numeric::new(digits, scale as i64).map_err(|_| wrong("a decimal number with too many digits"))
}

fn array_bytes(array: &Array) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_varint(array.dimensions.len() as u64);
    for dimension in &array.dimensions {
        bytes.put_varint(dimension.length.into());
        put_signed(&mut bytes, dimension.lower.into());
    }
    for value in &array.values {
        bytes.push(Kind::of(value) as u8);
        put_value(&mut bytes, value);
    }
    bytes
}

fn array_of(bytes: &[u8], element: &DataType) -> Result<Array> {
    let mut reader = ByteReader::new(bytes);
    let count = reader.varint("dimensions").map_err(damaged)?;
    if count > DIMENSIONS_MAX {
        return Err(wrong("the dimensions of an array"));
    }
    let mut dimensions = Vec::new();
    let mut length_of_all = u64::from(count > 0);
    for _ in 0..count {
        let length = u32::try_from(reader.varint("length").map_err(damaged)?);
        let lower = i32::try_from(signed(&mut reader).map_err(damaged)?);
        let (Ok(length), Ok(lower)) = (length, lower) else {
            return Err(wrong("a dimension of an array"));
        };
        length_of_all = length_of_all.saturating_mul(length.into());
        dimensions.push(ArrayDimension { length, lower });
    }
    let mut values = Vec::new();
    while !reader.is_empty() {
        let kind = Kind::from_bits(reader.u8("kind").map_err(damaged)?.into());
        values.push(read_value(&mut reader, kind, element)?);
    }
    if values.len() as u64 != length_of_all {
        return Err(wrong("the length of an array"));
    }
    Ok(Array { element: element.clone(), dimensions, values })
}

/// Reads the value of a kind and a type. XX001 if the bytes are not of that type.
pub(super) fn read_value(
    reader: &mut ByteReader<'_>,
    kind: Kind,
    data_type: &DataType,
) -> Result<Value> {
    match kind {
        Kind::Null => Ok(Value::Null),
        Kind::False | Kind::True if *data_type == DataType::Bool => {
            Ok(Value::Bool(kind == Kind::True))
        }
        Kind::Integer => integer_value(signed(reader).map_err(damaged)?, data_type),
        Kind::Four if *data_type == DataType::Float4 => {
            let bytes = reader.u32("number").map_err(damaged)?;
            Ok(Value::Float4(f32::from_bits(bytes)))
        }
        Kind::Eight if *data_type == DataType::Float8 => {
            let bytes = reader.u64("number").map_err(damaged)?;
            Ok(Value::Float8(f64::from_bits(bytes)))
        }
        Kind::Four if *data_type == DataType::Float8 => {
            let bytes = reader.u32("number").map_err(damaged)?;
            Ok(Value::Float8(f32::from_bits(bytes).into()))
        }
        Kind::Sixteen if *data_type == DataType::Uuid => {
            let bytes = reader.bytes(16, "uuid").map_err(damaged)?;
            Ok(Value::Uuid(bytes.try_into().unwrap_or_default()))
        }
        Kind::Bytes => bytes_value(reader.string("bytes").map_err(damaged)?, data_type),
        _ => Err(wrong("a value of another type")),
    }
}

fn integer_value(number: i64, data_type: &DataType) -> Result<Value> {
    let out_of_range = |_| wrong("an integer that is out of range");
    Ok(match data_type {
        DataType::Int2 => Value::Int2(number.try_into().map_err(out_of_range)?),
        DataType::Int4 => Value::Int4(number.try_into().map_err(out_of_range)?),
        DataType::Int8 => Value::Int8(number),
        DataType::Date => Value::Date(number.try_into().map_err(out_of_range)?),
        DataType::Time => Value::Time(number),
        DataType::Timestamp => Value::Timestamp(number),
        DataType::TimestampTz => Value::TimestampTz(number),
        DataType::Oid => Value::Oid(number.try_into().map_err(out_of_range)?),
        // The column had an integer type before.
        DataType::Numeric(_) => Value::Numeric(Numeric::from(number)),
        _ => return Err(wrong("an integer of another type")),
    })
}

fn bytes_value(bytes: &[u8], data_type: &DataType) -> Result<Value> {
    let text = || std::str::from_utf8(bytes).map_err(|_| wrong("text that is not UTF-8"));
    Ok(match data_type {
        DataType::Text
        | DataType::Varchar(_)
        | DataType::Char(_)
        | DataType::Name
        | DataType::Json
        | DataType::Unknown => Value::Text(text()?.into()),
        DataType::Jsonb => Value::Jsonb(text()?.into()),
        DataType::Bytea => Value::Bytea(Bytes::copy_from_slice(bytes)),
        DataType::Numeric(_) => Value::Numeric(numeric_of(bytes)?),
        DataType::Interval => interval_of(bytes)?,
        DataType::Array(element) => Value::Array(Arc::new(array_of(bytes, element)?)),
        _ => return Err(wrong("bytes of another type")),
    })
}

fn interval_of(bytes: &[u8]) -> Result<Value> {
    let mut reader = ByteReader::new(bytes);
    let mut next = || signed(&mut reader).map_err(damaged);
    let (months, days, micros) = (next()?, next()?, next()?);
    let (Ok(months), Ok(days)) = (i32::try_from(months), i32::try_from(days)) else {
        return Err(wrong("an interval that is out of range"));
    };
    Ok(Value::Interval { months, days, micros })
}

/// Returns kind and bytes of a value that stands alone.
pub(crate) fn encode_value(value: &Value) -> Vec<u8> {
    let mut bytes = vec![Kind::of(value) as u8];
    put_value(&mut bytes, value);
    bytes
}

/// Returns the value in what [`encode_value`] returned.
pub(crate) fn decode_value(bytes: &[u8], data_type: &DataType) -> Result<Value> {
    let mut reader = ByteReader::new(bytes);
    let kind = Kind::from_bits(reader.u8("kind").map_err(damaged)?.into());
    read_value(&mut reader, kind, data_type)
}

pub(super) fn damaged(error: DecodeError) -> Error {
    Error::corrupted(format!("a row is damaged: {error}"))
}

pub(super) fn wrong(what: &str) -> Error {
    Error::corrupted(format!("a row is damaged: {what}"))
}
