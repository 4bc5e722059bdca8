//! The services over loopback, called through Google's generated clients.
#![allow(clippy::unwrap_used, reason = "a failure is the test's own verdict")]

mod admin;
mod assemble;
mod authorize;
mod backups;
mod bounds;
mod changes;
mod filters;
mod fuzz;
mod harness;
mod instances;
mod limits;
mod query;
mod read;
mod served;
mod stream;
mod types;
mod views;
mod write;
