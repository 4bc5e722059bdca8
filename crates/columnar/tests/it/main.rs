//! Tests of what the crate promises, through its public face.

#![allow(clippy::unwrap_used, reason = "a failure is the verdict of a test")]

mod arrays;
mod damage;
mod golden;
mod round_trip;
mod segments;
mod zone;
