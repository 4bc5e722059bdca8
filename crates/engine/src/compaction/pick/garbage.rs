//! Picks for garbage: files of which at least half would vanish at the bottom, and range tombstones
//! that hide more than the file weighs that holds them. Nothing else may ever ask for them, so that
//! deleted and expired data would stay on disk for good.
//!
//! A file goes to the last level with all that it overlaps there and on the way; one of the last
//! level is rewritten where it is, with its neighbours that are garbage too. Where that would be too
//! large, since the file spans too much of the tree, it goes down as the shape has it, a step at a
//! time: the way down cuts it.

use super::merge_up::merge_up;
use super::push_down::push_down;
use super::{Busy, InputRun, Plan, Work, overlapping, slice_bytes, to_last};
use crate::compaction::signals::{Signals, WHOLE};
use crate::manifest::state::version::LEVELS;
use crate::manifest::{Run, SstMeta, TreeVersion};
use crate::options::Options;
use crate::request::RowRange;
use std::sync::Arc;

/// A file that is garbage, and where it is.
struct Candidate<'a> {
    level: usize,
    /// Of the runs of its level.
    index: usize,
    /// Of the files of its run.
    at: usize,
    share: u64,
    /// Bytes below that its range tombstones hide whole.
    hidden: u64,
    sst: &'a Arc<SstMeta>,
}

/// The plan for the file with the most garbage, if there is one that can be done.
pub(super) fn pick(
    version: &TreeVersion,
    options: &Options,
    busy: &Busy,
    signals: &Signals,
) -> Option<Plan> {
    let mut candidates = candidates(version, options, signals);
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.share));
    candidates.iter().find_map(|candidate| plan(version, candidate, options, busy, signals))
}

fn candidates<'a>(
    version: &'a TreeVersion,
    options: &Options,
    signals: &Signals,
) -> Vec<Candidate<'a>> {
    let mut found = Vec::new();
    for (level, runs) in version.levels.iter().enumerate() {
        for (index, run) in runs.iter().enumerate() {
            for (at, sst) in run.ssts.iter().enumerate() {
                let hidden = hidden(version, level, index, sst, signals);
                let own = signals.garbage.get(&sst.number).copied().unwrap_or(0);
                let share = if hidden > 0 && hidden >= sst.bytes { WHOLE } else { own };
                if share >= options.shape.garbage_from as u64 {
                    found.push(Candidate { level, index, at, share, hidden, sst });
                }
            }
        }
    }
    found
}

/// Runs older than that at `index` of `level`, newest first, with their levels.
fn older(version: &TreeVersion, level: usize, index: usize) -> impl Iterator<Item = (usize, &Run)> {
    let runs = version.levels.iter().enumerate();
    let runs =
        runs.flat_map(|(at, runs)| runs.iter().enumerate().map(move |(i, run)| (at, i, run)));
    runs.filter(move |(at, i, _)| (*at, *i) > (level, index)).map(|(at, _, run)| (at, run))
}

/// Bytes of older files that lie whole within the range tombstones of `sst`, roughly: their hull.
fn hidden(
    version: &TreeVersion,
    level: usize,
    index: usize,
    sst: &SstMeta,
    signals: &Signals,
) -> u64 {
    let Some(dropped) = sst.dropped.as_ref().filter(|_| sst.sequence_max <= signals.settled) else {
        return 0;
    };
    let within = |span: &RowRange| {
        let ends = match (&dropped.end, &span.end) {
            (None, _) => true,
            (Some(end), Some(own)) => own <= end,
            (Some(_), None) => false,
        };
        dropped.start <= span.start && ends
    };
    let below = older(version, level, index).flat_map(|(_, run)| &run.ssts);
    below.filter(|sst| within(&sst.span())).map(|sst| sst.bytes).sum()
}

fn plan(
    version: &TreeVersion,
    candidate: &Candidate<'_>,
    options: &Options,
    busy: &Busy,
    signals: &Signals,
) -> Option<Plan> {
    let budget = slice_bytes(options).saturating_mul(2);
    if candidate.level == LEVELS - 1 {
        return in_place(version, candidate, budget, options, busy, signals);
    }
    let plan = downwards(version, candidate, options);
    if plan.bytes().saturating_sub(candidate.hidden) > budget {
        return match candidate.level {
            0 => merge_up(version, options, busy),
            _ => push_down(version, options, busy),
        };
    }
    busy.allows(&plan).then_some(plan)
}

/// The file, and all that is older and overlaps it or what it takes along, to the last level.
fn downwards(version: &TreeVersion, candidate: &Candidate<'_>, options: &Options) -> Plan {
    let run = &version.levels[candidate.level][candidate.index];
    let mut spans = vec![candidate.sst.span()];
    let ssts = vec![Arc::clone(candidate.sst)];
    let mut inputs = vec![InputRun { level: candidate.level, run: run.id, ssts }];
    for (level, run) in older(version, candidate.level, candidate.index) {
        let ssts = overlapping(run, &spans);
        spans.extend(ssts.iter().map(|sst| sst.span()));
        if !ssts.is_empty() {
            inputs.push(InputRun { level, run: run.id, ssts });
        }
    }
    merging(to_last(version, inputs, options))
}

/// The file of the last level, and those beside it that are garbage too, up to `budget` bytes.
fn in_place(
    version: &TreeVersion,
    candidate: &Candidate<'_>,
    budget: u64,
    options: &Options,
    busy: &Busy,
    signals: &Signals,
) -> Option<Plan> {
    let run = &version.levels[LEVELS - 1][candidate.index];
    let from = options.shape.garbage_from as u64;
    let too = |sst: &&Arc<SstMeta>| {
        signals.garbage.get(&sst.number).is_some_and(|share| *share >= from) && !busy.has(sst)
    };
    let mut ssts = vec![Arc::clone(candidate.sst)];
    let mut bytes = candidate.sst.bytes;
    for sst in run.ssts[candidate.at + 1..].iter().take_while(too) {
        bytes += sst.bytes;
        if bytes > budget {
            break;
        }
        ssts.push(Arc::clone(sst));
    }
    let inputs = vec![InputRun { level: LEVELS - 1, run: run.id, ssts }];
    let plan = merging(to_last(version, inputs, options));
    busy.allows(&plan).then_some(plan)
}

/// Moved, garbage would stay what it is.
fn merging(plan: Plan) -> Plan {
    Plan { work: Work::Merge, ..plan }
}
