//! Types and values of queries, and their forms in messages.
//!
//! A value does not tell its type: the analysis of a query has made sure of it. Maps and structs are
//! arrays, as in messages: a map is an array of pairs, in order of their keys.

use crate::api::data::r#type::{self as wire, Kind as WireType};
use crate::api::data::value::Kind;
use crate::api::data::{self, ArrayValue};
use bytes::Bytes;
use googleapis_tonic_google_bigtable_v2::google::r#type::Date as WireDate;
use std::cmp::Ordering;
use std::fmt;

/// Arrays in arrays that a parameter may have.
const DEPTH_MAX: usize = 4;

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SqlType {
    Bool,
    Int64,
    Float32,
    Float64,
    String,
    Bytes,
    Timestamp,
    Date,
    Array(Box<SqlType>),
    Map(Box<SqlType>, Box<SqlType>),
    Struct(Vec<(String, SqlType)>),
}

/// A value of any type, or NULL.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Value {
    #[default]
    Null,
    Bool(bool),
    Int64(i64),
    /// A value of either float type.
    Float(f64),
    String(String),
    Bytes(Bytes),
    /// Seconds since the Unix epoch, and nanoseconds after them.
    Timestamp(i64, i32),
    /// The year, the month and the day.
    Date(i32, i32, i32),
    /// The elements of an array, the pairs of a map or the fields of a struct.
    Array(Vec<Value>),
}

impl SqlType {
    /// Returns the type of a parameter; `Err` names a type that parameters cannot have.
    pub(crate) fn of_parameter(wire: &data::Type) -> Result<Self, String> {
        Self::nested(wire, DEPTH_MAX)
    }

    fn nested(wire: &data::Type, depth: usize) -> Result<Self, String> {
        let refused = |what: &str| Err(format!("parameters cannot have {what}"));
        Ok(match &wire.kind {
            Some(WireType::BoolType(_)) => Self::Bool,
            Some(WireType::Int64Type(_)) => Self::Int64,
            Some(WireType::Float32Type(_)) => Self::Float32,
            Some(WireType::Float64Type(_)) => Self::Float64,
            Some(WireType::StringType(_)) => Self::String,
            Some(WireType::BytesType(_)) => Self::Bytes,
            Some(WireType::TimestampType(_)) => Self::Timestamp,
            Some(WireType::DateType(_)) => Self::Date,
            Some(WireType::ArrayType(array)) if depth > 0 => match &array.element_type {
                Some(element) => Self::Array(Box::new(Self::nested(element, depth - 1)?)),
                None => return refused("an array without an element type"),
            },
            Some(WireType::ArrayType(_)) => return refused("arrays nested so deep"),
            Some(WireType::MapType(_)) => return refused("the type MAP"),
            Some(WireType::StructType(_)) => return refused("the type STRUCT"),
            Some(WireType::AggregateType(_)) => return refused("an aggregate type"),
            Some(WireType::ProtoType(_)) => return refused("the type PROTO"),
            Some(WireType::EnumType(_)) => return refused("the type ENUM"),
            None => return refused("no type"),
        })
    }

    /// Returns the type as messages have it.
    pub(crate) fn to_wire(&self) -> data::Type {
        let kind = match self {
            Self::Bool => WireType::BoolType(wire::Bool {}),
            Self::Int64 => WireType::Int64Type(wire::Int64::default()),
            Self::Float32 => WireType::Float32Type(wire::Float32 {}),
            Self::Float64 => WireType::Float64Type(wire::Float64 {}),
            Self::String => WireType::StringType(wire::String::default()),
            Self::Bytes => WireType::BytesType(wire::Bytes::default()),
            Self::Timestamp => WireType::TimestampType(wire::Timestamp::default()),
            Self::Date => WireType::DateType(wire::Date {}),
            Self::Array(element) => WireType::ArrayType(Box::new(wire::Array {
                element_type: Some(Box::new(element.to_wire())),
            })),
            Self::Map(key, value) => WireType::MapType(Box::new(wire::Map {
                key_type: Some(Box::new(key.to_wire())),
                value_type: Some(Box::new(value.to_wire())),
            })),
            Self::Struct(fields) => {
                let field = |(name, of): &(String, Self)| wire::r#struct::Field {
                    field_name: name.clone(),
                    r#type: Some(of.to_wire()),
                };
                let fields = fields.iter().map(field).collect();
                WireType::StructType(wire::Struct { fields, ..Default::default() })
            }
        };
        data::Type { kind: Some(kind) }
    }

    /// Returns whether values of the type have an order and can be equal.
    pub(crate) fn is_ordered(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Map(..) | Self::Struct(_))
    }

    /// Returns the value of this type that a message holds; `None` if it holds none of this type.
    pub(crate) fn value(&self, wire: data::Value) -> Option<Value> {
        Some(match (self, wire.kind) {
            (_, None) => Value::Null,
            (Self::Bool, Some(Kind::BoolValue(value))) => Value::Bool(value),
            (Self::Int64, Some(Kind::IntValue(value))) => Value::Int64(value),
            (Self::Float32, Some(Kind::FloatValue(value))) => Value::Float(float32(value)?),
            (Self::Float64, Some(Kind::FloatValue(value))) => Value::Float(value),
            (Self::String, Some(Kind::StringValue(text))) => Value::String(text),
            (Self::Bytes, Some(Kind::BytesValue(bytes))) => Value::Bytes(bytes),
            (Self::Timestamp, Some(Kind::TimestampValue(time))) => {
                Value::Timestamp(time.seconds, time.nanos)
            }
            (Self::Date, Some(Kind::DateValue(date))) => {
                Value::Date(date.year, date.month, date.day)
            }
            (Self::Array(element), Some(Kind::ArrayValue(array))) => {
                let elements = array.values.into_iter().map(|value| element.value(value));
                Value::Array(elements.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

/// Returns the FLOAT32 nearest to a number; `None` for a number out of its range.
pub(super) fn float32(value: f64) -> Option<f64> {
    let narrow = value as f32;
    (narrow.is_finite() || !value.is_finite()).then(|| narrow.into())
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "BOOL",
            Self::Int64 => "INT64",
            Self::Float32 => "FLOAT32",
            Self::Float64 => "FLOAT64",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Timestamp => "TIMESTAMP",
            Self::Date => "DATE",
            Self::Array(element) => return write!(f, "ARRAY<{element}>"),
            Self::Map(key, value) => return write!(f, "MAP<{key}, {value}>"),
            Self::Struct(_) => "STRUCT",
        })
    }
}

impl Value {
    /// Returns the value as messages have it, without its type.
    pub(crate) fn to_wire(&self) -> data::Value {
        let kind = match self {
            Self::Null => None,
            Self::Bool(value) => Some(Kind::BoolValue(*value)),
            Self::Int64(value) => Some(Kind::IntValue(*value)),
            Self::Float(value) => Some(Kind::FloatValue(*value)),
            Self::String(text) => Some(Kind::StringValue(text.clone())),
            Self::Bytes(bytes) => Some(Kind::BytesValue(bytes.clone())),
            Self::Timestamp(seconds, nanos) => {
                let time = prost_types::Timestamp { seconds: *seconds, nanos: *nanos };
                Some(Kind::TimestampValue(time))
            }
            Self::Date(year, month, day) => {
                Some(Kind::DateValue(WireDate { year: *year, month: *month, day: *day }))
            }
            Self::Array(values) => {
                let values = values.iter().map(Self::to_wire).collect();
                Some(Kind::ArrayValue(ArrayValue { values }))
            }
        };
        data::Value { kind, ..Default::default() }
    }

    /// Returns the order of two values of one type. NULL has no order, nor has NaN.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int64(a), Self::Int64(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a, b), Self::Timestamp(c, d)) => Some((a, b).cmp(&(c, d))),
            (Self::Date(a, b, c), Self::Date(d, e, f)) => Some((a, b, c).cmp(&(d, e, f))),
            _ => None,
        }
    }
}
