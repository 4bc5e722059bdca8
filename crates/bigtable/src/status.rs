//! Errors to gRPC statuses, with the `google.rpc` detail that clients and tools can read.
//!
//! Codes follow what clients do with them. `Unknown` is never answered, and `Internal` only for
//! faults of ours: the admin clients retry both. What the caller must change is
//! `InvalidArgument`, `NotFound`, `AlreadyExists` or `FailedPrecondition`, never retried.

use crate::api::{any, rpc};
use bytes::Bytes;
use prost::Message;
use prost_types::Any;
use table::Error;
use tonic::{Code, Status};

/// The status of a failed call.
pub(crate) fn from_error(error: Error) -> Status {
    let whole = rpc_status(error);
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
        Error::ResourceExhausted(_) => Code::ResourceExhausted,
        Error::FailedPrecondition(_) => Code::FailedPrecondition,
        Error::Unavailable(_) => Code::Unavailable,
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
            Some(any("google.rpc.ResourceInfo", &info))
        }
        Error::InvalidArgument { field, message } => {
            let violation = rpc::bad_request::FieldViolation {
                field: field.clone(),
                description: message.clone(),
                ..Default::default()
            };
            let bad = rpc::BadRequest { field_violations: vec![violation] };
            Some(any("google.rpc.BadRequest", &bad))
        }
        _ => None,
    }
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
            (Error::FailedPrecondition("protected".into()), Code::FailedPrecondition),
            (Error::Unavailable("closing".into()), Code::Unavailable),
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
}
