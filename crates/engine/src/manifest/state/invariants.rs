//! The invariants of versions (the header of `version.rs`), each a named predicate. An error is
//! a text that says what is broken and where.

use super::State;
use super::version::{Run, SstMeta, TreeVersion};
use crate::cell::SequenceNumber;
use std::collections::BTreeSet;

/// Checks everything that one tree can tell.
pub(crate) fn tree(version: &TreeVersion) -> Result<(), String> {
    version.options.validate().map_err(|error| error.to_string())?;
    runs_stand_in_order(version)?;
    last_level_has_one_run(version)?;
    for run in version.runs() {
        run_is_not_empty(run)?;
        run.ssts.iter().try_for_each(|sst| sst_is_plausible(sst))?;
        ssts_are_sorted_and_disjoint(run)?;
    }
    newer_runs_hold_newer_entries(version)
}

/// Invariant 1: within a level, runs are ordered newest first, by falling ids.
pub(crate) fn runs_stand_in_order(version: &TreeVersion) -> Result<(), String> {
    for (level, runs) in version.levels.iter().enumerate() {
        for pair in runs.windows(2) {
            if pair[0].id <= pair[1].id {
                let (first, second) = (pair[0].id.0, pair[1].id.0);
                return Err(format!("level {level}: run {first} stands before run {second}"));
            }
        }
    }
    Ok(())
}

/// Invariant 1: the last level has at most one run.
pub(crate) fn last_level_has_one_run(version: &TreeVersion) -> Result<(), String> {
    match version.levels.last() {
        Some(last) if last.len() > 1 => Err(format!("the last level has {} runs", last.len())),
        _ => Ok(()),
    }
}

/// Invariant 1: no run is empty.
pub(crate) fn run_is_not_empty(run: &Run) -> Result<(), String> {
    if run.ssts.is_empty() { Err(format!("run {} is empty", run.id.0)) } else { Ok(()) }
}

/// Checks that the metadata of an SSTable is consistent.
pub(crate) fn sst_is_plausible(sst: &SstMeta) -> Result<(), String> {
    let check = |holds: bool, what: &str| {
        if holds { Ok(()) } else { Err(format!("SSTable {}: {what}", sst.number.0)) }
    };
    check(sst.number.0 > 0, "its number is 0")?;
    check(sst.bytes > 0, "it is empty")?;
    check(sst.entries > 0 || sst.range_tombstones > 0, "it holds nothing")?;
    check(sst.tombstones <= sst.entries, "more tombstones than entries")?;
    check(sst.first_row <= sst.last_row, "its first row is after its last")?;
    check(sst.sequence_min <= sst.sequence_max, "its sequence numbers are inverted")?;
    check(sst.sequence_max <= SequenceNumber::MAX, "a sequence number is too large")?;
    let inverted = sst.entries > 0 && sst.timestamp_min > sst.timestamp_max;
    check(!inverted, "its timestamps are inverted")?;
    check(sst.dropped.is_some() == (sst.range_tombstones > 0), "range tombstones without a range")?;
    let empty = sst.dropped.as_ref().is_some_and(|dropped| dropped.is_empty());
    check(!empty, "its dropped range is empty")
}

/// Invariant 2: the SSTables of a run are sorted by first row and share no row, range tombstones
/// included.
pub(crate) fn ssts_are_sorted_and_disjoint(run: &Run) -> Result<(), String> {
    for pair in run.ssts.windows(2) {
        let (left, right) = (&pair[0], &pair[1]);
        let apart = match (&left.dropped, &right.dropped) {
            // Without copying the rows: this is most files, and runs at every install.
            (None, None) => left.last_row < right.first_row,
            _ => left.span().end.is_some_and(|end| end <= right.span().start),
        };
        if left.first_row >= right.first_row || !apart {
            let (left, right) = (left.number.0, right.number.0);
            return Err(format!("run {}: SSTables {left} and {right} share rows", run.id.0));
        }
    }
    Ok(())
}

/// Invariant 3, as far as metadata can tell: if the first or last row of an SSTable is also the
/// first or last row of one in an older run, the newer SSTable has the larger sequence number.
/// Numbers that compaction has cleared (0) prove nothing.
pub(crate) fn newer_runs_hold_newer_entries(version: &TreeVersion) -> Result<(), String> {
    let mut newer: Vec<&Run> = Vec::new();
    for run in version.runs() {
        for (new, old) in newer.iter().flat_map(|new| neighbours(new, run)) {
            let share = |row: &[u8]| row == old.first_row || row == old.last_row;
            let both = new.entries > 0 && old.entries > 0;
            let cleared = old.sequence_min == SequenceNumber(0);
            if both
                && !cleared
                && (share(&new.first_row) || share(&new.last_row))
                && new.sequence_max <= old.sequence_min
            {
                let (new, old) = (new.number.0, old.number.0);
                return Err(format!("SSTable {new} stands above {old} and is older"));
            }
        }
        newer.push(run);
    }
    Ok(())
}

/// For each SSTable of `new`, those of `old` that its first and last row fall into.
fn neighbours<'a>(new: &'a Run, old: &'a Run) -> impl Iterator<Item = (&'a SstMeta, &'a SstMeta)> {
    new.ssts.iter().flat_map(move |sst| {
        [&sst.first_row, &sst.last_row].into_iter().filter_map(move |row| {
            let at = old.ssts.partition_point(|other| other.first_row <= *row);
            let other = at.checked_sub(1).and_then(|at| old.ssts.get(at))?;
            Some((&**sst, &**other))
        })
    })
}

/// No SSTable is in two places, and every number is below the next one.
pub(crate) fn files_are_listed_once(state: &State) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for run in state.trees.values().flat_map(|tree| tree.runs()) {
        for sst in &run.ssts {
            if !seen.insert(sst.number) {
                return Err(format!("SSTable {} is in two places", sst.number.0));
            }
            if sst.number >= state.next_file {
                return Err(format!("SSTable {} is above the next file number", sst.number.0));
            }
        }
    }
    Ok(())
}
