//! Values of a result of SQL as JSON: an object with one member, which names the kind. NULL is null.
//!
//! A batch of rows is an encoded `google.bigtable.v2.ProtoRows`. Its values are read where they lie, as
//! far as the answer has room, so that no message with a node for each of them is built.
//!
//! Invariants:
//! 1. A value has at most [`VALUE_BYTES_MAX`] bytes of each text and [`ITEMS_MAX`] items of each array,
//!    and tells how many there are.
//! 2. Each value, NULL and the items of an array too, takes at least [`NODE_BYTES`] of the answer's room.

use super::super::request::shown::{Allowance, Shown};
use super::fields::{Content, Fields};
use data::r#type::Kind as TypeKind;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use serde::{Serialize, Serializer};
use std::fmt::Display;

/// Bytes of a text or of bytes that are told.
const VALUE_BYTES_MAX: usize = 1 << 10;
/// Items of an array that are told.
const ITEMS_MAX: usize = 100;
/// Room that a value takes beside its bytes.
pub(super) const NODE_BYTES: usize = 64;
/// Arrays that are told within each other. Types of SQL are less deep.
const DEPTH_MAX: usize = 16;

const _: () = assert!(size_of::<Told>() <= NODE_BYTES);

/// A value that is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Told {
    Null,
    Bytes {
        bytes: Shown,
    },
    /// A text, which comes as bytes do: the page escapes what misleads in both.
    String {
        string: Shown,
    },
    Int64 {
        #[serde(serialize_with = "text")]
        int64: i64,
    },
    Bool {
        bool: bool,
    },
    Float64 {
        #[serde(serialize_with = "text")]
        float64: f64,
    },
    Timestamp {
        #[serde(serialize_with = "text")]
        timestamp_micros: i128,
    },
    Date {
        date: String,
    },
    Array {
        array: Vec<Told>,
        items: usize,
    },
}

/// Writes a number as a text: numbers of JavaScript are not exact.
fn text<T: Display, S: Serializer>(number: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Numbers of the fields of `Value`.
mod field {
    pub(super) const BYTES: u32 = 2;
    pub(super) const STRING: u32 = 3;
    pub(super) const ARRAY: u32 = 4;
    pub(super) const INT: u32 = 6;
    pub(super) const RAW: u32 = 8;
    pub(super) const RAW_TIMESTAMP: u32 = 9;
    pub(super) const BOOL: u32 = 10;
    pub(super) const FLOAT: u32 = 11;
    pub(super) const TIMESTAMP: u32 = 12;
    pub(super) const DATE: u32 = 13;
    /// The repeated field of `ProtoRows`.
    pub(super) const OF_ROWS: u32 = 2;
    /// The repeated field of `ArrayValue`.
    pub(super) const OF_ARRAY: u32 = 1;
}

/// Returns the encoded values of a batch, in their order.
pub(super) fn of_batch(batch: &[u8]) -> impl Iterator<Item = &[u8]> {
    messages(batch, field::OF_ROWS)
}

fn messages(within: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
    Fields::of(within).filter_map(move |field| match field {
        (number, Content::Bytes { there, .. }) if number == wanted => Some(there),
        _ => None,
    })
}

/// Returns an encoded value, as far as the answer has room.
pub(super) fn told(value: &[u8], left: &mut Allowance) -> Told {
    nested(value, left, DEPTH_MAX)
}

fn nested(value: &[u8], left: &mut Allowance, depth: usize) -> Told {
    left.take(NODE_BYTES);
    let told = Fields::of(value).find_map(|field| match field {
        (field::BYTES | field::RAW, Content::Bytes { there, len }) => {
            Some(Told::Bytes { bytes: left.show(there, len, VALUE_BYTES_MAX) })
        }
        (field::STRING, Content::Bytes { there, len }) => {
            Some(Told::String { string: left.show(there, len, VALUE_BYTES_MAX) })
        }
        (field::INT, Content::Number(number)) => Some(Told::Int64 { int64: number as i64 }),
        (field::BOOL, Content::Number(number)) => Some(Told::Bool { bool: number != 0 }),
        (field::FLOAT, Content::Number(bits)) => {
            Some(Told::Float64 { float64: f64::from_bits(bits) })
        }
        (field::RAW_TIMESTAMP, Content::Number(micros)) => {
            Some(Told::Timestamp { timestamp_micros: (micros as i64).into() })
        }
        (field::TIMESTAMP, Content::Bytes { there, .. }) => Some(timestamp(there)),
        (field::DATE, Content::Bytes { there, .. }) => Some(date(there)),
        (field::ARRAY, Content::Bytes { there, .. }) => Some(array(there, left, depth)),
        _ => None,
    });
    told.unwrap_or(Told::Null)
}

/// Returns an array. Of one that is too deep, or cut, the items are told that are there.
fn array(value: &[u8], left: &mut Allowance, depth: usize) -> Told {
    let (mut told, mut items) = (Vec::new(), 0);
    for item in messages(value, field::OF_ARRAY) {
        if items < ITEMS_MAX && depth > 0 && !left.is_spent() {
            told.push(nested(item, left, depth - 1));
        }
        items += 1;
    }
    Told::Array { array: told, items }
}

/// Returns the number of each of the first three fields, which is 0 if it is missing.
fn numbers(value: &[u8]) -> [i64; 3] {
    let mut numbers = [0; 3];
    for (number, content) in Fields::of(value) {
        if let (at @ 1..=3, Content::Number(number)) = (number, content) {
            numbers[at as usize - 1] = number as i64;
        }
    }
    numbers
}

fn timestamp(value: &[u8]) -> Told {
    let [seconds, nanos, _] = numbers(value).map(i128::from);
    Told::Timestamp { timestamp_micros: seconds * 1_000_000 + nanos / 1_000 }
}

fn date(value: &[u8]) -> Told {
    let [year, month, day] = numbers(value);
    Told::Date { date: format!("{year:04}-{month:02}-{day:02}") }
}

/// Returns the name of a type as SQL writes it.
pub(super) fn type_name(of: &data::Type) -> String {
    let inner = |of: Option<&data::Type>| of.map_or_else(String::new, type_name);
    match &of.kind {
        Some(TypeKind::BytesType(_)) => "BYTES".to_owned(),
        Some(TypeKind::StringType(_)) => "STRING".to_owned(),
        Some(TypeKind::Int64Type(_)) => "INT64".to_owned(),
        Some(TypeKind::Float32Type(_)) => "FLOAT32".to_owned(),
        Some(TypeKind::Float64Type(_)) => "FLOAT64".to_owned(),
        Some(TypeKind::BoolType(_)) => "BOOL".to_owned(),
        Some(TypeKind::TimestampType(_)) => "TIMESTAMP".to_owned(),
        Some(TypeKind::DateType(_)) => "DATE".to_owned(),
        Some(TypeKind::ArrayType(of)) => format!("ARRAY<{}>", inner(of.element_type.as_deref())),
        Some(TypeKind::MapType(of)) => {
            let (key, value) = (of.key_type.as_deref(), of.value_type.as_deref());
            format!("MAP<{}, {}>", inner(key), inner(value))
        }
        Some(TypeKind::StructType(_)) => "STRUCT".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data::value::Kind;
    use prost::Message;
    use serde_json::{Value, json};

    fn of(kind: Kind) -> data::Value {
        data::Value { kind: Some(kind), ..data::Value::default() }
    }

    fn array_of(values: Vec<data::Value>) -> data::Value {
        of(Kind::ArrayValue(data::ArrayValue { values }))
    }

    fn json_of(value: &data::Value, left: &mut Allowance) -> Value {
        serde_json::to_value(told(&value.encode_to_vec(), left)).unwrap()
    }

    #[test]
    fn values_are_told_by_kind() {
        let shown = |data: &str, bytes: usize| json!({ "data": data, "bytes": bytes });
        let time = prost_types::Timestamp { seconds: i64::MAX, nanos: 999 };
        let early = prost_types::Timestamp { seconds: -2, nanos: 5_000 };
        for (value, want) in [
            (data::Value::default(), Value::Null),
            (of(Kind::RawValue(vec![255].into())), json!({ "bytes": shown("_w", 1) })),
            (of(Kind::BytesValue(vec![].into())), json!({ "bytes": shown("", 0) })),
            (of(Kind::StringValue("é".into())), json!({ "string": shown("w6k", 2) })),
            (of(Kind::IntValue(i64::MIN)), json!({ "int64": i64::MIN.to_string() })),
            (of(Kind::IntValue(0)), json!({ "int64": "0" })),
            (of(Kind::BoolValue(true)), json!({ "bool": true })),
            (of(Kind::BoolValue(false)), json!({ "bool": false })),
            (of(Kind::FloatValue(f64::NAN)), json!({ "float64": "NaN" })),
            (of(Kind::FloatValue(-1.5)), json!({ "float64": "-1.5" })),
            (of(Kind::RawTimestampMicros(-7)), json!({ "timestamp_micros": "-7" })),
            (
                of(Kind::TimestampValue(time)),
                json!({ "timestamp_micros": "9223372036854775807000000" }),
            ),
            (of(Kind::TimestampValue(early)), json!({ "timestamp_micros": "-1999995" })),
            (array_of(vec![]), json!({ "array": [], "items": 0 })),
            (
                array_of(vec![array_of(vec![of(Kind::IntValue(1))]), data::Value::default()]),
                json!({ "array": [{ "array": [{ "int64": "1" }], "items": 1 }, null], "items": 2 }),
            ),
        ] {
            assert_eq!(json_of(&value, &mut Allowance::of(10_000)), want, "{value:?}");
        }
    }

    #[test]
    fn large_values_are_told_in_part() {
        let mut left = Allowance::of(20_000);
        let long = of(Kind::StringValue("x".repeat(VALUE_BYTES_MAX + 1)));
        let long = json_of(&long, &mut left);
        assert_eq!(long["string"]["bytes"], VALUE_BYTES_MAX + 1);
        assert!(long["string"]["data"].as_str().unwrap().len() < 2 * VALUE_BYTES_MAX);
        let many = array_of(vec![of(Kind::IntValue(1)); ITEMS_MAX + 1]);
        let many = json_of(&many, &mut left);
        assert_eq!(many["items"], ITEMS_MAX + 1);
        assert_eq!(many["array"].as_array().unwrap().len(), ITEMS_MAX);
        let rest = of(Kind::BytesValue(vec![0; 20_000].into()));
        let rest = json_of(&rest, &mut Allowance::of(NODE_BYTES + 3));
        assert_eq!(rest["bytes"]["data"], "AAAA");
        let mut deep = array_of(vec![]);
        for _ in 0..90 {
            deep = array_of(vec![deep]);
        }
        let deep = json_of(&deep, &mut left).to_string();
        assert_eq!(deep.matches("array").count(), DEPTH_MAX + 1);
    }

    /// An item of two bytes is a node of the answer all the same.
    #[test]
    fn every_node_takes_room() {
        let row = array_of(vec![data::Value::default(); ITEMS_MAX]);
        let rows = array_of(vec![row; ITEMS_MAX]);
        let mut left = Allowance::of(100 * NODE_BYTES);
        let told = json_of(&rows, &mut left).to_string();
        assert!(left.is_spent());
        assert!(told.matches("null").count() < 100, "{told}");
    }

    #[test]
    fn a_value_that_is_cut_is_told_by_what_is_there() {
        let value = of(Kind::BytesValue(vec![0; 300].into())).encode_to_vec();
        for len in 0..value.len() {
            let cut = told(&value[..len], &mut Allowance::of(1_000));
            match cut {
                Told::Null => assert!(len < 3, "{len}"),
                Told::Bytes { bytes } => assert_eq!(bytes.bytes, 300),
                other => panic!("{other:?}"),
            }
        }
    }
}
