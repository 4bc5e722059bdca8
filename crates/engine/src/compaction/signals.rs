//! What asks for a compaction although the shape of a tree does not: files that are mostly garbage,
//! and reads of a quiet tree that look at several runs. Values; what they lead to is decided by
//! `pick`.

use crate::cell::SequenceNumber;
use crate::manifest::{FileNumber, SstMeta};
use crate::semantics::elision_policy::{ElisionPolicy, Verdict};
use crate::sstable::Ages;
use std::collections::HashMap;

/// All of something, in the unit of shares: thousandths.
pub(crate) const WHOLE: u64 = 1000;

/// What is known of a tree beside its version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signals {
    /// How much of a file would vanish if it were rewritten at the bottom, in thousandths of its
    /// entries ([`garbage_share`]). Files that are not listed have none.
    pub garbage: HashMap<FileNumber, u64>,
    /// Every view sees what has this number or a smaller one: tombstones up to here hide for good.
    pub settled: SequenceNumber,
    /// Runs that reads looked at, of all reads since the tree was last written or compacted.
    /// `None` while it is being written, or was until a moment ago.
    pub quiet_reads: Option<u64>,
}

/// How much of a file would vanish if it were rewritten at the bottom now, in thousandths of its
/// entries: its tombstones, and its cells that `policy` lets vanish for their age alone. 0 as long
/// as a view that sees less than `settled` says may need them.
pub(crate) fn garbage_share(
    meta: &SstMeta,
    ages: Option<&Ages>,
    policy: &dyn ElisionPolicy,
    settled: SequenceNumber,
) -> u64 {
    if meta.sequence_max > settled || meta.entries == 0 {
        return 0;
    }
    let expired = ages.into_iter().flat_map(Ages::buckets).filter(|(family, newest, _)| {
        // As the newest version of its column: then it may vanish as any.
        policy.verdict(*family, 0, *newest) == Verdict::Elide
    });
    let expired: u64 = expired.map(|(_, _, cells)| cells).sum();
    let garbage = u128::from(meta.tombstones) + u128::from(expired);
    let share = garbage * u128::from(WHOLE) / u128::from(meta.entries);
    u64::try_from(share).unwrap_or(WHOLE).min(WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Column, EntryKey, FamilyId, Kind, Timestamp};
    use crate::compaction::testing::file;

    /// Lets cells of family 1 vanish that are older than a time, and no others.
    struct Before(i64);

    impl ElisionPolicy for Before {
        fn verdict(&self, family: FamilyId, version: u32, timestamp: Timestamp) -> Verdict {
            let old = timestamp.0 < self.0 || version > 0;
            if family == FamilyId(1) && old { Verdict::Elide } else { Verdict::Keep }
        }
    }

    #[test]
    fn tombstones_and_expired_cells_are_garbage_once_every_view_sees_them() {
        let mut ages = Ages::default();
        for at in 0..100i64 {
            let column = Column::of(FamilyId(if at < 50 { 1 } else { 2 }), b"q");
            let (timestamp, sequence) = (Timestamp(at << 30), SequenceNumber(1));
            ages.add(&EntryKey { column, timestamp, sequence, kind: Kind::Put });
        }
        let never = i64::MIN;
        for (case, tombstones, policy, settled, want) in [
            ("nothing", 0, never, 9, 0),
            ("tombstones", 60, never, 9, 300),
            ("a view may need them", 60, i64::MAX, 8, 0),
            ("what is old of one family", 0, i64::MAX, 9, 250),
            ("half of it", 0, 25 << 30, 9, 120),
            ("both", 60, i64::MAX, 9, 550),
        ] {
            let meta = SstMeta { entries: 200, tombstones, ..file(1, b"a", b"z", 9) };
            let share = garbage_share(&meta, Some(&ages), &Before(policy), SequenceNumber(settled));
            // Buckets are coarse, and a bucket counts only when all of it has expired.
            assert!(share <= want && share + 40 >= want.min(share + 40), "{case}: {share}");
            assert_eq!(share == 0, want == 0, "{case}: {share}");
        }
    }

    #[test]
    fn a_file_that_does_not_tell_its_ages_has_only_tombstones() {
        let meta = SstMeta { entries: 10, tombstones: 10, ..file(1, b"a", b"z", 9) };
        let all = Before(i64::MAX);
        assert_eq!(garbage_share(&meta, None, &all, SequenceNumber(9)), WHOLE);
        let empty = SstMeta { entries: 0, tombstones: 0, ..meta };
        assert_eq!(garbage_share(&empty, None, &all, SequenceNumber(9)), 0);
    }
}
