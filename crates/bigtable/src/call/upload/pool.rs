//! Bytes of requests that have not come to their ends, of all calls together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all uploads.
#[derive(Debug)]
pub(crate) struct Uploads {
    bytes_max: usize,
    /// Relaxed: a count that stands by itself.
    held: AtomicUsize,
}

impl Uploads {
    /// Uploads that have at most `bytes_max` bytes together.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: AtomicUsize::new(0) })
    }

    /// Bytes that all uploads may have.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

/// The bytes of one upload. They are given back when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    uploads: Arc<Uploads>,
    /// Relaxed: changed by the upload alone.
    bytes: AtomicUsize,
}

impl Held {
    /// An upload of which nothing has come.
    pub(super) fn nothing(uploads: &Arc<Uploads>) -> Self {
        Self { uploads: Arc::clone(uploads), bytes: AtomicUsize::new(0) }
    }

    /// Returns all uploads, this one too.
    pub(super) fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    /// Counts `more` bytes. Returns false, and counts nothing, if other uploads hold too many.
    pub(super) fn grow(&self, more: usize) -> bool {
        let own = self.bytes.load(Ordering::Relaxed);
        let bytes_max = self.uploads.bytes_max;
        let grown = self.uploads.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            (held == own || held + more <= bytes_max).then_some(held + more)
        });
        if grown.is_ok() {
            self.bytes.store(own + more, Ordering::Relaxed);
        }
        grown.is_ok()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        if bytes > 0 {
            self.uploads.held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_uploads_share_the_bytes_and_one_alone_may_have_more() {
        let uploads = Uploads::new(100);
        let (first, second) = (Held::nothing(&uploads), Held::nothing(&uploads));
        assert!(first.grow(60) && second.grow(40));
        assert!(!first.grow(1) && !second.grow(1));
        drop(second);
        assert!(first.grow(500), "it is alone");
        let third = Held::nothing(&uploads);
        assert!(!third.grow(1));
        drop(first);
        assert!(third.grow(100) && !Held::nothing(&uploads).grow(1));
        drop(third);
        assert_eq!(uploads.held.load(Ordering::Relaxed), 0);
    }
}
