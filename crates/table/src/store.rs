//! The contract between protocol fronts and whatever keeps their tables.
//!
//! 1. Every operation on one row is atomic, and serialised with every other on that row.
//! 2. A write whose call returned is seen by every read that starts later, and is as durable as
//!    the store's durability mode says. A write whose future is dropped may still take effect.
//! 3. A read sees one state of each tablet from its beginning to its end.
//! 4. Errors of one entry of [`Store::mutate_rows`] touch that entry only.

use crate::changes::ChangeStreams;
use crate::error::Result;
use crate::filter::RowFilter;
use crate::identity::TableIdentity;
use crate::mutate::{CheckAndMutate, OnceRow, ReadModifyWriteRule, RowMutations};
use crate::records::Records;
use crate::row::{Row, RowStream};
use crate::row_output::RowOutput;
use crate::row_set::RowSet;
use crate::schema::{CreateTable, FamilyChange, TableName, TableSchema, TableUpdate};
use crate::shelf::Shelves;
use async_trait::async_trait;
use bytes::Bytes;
use engine::Direction;
use std::future::Future;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadRows {
    /// Rows to read.
    pub rows: RowSet,
    /// Filter of each row; `None` returns everything.
    pub filter: Option<RowFilter>,
    /// At most this many rows with a result; 0: all.
    pub rows_limit: u64,
    /// Order of rows. Within a row cells always come in their order.
    pub direction: Direction,
}

/// Rows of a table to drop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropRows {
    /// Every row.
    All,
    /// Rows whose key starts with this prefix, which is not empty.
    Prefix(Bytes),
}

impl DropRows {
    /// Returns the prefix, which is empty for all rows.
    pub(crate) fn prefix(&self) -> &[u8] {
        match self {
            Self::All => &[],
            Self::Prefix(prefix) => prefix,
        }
    }
}

/// A row key that cuts a table into parts of similar size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowKeySample {
    /// The key, not necessarily of a row that exists; empty for the end of the table.
    pub key: Bytes,
    /// Approximate bytes of all rows before it.
    pub offset_bytes: u64,
}

/// Returns whether a front has room for so many bytes of an answer.
pub type HasRoom<'a> = dyn Fn(usize) -> bool + Send + Sync + 'a;

/// What a front sees of the tables. Reads of rows are for those who know which store it is; all
/// else is also there of a `dyn Store`.
#[async_trait]
pub trait Store: Records + ChangeStreams + Shelves {
    /// Returns the time of the store's clock, microseconds since the Unix epoch.
    fn now_micros(&self) -> i64;

    /// Creates a table. `AlreadyExists` if there is one of that name.
    async fn create_table(&self, table: CreateTable) -> Result<Arc<TableSchema>>;

    /// The table's schema as it is now. `NotFound` if there is no such table.
    async fn get_table(&self, table: &TableName) -> Result<Arc<TableSchema>>;

    /// The tables whose full name starts with `prefix`, in order of name.
    async fn list_tables(&self, prefix: &str) -> Result<Vec<Arc<TableSchema>>>;

    /// Returns the identity of the table, which does not depend on its address.
    async fn identity(&self, table: &TableName) -> Result<TableIdentity>;

    /// Makes every write whose call returned durable, whatever the durability mode.
    async fn sync(&self) -> Result<()>;

    /// Deletes a table and the front's records below its name. It can come back for as long as the store
    /// keeps deleted tables. `FailedPrecondition` if
    /// it is protected.
    async fn delete_table(&self, table: &TableName) -> Result<()>;

    /// Changes settings of a table, all or none.
    async fn update_table(
        &self,
        table: &TableName,
        update: TableUpdate,
    ) -> Result<Arc<TableSchema>>;

    /// Applies the changes in order, all or none.
    async fn modify_families(
        &self,
        table: &TableName,
        changes: Vec<FamilyChange>,
    ) -> Result<Arc<TableSchema>>;

    /// Drops rows, however many, in short time. Not atomic over tablets.
    async fn drop_rows(&self, table: &TableName, rows: DropRows) -> Result<()>;

    /// Changes a row.
    async fn mutate_row(&self, table: &TableName, row: RowMutations) -> Result<()>;

    /// Changes rows, each on its own: one result for each entry, in their order. The outer error
    /// is for the request as a whole, and then no entry was applied.
    async fn mutate_rows(
        &self,
        table: &TableName,
        rows: Vec<RowMutations>,
    ) -> Result<Vec<Result<()>>>;

    /// As [`Store::mutate_rows`], but a change of aggregate cells whose token came before, within 15
    /// minutes and in the same row, succeeds and changes nothing. `FailedPrecondition` for a change whose
    /// first attempt is older.
    async fn mutate_rows_once(
        &self,
        table: &TableName,
        rows: Vec<OnceRow>,
    ) -> Result<Vec<Result<()>>>;

    /// Returns the part that waits to be written to the table of what may wait: 0 if nothing waits, 1
    /// and more where writes are refused.
    fn waiting_part(&self, table: &TableName) -> f64;

    /// Changes a row as its content says, in one step; returns whether the predicate held.
    async fn check_and_mutate_row(
        &self,
        table: &TableName,
        request: CheckAndMutate,
    ) -> Result<bool>;

    /// Makes new cells from the newest ones of their columns, in one step; returns the row with
    /// the new cells only. Rules apply in order; a later one sees what an earlier one made.
    async fn read_modify_write_row(
        &self,
        table: &TableName,
        row: Bytes,
        rules: Vec<ReadModifyWriteRule>,
    ) -> Result<Row> {
        self.read_modify_write_with_room(table, row, rules, &|_| true).await
    }

    /// As [`Store::read_modify_write_row`]. `Busy`, and nothing is changed, if `has_room` returns false for
    /// the bytes of the new cells.
    async fn read_modify_write_with_room(
        &self,
        table: &TableName,
        row: Bytes,
        rules: Vec<ReadModifyWriteRule>,
        has_room: &HasRoom<'_>,
    ) -> Result<Row>;

    /// Reads rows into `output`, whose batches come through the stream. Errors in the request come
    /// from the call, later ones through the stream.
    fn read_rows<S: RowOutput>(
        &self,
        table: &TableName,
        request: ReadRows,
        output: S,
    ) -> impl Future<Output = Result<RowStream<S::Batch>>> + Send
    where
        Self: Sized;

    /// Keys that cut the table into parts of similar size, ascending; the last is the empty key,
    /// with the size of the whole table.
    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowKeySample>>;
}
