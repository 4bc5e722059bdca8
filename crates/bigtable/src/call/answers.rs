//! Answers on their way out: rows that were read and that no client has taken.
//!
//! Flow control bounds what is sent to a slow client and not what is read for it. So the bytes of
//! answers are counted, from the making of a message until the transport has sent its frames.
//!
//! Invariants:
//! 1. While answers hold less than half of what they may, a read makes batches of the usual size.
//!    Then it makes small ones: a client that takes nothing holds a few of them.
//! 2. A message that must be large, since its row is, is made only as far as there is room. One that
//!    finds none ends its read. A read that has the only large messages always has room.
//! 3. Bytes are counted until they are freed, by the transport or with the read.

use super::status;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tonic::Status;
use tonic::body::Body;

/// Bytes of a batch while answers hold much.
const SMALL_BATCH_BYTES: usize = 8 << 10;
/// Shorter pieces are not counted: to count them would cost more than they do.
const COUNTED_BYTES_MIN: usize = 4 << 10;
/// A message of this size is large.
pub(crate) const LARGE_BYTES: usize = 1 << 20;

/// The answers of all calls together.
#[derive(Debug)]
pub(crate) struct Answers {
    bytes_max: usize,
    /// Relaxed: a count that stands by itself.
    held: AtomicUsize,
    /// Part of `held`: large messages, also while they are being made. Relaxed as well.
    large: AtomicUsize,
}

impl Answers {
    /// Answers that have about `bytes_max` bytes together.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: AtomicUsize::new(0), large: AtomicUsize::new(0) })
    }
}

/// The answer of one read, shared by its writer and by the bytes that it wrote.
#[derive(Debug)]
pub(crate) struct Answer {
    answers: Arc<Answers>,
    /// Bytes of this answer in `Answers::large`.
    large: AtomicUsize,
    /// Bytes of the large message that is being made. Relaxed: changed by the writer alone.
    growing: AtomicUsize,
    /// There was no room for a large message. Published with the batch after it.
    refused: AtomicBool,
}

impl Answer {
    /// An answer of which nothing was made.
    pub(crate) fn new(answers: &Arc<Answers>) -> Arc<Self> {
        let (large, growing, refused) = Default::default();
        Arc::new(Self { answers: Arc::clone(answers), large, growing, refused })
    }

    /// Returns how many bytes a batch of rows may have, of at most `bytes_max`.
    pub(crate) fn batch_bytes(&self, bytes_max: usize) -> usize {
        let held = self.answers.held.load(Ordering::Relaxed);
        if held < self.answers.bytes_max / 2 { bytes_max } else { bytes_max.min(SMALL_BATCH_BYTES) }
    }

    /// Counts `bytes` until they are freed.
    pub(crate) fn count(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if bytes.len() < COUNTED_BYTES_MIN {
            return bytes;
        }
        self.add(bytes.len(), bytes.len() >= LARGE_BYTES);
        Bytes::from_owner(Counted { bytes, answer: Arc::clone(self) })
    }

    /// Sets the bytes of the large message that is being made; 0 if none is. Returns false, and ends
    /// the read, if there is no room for more.
    pub(crate) fn grow_to(&self, bytes: usize) -> bool {
        let own = self.growing.swap(bytes, Ordering::Relaxed);
        let Some(more) = bytes.checked_sub(own) else {
            self.remove(own - bytes, true);
            return true;
        };
        let Answers { bytes_max, held, large } = &*self.answers;
        let alone = large.load(Ordering::Relaxed) == self.large.load(Ordering::Relaxed);
        if alone || held.load(Ordering::Relaxed) + more <= *bytes_max {
            self.add(more, true);
            return true;
        }
        self.growing.store(0, Ordering::Relaxed);
        self.remove(own, true);
        self.refused.store(true, Ordering::Release);
        false
    }

    /// Returns true if there was no room for a large message.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// Returns the error of a read for whose large row there was no room.
    pub(crate) fn refusal(&self) -> Option<Status> {
        self.is_refused().then(|| {
            status::busy(format!(
                "rows that clients have not taken hold {} bytes, which is all they may, and there is \
                 no room for a large row; try later",
                self.answers.bytes_max
            ))
        })
    }

    fn add(&self, bytes: usize, large: bool) {
        self.answers.held.fetch_add(bytes, Ordering::Relaxed);
        if large {
            self.answers.large.fetch_add(bytes, Ordering::Relaxed);
            self.large.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn remove(&self, bytes: usize, large: bool) {
        self.answers.held.fetch_sub(bytes, Ordering::Relaxed);
        if large {
            self.answers.large.fetch_sub(bytes, Ordering::Relaxed);
            self.large.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let growing = *self.growing.get_mut();
        self.remove(growing, true);
    }
}

/// Bytes that are counted as long as they are there.
struct Counted {
    bytes: Bytes,
    answer: Arc<Answer>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.answer.remove(self.bytes.len(), self.bytes.len() >= LARGE_BYTES);
    }
}

/// The body of an answer, whose frames are counted until they are sent.
#[derive(Debug)]
pub(crate) struct CountedBody {
    body: Body,
    answer: Arc<Answer>,
}

impl CountedBody {
    pub(crate) fn new(body: Body, answer: Arc<Answer>) -> Self {
        Self { body, answer }
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let count = |frame: Frame<Bytes>| frame.map_data(|bytes| self.answer.count(bytes));
        Poll::Ready(frame.map(|frame| frame.map(count)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn held(answers: &Answers) -> (usize, usize) {
        (answers.held.load(Ordering::Relaxed), answers.large.load(Ordering::Relaxed))
    }

    #[test]
    fn bytes_count_until_their_last_part_is_freed() {
        let answers = Answers::new(100_000);
        let answer = Answer::new(&answers);
        assert_eq!(answer.batch_bytes(256 << 10), 256 << 10);
        let short = answer.count(Bytes::from(vec![1; COUNTED_BYTES_MIN - 1]));
        assert_eq!(held(&answers).0, 0, "{} bytes are not counted", short.len());
        let message = answer.count(Bytes::from(vec![7; 60_000]));
        assert_eq!(message[..], [7; 60_000]);
        let part = message.slice(50_000..);
        drop(message);
        assert_eq!(held(&answers).0, 60_000);
        assert_eq!(answer.batch_bytes(256 << 10), SMALL_BATCH_BYTES);
        assert_eq!(answer.batch_bytes(100), 100);
        drop(part);
        assert_eq!(held(&answers).0, 0);
        assert_eq!(answer.batch_bytes(256 << 10), 256 << 10);
    }

    #[test]
    fn a_large_message_needs_room_and_the_only_one_has_it() {
        let answers = Answers::new(100);
        let (first, second) = (Answer::new(&answers), Answer::new(&answers));
        assert!(first.grow_to(500), "it is the only one");
        assert!(!second.grow_to(1));
        let refusal = second.refusal().unwrap();
        assert_eq!(refusal.code(), Code::ResourceExhausted);
        assert!(refusal.message().contains("100 bytes"), "{refusal:?}");
        assert!(first.refusal().is_none() && first.grow_to(600) && first.grow_to(40));
        assert_eq!(held(&answers), (40, 40));
        let third = Answer::new(&answers);
        assert!(third.grow_to(60) && !third.grow_to(61));
        assert_eq!(held(&answers), (40, 40), "what it had is given back");
        drop((first, second, third));
        assert_eq!(held(&answers), (0, 0));
    }

    #[test]
    fn a_large_message_that_is_not_taken_leaves_others_no_room_and_its_own_read_some() {
        let answers = Answers::new(100);
        let (slow, other) = (Answer::new(&answers), Answer::new(&answers));
        let message = slow.count(Bytes::from(vec![7; LARGE_BYTES]));
        assert_eq!(held(&answers), (LARGE_BYTES, LARGE_BYTES));
        assert!(slow.grow_to(LARGE_BYTES) && !other.grow_to(LARGE_BYTES));
        drop((message, slow));
        assert!(Answer::new(&answers).grow_to(LARGE_BYTES));
    }
}
