//! Change streams: what was committed to a table, row by row, for readers that go on from a token.

use crate::error::Result;
use crate::mutate::RowMutation;
use crate::schema::TableName;
use async_trait::async_trait;
use bytes::Bytes;
use engine::RowRange;
use futures::stream::BoxStream;
use std::time::Duration;

/// The first changes that a stream tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangesFrom {
    /// Changes that are committed from now on.
    Now,
    /// Changes that were committed at this time or later, in microseconds since the Unix epoch.
    Time(i64),
    /// Changes after the given tokens, whose rows together are the rows of the stream.
    Tokens(Vec<(RowRange, String)>),
}

/// A request to read changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadChanges {
    /// Rows whose changes are told; any range.
    pub rows: RowRange,
    pub from: ChangesFrom,
    /// The stream ends when all is told that was committed up to this time, in microseconds since
    /// the Unix epoch. `None`: never.
    pub until_micros: Option<i64>,
    /// Time from one heartbeat to the next.
    pub heartbeat: Duration,
}

/// Mutations of a row that took effect together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    pub row: Bytes,
    /// When they were committed, in microseconds since the Unix epoch. No later change of the row
    /// has an earlier time.
    pub commit_micros: i64,
    /// Tells changes of a row with the same commit time apart: the later one has the larger.
    pub tiebreaker: i32,
    /// The mutations in their order, as they took effect: times that the server gave are set, a
    /// read-modify-write is the cells that it made, and the deletion of a row is one of each
    /// family. Families that were dropped since are left out. At least one.
    pub mutations: Vec<RowMutation>,
    /// From where to go on after this change.
    pub token: String,
}

/// An item of a change stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeRecord {
    /// A change of a row.
    Row(RowChange),
    /// Nothing that comes later was committed at an earlier time than this.
    Heartbeat {
        /// From where to go on.
        token: String,
        /// The time, in microseconds since the Unix epoch.
        low_watermark_micros: i64,
    },
}

/// The items of a change stream in their order. Ends after `ReadChanges::until_micros`, or after the
/// first error. It reads only while it is polled.
pub type ChangeStream = BoxStream<'static, Result<Vec<ChangeRecord>>>;

/// Keeps changes of tables, and tells them.
#[async_trait]
pub trait ChangeStreams: Send + Sync + 'static {
    /// Returns how long the table keeps its changes; `None` if it does not.
    fn change_retention(&self, table: &TableName) -> Result<Option<Duration>>;

    /// Keeps the changes of the table for so long, or no longer. Changes that are committed after
    /// the first such call returns are told. Where they are kept no longer, streams end with
    /// `FailedPrecondition`.
    async fn keep_changes(&self, table: &TableName, retention: Option<Duration>) -> Result<()>;

    /// Reads changes. `FailedPrecondition` if the table keeps none; `OutOfRange` if they are not
    /// kept so far back; `InvalidArgument` if a token belongs to another table or to other rows.
    async fn read_changes(&self, table: &TableName, request: ReadChanges) -> Result<ChangeStream>;
}
