//! Records of data that a client sends in pieces: text, CSV and binary.
//!
//! Invariants:
//! 1. Pieces may be cut anywhere; a record is given when all of it is there.
//! 2. A record has at most [`RECORD_BYTES_MAX`] bytes: memory is bounded by it and the piece.
//! 3. A field is a range of the record's bytes, or NULL. Lines count from 1, as editors do.

use super::options::{Format, Options};
use relational::{Error, Result, SqlState};
use std::ops::Range;

/// Longest record of incoming data, in bytes.
pub(super) const RECORD_BYTES_MAX: usize = 64 << 20;
/// Bytes that a record of the binary form must have more before it is read again.
const RETRY_BYTES: usize = 1 << 20;
/// Most fields of a record.
const FIELDS_MAX: usize = 10_000;
/// First bytes of data in the binary form.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// The fields of one record.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    bytes: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
    /// True if a field was quoted, in CSV.
    quoted: Vec<bool>,
}

impl Fields {
    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.quoted.clear();
    }

    fn end(&mut self, from: usize, is_null: bool, is_quoted: bool) -> Result<()> {
        if self.places.len() >= FIELDS_MAX {
            return Err(bad(format!("a record has more than {FIELDS_MAX} fields")));
        }
        self.places.push((!is_null).then_some(from..self.bytes.len()));
        self.quoted.push(is_quoted);
        Ok(())
    }

    /// Returns the number of fields.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns a field; nothing for NULL.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.places.get(index)?.clone().map(|place| &self.bytes[place])
    }

    /// Returns whether a field was quoted.
    pub(crate) fn is_quoted(&self, index: usize) -> bool {
        self.quoted.get(index).copied().unwrap_or_default()
    }
}

/// Cuts data into records, however its messages are cut.
#[derive(Debug)]
pub(crate) struct Records {
    options: Options,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were given.
    at: usize,
    /// Number of the line at which the last record began.
    line: u64,
    /// Number of the line at which the next record begins.
    next_line: u64,
    is_started: bool,
    is_ended: bool,
    /// Bytes behind `at` that are no whole record, as far as that was looked at.
    seen: usize,
    /// State of a record of CSV of which a part was read.
    csv: Csv,
}

/// The place in a record of CSV from which it is read on.
#[derive(Debug, Default, Clone, Copy)]
struct Csv {
    at: usize,
    /// Beginning of the field at hand.
    from: usize,
    is_inside: bool,
    is_quoted: bool,
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn behind_end() -> Error {
    bad("received copy data after EOF marker")
}

impl Records {
    /// Returns records of no data so far.
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            buffer: Vec::new(),
            at: 0,
            line: 0,
            next_line: 1,
            is_started: false,
            is_ended: false,
            seen: 0,
            csv: Csv::default(),
        }
    }

    /// Returns the line of the record that was given last.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Takes a piece of data.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<()> {
        if self.is_ended {
            let is_wrong = self.options.format == Format::Binary && !piece.is_empty();
            return if is_wrong { Err(behind_end()) } else { Ok(()) };
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        if self.buffer.len() > RECORD_BYTES_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a record has more than {RECORD_BYTES_MAX} bytes"),
            ));
        }
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    /// Fills `fields` with the next record. Returns false if more data is needed. With `is_last` the data
    /// has come to its end, so that its last line needs no line end.
    pub(crate) fn next(&mut self, fields: &mut Fields, is_last: bool) -> Result<bool> {
        loop {
            if self.is_ended {
                return Ok(false);
            }
            let is_there = match self.options.format {
                Format::Binary => self.next_binary(fields, is_last)?,
                Format::Text => self.next_text(fields, is_last)?,
                Format::Csv => self.next_csv(fields, is_last)?,
            };
            let is_header = is_there && self.options.has_header && !self.is_started;
            self.is_started |= is_there;
            if !is_header {
                return Ok(is_there);
            }
        }
    }

    /// Returns the end of the next line of text without its end, and the place behind it.
    fn line_end(&mut self, is_last: bool) -> Option<(usize, usize)> {
        let rest = &self.buffer[self.at..];
        let mut from = std::mem::take(&mut self.seen);
        let end = loop {
            match rest[from..].iter().position(|byte| *byte == b'\n') {
                Some(found) => {
                    let end = from + found;
                    // A line end behind a backslash is data.
                    let slashes =
                        rest[..end].iter().rev().take_while(|byte| **byte == b'\\').count();
                    if slashes % 2 == 0 {
                        break Some(end);
                    }
                    from = end + 1;
                }
                None => break None,
            }
        };
        match end {
            Some(end) => {
                let bare = if rest[..end].ends_with(b"\r") { end - 1 } else { end };
                Some((self.at + bare, self.at + end + 1))
            }
            None if is_last && !rest.is_empty() => {
                let bare = if rest.ends_with(b"\r") { rest.len() - 1 } else { rest.len() };
                Some((self.at + bare, self.buffer.len()))
            }
            None => {
                self.seen = rest.len();
                None
            }
        }
    }

    fn next_text(&mut self, fields: &mut Fields, is_last: bool) -> Result<bool> {
        let Some((end, next)) = self.line_end(is_last) else { return Ok(false) };
        let mut line = &self.buffer[self.at..end];
        self.line = self.next_line;
        if let Some(mark) = end_mark(line) {
            let is_last_of_line = mark + 2 == line.len();
            if !is_last_of_line || (mark > 0 && self.buffer[next - 1] != b'\n') {
                return Err(bad("end-of-copy marker corrupt"));
            }
            self.is_ended = true;
            if mark == 0 {
                return Ok(false);
            }
            line = &line[..mark];
        }
        self.next_line += self.buffer[self.at..next].iter().filter(|b| **b == b'\n').count() as u64;
        split_text(line, &self.options, fields)?;
        self.at = next;
        Ok(true)
    }

    fn next_csv(&mut self, fields: &mut Fields, is_last: bool) -> Result<bool> {
        let rest = &self.buffer[self.at..];
        if rest.is_empty() {
            return Ok(false);
        }
        if is_end_mark(rest, is_last) {
            self.is_ended = true;
            return Ok(false);
        }
        match split_csv(rest, &self.options, fields, &mut self.csv, is_last)? {
            Some(len) => {
                self.line = self.next_line;
                self.next_line += rest[..len].iter().filter(|b| **b == b'\n').count() as u64;
                self.at += len;
                Ok(true)
            }
            None if is_last => Err(bad("unterminated CSV quoted field")),
            None => Ok(false),
        }
    }

    /// Returns whether binary data ends behind a whole row: some clients send no mark of the end.
    fn is_at_end(&self) -> bool {
        let mut rest = Rest(&self.buffer[self.at..]);
        let is_between_rows = rest.0.is_empty() && (self.is_started || self.line > 0);
        is_between_rows || (header(&mut rest).is_ok() && rest.0.is_empty())
    }

    fn next_binary(&mut self, fields: &mut Fields, is_last: bool) -> Result<bool> {
        let mut rest = Rest(&self.buffer[self.at..]);
        let len = rest.0.len();
        // A long record is tried again when much more of it is there, not for each piece.
        if !is_last && len < (2 * self.seen).min(self.seen + RETRY_BYTES) {
            return Ok(false);
        }
        let found = if self.is_started || self.line > 0 {
            tuple(&mut rest, fields)
        } else {
            header(&mut rest).and_then(|()| {
                self.line = 1;
                tuple(&mut rest, fields)
            })
        };
        match found {
            Ok(false) if !rest.0.is_empty() => Err(behind_end()),
            Ok(is_tuple) => {
                self.at = self.buffer.len() - rest.0.len();
                self.seen = 0;
                self.is_ended = !is_tuple;
                self.line = self.next_line;
                self.next_line += 1;
                Ok(is_tuple)
            }
            Err(Cut::Wrong(message)) => Err(bad(message)),
            Err(Cut::Short) if is_last && self.is_at_end() => Ok(false),
            Err(Cut::Short) if is_last => Err(bad("unexpected EOF in COPY data")),
            Err(Cut::Short) => {
                self.seen = len;
                // The header is read again with the first record.
                if !self.is_started {
                    self.line = 0;
                }
                Ok(false)
            }
        }
    }
}

/// Returns the place of `\.` in a line of the text form, which ends the data.
fn end_mark(line: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = line.get(at..)?.iter().position(|byte| *byte == b'\\') {
        if line.get(at + found + 1) == Some(&b'.') {
            return Some(at + found);
        }
        at += found + 2;
    }
    None
}

/// Splits a line of the text form at delimiters, and takes escapes back.
fn split_text(line: &[u8], options: &Options, fields: &mut Fields) -> Result<()> {
    fields.clear();
    let mut at = 0;
    loop {
        let from = fields.bytes.len();
        let start = at;
        while at < line.len() && line[at] != options.delimiter {
            if line[at] != b'\\' || at + 1 == line.len() {
                fields.bytes.push(line[at]);
                at += 1;
                continue;
            }
            at += 1;
            at += unescape(&line[at..], &mut fields.bytes);
        }
        let is_null = &line[start..at] == options.null.as_bytes();
        fields.end(from, is_null, false)?;
        if at >= line.len() {
            return Ok(());
        }
        at += 1;
    }
}

/// Appends the byte that an escape stands for. Returns the length of the escape behind its backslash.
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
            let value = rest[..digits].iter().fold(0u32, |sum, b| sum * 8 + u32::from(b - b'0'));
            out.push((value & 0xff) as u8);
            return digits;
        }
        b'x' => {
            let digits = rest[1..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
            if digits == 0 {
                out.push(b'x');
                return 1;
            }
            let text = std::str::from_utf8(&rest[1..=digits]).unwrap_or_default();
            out.push(u8::from_str_radix(text, 16).unwrap_or_default());
            return digits + 1;
        }
        other => other,
    };
    out.push(simple);
    1
}

/// Returns whether data of CSV begins with the line that ends it.
fn is_end_mark(rest: &[u8], is_last: bool) -> bool {
    let Some(tail) = rest.strip_prefix(b"\\.") else { return false };
    tail.starts_with(b"\n") || tail.starts_with(b"\r\n") || (is_last && matches!(tail, b"" | b"\r"))
}

/// Splits a record of CSV. Returns its length with its line end, or nothing if more data is needed: then
/// `state` and `fields` have what was read, and the next call continues with them.
fn split_csv(
    data: &[u8],
    options: &Options,
    fields: &mut Fields,
    state: &mut Csv,
    is_last: bool,
) -> Result<Option<usize>> {
    let Csv { mut at, mut from, mut is_inside, mut is_quoted } = std::mem::take(state);
    if at == 0 {
        fields.clear();
    }
    loop {
        let more = Csv { at, from, is_inside, is_quoted };
        let Some(&byte) = data.get(at) else {
            if !is_last || is_inside {
                *state = more;
                return Ok(None);
            }
            let is_null = !is_quoted && fields.bytes[from..] == *options.null.as_bytes();
            fields.end(from, is_null, is_quoted)?;
            return Ok(Some(at));
        };
        let next = data.get(at + 1).copied();
        let is_telling = match is_inside {
            true => byte == options.quote || byte == options.escape,
            false => byte == b'\r',
        };
        if is_telling && next.is_none() && !is_last {
            *state = more;
            return Ok(None);
        }
        at += 1;
        if is_inside {
            if byte == options.escape
                && (next == Some(options.quote)
                    || (next == Some(options.escape) && options.escape != options.quote))
            {
                fields.bytes.extend(next);
                at += 1;
            } else if byte == options.quote {
                is_inside = false;
            } else {
                fields.bytes.push(byte);
            }
            continue;
        }
        let is_line_end = byte == b'\n' || (byte == b'\r' && next == Some(b'\n'));
        if byte == options.quote {
            (is_inside, is_quoted) = (true, true);
        } else if byte == options.delimiter || is_line_end {
            let is_null = !is_quoted && fields.bytes[from..] == *options.null.as_bytes();
            fields.end(from, is_null, is_quoted)?;
            (from, is_quoted) = (fields.bytes.len(), false);
            if is_line_end {
                return Ok(Some(at + usize::from(byte == b'\r')));
            }
        } else {
            fields.bytes.push(byte);
        }
    }
}

/// Reason for which binary data gives no record.
enum Cut {
    Short,
    Wrong(&'static str),
}

/// Data of the binary form that is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Cut> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Cut::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn i32(&mut self) -> Result<i32, Cut> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }
}

fn header(rest: &mut Rest<'_>) -> Result<(), Cut> {
    if rest.take(SIGNATURE.len())? != SIGNATURE {
        return Err(Cut::Wrong("COPY file signature not recognized"));
    }
    if rest.i32()? & 0xffff_0000_u32 as i32 != 0 {
        return Err(Cut::Wrong("unrecognized critical flags in COPY file header"));
    }
    let extension = usize::try_from(rest.i32()?);
    let extension = extension.map_err(|_| Cut::Wrong("invalid COPY file header"))?;
    rest.take(extension).map(drop)
}

/// Reads a record. Returns false for the trailer.
fn tuple(rest: &mut Rest<'_>, fields: &mut Fields) -> Result<bool, Cut> {
    fields.clear();
    let count = rest.take(2)?;
    let count = i16::from_be_bytes([count[0], count[1]]);
    if count == -1 {
        return Ok(false);
    }
    for _ in 0..u16::try_from(count).map_err(|_| Cut::Wrong("invalid field count"))? {
        let from = fields.bytes.len();
        let is_null = match rest.i32()? {
            -1 => true,
            len => {
                let len = usize::try_from(len).map_err(|_| Cut::Wrong("invalid field size"))?;
                fields.bytes.extend_from_slice(rest.take(len)?);
                false
            }
        };
        fields.end(from, is_null, false).map_err(|_| Cut::Wrong("too many fields"))?;
    }
    Ok(true)
}

/// Cuts data of any bytes into records, in one piece and in two: both ways must give the same fields.
pub(crate) fn fuzz(data: &[u8]) {
    let read = |format: Format, pieces: &[&[u8]]| {
        let mut records = Records::new(Options::of_format(format));
        let mut fields = Fields::default();
        let mut out = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            if records.push(piece).is_err() {
                return out;
            }
            while let Ok(true) = records.next(&mut fields, at + 1 == pieces.len()) {
                out.push((0..fields.len()).map(|at| fields.get(at).map(<[u8]>::to_vec)).collect());
            }
        }
        out
    };
    for format in [Format::Text, Format::Csv, Format::Binary] {
        let whole: Vec<Vec<Option<Vec<u8>>>> = read(format, &[data]);
        let (left, right) = data.split_at(data.len() / 2);
        let halves = read(format, &[left, right]);
        assert_eq!(whole, halves, "{format:?} {data:?}");
    }
}

#[cfg(test)]
mod tests;
