//! The value of a column that rows written before it have, in the record of its table.
//!
//! It is the type, and kind and bytes as in a cell, in base64. Records of before have a list of numbers in place
//! of base64, which is read too.

use crate::format::{decode_value, encode_value};
use crate::types::{DataType, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a value as a record has them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Recorded {
    Base64(String),
    Numbers(Vec<u8>),
}

pub(crate) fn serialize<S: Serializer>(value: &Value, to: S) -> Result<S::Ok, S::Error> {
    let recorded = || (value.data_type(), STANDARD.encode(encode_value(value)));
    (!value.is_null()).then(recorded).serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    let Some((data_type, recorded)) = Option::<(DataType, Recorded)>::deserialize(from)? else {
        return Ok(Value::Null);
    };
    let bytes = match recorded {
        Recorded::Base64(text) => STANDARD.decode(text).map_err(D::Error::custom)?,
        Recorded::Numbers(bytes) => bytes,
    };
    decode_value(&bytes, &data_type).map_err(|error| D::Error::custom(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Field(#[serde(with = "super")] Value);

    #[test]
    fn values_come_back_from_base64_and_from_numbers() {
        for value in [Value::Null, Value::text("a\u{e9}"), Value::Int4(7)] {
            let json = serde_json::to_string(&Field(value.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Field>(&json).unwrap(), Field(value.clone()));
            let numbers = (!value.is_null()).then(|| (value.data_type(), encode_value(&value)));
            let json = serde_json::to_string(&numbers).unwrap();
            assert_eq!(serde_json::from_str::<Field>(&json).unwrap(), Field(value));
        }
        for damaged in ["[\"Text\",\"*\"]", "[\"Text\",[300]]", "[\"Int4\",\"\"]", "7"] {
            assert!(serde_json::from_str::<Field>(damaged).is_err(), "{damaged}");
        }
    }
}
