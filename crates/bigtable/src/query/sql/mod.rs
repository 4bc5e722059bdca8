//! The language of queries: from the text of a statement to typed expressions, and their values.
//!
//! In comes a statement, the schema of its table and the types of its parameters. Out come the
//! columns of its result and its conditions, as expressions that can be evaluated for one row. The
//! room does no I/O and knows nothing of how rows are read.
//!
//! `lexer.rs` cuts the text into tokens. `parse.rs` takes the syntax tree apart, and refuses every
//! clause that is not served, by name. `literals.rs` reads literals. `analyze.rs` finds out what names stand for and checks types, with
//! `coerce.rs` and `functions.rs`. `expr.rs` evaluates, with `casts.rs` and `types.rs`.

pub(crate) mod analyze;
mod casts;
mod coerce;
pub(crate) mod expr;
pub(crate) mod functions;
mod lexer;
mod literals;
pub(crate) mod parse;
pub(crate) mod types;

/// The reason why a query is not run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The query is wrong, or a parameter is.
    Invalid(String),
    /// The query uses something that this server does not have.
    Unsupported(String),
    /// A value cannot be computed, as the cast of a text that is no number.
    Value(String),
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

/// Refuses a query that is wrong.
pub(crate) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Refusal::Invalid(message.into()))
}

/// Refuses a query for something that this server does not have.
pub(crate) fn unsupported<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(Refusal::Unsupported(format!("{what} is not supported by this server")))
}

/// Returns the text for a message: short, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}
