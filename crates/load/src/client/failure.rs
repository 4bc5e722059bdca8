//! Failures of single operations.

use tonic::{Code, Status};

/// Longest message of a server that is kept.
const MESSAGE_LEN_MAX: usize = 300;

/// Reason why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server answered with an error, or could not be reached.
    Status(Code, String),
    /// No answer came within the time limit.
    Timeout,
    /// The answer breaks the protocol.
    Protocol(&'static str),
}

impl Failure {
    /// Returns the class that the failure is counted in.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Timeout => "TIMEOUT",
            Self::Protocol(_) => "BROKEN_ANSWER",
            Self::Status(code, _) => match code {
                Code::Ok => "OK",
                Code::Cancelled => "CANCELLED",
                Code::Unknown => "UNKNOWN",
                Code::InvalidArgument => "INVALID_ARGUMENT",
                Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
                Code::NotFound => "NOT_FOUND",
                Code::AlreadyExists => "ALREADY_EXISTS",
                Code::PermissionDenied => "PERMISSION_DENIED",
                Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
                Code::FailedPrecondition => "FAILED_PRECONDITION",
                Code::Aborted => "ABORTED",
                Code::OutOfRange => "OUT_OF_RANGE",
                Code::Unimplemented => "UNIMPLEMENTED",
                Code::Internal => "INTERNAL",
                Code::Unavailable => "UNAVAILABLE",
                Code::DataLoss => "DATA_LOSS",
                Code::Unauthenticated => "UNAUTHENTICATED",
            },
        }
    }

    /// Returns whether another attempt would fail like this one.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Timeout => false,
            Self::Protocol(_) => true,
            Self::Status(code, _) => matches!(
                code,
                Code::InvalidArgument
                    | Code::NotFound
                    | Code::PermissionDenied
                    | Code::FailedPrecondition
                    | Code::OutOfRange
                    | Code::Unimplemented
                    | Code::Unauthenticated
            ),
        }
    }

    /// Returns a sentence for people. Control characters of a server's message are escaped.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Status(_, message) => {
                let escaped = message.escape_debug().take(MESSAGE_LEN_MAX).collect::<String>();
                format!("{}: {escaped}", self.class())
            }
            Self::Timeout => "no answer within --timeout".to_owned(),
            Self::Protocol(what) => format!("the answer breaks the protocol: {what}"),
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status.code(), status.message().chars().take(MESSAGE_LEN_MAX).collect())
    }
}
