//! Input formats: each takes lines and gives records, or says what is wrong with a line.

mod deb822;
mod delimited;
mod json;
#[cfg(test)]
mod tests;

use super::lines::{Line, Lines, Position};
use anyhow::Result;
use bytes::Bytes;
use clap::ValueEnum;
use std::io;

/// Format of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
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

impl Format {
    /// The format that a file's name tells, if it does.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "csv" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "deb822" => Some(Self::Deb822),
            _ => None,
        }
    }
}

/// A record: named fields in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Name and value.
    pub(crate) fields: Vec<(Bytes, Bytes)>,
}

/// The next item of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// Number of its first line, or of the line that is wrong.
    pub(crate) line: u64,
    /// The place behind it.
    pub(crate) end: Position,
    /// Its text in the input.
    pub(crate) text: Vec<u8>,
    /// The record, or why it is none.
    pub(crate) content: Result<Record, String>,
}

impl Item {
    fn of_line(line: Line, content: Result<Record, String>) -> Self {
        let content = if line.cut { Err(too_long()) } else { content };
        Self { line: line.number, end: line.end, text: line.text, content }
    }
}

/// Takes records off the input one by one.
pub(crate) trait Records {
    /// The next record or bad line; `None` at the end.
    fn next(&mut self, lines: &mut Lines) -> io::Result<Option<Item>>;
}

/// Options of a delimited format.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// Names of the columns; `None`: the first line has them.
    pub(crate) columns: Option<Vec<String>>,
    /// Field separator, if it differs from that of the format.
    pub(crate) delimiter: Option<u8>,
}

/// The reader of `format`; takes the header line off `lines` where there is one.
pub(crate) fn records(
    format: Format,
    layout: &Layout,
    lines: &mut Lines,
) -> Result<Box<dyn Records>> {
    Ok(match format {
        Format::Csv => Box::new(delimited::Delimited::csv(layout, lines)?),
        Format::Tsv => Box::new(delimited::Delimited::tsv(layout, lines)?),
        Format::Jsonl => Box::new(json::JsonLines),
        Format::Deb822 => Box::new(deb822::Stanzas),
    })
}

fn too_long() -> String {
    format!("longer than {} MiB", super::lines::RECORD_BYTES_MAX >> 20)
}
