//! Random histories, cut into runs, compacted in random steps while snapshots are released: every
//! live view must read the same before and after each step.

use super::*;
use crate::compaction::covering_tombstones::{Covering, Dropped};
use crate::compaction::testing::{Collect, MemoryRun, changes, model_of, runs_of};
use crate::request::{OwnedCell, RowRange};
use crate::semantics::elision_policy::{KeepAll, Verdict};
use crate::semantics::model::Model;
use crate::semantics::row_cursor::testing::{Owned, VecCursor, sorted};
use proptest::prelude::*;

/// What stays of `cells`, the visible ones of a row in order, when `policy` was applied to them.
fn kept(cells: Vec<OwnedCell>, policy: &dyn ElisionPolicy) -> Vec<OwnedCell> {
    let mut kept = Vec::new();
    for column in cells.chunk_by(|a, b| (a.family, &a.qualifier) == (b.family, &b.qualifier)) {
        for (version, cell) in (0u32..).zip(column) {
            if policy.verdict(cell.family, version, cell.timestamp) == Verdict::Keep {
                kept.push(cell.clone());
            }
        }
    }
    kept
}

/// Compacts `inputs`, which lie just below `above` and above `below`.
fn compact(
    above: &[MemoryRun],
    inputs: &[MemoryRun],
    below: &[MemoryRun],
    stripes: &Stripes,
    policy: &dyn ElisionPolicy,
) -> MemoryRun {
    let deletes = |row: &[u8], _| Ok(above.iter().any(|run| run.deletes(row)));
    let older: Vec<RowRange> = below.iter().filter_map(MemoryRun::hull).collect();
    let dropped: Vec<_> = inputs.iter().flat_map(|run| run.dropped.clone()).collect();
    let dropped = Dropped::new(&dropped, stripes);
    let entries = inputs.iter().flat_map(|run| run.entries.clone()).collect();
    let mut cursor = VecCursor::new(sorted(entries));
    let mut elider = Elider::new(stripes, policy, &deletes);
    let mut out = Collect::default();
    cursor.seek(&[]).unwrap();
    while let Some(row) = cursor.row().map(<[u8]>::to_vec) {
        let covered = older.iter().any(|hull| hull.contains(&row));
        let depth = if covered { Depth::Above } else { Depth::Bottom };
        out.row.clone_from(&row);
        elider
            .row(&mut cursor, dropped.covering(&row, &mut Covering::default()), depth, &mut out)
            .unwrap();
        cursor.next_row().unwrap();
    }
    let want = sorted(out.entries.clone());
    assert_eq!(out.entries, want, "a compaction writes entries in order");
    for pair in want.windows(2) {
        let key = |(row, entry): &Owned| {
            (
                row.clone(),
                entry.family,
                entry.scope,
                entry.qualifier.clone(),
                entry.timestamp,
                entry.sequence,
            )
        };
        assert_ne!(key(&pair[0]), key(&pair[1]), "entries stay unique");
    }
    let dropped = dropped.surviving(&older, stripes).within(&RowRange::ALL);
    MemoryRun { entries: out.entries, dropped }
}

fn assert_same_reads(
    before: &Model,
    after: &Model,
    snapshots: &[u64],
    policy: &dyn ElisionPolicy,
    step: &str,
) {
    for view in snapshots.iter().copied().chain([SequenceNumber::MAX.0]).map(SequenceNumber) {
        for row in [b"a", b"b", b"c"] {
            let want = kept(before.row_at(row, view), policy);
            let got = kept(after.row_at(row, view), policy);
            assert_eq!(got, want, "row {} at {view:?} after {step}", row.escape_ascii());
        }
    }
}

/// Compacts neighbours as `steps` say, releasing a snapshot before each step.
fn check_steps(
    mut runs: Vec<MemoryRun>,
    mut snapshots: Vec<u64>,
    steps: &[(u8, u8, bool)],
    policy: &dyn ElisionPolicy,
) {
    let before = model_of(&runs);
    for step in steps {
        if step.2 && !snapshots.is_empty() {
            snapshots.remove(usize::from(step.0) % snapshots.len());
        }
        let from = usize::from(step.0) % runs.len();
        let to = from + 1 + usize::from(step.1) % (runs.len() - from);
        let stripes = Stripes::new(snapshots.iter().copied().map(SequenceNumber).collect());
        let merged = compact(&runs[..from], &runs[from..to], &runs[to..], &stripes, policy);
        runs.splice(from..to, [merged]);
        assert_same_reads(&before, &model_of(&runs), &snapshots, policy, &format!("{step:?}"));
    }
    let merged = compact(&[], &runs, &[], &Stripes::default(), policy);
    assert_at_rest(&merged);
    assert_same_reads(&before, &model_of(&[merged]), &[], policy, "the end");
}

/// Without snapshots and with nothing below, no more is left than reads need.
fn assert_at_rest(run: &MemoryRun) {
    assert!(run.dropped.is_empty());
    for (_, entry) in &run.entries {
        assert_ne!(entry.kind, Kind::Tombstone);
        assert!(entry.kind == Kind::Merge || entry.sequence == SequenceNumber(0));
    }
    let same_cell = |a: &Owned, b: &Owned| {
        (&a.0, a.1.family, &a.1.qualifier, a.1.timestamp)
            == (&b.0, b.1.family, &b.1.qualifier, b.1.timestamp)
    };
    for cell in run.entries.chunk_by(same_cell) {
        assert!(cell.len() == 1 || cell[0].1.kind == Kind::Merge);
    }
}

struct Rule {
    versions_max: u32,
    oldest: i64,
    both: bool,
}

impl ElisionPolicy for Rule {
    fn verdict(&self, family: FamilyId, version: u32, timestamp: Timestamp) -> Verdict {
        let (many, old) = (version >= self.versions_max, timestamp.0 < self.oldest);
        let elide = family.0 == 1 && if self.both { many && old } else { many || old };
        if elide { Verdict::Elide } else { Verdict::Keep }
    }
}

fn rules() -> impl Strategy<Value = Rule> {
    (1u32..3, 0i64..3, any::<bool>()).prop_map(|(versions_max, oldest, both)| Rule {
        versions_max,
        oldest,
        both,
    })
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} versions, {} oldest, both {}", self.versions_max, self.oldest, self.both)
    }
}

fn numbers(max: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(1u8..40, 0..max)
}

fn steps(max: usize) -> impl Strategy<Value = Vec<(u8, u8, bool)>> {
    proptest::collection::vec(any::<(u8, u8, bool)>(), 1..max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_live_view_reads_the_same_after_compaction(
        changes in changes(3),
        cuts in numbers(6),
        snapshots in numbers(4),
        steps in steps(6),
    ) {
        let snapshots = snapshots.into_iter().map(u64::from).collect();
        check_steps(runs_of(&changes, &cuts), snapshots, &steps, &KeepAll);
    }

    #[test]
    fn garbage_vanishes_only_where_reads_hide_it(
        changes in changes(3),
        cuts in numbers(6),
        snapshots in numbers(4),
        steps in steps(6),
        rule in rules(),
    ) {
        let snapshots = snapshots.into_iter().map(u64::from).collect();
        check_steps(runs_of(&changes, &cuts), snapshots, &steps, &rule);
    }
}

#[test]
fn garbage_stays_where_dropping_it_could_bring_older_data_to_light() {
    let change = |what, timestamp, number| (what, 0, 1, 0, timestamp, number);
    let rule = Rule { versions_max: 1, oldest: 0, both: false };
    let runs = runs_of(&[change(0, 1, 0), change(0, 1, 1), change(0, 2, 0)], &[2]);
    let compacted = |snapshots: &[u64], all: bool| {
        let stripes = Stripes::new(snapshots.iter().copied().map(SequenceNumber).collect());
        let (inputs, below) = runs.split_at(if all { 2 } else { 1 });
        compact(&[], inputs, below, &stripes, &rule).entries.len()
    };
    assert_eq!(compacted(&[], true), 1);
    assert_eq!(compacted(&[], false), 2, "an older value of the cell lies below");
    assert_eq!(compacted(&[2], true), 2, "the snapshot sees the second version as the first");
    assert_eq!(compacted(&[1], true), 3, "the snapshot sees an older value");
}

/// Two versions, of which one is kept; then the newer is deleted, in a run of its own.
#[test]
fn a_version_that_is_deleted_above_the_inputs_does_not_count() {
    let put = |timestamp| (0, 0, 1, 0, timestamp, 0);
    let delete = |row| (10, row, 1, 0, 2, 0);
    let rule = Rule { versions_max: 1, oldest: 0, both: false };
    let left = |row| {
        let runs = runs_of(&[put(1), put(2), delete(row)], &[3]);
        let merged = compact(&runs[..1], &runs[1..], &[], &Stripes::default(), &rule);
        let reads =
            |runs: &[MemoryRun]| kept(model_of(runs).row_at(b"a", SequenceNumber(3)), &rule);
        let after = [runs[0].clone(), merged];
        assert_eq!(reads(&after), reads(&runs));
        after[1].entries.len()
    };
    assert_eq!(left(0), 2, "the older version may be the newest that there is");
    assert_eq!(left(1), 1, "another row's delete keeps nothing");
}

#[test]
fn counts_are_added_up_each_by_itself() {
    let of = |n: u64| ElisionCounts {
        seen: n,
        shadowed: 2 * n,
        covered: 3 * n,
        tombstones: 4 * n,
        folded: 5 * n,
        garbage: 6 * n,
        outnumbered: 7 * n,
    };
    let mut sum = of(10);
    sum += of(3);
    assert_eq!(sum, of(13));
}
