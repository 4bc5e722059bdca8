//! The one form of errors of the API: `{"error": {"code": "NOT_FOUND", "message": "..."}}`, with the
//! codes of gRPC. An error of a statement of SQL has more members.

use super::super::super::metrics::requests::code_name;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tonic::{Code, Status};

/// A request of the API that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Failure {
    pub(in super::super) code: Code,
    pub(in super::super) message: String,
    /// Further members of the error, none of which is named `code` or `message`.
    more: Map<String, Value>,
}

impl Failure {
    pub(in super::super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), more: Map::new() }
    }

    /// Adds a member to the error.
    #[cfg(feature = "sql")]
    pub(in super::super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Returns the failure of a parameter of the request.
    pub(in super::super) fn parameter(name: &str, rule: impl std::fmt::Display) -> Self {
        Self::new(Code::InvalidArgument, format!("{name}: {rule}"))
    }

    /// Returns the failure of a server that is not ready yet.
    pub(in super::super) fn opening() -> Self {
        Self::new(Code::Unavailable, "the data directory is still opening; retry soon")
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::new(status.code(), status.message())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.code {
            Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::FailedPrecondition | Code::Aborted | Code::AlreadyExists => StatusCode::CONFLICT,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut error = self.more;
        error.insert("code".to_owned(), code_name(self.code).into());
        error.insert("message".to_owned(), self.message.into());
        (status, Json(json!({ "error": error }))).into_response()
    }
}

/// Answers a request of a path that the API does not have.
pub(in super::super) async fn unknown_path() -> Failure {
    Failure::new(Code::NotFound, "the API of the console has no such path; see docs/console.md")
}

/// Answers a request of a method that the path does not have.
pub(in super::super) async fn wrong_method() -> Failure {
    Failure::new(Code::Unimplemented, "the path has no such method; see docs/console.md")
}
