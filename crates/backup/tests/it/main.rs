//! Backups of real stores, at destinations in memory, in directories and behind an S3 server.

#![allow(clippy::unwrap_used, reason = "a failure is the test's verdict")]

mod damage;
mod interleaved;
mod interrupted;
mod power;
mod rounds;
mod s3;
mod simulated;
mod support;
mod watched;
