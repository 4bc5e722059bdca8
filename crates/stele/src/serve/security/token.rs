//! `POST /token`: an access token for an assertion, as clients of OAuth ask for it (RFC 6749, RFC 7523).
//!
//! Google's libraries ask the address that their key file has as `token_uri`. Neither the gate nor the
//! check of names is before it: the assertion itself tells who asks, and no page in a browser has one.
//!
//! Invariants:
//! 1. Assertions and tokens are in no log and in no error.
//! 2. Up to [`BODY_BYTES_MAX`] of a body are read, within [`BODY_TIME_MAX`]: its sender is not known yet.
//! 3. The answer does not tell whether an account or a key exists: only who has a key learns more.

use super::gate::Gate;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use security::identity::Refusal;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const PATH: &str = "/token";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const FORM: &str = "application/x-www-form-urlencoded";
const BODY_BYTES_MAX: usize = 20 << 10;
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// Returns the route of a server that authenticates its clients.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(gate: Arc<Gate>) -> Router<S> {
    Router::new().route(PATH, post(grant)).with_state(gate)
}

/// A request that gets no token.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    status: StatusCode,
    /// Code of RFC 6749, section 5.2.
    error: &'static str,
    description: &'static str,
}

impl Refused {
    fn request(status: StatusCode, description: &'static str) -> Self {
        Self { status, error: "invalid_request", description }
    }

    fn bad(description: &'static str) -> Self {
        Self::request(StatusCode::BAD_REQUEST, description)
    }

    fn assertion(why: Refusal) -> Self {
        let (error, description) = match why {
            Refusal::Expired => ("invalid_grant", "the assertion has expired"),
            Refusal::Time => {
                ("invalid_grant", "the assertion begins later, or is for more than an hour")
            }
            Refusal::Audience => {
                ("invalid_grant", "the audience of the assertion is not the token_uri of its key")
            }
            Refusal::Scope => ("invalid_scope", "no scope of the assertion includes Bigtable"),
            Refusal::Malformed => ("invalid_grant", "the assertion is malformed or too long"),
            Refusal::Unknown | Refusal::UnknownKey | Refusal::Signature => {
                ("invalid_grant", "no registered key has signed the assertion with RS256")
            }
        };
        Self { status: StatusCode::BAD_REQUEST, error, description }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({"error": self.error, "error_description": self.description});
        (self.status, Json(body)).into_response()
    }
}

async fn grant(State(gate): State<Arc<Gate>>, request: Request) -> Response {
    let answer = match assertion_of(request, BODY_TIME_MAX).await {
        Ok(assertion) => gate.grant(&assertion).map_err(Refused::assertion),
        Err(refused) => Err(refused),
    };
    let answer = answer.map(|given| {
        Json(json!({
            "access_token": given.token,
            "token_type": "Bearer",
            "expires_in": given.expires_in,
        }))
    });
    ([(CACHE_CONTROL, "no-store"), (PRAGMA, "no-cache")], answer).into_response()
}

/// Reads a form within `limit`, and returns the assertion in it.
async fn assertion_of(request: Request, limit: Duration) -> Result<String, Refused> {
    if !is_form(request.headers()) {
        return Err(Refused::bad("the body must be application/x-www-form-urlencoded"));
    }
    let body = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX);
    match tokio::time::timeout(limit, body).await {
        Ok(Ok(body)) => assertion_in(&body),
        Ok(Err(_)) => {
            let what = "the body was cut off, or has more than 20 KiB";
            Err(Refused::request(StatusCode::PAYLOAD_TOO_LARGE, what))
        }
        Err(_) => {
            let what = "the body did not come within ten seconds";
            Err(Refused::request(StatusCode::REQUEST_TIMEOUT, what))
        }
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(FORM)
}

fn assertion_in(body: &[u8]) -> Result<String, Refused> {
    let (mut grant_type, mut assertion) = (None, None);
    for (name, value) in form_urlencoded::parse(body) {
        let field = match &*name {
            "grant_type" => &mut grant_type,
            "assertion" => &mut assertion,
            _ => continue,
        };
        if field.replace(value.into_owned()).is_some() {
            return Err(Refused::bad("grant_type or assertion is there twice"));
        }
    }
    match grant_type.as_deref() {
        Some(JWT_BEARER) => assertion.ok_or(Refused::bad("assertion is missing")),
        Some(_) => Err(Refused {
            status: StatusCode::BAD_REQUEST,
            error: "unsupported_grant_type",
            description: "grant_type must be urn:ietf:params:oauth:grant-type:jwt-bearer",
        }),
        None => Err(Refused::bad("grant_type is missing")),
    }
}

#[cfg(test)]
mod tests;
