//! Checks of a whole block before its records are parsed.

use super::record::Shape;
use crate::block::{Block, Checked, LineEnd, is_escaped};
use crate::error::Error;
use crate::options::Format;
use crate::split::Quotes;
use crate::values::not_text;

/// Looks for bytes that are no text, and for line ends of another kind.
pub(super) fn check(block: &Block, shape: &Shape) -> Checked {
    let data = block.data();
    let is_text = simdutf8::basic::from_utf8(data).is_ok();
    let zero = memchr::memchr(0, data);
    let has_strays = match block.line_end {
        LineEnd::Lf => memchr::memchr(b'\r', data).is_some(),
        LineEnd::Cr => memchr::memchr(b'\n', data).is_some(),
        LineEnd::CrLf => true,
    };
    if is_text && zero.is_none() {
        return Checked { sound: data.len(), problem: None, has_strays };
    }
    let not_utf8 = simdutf8::compat::from_utf8(data).err().map(|place| place.valid_up_to());
    let bad = zero.into_iter().chain(not_utf8).min().unwrap_or(data.len());
    let sound = record_start(data, bad, shape, block.line_end);
    let line = block.line_at(bad);
    Checked { sound, problem: Some(not_text(data, bad).at_line(line)), has_strays }
}

/// Returns the beginning of the record that has a place.
fn record_start(data: &[u8], place: usize, shape: &Shape, line_end: LineEnd) -> usize {
    let mut at = 0;
    loop {
        let end = record_end(data, at, shape, line_end);
        if end > place || end >= data.len() {
            return at;
        }
        at = end;
    }
}

/// Returns the place behind the line end of the record that begins at `at`.
pub(super) fn record_end(data: &[u8], at: usize, shape: &Shape, line_end: LineEnd) -> usize {
    let mut quotes = Quotes::default();
    let mut from = at;
    for found in memchr::memchr_iter(line_end.last(), &data[at..]) {
        let found = at + found;
        let is_data = match shape.format {
            Format::Csv => {
                quotes.pass(&data[from..found], shape.quote, shape.escape);
                from = found;
                quotes.is_inside
            }
            _ => is_escaped(&data[at..found]),
        };
        if !is_data {
            return found + 1;
        }
    }
    data.len()
}

/// Returns the record that begins at `at` without its line end, and the place behind it. A last line end
/// that is escaped or quoted is data.
pub(super) fn record_at<'a>(
    data: &'a [u8],
    at: usize,
    shape: &Shape,
    line_end: LineEnd,
) -> (&'a [u8], usize) {
    let end = record_end(data, at, shape, line_end);
    let (record, content) = (&data[at..end], without_end(&data[at..end], line_end));
    let is_data = match shape.format {
        Format::Csv => {
            let mut quotes = Quotes::default();
            quotes.pass(content, shape.quote, shape.escape);
            quotes.is_inside
        }
        _ => is_escaped(content),
    };
    (if is_data { record } else { content }, end)
}

/// Returns a record without its line end.
fn without_end(record: &[u8], line_end: LineEnd) -> &[u8] {
    let end: &[u8] = match line_end {
        LineEnd::Lf => b"\n",
        LineEnd::Cr => b"\r",
        LineEnd::CrLf => b"\r\n",
    };
    record.strip_suffix(end).unwrap_or(record)
}

/// Refuses a record, with its line end, that has a byte of another line end outside of escapes and quotes.
/// The error comes with the byte's place in the record.
pub(super) fn check_line_ends(
    record: &[u8],
    shape: &Shape,
    line_end: LineEnd,
) -> Result<(), (Error, usize)> {
    let content = without_end(record, line_end);
    let is_csv = shape.format == Format::Csv;
    if !is_csv && line_end == LineEnd::CrLf && content.len() < record.len() && is_escaped(content) {
        // The carriage return is data, and the newline stands alone.
        return Err((stray(b'\n', false), record.len() - 1));
    }
    let mut quotes = Quotes::default();
    let mut from = 0;
    for at in memchr::memchr2_iter(b'\n', b'\r', content) {
        let is_data = match is_csv {
            true => {
                quotes.pass(&content[from..at], shape.quote, shape.escape);
                from = at;
                quotes.is_inside
            }
            false => is_escaped(&content[..at]),
        };
        if !is_data {
            return Err((stray(content[at], is_csv), at));
        }
    }
    Ok(())
}

fn stray(byte: u8, is_csv: bool) -> Error {
    let (name, letter) = match byte {
        b'\n' => ("newline", 'n'),
        _ => ("carriage return", 'r'),
    };
    match is_csv {
        true => Error::format(format!("unquoted {name} found in data"))
            .with_hint(format!("Use quoted CSV field to represent {name}.")),
        false => Error::format(format!("literal {name} found in data"))
            .with_hint(format!("Use \"\\{letter}\" to represent {name}.")),
    }
}
