//! Errors of COPY as an SQL client sees them: state, message, and the place in the data.

use std::fmt;

/// Result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Most bytes of a value or a line that an error shows.
pub const SHOWN_BYTES_MAX: usize = 100;

/// A SQLSTATE: five digits and capital letters that say what went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct State(pub [u8; 5]);

impl State {
    /// A message ends too early.
    pub const PROTOCOL_VIOLATION: Self = Self(*b"08P01");
    /// The statement asks for something that is not supported.
    pub const FEATURE_NOT_SUPPORTED: Self = Self(*b"0A000");
    /// A text is longer than its column allows.
    pub const STRING_DATA_RIGHT_TRUNCATION: Self = Self(*b"22001");
    /// A number is beyond the range of its type.
    pub const NUMERIC_VALUE_OUT_OF_RANGE: Self = Self(*b"22003");
    /// A date or a time has another form.
    pub const INVALID_DATETIME_FORMAT: Self = Self(*b"22007");
    /// A field of a date or a time is beyond its range.
    pub const DATETIME_FIELD_OVERFLOW: Self = Self(*b"22008");
    /// Bytes are no UTF-8, or are zero.
    pub const CHARACTER_NOT_IN_REPERTOIRE: Self = Self(*b"22021");
    /// An option, or the digits of bytes, are wrong.
    pub const INVALID_PARAMETER_VALUE: Self = Self(*b"22023");
    /// A value has no form that its type reads.
    pub const INVALID_TEXT_REPRESENTATION: Self = Self(*b"22P02");
    /// The binary form of a value is wrong.
    pub const INVALID_BINARY_REPRESENTATION: Self = Self(*b"22P03");
    /// The data is no COPY data of its format.
    pub const BAD_COPY_FILE_FORMAT: Self = Self(*b"22P04");
    /// A record or a batch is larger than a limit.
    pub const PROGRAM_LIMIT_EXCEEDED: Self = Self(*b"54000");
    /// An invariant of the program is broken.
    pub const INTERNAL_ERROR: Self = Self(*b"XX000");

    /// Returns the code as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The part that an error shows of the data beside its line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// The column, and its value unless the data is binary.
    Column(String, Option<String>),
    /// The line, if no column is known.
    Line(String),
}

/// The fields of an [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fields {
    state: State,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    line: Option<u64>,
    shown: Shown,
}

/// An error, of the size of a pointer.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Fields>);

impl Error {
    /// Returns an error without a place.
    pub fn new(state: State, message: impl Into<String>) -> Self {
        let (message, shown) = (message.into(), Shown::Nothing);
        Self(Box::new(Fields { state, message, detail: None, hint: None, line: None, shown }))
    }

    /// Returns the error of data that is no COPY data (22P04).
    pub(crate) fn format(message: impl Into<String>) -> Self {
        Self::new(State::BAD_COPY_FILE_FORMAT, message)
    }

    /// Adds the bound that was passed, or other facts that the message leaves out.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds advice to the error.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the line, from 1, unless the error has one.
    pub(crate) fn at_line(mut self, line: u64) -> Self {
        self.0.line.get_or_insert(line);
        self
    }

    /// Shows a line of text, cut to [`SHOWN_BYTES_MAX`], unless the error shows something.
    pub(crate) fn showing_line(mut self, line: &[u8]) -> Self {
        if self.0.shown == Shown::Nothing {
            self.0.shown = Shown::Line(shorten(line));
        }
        self
    }

    /// Names the column, and its value cut to [`SHOWN_BYTES_MAX`].
    pub(crate) fn in_column(mut self, column: &str, value: Option<&[u8]>) -> Self {
        if self.0.shown == Shown::Nothing {
            self.0.shown = Shown::Column(column.to_owned(), value.map(shorten));
        }
        self
    }

    /// Returns the code of the condition.
    pub fn state(&self) -> State {
        self.0.state
    }

    /// Returns one line for a human being.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns facts that the message leaves out, if there are any.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Returns advice, if there is any.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the line of the data, from 1. In binary data it is the number of the row.
    pub fn line(&self) -> Option<u64> {
        self.0.line
    }

    /// Returns the column that the error is about.
    pub fn column(&self) -> Option<&str> {
        match &self.0.shown {
            Shown::Column(column, _) => Some(column),
            _ => None,
        }
    }

    /// Returns the context of the error, as in `COPY t, line 3, column a: "x"`.
    pub fn context(&self, table: &str) -> Option<String> {
        let place = format!("COPY {table}, line {}", self.0.line?);
        Some(match &self.0.shown {
            Shown::Nothing => place,
            Shown::Column(column, None) => format!("{place}, column {column}"),
            Shown::Column(column, Some(value)) => format!("{place}, column {column}: \"{value}\""),
            Shown::Line(line) => format!("{place}: \"{line}\""),
        })
    }
}

/// Returns the first [`SHOWN_BYTES_MAX`] bytes as text, with dots behind if more follow. It has no zero
/// byte, which would end it in a message of the protocol.
pub(crate) fn shorten(bytes: &[u8]) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}");
    if bytes.len() <= SHOWN_BYTES_MAX {
        return text(bytes);
    }
    let mut end = SHOWN_BYTES_MAX;
    while end > SHOWN_BYTES_MAX - 3 && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    format!("{}...", text(&bytes[..end]))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}
