//! Picks that take runs of level 0 up to level 1, as whole runs.

use super::level1_sizes::L1Target;
use super::{
    Busy, Destination, InputRun, L1_RUNS_MAX, Plan, Work, how, input, overlapping, run_hull,
};
use crate::manifest::state::version::LEVELS;
use crate::manifest::{Run, TreeVersion};
use crate::options::Options;

/// All of level 0 that nothing else works on into a new run of level 1.
pub(super) fn merge_up(version: &TreeVersion, options: &Options, busy: &Busy) -> Option<Plan> {
    let idle = version.levels[0].iter().rev().take_while(|run| busy.leaves(run)).count();
    runs_up(version, idle, options, busy)
}

/// The oldest `runs` runs of level 0, which are idle, into a new run of level 1, with the younger run
/// that is there if it is no larger, if there are two, or, over a last level, if it is within its size.
/// Not while level 1 has its number of runs and the younger is being merged.
pub(super) fn runs_up(
    version: &TreeVersion,
    runs: usize,
    options: &Options,
    busy: &Busy,
) -> Option<Plan> {
    let [l0, l1, _] = &version.levels;
    let target = L1Target::of(version, options);
    let mut inputs: Vec<InputRun> = l0[l0.len() - runs..].iter().map(|run| input(0, run)).collect();
    let mut bytes: u64 = l0[l0.len() - runs..].iter().map(Run::bytes).sum();
    let (here, mut taken) = (busy.l1_runs(version), 0);
    let filled = !version.levels[LEVELS - 1].is_empty();
    for run in l1.iter().take_while(|run| busy.leaves(run)) {
        let own = run.bytes();
        let small = own <= bytes && own + bytes <= target.older;
        // A tree without a last level is being filled: it has room for a run more, and writes less.
        let joined = taken == 0 && own <= target.younger && filled;
        if !small && !joined && here - taken < L1_RUNS_MAX {
            break;
        }
        bytes += own;
        inputs.push(input(1, run));
        taken += 1;
    }
    if runs == 0 || here - taken >= L1_RUNS_MAX {
        return None;
    }
    let stay: Vec<&Run> = l1[taken..].iter().chain(&version.levels[LEVELS - 1]).collect();
    let mut plan = Plan {
        work: Work::Merge,
        inputs,
        destination: Destination::NewRun,
        older: stay.iter().filter_map(|run| run_hull(run)).collect(),
        cuts: Vec::new(),
        below: Vec::new(),
    };
    if let Some(below) = stay.first() {
        plan.below = overlapping(below, &[plan.hull()]);
    }
    plan.work = how(&plan, options);
    Some(plan)
}
