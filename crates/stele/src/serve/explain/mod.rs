//! What becomes of a request at its end: a line in the log if it was slow.
//!
//! Each request has a perf context ([`engine::perf_context`]), in which all of its work is polled. It is
//! looked at once, when the request has ended.

mod slow;

pub(crate) use slow::SlowCounts;

use super::request_id::RequestId;
use base::env::{Clock, SystemClock};
use engine::perf_context::{Detail, PerfContext};
use slow::SlowLog;
use std::sync::Arc;
use std::time::Duration;

/// A request that has ended.
pub(crate) struct Ended<'a> {
    pub(crate) method: &'static str,
    pub(crate) code: &'static str,
    pub(crate) id: &'a RequestId,
    pub(crate) took: Duration,
    /// Time until the answer began.
    pub(crate) answered_after: Option<Duration>,
    pub(crate) context: &'a PerfContext,
}

/// Explains requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Explain {
    slow: Arc<SlowLog>,
}

impl Explain {
    /// Explains requests that take `threshold` or longer, and counts them in `counts`.
    pub(crate) fn new(threshold: Duration, counts: Arc<SlowCounts>) -> Self {
        Self { slow: Arc::new(SlowLog::new(threshold, counts)) }
    }

    /// Begins a request; returns its perf context.
    pub(crate) fn begin(&self) -> Arc<PerfContext> {
        Arc::new(PerfContext::new(Detail::Sums))
    }

    /// Takes note of a request that has ended.
    pub(crate) fn ended(&self, request: &Ended<'_>) {
        self.slow.note(request, SystemClock.monotonic());
    }
}
