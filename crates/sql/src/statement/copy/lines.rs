//! Rows as lines of data to a client: text, CSV and binary.

use super::options::{Format, Options};
use crate::statement::Column;
use crate::values;
use relational::{Row, Value};

/// First bytes of data in the binary form: signature, flags, length of the extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Last bytes of data in the binary form.
const TRAILER: &[u8] = &[0xff, 0xff];

/// Makes lines of rows, as COPY TO sends them.
pub(crate) struct Lines {
    options: Options,
    columns: std::sync::Arc<[Column]>,
    /// True if the values of a column are always quoted.
    is_quoted: Vec<bool>,
    value: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(options: Options, columns: std::sync::Arc<[Column]>) -> Self {
        let all = options.force_quote.iter().any(|name| name == "*");
        let is_quoted = columns.iter().map(|c| all || options.force_quote.contains(&c.name));
        Self { is_quoted: is_quoted.collect(), options, columns, value: Vec::new() }
    }

    /// Returns what comes before the first row, if anything does.
    pub(crate) fn head(&self) -> Option<Vec<u8>> {
        match self.options.format {
            Format::Binary => Some(HEADER.to_vec()),
            _ if self.options.has_header => {
                let mut line = Vec::new();
                for (number, column) in self.columns.iter().enumerate() {
                    if number > 0 {
                        line.push(self.options.delimiter);
                    }
                    self.put_text(column.name.as_bytes(), false, &mut line);
                }
                line.push(b'\n');
                Some(line)
            }
            _ => None,
        }
    }

    /// Returns what comes behind the last row, if anything does.
    pub(crate) fn tail(&self) -> Option<Vec<u8>> {
        (self.options.format == Format::Binary).then(|| TRAILER.to_vec())
    }

    /// Returns the line of a row.
    pub(crate) fn line(&mut self, row: &Row, settings: &values::Settings) -> Vec<u8> {
        let mut line = Vec::with_capacity(row.len() * 8);
        if self.options.format == Format::Binary {
            self.put_binary(row, settings, &mut line);
            return line;
        }
        let columns = std::sync::Arc::clone(&self.columns);
        for (number, (value, column)) in row.iter().zip(columns.iter()).enumerate() {
            if number > 0 {
                line.push(self.options.delimiter);
            }
            if *value == Value::Null {
                line.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            let mut text = std::mem::take(&mut self.value);
            text.clear();
            values::encode_text(value, &column.data_type, settings, &mut text);
            self.put_text(&text, self.is_quoted[number], &mut line);
            self.value = text;
        }
        line.push(b'\n');
        line
    }

    fn put_binary(&mut self, row: &Row, settings: &values::Settings, line: &mut Vec<u8>) {
        line.extend((row.len() as i16).to_be_bytes());
        for (value, column) in row.iter().zip(self.columns.iter()) {
            if *value == Value::Null {
                line.extend((-1i32).to_be_bytes());
                continue;
            }
            self.value.clear();
            values::encode_binary(value, &column.data_type, settings, &mut self.value);
            line.extend((self.value.len() as i32).to_be_bytes());
            line.extend_from_slice(&self.value);
        }
    }

    fn put_text(&self, text: &[u8], is_forced: bool, line: &mut Vec<u8>) {
        let Options { delimiter, quote, escape, .. } = self.options;
        if self.options.format == Format::Text {
            for &byte in text {
                let letter = match byte {
                    8 => b'b',
                    12 => b'f',
                    b'\n' => b'n',
                    b'\r' => b'r',
                    b'\t' => b't',
                    11 => b'v',
                    b'\\' => b'\\',
                    byte if byte == delimiter => byte,
                    byte => {
                        line.push(byte);
                        continue;
                    }
                };
                line.extend([b'\\', letter]);
            }
            return;
        }
        let is_special =
            |byte: &u8| *byte == delimiter || *byte == quote || matches!(byte, b'\n' | b'\r');
        let is_alone = self.columns.len() == 1 && text == b"\\.";
        let must = is_forced || is_alone || text == self.options.null.as_bytes();
        if !must && !text.iter().any(is_special) {
            line.extend_from_slice(text);
            return;
        }
        line.push(quote);
        for &byte in text {
            if byte == quote || byte == escape {
                line.push(escape);
            }
            line.push(byte);
        }
        line.push(quote);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relational::DataType;

    fn line(options: Options, texts: &[Option<&str>]) -> String {
        let columns = texts.iter().map(|_| Column::computed("c", DataType::Text)).collect();
        let row = texts.iter().map(|text| text.map_or(Value::Null, |t| Value::Text(t.into())));
        let line = Lines::new(options, columns).line(&row.collect(), &values::Settings::default());
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn text_and_csv_are_escaped_as_they_are_read() {
        let text = Options::of(&[], &[]).unwrap();
        assert_eq!(line(text.clone(), &[Some("a\tb\\"), None, Some("")]), "a\\tb\\\\\t\\N\t\n");
        let csv = Options { format: Format::Csv, delimiter: b',', null: String::new(), ..text };
        assert_eq!(line(csv, &[Some("a\"b,c"), None, Some("")]), "\"a\"\"b,c\",,\"\"\n");
    }
}
