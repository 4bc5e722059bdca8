//! Which compaction a tree needs next: pure functions of a version and of what is being done.
//!
//! The shape is lazy levelling with a small bound on sorted runs. Each flush adds a run to level
//! 0. When there are enough, all of level 0 becomes one run of level 1, which takes in what is no
//! larger than itself, so that level 1 has at most two runs. When level 1 is over its size
//! ([`l1_target`]), its oldest run goes down to the last level a slice at a time.
//!
//! A reader meets at most [`runs_max`] runs, six with the default options. When a tree has so many,
//! level 0 gets fewer although it has no more than it may (`level0`), and flushes wait until that is
//! done (`background.rs`).
//!
//! What the shape does not ask for, other signals may: files that are mostly garbage (`garbage`),
//! and reads that look at several runs of a tree that nobody writes (`quiet`). They come after the
//! shape, and one at a time.
//!
//! Every plan keeps to closure (rule 1 of `compaction`):
//! 1. *To level 1* go the oldest runs of level 0 and the newest of level 1, neighbours all, as
//!    whole runs. What they leave is older, and they replace them in the same place.
//! 2. *Within level 0* its newest runs become one, neighbours all, and in the same place.
//! 3. *To the last level* go files of the oldest run of level 1 (a slice), with all files of the
//!    last level that overlap them. Files of newer runs come along when everything older that
//!    overlaps them does; then they cost nothing more.
//! 4. *By hand* go all files that overlap the wanted rows, and, run by run from the newest to the
//!    oldest, all that overlap those.
//!
//! Plans may run at the same time if they share no file ([`Busy`]) and, when both write the last
//! level, if their hulls are disjoint, so that their outputs are. An older run can lose files to
//! a plan below while a plan above runs, but only to the runs below it, so the hulls that the
//! plan above took for "older" still hold all that is older.

mod garbage;
mod level0;
mod quiet;

use super::signals::Signals;
use crate::cell::TreeId;
use crate::manifest::version::LEVELS;
use crate::manifest::{Edit, FileNumber, Run, RunId, SstMeta, TreeVersion};
use crate::options::Options;
use crate::request::RowRange;
use std::collections::HashSet;
use std::sync::Arc;

/// Runs that level 1 may have.
const L1_RUNS_MAX: usize = 2;
/// Bytes of one slice, in multiples of an SSTable's size. One file and what it overlaps may be
/// more.
const SLICE_FACTOR: u64 = 8;
/// Files are moved, not rewritten, if they are on average this part of the largest size at least:
/// merging makes few files of many small ones.
const MOVE_PART: u64 = 8;

/// Id of the one run of the last level, so that plans that begin it at the same time begin one.
pub(crate) const LAST_RUN: RunId = RunId(0);

/// Where the outputs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// They are one run of level 0, in the place of the newest of the inputs.
    Level0,
    /// They are one new run of level 1, its newest.
    NewRun,
    /// They join the one run of the last level.
    LastRun,
}

/// How the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The inputs share no row and are fine as they are: only the manifest changes.
    Move,
    /// The inputs are merged into new files.
    Merge,
}

/// The files of one run that take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRun {
    /// The level of the run.
    pub level: usize,
    /// The run.
    pub run: RunId,
    /// In row order.
    pub ssts: Vec<Arc<SstMeta>>,
}

/// One compaction, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How.
    pub work: Work,
    /// What is read, newest run first, and removed when the outputs are installed.
    pub inputs: Vec<InputRun>,
    /// Where the outputs go.
    pub destination: Destination,
    /// Hulls of the older runs that stay: rows outside all of them are at the bottom.
    pub older: Vec<RowRange>,
    /// Rows at which outputs are cut (`super::split`), ascending.
    pub cuts: Vec<Vec<u8>>,
    /// Files of the level below the destination that the outputs may overlap, in row order.
    pub below: Vec<Arc<SstMeta>>,
}

impl Plan {
    /// All input files.
    pub fn ssts(&self) -> impl Iterator<Item = &Arc<SstMeta>> {
        self.inputs.iter().flat_map(|run| &run.ssts)
    }

    /// Level and run of the outputs. A new run takes the largest id of those that it replaces.
    pub fn place(&self) -> (usize, RunId) {
        let newest = || self.inputs.iter().map(|input| input.run).max().unwrap_or_default();
        match self.destination {
            Destination::Level0 => (0, newest()),
            Destination::NewRun => (1, newest()),
            Destination::LastRun => (LEVELS - 1, LAST_RUN),
        }
    }

    /// The edits that take the inputs away.
    pub fn removals(&self, tree: TreeId) -> Vec<Edit> {
        let removal = |input: &InputRun, sst: &SstMeta| Edit::RemoveSst {
            tree,
            level: input.level,
            run: input.run,
            number: sst.number,
        };
        let all = self.inputs.iter().flat_map(|input| input.ssts.iter().map(move |s| (input, s)));
        all.map(|(input, sst)| removal(input, sst)).collect()
    }

    /// Bytes of all input files.
    pub fn bytes(&self) -> u64 {
        self.ssts().map(|sst| sst.bytes).sum()
    }

    /// The smallest range that holds all that the inputs know of.
    pub fn hull(&self) -> RowRange {
        hull(self.ssts().map(|sst| sst.span())).expect("a plan has an input")
    }
}

/// What running compactions of a tree hold.
#[derive(Debug, Clone, Default)]
pub struct Busy {
    files: HashSet<FileNumber>,
    /// Hulls of the plans that write the last level.
    last: Vec<RowRange>,
}

impl Busy {
    /// Marks what `plan` uses.
    pub fn start(&mut self, plan: &Plan) {
        self.files.extend(plan.ssts().map(|sst| sst.number));
        if plan.destination == Destination::LastRun {
            self.last.push(plan.hull());
        }
    }

    /// Frees what `plan` used, when it is installed or given up.
    pub fn finish(&mut self, plan: &Plan) {
        for sst in plan.ssts() {
            self.files.remove(&sst.number);
        }
        if plan.destination == Destination::LastRun {
            self.release_last(&plan.hull());
        }
    }

    /// Reserves `rows` of the last level for files that come from elsewhere, unless a running plan
    /// may write there.
    pub fn reserve_last(&mut self, rows: &RowRange) -> bool {
        let free = !self.last.iter().any(|busy| overlap(busy, rows));
        if free {
            self.last.push(rows.clone());
        }
        free
    }

    /// Frees what `reserve_last` reserved.
    pub fn release_last(&mut self, rows: &RowRange) {
        if let Some(at) = self.last.iter().position(|busy| busy == rows) {
            self.last.swap_remove(at);
        }
    }

    /// Whether nothing runs.
    pub fn is_idle(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether nothing works on `run`.
    fn leaves(&self, run: &Run) -> bool {
        run.ssts.iter().all(|sst| !self.has(sst))
    }

    fn has(&self, sst: &SstMeta) -> bool {
        self.files.contains(&sst.number)
    }

    fn allows(&self, plan: &Plan) -> bool {
        let hull = plan.hull();
        plan.ssts().all(|sst| !self.has(sst))
            && (plan.destination != Destination::LastRun
                || !self.last.iter().any(|busy| overlap(busy, &hull)))
    }
}

/// What a compaction by hand has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manual {
    /// No file overlaps the rows.
    Nothing,
    /// Running compactions are in the way; ask again when one ends.
    Blocked,
    /// This.
    Plan(Plan),
}

/// Whether two ranges that are not empty share a row.
pub(crate) fn overlap(a: &RowRange, b: &RowRange) -> bool {
    let before = |a: &RowRange, b: &RowRange| a.end.as_ref().is_some_and(|end| *end <= b.start);
    !before(a, b) && !before(b, a)
}

fn hull(spans: impl Iterator<Item = RowRange>) -> Option<RowRange> {
    spans.reduce(|a, b| RowRange {
        start: a.start.min(b.start),
        end: a.end.zip(b.end).map(|(a, b)| a.max(b)),
    })
}

fn run_hull(run: &Run) -> Option<RowRange> {
    hull(run.ssts.iter().map(|sst| sst.span()))
}

/// The files of `run` that overlap any of `spans`.
fn overlapping(run: &Run, spans: &[RowRange]) -> Vec<Arc<SstMeta>> {
    let hit = |sst: &&Arc<SstMeta>| {
        let span = sst.span();
        spans.iter().any(|other| overlap(&span, other))
    };
    run.ssts.iter().filter(hit).cloned().collect()
}

/// Why a plan was picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A level has more than it may have.
    Shape,
    /// A file is mostly garbage.
    Garbage,
    /// Reads look at several runs, and nobody writes.
    Quiet,
}

/// The compaction that `version` needs most, if any can be done beside those that are `busy`.
pub fn pick(
    version: &TreeVersion,
    options: &Options,
    busy: &Busy,
    signals: &Signals,
) -> Option<(Plan, Reason)> {
    let shape = pick_for_shape(version, options, busy).map(|plan| (plan, Reason::Shape));
    let garbage =
        || garbage::pick(version, options, busy, signals).map(|plan| (plan, Reason::Garbage));
    let quiet = || {
        let plan = quiet::pick(version, options, busy, signals.quiet_reads?);
        plan.map(|plan| (plan, Reason::Quiet))
    };
    shape.or_else(|| if busy.is_idle() { garbage().or_else(quiet) } else { None })
}

/// Sorted runs that a tree may have at once: all but one of those that start a merge of level 0,
/// two of level 1, and the last level. No flush makes them more; who asks for a flush, or ingests
/// files, may.
pub fn runs_max(options: &Options) -> usize {
    (options.l0_runs_compact - 1).max(1) + L1_RUNS_MAX + 1
}

/// Whether one run more would be one too many: level 0 is to be merged, and flushes wait for that.
/// The last level counts although it may be empty as yet: any compaction can begin it.
pub fn is_full(version: &TreeVersion, options: &Options) -> bool {
    let [l0, l1, _] = &version.levels;
    !l0.is_empty() && l0.len() + l1.len() + 1 >= runs_max(options)
}

/// One plan goes up before any goes down: level 0 never waits for level 1, and how large that may
/// grow is for writers to feel (`background/pressure.rs`).
fn pick_for_shape(version: &TreeVersion, options: &Options, busy: &Busy) -> Option<Plan> {
    let [l0, l1, _] = &version.levels;
    let up = l0.len() >= options.l0_runs_compact || is_full(version, options);
    let l1_bytes: u64 = l1.iter().map(Run::bytes).sum();
    let down = l1.len() > L1_RUNS_MAX || l1_bytes > l1_target(last_bytes(version), options);
    let up = up.then(|| level0::pick(version, options, busy)).flatten();
    up.or_else(|| down.then(|| push_down(version, options, busy)).flatten())
}

/// Level 1 takes at most this part of the last level's size, if that is more than it has anyway.
const L1_PART: u64 = 8;

/// Bytes that level 1 may have over a last level of `last_bytes` bytes: what the options say, or
/// more where that is large.
///
/// A byte is rewritten about `L1 / 4F` times on its way into level 1, `F` being what goes up at
/// once, and about `last / L1` times on its way down. The sum is least at `L1 = 2 √(F × last)`; with
/// a fixed size it would grow with the tree.
pub fn l1_target(last_bytes: u64, options: &Options) -> u64 {
    let up = options.memtable_bytes_max as u128 * options.l0_runs_compact as u128;
    let least = 2 * (up * u128::from(last_bytes)).isqrt();
    let least = u64::try_from(least).unwrap_or(u64::MAX);
    options.l1_bytes_max.max(least.min(last_bytes / L1_PART))
}

fn last_bytes(version: &TreeVersion) -> u64 {
    version.levels[LEVELS - 1].iter().map(Run::bytes).sum()
}

/// All of level 0 that nothing else works on into a new run of level 1.
fn merge_up(version: &TreeVersion, options: &Options, busy: &Busy) -> Option<Plan> {
    let idle = version.levels[0].iter().rev().take_while(|run| busy.leaves(run)).count();
    runs_up(version, idle, options, busy)
}

/// The oldest `runs` runs of level 0, which are idle, into a new run of level 1. Not while level 1
/// has its number of runs and the newest of them is being merged.
fn runs_up(version: &TreeVersion, runs: usize, options: &Options, busy: &Busy) -> Option<Plan> {
    let [l0, l1, _] = &version.levels;
    let l1_bytes_max = l1_target(last_bytes(version), options);
    let mut inputs: Vec<InputRun> = l0[l0.len() - runs..].iter().map(|run| input(0, run)).collect();
    let mut bytes: u64 = l0[l0.len() - runs..].iter().map(Run::bytes).sum();
    let mut taken = 0;
    for run in l1.iter().take_while(|run| busy.leaves(run)) {
        let small = run.bytes() <= bytes && run.bytes() + bytes <= l1_bytes_max;
        if !small && l1.len() - taken < L1_RUNS_MAX {
            break;
        }
        bytes += run.bytes();
        inputs.push(input(1, run));
        taken += 1;
    }
    if runs == 0 || l1.len() - taken >= L1_RUNS_MAX {
        return None;
    }
    let stay = l1[taken..].iter().chain(&version.levels[LEVELS - 1]);
    let mut plan = Plan {
        work: Work::Merge,
        inputs,
        destination: Destination::NewRun,
        older: stay.filter_map(run_hull).collect(),
        cuts: Vec::new(),
        below: Vec::new(),
    };
    if let Some(last) = version.levels[LEVELS - 1].first() {
        plan.below = overlapping(last, &[plan.hull()]);
    }
    plan.work = how(&plan, options);
    Some(plan)
}

fn input(level: usize, run: &Run) -> InputRun {
    InputRun { level, run: run.id, ssts: run.ssts.clone() }
}

/// A slice of the oldest run of level 1 into the last level: the one that rewrites the least of
/// it for each of its own bytes.
fn push_down(version: &TreeVersion, options: &Options, busy: &Busy) -> Option<Plan> {
    let (oldest, newer) = version.levels[1].split_last()?;
    let budget = options.sst_bytes_max.saturating_mul(SLICE_FACTOR);
    let mut best: Option<(Plan, u64)> = None;
    for seed in 0..oldest.ssts.len() {
        let Some(plan) = slice(version, &oldest.ssts[seed..=seed], options, busy) else { continue };
        let own = u128::from(oldest.ssts[seed].bytes.max(1));
        let cost = u64::try_from(u128::from(plan.bytes()) * 1000 / own).unwrap_or(u64::MAX);
        if best.as_ref().is_none_or(|(_, least)| cost < *least) {
            best = Some((plan, cost));
        }
    }
    let (mut plan, _) = best?;
    let first = own_files(&plan).first()?.number;
    let from = oldest.ssts.iter().position(|sst| sst.number == first)?;
    for to in from + 1..oldest.ssts.len() {
        match slice(version, &oldest.ssts[from..=to], options, busy) {
            Some(longer) if longer.bytes() <= budget => plan = longer,
            _ => break,
        }
    }
    let longer = with_passengers(version, newer, plan.clone(), budget);
    let mut plan = if busy.allows(&longer) { longer } else { plan };
    plan.work = how(&plan, options);
    Some(plan)
}

/// The input files of a slice that are of level 1's oldest run.
fn own_files(plan: &Plan) -> &[Arc<SstMeta>] {
    plan.inputs.iter().rfind(|run| run.level == 1).map_or(&[], |run| &run.ssts)
}

/// `files` of the oldest run of level 1, and what they overlap, to the last level.
fn slice(
    version: &TreeVersion,
    files: &[Arc<SstMeta>],
    options: &Options,
    busy: &Busy,
) -> Option<Plan> {
    let spans: Vec<RowRange> = files.iter().map(|sst| sst.span()).collect();
    let run = version.levels[1].last()?.id;
    let mut inputs = vec![InputRun { level: 1, run, ssts: files.to_vec() }];
    let last = version.levels[LEVELS - 1].first();
    let overlapped = last.map(|run| overlapping(run, &spans)).unwrap_or_default();
    if !overlapped.is_empty() {
        inputs.push(InputRun { level: LEVELS - 1, run: LAST_RUN, ssts: overlapped });
    }
    let plan = to_last(version, inputs, options);
    busy.allows(&plan).then_some(plan)
}

/// The plan that takes `inputs` to the last level.
fn to_last(version: &TreeVersion, inputs: Vec<InputRun>, options: &Options) -> Plan {
    let mut plan = Plan {
        work: Work::Merge,
        inputs,
        destination: Destination::LastRun,
        older: Vec::new(),
        cuts: Vec::new(),
        below: Vec::new(),
    };
    let hull = plan.hull();
    let taken: HashSet<FileNumber> = plan.ssts().map(|sst| sst.number).collect();
    if let Some(last) = version.levels[LEVELS - 1].first() {
        let stay = last.ssts.iter().filter(|sst| !taken.contains(&sst.number));
        let spans = stay.map(|sst| sst.span()).filter(|span| overlap(span, &hull));
        plan.cuts = spans.map(|span| span.start).collect();
    }
    plan.work = how(&plan, options);
    plan
}

/// Adds files of `newer` runs of level 1 that overlap the slice and nothing older outside it.
fn with_passengers(version: &TreeVersion, newer: &[Run], mut plan: Plan, budget: u64) -> Plan {
    let mut taken: HashSet<FileNumber> = plan.ssts().map(|sst| sst.number).collect();
    let mut spans: Vec<RowRange> = plan.ssts().map(|sst| sst.span()).collect();
    let mut bytes = plan.bytes();
    for (index, run) in newer.iter().enumerate().rev() {
        let older: Vec<&Run> =
            version.levels[1][index + 1..].iter().chain(&version.levels[LEVELS - 1]).collect();
        let mut ssts = Vec::new();
        for sst in overlapping(run, &spans) {
            let span = [sst.span()];
            let mut under = older.iter().flat_map(|run| overlapping(run, &span));
            if under.all(|sst| taken.contains(&sst.number)) && bytes + sst.bytes <= budget {
                bytes += sst.bytes;
                taken.insert(sst.number);
                ssts.push(sst);
            }
        }
        spans.extend(ssts.iter().map(|sst| sst.span()));
        if !ssts.is_empty() {
            plan.inputs.insert(0, InputRun { level: 1, run: run.id, ssts });
        }
    }
    plan
}

/// Whether the inputs can be moved as they are.
fn how(plan: &Plan, options: &Options) -> Work {
    let mut spans: Vec<RowRange> = plan.ssts().map(|sst| sst.span()).collect();
    spans.sort_by(|a, b| a.start.cmp(&b.start));
    let disjoint = spans.windows(2).all(|pair| !overlap(&pair[0], &pair[1]));
    let large = plan.bytes() / spans.len() as u64 >= options.sst_bytes_max / MOVE_PART;
    let last = plan.destination == Destination::LastRun;
    let stays_put = last && plan.inputs.iter().all(|run| run.level == LEVELS - 1);
    let clean = plan.ssts().all(|sst| sst.tombstones == 0 && sst.range_tombstones == 0);
    if disjoint && large && !stays_put && (clean || !last) { Work::Move } else { Work::Merge }
}

/// The compaction that takes everything that overlaps `rows` down to the last level.
pub fn manual(version: &TreeVersion, rows: &RowRange, options: &Options, busy: &Busy) -> Manual {
    let mut spans = vec![rows.clone()];
    let mut inputs = Vec::new();
    for (level, runs) in version.levels.iter().enumerate() {
        for run in runs {
            let ssts = overlapping(run, &spans);
            spans.extend(ssts.iter().map(|sst| sst.span()));
            if !ssts.is_empty() {
                inputs.push(InputRun { level, run: run.id, ssts });
            }
        }
    }
    if rows.is_empty() || inputs.is_empty() {
        return Manual::Nothing;
    }
    let mut plan = to_last(version, inputs, options);
    plan.work = Work::Merge;
    if busy.allows(&plan) { Manual::Plan(plan) } else { Manual::Blocked }
}

#[cfg(test)]
mod tests;
