//! Reads of rows that never wait on their thread: for tasks of an asynchronous server.
//!
//! ```text
//! planned --(all is resident: lent, or merged and lent)--> done, without having waited
//!    ^  \--(blocks are missing)--> the task sleeps until they are there (`flights`)
//!    \------(they have come, or failed)------/
//! ```
//!
//! The futures need no runtime, only somebody who polls them when they are woken. A future that is
//! dropped leaves nothing behind.
//!
//! 1. Between its polls a read keeps no view and no pin. Without a snapshot each plan looks at the
//!    newest state of the tree, and only the plan that lends cells counts: they are of one moment
//!    between the beginning and the end of the read.
//! 2. A merge here has only what is resident. Where that does not do (a row over several blocks, a
//!    large value, a cache too small to keep what was brought in), the read ends as
//!    [`RowEnd::Waits`] and is for the blocking driver.

use super::{FETCHES_MAX, PointCount, RowSelection, TreeReader, missed};
use crate::cache::BlockHold;
use crate::cell::SequenceNumber;
use crate::error::{Error, Result};
use crate::fetch::Missed;
use crate::read::point::{PointRead, Step};
use crate::request::Cell;
use crate::snapshot::Snapshot;
use crate::sstable::{Block, RowHit};
use crate::view::{Blocks, ReadView};
use crossbeam_epoch as epoch;
use std::ops::ControlFlow;

/// Rows that are looked at together when one of them misses blocks.
const AHEAD_MAX: usize = 32;

/// How the read of a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowEnd {
    /// All wanted cells were lent: so many, 0 for a row that is not there.
    Lent(u64),
    /// The caller wanted no more.
    Stopped,
    /// The read has to wait for the disk on a thread, as [`TreeReader::read_row_with`] does. What
    /// was lent does not count.
    Waits,
}

/// Reads of rows without a thread that waits: see [`TreeReader::row_reads`].
pub struct RowReads {
    tree: TreeReader,
    snapshot: Option<Snapshot>,
    /// What was brought in for rows to come.
    held: Vec<BlockHold<Block>>,
}

/// What came of looking at a row.
enum Looked {
    Ended(RowEnd),
    Missed(Vec<Missed>),
}

impl TreeReader {
    /// Reads of rows at `snapshot` (`None`: each sees the tree as it is at some moment between its
    /// beginning and its end), for tasks that must not wait on their thread.
    pub fn row_reads(&self, snapshot: Option<&Snapshot>) -> RowReads {
        RowReads { tree: self.clone(), snapshot: snapshot.cloned(), held: Vec::new() }
    }
}

impl RowReads {
    /// Lends the visible cells of `row` that `selection` wants, in their order, to `use_cell` until
    /// that breaks off. If all that it needs is resident, the future is ready at once. Otherwise
    /// what is missing of it, and of the rows that come next (`ahead`, of which it looks at a few
    /// dozen), is brought in together. After an error, and after [`RowEnd::Waits`], some cells may
    /// have been lent, all in one poll. Errors are those of [`TreeReader::read_row_with`]. May be
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
        let mut looks_ahead = true;
        for round in 0..FETCHES_MAX {
            let mut all_missed = match self.look(row, selection, &mut use_cell)? {
                Looked::Ended(end) => return Ok(end),
                Looked::Missed(missed) => missed,
            };
            if round == 0 {
                self.held.clear();
            }
            let own = all_missed.len();
            if looks_ahead {
                for next in ahead.clone().take(AHEAD_MAX - 1) {
                    all_missed.extend(self.missing(next, selection));
                }
            }
            looks_ahead &= all_missed.len() > own;
            let shared = self.tree.shared();
            match shared.flights.fetch(shared, all_missed, &mut self.held).await {
                // It may be of another row; if it is of this one, it comes again.
                Err(_) if looks_ahead => looks_ahead = false,
                fetched => fetched?,
            }
        }
        match self.look(row, selection, &mut use_cell)? {
            Looked::Ended(end) => Ok(end),
            Looked::Missed(_) => Ok(RowEnd::Waits),
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
        let queries = selection.questions(row);
        let view = self.tree.tree.look();
        let at = self.tree.sequence(self.snapshot.as_ref());
        let read = PointRead::new(&queries, at, self.tree.parts());
        {
            let pinned = epoch::pin();
            let filters = &self.tree.tree.filter_counters;
            let wanted = match read.whole(&view, &pinned, filters) {
                Step::Done(hit) => {
                    let end = hit.map_or(RowEnd::Lent(0), |hit| lend(&hit, selection, use_cell));
                    return Ok(Looked::Ended(end));
                }
                Step::Fetch(wanted) => wanted,
                Step::Merge => read.missing(&view, &pinned),
            };
            if !wanted.is_empty() {
                return Ok(Looked::Missed(missed(&view, row, &wanted)));
            }
        }
        self.tree.count(PointCount::Merged, 1);
        match self.merge(&view, row, at, selection, use_cell) {
            Err(Error::NotResident) => Ok(Looked::Ended(RowEnd::Waits)),
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
        let mut scan = view.scan(&request, at, parts, filters, Blocks::AtOnce, None)?;
        let mut lent = 0;
        if scan.next_row()?.is_some() {
            while let Some(cell) = scan.next_cell()? {
                lent += 1;
                if use_cell(&cell).is_break() {
                    return Ok(RowEnd::Stopped);
                }
            }
        }
        Ok(RowEnd::Lent(lent))
    }

    /// What the read of a row misses, as far as can be told.
    fn missing(&self, row: &[u8], selection: &RowSelection<'_>) -> Vec<Missed> {
        let queries = selection.questions(row);
        let view = self.tree.tree.look();
        let at = self.tree.sequence(self.snapshot.as_ref());
        let read = PointRead::new(&queries, at, self.tree.parts());
        missed(&view, row, &read.missing(&view, &epoch::pin()))
    }
}

/// Lends the wanted cells of a row that needs no merging.
fn lend(
    hit: &RowHit<'_>,
    selection: &RowSelection<'_>,
    use_cell: &mut impl FnMut(&Cell<'_>) -> ControlFlow<()>,
) -> RowEnd {
    let RowSelection { columns, timestamps, versions_max } = *selection;
    let (mut cells, mut lent) = (hit.cells(columns), 0);
    while let Some(at) = hit.next_of(&mut cells, columns, timestamps, versions_max) {
        lent += 1;
        if use_cell(&hit.cell(at)).is_break() {
            return RowEnd::Stopped;
        }
    }
    RowEnd::Lent(lent)
}
