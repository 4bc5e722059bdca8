//! Tests of the cluster's rooms from outside.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a failure is the test's verdict")]

mod directory;
mod link;
mod route;
