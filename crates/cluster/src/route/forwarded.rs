//! Calls that other nodes forward: carried out by the tables of this node, or refused.
//!
//! 1. What cannot be read gets an answer that says so, and harms nothing else.
//! 2. The bytes of requests under way are bounded. One that finds no room is refused before it is decoded.
//! 3. A read makes a step when its last batch was taken, as the connection has room.

use crate::link::Answers;
use bytes::Bytes;
use futures::{StreamExt, stream};
use std::collections::BTreeSet;
use std::sync::Arc;
use table::wire::{Answer, Call, EncodedPieces};
use table::{Error, Local, ReadRows, Result, RowStream, Store, TableName};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a request that count as one.
const UNIT: usize = 1 << 10;

/// Carries out calls of other nodes.
#[derive(Clone)]
pub struct Forwarded {
    local: Local,
    /// Room for requests, in units.
    room: Arc<Semaphore>,
}

impl Forwarded {
    /// Carries calls out on `local`, with at most `bytes_max` bytes of requests at the same time. One
    /// that is larger than that is refused.
    pub fn new(local: Local, bytes_max: usize) -> Self {
        let units = (bytes_max / UNIT).min(Semaphore::MAX_PERMITS);
        Self { local, room: Arc::new(Semaphore::new(units)) }
    }

    /// Carries a call out, and returns its answers.
    pub async fn answer(&self, request: Bytes) -> Answers {
        let units = u32::try_from(request.len() / UNIT + 1).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(units) else {
            let text = "too many calls of other nodes are under way; try again later";
            return one(&Answer::Failed(Error::Busy(text.to_owned())));
        };
        match Call::decode(&request) {
            Ok(Call::ReadRows(table, request)) => self.read(&table, request, room).await,
            Ok(call) => one(&self.carry_out(call).await.unwrap_or_else(Answer::Failed)),
            Err(error) => one(&Answer::Failed(Error::Internal(error.to_string()))),
        }
    }

    async fn read(
        &self,
        table: &TableName,
        request: ReadRows,
        room: OwnedSemaphorePermit,
    ) -> Answers {
        match self.local.read_rows(table, request, EncodedPieces::default()).await {
            Ok(rows) => frames(rows, room),
            Err(error) => one(&Answer::Failed(error)),
        }
    }

    /// Carries out a call that has one answer.
    async fn carry_out(&self, call: Call) -> Result<Answer> {
        let local = &self.local;
        match call {
            Call::MutateRows(table, rows) if rows.iter().all(|row| row.once.is_none()) => {
                let rows = rows.into_iter().map(|row| row.change).collect();
                local.mutate_rows(&table, rows).await.map(Answer::Results)
            }
            Call::MutateRows(table, rows) => {
                local.mutate_rows_once(&table, rows).await.map(Answer::Results)
            }
            Call::CheckAndMutate(table, request) => {
                local.check_and_mutate_row(&table, request).await.map(Answer::Checked)
            }
            Call::ReadModifyWrite { table, row, rules } => {
                local.read_modify_write_row(&table, row, rules).await.map(Answer::Row)
            }
            Call::DropRows { table, rows, trees } => {
                let trees = BTreeSet::from_iter(trees);
                local.drop_rows_of(&table, &rows, &trees).await.map(|()| Answer::Done)
            }
            Call::SampleTablets { table, trees } => {
                let trees = BTreeSet::from_iter(trees);
                local.sample_tablets(&table, trees).await.map(Answer::Samples)
            }
            // It has a way of its own.
            Call::ReadRows(..) => Err(Error::Internal("a read has many answers".to_owned())),
        }
    }
}

fn one(answer: &Answer) -> Answers {
    stream::iter([Ok(Bytes::from(answer.encode()))]).boxed()
}

/// Returns the frames of a read. An error is the last of them.
fn frames(rows: RowStream<Vec<u8>>, room: OwnedSemaphorePermit) -> Answers {
    let frames = stream::unfold(Some((rows, room)), |state| async {
        let (mut rows, room) = state?;
        let (frame, left) = match rows.next_batch().await {
            Some(Ok(batch)) => (Answer::encode_rows(&batch), Some((rows, room))),
            Some(Err(error)) => (Answer::Failed(error).encode(), None),
            None => (Answer::Done.encode(), None),
        };
        Some((Ok(Bytes::from(frame)), left))
    });
    frames.boxed()
}
