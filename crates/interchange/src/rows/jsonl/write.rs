//! Writes JSON lines.

use super::{ESCAPED_BYTES_MAX, REASON_BYTES_MAX};
use crate::error::Result;
use crate::rows::encoding::Encoding;
use crate::rows::limits::record_len;
use crate::rows::{Cell, Row, RowWriter};
use serde::Serialize;
use std::io::Write;

/// Some cells of a row in JSON. One of the names of the key is there.
#[derive(Serialize)]
struct JsonRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    cells: Vec<JsonCell<'a>>,
    /// The reason why a table refused the cells, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<&'a str>,
}

/// A cell in JSON. One of the names of qualifier and value is there.
#[derive(Serialize)]
struct JsonCell<'a> {
    family: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    qualifier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qualifier_base64: Option<String>,
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

/// Writes rows as JSON lines, an object for each row.
pub(in crate::rows) struct Writer {
    output: Box<dyn Write + Send>,
    encoding: Encoding,
}

impl Writer {
    pub(in crate::rows) fn new(output: Box<dyn Write + Send>, encoding: Encoding) -> Self {
        Self { output, encoding }
    }
}

impl RowWriter for Writer {
    fn write(&mut self, row: &Row) -> Result<()> {
        lines(row, self.encoding, None, &mut self.output)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.output.flush()?)
    }

    fn tear(&mut self) -> Result<()> {
        self.output.write_all(b"{")?;
        Ok(self.output.flush()?)
    }
}

/// Returns the lines of a row that a table refused, with the reason. A reader of JSON lines takes them.
pub fn rejected_lines(row: &Row, reason: &str) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let end = reason.floor_char_boundary(REASON_BYTES_MAX);
    lines(row, Encoding::Escaped, Some(&reason[..end]), &mut text)?;
    Ok(text)
}

/// Writes a row as one line, or as several if it has many cells.
fn lines(
    row: &Row,
    encoding: Encoding,
    rejected: Option<&str>,
    output: &mut impl Write,
) -> Result<()> {
    let mut rest = &row.cells[..];
    loop {
        let (cells, more) = rest.split_at(record_len(rest));
        let (key, key_base64) = named(&row.key, encoding);
        let cells = cells.iter().map(|cell| json_cell(cell, encoding)).collect();
        let line = JsonRow { key, key_base64, cells, rejected };
        serde_json::to_writer(&mut *output, &line).map_err(std::io::Error::from)?;
        output.write_all(b"\n")?;
        rest = more;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn json_cell(cell: &Cell, encoding: Encoding) -> JsonCell<'_> {
    let (qualifier, qualifier_base64) = named(&cell.qualifier, encoding);
    let (value, value_base64) = named(&cell.value, encoding);
    JsonCell {
        family: &cell.family,
        qualifier,
        qualifier_base64,
        timestamp: cell.timestamp_micros,
        value,
        value_base64,
    }
}

/// Returns `bytes` under the name of their encoding: the first is the escaped one.
fn named(bytes: &[u8], encoding: Encoding) -> (Option<String>, Option<String>) {
    let mut text = String::new();
    encoding.encode(bytes, &mut text);
    if encoding == Encoding::Escaped && text.len() <= ESCAPED_BYTES_MAX {
        return (Some(text), None);
    }
    if encoding == Encoding::Escaped {
        text = String::new();
        Encoding::Base64.encode(bytes, &mut text);
    }
    (None, Some(text))
}
