//! A COPY from a client: into the tree of its table, or into segments.

use super::bulk::{Bulk, RowLoad};
use super::options::Options;
use super::rows::RowsIn;
use crate::statement::Run;
use crate::statement::change::Writer;
use relational::Result;
use std::sync::Arc;

/// A COPY from a client.
pub(crate) enum CopyIn {
    /// Record after record becomes a row.
    Rows(Box<RowsIn>),
    /// Many records at once become columns.
    Bulk(Box<Bulk>),
}

impl CopyIn {
    /// Returns the COPY in the way that its table allows: `bulk/mod.rs` has the ways of columnar tables.
    pub(super) fn new(run: &Run<'_>, options: Options, writer: Arc<Writer>) -> Result<Self> {
        let table = &writer.target.table;
        if !table.is_columnar() || table.columns.is_empty() {
            return Ok(Self::Rows(Box::new(RowsIn::new(options, writer, None))));
        }
        if let Some(repeated) = writer.repeated(&run.eval) {
            return Ok(Self::Bulk(Box::new(Bulk::new(run, &options, &writer, repeated)?)));
        }
        let load = RowLoad::new(table);
        Ok(Self::Rows(Box::new(RowsIn::new(options, writer, Some(load)))))
    }

    /// Returns the format code of the data.
    pub(crate) fn format_code(&self) -> i16 {
        match self {
            Self::Rows(rows) => rows.format_code(),
            Self::Bulk(bulk) => bulk.format_code(),
        }
    }

    /// Returns the number of columns.
    pub(crate) fn columns(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.columns(),
            Self::Bulk(bulk) => bulk.columns(),
        }
    }

    /// Takes a piece of data, and writes rows that are whole.
    pub(crate) async fn push(&mut self, run: &mut Run<'_>, data: &[u8]) -> Result<()> {
        match self {
            Self::Rows(rows) => rows.push(run, data).await,
            Self::Bulk(bulk) => bulk.push(run, data).await,
        }
    }

    /// Takes the end of the data. Returns the tag.
    pub(crate) async fn finish(&mut self, run: &mut Run<'_>) -> Result<String> {
        match self {
            Self::Rows(rows) => rows.finish(run).await,
            Self::Bulk(bulk) => bulk.finish(run).await,
        }
    }
}
