//! Reads of rows: part by part, each at the node that leads its tablets.
//!
//! 1. The row output is in one place: here, or lent to a read of this node's tables.
//! 2. The counts of a batch are sums: of the parts before, and of the part that is read.

use super::parts::{Part, by_leader, by_tablet};
use super::pieces::{Lent, Within};
use super::search::{Failure, Place, Search};
use super::{Routed, next_answer, unexpected, wait};
use crate::group::NodeId;
use crate::link::{Answers, finish};
use std::collections::VecDeque;
use table::wire::{Answer, Call};
use table::{
    Error, ReadRows, ReadStats, Result, RowBatch, RowOutput, RowSet, RowStream, Store, TableName,
};
use tokio::sync::{mpsc, oneshot};

/// Batches of a read that wait for the front.
const BATCHES_AHEAD: usize = 1;

impl Routed {
    pub(super) async fn read_at_leaders<S: RowOutput>(
        &self,
        table: &TableName,
        request: ReadRows,
        mut output: S,
    ) -> Result<RowStream<S::Batch>> {
        let schema = self.local.get_table(table).await?;
        let Ok(rows) = request.rows.normalize() else {
            // Refused as on a single server, which looks at the filter first.
            return self.local.read_rows(table, request, output).await;
        };
        let tablets = by_tablet(&schema, &rows);
        let parts = by_leader(tablets, request.direction, |tree| self.leaders.known(tree));
        if self.are_all_here(&parts) {
            let (lent, back) = Lent::new(output);
            match self.local.read_rows(table, request.clone(), lent).await {
                Err(Error::NotLeader { .. }) => {}
                outcome => return outcome,
            }
            output = back.await.map_err(|_| lost_output())?;
        }
        let mut reading = Reading {
            routed: self.clone(),
            table: table.clone(),
            request: ReadRows { rows: RowSet::default(), ..request },
            parts,
            search: Search::begin(),
            output: Some(output),
            open: None,
            before: ReadStats::default(),
            now: ReadStats::default(),
        };
        let Some(first) = reading.next().await? else { return Ok(RowStream::ready(None)) };
        let (sender, stream) = RowStream::channel_after(Some(first), BATCHES_AHEAD);
        tokio::spawn(reading.go_on(sender));
        Ok(stream)
    }

    /// Returns whether this node leads all that is read, as far as it knows; also if nothing is.
    fn are_all_here(&self, parts: &VecDeque<Part>) -> bool {
        let mut trees = parts.iter().flat_map(|part| &part.tablets).map(|(tree, _)| *tree);
        trees.all(|tree| self.leaders.known(tree) == Some(self.leaders.me))
    }
}

/// A read that is under way.
struct Reading<S: RowOutput> {
    routed: Routed,
    table: TableName,
    /// The request without its rows.
    request: ReadRows,
    /// Parts that were not begun.
    parts: VecDeque<Part>,
    /// Time for all searches together.
    search: Search,
    /// `None` while it is lent, and after an error.
    output: Option<S>,
    open: Option<Open<S>>,
    /// Counts of the parts that ended.
    before: ReadStats,
    /// Counts of the open part.
    now: ReadStats,
}

/// A part that is read.
enum Open<S: RowOutput> {
    Here { stream: RowStream<S::Batch>, back: oneshot::Receiver<S> },
    There { node: NodeId, next: Option<Answer>, answers: Answers, within: Within },
}

impl<S: RowOutput> Reading<S> {
    /// Sends batch after batch until the read ends, or its reader wants no more.
    async fn go_on(mut self, sender: mpsc::Sender<Result<RowBatch<S::Batch>>>) {
        loop {
            let Ok(place) = sender.reserve().await else { return };
            let next = tokio::select! {
                biased;
                () = sender.closed() => return,
                next = self.next() => next,
            };
            match next {
                Ok(Some(batch)) => place.send(Ok(batch)),
                Ok(None) => return,
                Err(error) => return place.send(Err(error)),
            }
        }
    }

    /// Returns the next batch; `None` at the end. Nothing may be asked after an error.
    async fn next(&mut self) -> Result<Option<RowBatch<S::Batch>>> {
        loop {
            if self.open.is_none() {
                let is_full = self.request.rows_limit > 0
                    && self.before.rows_returned >= self.request.rows_limit;
                match self.parts.pop_front().filter(|_| !is_full) {
                    Some(part) => self.begin(part).await?,
                    None => return Ok(None),
                }
            }
            match self.next_of_part().await? {
                Some(batch) => {
                    self.now = batch.stats;
                    let stats = sum(&self.before, &self.now);
                    return Ok(Some(RowBatch { rows: batch.rows, stats }));
                }
                None => self.end_part().await?,
            }
        }
    }

    /// Opens a part, where its tablets are led. A part whose tablets have different leaders falls apart.
    async fn begin(&mut self, mut part: Part) -> Result<()> {
        let mut search = self.search.again();
        loop {
            let place = self.routed.leaders.next(part.tablets[0].0, &mut search);
            let (leader, error) = match self.begin_at(place, &part).await {
                Ok(open) => {
                    for (tree, _) in &part.tablets {
                        self.routed.leaders.found(*tree, place);
                    }
                    self.open = Some(open);
                    return Ok(());
                }
                Err(Failure::Refused { leader, error }) => (leader, error),
                // Nothing was yielded, so that the doubt does no harm.
                Err(Failure::Failed(error @ Error::Unavailable(_))) => (None, error),
                Err(Failure::Failed(error)) => return Err(error),
            };
            if part.tablets.len() > 1 {
                let mut each = by_leader(part.tablets, self.request.direction, |_| None);
                part =
                    Part { tablets: each.pop_front().map_or_else(Vec::new, |first| first.tablets) };
                each.into_iter().rev().for_each(|part| self.parts.push_front(part));
                search = self.search.again();
                continue;
            }
            match search.refused(leader) {
                Some(pause) => wait(pause).await,
                None => return Err(error),
            }
        }
    }

    async fn begin_at(&mut self, place: Place, part: &Part) -> Result<Open<S>, Failure> {
        let left = match self.request.rows_limit {
            0 => 0,
            limit => limit - self.before.rows_returned,
        };
        let request = ReadRows { rows: part.rows(), rows_limit: left, ..self.request.clone() };
        let Place::Node(node) = place else {
            let output = self.output.take().ok_or_else(lost_output)?;
            let (lent, back) = Lent::new(output);
            return match self.routed.local.read_rows(&self.table, request, lent).await {
                Ok(stream) => Ok(Open::Here { stream, back }),
                Err(error) => {
                    self.output = back.await.ok();
                    Err(error.into())
                }
            };
        };
        let call = Call::ReadRows(self.table.clone(), request);
        let (first, answers) = self.routed.begin(node, &call).await?;
        Ok(Open::There { node, next: Some(first), answers, within: Within::default() })
    }

    /// Returns the next batch of the open part; `None` at its end.
    async fn next_of_part(&mut self) -> Result<Option<RowBatch<S::Batch>>> {
        match &mut self.open {
            None => Ok(None),
            Some(Open::Here { stream, .. }) => stream.next_batch().await.transpose(),
            Some(Open::There { node, next, answers, within }) => {
                let answer = match next.take() {
                    Some(answer) => answer,
                    None => next_answer(*node, answers).await.map_err(told)?,
                };
                let output = self.output.as_mut().ok_or_else(lost_output)?;
                match answer {
                    Answer::Rows(batch) => {
                        if !batch.rows.iter().all(|piece| within.give(piece, output)) {
                            return Err(out_of_order(*node));
                        }
                        Ok(Some(RowBatch { rows: output.take(), stats: batch.stats }))
                    }
                    Answer::Done if *within == Within::Nothing => Ok(None),
                    Answer::Done => Err(out_of_order(*node)),
                    Answer::Failed(error) => Err(error),
                    _ => Err(told(unexpected(*node))),
                }
            }
        }
    }

    async fn end_part(&mut self) -> Result<()> {
        self.before = sum(&self.before, &std::mem::take(&mut self.now));
        match self.open.take() {
            Some(Open::Here { back, stream }) => {
                drop(stream);
                self.output = Some(back.await.map_err(|_| lost_output())?);
            }
            Some(Open::There { answers, .. }) => finish(answers).await,
            None => {}
        }
        Ok(())
    }
}

/// Returns the error of a read that came to its part.
fn told(failure: Failure) -> Error {
    match failure {
        Failure::Refused { error, .. } | Failure::Failed(error) => error,
    }
}

fn sum(before: &ReadStats, part: &ReadStats) -> ReadStats {
    ReadStats {
        rows_seen: before.rows_seen.saturating_add(part.rows_seen),
        rows_returned: before.rows_returned.saturating_add(part.rows_returned),
        cells_seen: before.cells_seen.saturating_add(part.cells_seen),
        cells_returned: before.cells_returned.saturating_add(part.cells_returned),
        bytes_returned: before.bytes_returned.saturating_add(part.bytes_returned),
    }
}

fn out_of_order(node: NodeId) -> Error {
    Error::Internal(format!("node {} sent pieces of rows out of order", node.0))
}

fn lost_output() -> Error {
    Error::Internal("the output of a read was lost".to_owned())
}
