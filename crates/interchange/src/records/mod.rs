//! Text formats of records: each reader takes lines and gives records, or the reason why a line is
//! not a record.

mod deb822;
pub(crate) mod delimited;
mod json;
#[cfg(test)]
mod tests;

use crate::error::Result;
use crate::lines::{self, Line, Lines, Position};
use bytes::Bytes;
use std::io;

/// Format in which the input is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, quoted as in RFC 4180. Quoted fields may contain newlines.
    Csv,
    /// Tab-separated values without quoting or escaping.
    Tsv,
    /// One JSON object per line (NDJSON).
    Jsonl,
    /// Stanzas of `Field: value` lines separated by blank lines, as in Debian control files and
    /// the output of `apt-cache dumpavail`.
    Deb822,
}

/// A record: named fields in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Name and value of each field.
    pub fields: Vec<(Bytes, Bytes)>,
}

/// The next item of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Number of its first line, or of the line that is wrong.
    pub line: u64,
    /// The place behind it in the input.
    pub end: Position,
    /// Its text in the input.
    pub text: Vec<u8>,
    /// The record, or why it is none.
    pub content: std::result::Result<Record, String>,
}

impl Item {
    fn of_line(line: Line, content: std::result::Result<Record, String>) -> Self {
        let content = if line.cut { Err(too_long()) } else { content };
        Self { line: line.number, end: line.end, text: line.text, content }
    }
}

/// Takes records off the input one by one.
pub trait Records {
    /// The next record or bad line; `None` at the end.
    fn next(&mut self, lines: &mut Lines) -> io::Result<Option<Item>>;
}

/// Options of a delimited format.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// Names of the columns; `None`: the first line has them.
    pub columns: Option<Vec<String>>,
    /// Field separator, if it differs from that of the format.
    pub delimiter: Option<u8>,
}

/// The reader of `format`; takes the header line off `lines` where there is one.
pub fn records(format: Format, layout: &Layout, lines: &mut Lines) -> Result<Box<dyn Records>> {
    Ok(match format {
        Format::Csv => Box::new(delimited::Delimited::csv(layout, lines)?),
        Format::Tsv => Box::new(delimited::Delimited::tsv(layout, lines)?),
        Format::Jsonl => Box::new(json::JsonLines),
        Format::Deb822 => Box::new(deb822::Stanzas),
    })
}

fn too_long() -> String {
    format!("longer than {} MiB", lines::RECORD_BYTES_MAX >> 20)
}
