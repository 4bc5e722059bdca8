//! A load of rows that were made one by one, since something is computed from each of them.
//!
//! It is much slower than [`Bulk`](super::Bulk): each row is made by the session, and only encoded by workers.

use super::columns::of_rows;
use super::loader::Loader;
use super::worker::Work;
use crate::statement::Run;
use crate::threads::aside;
use relational::catalog::Table;
use relational::{Result, Row};
use std::sync::Arc;

/// Loads rows into segments, once there are enough of them.
pub(in crate::statement::copy) struct RowLoad {
    table: Arc<Table>,
    /// Present from the first rows on.
    loader: Option<Loader>,
}

impl RowLoad {
    /// Returns a load of a columnar table that has not begun.
    pub(in crate::statement::copy) fn new(table: &Arc<Table>) -> Self {
        Self { table: Arc::clone(table), loader: None }
    }

    /// Returns true if rows were loaded.
    pub(in crate::statement::copy) fn has_begun(&self) -> bool {
        self.loader.is_some()
    }

    /// Loads whole rows, at most as many as a segment has.
    pub(in crate::statement::copy) async fn push(
        &mut self,
        run: &mut Run<'_>,
        rows: Vec<Row>,
    ) -> Result<()> {
        let columns = aside(|| of_rows(&rows, &self.table.columns))?;
        drop(rows);
        if self.loader.is_none() {
            self.loader = Some(Loader::begin(run, &self.table, None).await?);
        }
        match &mut self.loader {
            Some(loader) => loader.give(Work::Rows(columns)).await,
            None => Ok(()),
        }
    }

    /// Makes all rows part of the table.
    pub(in crate::statement::copy) async fn finish(&mut self, run: &mut Run<'_>) -> Result<()> {
        if let Some(loader) = self.loader.take() {
            loader.finish(run).await?;
        }
        Ok(())
    }
}
