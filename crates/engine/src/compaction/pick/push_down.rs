//! Picks that make a run of level 1 smaller: a slice of it joins the next older run, a few
//! neighbouring files and all that they overlap there.

use super::level1_sizes::L1Target;
use super::{
    Busy, Destination, InputRun, L1_RUNS_MAX, LAST_RUN, Plan, how, joining, overlapping,
    slice_bytes,
};
use crate::manifest::state::version::LEVELS;
use crate::manifest::{FileNumber, Run, SstMeta, TreeVersion};
use crate::options::Options;
use crate::request::RowRange;
use std::collections::HashSet;
use std::sync::Arc;

/// The slice that is due most. While `up_due`, nothing is taken from the younger run of level 1 that
/// level 0 wants to go up with, unless it is overdue itself (`level0` then waits).
pub(super) fn pick(
    version: &TreeVersion,
    options: &Options,
    busy: &Busy,
    up_due: bool,
) -> Option<Plan> {
    let l1 = &version.levels[1];
    let target = L1Target::of(version, options);
    let older = l1.last()?;
    let down = || {
        let due = l1.len() > L1_RUNS_MAX || older.bytes() > target.older;
        due.then(|| push_down(version, options, busy)).flatten()
    };
    let [younger, _] = &l1[..] else { return down() };
    let overdue = target.is_overdue(younger);
    let across = || {
        let due = younger.bytes() > target.younger && (overdue || !up_due);
        due.then(|| push(version, 0, options, busy)).flatten()
    };
    if overdue { across().or_else(down) } else { down().or_else(across) }
}

/// A slice of the oldest run of level 1 into the last level.
pub(super) fn push_down(version: &TreeVersion, options: &Options, busy: &Busy) -> Option<Plan> {
    let (_, newer) = version.levels[1].split_last()?;
    let plan = push(version, newer.len(), options, busy)?;
    let budget = slice_bytes(options);
    let longer = with_passengers(version, newer, plan.clone(), budget);
    let mut plan = if busy.allows(&longer) { longer } else { plan };
    plan.work = how(&plan, options);
    Some(plan)
}

/// A slice of the run at `index` of level 1 into the next older run: the one that rewrites the least
/// of it for each of its own bytes.
fn push(version: &TreeVersion, index: usize, options: &Options, busy: &Busy) -> Option<Plan> {
    let run = &version.levels[1][index];
    let budget = slice_bytes(options);
    let slice = |from: usize, to: usize| slice(version, index, &run.ssts[from..to], options, busy);
    let mut best: Option<(usize, Plan, u64)> = None;
    for seed in 0..run.ssts.len() {
        let Some(plan) = slice(seed, seed + 1) else { continue };
        let own = u128::from(run.ssts[seed].bytes.max(1));
        let cost = u64::try_from(u128::from(plan.bytes()) * 1000 / own).unwrap_or(u64::MAX);
        if best.as_ref().is_none_or(|(_, _, least)| cost < *least) {
            best = Some((seed, plan, cost));
        }
    }
    let (from, mut plan, _) = best?;
    for to in from + 1..run.ssts.len() {
        match slice(from, to + 1) {
            Some(longer) if longer.bytes() <= budget => plan = longer,
            _ => break,
        }
    }
    Some(plan)
}

/// `files` of the run at `index` of level 1, and what they overlap, to the next older run.
fn slice(
    version: &TreeVersion,
    index: usize,
    files: &[Arc<SstMeta>],
    options: &Options,
    busy: &Busy,
) -> Option<Plan> {
    let spans: Vec<RowRange> = files.iter().map(|sst| sst.span()).collect();
    let run = version.levels[1][index].id;
    let mut inputs = vec![InputRun { level: 1, run, ssts: files.to_vec() }];
    let (level, to, destination) = match version.levels[1].get(index + 1) {
        Some(older) => (1, Some(older), Destination::Older(older.id)),
        None => (LEVELS - 1, version.levels[LEVELS - 1].first(), Destination::LastRun),
    };
    let overlapped = to.map(|run| overlapping(run, &spans)).unwrap_or_default();
    if !overlapped.is_empty() {
        let run = to.map_or(LAST_RUN, |run| run.id);
        inputs.push(InputRun { level, run, ssts: overlapped });
    }
    let plan = joining(version, inputs, destination, options);
    busy.allows(&plan).then_some(plan)
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
