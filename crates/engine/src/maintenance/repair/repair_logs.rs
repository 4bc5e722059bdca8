//! Takes over what the commit log holds beyond the SSTables, as new runs on top of them.

use super::Repair;
use super::report::{Loss, Lost};
use crate::batch::FrozenBatch;
use crate::cell::{SequenceNumber, TreeId};
use crate::compaction::execute::flush;
use crate::error::{Error, Result};
use crate::log::framing::segment_files::COMMIT_LOG;
use crate::log::log_salvage::{LogGap, LogSalvage, Salvaged};
use crate::log::{LogPosition, SegmentNumber};
use crate::manifest::{Edit, LogClosed, State};
use crate::memtable::Memtable;
use crate::options::TreeOptions;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Memory of one tree's batches before they are written out.
const MEMTABLE_BYTES: usize = 64 << 20;

/// What is known of the log where the reading of it stands.
struct Replay {
    memtables: BTreeMap<TreeId, Arc<Memtable>>,
    /// The number of the last mutation read.
    last: u64,
    /// The newest commit time.
    commit_time: u64,
    /// Damage after it.
    gap: Option<LogGap>,
}

/// Applies the log of the old directory to the state that `repair` has put together.
pub(super) fn replay(repair: &mut Repair<'_>) -> Result<()> {
    let mut log = LogSalvage::open(Arc::clone(&repair.env.fs), repair.dir, &COMMIT_LOG)?;
    let mut replay = Replay { memtables: BTreeMap::new(), last: 0, commit_time: 0, gap: None };
    let first = log.first_segment();
    let (log_from, closed) = (repair.state.log_from, repair.state.log_closed);
    let known = log_from > SegmentNumber(1) || closed.is_some();
    // Without a manifest that can be read it is not known from where the log is needed.
    if repair.manifest_is_read && first.map_or(known, |first| first > log_from) {
        let what = "the manifest knows this segment of the log; it is missing".to_owned();
        replay.gap(repair, LogGap { path: log_from.path(repair.dir), offset: 0, what });
    }
    while let Some(item) = log.next()? {
        match item {
            Salvaged::Gap(gap) => replay.gap(repair, gap),
            Salvaged::Record(item) => {
                let (tree, first) = (item.record.tree, item.record.first);
                replay.commit_time = replay.commit_time.max(item.record.commit_time);
                match FrozenBatch::decode(item.record.payload) {
                    Ok(batch) if !batch.is_empty() => replay.batch(repair, tree, first, &batch)?,
                    decoded => {
                        let what = match decoded {
                            Ok(_) => "an empty batch".to_owned(),
                            Err(error) => error.to_string(),
                        };
                        let path = item.segment.path(repair.dir);
                        replay.gap(repair, LogGap { path, offset: item.offset, what });
                    }
                }
            }
        }
    }
    if let (Some(LogClosed { segment, end }), Some(stop)) = (closed, log.stop())
        && (stop.segment, stop.offset) < (segment, end)
    {
        let gap = if stop.segment < segment {
            let what = "the log was closed cleanly in this segment; its records are missing";
            LogGap { path: segment.path(repair.dir), offset: 0, what: what.to_owned() }
        } else {
            let what = format!("the log ends here; it was closed cleanly at {end}");
            LogGap { path: segment.path(repair.dir), offset: stop.offset, what }
        };
        replay.gap(repair, gap);
    }
    replay.end_gap(repair, None);
    for (tree, memtable) in std::mem::take(&mut replay.memtables) {
        write_out(repair, tree, &memtable)?;
    }
    let last = Edit::LastSequence(SequenceNumber(replay.last));
    repair.apply(&[last, Edit::CommitTime(replay.commit_time)])
}

/// Returns whether the log knows of changes that `state` does not: then the manifest lost its end.
pub(super) fn contradicts(repair: &Repair<'_>, state: &State) -> Result<bool> {
    let mut log = LogSalvage::open(Arc::clone(&repair.env.fs), repair.dir, &COMMIT_LOG)?;
    if log.first_segment().is_some_and(|first| first > state.log_from) {
        return Ok(true);
    }
    let mut next = None;
    while let Some(item) = log.next()? {
        let Salvaged::Record(item) = item else {
            next = None;
            continue;
        };
        let (tree, first) = (item.record.tree, item.record.first.0);
        let created = state.trees.contains_key(&tree) || state.used.contains_key(&tree);
        // Numbers that the log leaves out are known to the manifest (`crate::recovery`).
        let left_out = next.is_some_and(|next| first > next && first - 1 > state.last_sequence.0);
        if !created || left_out {
            return Ok(true);
        }
        let batch = FrozenBatch::decode(item.record.payload);
        next = batch.ok().map(|batch| first + batch.len() as u64);
    }
    Ok(false)
}

impl Replay {
    /// Notes damage. What it cost is known when the next batch is.
    fn gap(&mut self, repair: &mut Repair<'_>, gap: LogGap) {
        if self.gap.is_none() {
            self.gap = Some(gap);
            return;
        }
        let LogGap { path, offset, what } = gap;
        repair.report.notes.push(format!("{} at offset {offset}: {what}", path.display()));
    }

    /// Tells what the damage before the mutation numbered `next` cost; before the end of the log,
    /// if that is `None`.
    fn end_gap(&mut self, repair: &mut Repair<'_>, next: Option<u64>) {
        let Some(LogGap { path: file, offset, what: reason }) = self.gap.take() else { return };
        let (from, to) = (self.last + 1, next.map(|next| next.saturating_sub(1)));
        let behind = |flushed: u64| to.is_none_or(|to| flushed < to);
        let trees = repair.state.trees.iter().filter(|(_, tree)| behind(tree.flushed.0));
        let trees: Vec<TreeId> = trees.map(|(tree, _)| *tree).collect();
        if to.is_some_and(|to| to < from) || trees.is_empty() {
            let note = format!("{} at offset {offset}: {reason}", file.display());
            repair.report.notes.push(format!("{note}; nothing is lost by it"));
            return;
        }
        repair.report.losses.push(Loss {
            file,
            offset,
            reason,
            lost: Lost::Batches { from, to, trees },
        });
    }

    fn batch(
        &mut self,
        repair: &mut Repair<'_>,
        tree: TreeId,
        first: SequenceNumber,
        batch: &FrozenBatch,
    ) -> Result<()> {
        self.end_gap(repair, Some(first.0));
        let last = first.0 + batch.len() as u64 - 1;
        if first.0 <= self.last {
            let what = format!("batch #{} of the log is out of order and left out", first.0);
            repair.report.notes.push(what);
            return Ok(());
        }
        self.last = last;
        if repair.state.used.contains_key(&tree) {
            return Ok(());
        }
        if repair.state.tree(tree).is_none() {
            let id = tree.0;
            let note = format!("the creation of tree {id} is lost; it gets default options");
            repair.report.notes.push(note);
            repair.apply(&[Edit::CreateTree { tree, options: TreeOptions::default() }])?;
        }
        let flushed = repair.state.tree(tree).map(|version| version.flushed);
        if flushed >= Some(LogPosition(last)) {
            return Ok(());
        }
        repair.report.log_batches += 1;
        let memtable = self.memtables.entry(tree).or_default();
        memtable.apply(batch, first, LogPosition(last));
        if memtable.bytes() >= MEMTABLE_BYTES {
            let full = std::mem::take(memtable);
            write_out(repair, tree, &full)?;
        }
        Ok(())
    }
}

/// Writes a memtable as the newest run of its tree.
fn write_out(repair: &mut Repair<'_>, tree: TreeId, memtable: &Arc<Memtable>) -> Result<()> {
    let version = repair.state.tree(tree).ok_or(Error::UnknownTree(tree))?;
    let run = version.next_run();
    let written = repair
        .writing(tree, |writing| flush(writing, std::slice::from_ref(memtable), run, Vec::new()))?;
    let mut edits = written?.edits;
    edits.push(Edit::Flushed { tree, position: memtable.position() });
    repair.apply(&edits)
}
