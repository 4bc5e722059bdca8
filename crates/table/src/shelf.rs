//! Tables out of service: deleted ones, which may come back, and backups.
//!
//! Both are a table record and trees of their own, which no read and no list of tables shows. The
//! cells stay as they were: GC rules are not applied.

use crate::error::Result;
use crate::records::RecordChange;
use crate::schema::{TableName, TableSchema};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reason why a table is out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shelf {
    /// The table was deleted, and may come back.
    Deleted,
    /// The table is a copy that was made as a backup.
    Backup,
}

/// A table out of service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelved {
    /// Name of the deleted table, or of the backup.
    pub name: String,
    /// Time of the deletion, or time at which the backup expires; microseconds since the Unix epoch.
    pub at_micros: i64,
    /// The table as it was; its trees are the ones on the shelf.
    pub schema: Arc<TableSchema>,
    /// The front's records below the name of a deleted table, each a name and its bytes. They come back
    /// with it.
    pub records: Vec<(String, Bytes)>,
}

/// Tables out of service by shelf and name.
pub type ShelfMap = BTreeMap<(Shelf, String), Shelved>;

/// A copy of a table that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that its rows take on disk.
    pub bytes: u64,
    /// Time at which it was complete; microseconds since the Unix epoch.
    pub at_micros: i64,
}

/// Makes the front's record of a backup. It has the name of the backup.
pub type BackupRecord = Box<dyn FnOnce(Copied) -> RecordChange + Send>;

/// Keeps tables out of service.
#[async_trait]
pub trait Shelves: Send + Sync + 'static {
    /// Brings a deleted table back with its families and rows, and the front's records below its name.
    /// `NotFound` if no table of that name was
    /// deleted, or its time is over; `AlreadyExists` if there is a new table of that name.
    async fn undelete_table(&self, table: &TableName) -> Result<Arc<TableSchema>>;

    /// Drops a table for good, whatever time deleted ones are kept, and with it the front's records below
    /// its name. A deleted table of the same name stays. Errors as of [`crate::Store::delete_table`].
    async fn drop_table(&self, table: &TableName) -> Result<()>;

    /// Drops the deleted tables whose full name starts with `prefix`, for good.
    async fn purge_deleted(&self, prefix: &str) -> Result<()>;

    /// Makes a copy of a table as the backup `backup`, which expires at `expire_micros`. Rows of one
    /// tablet are as of one moment, not before the call. The copy takes disk space only for what changes
    /// in the table later. `record` makes the front's record of the backup. `AlreadyExists` if there is a
    /// backup of that name.
    async fn back_up_table(
        &self,
        table: &TableName,
        backup: String,
        expire_micros: i64,
        record: BackupRecord,
    ) -> Result<()>;

    /// Copies a backup, which is left as it is. Errors and arguments as of
    /// [`Shelves::back_up_table`].
    async fn copy_backup(
        &self,
        from: String,
        backup: String,
        expire_micros: i64,
        record: BackupRecord,
    ) -> Result<()>;

    /// Creates a table with the families and rows of a backup, which stays, and with it `records` of
    /// the front. `NotFound` if there is no such backup, or its time is over.
    async fn restore_table(
        &self,
        backup: String,
        table: TableName,
        records: Vec<RecordChange>,
    ) -> Result<Arc<TableSchema>>;

    /// Changes the time at which a backup expires, and its record of the front.
    async fn set_backup_expiry(
        &self,
        backup: String,
        expire_micros: i64,
        record: RecordChange,
    ) -> Result<()>;

    /// Deletes a backup and the front's record of it, as far as they are there.
    async fn delete_backup(&self, backup: String) -> Result<()>;

    /// Drops deleted tables and backups whose time is over. Returns their number.
    async fn drop_expired(&self) -> Result<usize>;
}
