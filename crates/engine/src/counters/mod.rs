//! Counters that many threads add to.
//!
//! In: events and durations. Out: sums for the metrics. Uses no room but `locks`.

pub(crate) mod engine_counters;
pub(crate) mod point_counters;
pub(crate) mod read_waits;
pub(crate) mod tree_counters;
