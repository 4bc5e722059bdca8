//! Cursors: DECLARE, FETCH and MOVE.

use super::command::{done, not_a_command};
use super::portal::{Portal, Progress};
use super::{Session, Stop};
use crate::statement::{Kept, Output, Parsed, Prepared, Rows, name_of};
use datafusion::sql::sqlparser::ast::{Declare, FetchDirection, Statement, ValueWithSpan};
use relational::{CancelFlag, Error, Result, SqlState, Value};
use std::sync::Arc;

/// Most bytes of rows that a cursor WITH HOLD keeps.
const HELD_BYTES_MAX: usize = 64 << 20;

impl Session {
    pub(super) async fn declare(
        &mut self,
        prepared: &Prepared,
        cursors: Vec<Declare>,
        params: &Arc<[Value]>,
        flag: &CancelFlag,
    ) -> Result<Output, Stop> {
        for cursor in cursors {
            let (Some(name), Some(query)) = (cursor.names.first(), cursor.for_query) else {
                return Err(not_a_command());
            };
            let is_held = cursor.hold == Some(true);
            if !is_held && !self.block.is_open() {
                let message = "DECLARE CURSOR can only be used in transaction blocks";
                return Err(Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message).into());
            }
            let parsed = Parsed::Tree(Box::new(Statement::Query(query)));
            let types = prepared.given_params().to_vec();
            let inner = Arc::new(self.prepare(prepared.text(), parsed, types)?);
            // Clients that fetch from it are told of its columns.
            inner.tell();
            // Its rows are the ones of now, whenever they are fetched.
            let (rows, rows_bytes) = match is_held {
                true => self.hold(&inner, params, flag).await?,
                false => (self.rows_of(&inner, params, flag).await?, 0),
            };
            let portal = Portal {
                prepared: inner,
                params: Arc::clone(params),
                formats: vec![i16::from(cursor.binary == Some(true))],
                progress: Progress::running(rows, flag),
                rows_bytes,
                is_held,
                is_new: true,
                savepoints: self.block.savepoint_count(),
            };
            self.portals.open(&name_of(name), portal)?;
        }
        done("DECLARE CURSOR")
    }

    /// Returns all rows of a query, which outlive its transaction, and their bytes.
    async fn hold(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &Arc<[Value]>,
        flag: &CancelFlag,
    ) -> Result<(Rows, usize), Stop> {
        let mut rows = self.rows_of(prepared, params, flag).await?;
        let mut all = Kept::new(HELD_BYTES_MAX, "a cursor WITH HOLD");
        loop {
            let batch = rows.next(1_000).await?;
            if batch.is_empty() {
                let bytes = all.bytes();
                return Ok((Rows::ready(rows.columns(), all.rows(), "FETCH"), bytes));
            }
            for row in batch {
                all.push(row)?;
            }
        }
    }

    /// Starts a query of a cursor, and returns its rows to come.
    async fn rows_of(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &Arc<[Value]>,
        flag: &CancelFlag,
    ) -> Result<Rows, Stop> {
        match Box::pin(self.start(prepared, params, flag)).await? {
            Output::Rows(rows) => Ok(*rows),
            _ => Err(not_a_command()),
        }
    }

    pub(super) async fn fetch(
        &mut self,
        name: &str,
        direction: &FetchDirection,
        is_move: bool,
        flag: &CancelFlag,
    ) -> Result<Output, Stop> {
        let wanted = forward_count(direction)?;
        self.portals.check(name)?;
        let mut portal = self.portals.take(name)?;
        if let Progress::Bound = portal.progress {
            let (prepared, params) = (Arc::clone(&portal.prepared), Arc::clone(&portal.params));
            match self.rows_of(&prepared, &params, flag).await {
                Ok(rows) => portal.progress = Progress::running(rows, flag),
                Err(stopped) => {
                    portal.progress = Progress::Failed;
                    self.portals.put_back(name, portal);
                    return Err(stopped);
                }
            }
        }
        let rows = match &portal.progress {
            Progress::Running(rows, _) => {
                let rows = Arc::clone(rows);
                let columns = rows.lock().await.columns();
                Rows::shared(columns, rows, wanted.unwrap_or(usize::MAX))
            }
            _ => {
                let columns = portal.prepared.columns().unwrap_or_else(|| Arc::from([]));
                Rows::ready(columns, Vec::new(), "FETCH")
            }
        };
        self.portals.put_back(name, portal);
        if is_move {
            return self.pass_over(rows).await;
        }
        Ok(Output::Rows(Box::new(rows)))
    }

    /// Passes over rows, and returns their number in the tag of MOVE.
    async fn pass_over(&self, mut rows: Rows) -> Result<Output, Stop> {
        let mut count = 0;
        loop {
            let batch = rows.next(1_000).await?.len();
            if batch == 0 {
                return done(&format!("MOVE {count}"));
            }
            count += batch;
        }
    }
}

/// Returns the number of rows that a direction asks for; nothing for all of them.
fn forward_count(direction: &FetchDirection) -> Result<Option<usize>> {
    let number = |limit: &ValueWithSpan| {
        let count = limit.value.to_string().parse::<i64>().ok();
        count.and_then(|count| usize::try_from(count).ok()).ok_or_else(backward)
    };
    match direction {
        FetchDirection::Next => Ok(Some(1)),
        FetchDirection::Count { limit } => number(limit).map(Some),
        FetchDirection::Forward { limit } => {
            limit.as_ref().map_or(Ok(Some(1)), |l| number(l).map(Some))
        }
        FetchDirection::All | FetchDirection::ForwardAll => Ok(None),
        FetchDirection::Relative { limit } if limit.value.to_string() == "1" => Ok(Some(1)),
        _ => Err(backward()),
    }
}

fn backward() -> Error {
    let error =
        Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward");
    error.with_hint("Cursors of this server go forward only.")
}
