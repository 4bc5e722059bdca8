//! Changes of many rows by one request.
//!
//! 1. Entries that commit together are of one tablet. Entries of a round commit side by side; the next round
//!    begins when they have ended, so that entries of a row keep their order.
//! 2. On one machine a round has one set of row locks. In a cluster each tablet has its own, which go with
//!    the write of that tablet: one that gets no outcome stops no row of another tablet.

use super::admission::Admitted;
use super::replicated::Replicated;
use super::times::Place;
use super::write::{EvaluatedIn, TimesOfRow, ready};
use super::{Local, Table};
use crate::error::{Error, Result};
use crate::marks::Mark;
use crate::mutate::{self, RowMutations};
use engine::{ReadyBatch, TreeId, WriteBatch};
use futures::future::join_all;
use std::sync::Arc;

/// Entries of one tablet that are committed together.
struct TabletBatch {
    tree: TreeId,
    batch: ReadyBatch,
    /// Their indices in the request.
    entries: Vec<usize>,
    times: Vec<TimesOfRow>,
}

/// The entries of a request, and how far they are written.
struct Entries {
    table: Arc<Table>,
    rows: Vec<RowMutations>,
    results: Vec<Result<()>>,
    /// Tablet and index of each, all of a tablet together and in their order.
    order: Vec<(usize, usize)>,
    /// Entries of `order` that are in a round.
    done: usize,
    bytes: usize,
}

impl Entries {
    fn new(table: Arc<Table>, rows: Vec<RowMutations>) -> Self {
        let tablet_of = |(at, row): (usize, &RowMutations)| (table.schema.tablet_of(&row.row), at);
        let mut order: Vec<(usize, usize)> = rows.iter().enumerate().map(tablet_of).collect();
        order.sort_unstable();
        let bytes = rows.iter().map(RowMutations::batch_bytes).sum();
        Self { table, results: vec![Ok(()); rows.len()], rows, order, done: 0, bytes }
    }

    /// The next entries, a batch for each tablet, until there are `bytes_max` bytes or `timed_max`
    /// rows that leave a time to the server. Empty when all are done.
    fn next_round(&mut self, bytes_max: usize, timed_max: usize) -> Vec<TabletBatch> {
        let (mut round, mut bytes, mut timed) = (Vec::new(), 0, 0);
        while let Some((tablet, _)) = self.order.get(self.done).copied()
            && bytes < bytes_max
            && timed < timed_max
        {
            let mut batch = WriteBatch::with_capacity(self.bytes.min(bytes_max));
            let (mut entries, mut times) = (Vec::new(), Vec::new());
            while let Some((_, at)) = self.order.get(self.done).filter(|(of, _)| *of == tablet)
                && bytes + batch.encoded_len() < bytes_max
                && timed < timed_max
            {
                let (row, open) = (&self.rows[*at], batch.open_times());
                match mutate::append(&mut batch, &self.table.schema, &row.row, &row.mutations) {
                    Ok(()) => {
                        entries.push(*at);
                        times.push((Place::of(&row.row), open..batch.open_times()));
                    }
                    Err(error) => self.results[*at] = Err(error),
                }
                timed += usize::from(batch.open_times() > open);
                self.done += 1;
            }
            bytes += batch.encoded_len();
            if entries.is_empty() {
                continue;
            }
            let tree = self.table.schema.tablets[tablet].tree;
            match ready(batch) {
                Ok(batch) => round.push(TabletBatch { tree, batch, entries, times }),
                Err(error) => self.fail(&entries, &error),
            }
        }
        if self.done < self.order.len() {
            Mark::WriteInBatches.hit();
        }
        round
    }

    fn fail(&mut self, entries: &[usize], error: &Error) {
        entries.iter().for_each(|at| self.results[*at] = Err(error.clone()));
    }
}

impl Local {
    /// Changes rows, as [`crate::Store::mutate_rows`] says. Entries of one tablet share batches, so that many rows cost
    /// few commits; a batch that fails fails all its entries.
    pub(super) async fn write_rows(
        &self,
        table: Arc<Table>,
        rows: Vec<RowMutations>,
    ) -> Result<Vec<Result<()>>> {
        let mut entries = Entries::new(Arc::clone(&table), rows);
        let admitted = Arc::new(table.kept.admission.admit(entries.bytes)?);
        let (bytes_max, timed_max) =
            (self.core.shape.write_batch_bytes, self.core.shape.timed_rows_max);
        while entries.done < entries.order.len() {
            let bytes = entries.bytes;
            let next = self.convert(bytes, move || {
                let round = entries.next_round(bytes_max, timed_max);
                Ok((entries, round))
            });
            let (returned, round) = next.await?;
            entries = returned;
            self.write_round(&table, &mut entries, round, &admitted).await;
        }
        Ok(entries.results)
    }

    /// Commits the batches of a round side by side.
    async fn write_round(
        &self,
        table: &Table,
        entries: &mut Entries,
        mut round: Vec<TabletBatch>,
        admitted: &Arc<Admitted>,
    ) {
        for part in &mut round {
            if let Err(error) = self.core.room(table, part.tree, part.batch.encoded_len()).await {
                entries.fail(&std::mem::take(&mut part.entries), &error);
            }
        }
        round.retain(|part| !part.entries.is_empty());
        let commits = match self.core.replicated() {
            Some(replicated) => {
                Box::pin(self.commit_apart(replicated, table, entries, round, admitted)).await
            }
            None => self.commit_together(table, entries, round, admitted).await,
        };
        for (committed, outcome) in commits {
            if let Err(error) = outcome {
                entries.fail(&committed, &error);
            }
        }
    }

    /// Commits the batches of a round under one set of locks. Returns the outcome of each with its entries.
    async fn commit_together(
        &self,
        table: &Table,
        entries: &Entries,
        round: Vec<TabletBatch>,
        admitted: &Arc<Admitted>,
    ) -> Vec<(Vec<usize>, Result<()>)> {
        let rows = round.iter().flat_map(|part| &part.entries);
        let locks = self.locks.shared(rows.map(|at| entries.rows[*at].row.as_ref())).await;
        let kept = Arc::new((locks, Arc::clone(admitted)));
        join_all(round.into_iter().map(|part| {
            let kept = Arc::clone(&kept);
            async move {
                let TabletBatch { tree, batch, entries, times } = part;
                let evaluated = EvaluatedIn(None);
                (entries, self.core.commit(table, tree, batch, &times, evaluated, kept).await)
            }
        }))
        .await
    }

    /// As [`Self::commit_together`], for replicated tablets: each batch waits for rows of its tablet and keeps
    /// them, whatever becomes of the others.
    async fn commit_apart(
        &self,
        replicated: &Replicated,
        table: &Table,
        entries: &Entries,
        round: Vec<TabletBatch>,
        admitted: &Arc<Admitted>,
    ) -> Vec<(Vec<usize>, Result<()>)> {
        join_all(round.into_iter().map(|part| async move {
            let TabletBatch { tree, batch, entries: inside, times } = part;
            let rows = inside.iter().map(|at| entries.rows[*at].row.as_ref());
            let locks = match replicated.shared(tree, rows).await {
                Ok(locks) => locks,
                Err(error) => return (inside, Err(error)),
            };
            let (kept, evaluated) = ((locks, Arc::clone(admitted)), EvaluatedIn(None));
            let outcome = self.core.commit(table, tree, batch, &times, evaluated, kept).await;
            (inside, outcome)
        }))
        .await
    }
}
