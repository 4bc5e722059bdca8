//! Keys of rows and of index entries: the part of the tree, then the values in their order.
//!
//! 1. Keys of one codec compare as their values do: by [`Value`]'s order, inverted in a descending part,
//!    and with NULL at the end that the part says.
//! 2. The bytes of a value are never the beginning of another value's, so the keys that begin with
//!    some values are one range.
//! 3. Values of a lossless part come back as they were. From another part only an equal value comes back.

use super::key_bytes::{KeyReader, damaged, put_escaped, put_float, put_integer, put_text};
use super::key_numeric::{numeric, put_numeric};
use crate::error::{Error, Result};
use crate::state::SqlState;
use crate::types::{Array, ArrayDimension, DataType, Value};
use std::sync::Arc;

/// Longest key in bytes, the part of the tree included.
pub const KEY_BYTES_MAX: usize = 8 * 1024;
/// Stands before a value, in parts that may be NULL.
const NOT_NULL: u8 = 2;
const NULL_FIRST: u8 = 1;
const NULL_LAST: u8 = 3;
/// Ends the values of an array.
const ARRAY_END: u8 = 0;
/// Deepest nesting and most dimensions of an array that a key may have.
const DIMENSIONS_MAX: usize = 6;

/// One value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPart {
    /// The type of the value.
    pub data_type: DataType,
    /// True if larger values come first.
    pub descending: bool,
    /// True if NULL comes before all values.
    pub nulls_first: bool,
    /// True if the value may be NULL; a marker byte tells it.
    pub nullable: bool,
}

impl KeyPart {
    /// Returns a part that is never NULL, in ascending order.
    pub fn ascending(data_type: DataType) -> Self {
        Self { data_type, descending: false, nulls_first: false, nullable: false }
    }

    /// Returns true if the bytes tell the value exactly, not only one that is equal.
    pub fn is_lossless(&self) -> bool {
        !matches!(
            self.data_type,
            DataType::Numeric(_)
                | DataType::Float4
                | DataType::Float8
                | DataType::Interval
                | DataType::Array(_)
        )
    }
}

/// Returns true if values of the type can be in keys.
pub fn can_be_key(data_type: &DataType) -> bool {
    match data_type {
        DataType::Json | DataType::Jsonb | DataType::Unknown => false,
        DataType::Array(element) => can_be_key(element),
        _ => true,
    }
}

/// Encodes and decodes keys of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyCodec {
    part: u16,
    parts: Vec<KeyPart>,
}

impl KeyCodec {
    /// Returns the codec of keys in `part` of a tree.
    pub fn new(part: u16, parts: Vec<KeyPart>) -> Self {
        Self { part, parts }
    }

    /// Returns the values that a key has.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Returns the two bytes that begin all keys.
    pub fn prefix(&self) -> [u8; 2] {
        self.part.to_be_bytes()
    }

    /// Returns the key of `values`, which may be fewer than the codec has: then it is the beginning of
    /// all keys with these values. 54000 if it is too long, 0A000 for a type without an order of bytes.
    pub fn encode<'a>(&self, values: impl IntoIterator<Item = &'a Value>) -> Result<Vec<u8>> {
        let key = self.put(values)?;
        if key.len() > KEY_BYTES_MAX {
            let message =
                format!("key of {} bytes exceeds the maximum of {KEY_BYTES_MAX}", key.len());
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        Ok(key)
    }

    /// Returns the key of `values` to look for; nothing if it is too long to be there.
    pub fn encode_to_find<'a>(
        &self,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Option<Vec<u8>>> {
        let key = self.put(values)?;
        Ok((key.len() <= KEY_BYTES_MAX).then_some(key))
    }

    /// Returns the key of `values` as a bound. One that is too long to be there is cut: no values that are in a
    /// key begin with what is left, so all keys are on the same side of it as before.
    pub fn encode_bound<'a>(&self, values: impl IntoIterator<Item = &'a Value>) -> Result<Vec<u8>> {
        let mut key = self.put(values)?;
        key.truncate(KEY_BYTES_MAX + 1);
        Ok(key)
    }

    fn put<'a>(&self, values: impl IntoIterator<Item = &'a Value>) -> Result<Vec<u8>> {
        let mut key = Vec::with_capacity(32);
        key.extend_from_slice(&self.prefix());
        for (part, value) in self.parts.iter().zip(values) {
            put_part(&mut key, part, value)?;
        }
        Ok(key)
    }

    /// Returns the values of a key and the bytes behind them. XX001 if the key is not of this codec.
    pub fn decode<'a>(&self, key: &'a [u8]) -> Result<(Vec<Value>, &'a [u8])> {
        let mut values = Vec::with_capacity(self.parts.len());
        let rest = self.decode_each(key, |_, value| values.push(value))?;
        Ok((values, rest))
    }

    /// Calls `each` with place and value of each part, and returns the bytes behind them.
    pub fn decode_each<'a>(
        &self,
        key: &'a [u8],
        mut each: impl FnMut(usize, Value),
    ) -> Result<&'a [u8]> {
        let mut reader = KeyReader::new(key);
        if reader.array::<2>()? != self.prefix() {
            return Err(damaged("its part of the tree"));
        }
        for (at, part) in self.parts.iter().enumerate() {
            each(at, read_part(&mut reader, part)?);
        }
        Ok(&key[reader.position()..])
    }
}

fn put_part(out: &mut Vec<u8>, part: &KeyPart, value: &Value) -> Result<()> {
    if part.nullable {
        out.push(match (value.is_null(), part.nulls_first) {
            (false, _) => NOT_NULL,
            (true, true) => NULL_FIRST,
            (true, false) => NULL_LAST,
        });
        if value.is_null() {
            return Ok(());
        }
    }
    let begin = out.len();
    put_value(out, &part.data_type, value)?;
    if part.descending {
        out[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

fn put_value(out: &mut Vec<u8>, data_type: &DataType, value: &Value) -> Result<()> {
    if !can_be_key(data_type) {
        return Err(Error::unsupported(format!("type {data_type} cannot be part of a key")));
    }
    match value {
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Int2(number) => put_integer(out, (*number).into()),
        Value::Int4(number) | Value::Date(number) => put_integer(out, (*number).into()),
        Value::Int8(number)
        | Value::Time(number)
        | Value::Timestamp(number)
        | Value::TimestampTz(number) => put_integer(out, *number),
        Value::Oid(number) => put_integer(out, (*number).into()),
        Value::Float4(number) => put_float(out, (*number).into()),
        Value::Float8(number) => put_float(out, *number),
        Value::Numeric(number) => put_numeric(out, number),
        Value::Text(text) if text.bytes().any(|byte| byte == 0) => {
            let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
            return Err(Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message));
        }
        Value::Text(text) => match data_type {
            // Blanks at the end do not count.
            DataType::Char(_) => put_text(out, text.trim_end_matches(' ')),
            _ => put_text(out, text),
        },
        Value::Bytea(bytes) => put_escaped(out, bytes),
        Value::Uuid(bytes) => out.extend_from_slice(bytes),
        Value::Interval { months, days, micros } => {
            let span = crate::types::interval_span(*months, *days, *micros);
            out.extend_from_slice(&(span as u128 ^ 1 << 127).to_be_bytes());
        }
        Value::Array(array) => put_array(out, array)?,
        Value::Null => {
            let message = "null value in a column of a primary key";
            return Err(Error::new(SqlState::NOT_NULL_VIOLATION, message));
        }
        Value::Jsonb(_) => return Err(Error::unsupported("type jsonb cannot be part of a key")),
    }
    Ok(())
}

fn put_array(out: &mut Vec<u8>, array: &Array) -> Result<()> {
    for value in &array.values {
        match value {
            Value::Null => out.push(NULL_LAST),
            value => {
                out.push(NOT_NULL);
                put_value(out, &array.element, value)?;
            }
        }
    }
    out.push(ARRAY_END);
    put_integer(out, array.dimensions.len() as i64);
    for dimension in &array.dimensions {
        put_integer(out, dimension.length.into());
        put_integer(out, dimension.lower.into());
    }
    Ok(())
}

fn read_part(reader: &mut KeyReader<'_>, part: &KeyPart) -> Result<Value> {
    if part.nullable {
        reader.set_descending(false);
        match (reader.byte()?, part.nulls_first) {
            (NOT_NULL, _) => {}
            (NULL_FIRST, true) | (NULL_LAST, false) => return Ok(Value::Null),
            _ => return Err(damaged("a marker of NULL")),
        }
    }
    reader.set_descending(part.descending);
    let value = read_value(reader, &part.data_type, part.descending);
    reader.set_descending(false);
    value
}

fn read_value(reader: &mut KeyReader<'_>, data_type: &DataType, descending: bool) -> Result<Value> {
    let out_of_range = |_| damaged("an integer that is out of range");
    Ok(match data_type {
        DataType::Bool => match reader.byte()? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            _ => return Err(damaged("a truth value")),
        },
        DataType::Int2 => Value::Int2(reader.integer()?.try_into().map_err(out_of_range)?),
        DataType::Int4 => Value::Int4(reader.integer()?.try_into().map_err(out_of_range)?),
        DataType::Int8 => Value::Int8(reader.integer()?),
        DataType::Oid => Value::Oid(reader.integer()?.try_into().map_err(out_of_range)?),
        DataType::Date => Value::Date(reader.integer()?.try_into().map_err(out_of_range)?),
        DataType::Time => Value::Time(reader.integer()?),
        DataType::Timestamp => Value::Timestamp(reader.integer()?),
        DataType::TimestampTz => Value::TimestampTz(reader.integer()?),
        DataType::Float4 => Value::Float4(reader.float()? as f32),
        DataType::Float8 => Value::Float8(reader.float()?),
        DataType::Numeric(_) => Value::Numeric(numeric(reader, descending)?),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Name => {
            Value::Text(reader.text()?.into())
        }
        DataType::Bytea => Value::Bytea(reader.escaped()?.into()),
        DataType::Uuid => Value::Uuid(reader.array()?),
        DataType::Interval => read_interval(reader)?,
        DataType::Array(element) => read_array(reader, element, descending)?,
        DataType::Json | DataType::Jsonb | DataType::Unknown => {
            return Err(damaged("a type that has no keys"));
        }
    })
}

/// Reads the span of an interval, as days and microseconds.
fn read_interval(reader: &mut KeyReader<'_>) -> Result<Value> {
    const DAY: i128 = 86_400_000_000;
    let span = (u128::from_be_bytes(reader.array()?) ^ 1 << 127) as i128;
    let months = span / DAY / 30;
    let months = months.clamp(i32::MIN.into(), i32::MAX.into());
    let rest = span - months * 30 * DAY;
    let days = (rest / DAY).clamp(i32::MIN.into(), i32::MAX.into());
    let micros = i64::try_from(rest - days * DAY);
    let micros = micros.map_err(|_| damaged("an interval that is out of range"))?;
    Ok(Value::Interval { months: months as i32, days: days as i32, micros })
}

fn read_array(reader: &mut KeyReader<'_>, element: &DataType, descending: bool) -> Result<Value> {
    let mut values = Vec::new();
    loop {
        match reader.byte()? {
            ARRAY_END => break,
            NULL_LAST => values.push(Value::Null),
            NOT_NULL => values.push(read_value(reader, element, descending)?),
            _ => return Err(damaged("an array")),
        }
    }
    let count = reader.integer()?;
    if !(0..=DIMENSIONS_MAX as i64).contains(&count) {
        return Err(damaged("the dimensions of an array"));
    }
    let mut dimensions = Vec::new();
    let mut length_of_all = 1u64;
    for _ in 0..count {
        let length = u32::try_from(reader.integer()?);
        let lower = i32::try_from(reader.integer()?);
        let (Ok(length), Ok(lower)) = (length, lower) else {
            return Err(damaged("a dimension of an array"));
        };
        length_of_all = length_of_all.saturating_mul(length.into());
        dimensions.push(ArrayDimension { length, lower });
    }
    let expected = if dimensions.is_empty() { 0 } else { length_of_all };
    if expected != values.len() as u64 {
        return Err(damaged("the length of an array"));
    }
    Ok(Value::Array(Arc::new(Array { element: element.clone(), dimensions, values })))
}

/// Returns the smallest bytes above all that begin with `prefix`; nothing if no bytes are above them.
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    let last = end.last_mut()?;
    *last += 1;
    Some(end)
}

#[cfg(test)]
mod tests;
