//! Counters that many threads add to, and counts of single requests.
//!
//! In: events and durations. Out: sums for the metrics, and what a request costs. Uses no room but `locks`.

pub(crate) mod engine_counters;
pub(crate) mod job_waits;
pub mod perf_context;
pub(crate) mod point_counters;
pub(crate) mod read_waits;
pub(crate) mod tree_counters;
