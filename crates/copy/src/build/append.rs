//! Values into columns: from the front of a record, from a text, from binary data, from the caller.

use super::{ColumnBuilder, Values};
use crate::column::ColumnType;
use crate::error::{Error, Result, State};
use crate::forms::{Forms, Scalar};
use crate::values::{
    DATE_MAX, DATE_MIN, DAY, TIMESTAMP_END, TIMESTAMP_MIN, binary_decimal, fit_char, fit_decimal,
    fit_varchar, leading_date, leading_integer, leading_time, leading_timestamp,
    leading_timestamptz, not_text, parse_bool, parse_bytea, parse_decimal, parse_float4,
    parse_float8, parse_integer, parse_oid, parse_uuid,
};

/// Bytes after the data that let a whole word be read at any place of it.
pub(crate) const PADDING: usize = 32;

impl ColumnBuilder {
    /// Appends the number, date or time at the front of `bytes[at..]` if `ends` says that the field ends
    /// behind it. Returns that place. Appends and returns nothing for every value that needs a closer look.
    #[inline(always)]
    pub(crate) fn push_leading(
        &mut self,
        bytes: &[u8],
        at: usize,
        fixed_offset: Option<i32>,
        ends: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match (&mut self.values, self.column.column_type) {
            (Values::Int2(values), _) => {
                let (value, end) = leading_integer(bytes, at).filter(|(_, end)| ends(*end))?;
                values.push(i16::try_from(value).ok()?);
                Some(end)
            }
            (Values::Int4(values), ColumnType::Int4) => {
                let (value, end) = leading_integer(bytes, at).filter(|(_, end)| ends(*end))?;
                values.push(i32::try_from(value).ok()?);
                Some(end)
            }
            (Values::Int4(values), _) => {
                let (value, end) = leading_date(bytes, at).filter(|(_, end)| ends(*end))?;
                values.push(value);
                Some(end)
            }
            (Values::Int8(values), column_type) => {
                let read = match column_type {
                    ColumnType::Int8 => leading_integer(bytes, at),
                    ColumnType::Timestamp => leading_timestamp(bytes, at),
                    ColumnType::TimestampTz => leading_timestamptz(bytes, at, fixed_offset),
                    _ => leading_time(bytes, at),
                };
                let (value, end) = read.filter(|(_, end)| ends(*end))?;
                values.push(value);
                Some(end)
            }
            _ => None,
        }
    }

    /// Appends the value of a text. Errors have neither line nor column.
    pub(crate) fn push_text(&mut self, text: &str, forms: &dyn Forms) -> Result<()> {
        let column_type = self.column.column_type;
        let name = column_type.name();
        match &mut self.values {
            Values::Text(values) => values.append_value(match column_type {
                ColumnType::Varchar(max) => fit_varchar(text, max)?,
                ColumnType::Char(max) => fit_char(text, max)?,
                _ => text,
            }),
            Values::Int2(values) => values.push(parse_integer(text, name)?),
            Values::Int4(values) if column_type == ColumnType::Int4 => {
                values.push(parse_integer(text, name)?);
            }
            Values::Int8(values) if column_type == ColumnType::Int8 => {
                values.push(parse_integer(text, name)?);
            }
            Values::Oid(values) => values.push(parse_oid(text)?),
            Values::Bool(values) => values.push(parse_bool(text)?),
            Values::Float4(values) => values.push(parse_float4(text)?),
            Values::Float8(values) => values.push(parse_float8(text)?),
            Values::Uuid(values) => values.extend_from_slice(&parse_uuid(text)?),
            Values::Bytes(values) => {
                self.scratch.clear();
                parse_bytea(text, &mut self.scratch)?;
                values.append_value(&self.scratch);
            }
            Values::Numeric(values) => {
                if let ColumnType::Numeric { precision, scale } = column_type
                    && let Some(number) = parse_decimal(text, precision, scale)?
                {
                    values.push(number);
                    return Ok(());
                }
                return self.push_scalar(forms.read_text(&self.column, text)?);
            }
            Values::Int4(_) | Values::Int8(_) => return self.push_moment(text, forms),
            Values::Other(_) => return self.push_scalar(forms.read_text(&self.column, text)?),
        }
        Ok(())
    }

    /// Appends a date or a time: of ISO form, as from CSV in quotes, or of any other.
    fn push_moment(&mut self, text: &str, forms: &dyn Forms) -> Result<()> {
        const LONGEST_ISO: usize = 32;
        if text.len() <= LONGEST_ISO {
            let mut bytes = [0; LONGEST_ISO + PADDING];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            let ends = |end| end == text.len();
            if self.push_leading(&bytes, 0, forms.fixed_offset(), ends).is_some() {
                return Ok(());
            }
        }
        self.push_scalar(forms.read_text(&self.column, text)?)
    }

    /// Appends what the caller read. XX000 if it is no value of the column.
    fn push_scalar(&mut self, scalar: Scalar) -> Result<()> {
        let column_type = self.column.column_type;
        let wrong = || {
            let message = format!("a value that is no {} was read for one", column_type.name());
            Error::new(State::INTERNAL_ERROR, message)
        };
        match (&mut self.values, scalar) {
            (Values::Int4(values), Scalar::Int(value)) => {
                values.push(i32::try_from(value).map_err(|_| wrong())?);
            }
            (Values::Int8(values), Scalar::Int(value)) => values.push(value),
            (Values::Int2(values), Scalar::Int(value)) => {
                values.push(i16::try_from(value).map_err(|_| wrong())?);
            }
            (Values::Oid(values), Scalar::Int(value)) => {
                values.push(u32::try_from(value).map_err(|_| wrong())?);
            }
            (Values::Bool(values), Scalar::Bool(value)) => values.push(value),
            (Values::Float4(values), Scalar::Float(value)) => values.push(value as f32),
            (Values::Float8(values), Scalar::Float(value)) => values.push(value),
            (Values::Numeric(values), Scalar::Decimal(value)) => {
                let ColumnType::Numeric { precision, scale } = column_type else {
                    return Err(wrong());
                };
                values.push(fit_decimal(value, precision, scale)?);
            }
            (Values::Other(values), Scalar::Bytes(value)) => values.append_value(value),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Appends a value in network byte order. 22P03 and 08P01 for a wrong length, 22003, 22008 and
    /// 22021 for values that the type does not have.
    pub(crate) fn push_binary(&mut self, bytes: &[u8], forms: &dyn Forms) -> Result<()> {
        let column_type = self.column.column_type;
        match &mut self.values {
            Values::Bool(values) => values.push(sized::<1>(bytes)?[0] != 0),
            Values::Int2(values) => values.push(i16::from_be_bytes(sized(bytes)?)),
            Values::Int4(values) => {
                let value = i32::from_be_bytes(sized(bytes)?);
                let is_infinite = matches!(value, i32::MIN | i32::MAX);
                let is_date = is_infinite || (DATE_MIN..=DATE_MAX).contains(&value);
                if column_type == ColumnType::Date && !is_date {
                    return Err(beyond("date"));
                }
                values.push(value);
            }
            Values::Int8(values) => {
                let value = i64::from_be_bytes(sized(bytes)?);
                check_moment(value, column_type)?;
                values.push(value);
            }
            Values::Oid(values) => values.push(u32::from_be_bytes(sized(bytes)?)),
            Values::Float4(values) => values.push(f32::from_be_bytes(sized(bytes)?)),
            Values::Float8(values) => values.push(f64::from_be_bytes(sized(bytes)?)),
            Values::Uuid(values) => values.extend_from_slice(&sized::<16>(bytes)?),
            Values::Bytes(values) => values.append_value(bytes),
            Values::Text(_) => return self.push_text(text_of(bytes)?, forms),
            Values::Numeric(values) => {
                if let ColumnType::Numeric { precision, scale } = column_type {
                    values.push(binary_decimal(bytes, precision, scale)?);
                }
            }
            Values::Other(_) => return self.push_scalar(forms.read_binary(&self.column, bytes)?),
        }
        Ok(())
    }
}

/// Returns bytes as text, or 22021. A zero byte is no text either.
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str> {
    if let Some(at) = memchr::memchr(0, bytes) {
        return Err(not_text(bytes, at));
    }
    simdutf8::compat::from_utf8(bytes).map_err(|place| not_text(bytes, place.valid_up_to()))
}

fn check_moment(value: i64, column_type: ColumnType) -> Result<()> {
    let is_infinite = matches!(value, i64::MIN | i64::MAX);
    match column_type {
        ColumnType::Time if !(0..=DAY).contains(&value) => Err(beyond("time")),
        ColumnType::Timestamp | ColumnType::TimestampTz
            if !is_infinite && !(TIMESTAMP_MIN..TIMESTAMP_END).contains(&value) =>
        {
            Err(beyond("timestamp"))
        }
        _ => Ok(()),
    }
}

fn beyond(name: &str) -> Error {
    Error::new(State::DATETIME_FIELD_OVERFLOW, format!("{name} out of range"))
}

/// Returns bytes of a fixed number. 08P01 for less, 22P03 for more.
fn sized<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| match bytes.len() < N {
        true => Error::new(State::PROTOCOL_VIOLATION, "insufficient data left in message"),
        false => Error::new(State::INVALID_BINARY_REPRESENTATION, "incorrect binary data format"),
    })
}
