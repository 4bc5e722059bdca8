//! COPY from a client into a columnar table.
//!
//! ```text
//! messages ─▶ splitter ─▶ blocks ─▶ worker ─▶ columns ─▶ pages in files ─┐
//!                            └───▶ worker ─▶ columns ─▶ pages in files ─┴▶ segments of the table
//! ```
//!
//! The session cuts messages into blocks of whole records, and workers do everything else on other threads. Memory is
//! bounded by a block and the rows of a segment for each worker.
//!
//! 1. Fewer than [`DELTA_ROWS`] rows are inserted as rows of the table's tree, unless they are long.
//! 2. If something is computed from each row (a CHECK, a generated column, a sequence or another volatile default),
//!    rows are made one by one by the way of tables of rows, and [`RowLoad`] makes segments of them.
//! 3. Rows of one COPY have no order among each other: several workers take them.
//! 4. After an error, or if the client is gone, the files of all workers are removed: no catalog names them.

mod columns;
mod errors;
mod forms;
mod loader;
mod plan;
mod row_load;
mod segments;
#[cfg(test)]
mod tests;
mod worker;

pub(super) use row_load::RowLoad;

use super::options::{Format, Options};
use crate::statement::Run;
use crate::statement::change::Writer;
use crate::threads::aside;
use ::copy::{Block, Splitter};
use columns::rows_of;
use loader::Loader;
use plan::{Plan, Reader};
use relational::{OnConflict, Result, Value};
use std::sync::Arc;
use worker::Work;

/// Rows from which on a COPY makes segments.
pub(super) const DELTA_ROWS: usize = 8_192;
/// Bytes of rows from which on fewer of them make segments, too.
pub(super) const DELTA_BYTES: usize = 16 << 20;
/// Bytes of records at which a segment is cut before it has all rows that it may have.
const SEGMENT_BYTES: usize = 64 << 20;
/// Bytes of the blocks that workers are given: long enough that giving them costs next to nothing.
const BLOCK_BYTES: usize = 512 << 10;
/// Rows that are inserted at once.
const BATCH_ROWS: usize = 1_000;

/// A COPY whose records become columns.
pub(crate) struct Bulk {
    plan: Arc<Plan>,
    splitter: Splitter,
    is_binary: bool,
    /// The first rows, until a load begins.
    reader: Option<Box<Reader>>,
    loader: Option<Loader>,
}

impl Bulk {
    /// Returns a COPY for which all rows have the `repeated` values in the columns that the client does not give.
    pub(super) fn new(
        run: &Run<'_>,
        options: &Options,
        writer: &Writer,
        repeated: Vec<(usize, Value)>,
    ) -> Result<Self> {
        let plan = Arc::new(Plan::new(options, writer, repeated, run.eval.settings()));
        let (splitter, reader) = (plan.splitter()?, Reader::new(&plan)?);
        let is_binary = options.format == Format::Binary;
        Ok(Self { plan, splitter, is_binary, reader: Some(Box::new(reader)), loader: None })
    }

    /// Returns the format code of the data.
    pub(super) fn format_code(&self) -> i16 {
        i16::from(self.is_binary)
    }

    /// Returns the number of columns.
    pub(super) fn columns(&self) -> usize {
        self.plan.fields.len()
    }

    /// Takes a piece of data, and gives the records that are whole to workers.
    pub(super) async fn push(&mut self, run: &mut Run<'_>, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let block = self.splitter.push(&mut data);
            self.take(run, block).await?;
        }
        Ok(())
    }

    /// Takes the end of the data. Returns the tag.
    pub(super) async fn finish(&mut self, run: &mut Run<'_>) -> Result<String> {
        loop {
            let block = self.splitter.finish();
            if !self.take(run, block).await? {
                break;
            }
        }
        let count = match (self.loader.take(), self.reader.take()) {
            (Some(loader), _) => loader.finish(run).await?,
            (None, Some(mut reader)) => self.insert(run, &mut reader).await?,
            (None, None) => 0,
        };
        Ok(format!("COPY {count}"))
    }

    /// Takes what the splitter gave. Returns true if it was a block.
    async fn take(
        &mut self,
        run: &mut Run<'_>,
        block: ::copy::Result<Option<Block>>,
    ) -> Result<bool> {
        let mut block = match block {
            Ok(Some(block)) => block,
            Ok(None) => return Ok(false),
            Err(problem) => {
                let failure = self.plan.failure(&problem);
                return Err(match &mut self.loader {
                    Some(loader) => loader.fail(failure).await,
                    None => failure.error,
                });
            }
        };
        if self.loader.is_none() {
            self.hold(run, &mut block).await?;
        }
        if let Some(loader) = &mut self.loader
            && !block.is_empty()
        {
            loader.give(Work::Block(block)).await?;
        }
        Ok(true)
    }

    /// Reads records of a block. Begins the load if there are too many to be inserted.
    async fn hold(&mut self, run: &mut Run<'_>, block: &mut Block) -> Result<()> {
        run.flag.check()?;
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let read = aside(|| reader.read(block, DELTA_ROWS));
        read.map_err(|failure| failure.error)?;
        if block.is_empty() && reader.rows() < DELTA_ROWS && reader.bytes() < DELTA_BYTES {
            return Ok(());
        }
        let plan = Some(Arc::clone(&self.plan));
        let mut loader = Loader::begin(run, &self.plan.table, plan).await?;
        if let Some(reader) = self.reader.take() {
            loader.hand_over(reader);
        }
        self.loader = Some(loader);
        Ok(())
    }

    /// Inserts the rows of a reader. Returns their number.
    async fn insert(&mut self, run: &mut Run<'_>, reader: &mut Reader) -> Result<usize> {
        let table = Arc::clone(&self.plan.table);
        let mut rows = rows_of(&reader.take()?, &table.columns)?;
        let count = rows.len();
        // Without a row the transaction still tells whether it may write.
        loop {
            run.flag.check()?;
            let rest = rows.split_off(rows.len().min(BATCH_ROWS));
            let batch = std::mem::replace(&mut rows, rest);
            run.transaction.insert(table.oid, batch, OnConflict::Fail).await?;
            if rows.is_empty() {
                return Ok(count);
            }
        }
    }
}
