//! Errors and notices as messages to a client.

use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use relational::{Error, SqlState};

/// Weight of an error or notice, as clients are told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The statement failed, and the session goes on.
    Error,
    /// The connection ends, and the client may be told why.
    Fatal,
}

/// A message beside the result of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    severity: &'static str,
    state: SqlState,
    message: String,
}

impl Notice {
    /// Returns a notice of something that was not needed.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { severity: "NOTICE", state: SqlState::SUCCESSFUL_COMPLETION, message: message.into() }
    }

    /// Returns a warning with its state.
    pub(crate) fn warning(state: SqlState, message: impl Into<String>) -> Self {
        Self { severity: "WARNING", state, message: message.into() }
    }

    /// Returns the message to the client.
    pub(crate) fn to_message(&self) -> PgWireBackendMessage {
        let fields = vec![
            (b'S', self.severity.to_owned()),
            (b'V', self.severity.to_owned()),
            (b'C', self.state.to_string()),
            (b'M', text(&self.message)),
        ];
        PgWireBackendMessage::NoticeResponse(NoticeResponse::new(fields))
    }
}

/// Returns the message that tells a client of `error`.
pub(crate) fn error_message(error: &Error, severity: Severity) -> PgWireBackendMessage {
    let severity = match severity {
        Severity::Error => "ERROR",
        Severity::Fatal => "FATAL",
    };
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', error.state.to_string()),
        (b'M', text(&error.message)),
    ];
    let optional = [
        (b'D', &error.detail),
        (b'H', &error.hint),
        (b'W', &error.context),
        (b's', &error.schema),
        (b't', &error.table),
        (b'c', &error.column),
        (b'd', &error.data_type),
        (b'n', &error.constraint),
    ];
    for (code, value) in optional {
        fields.extend(value.as_deref().map(|value| (code, text(value))));
    }
    fields.extend(error.position.map(|position| (b'P', position.to_string())));
    PgWireBackendMessage::ErrorResponse(ErrorResponse::new(fields))
}

/// Returns `value` without zeros, which end a text in a message.
fn text(value: &str) -> String {
    value.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_carries_state_constraint_and_position() {
        let error = Error::new(SqlState::UNIQUE_VIOLATION, "duplicate\0key")
            .with_detail("Key (a)=(1) already exists.")
            .of_table("public", "t")
            .of_constraint("t_pkey")
            .at(7);
        let PgWireBackendMessage::ErrorResponse(response) = error_message(&error, Severity::Error)
        else {
            panic!("no error");
        };
        let field = |code: u8| {
            let found = response.fields.iter().find(|(name, _)| *name == code);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(field(b'S'), Some("ERROR"));
        assert_eq!(field(b'C'), Some("23505"));
        assert_eq!(field(b'M'), Some("duplicate\u{fffd}key"));
        assert_eq!(field(b'n'), Some("t_pkey"));
        assert_eq!(field(b'P'), Some("7"));
        assert_eq!(field(b'H'), None);
    }
}
