//! Refusals to gRPC statuses.

use super::sql::Refusal;
use crate::api::{any, rpc};
use crate::call::status;
use bytes::Bytes;
use prost::Message;
use table::Error;
use tonic::{Code, Status};

/// The type of violation by which clients know that they have to prepare a query again.
const EXPIRED: &str = "PREPARED_QUERY_EXPIRED";

/// Returns the status of a query that is refused.
pub(super) fn of_refusal(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Invalid(message) => in_field("query", message),
        Refusal::Unsupported(message) => Status::unimplemented(message),
        Refusal::Value(message) => Status::out_of_range(message),
    }
}

/// Returns the status of a request with a wrong field.
pub(super) fn in_field(field: &str, message: impl Into<String>) -> Status {
    status::from_error(Error::invalid(field, message))
}

/// Returns the status of a prepared query that has expired; clients prepare it again by themselves.
pub(super) fn expired(why: &str) -> Status {
    let message = format!("the prepared query has expired: {why}; prepare it again");
    let violation = rpc::precondition_failure::Violation {
        r#type: EXPIRED.to_owned(),
        description: message.clone(),
        ..Default::default()
    };
    let failure = rpc::PreconditionFailure { violations: vec![violation] };
    let detail = any("google.rpc.PreconditionFailure", failure.encode_to_vec());
    let code = Code::FailedPrecondition;
    let whole = rpc::Status { code: code as i32, message: message.clone(), details: vec![detail] };
    Status::with_details(code, message, Bytes::from(whole.encode_to_vec()))
}
