//! Failures of single operations.

use googleapis_tonic_google_rpc::google::rpc;
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
            Self::Status(code, _) => {
                let code = rpc::Code::try_from(i32::from(*code));
                code.unwrap_or(rpc::Code::Unknown).as_str_name()
            }
        }
    }

    /// Returns whether the operation failed because no answer came in time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout | Self::Status(Code::DeadlineExceeded, _))
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
