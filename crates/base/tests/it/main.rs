//! Tests of `base` from outside.

mod file_system;
mod simulation;
