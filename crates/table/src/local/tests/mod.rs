//! Tests of `Local` that need to see inside it.

mod crash;
mod once;
mod reads;
mod steps;
mod times;
