//! Counters and histograms that many threads add to.
//!
//! In: durations and counts. Out: sums and quantiles for the metrics. Uses no other room.

pub(crate) mod histogram;
pub(crate) mod striped;
