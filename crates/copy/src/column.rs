//! Columns of a COPY and the Arrow types that hold them.
//!
//! | type | Arrow |
//! |---|---|
//! | bool, int2, int4, int8, oid, float4, float8 | Boolean, Int16, Int32, Int64, UInt32, Float32, Float64 |
//! | numeric(p,s) | Decimal128(p,s) |
//! | text, varchar, char | Utf8 |
//! | bytea, uuid | Binary, FixedSizeBinary(16) |
//! | date, time | Date32, Time64 in microseconds |
//! | timestamp, timestamptz | Timestamp in microseconds, without zone and in UTC |
//! | all others | LargeBinary, of bytes that the caller's [`Forms`](crate::Forms) make and write |
//!
//! 1. Days and moments count from 2000-01-01, as in PostgreSQL's binary form and in the values of row
//!    tables. Arrow's own calendar functions, which count from 1970, must not be given them.
//! 2. The least and the greatest number of a date or a moment stand for the infinities.

use crate::error::{Error, Result, State};
use arrow_schema::{DataType, Field, TimeUnit};

/// The type of a column, with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// Truth values, `boolean` in SQL.
    Bool,
    /// Integers of 16 bits, `smallint` in SQL.
    Int2,
    /// Integers of 32 bits, `integer` in SQL.
    Int4,
    /// Integers of 64 bits, `bigint` in SQL.
    Int8,
    /// Numbers of objects, `oid` in SQL.
    Oid,
    /// Floating point of 32 bits, `real` in SQL.
    Float4,
    /// Floating point of 64 bits, `double precision` in SQL.
    Float8,
    /// `numeric(precision, scale)`: 1 to 38 digits, of which `scale` are behind the point.
    Numeric {
        /// Greatest number of digits, 1..=38.
        precision: u8,
        /// Digits behind the point, at most the precision; below zero they are zeros before it.
        scale: i8,
    },
    /// Text of any length, `text` in SQL.
    Text,
    /// `varchar(n)`: at most so many characters.
    Varchar(u32),
    /// `char(n)`. Values are kept without trailing blanks, and written with them.
    Char(u32),
    /// Bytes of any length, `bytea` in SQL.
    Bytea,
    /// Unique identifiers of 16 bytes, `uuid` in SQL.
    Uuid,
    /// Days of the calendar, `date` in SQL.
    Date,
    /// Times of day, `time` in SQL.
    Time,
    /// Moments without a zone, `timestamp` in SQL.
    Timestamp,
    /// Moments of universal time, `timestamp with time zone` in SQL.
    TimestampTz,
    /// A type that this crate does not know.
    Other,
}

impl ColumnType {
    /// Returns the Arrow type of the column.
    pub fn arrow(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int2 => DataType::Int16,
            Self::Int4 => DataType::Int32,
            Self::Int8 => DataType::Int64,
            Self::Oid => DataType::UInt32,
            Self::Float4 => DataType::Float32,
            Self::Float8 => DataType::Float64,
            Self::Numeric { precision, scale } => DataType::Decimal128(*precision, *scale),
            Self::Text | Self::Varchar(_) | Self::Char(_) => DataType::Utf8,
            Self::Bytea => DataType::Binary,
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Other => DataType::LargeBinary,
        }
    }

    /// Returns the name of the type in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Oid => "oid",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Numeric { .. } => "numeric",
            Self::Text => "text",
            Self::Varchar(_) => "character varying",
            Self::Char(_) => "character",
            Self::Bytea => "bytea",
            Self::Uuid => "uuid",
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::TimestampTz => "timestamp with time zone",
            Self::Other => "other",
        }
    }
}

/// A column of a COPY, in the order of the fields of its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name of the column, in errors and headers.
    pub name: String,
    /// Type of the column's values.
    pub column_type: ColumnType,
    /// FORCE_NULL: a quoted value of CSV may be NULL as well.
    pub force_null: bool,
    /// FORCE_NOT_NULL: no value of CSV without quotes is NULL.
    pub force_not_null: bool,
    /// FORCE_QUOTE: values are written in quotes.
    pub force_quote: bool,
}

impl Column {
    /// Returns a column without FORCE options.
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> Self {
        let name = name.into();
        Self { name, column_type, force_null: false, force_not_null: false, force_quote: false }
    }

    /// Returns the nullable field of the column in a schema.
    pub fn field(&self) -> Field {
        Field::new(&self.name, self.column_type.arrow(), true)
    }

    /// Checks the modifiers of the type. 0A000 if Arrow has no such decimal.
    pub(crate) fn check(&self) -> Result<()> {
        let ColumnType::Numeric { precision, scale } = self.column_type else { return Ok(()) };
        if (1..=38).contains(&precision) && (-38..=precision as i8).contains(&scale) {
            return Ok(());
        }
        let message = format!("numeric({precision},{scale}) has no columns of 128 bits");
        Err(Error::new(State::FEATURE_NOT_SUPPORTED, message))
    }
}
