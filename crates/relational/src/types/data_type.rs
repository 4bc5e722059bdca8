//! Types of columns.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number by which a table, an index or another object of the catalog is known.
pub type Oid = u32;

/// The type of a column or of an expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DataType {
    /// Truth values, `boolean` in SQL.
    Bool,
    /// Integers of 16 bits, `smallint` in SQL.
    Int2,
    /// Integers of 32 bits, `integer` in SQL.
    Int4,
    /// Integers of 64 bits, `bigint` in SQL.
    Int8,
    /// Floating point of 32 bits, `real` in SQL.
    Float4,
    /// Floating point of 64 bits, `double precision` in SQL.
    Float8,
    /// Decimal numbers, of a precision and a scale if they are given.
    Numeric(Option<(u16, i16)>),
    /// Text that has any length.
    Text,
    /// Text of at most so many characters.
    Varchar(Option<u32>),
    /// `char(n)`. Values are kept without trailing blanks; a front pads them to `n` characters.
    Char(u32),
    /// Identifiers of the catalog, at most 63 bytes.
    Name,
    /// Bytes that have any length.
    Bytea,
    /// Universally unique identifiers of 16 bytes.
    Uuid,
    /// Days of the calendar without a time.
    Date,
    /// Times of day without a zone.
    Time,
    /// Moments without a time zone.
    Timestamp,
    /// Moments on the UTC time line.
    TimestampTz,
    /// Spans of months, days and microseconds.
    Interval,
    /// JSON, kept as it was written.
    Json,
    /// JSON in a canonical form.
    Jsonb,
    /// Numbers of objects in the catalog.
    Oid,
    /// Arrays of any number of dimensions.
    Array(Box<DataType>),
    /// A literal or a parameter whose type was not decided.
    Unknown,
}

impl DataType {
    /// Returns the type of the elements of an array, and nothing for other types.
    pub fn element(&self) -> Option<&DataType> {
        match self {
            Self::Array(element) => Some(element),
            _ => None,
        }
    }

    /// Returns true if values of the type are [`Value::Text`](crate::Value::Text).
    pub fn is_textual(&self) -> bool {
        matches!(
            self,
            Self::Text | Self::Varchar(_) | Self::Char(_) | Self::Name | Self::Json | Self::Unknown
        )
    }

    /// Returns true for integers, floating point and decimal numbers.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Int2 | Self::Int4 | Self::Int8 | Self::Float4 | Self::Float8 | Self::Numeric(_)
        )
    }
}

/// The name of the type as PostgreSQL prints it, with its modifiers.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Numeric(None) => "numeric",
            Self::Numeric(Some((precision, scale))) => {
                return write!(f, "numeric({precision},{scale})");
            }
            Self::Text => "text",
            Self::Varchar(None) => "character varying",
            Self::Varchar(Some(max)) => return write!(f, "character varying({max})"),
            Self::Char(length) => return write!(f, "character({length})"),
            Self::Name => "name",
            Self::Bytea => "bytea",
            Self::Uuid => "uuid",
            Self::Date => "date",
            Self::Time => "time without time zone",
            Self::Timestamp => "timestamp without time zone",
            Self::TimestampTz => "timestamp with time zone",
            Self::Interval => "interval",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Oid => "oid",
            Self::Array(element) => return write!(f, "{element}[]"),
            Self::Unknown => "unknown",
        };
        f.write_str(name)
    }
}
