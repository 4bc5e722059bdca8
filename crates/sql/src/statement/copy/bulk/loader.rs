//! Gives the data of a load to workers on several threads, and makes their segments part of the table.
//!
//! 1. A worker is with this loader or with one blocking call. So a client that is slow keeps no thread, and at
//!    most [`WORKERS_MAX`] pieces of data are in work.
//! 2. Pieces are given in the order of the data, so the first error of the data is among the errors of the pieces
//!    in work, and is the one that is told.
//! 3. Dropped, it stops when the calls in work end. Every worker removes the files that it wrote.

use super::errors::Failure;
use super::plan::{Plan, Reader};
use super::segments::{Segments, Target};
use super::worker::{Work, Worker};
use crate::statement::Run;
use crate::statement::names::schema_name;
use futures::future::select_all;
use relational::catalog::Table;
use relational::{Error, Result};
use std::sync::Arc;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

/// Most workers of one load.
const WORKERS_MAX: usize = 2;

/// A load that has begun.
pub(super) struct Loader {
    target: Target,
    /// The plan of records; nothing if rows come as columns.
    plan: Option<Arc<Plan>>,
    idle: Vec<Worker>,
    busy: Vec<JoinHandle<Result<Worker, Failure>>>,
}

impl Loader {
    /// Begins a load of a table, with the lock of its writers.
    pub(super) async fn begin(
        run: &mut Run<'_>,
        table: &Arc<Table>,
        plan: Option<Arc<Plan>>,
    ) -> Result<Self> {
        let load = run.transaction.begin_load(table.oid).await?;
        let schema = schema_name(&run.transaction.catalog(), table);
        let (table, flag) = (Arc::clone(table), run.flag.clone());
        let target = Target { table, schema: schema.into(), load, flag };
        Ok(Self { target, plan, idle: Vec::new(), busy: Vec::new() })
    }

    /// Makes a reader the first worker, with the rows that it has.
    pub(super) fn hand_over(&mut self, reader: Box<Reader>) {
        self.idle.push(Worker::of_records(reader, Segments::new(&self.target)));
    }

    /// Gives a piece of data to a worker, once one is free.
    pub(super) async fn give(&mut self, work: Work) -> Result<()> {
        self.target.flag.check()?;
        let is_one_done = self.busy.iter().any(JoinHandle::is_finished);
        if is_one_done || self.busy.len() >= WORKERS_MAX {
            self.wait().await?;
        }
        let worker = match self.idle.pop() {
            Some(worker) => worker,
            None => self.worker()?,
        };
        self.busy.push(spawn_blocking(move || worker.take(work)));
        Ok(())
    }

    fn worker(&self) -> Result<Worker> {
        let segments = Segments::new(&self.target);
        Ok(match &self.plan {
            Some(plan) => Worker::of_records(Box::new(Reader::new(plan)?), segments),
            None => Worker::of_rows(segments),
        })
    }

    /// Waits until one of the busy workers is idle.
    async fn wait(&mut self) -> Result<()> {
        let (done, _, rest) = select_all(std::mem::take(&mut self.busy)).await;
        self.busy = rest;
        match done.unwrap_or_else(lost) {
            Ok(worker) => {
                self.idle.push(worker);
                Ok(())
            }
            Err(failure) => Err(self.fail(failure).await),
        }
    }

    /// Ends after an error. Returns it, or one that the data has before it.
    pub(super) async fn fail(&mut self, mut first: Failure) -> Error {
        self.idle.clear();
        for call in std::mem::take(&mut self.busy) {
            if let Err(failure) = call.await.unwrap_or_else(lost)
                && failure.is_before(&first)
            {
                first = failure;
            }
        }
        first.error
    }

    /// Makes all segments part of the table. Returns the number of their rows.
    pub(super) async fn finish(mut self, run: &mut Run<'_>) -> Result<usize> {
        while !self.busy.is_empty() {
            self.wait().await?;
        }
        let idle = std::mem::take(&mut self.idle);
        let calls: Vec<_> =
            idle.into_iter().map(|worker| spawn_blocking(move || worker.finish())).collect();
        let (mut segments, mut rows) = (Vec::new(), 0);
        for call in calls {
            let written = call.await.unwrap_or_else(lost).map_err(|failure| failure.error)?;
            segments.extend(written.segments);
            rows += written.rows;
        }
        run.flag.check()?;
        run.transaction.add_segments(&self.target.load, segments).await?;
        Ok(rows)
    }
}

/// Returns the failure of a call that gave no result.
fn lost<T>(problem: JoinError) -> Result<T, Failure> {
    Err(Error::internal(format!("a worker of a COPY ended: {problem}")).into())
}
