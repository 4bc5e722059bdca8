//! Values of columns, their order and their hashes.

use super::{Array, DataType, Numeric, Oid};
use bytes::Bytes;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The value of a column. Cheap to clone.
///
/// The order is PostgreSQL's for values of one kind: NaN above all numbers, text by its bytes (the C
/// collation), intervals with months of 30 days and days of 24 hours. NULL equals NULL and is above
/// everything. Values of different kinds have an order too, which means nothing.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// No value at all, whatever the type.
    #[default]
    Null,
    /// A truth value; false is below true.
    Bool(bool),
    /// An integer of 16 bits.
    Int2(i16),
    /// An integer of 32 bits.
    Int4(i32),
    /// An integer of 64 bits.
    Int8(i64),
    /// A floating-point number of 32 bits.
    Float4(f32),
    /// A floating-point number of 64 bits.
    Float8(f64),
    /// A decimal number of any size.
    Numeric(Numeric),
    /// Text of the types text, varchar, char, name and json.
    Text(Arc<str>),
    /// Bytes of the type bytea.
    Bytea(Bytes),
    /// A universally unique identifier (UUID).
    Uuid([u8; 16]),
    /// Days since 2000-01-01. The smallest and the largest number are the two infinities.
    Date(i32),
    /// Microseconds since midnight, up to 24 hours.
    Time(i64),
    /// Microseconds since 2000-01-01 00:00. The smallest and the largest number are the infinities.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00 UTC. The smallest and the largest number are the infinities.
    TimestampTz(i64),
    /// A span of time in three parts.
    Interval {
        /// Whole months, which have no fixed length.
        months: i32,
        /// Whole days, which may have 23 or 25 hours.
        days: i32,
        /// Microseconds beside months and days.
        micros: i64,
    },
    /// Canonical text of a jsonb, as PostgreSQL prints it.
    Jsonb(Arc<str>),
    /// The number of an object in the catalog.
    Oid(Oid),
    /// An array of values of one type.
    Array(Arc<Array>),
}

impl Value {
    /// Returns the text value of `text`.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// Returns true if the value is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the type that the value has at least: text may be of any type that has text as its values.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Null => DataType::Unknown,
            Self::Bool(_) => DataType::Bool,
            Self::Int2(_) => DataType::Int2,
            Self::Int4(_) => DataType::Int4,
            Self::Int8(_) => DataType::Int8,
            Self::Float4(_) => DataType::Float4,
            Self::Float8(_) => DataType::Float8,
            Self::Numeric(_) => DataType::Numeric(None),
            Self::Text(_) => DataType::Text,
            Self::Bytea(_) => DataType::Bytea,
            Self::Uuid(_) => DataType::Uuid,
            Self::Date(_) => DataType::Date,
            Self::Time(_) => DataType::Time,
            Self::Timestamp(_) => DataType::Timestamp,
            Self::TimestampTz(_) => DataType::TimestampTz,
            Self::Interval { .. } => DataType::Interval,
            Self::Jsonb(_) => DataType::Jsonb,
            Self::Oid(_) => DataType::Oid,
            Self::Array(array) => DataType::Array(Box::new(array.element.clone())),
        }
    }

    /// Returns the bytes that the value takes in memory, about.
    pub fn memory_bytes(&self) -> usize {
        let beside = match self {
            Self::Text(text) | Self::Jsonb(text) => text.len() + 16,
            Self::Bytea(bytes) => bytes.len() + 16,
            Self::Numeric(number) => number.memory_bytes(),
            Self::Array(array) => {
                let values: usize = array.values.iter().map(Value::memory_bytes).sum();
                values + 16 * array.dimensions.len() + 64
            }
            _ => 0,
        };
        size_of::<Value>() + beside
    }

    /// Returns the place of the kind among all kinds; NULL has the last.
    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int2(_) => 1,
            Self::Int4(_) => 2,
            Self::Int8(_) => 3,
            Self::Float4(_) => 4,
            Self::Float8(_) => 5,
            Self::Numeric(_) => 6,
            Self::Text(_) => 7,
            Self::Bytea(_) => 8,
            Self::Uuid(_) => 9,
            Self::Date(_) => 10,
            Self::Time(_) => 11,
            Self::Timestamp(_) => 12,
            Self::TimestampTz(_) => 13,
            Self::Interval { .. } => 14,
            Self::Jsonb(_) => 15,
            Self::Oid(_) => 16,
            Self::Array(_) => 17,
            Self::Null => 18,
        }
    }
}

/// Returns the microseconds of an interval with months of 30 days and days of 24 hours.
pub(crate) fn interval_span(months: i32, days: i32, micros: i64) -> i128 {
    const DAY: i128 = 86_400_000_000;
    (i128::from(months) * 30 + i128::from(days)) * DAY + i128::from(micros)
}

/// Compares as PostgreSQL does: NaN equals NaN and is above all, and zero has no sign.
fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Returns one bit pattern for all numbers that compare equal.
fn float_bits(number: f64) -> u64 {
    match number {
        number if number.is_nan() => f64::NAN.to_bits(),
        0.0 => 0,
        number => number.to_bits(),
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Int2(left), Self::Int2(right)) => left.cmp(right),
            (Self::Int4(left), Self::Int4(right)) => left.cmp(right),
            (Self::Int8(left), Self::Int8(right)) => left.cmp(right),
            (Self::Float4(left), Self::Float4(right)) => {
                compare_floats((*left).into(), (*right).into())
            }
            (Self::Float8(left), Self::Float8(right)) => compare_floats(*left, *right),
            (Self::Numeric(left), Self::Numeric(right)) => left.cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Bytea(left), Self::Bytea(right)) => left.cmp(right),
            (Self::Uuid(left), Self::Uuid(right)) => left.cmp(right),
            (Self::Date(left), Self::Date(right)) => left.cmp(right),
            (Self::Time(left), Self::Time(right)) => left.cmp(right),
            (Self::Timestamp(left), Self::Timestamp(right)) => left.cmp(right),
            (Self::TimestampTz(left), Self::TimestampTz(right)) => left.cmp(right),
            (
                Self::Interval { months, days, micros },
                Self::Interval { months: months2, days: days2, micros: micros2 },
            ) => interval_span(*months, *days, *micros)
                .cmp(&interval_span(*months2, *days2, *micros2)),
            (Self::Jsonb(left), Self::Jsonb(right)) => left.cmp(right),
            (Self::Oid(left), Self::Oid(right)) => left.cmp(right),
            (Self::Array(left), Self::Array(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Self::Null => {}
            Self::Bool(value) => value.hash(state),
            Self::Int2(value) => value.hash(state),
            Self::Int4(value) | Self::Date(value) => value.hash(state),
            Self::Int8(value)
            | Self::Time(value)
            | Self::Timestamp(value)
            | Self::TimestampTz(value) => value.hash(state),
            Self::Float4(value) => float_bits((*value).into()).hash(state),
            Self::Float8(value) => float_bits(*value).hash(state),
            Self::Numeric(value) => value.hash(state),
            Self::Text(value) | Self::Jsonb(value) => value.hash(state),
            Self::Bytea(value) => value.hash(state),
            Self::Uuid(value) => value.hash(state),
            Self::Interval { months, days, micros } => {
                interval_span(*months, *days, *micros).hash(state);
            }
            Self::Oid(value) => value.hash(state),
            Self::Array(value) => value.hash(state),
        }
    }
}
