//! Types of families and of row keys, both ways between messages and the table layer.
//!
//! A type comes back as it was given, with the default encoding where the message had none.

use crate::api::admin;
use crate::api::admin::r#type::aggregate::{Aggregator, Max, Min, Sum};
use crate::api::admin::r#type::{self, Kind, bytes, int64, string, r#struct, timestamp};
use crate::call::status;
use table::{
    Aggregate, Error, Int64Encoding, RowKeySchema, ScalarType, StructEncoding, UniqueInput,
    ValueType,
};
use tonic::Status;

/// Returns the type of a family's values.
pub(crate) fn value_type(wire: Option<admin::Type>) -> Result<ValueType, Status> {
    let Some(kind) = wire.and_then(|wire| wire.kind) else { return Ok(ValueType::Raw) };
    match kind {
        Kind::AggregateType(aggregate) => aggregate_type(*aggregate).map(ValueType::Aggregate),
        Kind::StructType(_) | Kind::ArrayType(_) | Kind::MapType(_) => {
            Err(status::unsupported("families of a struct, array or map type are"))
        }
        kind => scalar("value_type", kind, true).map(ValueType::Scalar),
    }
}

fn invalid(field: impl Into<String>, rule: impl Into<String>) -> Status {
    status::from_error(Error::invalid(field, rule))
}

/// The scalar type in `field`. A type without an encoding has the default one, if `defaults` allows it.
fn scalar(field: &str, kind: Kind, defaults: bool) -> Result<ScalarType, Status> {
    let without = |what: &str| Err(invalid(field, format!("{what} without an encoding")));
    match kind {
        Kind::BytesType(r#type::Bytes { encoding: None }) if !defaults => without("bytes_type"),
        Kind::BytesType(_) => Ok(ScalarType::Bytes),
        Kind::StringType(r#type::String { encoding: None }) if !defaults => without("string_type"),
        Kind::StringType(_) => Ok(ScalarType::String),
        Kind::Int64Type(r#type::Int64 { encoding }) => match int64_encoding(encoding) {
            None if !defaults => without("int64_type"),
            encoding => Ok(ScalarType::Int64(encoding.unwrap_or(Int64Encoding::BigEndianBytes))),
        },
        Kind::TimestampType(r#type::Timestamp { encoding }) => {
            let encoding = encoding.and_then(|encoding| encoding.encoding);
            let int64 = encoding.map(|timestamp::encoding::Encoding::UnixMicrosInt64(int64)| {
                int64_encoding(Some(int64))
            });
            match int64.flatten() {
                None => without("timestamp_type"),
                Some(encoding) => Ok(ScalarType::Timestamp(encoding)),
            }
        }
        Kind::ProtoType(_) | Kind::EnumType(_) => {
            Err(status::unsupported("types of schema bundles (proto_type, enum_type) are"))
        }
        Kind::Float32Type(_) | Kind::Float64Type(_) | Kind::BoolType(_) | Kind::DateType(_) => {
            Err(invalid(field, "float, bool and date types have no encoding as bytes"))
        }
        Kind::AggregateType(_) | Kind::StructType(_) | Kind::ArrayType(_) | Kind::MapType(_) => {
            Err(invalid(field, "must be a scalar type"))
        }
    }
}

fn int64_encoding(wire: Option<int64::Encoding>) -> Option<Int64Encoding> {
    wire.and_then(|wire| wire.encoding).map(|encoding| match encoding {
        int64::encoding::Encoding::BigEndianBytes(_) => Int64Encoding::BigEndianBytes,
        int64::encoding::Encoding::OrderedCodeBytes(_) => Int64Encoding::OrderedCodeBytes,
    })
}

fn aggregate_type(wire: r#type::Aggregate) -> Result<Aggregate, Status> {
    let input = wire.input_type.and_then(|input| input.kind);
    if let Some(Kind::Int64Type(int64)) = &input
        && int64_encoding(int64.encoding) == Some(Int64Encoding::OrderedCodeBytes)
    {
        return Err(status::unsupported("an int64 encoding other than big_endian_bytes is"));
    }
    let is_int64 = matches!(&input, None | Some(Kind::Int64Type(_)));
    match wire.aggregator {
        Some(Aggregator::HllppUniqueCount(_)) => unique_input(input).map(Aggregate::Unique),
        None => Err(invalid("value_type.aggregate_type.aggregator", "is not set")),
        Some(_) if !is_int64 => {
            Err(invalid("value_type.aggregate_type.input_type", "must be an int64_type"))
        }
        Some(Aggregator::Sum(_)) => Ok(Aggregate::SumInt64),
        Some(Aggregator::Min(_)) => Ok(Aggregate::MinInt64),
        Some(Aggregator::Max(_)) => Ok(Aggregate::MaxInt64),
    }
}

/// The values that hllpp_unique_count counts.
fn unique_input(wire: Option<Kind>) -> Result<UniqueInput, Status> {
    let Some(kind) = wire else { return Ok(UniqueInput::Raw) };
    match scalar("value_type.aggregate_type.input_type", kind, true)? {
        ScalarType::Bytes => Ok(UniqueInput::Bytes),
        ScalarType::String => Ok(UniqueInput::String),
        ScalarType::Int64(_) => Ok(UniqueInput::Int64),
        ScalarType::Timestamp(_) => {
            Err(status::unsupported("hllpp_unique_count of an input_type timestamp is"))
        }
    }
}

/// Raw families have no value type in messages, as those created without one.
pub(crate) fn value_type_message(value_type: ValueType) -> Option<admin::Type> {
    let aggregate = match value_type {
        ValueType::Raw => return None,
        ValueType::Scalar(scalar) => return Some(scalar_message(scalar)),
        ValueType::Aggregate(aggregate) => aggregate,
    };
    let int64 = ScalarType::Int64(Int64Encoding::BigEndianBytes);
    let (aggregator, input, state) = match aggregate {
        Aggregate::SumInt64 => (Aggregator::Sum(Sum {}), Some(int64), int64),
        Aggregate::MinInt64 => (Aggregator::Min(Min {}), Some(int64), int64),
        Aggregate::MaxInt64 => (Aggregator::Max(Max {}), Some(int64), int64),
        Aggregate::Unique(input) => {
            let input = match input {
                UniqueInput::Raw => None,
                UniqueInput::Bytes => Some(ScalarType::Bytes),
                UniqueInput::String => Some(ScalarType::String),
                UniqueInput::Int64 => Some(int64),
            };
            (Aggregator::HllppUniqueCount(Default::default()), input, ScalarType::Bytes)
        }
    };
    let aggregate = r#type::Aggregate {
        input_type: input.map(|input| Box::new(scalar_message(input))),
        state_type: Some(Box::new(scalar_message(state))),
        aggregator: Some(aggregator),
    };
    Some(admin::Type { kind: Some(Kind::AggregateType(Box::new(aggregate))) })
}

fn scalar_message(scalar: ScalarType) -> admin::Type {
    let int64 = |encoding| int64::Encoding {
        encoding: Some(match encoding {
            Int64Encoding::BigEndianBytes => {
                int64::encoding::Encoding::BigEndianBytes(Default::default())
            }
            Int64Encoding::OrderedCodeBytes => {
                int64::encoding::Encoding::OrderedCodeBytes(Default::default())
            }
        }),
    };
    let kind = match scalar {
        ScalarType::Bytes => {
            let raw = bytes::encoding::Encoding::Raw(Default::default());
            let encoding = Some(bytes::Encoding { encoding: Some(raw) });
            Kind::BytesType(r#type::Bytes { encoding })
        }
        ScalarType::String => {
            let utf8 = string::encoding::Encoding::Utf8Bytes(Default::default());
            let encoding = Some(string::Encoding { encoding: Some(utf8) });
            Kind::StringType(r#type::String { encoding })
        }
        ScalarType::Int64(encoding) => {
            Kind::Int64Type(r#type::Int64 { encoding: Some(int64(encoding)) })
        }
        ScalarType::Timestamp(encoding) => {
            let micros = timestamp::encoding::Encoding::UnixMicrosInt64(int64(encoding));
            let encoding = Some(timestamp::Encoding { encoding: Some(micros) });
            Kind::TimestampType(r#type::Timestamp { encoding })
        }
    };
    admin::Type { kind: Some(kind) }
}

/// Returns the row key schema in a message; `None` for one without fields and encoding.
pub(crate) fn row_key_schema(wire: Option<r#type::Struct>) -> Result<Option<RowKeySchema>, Status> {
    let Some(wire) = wire else { return Ok(None) };
    let encoding = match wire.encoding.and_then(|encoding| encoding.encoding) {
        None if wire.fields.is_empty() => return Ok(None),
        None => return Err(invalid("row_key_schema.encoding", "is not set")),
        Some(r#struct::encoding::Encoding::Singleton(_)) => StructEncoding::Singleton,
        Some(r#struct::encoding::Encoding::DelimitedBytes(delimited)) => {
            StructEncoding::DelimitedBytes(delimited.delimiter)
        }
        Some(r#struct::encoding::Encoding::OrderedCodeBytes(_)) => StructEncoding::OrderedCodeBytes,
    };
    let fields = wire.fields.into_iter().enumerate().map(|(at, field)| {
        let place = format!("row_key_schema.fields[{at}].type");
        let kind = field.r#type.and_then(|wire| wire.kind);
        let kind = kind.ok_or_else(|| invalid(&place, "is not set"))?;
        Ok((field.field_name, scalar(&place, kind, false)?))
    });
    Ok(Some(RowKeySchema { fields: fields.collect::<Result<_, Status>>()?, encoding }))
}

/// Returns a row key schema as a message.
pub(crate) fn row_key_schema_message(schema: &RowKeySchema) -> r#type::Struct {
    let encoding = match &schema.encoding {
        StructEncoding::Singleton => r#struct::encoding::Encoding::Singleton(Default::default()),
        StructEncoding::DelimitedBytes(delimiter) => {
            let delimiter = delimiter.clone();
            let delimited = r#struct::encoding::DelimitedBytes { delimiter };
            r#struct::encoding::Encoding::DelimitedBytes(delimited)
        }
        StructEncoding::OrderedCodeBytes => {
            r#struct::encoding::Encoding::OrderedCodeBytes(Default::default())
        }
    };
    let fields = schema.fields.iter().map(|(name, scalar)| r#struct::Field {
        field_name: name.clone(),
        r#type: Some(scalar_message(*scalar)),
    });
    r#type::Struct {
        fields: fields.collect(),
        encoding: Some(r#struct::Encoding { encoding: Some(encoding) }),
    }
}
