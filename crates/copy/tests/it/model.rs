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
        let (state, place) = match model.record() {
            Ok(None) => return Outcome { rows, problem: None },
            Ok(Some(record)) => match model.row(&record) {
                Ok(row) => {
                    rows.push(row);
                    if record.is_last {
                        return Outcome { rows, problem: None };
                    }
                    continue;
                }
                Err((state, place)) => (state, start + place),
            },
            Err(state) => (state, start),
        };
        return Outcome { rows, problem: Some((state, model.line_at(place))) };
    }
}

impl<'a> Model<'a> {
    fn is_csv(&self) -> bool {
        self.options.format == Format::Csv
    }

    /// Returns the line of a place. Quoted line ends of CSV count, and escaped ones of text do
    /// not.
    fn line_at(&self, place: usize) -> u64 {
        let (mut line, mut at) = (1, 0);
        let line_end = self.line_end.unwrap_or(b"\n");
        let counted = if self.is_csv() { line_end[0] } else { line_end[line_end.len() - 1] };
        while at < place {
            line += u64::from(self.data[at] == counted);
            at += if !self.is_csv() && self.data[at] == b'\\' { 2 } else { 1 };
        }
        line
    }

    /// Takes the next record; nothing at the end of the data.
    fn record(&mut self) -> Result<Option<Record<'a>>, &'static str> {
        let (data, start) = (self.data, self.at);
        if start == data.len() {
            return Ok(None);
        }
        if self.is_csv() && data[start..].starts_with(b"\\.") {
            let behind = &data[start + 2..];
            let line_end = self.line_end.unwrap_or_default();
            let is_wrong = match line_end {
                b"\n" => behind.starts_with(b"\r"),
                b"\r" => behind.starts_with(b"\n"),
                b"\r\n" => behind.starts_with(b"\r\r"),
                _ => false,
            };
            if is_wrong {
                return Err("22P04");
            }
            // Before the first line end, any is right.
            let is_any = line_end.is_empty() && matches!(behind.first(), Some(b'\n' | b'\r'));
            if is_any || (!line_end.is_empty() && behind.starts_with(line_end)) {
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

    /// Returns the values of a record. Errors have the place in it at which they are found.
    fn row(&self, record: &Record<'_>) -> Result<Row, (&'static str, usize)> {
        let zero = record.bytes.iter().position(|byte| *byte == 0);
        let not_utf8 = std::str::from_utf8(record.bytes).err().map(|error| error.valid_up_to());
        if let Some(bad) = zero.into_iter().chain(not_utf8).min() {
            return Err(("22021", bad));
        }
        if let Some(stray) = self.stray(record.content) {
            return Err(("22P04", stray));
        }
        self.fields(record.content).map_err(|state| (state, record.content.len()))
    }

    fn fields(&self, content: &[u8]) -> Result<Row, &'static str> {
        let fields =
            if self.is_csv() { self.csv_fields(content)? } else { self.text_fields(content) };
        let is_bad = |field: &Option<Vec<u8>>| {
            let bytes = field.as_deref().unwrap_or_default();
            bytes.contains(&0) || std::str::from_utf8(bytes).is_err()
        };
        if fields.iter().any(is_bad) {
            return Err("22021");
        }
        if fields.len() == self.columns { Ok(fields) } else { Err("22P04") }
    }

    /// Returns the place of a byte of another line end.
    fn stray(&self, content: &[u8]) -> Option<usize> {
        let (mut is_inside, mut is_escaped) = (false, false);
        for (at, &byte) in content.iter().enumerate() {
            let is_line_end = matches!(byte, b'\n' | b'\r');
            if !self.is_csv() {
                if is_line_end && !is_escaped {
                    return Some(at);
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
                return Some(at);
            }
        }
        None
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
