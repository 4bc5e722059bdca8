//! Bigtable tables in SQL, read only.
//!
//! ```text
//! declare.rs   CREATE FOREIGN TABLE ─▶ a record of the catalog
//! table.rs     what DataFusion plans with ─▶ conditions.rs   filters ─▶ bounds of keys, columns, times
//! scan.rs      one read of the store      ─▶ request.rs      bounds and columns ─▶ ReadRows
//!                                         ─▶ rows.rs         cells ─▶ rows, cells.rs one value
//! ```
//!
//! Invariants:
//! 1. The rows of a relation do not depend on the columns that a query names. So a declared table has a row
//!    for each Bigtable row with all of its NOT NULL columns, or with any declared column if it has no such
//!    column.
//! 2. A read of the store sees one moment, which is not that of the SQL snapshot: Bigtable rows are read as
//!    they are when the scan begins, in every isolation level.
//! 3. A scan holds no thread while it waits, and at most some batches of [`BATCH_BYTES_MAX`].
//! 4. A value that is not of its column's type is an error that names row and column, never NULL.

mod cells;
mod conditions;
mod declare;
mod request;
mod rows;
mod scan;
mod table;

pub(crate) use declare::{Foreign, create, drop, parse_foreign};
pub(crate) use scan::is_read_by;
pub(crate) use table::WideRelation;

use ::table::{ReadRows, Result, RowStream, Store, TableName, TableSchema};
use async_trait::async_trait;
use rows::WideRows;
use std::sync::Arc;

/// Bytes after which rows are handed over, roughly.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Microseconds from 1970, where Bigtable's times begin, to 2000, where times of SQL begin here.
const MICROS_TO_2000: i64 = 946_684_800_000_000;

/// The Bigtable tables that queries read.
#[async_trait]
pub trait BigtableReads: Send + Sync {
    /// Returns the schema of a table. `NotFound` if it does not exist.
    async fn schema(&self, table: &TableName) -> Result<Arc<TableSchema>>;

    /// Begins a read of rows.
    async fn read(
        &self,
        table: &TableName,
        request: ReadRows,
        output: WideRows,
    ) -> Result<RowStream<rows::Found>>;
}

#[async_trait]
impl<S: Store> BigtableReads for S {
    async fn schema(&self, table: &TableName) -> Result<Arc<TableSchema>> {
        self.get_table(table).await
    }

    async fn read(
        &self,
        table: &TableName,
        request: ReadRows,
        output: WideRows,
    ) -> Result<RowStream<rows::Found>> {
        self.read_rows(table, request, output).await
    }
}
