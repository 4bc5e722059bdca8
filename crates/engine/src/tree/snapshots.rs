//! Snapshots: sequence numbers that readers hold, and what compaction must keep for them.
//!
//! Invariants:
//! 1. Whoever may drop entries chooses its inputs first and reads `live` after. A snapshot taken
//!    later has a sequence number at or above every entry of those inputs, so it needs only what
//!    the newest reader needs.
//! 2. One case is an exception: the snapshot sees a delete that the compaction did not know, and
//!    that brings back an older version of a cell. Such a snapshot keeps the tree's view of before
//!    the compaction (`HeldStill::keep`), and reads the tree in that view from then on.
//! 3. Snapshots of one number that are held together keep the same views. A snapshot of a number
//!    that nobody held when the view was replaced has never seen the old view, and never will.

use crate::cell::{SequenceNumber, TreeId};
use crate::locks::{CommitWaiters, HeldSnapshots, KeptViews};
use crate::semantics::stripes::Borders;
use crate::tree::read_view::ReadView;
use base::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The last committed sequence number, and the earlier ones that are held.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Last sequence number whose batch is applied. Written by the commit leader (`Release`, after
    /// the memtables hold the batch), read by readers (`Acquire`).
    published: AtomicU64,
    held: Mutex<BTreeMap<SequenceNumber, Held>, HeldSnapshots>,
    /// True if `waiters` may have any. Written and read in one order with `published` (`SeqCst`
    /// fences): either a waiter sees the number it waits for, or the publisher sees the waiter.
    has_waiters: AtomicBool,
    waiters: Mutex<Waiters, CommitWaiters>,
}

/// Tasks that wait for a commit.
#[derive(Debug, Default)]
struct Waiters {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
    /// True once the engine closes: then no task waits.
    closed: bool,
}

/// Waits for a commit; see [`Snapshots::published_after`].
pub(crate) struct PublishedAfter<'a> {
    snapshots: &'a Snapshots,
    sequence: SequenceNumber,
    /// Key among the waiters, once it is one.
    key: Option<u64>,
}

impl Future for PublishedAfter<'_> {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.snapshots.published() > this.sequence {
            return Poll::Ready(());
        }
        let mut waiters = this.snapshots.waiters.lock();
        if waiters.closed {
            return Poll::Ready(());
        }
        let key = *this.key.get_or_insert_with(|| {
            waiters.next += 1;
            waiters.next
        });
        let before = waiters.wakers.insert(key, context.waker().clone());
        this.snapshots.has_waiters.store(true, Ordering::Relaxed);
        drop(waiters);
        // Outside of the lock: it may be the last of a task that waits itself.
        drop(before);
        fence(Ordering::SeqCst);
        match this.snapshots.published() > this.sequence {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for PublishedAfter<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.snapshots.waiters.lock().wakers.remove(&key);
            drop(waker);
        }
    }
}

/// A number that snapshots hold.
#[derive(Debug, Default)]
struct Held {
    /// How many snapshots hold the number, by the time when they were taken, of the monotonic clock.
    since: BTreeMap<Duration, usize>,
    kept: Arc<Kept>,
}

/// The views that the snapshots of one number read instead of the newest (invariant 2).
#[derive(Default)]
struct Kept {
    /// True if `views` has any. Set (`Release`) before the view that replaces them is stored, and
    /// read (`Acquire`) after a view was loaded: who sees the new view sees this.
    any: AtomicBool,
    /// One of a tree at most: the first is right for good.
    views: Mutex<Vec<(TreeId, Arc<ReadView>)>, KeptViews>,
}

impl Kept {
    fn keep(&self, tree: TreeId, view: &Arc<ReadView>) {
        let mut views = self.views.lock();
        if views.iter().all(|(of, _)| *of != tree) {
            views.push((tree, Arc::clone(view)));
            self.any.store(true, Ordering::Release);
        }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.views.lock().iter().map(|(tree, _)| tree)).finish()
    }
}

/// While this lives no snapshot is taken or dropped.
pub(crate) struct HeldStill<'a>(MutexGuard<'a, BTreeMap<SequenceNumber, Held>, HeldSnapshots>);

impl HeldStill<'_> {
    /// Has every snapshot with a number above `known` read `tree` in `view`, unless it keeps an
    /// older view of the tree.
    pub(crate) fn keep(&self, known: SequenceNumber, tree: TreeId, view: &Arc<ReadView>) {
        let above = (Bound::Excluded(known), Bound::Unbounded);
        self.0.range(above).for_each(|(_, held)| held.kept.keep(tree, view));
    }
}

impl Snapshots {
    /// The last committed sequence number.
    pub(crate) fn published(&self) -> SequenceNumber {
        SequenceNumber(self.published.load(Ordering::Acquire))
    }

    /// Makes everything up to `last` visible to new readers.
    pub(crate) fn publish(&self, last: SequenceNumber) {
        let before = self.published.swap(last.0, Ordering::Release);
        assert!(before <= last.0, "commits are published in order");
        fence(Ordering::SeqCst);
        if self.has_waiters.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Waits until a number above `sequence` is published, or the engine closes.
    pub(crate) fn published_after(&self, sequence: SequenceNumber) -> PublishedAfter<'_> {
        PublishedAfter { snapshots: self, sequence, key: None }
    }

    /// Lets everybody go who waits for a commit, now and later.
    pub(crate) fn close(&self) {
        self.waiters.lock().closed = true;
        self.wake();
    }

    fn wake(&self) {
        let wakers = {
            let mut waiters = self.waiters.lock();
            self.has_waiters.store(false, Ordering::Relaxed);
            std::mem::take(&mut waiters.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }

    /// Holds the present moment, which is `now` by the monotonic clock.
    pub(crate) fn take(self: &Arc<Self>, now: Duration) -> Snapshot {
        let mut held = self.held.lock();
        let sequence = self.published();
        let of_number = held.entry(sequence).or_default();
        *of_number.since.entry(now).or_default() += 1;
        let kept = Arc::clone(&of_number.kept);
        let snapshots = Arc::clone(self);
        Snapshot { pin: Arc::new(Pin { snapshots, sequence, since: now, kept }) }
    }

    /// Keeps snapshots from being taken and dropped until the answer is dropped.
    pub(crate) fn hold_still(&self) -> HeldStill<'_> {
        HeldStill(self.held.lock())
    }

    /// Lets go of the views that snapshots keep of `tree`, which is dropped: nobody reads it any
    /// more.
    pub(crate) fn forget(&self, tree: TreeId) {
        let mut forgotten = Vec::new();
        for held in self.held.lock().values() {
            forgotten.extend(held.kept.views.lock().extract_if(.., |(of, _)| *of == tree));
        }
    }

    /// The held sequence numbers, ascending.
    pub(crate) fn live(&self) -> Vec<SequenceNumber> {
        self.held.lock().keys().copied().collect()
    }

    /// Returns when the oldest snapshot that is held was taken, by the monotonic clock.
    pub(crate) fn oldest_since(&self) -> Option<Duration> {
        let held = self.held.lock();
        held.values().next().and_then(|held| held.since.keys().next().copied())
    }

    fn release(&self, sequence: SequenceNumber, since: Duration) {
        let mut held = self.held.lock();
        let Some(of_number) = held.get_mut(&sequence) else { return };
        if let Some(snapshots) = of_number.since.get_mut(&since) {
            *snapshots -= 1;
            if *snapshots == 0 {
                of_number.since.remove(&since);
            }
        }
        if of_number.since.is_empty() {
            held.remove(&sequence);
        }
    }
}

impl Borders for Snapshots {
    /// Where the readers that there are, and those to come, can tell entries apart: the held
    /// numbers, and what is published. Only a reader that holds nothing, and was late to look, may
    /// be at another.
    fn borders(&self) -> Vec<SequenceNumber> {
        let mut borders = self.live();
        borders.push(self.published());
        borders
    }
}

#[derive(Debug)]
struct Pin {
    snapshots: Arc<Snapshots>,
    sequence: SequenceNumber,
    /// Time when it was taken.
    since: Duration,
    /// That of the number. Views end with the last pin, outside of all locks.
    kept: Arc<Kept>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.snapshots.release(self.sequence, self.since);
    }
}

/// A moment of the engine; reads through it see exactly the batches committed before it, and
/// compaction keeps what it needs, until its last clone is dropped.
///
/// A snapshot costs what it keeps. Versions that it sees and newer readers do not are written again by
/// each compaction. Besides, where a compaction began before the snapshot was taken and ends after, and
/// newest versions of cells were deleted meanwhile, the snapshot keeps the tree as it was at that end: all
/// SSTables it had, which stay on disk, and its memtables, which stay in memory though they are flushed.
/// It keeps one such view of a tree at most, whatever is compacted later. Dropping the last snapshot of a
/// sequence number lets go of it all: the memory is free then, the files are removed, and the versions go
/// with the compactions that follow. Dropping a tree lets go of what is kept of that tree.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pin: Arc<Pin>,
}

impl Snapshot {
    /// The last sequence number the snapshot sees.
    pub fn sequence(&self) -> SequenceNumber {
        self.pin.sequence
    }

    /// The view of `tree` that the snapshot keeps, if it keeps one. To be asked after the tree's
    /// newest view was loaded.
    #[inline]
    pub(crate) fn kept_view(&self, tree: TreeId) -> Option<Arc<ReadView>> {
        if !self.pin.kept.any.load(Ordering::Acquire) {
            return None;
        }
        let views = self.pin.kept.views.lock();
        views.iter().find(|(of, _)| *of == tree).map(|(_, view)| Arc::clone(view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_held_until_its_last_snapshot_is_dropped() {
        let snapshots = Arc::new(Snapshots::default());
        let at = Duration::from_secs;
        assert_eq!(snapshots.oldest_since(), None);
        snapshots.publish(SequenceNumber(4));
        let (first, second) = (snapshots.take(at(1)), snapshots.take(at(2)));
        snapshots.publish(SequenceNumber(9));
        let third = snapshots.take(at(3));
        let copy = first.clone();
        drop(first);
        drop(second);
        assert_eq!(snapshots.live(), [SequenceNumber(4), SequenceNumber(9)]);
        assert_eq!(snapshots.oldest_since(), Some(at(1)));
        drop(copy);
        assert_eq!(snapshots.oldest_since(), Some(at(3)));
        assert_eq!(snapshots.live(), [SequenceNumber(9)]);
        assert_eq!(third.sequence(), SequenceNumber(9));
    }

    /// Without writes all snapshots are of one number, whose first was taken long ago.
    #[test]
    fn the_oldest_snapshot_is_one_that_is_held() {
        let snapshots = Arc::new(Snapshots::default());
        let at = Duration::from_secs;
        let mut last = snapshots.take(at(1));
        let same = snapshots.take(at(1));
        drop(same);
        assert_eq!(snapshots.oldest_since(), Some(at(1)));
        for second in 2..9 {
            last = snapshots.take(at(second));
            assert_eq!(snapshots.oldest_since(), Some(at(second)));
        }
        drop(last);
        assert_eq!((snapshots.oldest_since(), snapshots.live()), (None, Vec::new()));
    }
}
