//! Values of a result of SQL as JSON: an object with one member, which names the kind. NULL is null.
//!
//! Invariant: a value has at most [`VALUE_BYTES_MAX`] bytes of each text and [`ITEMS_MAX`] items of each
//! array, and tells how many there are.

use super::super::request::shown::Allowance;
use data::r#type::Kind as TypeKind;
use data::value::Kind;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use serde_json::{Value, json};

/// Bytes of a text or of bytes that are told.
const VALUE_BYTES_MAX: usize = 1 << 10;
/// Items of an array that are told.
const ITEMS_MAX: usize = 100;

/// Returns a value, as far as the answer has room.
pub(super) fn told(value: &data::Value, left: &mut Allowance) -> Value {
    match &value.kind {
        None => Value::Null,
        Some(Kind::RawValue(bytes) | Kind::BytesValue(bytes)) => {
            json!({ "bytes": left.show(bytes, bytes.len(), VALUE_BYTES_MAX) })
        }
        // Texts come as bytes do: the page escapes what misleads in both.
        Some(Kind::StringValue(text)) => {
            json!({ "string": left.show(text.as_bytes(), text.len(), VALUE_BYTES_MAX) })
        }
        Some(Kind::IntValue(number)) => plain(json!({ "int64": number.to_string() }), left),
        Some(Kind::BoolValue(of)) => plain(json!({ "bool": of }), left),
        Some(Kind::FloatValue(number)) => plain(json!({ "float64": number.to_string() }), left),
        Some(Kind::RawTimestampMicros(micros)) => {
            plain(json!({ "timestamp_micros": micros.to_string() }), left)
        }
        Some(Kind::TimestampValue(time)) => {
            let micros = i128::from(time.seconds) * 1_000_000 + i128::from(time.nanos) / 1_000;
            plain(json!({ "timestamp_micros": micros.to_string() }), left)
        }
        Some(Kind::DateValue(date)) => {
            let text = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
            plain(json!({ "date": text }), left)
        }
        Some(Kind::ArrayValue(array)) => {
            left.take(1);
            let items = array.values.iter().take(ITEMS_MAX).map(|item| told(item, left));
            let items: Vec<_> = items.collect();
            json!({ "array": items, "items": array.values.len() })
        }
    }
}

/// Takes the room of a short value.
fn plain(value: Value, left: &mut Allowance) -> Value {
    left.take(8);
    value
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

    fn of(kind: Kind) -> data::Value {
        data::Value { kind: Some(kind), ..data::Value::default() }
    }

    #[test]
    fn values_are_told_by_kind_and_large_ones_in_part() {
        let text = "x".repeat(VALUE_BYTES_MAX + 1);
        let many = vec![of(Kind::IntValue(1)); ITEMS_MAX + 1];
        let array = data::ArrayValue { values: many };
        let mut left = Allowance::of(10_000);
        assert_eq!(told(&data::Value::default(), &mut left), Value::Null);
        assert_eq!(told(&of(Kind::IntValue(i64::MIN)), &mut left)["int64"], i64::MIN.to_string());
        assert_eq!(told(&of(Kind::FloatValue(f64::NAN)), &mut left)["float64"], "NaN");
        let time = prost_types::Timestamp { seconds: i64::MAX, nanos: 999 };
        let time = told(&of(Kind::TimestampValue(time)), &mut left);
        assert_eq!(time["timestamp_micros"], "9223372036854775807000000");
        let long = told(&of(Kind::StringValue(text)), &mut left);
        assert_eq!(long["string"]["bytes"], VALUE_BYTES_MAX + 1);
        assert!(long["string"]["data"].as_str().unwrap().len() < 2 * VALUE_BYTES_MAX);
        let long = told(&of(Kind::ArrayValue(array)), &mut left);
        assert_eq!(long["items"], ITEMS_MAX + 1);
        assert_eq!(long["array"].as_array().unwrap().len(), ITEMS_MAX);
        let rest = told(&of(Kind::BytesValue(vec![0; 20_000].into())), &mut Allowance::of(3));
        assert_eq!(rest["bytes"]["data"], "AAAA");
    }
}
