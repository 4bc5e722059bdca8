//! Snapshots: sequence numbers that readers hold, and what compaction must keep for them.
//!
//! Invariant: whoever may drop entries chooses its inputs first and reads `live` after. A snapshot
//! taken later has a sequence number at or above every entry of those inputs, so it needs only
//! what the newest reader needs.

use crate::cell::SequenceNumber;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The last committed sequence number, and the earlier ones that are held.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Last sequence number whose batch is applied. Written by the commit leader (`Release`, after
    /// the memtables hold the batch), read by readers (`Acquire`).
    published: AtomicU64,
    /// Held numbers and by how many snapshots.
    held: Mutex<BTreeMap<SequenceNumber, usize>>,
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
    }

    /// Holds the present moment.
    pub(crate) fn take(self: &Arc<Self>) -> Snapshot {
        let mut held = self.held.lock();
        let sequence = self.published();
        *held.entry(sequence).or_default() += 1;
        Snapshot { pin: Arc::new(Pin { snapshots: Arc::clone(self), sequence }) }
    }

    /// The held sequence numbers, ascending.
    pub(crate) fn live(&self) -> Vec<SequenceNumber> {
        self.held.lock().keys().copied().collect()
    }

    /// Where the readers that there are, and those to come, can tell entries apart: the held
    /// numbers, and what is published. Only a reader that holds nothing, and was late to look, may
    /// be at another.
    pub(crate) fn borders(&self) -> Vec<SequenceNumber> {
        let mut borders = self.live();
        borders.push(self.published());
        borders
    }

    fn release(&self, sequence: SequenceNumber) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                held.remove(&sequence);
            }
        }
    }
}

#[derive(Debug)]
struct Pin {
    snapshots: Arc<Snapshots>,
    sequence: SequenceNumber,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.snapshots.release(self.sequence);
    }
}

/// A moment of the engine; reads through it see exactly the batches committed before it, and
/// compaction keeps what it needs, until its last clone is dropped.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pin: Arc<Pin>,
}

impl Snapshot {
    /// The last sequence number the snapshot sees.
    pub fn sequence(&self) -> SequenceNumber {
        self.pin.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_held_until_its_last_snapshot_is_dropped() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(SequenceNumber(4));
        let (first, second) = (snapshots.take(), snapshots.take());
        snapshots.publish(SequenceNumber(9));
        let third = snapshots.take();
        let copy = first.clone();
        drop(first);
        drop(second);
        assert_eq!(snapshots.live(), [SequenceNumber(4), SequenceNumber(9)]);
        drop(copy);
        assert_eq!(snapshots.live(), [SequenceNumber(9)]);
        assert_eq!(third.sequence(), SequenceNumber(9));
    }
}
