//! Versions of cells: which ones were written, and which one a read must at least see.
//!
//! A version is a timestamp: the milliseconds at which the run began, plus a count. So the version of a
//! value is known without a look into the value, and the newest version wins on every server, in
//! whatever order concurrent writes arrive.
//!
//! Invariants:
//! 1. A slot counts the versions of all cells that share it, so versions of one cell ascend.
//! 2. The acknowledged version of a slot belongs to the cell that its tag names. Another cell may
//!    replace it; then nothing is known of the first one, which is not an error.
//! 3. A cell whose tag does not fit is never recorded as acknowledged.
//! 4. No version is ahead of the clock, so that every write of a later run is newer. Writes of one
//!    millisecond may have one version, and then they have one value: it follows from the version.
//!
//! With as many slots as cells nothing is ever replaced. With fewer, the recent writes are known.
//! Memory is 16 bytes a slot, whatever the number of cells.

use crate::measure::Watch;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a count in an acknowledged version; the tag has the rest.
const COUNT_BITS: u32 = 40;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const TAG_MAX: u64 = (1 << (64 - COUNT_BITS)) - 1;

/// A version by its timestamp in microseconds.
pub(crate) type Version = i64;

/// Versions of the cells that this process writes.
pub(crate) struct Versions {
    /// Milliseconds since 1970 before all versions of this run.
    base_ms: i64,
    /// Time since the first version that may be given out.
    watch: Watch,
    /// The data may hold versions of earlier runs.
    reused: bool,
    /// Last count that was given out, by slot.
    issued: Box<[AtomicU64]>,
    /// Tag and count of the last acknowledged write, by slot; 0 before the first. Published with
    /// Release after the answer, and read with Acquire before a read is sent.
    acked: Box<[AtomicU64]>,
}

/// Verdict on a version that a read returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A version that the read may return.
    Good,
    /// A version older than one that was acknowledged before the read began.
    Stale,
    /// A version that this run never wrote.
    NeverWritten,
}

impl Versions {
    /// Returns versions for `cells`, of which at most `slots_max` are told apart. A run begins at
    /// `now_ms` since 1970; `reused` data may hold versions of earlier runs.
    pub(crate) fn new(cells: u64, slots_max: u64, now_ms: i64, reused: bool) -> Self {
        let slots = usize::try_from(cells.min(slots_max).max(1)).unwrap_or(usize::MAX);
        let zeros = || std::iter::repeat_with(|| AtomicU64::new(0)).take(slots).collect();
        let base_ms = now_ms.max(1) - 1;
        Self { base_ms, watch: Watch::start(), reused, issued: zeros(), acked: zeros() }
    }

    /// Returns the number of cells that can be told apart.
    #[cfg(test)]
    pub(crate) fn slots(&self) -> usize {
        self.issued.len()
    }

    fn slot(&self, cell: u64) -> (usize, u64) {
        let slots = self.issued.len() as u64;
        ((cell % slots) as usize, cell / slots)
    }

    /// Returns a version for the next write of `cell`: newer than all before, or the newest of them if
    /// the clock allows no newer one.
    pub(crate) fn issue(&self, cell: u64) -> Version {
        let (slot, _) = self.slot(cell);
        let now = u64::try_from(self.watch.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The count of the present is one more than the milliseconds since the base.
        let next = |issued: u64| (issued <= now).then_some(issued.saturating_add(1));
        let issued = self.issued[slot].fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        self.timestamp(issued.map_or_else(|newest| newest, |before| before.saturating_add(1)))
    }

    /// Records that the write of `cell` with this version was acknowledged.
    pub(crate) fn ack(&self, cell: u64, version: Version) {
        let (slot, tag) = self.slot(cell);
        let count = self.count(version);
        let (Some(count), true) = (count.filter(|count| *count <= COUNT_MAX), tag <= TAG_MAX)
        else {
            return;
        };
        let mine = tag << COUNT_BITS | count;
        let newer = |old: u64| {
            let same = old >> COUNT_BITS == tag && old & COUNT_MAX != 0;
            (!same || old < mine).then_some(mine)
        };
        // A failed update means that a newer version is there already.
        let _ = self.acked[slot].fetch_update(Ordering::AcqRel, Ordering::Acquire, newer);
    }

    /// Returns the newest version of `cell` known to be acknowledged.
    pub(crate) fn acked(&self, cell: u64) -> Option<Version> {
        let (slot, tag) = self.slot(cell);
        let acked = self.acked[slot].load(Ordering::Acquire);
        let known = acked >> COUNT_BITS == tag && acked & COUNT_MAX != 0;
        known.then(|| self.timestamp(acked & COUNT_MAX))
    }

    /// Judges the version of `cell` that a read returned, which began when `floor` was acknowledged.
    pub(crate) fn judge(&self, cell: u64, seen: Version, floor: Option<Version>) -> Seen {
        if floor.is_some_and(|floor| seen < floor) {
            return Seen::Stale;
        }
        let (slot, _) = self.slot(cell);
        let issued = self.issued[slot].load(Ordering::Acquire);
        match self.count(seen) {
            Some(count) if count <= issued => Seen::Good,
            _ if self.reused && seen >= 0 && seen % 1000 == 0 => Seen::Good,
            _ => Seen::NeverWritten,
        }
    }

    fn timestamp(&self, count: u64) -> Version {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        // Timestamps of a millisecond's granularity that an i64 of microseconds can hold.
        self.base_ms.saturating_add(count).min(i64::MAX / 1000) * 1000
    }

    /// Returns the count of a version of this run.
    fn count(&self, version: Version) -> Option<u64> {
        let ahead = (version / 1000).checked_sub(self.base_ms)?;
        (version % 1000 == 0 && ahead > 0).then(|| ahead.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pass(ms: u64) {
        tokio::time::advance(std::time::Duration::from_millis(ms)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn no_version_is_ahead_of_the_clock_so_that_later_runs_write_newer_ones() {
        let versions = Versions::new(10, 10, 1_000_000, true);
        let mut newest = 0;
        for ms in 0..100 {
            for _ in 0..50 {
                let version = versions.issue(3);
                assert!(version >= newest && version <= (1_000_000 + ms) * 1000, "{version}");
                newest = version;
            }
            pass(1).await;
        }
        let later = Versions::new(10, 10, 1_000_100, true);
        assert!(later.issue(3) > newest);
        versions.ack(3, newest);
        assert_eq!(versions.acked(3), Some(newest));
        assert_eq!(versions.judge(3, newest - 1000, versions.acked(3)), Seen::Stale);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_may_see_what_was_written_and_not_less_than_what_was_acknowledged() {
        let versions = Versions::new(10, 10, 1_000_000, false);
        let first = versions.issue(3);
        pass(5).await;
        let second = versions.issue(3);
        assert_eq!((first, second), (1_000_000_000, 1_000_001_000));
        assert_eq!(versions.acked(3), None);
        assert_eq!(versions.judge(3, second, None), Seen::Good);
        versions.ack(3, second);
        versions.ack(3, first);
        assert_eq!(versions.acked(3), Some(second));
        assert_eq!(versions.acked(4), None);
        let floor = versions.acked(3);
        assert_eq!(versions.judge(3, first, floor), Seen::Stale);
        assert_eq!(versions.judge(3, second, floor), Seen::Good);
        for never in [second + 1000, second + 1, first - 1000, 5000, -1000, i64::MAX, i64::MIN] {
            assert_eq!(versions.judge(3, never, None), Seen::NeverWritten, "{never}");
        }
    }

    #[test]
    fn reused_data_may_hold_versions_of_other_runs() {
        let versions = Versions::new(10, 10, 1_000_000, true);
        assert_eq!(versions.judge(3, 5000, None), Seen::Good);
        assert_eq!(versions.judge(3, 2_000_000_000, None), Seen::Good);
        assert_eq!(versions.judge(3, 5001, None), Seen::NeverWritten);
        let version = versions.issue(3);
        versions.ack(3, version);
        assert_eq!(versions.judge(3, 5000, versions.acked(3)), Seen::Stale);
    }

    #[tokio::test(start_paused = true)]
    async fn cells_that_share_a_slot_never_borrow_each_others_versions() {
        let versions = Versions::new(1_000_000, 4, 0, false);
        let of_1 = versions.issue(1);
        pass(1).await;
        let of_5 = versions.issue(5);
        assert!(of_1 < of_5);
        versions.ack(1, of_1);
        assert_eq!((versions.acked(1), versions.acked(5)), (Some(of_1), None));
        versions.ack(5, of_5);
        assert_eq!((versions.acked(1), versions.acked(5)), (None, Some(of_5)));
        // Cell 0 of slot 0 has tag 0, as an empty slot.
        assert_eq!(versions.acked(0), None);
        let far = u64::MAX;
        let version = versions.issue(far);
        versions.ack(far, version);
        assert_eq!(versions.acked(far), None);
    }
}
