//! Types of columns, and how wide encodings see their values.

use crate::Error;
use arrow_schema::{DataType, TimeUnit};

/// Type of a column as its pages have it. The byte on disk is frozen: docs/format/column_segment.md.
/// Precision and scale of decimals, and time zones, are the caller's to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// Columns of the Arrow type `DataType::Boolean`.
    Boolean = 1,
    /// Columns of the Arrow type `DataType::Int16`.
    Int16 = 2,
    /// Columns of the Arrow type `DataType::Int32`.
    Int32 = 3,
    /// Columns of the Arrow type `DataType::Int64`.
    Int64 = 4,
    /// Columns of the Arrow type `DataType::Float32`.
    Float32 = 5,
    /// Columns of the Arrow type `DataType::Float64`.
    Float64 = 6,
    /// `DataType::Decimal128` of any precision and scale.
    Decimal128 = 7,
    /// Columns of the Arrow type `DataType::Date32`.
    Date32 = 8,
    /// `DataType::Timestamp` in microseconds, of any time zone.
    Timestamp = 9,
    /// Columns of `DataType::Time64` in microseconds.
    Time64 = 10,
    /// Columns of the Arrow type `DataType::FixedSizeBinary(16)`.
    FixedBinary16 = 11,
    /// `DataType::Utf8` or `Utf8View`; decoded as `Utf8View`.
    Utf8 = 12,
    /// `DataType::Binary` or `BinaryView`; decoded as `BinaryView`.
    Binary = 13,
}

/// Width of values, as encodings see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Bits,
    Two,
    Four,
    Eight,
    Sixteen,
    Text { utf8: bool },
}

impl ColumnType {
    /// All types, in order of their bytes.
    pub const ALL: [Self; 13] = [
        Self::Boolean,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Float32,
        Self::Float64,
        Self::Decimal128,
        Self::Date32,
        Self::Timestamp,
        Self::Time64,
        Self::FixedBinary16,
        Self::Utf8,
        Self::Binary,
    ];

    /// Returns the type of columns of an Arrow type.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a type that segments do not have.
    pub fn of(data_type: &DataType) -> Result<Self, Error> {
        Ok(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal128(..) => Self::Decimal128,
            DataType::Date32 => Self::Date32,
            DataType::Timestamp(TimeUnit::Microsecond, _) => Self::Timestamp,
            DataType::Time64(TimeUnit::Microsecond) => Self::Time64,
            DataType::FixedSizeBinary(16) => Self::FixedBinary16,
            DataType::Utf8 | DataType::Utf8View => Self::Utf8,
            DataType::Binary | DataType::BinaryView => Self::Binary,
            other => {
                return Err(Error::InvalidArgument(format!("segments have no columns of {other}")));
            }
        })
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    pub(crate) fn width(self) -> Width {
        match self {
            Self::Boolean => Width::Bits,
            Self::Int16 => Width::Two,
            Self::Int32 | Self::Float32 | Self::Date32 => Width::Four,
            Self::Int64 | Self::Float64 | Self::Timestamp | Self::Time64 => Width::Eight,
            Self::Decimal128 | Self::FixedBinary16 => Width::Sixteen,
            Self::Utf8 => Width::Text { utf8: true },
            Self::Binary => Width::Text { utf8: false },
        }
    }
}

const _: () = {
    let mut at = 0;
    while at < ColumnType::ALL.len() {
        assert!(ColumnType::ALL[at] as usize == at + 1);
        at += 1;
    }
};
