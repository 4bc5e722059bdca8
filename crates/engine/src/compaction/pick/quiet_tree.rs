//! Picks for the reads of a quiet tree: when reading several runs has cost about what merging them
//! once costs, and nobody writes, the tree is merged down to one run. A small one at once; a large
//! one level 0 first and then a slice at a time, so that no step is large.

use super::merge_up::merge_up;
use super::push_down::push_down;
use super::{Busy, Plan, Work, input, slice_bytes, to_last};
use crate::manifest::{Run, TreeVersion};
use crate::options::Options;

/// The next step towards one run, if reads that looked at `reads` runs altogether have paid for it.
pub(super) fn pick(
    version: &TreeVersion,
    options: &Options,
    busy: &Busy,
    reads: u64,
) -> Option<Plan> {
    let bytes: u64 = version.runs().map(Run::bytes).sum();
    if version.runs().count() < 2 {
        return None;
    }
    let small = bytes <= slice_bytes(options);
    let plan = if small {
        let runs = version.levels.iter().enumerate();
        let runs = runs.flat_map(|(level, runs)| runs.iter().map(move |run| (level, run)));
        let inputs = runs.map(|(level, run)| input(level, run)).collect();
        Some(to_last(version, inputs, options)).filter(|plan| busy.allows(plan))
    } else if version.levels[0].is_empty() {
        push_down(version, options, busy)
    } else {
        merge_up(version, options, busy)
    };
    // Whether reads of one run more have cost as much as merging will.
    let paid = reads.saturating_mul(options.shape.bytes_per_read as u64);
    plan.filter(|plan| plan.work == Work::Move || paid >= plan.bytes())
}
