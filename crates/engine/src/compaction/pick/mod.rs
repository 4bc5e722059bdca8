//! Which compaction a tree needs next: pure functions of a version and of what is being done.
//!
//! The shape is lazy levelling with a small bound on sorted runs. Each flush adds a run to level
//! 0. When there are enough, all of level 0 becomes one run of level 1, which takes in what is no
//! larger than itself or small for its place, so that level 1 has at most two runs (`merge_up`). When the
//! younger of them is over its size (`level1_sizes`), it goes to the older a slice at a time, and the older
//! so to the last level (`push_down`).
//!
//! A reader meets at most [`runs_max`] runs, six with the default options. When a tree has so many,
//! level 0 gets fewer although it has no more than it may (`level0`), and flushes wait until that is
//! done (`background/mod.rs`).
//!
//! What the shape does not ask for, other signals may: files that are mostly garbage (`garbage`),
//! and reads that look at several runs of a tree that nobody writes (`quiet`). They come after the
//! shape, and one at a time.
//!
//! Every plan keeps to closure (rule 1 of `compaction`):
//! 1. *To level 1* go the oldest runs of level 0 and the newest of level 1, neighbours all, as
//!    whole runs. What they leave is older, and they replace them in the same place.
//! 2. *Within level 0* its newest runs become one, neighbours all, and in the same place.
//! 3. *To the older run of level 1* go files of the younger one (a slice), with all files of the
//!    older that overlap them.
//! 4. *To the last level* go files of the oldest run of level 1 (a slice), with all files of the
//!    last level that overlap them. Files of newer runs come along when everything older that
//!    overlaps them does; then they cost nothing more.
//! 5. *By hand* go all files that overlap the wanted rows, and, run by run from the newest to the
//!    oldest, all that overlap those.
//!
//! Plans may run at the same time if they share no file ([`Busy`]) and, when both join the same
//! run, if their hulls are disjoint, so that their outputs are. An older run can lose files to
//! a plan below while a plan above runs, but only to the runs below it, so the hulls that the
//! plan above took for "older" still hold all that is older: what it loses shares no row with the
//! plan above, which would have taken it otherwise or left it above what lost it.

mod busy;
mod garbage;
mod level0;
mod level1_sizes;
mod merge_up;
mod push_down;
mod quiet_tree;

pub use busy::Busy;
pub use level1_sizes::L1Target;

use super::signals::Signals;
use crate::cell::TreeId;
use crate::manifest::state::version::LEVELS;
use crate::manifest::{Edit, FileNumber, Run, RunId, SstMeta, TreeVersion};
use crate::options::Options;
use crate::request::RowRange;
use std::collections::HashSet;
use std::iter::Peekable;
use std::sync::Arc;

/// Runs that level 1 may have.
const L1_RUNS_MAX: usize = 2;

/// Id of the one run of the last level, so that plans that begin it at the same time begin one.
pub(crate) const LAST_RUN: RunId = RunId(0);

/// Where the outputs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// They are one run of level 0, in the place of the newest of the inputs.
    Level0,
    /// They are one new run of level 1, its newest.
    NewRun,
    /// They join this run of level 1, the older one.
    Older(RunId),
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
    /// Rows at which outputs are cut (`super::output_split`), ascending.
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
            Destination::Older(run) => (1, run),
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

/// What a compaction by hand has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manual {
    /// No file overlaps the rows.
    Nothing,
    /// Running compactions are in the way; ask again when one ends.
    Blocked,
    /// This.
    Plan(Plan),
}

/// Returns whether two ranges that are not empty share a row.
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
        let plan = quiet_tree::pick(version, options, busy, signals.quiet_reads?);
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
pub fn is_full(version: &TreeVersion, options: &Options, busy: &Busy) -> bool {
    let l0 = &version.levels[0];
    !l0.is_empty() && l0.len() + busy.l1_runs(version) + 1 >= runs_max(options)
}

/// One plan goes up before any goes down: level 0 waits for level 1 only where that is overdue, and
/// how large it may grow is for writers to feel (`write/pressure.rs`).
fn pick_for_shape(version: &TreeVersion, options: &Options, busy: &Busy) -> Option<Plan> {
    let up_due =
        version.levels[0].len() >= options.l0_runs_compact || is_full(version, options, busy);
    let up = up_due.then(|| level0::pick(version, options, busy)).flatten();
    up.or_else(|| push_down::pick(version, options, busy, up_due))
}

fn input(level: usize, run: &Run) -> InputRun {
    InputRun { level, run: run.id, ssts: run.ssts.clone() }
}

/// Bytes of one slice. One file and what it overlaps may be more.
fn slice_bytes(options: &Options) -> u64 {
    options.sst_bytes_max.saturating_mul(options.shape.slice_factor as u64)
}

/// The plan that takes `inputs` to the last level.
fn to_last(version: &TreeVersion, inputs: Vec<InputRun>, options: &Options) -> Plan {
    joining(version, inputs, Destination::LastRun, options)
}

/// The plan that takes `inputs` to a run that may be there already.
fn joining(
    version: &TreeVersion,
    inputs: Vec<InputRun>,
    destination: Destination,
    options: &Options,
) -> Plan {
    let (cuts, below) = (Vec::new(), Vec::new());
    let (work, older) = (Work::Merge, Vec::new());
    let mut plan = Plan { work, inputs, destination, older, cuts, below };
    let hull = plan.hull();
    let taken: HashSet<FileNumber> = plan.ssts().map(|sst| sst.number).collect();
    let mut runs = older_or_at(version, plan.place());
    if let Some(run) = runs.next_if(|(place, _)| *place == plan.place()) {
        let stay = run.1.ssts.iter().filter(|sst| !taken.contains(&sst.number));
        let spans = stay.map(|sst| sst.span()).filter(|span| overlap(span, &hull));
        plan.cuts = spans.map(|span| span.start).collect();
    }
    if let Some((_, run)) = runs.peek() {
        plan.below = overlapping(run, &[hull]);
    }
    plan.older = runs.filter_map(|(_, run)| run_hull(run)).collect();
    plan.work = how(&plan, options);
    plan
}

type Place = (usize, RunId);

/// The runs from that at `place` on, towards older ones.
fn older_or_at(
    version: &TreeVersion,
    place: Place,
) -> Peekable<impl Iterator<Item = (Place, &Run)>> {
    let runs = version.levels.iter().enumerate();
    let runs = runs.flat_map(|(level, runs)| runs.iter().map(move |run| ((level, run.id), run)));
    let newer = move |(level, id): Place| level < place.0 || (level == place.0 && id > place.1);
    runs.skip_while(move |(at, _)| newer(*at)).peekable()
}

/// Returns whether the inputs can be moved as they are.
fn how(plan: &Plan, options: &Options) -> Work {
    let mut spans: Vec<RowRange> = plan.ssts().map(|sst| sst.span()).collect();
    spans.sort_by(|a, b| a.start.cmp(&b.start));
    let disjoint = spans.windows(2).all(|pair| !overlap(&pair[0], &pair[1]));
    // Merging makes few files of many small ones.
    let move_part = options.shape.move_part as u64;
    let large = plan.bytes() / spans.len() as u64 >= options.sst_bytes_max / move_part;
    let last = plan.destination == Destination::LastRun;
    let stays_put = last && plan.inputs.iter().all(|run| run.level == LEVELS - 1);
    let clean = plan.ssts().all(|sst| sst.tombstones == 0 && sst.range_tombstones == 0);
    if disjoint && large && !stays_put && (clean || !last) { Work::Move } else { Work::Merge }
}

/// The compaction that takes everything that overlaps `rows` down to the last level.
pub(crate) fn manual(
    version: &TreeVersion,
    rows: &RowRange,
    options: &Options,
    busy: &Busy,
) -> Manual {
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
