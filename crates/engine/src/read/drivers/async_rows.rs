//! Reads of rows that never wait on their thread: for tasks of an asynchronous server.
//!
//! ```text
//! planned --(all is resident: lent, or merged and lent)--> done, without having waited
//!    ^  \--(blocks are missing)--> the task sleeps until they are there (`async_loads`)
//!    \------(they have come, or failed)------/
//! ```
//!
//! The futures need no runtime, only somebody who polls them when they are woken. A future that is
//! dropped leaves nothing behind.
//!
//! 1. Between its polls a read keeps no view and no pin. Without a snapshot each plan looks at the
//!    newest state of the tree, and only the plan that lends cells counts: they are of one moment
//!    between the beginning and the end of the read.
//! 2. A merge here has only what is resident. Where that does not do (a row over several blocks,
//!    large values of megabytes together, a cache too small to keep what was brought in), the read
//!    ends as [`RowEnd::Waits`] and is for the blocking driver. So does one whose merge has to skip
//!    more than `Shape::task_merge_work` entries.

use super::{RowSelection, Tree, missed};
use crate::block_loads::blocking_loads::Missed;
use crate::cell::SequenceNumber;
use crate::counters::perf_context::{self, PerfCount, PerfTime};
use crate::counters::point_counters::PointCount;
use crate::error::Result;
use crate::marks::Mark;
use crate::read::point::{PointRead, Step};
use crate::read::scan::step_budget::{StepBudget, Stepped};
use crate::read::scan::view_scan::{self, Blocks};
use crate::request::Cell;
use crate::sstable::{Missing, PinnedBlocks};
use crate::tree::read_view::ReadView;
use crate::tree::snapshots::Snapshot;
use crossbeam_epoch as epoch;
use std::ops::ControlFlow;

/// How the read of a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowEnd {
    /// All wanted cells were lent: so many, 0 for a row that is not there.
    Lent(u64),
    /// The caller wanted no more.
    Stopped,
    /// The read has to wait for the disk, or to skip a lot, on a thread, as
    /// [`Tree::read_row_with`] does. What was lent does not count.
    Waits,
}

/// Reads of rows without a thread that waits: see [`Tree::row_reads`].
pub struct RowReads {
    tree: Tree,
    snapshot: Option<Snapshot>,
    /// What was brought in for rows to come.
    pinned_blocks: PinnedBlocks,
}

/// What came of looking at a row.
enum Looked {
    Ended(RowEnd),
    Missed(Vec<Missed>),
}

impl Tree {
    /// Reads of rows at `snapshot` (`None`: each sees the tree as it is at some moment between its
    /// beginning and its end), for tasks that must not wait on their thread.
    pub fn row_reads(&self, snapshot: Option<&Snapshot>) -> RowReads {
        RowReads {
            tree: self.clone(),
            snapshot: snapshot.cloned(),
            pinned_blocks: PinnedBlocks::default(),
        }
    }
}

impl RowReads {
    /// Lends the visible cells of `row` that `selection` wants, in their order, to `use_cell` until
    /// that breaks off. If all that it needs is resident, the future is ready at once. Otherwise
    /// what is missing of it, and of the rows that come next (`ahead`, of which it looks at a few
    /// dozen), is brought in together. After an error, and after [`RowEnd::Waits`], some cells may
    /// have been lent, all in one poll. Errors are those of [`Tree::read_row_with`]. May be
    /// dropped at any time. `use_cell` should be short: while it runs, the cache may have to wait
    /// before it reuses memory.
    pub async fn read<'a>(
        &mut self,
        row: &[u8],
        ahead: impl Iterator<Item = &'a [u8]> + Clone,
        selection: &RowSelection<'_>,
        mut use_cell: impl FnMut(&Cell<'_>) -> ControlFlow<()>,
    ) -> Result<RowEnd> {
        self.tree.count(PointCount::Reads, 1);
        perf_context::add([(PerfCount::PointReads, 1)]);
        let mut looks_ahead = true;
        let shape = self.tree.shared().options.shape;
        for round in 0..shape.fetches_max {
            let mut all_missed = match self.look(row, selection, &mut use_cell)? {
                Looked::Ended(end) => return Ok(end),
                Looked::Missed(missed) => missed,
            };
            if round == 0 {
                self.pinned_blocks.clear();
            }
            let own = all_missed.len();
            if looks_ahead {
                let mut large_bytes = 0;
                for next in ahead.clone().take(shape.task_rows_ahead - 1) {
                    let missed = self.missing(next, selection);
                    let large = missed.iter().map(|(_, missing)| Missing::large_bytes(*missing));
                    large_bytes += large.sum::<usize>();
                    if large_bytes > shape.task_large_bytes_ahead {
                        break;
                    }
                    Mark::TaskLookedAhead.hit();
                    all_missed.extend(missed);
                }
            }
            looks_ahead &= all_missed.len() > own;
            let shared = self.tree.shared();
            let loads = self.tree.loads();
            let fetch = shared.async_loads.fetch(loads, all_missed, &mut self.pinned_blocks);
            match perf_context::waiting(PerfTime::DiskRead, fetch).await {
                // It may be of another row; if it is of this one, it comes again.
                Err(_) if looks_ahead => looks_ahead = false,
                fetched => fetched?,
            }
        }
        match self.look(row, selection, &mut use_cell)? {
            Looked::Ended(end) => Ok(end),
            Looked::Missed(_) => {
                Mark::TaskWaits.hit();
                Ok(RowEnd::Waits)
            }
        }
    }

    /// Takes the read of a row as far as resident blocks lead.
    fn look(
        &self,
        row: &[u8],
        selection: &RowSelection<'_>,
        use_cell: &mut impl FnMut(&Cell<'_>) -> ControlFlow<()>,
    ) -> Result<Looked> {
        self.tree.check()?;
        let parts = self.tree.parts();
        let queries = selection.questions(row, parts);
        let view = self.tree.tree.look_at(self.snapshot.as_ref());
        let at = self.tree.sequence(self.snapshot.as_ref());
        let read = PointRead::new(&queries, at, parts);
        {
            let pinned = epoch::pin();
            let filters = &self.tree.tree.filter_counters;
            let cells = selection.wanted();
            let wanted = match read.whole(&view, &cells, &self.pinned_blocks, &pinned, filters) {
                Step::Done(None) => return Ok(Looked::Ended(RowEnd::Lent(0))),
                Step::Done(Some(row)) => {
                    return Ok(Looked::Ended(match row.lend(&cells, use_cell) {
                        ControlFlow::Continue(lent) => RowEnd::Lent(lent),
                        ControlFlow::Break(_) => RowEnd::Stopped,
                    }));
                }
                Step::Fetch { wanted, .. } => wanted,
                Step::Merge => read.missing(&view, &cells, &self.pinned_blocks, &pinned),
            };
            if !wanted.is_empty() {
                return Ok(Looked::Missed(missed(&view, row, &wanted)));
            }
        }
        self.tree.count(PointCount::Merged, 1);
        perf_context::add([(PerfCount::Merged, 1)]);
        match self.merge(&view, row, at, selection, use_cell) {
            Err(error) if error.is_not_resident() => Ok(Looked::Ended(RowEnd::Waits)),
            end => end.map(Looked::Ended),
        }
    }

    /// Merges what is resident.
    fn merge(
        &self,
        view: &ReadView,
        row: &[u8],
        at: SequenceNumber,
        selection: &RowSelection<'_>,
        use_cell: &mut impl FnMut(&Cell<'_>) -> ControlFlow<()>,
    ) -> Result<RowEnd> {
        let (request, parts) = (selection.request(row), self.tree.parts());
        let filters = &self.tree.tree.filter_counters;
        let mut scan = view_scan::scan(view, &request, at, parts, filters, Blocks::AtOnce, None)?;
        let work = self.tree.shared().options.shape.task_merge_work;
        let mut budget = StepBudget::of_work(work as u64);
        let mut lent = 0;
        let mut spent = scan.next_row_within(&mut budget)? == Stepped::NotYet;
        while !spent {
            match scan.next_cell_within(&mut budget)? {
                Stepped::Found(cell) => {
                    lent += 1;
                    if use_cell(&cell).is_break() {
                        return Ok(RowEnd::Stopped);
                    }
                }
                Stepped::End => return Ok(RowEnd::Lent(lent)),
                Stepped::NotYet => spent = true,
            }
        }
        Mark::TaskMergeTooLong.hit();
        Ok(RowEnd::Waits)
    }

    /// What the read of a row misses, as far as can be told.
    fn missing(&self, row: &[u8], selection: &RowSelection<'_>) -> Vec<Missed> {
        let parts = self.tree.parts();
        let queries = selection.questions(row, parts);
        let view = self.tree.tree.look_at(self.snapshot.as_ref());
        let at = self.tree.sequence(self.snapshot.as_ref());
        let read = PointRead::new(&queries, at, parts);
        let wanted = read.missing(&view, &selection.wanted(), &self.pinned_blocks, &epoch::pin());
        missed(&view, row, &wanted)
    }
}
