//! Answers on their way out: rows that were read and that no client has taken.
//!
//! Flow control bounds what is sent to a slow client and not what is read for it. So the bytes of
//! answers are counted, from the making of a message until the transport has sent its frames.
//!
//! Invariants:
//! 1. While answers hold less than half of what they may, and the answers of an identity less than half
//!    of its share, a read makes batches of the usual size. Then it makes small ones: a client that takes
//!    nothing holds a few of them.
//! 2. A message that must be large, since its row is, is made only as far as there is room, in all and in
//!    the share of its identity. One that finds none ends its read.
//! 3. One answer has room in any case: the only one of its identity that has large messages, while there
//!    is no other such answer. Its excess over the share takes no room from the others.
//! 4. Bytes are counted until they are freed, by the transport or with the read.

use super::refusal::{Refusal, Refusals};
use super::shares::Share;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tonic::Status;

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
    /// The share whose one large answer has room in any case. The lock is held while large messages grow,
    /// so that they find no room twice.
    over: Mutex<Option<Arc<Share>>>,
    refusals: Arc<Refusals>,
}

impl Answers {
    /// Answers that have about `bytes_max` bytes together.
    pub(super) fn new(bytes_max: usize, refusals: &Arc<Refusals>) -> Arc<Self> {
        let (held, over) = Default::default();
        Arc::new(Self { bytes_max, held, over, refusals: Arc::clone(refusals) })
    }

    /// Returns the bytes of all answers now.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// The answer of one read, shared by its writer and by the bytes that it wrote.
#[derive(Debug)]
pub(crate) struct Answer {
    answers: Arc<Answers>,
    share: Arc<Share>,
    /// Bytes of this answer in `Share::large_bytes`.
    large: AtomicUsize,
    /// Bytes of the large message that is being made. Relaxed: changed by the writer alone.
    growing: AtomicUsize,
    /// The reason why there was no room for a large message, and the bound.
    refused: OnceLock<(Refusal, usize)>,
}

impl Answer {
    /// An answer of which nothing was made.
    pub(super) fn new(answers: &Arc<Answers>, share: &Arc<Share>) -> Arc<Self> {
        let (large, growing, refused) = Default::default();
        let (answers, share) = (Arc::clone(answers), Arc::clone(share));
        Arc::new(Self { answers, share, large, growing, refused })
    }

    /// Returns how many bytes a batch of rows may have, of at most `bytes_max`.
    pub(super) fn batch_bytes(&self, bytes_max: usize) -> usize {
        let whole = self.answers.bytes_max;
        let of_share = self.share.answer_bytes.load(Ordering::Relaxed);
        let is_free = self.answers.held() < whole / 2 && of_share < self.share.part_of(whole) / 2;
        if is_free { bytes_max } else { bytes_max.min(SMALL_BATCH_BYTES) }
    }

    /// Counts `bytes` until they are freed.
    pub(crate) fn count(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if bytes.len() < COUNTED_BYTES_MIN {
            return bytes;
        }
        let large = bytes.len() >= LARGE_BYTES;
        self.add(bytes.len(), large);
        let reserved = Reserved { answer: Arc::clone(self), bytes: bytes.len(), large };
        Bytes::from_owner(Counted { bytes, _reserved: reserved })
    }

    /// Counts a batch of `bytes` until the reservation is dropped. Returns nothing, and ends the read, if
    /// the batch is large and there is no room for it.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reserved> {
        let large = bytes >= LARGE_BYTES;
        match large.then(|| self.find_room(bytes)) {
            None => self.add(bytes, false),
            Some(Ok(())) => {}
            Some(Err(refused)) => {
                self.refuse(refused);
                return None;
            }
        }
        Some(Reserved { answer: Arc::clone(self), bytes, large })
    }

    /// Sets the bytes of the large message that is being made; 0 if none is. Returns false, and ends
    /// the read, if there is no room for more.
    pub(super) fn grow_to(&self, bytes: usize) -> bool {
        let own = self.growing.swap(bytes, Ordering::Relaxed);
        let Some(more) = bytes.checked_sub(own) else {
            self.remove(own - bytes, true);
            return true;
        };
        let refused = match self.find_room(more) {
            Ok(()) => return true,
            Err(refused) => refused,
        };
        self.growing.store(0, Ordering::Relaxed);
        self.remove(own, true);
        self.refuse(refused);
        false
    }

    /// Ends the read: there is no room for a large message.
    fn refuse(&self, refused: (Refusal, usize)) {
        if self.refused.set(refused).is_ok() {
            self.answers.refusals.count(refused.0);
        }
    }

    /// Counts `more` bytes of a large message, or returns the bound that they would break.
    fn find_room(&self, more: usize) -> Result<(), (Refusal, usize)> {
        let (whole, share) = (self.answers.bytes_max, &self.share);
        let share_max = share.part_of(whole);
        let mut over = self.answers.over.lock();
        let large_of = |share: &Arc<Share>| share.large_bytes.load(Ordering::Relaxed);
        let held = self.answers.held();
        let former = over.take_if(|share| large_of(share) <= share_max && held <= whole);
        let excess = over.as_ref().map_or(0, |share| large_of(share).saturating_sub(share_max));
        let is_only = large_of(share) == self.large.load(Ordering::Relaxed)
            && over.as_ref().is_none_or(|over| Arc::ptr_eq(over, share));
        let fits_share = large_of(share) + more <= share_max;
        let found = if fits_share && held.saturating_sub(excess) + more <= whole {
            Ok(())
        } else if is_only {
            *over = Some(Arc::clone(share));
            Ok(())
        } else if fits_share || !share.is_of_identity() {
            Err((Refusal::Answers, whole))
        } else {
            Err((Refusal::AnswersOfIdentity, share_max))
        };
        if found.is_ok() {
            self.add(more, true);
        }
        drop(over);
        // A share that goes takes another lock.
        drop(former);
        found
    }

    /// Returns the error of a read for whose large row there was no room.
    pub(crate) fn refusal(&self) -> Option<Status> {
        self.refused.get().map(|(refusal, max)| refusal.status(*max))
    }

    fn add(&self, bytes: usize, large: bool) {
        self.answers.held.fetch_add(bytes, Ordering::Relaxed);
        self.share.answer_bytes.fetch_add(bytes, Ordering::Relaxed);
        if large {
            self.share.large_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.large.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn remove(&self, bytes: usize, large: bool) {
        self.answers.held.fetch_sub(bytes, Ordering::Relaxed);
        self.share.answer_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if large {
            self.share.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
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

/// Bytes that are counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    answer: Arc<Answer>,
    bytes: usize,
    large: bool,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.answer.remove(self.bytes, self.large);
    }
}

/// Bytes that are counted as long as they are there.
struct Counted {
    bytes: Bytes,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::bounds::shares::Shares;
    use tonic::Code;

    struct All {
        answers: Arc<Answers>,
        shares: Arc<Shares>,
    }

    impl All {
        fn new(bytes_max: usize) -> Self {
            let answers = Answers::new(bytes_max, &Arc::default());
            Self { answers, shares: Shares::new(9, 9) }
        }

        fn answer(&self) -> Arc<Answer> {
            Answer::new(&self.answers, &self.shares.of(None))
        }

        fn answer_to(&self, name: &str) -> Arc<Answer> {
            Answer::new(&self.answers, &self.shares.of(Some(name)))
        }

        fn held(&self) -> (usize, usize) {
            let large = self.shares.of(None).large_bytes.load(Ordering::Relaxed);
            (self.answers.held(), large)
        }
    }

    #[test]
    fn bytes_count_until_their_last_part_is_freed() {
        let answers = All::new(100_000);
        let answer = answers.answer();
        assert_eq!(answer.batch_bytes(256 << 10), 256 << 10);
        let short = answer.count(Bytes::from(vec![1; COUNTED_BYTES_MIN - 1]));
        assert_eq!(answers.held().0, 0, "{} bytes are not counted", short.len());
        let message = answer.count(Bytes::from(vec![7; 60_000]));
        assert_eq!(message[..], [7; 60_000]);
        let part = message.slice(50_000..);
        drop(message);
        assert_eq!(answers.held().0, 60_000);
        assert_eq!(answer.batch_bytes(256 << 10), SMALL_BATCH_BYTES);
        assert_eq!(answer.batch_bytes(100), 100);
        drop(part);
        assert_eq!(answers.held().0, 0);
        assert_eq!(answer.batch_bytes(256 << 10), 256 << 10);
    }

    #[test]
    fn a_large_message_needs_room_and_the_only_one_has_it() {
        let answers = All::new(100);
        let (first, second) = (answers.answer(), answers.answer());
        assert!(first.grow_to(500), "it is the only one");
        assert!(!second.grow_to(1));
        let refusal = second.refusal().unwrap();
        assert_eq!(refusal.code(), Code::ResourceExhausted);
        assert!(refusal.message().contains("100 bytes"), "{refusal:?}");
        assert!(first.refusal().is_none() && first.grow_to(600) && first.grow_to(40));
        assert_eq!(answers.held(), (40, 40));
        let third = answers.answer();
        assert!(third.grow_to(60) && !third.grow_to(61));
        assert_eq!(answers.held(), (40, 40), "what it had is given back");
        drop((first, second, third));
        assert_eq!(answers.held(), (0, 0));
    }

    #[test]
    fn a_large_message_that_is_not_taken_leaves_others_no_room_and_its_own_read_some() {
        let answers = All::new(100);
        let (slow, other) = (answers.answer(), answers.answer());
        let message = slow.count(Bytes::from(vec![7; LARGE_BYTES]));
        assert_eq!(answers.held(), (LARGE_BYTES, LARGE_BYTES));
        assert!(slow.grow_to(LARGE_BYTES) && !other.grow_to(LARGE_BYTES));
        drop((message, slow));
        assert!(answers.answer().grow_to(LARGE_BYTES));
    }

    #[test]
    fn an_identity_leaves_half_of_the_room_to_the_others() {
        let answers = All::new(100);
        let slow: Vec<_> = (0..2).map(|_| answers.answer_to("mallory")).collect();
        assert!(slow[0].grow_to(30) && slow[1].grow_to(20) && !slow[1].grow_to(21));
        let refusal = slow[1].refusal().unwrap();
        assert!(refusal.message().contains("identity") && refusal.message().contains("50 bytes"));
        let (first, second) = (answers.answer_to("ann"), answers.answer_to("ann"));
        assert!(first.grow_to(5) && second.grow_to(5), "mallory has 30");
        let third = answers.answer_to("bob");
        assert!(third.grow_to(1_000), "the only large answer of bob");
        let fourth = answers.answer_to("carl");
        assert!(
            fourth.grow_to(10) && !answers.answer_to("dora").grow_to(1),
            "100 but for the excess"
        );
        let counts: Vec<_> = answers.answers.refusals.counts().filter(|(_, n)| *n > 0).collect();
        assert_eq!(counts, [(Refusal::Answers, 1), (Refusal::AnswersOfIdentity, 1)]);
        drop((slow, first, second, third, fourth));
        assert_eq!(answers.held(), (0, 0));
    }

    #[test]
    fn batches_of_an_identity_become_small_with_half_of_its_share() {
        let answers = All::new(400_000);
        let (slow, other) = (answers.answer_to("mallory"), answers.answer_to("ann"));
        let taken = slow.count(Bytes::from(vec![1; 100_000]));
        assert_eq!(slow.batch_bytes(256 << 10), SMALL_BATCH_BYTES);
        assert_eq!(other.batch_bytes(256 << 10), 256 << 10);
        drop(taken);
        assert_eq!(slow.batch_bytes(256 << 10), 256 << 10);
    }
}
