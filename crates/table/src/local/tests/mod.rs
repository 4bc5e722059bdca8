//! Tests of `Local` that need to see inside it.

mod crash;
mod reads;
mod times;
