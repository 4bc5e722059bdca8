//! Checks the commit log: every record, in every segment, and what the manifest knows of it.

use super::Report;
use crate::batch::FrozenBatch;
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::log::framing::segment_files::COMMIT_LOG;
use crate::log::log_salvage::{LogGap, LogSalvage, LogStop, Salvaged};
use crate::log::{self, LogItem, RecordKind, SegmentNumber, tree_batches};
use crate::manifest::{LogClosed, State};
use base::env::{Env, FileSystem};
use std::path::Path;
use std::sync::Arc;

/// Reads the commit log to its end, past damage. `state` is what the manifest says, if it can be
/// read.
pub(super) fn check(
    env: &Env,
    dir: &Path,
    state: Option<&State>,
    report: &mut Report,
) -> Result<()> {
    let mut reader = LogSalvage::open(Arc::clone(&env.fs), dir, &COMMIT_LOG)?;
    let first = reader.first_segment();
    let mut order = Order { state, next: None };
    while let Some(item) = reader.next()? {
        match item {
            Salvaged::Record(item) => order.batch(dir, &item, report),
            Salvaged::Gap(LogGap { path, offset, what }) => {
                order.next = None;
                report.add(path, offset, what);
            }
        }
    }
    if let Some(state) = state {
        check_ends(dir, state, first, reader.stop(), report);
    }
    check_kept(&*env.fs, dir, state, report)
}

/// Reads the retired segments that are kept for readers of changes.
fn check_kept(
    fs: &dyn FileSystem,
    dir: &Path,
    state: Option<&State>,
    report: &mut Report,
) -> Result<()> {
    let is_wanted = state.is_none_or(|state| state.change_logs().next().is_some());
    for segment in log::list_kept(fs, dir)? {
        let path = segment.kept_path(dir);
        if !is_wanted {
            let note = "no tree keeps its changes; the next open removes it";
            report.notes.push(format!("{}: {note}", path.display()));
        } else if let Err(error) = read_kept(fs, dir, segment) {
            report.note(&path, error)?;
        }
    }
    Ok(())
}

fn read_kept(fs: &dyn FileSystem, dir: &Path, segment: SegmentNumber) -> Result<()> {
    let mut reader = log::open_kept(fs, dir, segment)?;
    while let Some(item) = reader.next()? {
        if !matches!(item.kind, RecordKind::Batch | RecordKind::Batches) {
            continue;
        }
        let damaged = |what: String| Error::corruption(&segment.kept_path(dir), item.offset, what);
        let mut outcome = Ok(());
        let parts = tree_batches::for_each(&item.record, |batch| {
            if let Err(error) = FrozenBatch::decode(batch.payload) {
                outcome = Err(damaged(error.to_string()));
            }
        });
        parts.map_err(|what| damaged(what.to_owned()))?;
        outcome?;
    }
    Ok(())
}

/// What must hold from batch to batch.
struct Order<'a> {
    state: Option<&'a State>,
    /// The number after the last batch; `None` at the start and right after damage.
    next: Option<SequenceNumber>,
}

impl Order<'_> {
    fn batch(&mut self, dir: &Path, item: &LogItem<'_>, report: &mut Report) {
        let (path, offset, first) = (item.segment.path(dir), item.offset, item.record.first);
        report.log_batches += 1;
        if !self.existed(item.record.tree) {
            let what = format!("a batch of tree {}, which never existed", item.record.tree.0);
            report.add(path.clone(), offset, what);
        }
        let known = self.state.map_or(u64::MAX, |state| state.last_sequence.0);
        match self.next {
            Some(next) if first < next => {
                let what = format!("batch {} stands after {}", first.0, next.0 - 1);
                report.add(path.clone(), offset, what);
            }
            Some(next) if first > next && first.0 - 1 > known => {
                let what = format!("numbers from {} are missing, in the manifest too", next.0);
                report.add(path.clone(), offset, what);
            }
            _ => {}
        }
        match FrozenBatch::decode(item.record.payload) {
            Ok(batch) if batch.is_empty() => report.add(path, offset, "an empty batch"),
            Ok(batch) => self.next = Some(SequenceNumber(first.0 + batch.len() as u64)),
            Err(error) => report.add(path, offset, error.to_string()),
        }
    }

    fn existed(&self, tree: TreeId) -> bool {
        self.state
            .is_none_or(|state| state.trees.contains_key(&tree) || state.used.contains_key(&tree))
    }
}

/// Compares where the log begins and stops with what the manifest knows of it.
fn check_ends(
    dir: &Path,
    state: &State,
    first: Option<SegmentNumber>,
    stop: Option<LogStop>,
    report: &mut Report,
) {
    let mut missing = |segment: SegmentNumber| {
        let what = "the manifest knows this segment of the log; it is missing";
        report.add(segment.path(dir), 0, what);
    };
    let known = state.log_from > SegmentNumber(1) || state.log_closed.is_some();
    match first {
        Some(first) if first > state.log_from => return missing(state.log_from),
        None if known => return missing(state.log_from),
        _ => {}
    }
    let (Some(LogClosed { segment, end }), Some(stop)) = (state.log_closed, stop) else { return };
    if stop.segment < segment {
        missing(segment);
    } else if stop.segment == segment && (stop.offset != end || !stop.ended) {
        let what = format!("the log ends here; it was closed cleanly at {end}");
        report.add(segment.path(dir), stop.offset, what);
    }
}
