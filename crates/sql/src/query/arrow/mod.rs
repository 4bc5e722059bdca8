//! Values as Arrow arrays and back.
//!
//! | type | Arrow |
//! |---|---|
//! | bool, int2, int4, int8, float4, float8 | Boolean, Int16, Int32, Int64, Float32, Float64 |
//! | numeric, interval | LargeBinary, FixedSizeBinary(32), in the forms of `sorted.rs` |
//! | text, varchar, char, name, json | Utf8; jsonb is LargeUtf8 |
//! | bytea, uuid, oid | Binary, FixedSizeBinary(16), UInt32 |
//! | date, time, timestamp, timestamptz | Date32, Time64, Timestamp without and with zone |
//! | arrays of one dimension | List |
//!
//! 1. Moments count from 2000-01-01, as [`Value`] does, not from 1970: Arrow only orders them.
//! 2. The Arrow type alone tells the kind; the metadata key `pg` adds length, precision and the
//!    text-like type.

mod read;
mod sorted;
mod stored;
mod write;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef, TimeUnit};
use relational::DataType;

use crate::values::{parse_type, type_name};

pub(crate) use read::{read_column, scalar_value};
pub(crate) use sorted::{
    KEY_TAIL, decode_interval, decode_numeric, encode_interval, encode_json, encode_numeric,
};
pub(crate) use stored::{from_stored, page_type, stored_type, to_stored};
pub(crate) use write::{array_of, scalar_of};

/// Key of the metadata that holds the type's name.
pub(crate) const TYPE_KEY: &str = "pg";
/// Bytes of an interval: a sorted key, then its parts.
pub(crate) const INTERVAL_BYTES: i32 = 32;

/// Returns the Arrow type that holds values of a type.
pub(crate) fn arrow_type(data_type: &DataType) -> ArrowType {
    match data_type {
        DataType::Bool => ArrowType::Boolean,
        DataType::Int2 => ArrowType::Int16,
        DataType::Int4 => ArrowType::Int32,
        DataType::Int8 => ArrowType::Int64,
        DataType::Float4 => ArrowType::Float32,
        DataType::Float8 => ArrowType::Float64,
        DataType::Numeric(_) => ArrowType::LargeBinary,
        DataType::Text
        | DataType::Varchar(_)
        | DataType::Char(_)
        | DataType::Name
        | DataType::Json
        | DataType::Unknown => ArrowType::Utf8,
        DataType::Jsonb => ArrowType::LargeUtf8,
        DataType::Bytea => ArrowType::Binary,
        DataType::Uuid => ArrowType::FixedSizeBinary(16),
        DataType::Date => ArrowType::Date32,
        DataType::Time => ArrowType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        DataType::TimestampTz => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Interval => ArrowType::FixedSizeBinary(INTERVAL_BYTES),
        DataType::Oid => ArrowType::UInt32,
        DataType::Array(element) => ArrowType::List(element_field(element)),
    }
}

/// Returns the field of the elements of a list.
pub(crate) fn element_field(element: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(arrow_type(element), true))
}

/// Returns a nullable field that carries its type.
pub(crate) fn field_of(name: &str, data_type: &DataType) -> Field {
    Field::new(name, arrow_type(data_type), true).with_metadata(metadata_of(data_type))
}

/// Returns the metadata that tells a type.
pub(crate) fn metadata_of(data_type: &DataType) -> HashMap<String, String> {
    HashMap::from([(TYPE_KEY.to_owned(), type_name(data_type))])
}

/// Returns the type of a field, by its metadata if they agree with its Arrow type.
pub(crate) fn type_of_field(field: &Field) -> DataType {
    let told = field.metadata().get(TYPE_KEY).and_then(|name| parse_type(name));
    match told {
        Some(told) if arrow_type(&told) == *field.data_type() => told,
        _ => type_of_arrow(field.data_type()),
    }
}

/// Returns the kind that an Arrow type holds.
pub(crate) fn type_of_arrow(arrow: &ArrowType) -> DataType {
    match arrow {
        ArrowType::Boolean => DataType::Bool,
        ArrowType::Int8 | ArrowType::Int16 => DataType::Int2,
        ArrowType::Int32 | ArrowType::UInt16 | ArrowType::UInt8 => DataType::Int4,
        ArrowType::Int64 | ArrowType::UInt64 => DataType::Int8,
        ArrowType::UInt32 => DataType::Oid,
        ArrowType::Float32 => DataType::Float4,
        ArrowType::Float64 => DataType::Float8,
        ArrowType::LargeBinary => DataType::Numeric(None),
        ArrowType::LargeUtf8 => DataType::Jsonb,
        ArrowType::Utf8 | ArrowType::Utf8View => DataType::Text,
        ArrowType::Binary | ArrowType::BinaryView => DataType::Bytea,
        ArrowType::FixedSizeBinary(16) => DataType::Uuid,
        ArrowType::FixedSizeBinary(_) => DataType::Interval,
        ArrowType::Date32 => DataType::Date,
        ArrowType::Time64(_) => DataType::Time,
        ArrowType::Timestamp(_, None) => DataType::Timestamp,
        ArrowType::Timestamp(_, Some(_)) => DataType::TimestampTz,
        ArrowType::List(field) => DataType::Array(Box::new(type_of_field(field))),
        ArrowType::Dictionary(_, values) => type_of_arrow(values),
        _ => DataType::Unknown,
    }
}
