//! Types that a schema gives to values and to parts of row keys, with their encoding as bytes.
//!
//! The store keeps bytes whatever the type says. Types tell readers what the bytes mean; only aggregates
//! change what a write does.

use crate::error::{Error, Result};
use crate::limits;
use bytes::Bytes;
use std::collections::BTreeSet;

/// Encoding of a 64-bit integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Int64Encoding {
    /// Eight bytes in two's complement, the highest first.
    BigEndianBytes,
    /// One to ten bytes that sort as the integers do.
    OrderedCodeBytes,
}

/// A scalar type that has an encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScalarType {
    Bytes,
    String,
    Int64(Int64Encoding),
    /// Microseconds since the Unix epoch.
    Timestamp(Int64Encoding),
}

/// Encoding of the fields of a row key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StructEncoding {
    /// The one field is the key.
    Singleton,
    /// The fields, with these bytes between them.
    DelimitedBytes(Bytes),
    /// The fields with their zero bytes escaped, and `00 01` between them.
    OrderedCodeBytes,
}

/// Names and types of the parts of a table's row keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowKeySchema {
    /// Name and type of each field, in the order of the key.
    pub fields: Vec<(String, ScalarType)>,
    pub encoding: StructEncoding,
}

/// Names that queries give to the row key and the timestamp.
const RESERVED: [&str; 2] = ["_key", "_timestamp"];

impl RowKeySchema {
    /// Refuses a schema that breaks a rule of its own, or has a field named as one of `families`.
    pub fn check<'a>(&self, families: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let refuse = |message: String| Err(Error::invalid("row_key_schema", message));
        let count = self.fields.len();
        if count == 0 || count > limits::ROW_KEY_FIELDS_MAX {
            return refuse(format!(
                "{count} fields, but it has 1 to {}",
                limits::ROW_KEY_FIELDS_MAX
            ));
        }
        match &self.encoding {
            StructEncoding::Singleton if count > 1 => {
                return refuse(format!("the encoding singleton has one field, not {count}"));
            }
            StructEncoding::DelimitedBytes(delimiter)
                if delimiter.is_empty() || delimiter.len() > limits::DELIMITER_BYTES_MAX =>
            {
                let (len, max) = (delimiter.len(), limits::DELIMITER_BYTES_MAX);
                return refuse(format!(
                    "the delimiter has {len} bytes, but 1 to {max} are allowed"
                ));
            }
            _ => {}
        }
        let mut taken: BTreeSet<&str> = families.into_iter().chain(RESERVED).collect();
        for (at, (name, _)) in self.fields.iter().enumerate() {
            if name.is_empty() {
                return refuse(format!("field {at} has no name"));
            }
            if name.len() > limits::ROW_KEY_FIELD_NAME_BYTES_MAX {
                let max = limits::ROW_KEY_FIELD_NAME_BYTES_MAX;
                return refuse(format!("the name of field {at} is longer than {max} bytes"));
            }
            if !taken.insert(name) {
                return refuse(format!(
                    "field name '{name}' is reserved, or another field or a family has it"
                ));
            }
        }
        Ok(())
    }

    /// Returns whether a field has this name.
    pub fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[&str], encoding: StructEncoding) -> RowKeySchema {
        let fields = fields.iter().map(|name| (name.to_string(), ScalarType::String)).collect();
        RowKeySchema { fields, encoding }
    }

    #[test]
    fn row_key_schemas_that_break_a_rule_are_refused_by_name() {
        use StructEncoding::{DelimitedBytes, OrderedCodeBytes, Singleton};
        let long = "n".repeat(limits::ROW_KEY_FIELD_NAME_BYTES_MAX + 1);
        for (fields, encoding, want) in [
            (&[][..], Singleton, "0 fields"),
            (&["a", "b"], Singleton, "has one field"),
            (&["a"], DelimitedBytes(Bytes::new()), "delimiter has 0 bytes"),
            (&["a"], DelimitedBytes(vec![b'#'; 51].into()), "delimiter has 51 bytes"),
            (&["a", ""], OrderedCodeBytes, "field 1 has no name"),
            (&["a", "a"], OrderedCodeBytes, "'a' is reserved"),
            (&["_key"], OrderedCodeBytes, "'_key' is reserved"),
            (&["_timestamp"], OrderedCodeBytes, "'_timestamp' is reserved"),
            (&["cf"], OrderedCodeBytes, "'cf' is reserved"),
            (&[&long], OrderedCodeBytes, "longer than"),
        ] {
            let error = schema(fields, encoding).check(["cf"]).unwrap_err().to_string();
            assert!(error.contains("'row_key_schema'") && error.contains(want), "{error}");
        }
        assert_eq!(schema(&["a"], Singleton).check(["cf"]), Ok(()));
        assert_eq!(schema(&["a", "b"], DelimitedBytes(vec![b'#'; 50].into())).check([]), Ok(()));
    }
}
