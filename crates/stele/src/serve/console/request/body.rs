//! The body of a request of the API: JSON of a known form, and of bounded length.

use super::failure::Failure;
use axum::body::to_bytes;
use axum::extract::Request;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tonic::Code;

/// Time until a body has come.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Reads the body of a request, of at most `bytes_max` bytes.
pub(in super::super) async fn read<T: DeserializeOwned>(
    request: Request,
    bytes_max: usize,
) -> Result<T, Failure> {
    let body = to_bytes(request.into_body(), bytes_max);
    let body = tokio::time::timeout(TIME_MAX, body).await.map_err(|_| {
        let seconds = TIME_MAX.as_secs();
        Failure::new(Code::DeadlineExceeded, format!("the body did not come within {seconds} s"))
    })?;
    let body = body
        .map_err(|_| Failure::parameter("body", format!("must have at most {bytes_max} bytes")))?;
    serde_json::from_slice(&body).map_err(|error| Failure::parameter("body", error))
}
