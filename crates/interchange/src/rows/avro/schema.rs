//! The schema of a row: the one that is written, and the check of one that is read.

use serde_json::Value;

/// The schema of Google's exports: the type `com.google.cloud.teleport.bigtable.BigtableRow`.
pub(super) const SCHEMA: &str = concat!(
    r#"{"type":"record","name":"BigtableRow","namespace":"com.google.cloud.teleport.bigtable","#,
    r#""fields":[{"name":"key","type":"bytes"},{"name":"cells","type":{"type":"array","items":"#,
    r#"{"type":"record","name":"BigtableCell","fields":[{"name":"family","type":"string"},"#,
    r#"{"name":"qualifier","type":"bytes"},"#,
    r#"{"name":"timestamp","type":"long","logicalType":"timestamp-micros"},"#,
    r#"{"name":"value","type":"bytes"}]}}}]}"#,
);

/// Returns whether records of the schema `text` have the bytes of a row: its fields, in its order,
/// with its types, whatever the names of the types.
pub(super) fn is_of_rows(text: &[u8]) -> bool {
    let Ok(schema) = serde_json::from_slice::<Value>(text) else { return false };
    let Some([key, cells]) = fields(&schema) else { return false };
    if !is_named(key, "key", &["bytes", "string"]) || cells["name"] != "cells" {
        return false;
    }
    let array = &cells["type"];
    let Some([family, qualifier, timestamp, value]) = fields(&array["items"]) else { return false };
    array["type"] == "array"
        && is_named(family, "family", &["string", "bytes"])
        && is_named(qualifier, "qualifier", &["bytes", "string"])
        && is_named(timestamp, "timestamp", &["long"])
        && is_named(value, "value", &["bytes", "string"])
}

/// Returns the `N` fields of a record.
fn fields<const N: usize>(record: &Value) -> Option<&[Value; N]> {
    if record["type"] != "record" {
        return None;
    }
    record["fields"].as_array()?.as_slice().try_into().ok()
}

/// Returns whether `field` has that name and one of the types, with attributes or without.
fn is_named(field: &Value, name: &str, types: &[&str]) -> bool {
    let kind = &field["type"];
    let kind = kind.as_str().or_else(|| kind["type"].as_str());
    field["name"] == name && kind.is_some_and(|kind| types.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_rows_are_told_from_others() {
        let java = SCHEMA.replace(
            r#""name":"family","type":"string""#,
            r#""name":"family","type":{"type":"string","avro.java.string":"String"}"#,
        );
        for schema in [SCHEMA, &java] {
            assert!(is_of_rows(schema.as_bytes()), "{schema}");
        }
        for schema in [
            "",
            "\"bytes\"",
            "{\"type\":\"record\",\"fields\":[]}",
            &SCHEMA.replace("\"long\"", "\"int\""),
            &SCHEMA.replace("\"qualifier\"", "\"column\""),
            &SCHEMA.replace("array", "map"),
            &SCHEMA.replace("\"type\":\"bytes\"", "\"type\":[\"null\",\"bytes\"]"),
        ] {
            assert!(!is_of_rows(schema.as_bytes()), "{schema}");
        }
    }
}
