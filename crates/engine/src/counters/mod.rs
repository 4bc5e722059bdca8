//! Counters and histograms that many threads add to.
//!
//! In: durations and counts. Out: sums and quantiles for the metrics. Uses no room but `locks`.

pub(crate) mod engine_counters;
pub(crate) mod histogram;
pub(crate) mod point_counters;
pub(crate) mod read_waits;
pub(crate) mod striped;
