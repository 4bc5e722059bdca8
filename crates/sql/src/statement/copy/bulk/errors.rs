//! Errors of a bulk load: of its data, of its columns, and which of several is told.

use ::copy::State;
use relational::{Error, SqlState};

/// An error with its line in the data, as far as it has one.
pub(super) struct Failure {
    line: Option<u64>,
    pub(super) error: Error,
}

impl Failure {
    /// Returns an error of the data of a table, with its place as the context.
    pub(super) fn of_copy(problem: &::copy::Error, table: &str) -> Self {
        let state = SqlState::from_code(problem.state().as_str());
        let mut error = Error::new(state.unwrap_or(SqlState::INTERNAL_ERROR), problem.message());
        error.detail = problem.detail().map(str::to_owned);
        error.hint = problem.hint().map(str::to_owned);
        error.context = problem.context(table);
        Self { line: problem.line(), error }
    }

    /// Returns true if the data has this error before the other. Errors without a line come last.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        match (self.line, other.line) {
            (Some(this), Some(other)) => this < other,
            (this, other) => this.is_some() && other.is_none(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { line: None, error }
    }
}

/// Returns an error of a value in the form that the parser adds its place to.
pub(super) fn to_copy(error: &Error) -> ::copy::Error {
    let code: Result<[u8; 5], _> = error.state.code().as_bytes().try_into();
    let state = code.map_or(State::INTERNAL_ERROR, State);
    let mut problem = ::copy::Error::new(state, error.message.as_str());
    if let Some(detail) = &error.detail {
        problem = problem.with_detail(detail.as_str());
    }
    if let Some(hint) = &error.hint {
        problem = problem.with_hint(hint.as_str());
    }
    problem
}

/// Returns an error of columns that become pages: a value may be too long for them (54000).
pub(super) fn of_columnar(problem: columnar::Error) -> Error {
    match problem {
        columnar::Error::InvalidArgument(what) => {
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
        }
        other => Error::internal(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_the_first_line_is_told() {
        let of_line = |line| Failure { line, error: Error::internal("an error") };
        assert!(of_line(Some(3)).is_before(&of_line(Some(4))));
        assert!(of_line(Some(3)).is_before(&of_line(None)));
        assert!(!of_line(Some(3)).is_before(&of_line(Some(3))));
        assert!(!of_line(None).is_before(&of_line(Some(3))));
        assert!(!of_line(None).is_before(&of_line(None)));
    }

    #[test]
    fn an_error_of_a_value_keeps_its_state_and_its_texts() {
        let error = Error::new(SqlState::INVALID_DATETIME_FORMAT, "a message");
        let error = error.with_detail("a detail").with_hint("a hint");
        let back = Failure::of_copy(&to_copy(&error), "t");
        assert_eq!(back.error, error);
        assert_eq!(back.line, None);
    }
}
