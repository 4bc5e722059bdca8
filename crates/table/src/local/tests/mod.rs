//! Tests of `Local` that need to see inside it.

mod crash;
mod once;
mod reads;
mod shelf;
mod steps;
mod times;
