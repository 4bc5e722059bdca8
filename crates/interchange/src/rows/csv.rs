//! Rows as comma-separated values: a header line, then one cell a line, as `docs/format/export.md`
//! says. Consecutive lines with one key are cells of one row. Fields are quoted as in RFC 4180 where
//! they must be; no field has a newline.

use super::encoding::Encoding;
use super::limits::{self, RecordCells};
use super::{Cell, Row, RowReader, RowWriter};
use crate::error::{Error, Result};
use crate::lines::{Line, Lines};
use crate::records::delimited::split_line;
use bytes::Bytes;
use std::io::{BufReader, Read, Write};
use std::sync::Arc;

/// Longest line: a value of which each byte takes four, and names.
const LINE_BYTES_MAX: usize = 4 * limits::VALUE_BYTES_MAX + (1 << 20);

const ESCAPED_HEADER: &str = "key,family,qualifier,timestamp,value";
const BASE64_HEADER: &str = "key_base64,family,qualifier_base64,timestamp,value_base64";

/// Writes rows as CSV, a record for each cell.
pub(super) struct Writer {
    output: Box<dyn Write + Send>,
    encoding: Encoding,
    line: String,
    text: String,
}

impl Writer {
    pub(super) fn new(mut output: Box<dyn Write + Send>, encoding: Encoding) -> Result<Self> {
        let header = match encoding {
            Encoding::Escaped => ESCAPED_HEADER,
            Encoding::Base64 => BASE64_HEADER,
        };
        output.write_all(header.as_bytes())?;
        output.write_all(b"\n")?;
        Ok(Self { output, encoding, line: String::new(), text: String::new() })
    }

    fn field(&mut self, bytes: &[u8]) {
        self.text.clear();
        self.encoding.encode(bytes, &mut self.text);
        quote(&self.text, &mut self.line);
    }
}

/// Appends a field, between quotes if it must be.
fn quote(text: &str, line: &mut String) {
    if text.contains([',', '"']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

impl RowWriter for Writer {
    fn write(&mut self, row: &Row) -> Result<()> {
        self.line.clear();
        self.field(&row.key);
        let key_len = self.line.len();
        for cell in &row.cells {
            self.line.truncate(key_len);
            self.line.push(',');
            self.text.clear();
            Encoding::Escaped.encode(cell.family.as_bytes(), &mut self.text);
            quote(&self.text, &mut self.line);
            self.line.push(',');
            self.field(&cell.qualifier);
            self.line.push(',');
            self.line.push_str(&cell.timestamp_micros.to_string());
            self.line.push(',');
            self.field(&cell.value);
            self.line.push('\n');
            self.output.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.output.flush()?)
    }

    fn tear(&mut self) -> Result<()> {
        // A quote that nothing closes, on a line without end.
        self.output.write_all(b"\"")?;
        Ok(self.output.flush()?)
    }
}

/// Reads rows from CSV that an export wrote.
pub(super) struct Reader {
    lines: Lines,
    encoding: Encoding,
    offset: u64,
    /// The first cell of the next row, which is already read.
    next: Option<(Bytes, Cell)>,
    family: Arc<str>,
}

impl Reader {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Result<Self> {
        let mut lines = Lines::with_limit(Box::new(BufReader::new(input)), LINE_BYTES_MAX);
        let header = lines.next_filled()?;
        let encoding = match header.as_ref().map(Line::trimmed) {
            Some(text) if text == ESCAPED_HEADER.as_bytes() => Encoding::Escaped,
            Some(text) if text == BASE64_HEADER.as_bytes() => Encoding::Base64,
            _ => {
                let reason = format!(
                    "this is no CSV export: the first line is neither {ESCAPED_HEADER} nor \
                     {BASE64_HEADER}"
                );
                return Err(Error::Unsupported(reason));
            }
        };
        Ok(Self { lines, encoding, offset: 0, next: None, family: "".into() })
    }

    fn next_cell(&mut self) -> Result<Option<(Bytes, Cell)>> {
        if let Some(cell) = self.next.take() {
            return Ok(Some(cell));
        }
        let Some(line) = self.lines.next_filled()? else { return Ok(None) };
        self.offset = line.end.offset;
        if line.cut {
            let reason = format!("the line is longer than {LINE_BYTES_MAX} bytes");
            return Err(Error::at_line(line.number, reason));
        }
        if !line.ended {
            return Err(Error::at_line(line.number, "the line has no end; the file is truncated"));
        }
        self.cell(line.trimmed()).map(Some).map_err(|why| Error::at_line(line.number, why))
    }

    fn cell(&mut self, line: &[u8]) -> std::result::Result<(Bytes, Cell), String> {
        let [key, family, qualifier, timestamp, value] = split_line(line)?;
        let key = decode(self.encoding, "key", &key, limits::KEY_BYTES_MAX)?;
        let family = decode(Encoding::Escaped, "family", &family, limits::FAMILY_BYTES_MAX)?;
        if self.family.as_bytes() != family {
            let family = std::str::from_utf8(&family).map_err(|_| "the family is not UTF-8")?;
            self.family = family.into();
        }
        let timestamp = std::str::from_utf8(&timestamp).ok().and_then(|text| text.parse().ok());
        let cell = Cell {
            family: Arc::clone(&self.family),
            qualifier: decode(self.encoding, "qualifier", &qualifier, limits::QUALIFIER_BYTES_MAX)?,
            timestamp_micros: timestamp.ok_or("the timestamp is no number of microseconds")?,
            value: decode(self.encoding, "value", &value, limits::VALUE_BYTES_MAX)?,
        };
        Ok((key, cell))
    }
}

/// Returns the bytes of one field, at most `max`.
fn decode(
    encoding: Encoding,
    what: &'static str,
    text: &[u8],
    max: usize,
) -> std::result::Result<Bytes, String> {
    let bytes = encoding.decode(text).map_err(|why| format!("the {what} is malformed: {why}"))?;
    limits::check(what, bytes.len(), max)?;
    Ok(bytes.into())
}

impl RowReader for Reader {
    fn next(&mut self) -> Result<Option<Row>> {
        let Some((key, cell)) = self.next_cell()? else { return Ok(None) };
        let mut cells = RecordCells::new();
        cells.push(cell);
        while !cells.is_full()
            && let Some((next_key, cell)) = self.next_cell()?
        {
            if next_key != key {
                self.next = Some((next_key, cell));
                break;
            }
            cells.push(cell);
        }
        Ok(Some(cells.take(&key)))
    }

    fn offset(&self) -> u64 {
        self.offset
    }
}
