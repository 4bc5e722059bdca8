//! One record the plain way: field after field, byte after byte. Headers, errors and the escaped fields
//! of the fast ways are read so.

use crate::build::text_of;
use crate::error::{Error, Result};
use crate::options::{Format, Options};

/// The options in the form that the parsers need.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) format: Format,
    pub(crate) delimiter: u8,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    pub(crate) null: Vec<u8>,
    /// True if no byte of a number, a date or a time means anything else.
    pub(crate) has_plain_numbers: bool,
}

impl Shape {
    pub(crate) fn of(options: &Options) -> Self {
        let null = options.null.clone().into_bytes();
        let is_number = |byte: u8| byte.is_ascii_digit() || b"+-:. TZ".contains(&byte);
        let is_csv = options.format == Format::Csv;
        let mut marks = vec![options.delimiter];
        marks.extend(null.first());
        if is_csv {
            marks.extend([options.quote, options.escape]);
        }
        Self {
            format: options.format,
            delimiter: options.delimiter,
            quote: options.quote,
            escape: options.escape,
            null,
            has_plain_numbers: !marks.into_iter().any(is_number),
        }
    }
}

impl Shape {
    /// Returns whether a field is the text of NULL. Most fields are told apart without a call; above
    /// all, no empty one is compared, which costs ten times as much as any other where the empty
    /// vector's pointer leads to no page.
    #[inline(always)]
    pub(crate) fn is_null(&self, field: &[u8]) -> bool {
        let Some(first) = self.null.first() else { return field.is_empty() };
        field.first() == Some(first) && field == self.null
    }
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// Bytes without escapes and quotes.
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_null: bool,
}

/// Returns the error of a quote that never ends.
pub(crate) fn open_quote() -> Error {
    Error::format("unterminated CSV quoted field")
}

/// Returns the fields of a record, which has no line end. 22P04 if a quote never ends, 22021 if escapes
/// make a field that is no text.
pub(crate) fn split_record(record: &[u8], shape: &Shape) -> Result<Vec<Field>> {
    let (mut fields, mut at) = (Vec::new(), 0);
    loop {
        let mut bytes = Vec::new();
        let (end, is_null) = match shape.format {
            Format::Csv => {
                let found = csv_field(record, at, None, shape, &mut bytes);
                if found.is_open {
                    return Err(open_quote());
                }
                let is_null = !found.is_quoted && bytes == shape.null;
                (found.end, is_null)
            }
            _ => text_field(record, at, shape, &mut bytes),
        };
        text_of(&bytes)?;
        fields.push(Field { bytes, is_null });
        if end >= record.len() {
            return Ok(fields);
        }
        at = end + 1;
    }
}

/// Appends the bytes of the field at the front of `record[at..]`. Returns its end, which is that of the
/// record or a delimiter, and whether it is NULL.
pub(crate) fn text_field(
    record: &[u8],
    at: usize,
    shape: &Shape,
    out: &mut Vec<u8>,
) -> (usize, bool) {
    let mut from = at;
    let end = loop {
        let Some(found) = memchr::memchr2(shape.delimiter, b'\\', &record[from..]) else {
            out.extend_from_slice(&record[from..]);
            break record.len();
        };
        let found = from + found;
        out.extend_from_slice(&record[from..found]);
        if record[found] == shape.delimiter {
            break found;
        }
        from = found + 1;
        if from < record.len() {
            from += unescape(&record[from..], out);
        }
    };
    (end, record[at..end] == shape.null)
}

/// Appends the byte that an escape stands for. Returns the length of the escape behind its backslash,
/// of which at least a byte is there.
fn unescape(rest: &[u8], out: &mut Vec<u8>) -> usize {
    let simple = match rest[0] {
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'0'..=b'7' => {
            let digits = rest.iter().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
            let value = rest[..digits].iter().fold(0_u32, |sum, b| sum * 8 + u32::from(b - b'0'));
            out.push((value & 0xff) as u8);
            return digits;
        }
        b'x' => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            let digits = rest[1..].iter().take(2).map_while(digit);
            let (value, count) = digits.fold((0, 0), |(sum, n), digit| (sum * 16 + digit, n + 1));
            out.push(if count == 0 { b'x' } else { value as u8 });
            return count + 1;
        }
        other => other,
    };
    out.push(simple);
    1
}

/// End of a field of CSV.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CsvEnd {
    /// The delimiter, the first byte of the line end, or the end of the data.
    pub(crate) end: usize,
    pub(crate) is_quoted: bool,
    /// True if the data ends within quotes.
    pub(crate) is_open: bool,
}

/// Appends the bytes of the field at the front of `data[at..]`. Without the first byte of a line end, the
/// record is all of the data.
pub(crate) fn csv_field(
    data: &[u8],
    at: usize,
    line_end: Option<u8>,
    shape: &Shape,
    out: &mut Vec<u8>,
) -> CsvEnd {
    let (mut at, mut is_inside, mut is_quoted) = (at, false, false);
    while let Some(&byte) = data.get(at) {
        if !is_inside {
            if byte == shape.quote {
                (is_inside, is_quoted) = (true, true);
            } else if byte == shape.delimiter || Some(byte) == line_end {
                break;
            } else {
                out.push(byte);
            }
            at += 1;
            continue;
        }
        let next = data.get(at + 1).copied();
        if byte == shape.escape && (next == Some(shape.quote) || next == Some(shape.escape)) {
            out.extend(next);
            at += 2;
            continue;
        }
        if byte == shape.quote {
            is_inside = false;
        } else {
            out.push(byte);
        }
        at += 1;
    }
    CsvEnd { end: at, is_quoted, is_open: is_inside }
}
