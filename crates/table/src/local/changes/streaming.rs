//! One change stream: reads, waits, heartbeats, and its end.

use super::super::tables::parts;
use super::super::{Core, Pool, Table};
use super::row_changes::row_changes;
use crate::change_token::{ChangeToken, TokenPart};
use crate::changes::{ChangeRecord, ReadChanges};
use crate::error::{Error, Result};
use crate::schema::TableName;
use engine::{ChangePosition, ChangeReader, ReadUpTo, SequenceNumber, TreeId};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of batches that one read takes.
const READ_BYTES: usize = 1 << 20;

/// A stream between two polls of it.
pub(super) struct Streaming {
    core: Arc<Core>,
    pool: Pool,
    name: TableName,
    /// From where to go on.
    token: ChangeToken,
    /// `None` while it is lent to a blocking call, or after an error.
    reader: Option<ChangeReader>,
    until_micros: Option<u64>,
    heartbeat: Duration,
    next_heartbeat: Instant,
    is_over: bool,
}

/// Outcome of one blocking read.
struct Read {
    reader: ChangeReader,
    token: ChangeToken,
    records: Vec<ChangeRecord>,
    caught_up: bool,
    /// True if all up to `until_micros` was told.
    is_over: bool,
}

impl Streaming {
    pub(super) fn new(
        core: Arc<Core>,
        pool: Pool,
        table: Arc<Table>,
        token: ChangeToken,
        request: &ReadChanges,
    ) -> Result<Self> {
        let trees = parts(&table.schema, std::slice::from_ref(&request.rows));
        let trees: Vec<TreeId> = trees.into_iter().map(|(tree, _)| tree).collect();
        let reader = core.engine.change_reader(&trees, earliest(&token.parts))?;
        Ok(Self {
            core,
            pool,
            name: table.schema.name.clone(),
            token,
            reader: Some(reader),
            until_micros: request.until_micros.map(|micros| u64::try_from(micros).unwrap_or(0)),
            heartbeat: request.heartbeat,
            next_heartbeat: Instant::now() + request.heartbeat,
            is_over: false,
        })
    }

    /// Returns the next items; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<ChangeRecord>>> {
        while !self.is_over {
            if *self.core.streams_end.borrow() {
                self.is_over = true;
                let text = "the server shuts down; go on from the last token";
                return Some(Err(Error::Unavailable(text.to_owned())));
            }
            let beats = Instant::now() >= self.next_heartbeat;
            let seen = self.core.engine.committed();
            let read = match self.read(beats).await {
                Ok(read) => read,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(self.explained(error)));
                }
            };
            let Read { reader, token, mut records, caught_up, is_over } = read;
            let position = reader.position();
            (self.reader, self.token, self.is_over) = (Some(reader), token, is_over);
            if beats {
                self.next_heartbeat = Instant::now() + self.heartbeat;
                records.push(ChangeRecord::Heartbeat {
                    token: self.token.encode(),
                    low_watermark_micros: i64::try_from(position.micros).unwrap_or(i64::MAX),
                });
            }
            if !records.is_empty() {
                return Some(Ok(records));
            }
            if caught_up && !is_over {
                self.wait(seen).await;
            }
        }
        None
    }

    /// Waits for a commit, a heartbeat, or the end of the stream.
    async fn wait(&self, seen: SequenceNumber) {
        let mut until = self.next_heartbeat;
        if let Some(left) = self.left() {
            // The end itself is to be past.
            until = until.min(Instant::now() + left + Duration::from_micros(1));
        }
        let mut end = self.core.streams_end.subscribe();
        tokio::select! {
            () = async { drop(end.wait_for(|ended| *ended).await) } => {}
            () = self.core.engine.committed_after(seen) => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }

    /// Returns how long it takes until the last commit that is told.
    fn left(&self) -> Option<Duration> {
        let now = u64::try_from(self.core.clock.now_micros()).unwrap_or(0);
        Some(Duration::from_micros(self.until_micros?.saturating_sub(now)))
    }

    /// Reads on, on a blocking thread.
    async fn read(&mut self, beats: bool) -> Result<Read> {
        let mut reader = self.reader.take().ok_or(engine::Error::Closed)?;
        let settles = beats || self.left().is_some_and(|left| left.is_zero());
        let up_to = if settles { ReadUpTo::Settled } else { ReadUpTo::Committed };
        let (core, name) = (Arc::clone(&self.core), self.name.clone());
        let (mut token, until) = (self.token.clone(), self.until_micros.unwrap_or(u64::MAX));
        let read = move || -> Result<Read> {
            let changes = reader.read(READ_BYTES, up_to)?;
            let table = core.table(&name)?;
            let mut records = Vec::new();
            for batch in &changes.batches {
                if batch.commit_micros() > until {
                    let caught_up = changes.caught_up;
                    return Ok(Read { reader, token, records, caught_up, is_over: true });
                }
                let rows = row_changes(&table, batch, &mut token);
                records.extend(rows.into_iter().map(ChangeRecord::Row));
            }
            let position = reader.position();
            token.advance(position);
            let caught_up = changes.caught_up;
            let is_over = caught_up && settles && position.micros >= until;
            Ok(Read { reader, token, records, caught_up, is_over })
        };
        self.pool.run(read).await
    }

    /// Returns the error of a stream whose changes are gone, as what happened to its table.
    fn explained(&self, error: Error) -> Error {
        let Error::OutOfRange(text) = error else { return error };
        let Ok(table) = self.core.table(&self.name) else { return Error::no_table(&self.name) };
        let log = self.core.change_log(&table);
        match log {
            None => {
                let text = format!("the change stream of table {} was switched off", self.name);
                Error::FailedPrecondition(text)
            }
            Some((tree, _)) if tree != self.token.tree => Error::no_table(&self.name),
            Some(_) => Error::OutOfRange(text),
        }
    }
}

/// Returns the position from which a reader tells all that some part wants.
fn earliest(parts: &[TokenPart]) -> ChangePosition {
    let positions = || parts.iter().map(|part| part.position);
    if positions().any(|position| position.sequence == SequenceNumber(0)) {
        return ChangePosition::at(positions().map(|position| position.micros).min().unwrap_or(0));
    }
    let earliest = positions().min_by_key(|position| position.sequence.0);
    earliest.unwrap_or(ChangePosition::at(0))
}
