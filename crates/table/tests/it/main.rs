//! Tests of the table layer through its public API.
#![expect(clippy::unwrap_used, reason = "a failure is the test's own verdict")]

mod adopt;
mod blocked_io;
mod blocking_fs;
mod changes;
mod check;
mod filters;
mod harness;
mod limits;
mod load;
mod meter;
mod once;
mod owner;
mod records;
mod store;
