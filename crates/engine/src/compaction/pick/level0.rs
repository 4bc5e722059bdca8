//! Picks that leave level 0 with fewer runs, so that flushes find a place.
//!
//! Going up, a run takes the newest run of level 1 along when that level has its number, and where a
//! tree is large that is much: flushes would wait for all of it. So the runs of level 0 are merged
//! with each other until they are worth what goes up with them, and again beside it, as often as a
//! place is wanted. A byte is so rewritten once or twice more on its way, and reads meet no more runs.

use super::level1_sizes::L1Target;
use super::merge_up::runs_up;
use super::{Busy, Destination, L1_RUNS_MAX, Plan, Work, how, input, run_hull};
use crate::manifest::TreeVersion;
use crate::options::Options;

/// The plan after which level 0 has fewer runs.
pub(super) fn pick(version: &TreeVersion, options: &Options, busy: &Busy) -> Option<Plan> {
    let l0 = &version.levels[0];
    let idle = l0.iter().take_while(|run| busy.leaves(run)).count();
    if idle < l0.len() {
        return together(version, idle, options);
    }
    let l1 = &version.levels[1];
    if l1.len() >= L1_RUNS_MAX && L1Target::of(version, options).is_overdue(&l1[0]) {
        return together(version, l0.len(), options);
    }
    let full = options.memtable_bytes_max as u64 * options.l0_runs_compact as u64;
    let soon = full.saturating_mul(options.shape.soon_factor as u64);
    let all = runs_up(version, l0.len(), options, busy);
    match all {
        Some(all) if l0.len() < 2 || all.bytes() <= soon => Some(all),
        Some(_) if l0.last()?.bytes() >= full => runs_up(version, 1, options, busy),
        _ => together(version, l0.len(), options),
    }
}

/// The newest `runs` runs of level 0, which are idle, as one; `None` if there are no two.
fn together(version: &TreeVersion, runs: usize, options: &Options) -> Option<Plan> {
    let [l0, l1, last] = &version.levels;
    let inputs = l0[..runs].iter().map(|run| input(0, run)).collect();
    let older = l0[runs..].iter().chain(l1).chain(last).filter_map(run_hull).collect();
    let (cuts, below) = (Vec::new(), Vec::new());
    let (work, destination) = (Work::Merge, Destination::Level0);
    (runs >= 2).then(|| {
        let plan = Plan { work, inputs, destination, older, cuts, below };
        Plan { work: how(&plan, options), ..plan }
    })
}
