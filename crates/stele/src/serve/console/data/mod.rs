//! Tables and what is in them.
//!
//! Cells are read by the services that answer gRPC (`client`), on behalf of the visitor: the policy,
//! the bounds of calls and the audit log are theirs. Lists of tables come from the store, by the
//! permissions that the same lists need by gRPC. Tables of SQL are a part of their own (`sql`).
//!
//! Invariants:
//! 1. An answer is bounded by rows, cells and bytes, and says when there is more.
//! 2. Each request has a place (`request::work`) from before it reads until its answer is taken.

pub(super) mod backups;
mod chunks;
mod client;
mod fields;
pub(super) mod heat;
pub(super) mod query;
pub(super) mod rows;
mod schema;
#[cfg(feature = "sql")]
pub(super) mod sql;
pub(super) mod tables;
pub(super) mod tree;
mod values;

use super::request::failure::Failure;
use table::Error;
use tonic::Code;

/// Returns the failure that an error of the store is.
fn of_store(error: Error) -> Failure {
    let code = match &error {
        Error::NotFound { .. } => Code::NotFound,
        Error::InvalidArgument { .. } => Code::InvalidArgument,
        Error::Unavailable(_) | Error::NotLeader { .. } => Code::Unavailable,
        Error::DataLoss(_) => Code::DataLoss,
        _ => Code::Internal,
    };
    Failure::new(code, error.to_string())
}
