//! COPY read byte by byte, for columns of text, as a model that is too plain to be wrong.
//!
//! A record is found first, then checked, then cut into fields.

use copy::{Format, Options};

pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// Rows before a problem, and the problem: its SQLSTATE and line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    pub(crate) problem: Option<(&'static str, u64)>,
}

struct Model<'a> {
    data: &'a [u8],
    options: &'a Options,
    columns: usize,
    /// The line end, once a line has ended.
    line_end: Option<&'static [u8]>,
    at: usize,
}

/// A record: its bytes with its line end, and whether the data ends behind it.
struct Record<'a> {
    bytes: &'a [u8],
    content: &'a [u8],
    is_last: bool,
}

pub(crate) fn model(data: &[u8], options: &Options, columns: usize) -> Outcome {
    let mut model = Model { data, options, columns, line_end: None, at: 0 };
    let mut rows = Vec::new();
    loop {
        let start = model.at;
        let problem = match model.record() {
            Ok(None) => return Outcome { rows, problem: None },
            Ok(Some(record)) => match model.row(&record) {
                Ok(row) => {
                    rows.push(row);
                    if record.is_last {
                        return Outcome { rows, problem: None };
                    }
                    continue;
                }
                Err(state) => state,
            },
            Err(state) => state,
        };
        let last = if model.line_end == Some(b"\r") { b'\r' } else { b'\n' };
        let line = 1 + data[..start].iter().filter(|byte| **byte == last).count() as u64;
        return Outcome { rows, problem: Some((problem, line)) };
    }
}

impl<'a> Model<'a> {
    fn is_csv(&self) -> bool {
        self.options.format == Format::Csv
    }

    /// Takes the next record; nothing at the end of the data.
    fn record(&mut self) -> Result<Option<Record<'a>>, &'static str> {
        let (data, start) = (self.data, self.at);
        if start == data.len() {
            return Ok(None);
        }
        if self.is_csv() && data[start..].starts_with(b"\\.") {
            let behind = data.get(start + 2);
            if matches!(behind, None | Some(b'\n' | b'\r')) {
                return Ok(None);
            }
        }
        let mut at = start;
        let (mut is_inside, mut is_escaped) = (false, false);
        // The place behind the last escape of text.
        let mut escaped = start;
        while at < data.len() {
            let byte = data[at];
            if self.is_csv() {
                let (quote, escape) = (self.options.quote, self.options.escape);
                if is_inside && byte == escape && escape != quote {
                    is_escaped = !is_escaped;
                } else {
                    if byte == quote && !is_escaped {
                        is_inside = !is_inside;
                    }
                    is_escaped = false;
                }
                if is_inside || byte == quote {
                    at += 1;
                    continue;
                }
            } else if byte == b'\\' {
                if data.get(at + 1) == Some(&b'.') {
                    return self.mark(start, at);
                }
                at += 2;
                escaped = at;
                continue;
            }
            if !matches!(byte, b'\n' | b'\r') {
                at += 1;
                continue;
            }
            let line_end = *self.line_end.get_or_insert(match (byte, data.get(at + 1)) {
                (b'\n', _) => b"\n",
                (_, Some(b'\n')) => b"\r\n",
                _ => b"\r",
            });
            at += 1;
            // Another byte is a stray one, which is found when the record is whole.
            if byte == line_end[line_end.len() - 1] {
                let is_whole = self.is_csv() || escaped + line_end.len() <= at;
                return Ok(Some(self.take(start, at, is_whole, false)));
            }
        }
        Ok(Some(self.take(start, data.len(), false, false)))
    }

    /// Takes bytes; with `has_end` they may have a line end behind the content.
    fn take(&mut self, start: usize, end: usize, has_end: bool, is_last: bool) -> Record<'a> {
        self.at = end;
        let bytes = &self.data[start..end];
        let line_end = self.line_end.filter(|_| has_end).unwrap_or_default();
        let content = bytes.strip_suffix(line_end).unwrap_or(bytes);
        Record { bytes, content, is_last }
    }

    /// Takes the end mark of text at a place.
    fn mark(&mut self, start: usize, at: usize) -> Result<Option<Record<'a>>, &'static str> {
        let behind = &self.data[at + 2..];
        let found: Option<&[u8]> = match (behind, self.line_end) {
            ([], _) if at == start => return Ok(None),
            ([b'\r', b'\n', ..], line_end) if line_end != Some(b"\r") => Some(b"\r\n"),
            ([b'\r', ..], _) => Some(b"\r"),
            ([b'\n', ..], _) => Some(b"\n"),
            _ => None,
        };
        let is_right = match (found, self.line_end) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(found), Some(line_end)) => found == line_end,
        };
        if !is_right {
            return Err("22P04");
        }
        if at == start { Ok(None) } else { Ok(Some(self.take(start, at, false, true))) }
    }

    fn row(&self, record: &Record<'_>) -> Result<Row, &'static str> {
        let bytes = record.bytes;
        if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() {
            return Err("22021");
        }
        if self.has_stray(record.content) {
            return Err("22P04");
        }
        let fields = if self.is_csv() {
            self.csv_fields(record.content)?
        } else {
            self.text_fields(record.content)
        };
        if fields.len() > self.columns {
            return Err("22P04");
        }
        let is_bad = |field: &Option<Vec<u8>>| {
            let bytes = field.as_deref().unwrap_or_default();
            bytes.contains(&0) || std::str::from_utf8(bytes).is_err()
        };
        if fields.iter().any(is_bad) {
            return Err("22021");
        }
        if fields.len() < self.columns { Err("22P04") } else { Ok(fields) }
    }

    fn has_stray(&self, content: &[u8]) -> bool {
        let (mut is_inside, mut is_escaped) = (false, false);
        for &byte in content {
            let is_line_end = matches!(byte, b'\n' | b'\r');
            if !self.is_csv() {
                if is_line_end && !is_escaped {
                    return true;
                }
                is_escaped = byte == b'\\' && !is_escaped;
                continue;
            }
            let (quote, escape) = (self.options.quote, self.options.escape);
            if is_inside && byte == escape && escape != quote {
                is_escaped = !is_escaped;
                continue;
            }
            if byte == quote && !is_escaped {
                is_inside = !is_inside;
            }
            is_escaped = false;
            if is_line_end && !is_inside {
                return true;
            }
        }
        false
    }

    fn text_fields(&self, content: &[u8]) -> Row {
        let (mut fields, mut value, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = 0;
        loop {
            if at == content.len() || content[at] == self.options.delimiter {
                let is_null = raw == self.options.null.as_bytes();
                fields.push((!is_null).then(|| std::mem::take(&mut value)));
                value.clear();
                raw.clear();
                if at == content.len() {
                    return fields;
                }
                at += 1;
                continue;
            }
            let from = at;
            at += 1;
            if content[from] == b'\\' {
                let rest = &content[at..];
                let digits = |radix: u32, from: usize, most: usize| {
                    let rest = rest.get(from..).unwrap_or_default().iter().take(most);
                    let digits: Vec<u32> =
                        rest.map_while(|byte| char::from(*byte).to_digit(radix)).collect();
                    let number = digits.iter().fold(0, |sum, digit| sum * radix + digit);
                    (number as u8, digits.len())
                };
                let (octal, octal_len) = digits(8, 0, 3);
                let (hex, hex_len) = digits(16, 1, 2);
                match rest.first() {
                    None => {}
                    Some(b'0'..=b'7') => {
                        value.push(octal);
                        at += octal_len;
                    }
                    Some(b'x') if hex_len > 0 => {
                        value.push(hex);
                        at += 1 + hex_len;
                    }
                    Some(byte) => {
                        let letters = b"bfnrtv".iter().position(|letter| letter == byte);
                        value.push(letters.map_or(*byte, |at| b"\x08\x0c\n\r\t\x0b"[at]));
                        at += 1;
                    }
                }
            } else {
                value.push(content[from]);
            }
            raw.extend_from_slice(&content[from..at]);
        }
    }

    fn csv_fields(&self, content: &[u8]) -> Result<Row, &'static str> {
        let Options { delimiter, quote, escape, .. } = *self.options;
        let (mut fields, mut value) = (Vec::new(), Vec::new());
        let (mut is_inside, mut was_quoted) = (false, false);
        let mut bytes = content.iter().copied().peekable();
        loop {
            let next = bytes.next();
            match next {
                Some(byte) if is_inside => {
                    let after = bytes.peek().copied();
                    if byte == escape && (after == Some(quote) || after == Some(escape)) {
                        value.extend(bytes.next());
                    } else if byte == quote {
                        is_inside = false;
                    } else {
                        value.push(byte);
                    }
                }
                Some(byte) if byte == quote => (is_inside, was_quoted) = (true, true),
                Some(byte) if byte != delimiter => value.push(byte),
                None if is_inside => return Err("22P04"),
                _ => {
                    let is_null = !was_quoted && value == self.options.null.as_bytes();
                    fields.push((!is_null).then(|| std::mem::take(&mut value)));
                    value.clear();
                    was_quoted = false;
                    if next.is_none() {
                        return Ok(fields);
                    }
                }
            }
        }
    }
}
