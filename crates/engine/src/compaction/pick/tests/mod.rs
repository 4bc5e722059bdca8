//! Chosen shapes, and a whole tree in memory that flushes and compacts at random, several plans
//! at a time: it keeps the invariants of a version, reads as the model does, and comes to rest.

mod examples;

use super::*;
use crate::cell::{SequenceNumber, Timestamp, TreeId};
use crate::compaction::covering_tombstones::{Covering, Dropped};
use crate::compaction::output_split::Splitter;
use crate::compaction::row_elision::{Depth, Elider};
use crate::compaction::signals::WHOLE;
use crate::compaction::testing::{Collect, MemoryRun, changes, file, model_of, runs_of};
use crate::manifest::{Edit, State};
use crate::options::TreeOptions;
use crate::semantics::elision_policy::KeepAll;
use crate::semantics::model::Model;
use crate::semantics::row_cursor::RowCursor;
use crate::semantics::row_cursor::testing::{VecCursor, sorted};
use crate::semantics::stripes::Stripes;
use proptest::prelude::*;
use std::collections::BTreeMap;

const ROWS: [u8; 8] = *b"abcdefgh";
const ENTRY_BYTES: u64 = 100;

fn options(l0_runs_compact: usize, sst_entries: u64, l1_entries: u64) -> Options {
    Options {
        l0_runs_compact,
        sst_bytes_max: sst_entries * ENTRY_BYTES,
        l1_bytes_max: l1_entries * ENTRY_BYTES,
        memtable_bytes_max: 4 * ENTRY_BYTES as usize,
        ..Options::default()
    }
}

fn meta(number: u64, content: &MemoryRun) -> SstMeta {
    let dropped = content
        .dropped
        .iter()
        .map(|range| RowRange { start: range.start.clone(), end: range.end.clone() });
    let dropped = hull(dropped);
    let row = |entry: Option<&(Vec<u8>, _)>| {
        let start = dropped.as_ref().map(|range| range.start.clone());
        entry.map(|(row, _)| row.clone()).or(start).unwrap()
    };
    let sequences = content.entries.iter().map(|(_, entry)| entry.sequence);
    let sequences: Vec<SequenceNumber> =
        sequences.chain(content.dropped.iter().map(|range| range.sequence)).collect();
    SstMeta {
        number: FileNumber(number),
        bytes: (content.entries.len() + content.dropped.len()) as u64 * ENTRY_BYTES,
        first_row: row(content.entries.first()),
        last_row: row(content.entries.last()),
        entries: content.entries.len() as u64,
        tombstones: 0,
        range_tombstones: content.dropped.len() as u64,
        sequence_min: *sequences.iter().min().unwrap(),
        sequence_max: *sequences.iter().max().unwrap(),
        timestamp_min: Timestamp::MIN,
        timestamp_max: Timestamp::MAX,
        dropped,
    }
}

/// A tree in memory, and the plans it runs.
struct TreeState {
    version: TreeVersion,
    state: State,
    files: BTreeMap<FileNumber, MemoryRun>,
    next: u64,
    busy: Busy,
    running: Vec<(Plan, Vec<SstMeta>)>,
    options: Options,
}

impl TreeState {
    fn new(options: Options) -> Self {
        let (tree, tree_options) = (TreeId(1), TreeOptions::default());
        let create = Edit::CreateTree { tree, options: tree_options.clone() };
        Self {
            version: TreeVersion::empty(tree_options),
            state: State::default().apply(&[create]).unwrap(),
            files: BTreeMap::new(),
            next: 1,
            busy: Busy::default(),
            running: Vec::new(),
            options,
        }
    }

    fn add_file(&mut self, content: MemoryRun) -> SstMeta {
        let meta = meta(self.next, &content);
        self.files.insert(meta.number, content);
        self.next += 1;
        meta
    }

    fn flush(&mut self, run: MemoryRun) {
        if !run.entries.is_empty() || !run.dropped.is_empty() {
            let run = MemoryRun { entries: sorted(run.entries), ..run };
            let meta = self.add_file(run);
            let (tree, run) = (TreeId(1), self.version.next_run());
            let edit = Edit::AddSst { tree, level: 0, run, meta };
            self.state = self.state.apply(&[edit]).unwrap();
            self.version = TreeVersion::clone(self.state.tree(tree).unwrap());
        }
    }

    /// Signals drawn from `seed`: any file may be called garbage, reads may pay for anything.
    fn signals(&self, seed: u64) -> Signals {
        let files = self.version.runs().flat_map(|run| &run.ssts);
        let share = |sst: &Arc<SstMeta>| (sst.number, (sst.number.0 * 37 + seed * 11) % WHOLE);
        Signals {
            garbage: files.map(share).collect(),
            settled: SequenceNumber(seed % 60),
            quiet_reads: seed.is_multiple_of(3).then_some(seed),
        }
    }

    fn start(&mut self, plan: Plan, stripes: &Stripes) {
        self.busy.start(&plan);
        let outputs = match plan.work {
            Work::Move => plan.ssts().map(|sst| SstMeta::clone(sst)).collect(),
            Work::Merge => {
                let contents = execute(&plan, &self.files, stripes, &self.options);
                contents.into_iter().map(|content| self.add_file(content)).collect()
            }
        };
        self.running.push((plan, outputs));
    }

    fn install(&mut self, which: usize) {
        let (plan, outputs) = self.running.swap_remove(which);
        self.busy.finish(&plan);
        let tree = TreeId(1);
        let mut edits = plan.removals(tree);
        let (level, run) = plan.place();
        edits.extend(outputs.into_iter().map(|meta| Edit::AddSst { tree, level, run, meta }));
        self.state = self.state.apply(&edits).unwrap();
        self.version = TreeVersion::clone(self.state.tree(tree).unwrap());
    }

    fn check(&self, model: &Model, views: &[SequenceNumber], step: &str) {
        for run in self.version.runs() {
            for pair in run.ssts.windows(2) {
                assert!(pair[0].last_row < pair[1].first_row, "rows of {run:?} after {step}");
                let (a, b) = (pair[0].span(), pair[1].span());
                assert!(a.end.is_some_and(|end| end <= b.start), "spans of {run:?} after {step}");
            }
        }
        assert!(self.version.levels[LEVELS - 1].len() <= 1);
        self.check_recency(step);
        let files = self.version.runs().flat_map(|run| &run.ssts);
        let got = model_of(files.map(|sst| &self.files[&sst.number]));
        for view in views {
            for row in ROWS.map(|row| [row]) {
                assert_eq!(got.row_at(&row, *view), model.row_at(&row, *view), "{view:?} {step}");
            }
        }
    }

    /// All of a row in one run is newer than all of it in the runs below; a put without number
    /// has nothing below.
    fn check_recency(&self, step: &str) {
        for row in ROWS.map(|row| [row]) {
            let mut newest_allowed = SequenceNumber::MAX;
            for run in self.version.runs() {
                let files = run.ssts.iter().map(|sst| &self.files[&sst.number]);
                let mut here: Vec<SequenceNumber> = Vec::new();
                for file in files {
                    let entries = file.entries.iter().filter(|(r, _)| *r == row);
                    here.extend(entries.map(|(_, entry)| entry.sequence));
                    let dropped = file.dropped.iter().filter(|range| range.covers(&row));
                    here.extend(dropped.map(|range| range.sequence));
                }
                let Some(newest) = here.iter().max() else { continue };
                assert!(*newest < newest_allowed, "row {row:?} after {step}");
                newest_allowed = *here.iter().min().unwrap();
            }
        }
    }
}

/// What `run` does, in memory.
fn execute(
    plan: &Plan,
    files: &BTreeMap<FileNumber, MemoryRun>,
    stripes: &Stripes,
    options: &Options,
) -> Vec<MemoryRun> {
    let inputs: Vec<&MemoryRun> = plan.ssts().map(|sst| &files[&sst.number]).collect();
    let dropped: Vec<_> = inputs.iter().flat_map(|run| run.dropped.clone()).collect();
    let dropped = Dropped::new(&dropped, stripes);
    let surviving = dropped.surviving(&plan.older, stripes);
    let entries = inputs.iter().flat_map(|run| run.entries.clone()).collect();
    let mut cursor = VecCursor::new(sorted(entries));
    let mut elider = Elider::new(stripes, &KeepAll, &|_, _| Ok(false));
    let mut splitter = Splitter::new(options, plan.cuts.clone(), plan.below.clone());
    let mut outputs = Vec::new();
    let mut out = Collect::default();
    let mut start = Vec::new();
    let mut end = |out: &mut Collect, border: Option<Vec<u8>>| {
        let rows = RowRange { start: std::mem::take(&mut start), end: border.clone() };
        let dropped = surviving.within(&rows);
        start = border.unwrap_or_default();
        let entries = std::mem::take(&mut out.entries);
        if !entries.is_empty() || !dropped.is_empty() {
            outputs.push(MemoryRun { entries, dropped });
        }
    };
    cursor.seek(&[]).unwrap();
    while let Some(row) = cursor.row().map(<[u8]>::to_vec) {
        while let Some(cut) = splitter.next_cut(Some(&row)) {
            end(&mut out, Some(cut));
        }
        if splitter.is_full(&row, out.entries.len() as u64 * ENTRY_BYTES) {
            end(&mut out, Some(row.clone()));
        }
        let below = plan.older.iter().any(|hull| hull.contains(&row));
        let depth = if below { Depth::Above } else { Depth::Bottom };
        out.row.clone_from(&row);
        elider
            .row(&mut cursor, dropped.covering(&row, &mut Covering::default()), depth, &mut out)
            .unwrap();
        cursor.next_row().unwrap();
    }
    while let Some(cut) = splitter.next_cut(None) {
        end(&mut out, Some(cut));
    }
    end(&mut out, None);
    outputs
}

#[derive(Debug, Clone)]
enum Step {
    Flush,
    Pick,
    Signal(u8),
    Manual(u8, Option<u8>),
    Install(u8),
    Release(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Flush),
        4 => Just(Step::Pick),
        2 => any::<u8>().prop_map(Step::Signal),
        1 => (0u8..8, proptest::option::of(1u8..9)).prop_map(|(a, b)| Step::Manual(a, b)),
        4 => any::<u8>().prop_map(Step::Install),
        1 => any::<u8>().prop_map(Step::Release),
    ];
    proptest::collection::vec(step, 1..90)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn a_tree_that_flushes_and_compacts_at_random_reads_the_same(
        changes in changes(ROWS.len() as u8),
        cuts in proptest::collection::vec(1u8..60, 0..40),
        snapshots in proptest::collection::vec(0u64..60, 0..3),
        steps in steps(),
        (l0, sst, l1) in (1usize..4, 1u64..5, 1u64..12),
    ) {
        let mut waiting = runs_of(&changes, &cuts);
        let mut tree = TreeState::new(options(l0, sst, l1));
        let mut model = Model::default();
        let mut flushed = 0;
        let mut snapshots: Vec<SequenceNumber> = snapshots.into_iter().map(SequenceNumber).collect();
        for step in &steps {
            // A compaction does not know of the snapshots that are taken after it started.
            let known = snapshots.iter().copied().filter(|s| s.0 <= flushed);
            let stripes = Stripes::new(known.collect());
            match step {
                Step::Flush => {
                    let Some(run) = waiting.pop() else { continue };
                    for (row, entry) in &run.entries {
                        model.add(row, entry.clone());
                        flushed = flushed.max(entry.sequence.0);
                    }
                    for range in &run.dropped {
                        model.drop_range(range.clone());
                        flushed = flushed.max(range.sequence.0);
                    }
                    tree.flush(run);
                }
                Step::Pick => {
                    if let Some(plan) = pick_for_shape(&tree.version, &tree.options, &tree.busy) {
                        tree.start(plan, &stripes);
                    }
                }
                Step::Signal(seed) => {
                    let signals = tree.signals(u64::from(*seed));
                    let picked = pick(&tree.version, &tree.options, &tree.busy, &signals);
                    if let Some((plan, _)) = picked {
                        tree.start(plan, &stripes);
                    }
                }
                Step::Manual(start, end) => {
                    let rows = RowRange {
                        start: vec![b'a' + start],
                        end: end.map(|end| vec![b'a' + end]),
                    };
                    let plan = manual(&tree.version, &rows, &tree.options, &tree.busy);
                    if let Manual::Plan(plan) = plan {
                        tree.start(plan, &stripes);
                    }
                }
                Step::Install(which) if !tree.running.is_empty() => {
                    tree.install(usize::from(*which) % tree.running.len());
                }
                Step::Release(which) if !snapshots.is_empty() => {
                    snapshots.remove(usize::from(*which) % snapshots.len());
                }
                _ => {}
            }
            let views: Vec<_> = snapshots.iter().copied().chain([SequenceNumber::MAX]).collect();
            tree.check(&model, &views, &format!("{step:?}"));
        }
        come_to_rest(&mut tree, &model);
    }
}

fn come_to_rest(tree: &mut TreeState, model: &Model) {
    while !tree.running.is_empty() {
        tree.install(0);
    }
    assert!(tree.busy.is_idle());
    let views = [SequenceNumber::MAX];
    for _ in 0..1000 {
        let Some(plan) = pick_for_shape(&tree.version, &tree.options, &tree.busy) else { break };
        tree.start(plan, &Stripes::default());
        tree.install(0);
        tree.check(model, &views, "coming to rest");
    }
    assert_eq!(pick_for_shape(&tree.version, &tree.options, &tree.busy), None);
    let [l0, l1, last] = &tree.version.levels;
    assert!(l0.len() < tree.options.l0_runs_compact && l1.len() <= 2 && last.len() <= 1);
    let signals = Signals { quiet_reads: Some(u64::MAX), ..Signals::default() };
    for _ in 0..1000 {
        let picked = pick(&tree.version, &tree.options, &tree.busy, &signals);
        let Some((plan, _)) = picked else { break };
        tree.start(plan, &Stripes::default());
        tree.install(0);
        tree.check(model, &views, "merging what is quiet");
    }
    assert!(tree.version.runs().count() <= 1, "a quiet tree comes down to one run");
    if let Manual::Plan(plan) = manual(&tree.version, &RowRange::ALL, &tree.options, &tree.busy) {
        tree.start(plan, &Stripes::default());
        tree.install(0);
        tree.check(model, &views, "a compaction of all");
    }
    assert!(tree.version.levels[0].is_empty() && tree.version.levels[1].is_empty());
    assert!(tree.version.runs().flat_map(|run| &run.ssts).all(|sst| sst.range_tombstones == 0));
}

/// A version of files that each hold the rows of a range of letters; `bytes` in entries.
fn version_of(levels: [&[&[(&str, u64)]]; LEVELS]) -> TreeVersion {
    let mut number = 0;
    let mut file = |(rows, entries): &(&str, u64)| {
        number += 1;
        let rows = rows.as_bytes();
        Arc::new(SstMeta {
            number: FileNumber(number),
            bytes: entries * ENTRY_BYTES,
            first_row: rows[..1].to_vec(),
            last_row: rows[rows.len() - 1..].to_vec(),
            entries: *entries,
            tombstones: 0,
            range_tombstones: 0,
            dropped: None,
            sequence_min: SequenceNumber(0),
            sequence_max: SequenceNumber(0),
            timestamp_min: Timestamp(0),
            timestamp_max: Timestamp(0),
        })
    };
    let mut version = TreeVersion::empty(TreeOptions::default());
    for (level, runs) in levels.iter().enumerate() {
        let mut id = runs.len() as u64 * LEVELS as u64;
        for run in runs.iter() {
            id -= 1;
            let ssts = run.iter().map(&mut file).collect();
            version.levels[level].push(Run { id: RunId(id), ssts });
        }
    }
    version
}

fn numbers(plan: &Plan) -> Vec<u64> {
    plan.ssts().map(|sst| sst.number.0).collect()
}

#[test]
fn plans_are_what_the_shape_asks_for() {
    let options = options(2, 8, 30);
    type Levels<'a> = [&'a [&'a [(&'a str, u64)]]; LEVELS];
    type Want<'a> = Option<(&'a [u64], Destination, Work)>;
    let cases: [(&str, Levels<'_>, Want<'_>); 9] = [
        ("one run rests", [&[&[("az", 4)]], &[], &[]], None),
        (
            "two fresh runs become one",
            [&[&[("az", 4)], &[("az", 4)]], &[], &[&[("az", 99)]]],
            Some((&[1, 2], Destination::NewRun, Work::Merge)),
        ),
        (
            "and take in a small one",
            [&[&[("az", 4)], &[("az", 4)]], &[&[("az", 8)], &[("az", 20)]], &[]],
            Some((&[1, 2, 3], Destination::NewRun, Work::Merge)),
        ),
        (
            "but not a large one",
            [&[&[("az", 4)], &[("az", 4)]], &[&[("az", 13)]], &[]],
            Some((&[1, 2], Destination::NewRun, Work::Merge)),
        ),
        (
            "disjoint runs are moved",
            [&[&[("mz", 4)], &[("af", 4)]], &[], &[&[("az", 99)]]],
            Some((&[1, 2], Destination::NewRun, Work::Move)),
        ),
        (
            "a full level 1 sends down what overlaps least",
            [
                &[],
                &[&[("az", 1)], &[("ac", 20), ("df", 20)]],
                &[&[("aa", 3), ("bc", 3), ("de", 2), ("fz", 2)]],
            ],
            Some((&[3, 6, 7], Destination::LastRun, Work::Merge)),
        ),
        (
            "a newer file comes along when it overlaps nothing else",
            [&[], &[&[("ab", 1), ("ce", 1)], &[("ac", 20), ("df", 20)]], &[&[("dz", 60)]]],
            Some((&[1, 3], Destination::LastRun, Work::Merge)),
        ),
        (
            "what overlaps nothing is moved down",
            [&[], &[&[("ac", 20), ("df", 20)]], &[&[("mz", 60)]]],
            Some((&[1, 2], Destination::LastRun, Work::Move)),
        ),
        (
            "level 0 goes before level 1",
            [&[&[("az", 4)], &[("az", 4)]], &[&[("ac", 40)], &[("ac", 40)]], &[]],
            Some((&[1, 2], Destination::Level0, Work::Merge)),
        ),
    ];
    for (case, levels, want) in cases {
        let plan = pick_for_shape(&version_of(levels), &options, &Busy::default());
        let got = plan.as_ref().map(|plan| (numbers(plan), plan.destination, plan.work));
        assert_eq!(got, want.map(|(files, to, how)| (files.to_vec(), to, how)), "{case}");
    }
}

#[test]
fn level_1_grows_with_the_last_level_but_slower() {
    const MIB: u64 = 1 << 20;
    let options = Options::default();
    for (last, older, younger) in [
        (0, 512, 295),
        (1 << 30, 512, 295),
        (12 << 30, 2048, 591),
        (100 << 30, 13653, 1526),
        (500 << 30, 37925, 2544),
        (10 << 40, 268865, 6773),
        (u64::MAX, 3752999689, 800319),
    ] {
        let target = L1Target::over(last, &options);
        assert_eq!((target.older / MIB, target.younger / MIB), (older, younger), "{last}");
    }
}

#[test]
fn busy_files_and_hulls_are_left_alone() {
    let options = options(2, 8, 10);
    let version = version_of([
        &[&[("az", 4)], &[("az", 4)]],
        &[&[("ac", 20), ("df", 20)]],
        &[&[("ab", 20), ("ef", 20)]],
    ]);
    let mut busy = Busy::default();
    let mut picked = Vec::new();
    while let Some(plan) = pick_for_shape(&version, &options, &busy) {
        picked.push(numbers(&plan));
        busy.start(&plan);
        assert_eq!(manual(&version, &RowRange::ALL, &options, &busy), Manual::Blocked);
    }
    assert_eq!(picked, [vec![1, 2], vec![3, 5], vec![4, 6]], "one up, one down, what is left");
}

#[test]
fn rows_reserved_for_files_from_elsewhere_are_left_alone() {
    let version = version_of([&[], &[&[("ab", 5), ("gh", 6)]], &[]]);
    let mut busy = Busy::default();
    let rows =
        |start: &[u8], end: &[u8]| RowRange { start: start.to_vec(), end: Some(end.to_vec()) };
    let reserved = rows(b"c", b"d");
    assert!(busy.reserve_last(&reserved));
    assert!(!busy.reserve_last(&rows(b"a", b"c\0")), "overlaps");
    let all = manual(&version, &RowRange::ALL, &options(2, 2, 100), &busy);
    assert_eq!(all, Manual::Blocked, "an output might span the reserved rows");
    let apart = manual(&version, &rows(b"g", b"h"), &options(2, 2, 100), &busy);
    let Manual::Plan(plan) = apart else { panic!("{apart:?}") };
    busy.start(&plan);
    assert!(!busy.reserve_last(&rows(b"h", b"i")), "a plan writes there");
    busy.finish(&plan);
    busy.release_last(&reserved);
    let all = manual(&version, &RowRange::ALL, &options(2, 2, 100), &busy);
    assert!(matches!(all, Manual::Plan(_)));
}

#[test]
fn a_compaction_by_hand_takes_what_lies_below_what_it_takes() {
    let options = options(2, 8, 10);
    let version = version_of([
        &[&[("ac", 1), ("xz", 1)], &[("mn", 1)]],
        &[&[("bd", 1), ("ef", 1)]],
        &[&[("aa", 1), ("dd", 1), ("ff", 1), ("zz", 1)]],
    ]);
    let rows = RowRange::single(b"a");
    let Manual::Plan(plan) = manual(&version, &rows, &options, &Busy::default()) else {
        panic!("there is something to do");
    };
    assert_eq!(numbers(&plan), [1, 4, 6, 7]);
    assert!(plan.older.is_empty() && plan.cuts.is_empty());
    let rows = RowRange::single(b"q");
    assert_eq!(manual(&version, &rows, &options, &Busy::default()), Manual::Nothing);
}
