//! One JSON object a line. Strings are kept as their bytes, `null` is no value, everything else
//! (numbers, truth values, nested objects and arrays) is kept as its JSON text.

use super::{Item, Lines, Record, Records};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io;

/// Reads JSON lines.
pub(super) struct JsonLines;

impl Records for JsonLines {
    fn next(&mut self, lines: &mut Lines) -> io::Result<Option<Item>> {
        let Some(line) = lines.next_filled()? else { return Ok(None) };
        let content = record(line.trimmed());
        Ok(Some(Item::of_line(line, content)))
    }
}

/// The object's fields, in order of name; of two with one name the later counts. Values stay
/// text, so that numbers keep all their digits.
fn record(text: &[u8]) -> Result<Record, String> {
    let object: BTreeMap<String, &RawValue> =
        serde_json::from_slice(text).map_err(|error| format!("not a JSON object: {error}"))?;
    let mut fields = Vec::with_capacity(object.len());
    for (name, value) in object {
        let value = match value.get() {
            "null" => continue,
            text if text.starts_with('"') => {
                let text: String = serde_json::from_str(text)
                    .map_err(|error| format!("field {name:?} is malformed: {error}"))?;
                Bytes::from(text)
            }
            text => Bytes::from(text.to_owned()),
        };
        fields.push((Bytes::from(name), value));
    }
    Ok(Record { fields })
}
