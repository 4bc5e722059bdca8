//! Errors to gRPC statuses, with the `google.rpc` detail that clients and tools can read.
//!
//! Codes follow what clients do with them. `Unknown` is never answered, and `Internal` only for
//! faults of ours: the admin clients retry both. What the caller must change is
//! `InvalidArgument`, `NotFound`, `AlreadyExists` or `FailedPrecondition`, never retried.

use crate::api::{any, rpc};
use bytes::Bytes;
use prost::Message;
use prost_types::Any;
use std::time::Duration;
use table::Error;
use tonic::{Code, Status};

/// Wait before the next try when the disk is full: an operator has to make room.
const FULL_RETRY: Duration = Duration::from_secs(5);
/// Wait before the next try when other calls take all the room, or too much waits to be written: some of
/// it is done by then.
const BUSY_RETRY: Duration = Duration::from_secs(1);
/// Wait before the next try when the store cannot serve: another server may take its place.
const UNAVAILABLE_RETRY: Duration = Duration::from_secs(1);

/// The status of a failed call.
pub(crate) fn from_error(error: Error) -> Status {
    to_status(rpc_status(error))
}

fn to_status(whole: rpc::Status) -> Status {
    let code = Code::from_i32(whole.code);
    if whole.details.is_empty() {
        return Status::new(code, whole.message);
    }
    let details = Bytes::from(whole.encode_to_vec());
    Status::with_details(code, whole.message, details)
}

/// The status of one entry of a batch; `Ok` has code 0.
pub(crate) fn of_entry(result: Result<(), Error>) -> rpc::Status {
    result.map_or_else(rpc_status, |()| rpc::Status::default())
}

/// The status of a call for which there is no room now. The client is to try again.
pub(crate) fn busy(message: String) -> Status {
    let details = vec![retry_after(BUSY_RETRY)];
    to_status(rpc::Status { code: Code::ResourceExhausted as i32, message, details })
}

/// A feature that this server does not have.
pub(crate) fn unsupported(what: &str) -> Status {
    Status::unimplemented(format!("{what} not supported by this server"))
}

fn rpc_status(error: Error) -> rpc::Status {
    let details = detail(&error).into_iter().collect();
    rpc::Status { code: code(&error) as i32, message: error.to_string(), details }
}

fn code(error: &Error) -> Code {
    match error {
        Error::NotFound { .. } => Code::NotFound,
        Error::AlreadyExists { .. } => Code::AlreadyExists,
        Error::InvalidArgument { .. } => Code::InvalidArgument,
        Error::ResourceExhausted(_) | Error::Busy(_) => Code::ResourceExhausted,
        Error::FailedPrecondition(_) => Code::FailedPrecondition,
        Error::Aborted(_) => Code::Aborted,
        Error::PermissionDenied(_) => Code::PermissionDenied,
        Error::OutOfRange(_) => Code::OutOfRange,
        Error::Unavailable(_) | Error::NotLeader { .. } => Code::Unavailable,
        Error::DataLoss(_) => Code::DataLoss,
        _ => Code::Internal,
    }
}

fn detail(error: &Error) -> Option<Any> {
    match error {
        Error::NotFound { what, name } | Error::AlreadyExists { what, name } => {
            let info = rpc::ResourceInfo {
                resource_type: (*what).to_owned(),
                resource_name: name.clone(),
                ..Default::default()
            };
            Some(any("google.rpc.ResourceInfo", info.encode_to_vec()))
        }
        Error::InvalidArgument { field, message } => {
            let violation = rpc::bad_request::FieldViolation {
                field: field.clone(),
                description: message.clone(),
                ..Default::default()
            };
            let bad = rpc::BadRequest { field_violations: vec![violation] };
            Some(any("google.rpc.BadRequest", bad.encode_to_vec()))
        }
        Error::ResourceExhausted(_) => Some(retry_after(FULL_RETRY)),
        Error::Busy(_) => Some(retry_after(BUSY_RETRY)),
        Error::Unavailable(_) | Error::NotLeader { .. } => Some(retry_after(UNAVAILABLE_RETRY)),
        _ => None,
    }
}

/// Tells the client when to try again.
fn retry_after(delay: Duration) -> Any {
    let info = rpc::RetryInfo { retry_delay: delay.try_into().ok() };
    any("google.rpc.RetryInfo", info.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_never_unknown_and_details_name_the_field() {
        for (error, want) in [
            (Error::no_table("t"), Code::NotFound),
            (Error::AlreadyExists { what: "table", name: "t".into() }, Code::AlreadyExists),
            (Error::invalid("row_key", "too long"), Code::InvalidArgument),
            (Error::ResourceExhausted("disk full".into()), Code::ResourceExhausted),
            (Error::Busy("too much waits".into()), Code::ResourceExhausted),
            (Error::FailedPrecondition("protected".into()), Code::FailedPrecondition),
            (Error::Aborted("etag".into()), Code::Aborted),
            (Error::PermissionDenied("view".into()), Code::PermissionDenied),
            (Error::OutOfRange("expired".into()), Code::OutOfRange),
            (Error::Unavailable("closing".into()), Code::Unavailable),
            (Error::NotLeader { leader: Some(2) }, Code::Unavailable),
            (Error::DataLoss("file 7".into()), Code::DataLoss),
            (Error::Internal("read".into()), Code::Internal),
        ] {
            assert_eq!(from_error(error).code(), want);
        }
        let status = from_error(Error::invalid("row_key", "too long"));
        let whole = rpc::Status::decode(status.details()).unwrap();
        let bad = rpc::BadRequest::decode(&whole.details[0].value[..]).unwrap();
        assert_eq!(bad.field_violations[0].field, "row_key");
        assert_eq!(of_entry(Ok(())), rpc::Status::default());
    }

    #[test]
    fn errors_that_pass_say_when_to_try_again() {
        let delay = |error: Error| {
            let whole = of_entry(Err(error));
            let info = whole.details.first()?;
            assert_eq!(info.type_url, "type.googleapis.com/google.rpc.RetryInfo");
            Some(rpc::RetryInfo::decode(&info.value[..]).unwrap().retry_delay.unwrap().seconds)
        };
        assert_eq!(delay(Error::ResourceExhausted("disk full".into())), Some(5));
        assert_eq!(delay(Error::Busy("too much waits".into())), Some(1));
        assert_eq!(delay(Error::Unavailable("closing".into())), Some(1));
        assert_eq!(delay(Error::NotLeader { leader: None }), Some(1));
        assert_eq!(delay(Error::FailedPrecondition("protected".into())), None);
        assert_eq!(delay(Error::DataLoss("file 7".into())), None);
    }
}
