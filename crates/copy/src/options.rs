//! The options of COPY, checked.

use crate::error::{Error, Result, State};

/// The form of the data, which all options depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Fields between tabs, with backslash escapes.
    Text,
    /// Fields between commas, with quotes.
    Csv,
    /// Rows of length-prefixed values in network byte order.
    Binary,
}

/// The first line of text or CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// A row as any other.
    None,
    /// Names of columns, which are not looked at.
    Skip,
    /// Names of columns, which must be the names in the statement.
    Match,
}

/// Options of one COPY. [`Options::of_format`] has the defaults; [`Options::check`] refuses what
/// contradicts itself. Names of FORCE options are flags of a [`Column`](crate::Column).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The form of the data, which all options depend on.
    pub format: Format,
    /// Byte between fields, a tab or a comma by default.
    pub delimiter: u8,
    /// Text that stands for NULL, `\N` or nothing by default.
    pub null: String,
    /// Kind of the first line, a row by default.
    pub header: Header,
    /// Byte around values of CSV, `"` by default.
    pub quote: u8,
    /// Byte before a quote in a quoted value, the quote itself by default.
    pub escape: u8,
}

impl Options {
    /// Returns the defaults of a format.
    pub fn of_format(format: Format) -> Self {
        let is_csv = format == Format::Csv;
        Self {
            format,
            delimiter: if is_csv { b',' } else { b'\t' },
            null: if is_csv { String::new() } else { "\\N".to_owned() },
            header: Header::None,
            quote: b'"',
            escape: b'"',
        }
    }

    /// Checks that a reader can tell fields, NULL and line ends apart. Errors have PostgreSQL's codes. A
    /// line end as a quote or an escape, which PostgreSQL takes, is 22023.
    pub fn check(&self) -> Result<()> {
        let unsupported = |message: &str| Err(Error::new(State::FEATURE_NOT_SUPPORTED, message));
        if self.format == Format::Binary {
            return match self.header {
                Header::None => Ok(()),
                _ => unsupported("cannot specify HEADER in BINARY mode"),
            };
        }
        let is_csv = self.format == Format::Csv;
        let wrong = |message: &str| Err(Error::new(State::INVALID_PARAMETER_VALUE, message));
        let bytes = [self.delimiter, self.quote, self.escape];
        if !bytes.iter().all(|byte| byte.is_ascii() && *byte != 0) {
            return unsupported(
                "COPY delimiter, quote and escape must be single one-byte characters",
            );
        }
        let is_line_end = |byte: u8| matches!(byte, b'\n' | b'\r');
        if is_line_end(self.delimiter) {
            return wrong("COPY delimiter cannot be newline or carriage return");
        }
        if self.null.bytes().any(|byte| is_line_end(byte) || byte == 0) {
            return wrong("COPY null representation cannot use newline or carriage return");
        }
        let is_letter = self.delimiter.is_ascii_lowercase() || self.delimiter.is_ascii_digit();
        if !is_csv && (is_letter || matches!(self.delimiter, b'\\' | b'.')) {
            let message = format!("COPY delimiter cannot be \"{}\"", char::from(self.delimiter));
            return wrong(&message);
        }
        if self.null.as_bytes().contains(&self.delimiter) {
            return unsupported("COPY delimiter must not appear in the NULL specification");
        }
        if !is_csv {
            return Ok(());
        }
        if is_line_end(self.quote) || is_line_end(self.escape) {
            return wrong("COPY quote and escape cannot be newline or carriage return");
        }
        if self.delimiter == self.quote {
            return wrong("COPY delimiter and quote must be different");
        }
        if self.null.as_bytes().contains(&self.quote) {
            return unsupported("CSV quote character must not appear in the NULL specification");
        }
        Ok(())
    }
}
