//! Bounds of what calls hold together: calls in flight, bytes of requests that are being uploaded
//! (`upload`), and bytes of answers that no client has taken (`answers.rs`, counted
//! by `meter.rs` while they are made).
//!
//! Each identity has a share of each bound, half of the whole (`shares.rs`), so that one identity leaves
//! room to the others. A server that does not know its callers has a single share, the whole. A call
//! that finds no room ends with `ResourceExhausted` and the time after which to try again, and is
//! counted by its reason (`refusal.rs`). `service.rs` puts the bounds around each service.

pub(crate) mod answers;
pub(crate) mod meter;
mod refusal;
pub(crate) mod service;
mod shares;
mod upload;

pub use refusal::Refusal;

use crate::server::Limits;
use answers::Answers;
use refusal::Refusals;
use shares::Shares;
use std::sync::Arc;
use upload::Uploads;

/// Bounds that the services of a server share. Clones are the same bounds.
#[derive(Debug, Clone)]
pub struct Bounds {
    shares: Arc<Shares>,
    uploads: Arc<Uploads>,
    answers: Arc<Answers>,
    refusals: Arc<Refusals>,
    /// Largest message of bounds that were set [`apart`](Self::apart); else each method has its own.
    message_bytes_max: Option<usize>,
}

/// Measures of what calls hold at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Calls that are not answered.
    pub calls: usize,
    /// Bytes of requests that are being uploaded or worked on, without messages that came in one frame.
    pub upload_bytes: usize,
    /// Bytes of answers that clients have not taken.
    pub answer_bytes: usize,
}

impl Bounds {
    /// Bounds by which calls hold nothing yet.
    pub fn new(limits: &Limits) -> Self {
        let refusals = Arc::default();
        Self {
            shares: Shares::new(limits.calls_max, limits.calls_per_identity_max),
            uploads: Uploads::new(limits.upload_bytes_max, &refusals),
            answers: Answers::new(limits.answer_bytes_max, &refusals),
            refusals,
            message_bytes_max: None,
        }
    }

    /// Returns bounds for a service that everybody may call: `calls_max` calls, each with a message of at
    /// most `message_bytes_max` bytes, which take no room of other calls. Each counts until its client has
    /// taken the answer. Refusals of both are counted together.
    #[must_use]
    pub fn apart(&self, calls_max: usize, message_bytes_max: usize) -> Self {
        Self {
            shares: Shares::new(calls_max, calls_max),
            uploads: Uploads::new(calls_max.saturating_mul(message_bytes_max), &self.refusals),
            answers: Arc::clone(&self.answers),
            refusals: Arc::clone(&self.refusals),
            message_bytes_max: Some(message_bytes_max),
        }
    }

    /// Returns an answer of which nothing was made, for a caller with this name or without one.
    #[cfg(test)]
    pub(crate) fn answer_for(&self, name: Option<&str>) -> Arc<answers::Answer> {
        answers::Answer::new(&self.answers, &self.shares.of(name))
    }

    /// Returns what calls hold now.
    pub fn holdings(&self) -> Holdings {
        Holdings {
            calls: self.shares.calls(),
            upload_bytes: self.uploads.held(),
            answer_bytes: self.answers.held(),
        }
    }

    /// Returns how many calls were refused so far, by reason.
    pub fn refusals(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        self.refusals.counts()
    }
}

/// Part of a bound that one identity has. The larger half of an odd one.
fn share_of(whole: usize) -> usize {
    whole.div_ceil(2)
}
