//! The real binary, run as its users run it.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a failure is the test's verdict")]

mod adopt;
mod backup;
mod change_streams;
mod cluster;
mod configuration;
mod directories;
mod documents;
mod english;
mod export;
mod export_schema;
mod health;
mod import;
mod import_again;
mod imports;
mod kill9;
mod lifecycle;
mod load;
mod load_sorted;
mod metrics;
mod profile;
mod request_ids;
mod rows;
mod security;
mod server;
mod slow_requests;
mod spans;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "sql")]
mod sql_cluster;
#[cfg(feature = "sql")]
mod sql_stores;
mod tls;
