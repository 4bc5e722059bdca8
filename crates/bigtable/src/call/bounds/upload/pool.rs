//! Bytes of requests that have not come to their ends, of all calls together.
//!
//! Invariants:
//! 1. Bytes within the shares are at most [`Uploads::bytes_max`] together.
//! 2. One upload may have more than the share of its identity, as large as its method allows. It is the
//!    only upload of its identity, and there is no other such upload. Room within the shares of the others
//!    stays theirs.

use crate::call::bounds::refusal::{Refusal, Refusals};
use crate::call::bounds::shares::Share;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tonic::Status;

/// The bytes of all uploads.
#[derive(Debug)]
pub(crate) struct Uploads {
    bytes_max: usize,
    state: Mutex<State>,
    refusals: Arc<Refusals>,
}

/// The lock covers the bytes of all uploads, by upload and by share.
#[derive(Debug, Default)]
struct State {
    held: usize,
    /// The share whose one upload has more than the share.
    over: Option<Arc<Share>>,
}

impl Uploads {
    /// Uploads that have at most `bytes_max` bytes together.
    pub(in crate::call::bounds) fn new(bytes_max: usize, refusals: &Arc<Refusals>) -> Arc<Self> {
        Arc::new(Self { bytes_max, state: Mutex::default(), refusals: Arc::clone(refusals) })
    }

    /// Returns the bytes of all uploads now.
    pub(in crate::call::bounds) fn held(&self) -> usize {
        self.state.lock().held
    }

    /// Counts a refused upload. Returns its status, which names the bound.
    pub(super) fn refuse(&self, refusal: Refusal, max: usize) -> Status {
        self.refusals.count(refusal);
        refusal.status(max)
    }
}

/// The bytes of one upload. They are given back when it is dropped.
#[derive(Debug)]
pub(in crate::call::bounds) struct Held {
    uploads: Arc<Uploads>,
    share: Arc<Share>,
    /// Relaxed: changed by the upload alone.
    bytes: AtomicUsize,
}

impl Held {
    /// An upload of which nothing has come.
    pub(in crate::call::bounds) fn nothing(uploads: &Arc<Uploads>, share: &Arc<Share>) -> Self {
        let (uploads, share) = (Arc::clone(uploads), Arc::clone(share));
        Self { uploads, share, bytes: AtomicUsize::new(0) }
    }

    /// Returns all uploads, this one too.
    pub(super) fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    /// Counts `more` bytes. Returns the refusal, and counts nothing, if other uploads hold too many.
    pub(super) fn grow(&self, more: usize) -> Result<(), Status> {
        let (uploads, share) = (&self.uploads, &self.share);
        let share_max = share.part_of(uploads.bytes_max);
        let mut state = uploads.state.lock();
        let own = self.bytes.load(Ordering::Relaxed);
        let of_share = share.upload_bytes.load(Ordering::Relaxed);
        if of_share + more <= share_max {
            if state.held - state.excess(share_max) + more > uploads.bytes_max {
                return Err(uploads.refuse(Refusal::Uploads, uploads.bytes_max));
            }
        } else if of_share == own && state.may_be_over(share) {
            state.over = Some(Arc::clone(share));
        } else {
            let reason = match share.is_of_identity() {
                true => Refusal::UploadsOfIdentity,
                false => Refusal::Uploads,
            };
            return Err(uploads.refuse(reason, share_max));
        }
        state.held += more;
        share.upload_bytes.store(of_share + more, Ordering::Relaxed);
        self.bytes.store(own + more, Ordering::Relaxed);
        Ok(())
    }
}

impl State {
    /// Returns the bytes that one upload has beyond the share of its identity.
    fn excess(&self, share_max: usize) -> usize {
        let bytes = self.over.as_ref().map_or(0, |it| it.upload_bytes.load(Ordering::Relaxed));
        bytes.saturating_sub(share_max)
    }

    fn may_be_over(&self, share: &Arc<Share>) -> bool {
        self.over.as_ref().is_none_or(|over| Arc::ptr_eq(over, share))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        if bytes == 0 {
            return;
        }
        let mut state = self.uploads.state.lock();
        state.held -= bytes;
        let before = self.share.upload_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let is_over = state.over.as_ref().is_some_and(|over| Arc::ptr_eq(over, &self.share));
        // The share goes after the lock: it has a lock of its own.
        let share_max = self.share.part_of(self.uploads.bytes_max);
        let over = (is_over && before - bytes <= share_max).then(|| state.over.take());
        drop(state);
        drop(over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::bounds::shares::Shares;
    use tonic::Code;

    fn uploads(bytes_max: usize) -> (Arc<Uploads>, Arc<Shares>) {
        (Uploads::new(bytes_max, &Arc::default()), Shares::new(9, 9))
    }

    fn grows(upload: &Held, more: usize) -> bool {
        let grown = upload.grow(more);
        assert!(
            grown.as_ref().is_err_and(|refused| refused.code() == Code::ResourceExhausted)
                || grown.is_ok()
        );
        grown.is_ok()
    }

    #[test]
    fn all_uploads_share_the_bytes_and_one_alone_may_have_more() {
        let (uploads, shares) = uploads(100);
        let new = || Held::nothing(&uploads, &shares.of(None));
        let (first, second) = (new(), new());
        assert!(grows(&first, 60) && grows(&second, 40));
        assert!(!grows(&first, 1) && !grows(&second, 1));
        drop(second);
        assert!(grows(&first, 500), "it is alone");
        let third = new();
        assert!(!grows(&third, 1));
        drop(first);
        assert!(grows(&third, 100) && !grows(&new(), 1));
        drop(third);
        assert_eq!(uploads.held(), 0);
    }

    #[test]
    fn an_identity_leaves_half_of_the_room_to_the_others() {
        let (uploads, shares) = uploads(100);
        let new = |name| Held::nothing(&uploads, &shares.of(Some(name)));
        let many: Vec<_> = (0..5).map(|_| new("mallory")).collect();
        assert!(many.iter().all(|upload| grows(upload, 10)));
        assert!(many.iter().all(|upload| !grows(upload, 1)));
        let honest = new("ann");
        assert!(grows(&honest, 50));
        assert!(!grows(&new("bob"), 1), "the whole is full");
        drop(many);
        assert!(grows(&new("bob"), 50));
        drop(honest);
        assert_eq!(uploads.held(), 0);
    }

    #[test]
    fn the_only_upload_of_an_identity_may_have_more_and_takes_nothing_from_the_others() {
        let (uploads, shares) = uploads(100);
        let new = |name| Held::nothing(&uploads, &shares.of(Some(name)));
        let large = new("ann");
        assert!(grows(&large, 1_000) && grows(&large, 1_000));
        assert!(!grows(&new("ann"), 1), "ann has more than her share");
        let (first, second) = (new("bob"), new("bob"));
        assert!(grows(&first, 49) && grows(&second, 1) && !grows(&second, 1));
        drop(second);
        assert!(!grows(&first, 2), "another upload is over its share");
        drop(large);
        assert!(grows(&first, 500), "it is the only one of its identity");
        assert!(grows(&new("ann"), 50));
        drop(first);
        assert_eq!((uploads.held(), uploads.state.lock().over.is_none()), (0, true));
    }
}
