//! The counting of an answer's messages while a writer makes them.

use super::answers::{Answer, LARGE_BYTES};
use bytes::Bytes;
use std::sync::Arc;

/// Counts the messages of an answer from their making, large ones while they grow. Without an answer
/// it counts nothing.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    answer: Option<Arc<Answer>>,
    /// Bytes up to which the message was counted while it grew.
    grown_to: usize,
    refused: bool,
}

impl Meter {
    /// A meter of messages that are parts of `answer`.
    pub(crate) fn of(answer: Option<Arc<Answer>>) -> Self {
        Self { answer, ..Self::default() }
    }

    /// Counts a message that has grown to `len` bytes. Returns false if there is no room for it: the
    /// read ends.
    pub(crate) fn grow_to(&mut self, len: usize) -> bool {
        if len >= self.grown_to.saturating_add(LARGE_BYTES)
            && let Some(answer) = &self.answer
        {
            self.refused |= !answer.grow_to(len);
            self.grown_to = len;
        }
        !self.refused
    }

    /// Returns true if there was no room for a message.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Counts a message that is made until it is freed. The next one grows from nothing.
    pub(crate) fn made(&mut self, message: Bytes) -> Bytes {
        let Some(answer) = &self.answer else { return message };
        let message = answer.count(message);
        if std::mem::take(&mut self.grown_to) > 0 {
            answer.grow_to(0);
        }
        message
    }

    /// Returns how many bytes a batch may have, of at most `bytes_max`.
    pub(crate) fn batch_bytes(&self, bytes_max: usize) -> usize {
        self.answer.as_ref().map_or(bytes_max, |answer| answer.batch_bytes(bytes_max))
    }
}
