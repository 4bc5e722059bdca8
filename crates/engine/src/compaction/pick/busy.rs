//! What running compactions of a tree hold, so that plans do not get in each other's way.

use super::{Destination, LAST_RUN, Plan, overlap};
use crate::manifest::state::version::LEVELS;
use crate::manifest::{FileNumber, Run, RunId, SstMeta, TreeVersion};
use crate::request::RowRange;
use std::collections::HashSet;

/// See the file header.
#[derive(Debug, Clone, Default)]
pub struct Busy {
    files: HashSet<FileNumber>,
    /// Where outputs join a run that is there, or will be.
    joins: Vec<Join>,
}

/// Rows of a run that a plan will write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Join {
    place: (usize, RunId),
    rows: RowRange,
}

impl Join {
    fn of(plan: &Plan) -> Option<Self> {
        let joins = matches!(plan.destination, Destination::LastRun | Destination::Older(_));
        joins.then(|| Self { place: plan.place(), rows: plan.hull() })
    }

    fn last(rows: &RowRange) -> Self {
        Self { place: (LEVELS - 1, LAST_RUN), rows: rows.clone() }
    }

    fn meets(&self, other: &Self) -> bool {
        self.place == other.place && overlap(&self.rows, &other.rows)
    }
}

impl Busy {
    /// Marks what `plan` uses.
    pub fn start(&mut self, plan: &Plan) {
        self.files.extend(plan.ssts().map(|sst| sst.number));
        self.joins.extend(Join::of(plan));
    }

    /// Frees what `plan` used, when it is installed or given up.
    pub fn finish(&mut self, plan: &Plan) {
        for sst in plan.ssts() {
            self.files.remove(&sst.number);
        }
        if let Some(join) = Join::of(plan) {
            self.release(&join);
        }
    }

    /// Reserves `rows` of the last level for files that come from elsewhere, unless a running plan
    /// may write there.
    pub fn reserve_last(&mut self, rows: &RowRange) -> bool {
        let join = Join::last(rows);
        let free = !self.joins.iter().any(|busy| busy.meets(&join));
        if free {
            self.joins.push(join);
        }
        free
    }

    /// Frees what `reserve_last` reserved.
    pub fn release_last(&mut self, rows: &RowRange) {
        self.release(&Join::last(rows));
    }

    fn release(&mut self, join: &Join) {
        if let Some(at) = self.joins.iter().position(|busy| busy == join) {
            self.joins.swap_remove(at);
        }
    }

    /// Returns whether nothing runs.
    pub fn is_idle(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns whether nothing works on `run`.
    pub(super) fn leaves(&self, run: &Run) -> bool {
        run.ssts.iter().all(|sst| !self.has(sst))
    }

    pub(super) fn has(&self, sst: &SstMeta) -> bool {
        self.files.contains(&sst.number)
    }

    pub(super) fn allows(&self, plan: &Plan) -> bool {
        let join = Join::of(plan);
        plan.ssts().all(|sst| !self.has(sst))
            && !self.joins.iter().any(|busy| join.as_ref().is_some_and(|join| busy.meets(join)))
    }

    /// Runs of level 1, with one that has lost its files to the last level while others are on their
    /// way to it.
    pub(super) fn l1_runs(&self, version: &TreeVersion) -> usize {
        let here = |id: RunId| version.levels[1].iter().any(|run| run.id == id);
        let coming = |join: &Join| join.place.0 == 1 && !here(join.place.1);
        version.levels[1].len() + usize::from(self.joins.iter().any(coming))
    }

    #[cfg(test)]
    pub(super) fn with(files: impl IntoIterator<Item = FileNumber>) -> Self {
        Self { files: files.into_iter().collect(), joins: Vec::new() }
    }
}
