//! Tests of COPY through its public API.
#![allow(clippy::unwrap_used, reason = "a failure is the test's own verdict")]

mod examples;
mod model;
mod random;
mod reading;
mod round_trip;
mod values;
