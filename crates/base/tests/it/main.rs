//! Tests of `base` from outside.

#![expect(clippy::unwrap_used, reason = "a failure is the verdict of the test")]

mod file_system;
mod read_queue;
mod simulation;
