//! The options of `COPY`, checked.

use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, Ident};
use relational::{Error, Result, SqlState};

/// Form of the data that COPY reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Csv,
    Binary,
}

/// Options of one `COPY`, with defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) format: Format,
    pub(crate) delimiter: u8,
    /// Text that stands for NULL.
    pub(crate) null: String,
    /// True if the first line has the names of the columns.
    pub(crate) has_header: bool,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    /// Columns whose values are quoted, in CSV to the client; `*` is one name.
    pub(crate) force_quote: Vec<String>,
    /// Columns whose values are never NULL, in CSV from the client.
    pub(crate) force_not_null: Vec<String>,
    /// Columns whose quoted values may be NULL, in CSV from the client.
    pub(crate) force_null: Vec<String>,
}

impl Options {
    /// Returns the defaults of a form.
    pub(super) fn of_format(format: Format) -> Self {
        let is_csv = format == Format::Csv;
        Self {
            format,
            delimiter: if is_csv { b',' } else { b'\t' },
            null: if is_csv { String::new() } else { "\\N".to_owned() },
            has_header: false,
            quote: b'"',
            escape: b'"',
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        }
    }
}

/// Options as they are written, before defaults.
#[derive(Default)]
struct Written {
    format: Option<Format>,
    delimiter: Option<char>,
    null: Option<String>,
    has_header: bool,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Vec<String>,
    force_not_null: Vec<String>,
    force_null: Vec<String>,
}

impl Options {
    /// Returns the options of a statement.
    pub(crate) fn of(new: &[CopyOption], old: &[CopyLegacyOption]) -> Result<Self> {
        let mut written = Written::default();
        new.iter().try_for_each(|option| written.take(option))?;
        old.iter().try_for_each(|option| written.take_legacy(option))?;
        written.check()
    }
}

fn names(idents: &[Ident]) -> Vec<String> {
    idents.iter().map(crate::statement::name_of).collect()
}

impl Written {
    fn take(&mut self, option: &CopyOption) -> Result<()> {
        match option {
            CopyOption::Format(name) => {
                self.format = Some(match name.value.to_ascii_lowercase().as_str() {
                    "text" => Format::Text,
                    "csv" => Format::Csv,
                    "binary" => Format::Binary,
                    other => {
                        let message = format!("COPY format \"{other}\" not recognized");
                        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
                    }
                });
            }
            // Rows that a transaction wrote are visible as any others here: nothing is to be frozen.
            CopyOption::Freeze(_) => {}
            CopyOption::Delimiter(delimiter) => self.delimiter = Some(*delimiter),
            CopyOption::Null(null) => self.null = Some(null.clone()),
            CopyOption::Header(has_header) => self.has_header = *has_header,
            CopyOption::Quote(quote) => self.quote = Some(*quote),
            CopyOption::Escape(escape) => self.escape = Some(*escape),
            CopyOption::ForceQuote(columns) => self.force_quote = names(columns),
            CopyOption::ForceNotNull(columns) => self.force_not_null = names(columns),
            CopyOption::ForceNull(columns) => self.force_null = names(columns),
            CopyOption::Encoding(name) => {
                if !matches!(name.to_ascii_uppercase().as_str(), "UTF8" | "UTF-8" | "UNICODE") {
                    return Err(Error::unsupported(format!("COPY with encoding {name}")));
                }
            }
        }
        Ok(())
    }

    fn take_legacy(&mut self, option: &CopyLegacyOption) -> Result<()> {
        match option {
            CopyLegacyOption::Binary => self.format = Some(Format::Binary),
            CopyLegacyOption::Delimiter(delimiter) => self.delimiter = Some(*delimiter),
            CopyLegacyOption::Null(null) => self.null = Some(null.clone()),
            CopyLegacyOption::Header => self.has_header = true,
            CopyLegacyOption::Csv(options) => {
                self.format = Some(Format::Csv);
                for option in options {
                    match option {
                        CopyLegacyCsvOption::Header => self.has_header = true,
                        CopyLegacyCsvOption::Quote(quote) => self.quote = Some(*quote),
                        CopyLegacyCsvOption::Escape(escape) => self.escape = Some(*escape),
                        CopyLegacyCsvOption::ForceQuote(columns) => {
                            self.force_quote = names(columns);
                        }
                        CopyLegacyCsvOption::ForceNotNull(columns) => {
                            self.force_not_null = names(columns);
                        }
                    }
                }
            }
            other => return Err(Error::unsupported(format!("COPY option {other}"))),
        }
        Ok(())
    }

    fn check(self) -> Result<Options> {
        let format = self.format.unwrap_or(Format::Text);
        let refused = |message: &str| Err(Error::new(SqlState::SYNTAX_ERROR, message));
        let is_csv = format == Format::Csv;
        if format == Format::Binary
            && (self.delimiter.is_some() || self.null.is_some() || self.has_header)
        {
            return refused("cannot specify DELIMITER, NULL or HEADER in BINARY mode");
        }
        let has_csv_option = self.quote.is_some()
            || self.escape.is_some()
            || !self.force_quote.is_empty()
            || !self.force_not_null.is_empty()
            || !self.force_null.is_empty();
        if !is_csv && has_csv_option {
            return refused("COPY quote, escape and force options need CSV mode");
        }
        let delimiter =
            byte("delimiter", self.delimiter.unwrap_or(if is_csv { ',' } else { '\t' }))?;
        let quote = byte("quote", self.quote.unwrap_or('"'))?;
        let escape = self.escape.map_or(Ok(quote), |escape| byte("escape", escape))?;
        let null = self.null.unwrap_or_else(|| if is_csv { "".into() } else { "\\N".into() });
        let is_taken = matches!(delimiter, b'\n' | b'\r') || null.contains(['\n', '\r']);
        if is_taken || (is_csv && delimiter == quote) {
            return refused("COPY delimiter, quote and null must differ and have no line ends");
        }
        if !is_csv
            && (delimiter.is_ascii_lowercase()
                || delimiter.is_ascii_digit()
                || matches!(delimiter, b'\\' | b'.'))
        {
            let message = format!("COPY delimiter cannot be \"{}\"", char::from(delimiter));
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Ok(Options {
            format,
            delimiter,
            null,
            has_header: self.has_header,
            quote,
            escape,
            force_quote: self.force_quote,
            force_not_null: self.force_not_null,
            force_null: self.force_null,
        })
    }
}

fn byte(what: &str, character: char) -> Result<u8> {
    u8::try_from(character).ok().filter(u8::is_ascii).ok_or_else(|| {
        let message = format!("COPY {what} must be a single one-byte character");
        Error::unsupported(message)
    })
}
