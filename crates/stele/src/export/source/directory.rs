//! Rows from a data directory that no server has open.

use super::gather::{Gatherer, Piece};
use super::{Pieces, Source};
use crate::config::ConfigError;
use crate::export::selection::Range;
use crate::import::direct::Direct;
use crate::import::target::{Failure, Target};
use anyhow::Result;
use async_trait::async_trait;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use interchange::rows::Cell;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use table::{
    Bytes, Error, KeyRange, ReadRows, RowFilter, RowOutput, RowSet, RowStream, Store,
    TableIdentity, TableName, YieldedCell,
};

/// A data directory that this process has opened.
pub(in crate::export) struct Directory {
    target: Direct,
    table: TableName,
    filter: Option<RowFilter>,
}

impl Directory {
    /// Opens `dir`, which must exist. Blocks.
    pub(in crate::export) fn open(
        dir: &Path,
        table: TableName,
        filter: Option<RowFilter>,
    ) -> Result<Self> {
        if !dir.join("CURRENT").exists() {
            let text = format!("{} is no data directory: it has no file CURRENT", dir.display());
            return Err(ConfigError(text).into());
        }
        let target = Direct::open(dir, table.clone())?;
        Ok(Self { target, table, filter })
    }
}

#[async_trait]
impl Source for Directory {
    async fn identity(&self) -> Result<String, Failure> {
        let identity = self.target.store().identity(&self.table).await.map_err(failed)?;
        Ok(TableIdentity::lasting(&identity.to_string()).to_owned())
    }

    async fn schema(&self) -> Result<Option<admin::Table>, Failure> {
        let schema = self.target.store().get_table(&self.table).await.map_err(failed)?;
        Ok(Some(bigtable::schema_message(&schema)))
    }

    async fn read(&self, range: &Range) -> Result<Box<dyn Pieces>, Failure> {
        let key = |key: &Vec<u8>| Bytes::copy_from_slice(key);
        let range = KeyRange {
            start: Bound::Included(key(&range.start)),
            end: range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(key(end))),
        };
        let rows = RowSet { keys: Vec::new(), ranges: vec![range] };
        let read = ReadRows { rows, filter: self.filter.clone(), ..ReadRows::default() };
        let rows = self.target.store().read_rows(&self.table, read, Output::default()).await;
        Ok(Box::new(Rows(rows.map_err(failed)?)))
    }

    async fn close(&self) -> Result<()> {
        self.target.close().await
    }
}

/// Converts the error of a read.
fn failed(error: Error) -> Failure {
    match error {
        Error::ResourceExhausted(_) | Error::Busy(_) => Failure::Later(error.to_string()),
        error => Failure::Fatal(error.to_string()),
    }
}

/// Gathers the cells that a read lends.
#[derive(Default)]
struct Output(Gatherer);

impl RowOutput for Output {
    type Batch = Vec<Piece>;

    fn start(&mut self, key: &[u8]) {
        self.0.start(Bytes::copy_from_slice(key));
    }

    fn cell(&mut self, cell: &YieldedCell<'_>) {
        self.0.cell(Cell {
            family: Arc::clone(cell.family),
            qualifier: Bytes::copy_from_slice(cell.qualifier),
            timestamp_micros: cell.timestamp.0,
            value: Bytes::copy_from_slice(cell.value),
        });
    }

    fn end(&mut self) {
        self.0.end();
    }

    fn forget(&mut self) {
        assert!(self.0.forget(), "a row is forgotten before a batch with its cells is taken");
    }

    fn scanned(&mut self, _: &[u8]) {}

    fn take(&mut self) -> Vec<Piece> {
        self.0.take()
    }
}

/// The rows of one read.
struct Rows(RowStream<Vec<Piece>>);

#[async_trait]
impl Pieces for Rows {
    async fn next(&mut self) -> Result<Option<Vec<Piece>>, Failure> {
        match self.0.next_batch().await {
            None => Ok(None),
            Some(batch) => Ok(Some(batch.map_err(failed)?.rows)),
        }
    }
}
