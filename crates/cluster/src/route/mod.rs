//! The tables of a cluster as any of its nodes serves them: each call goes to the nodes that lead the
//! tablets it touches.
//!
//! **In:** calls of this node's fronts ([`Routed`]), and calls that other nodes forward ([`Forwarded`]).
//! **Out:** calls of this node's tables, and calls of other nodes ([`Nodes`]). May use `group`, `link`,
//! and crate `table`.
//!
//! 1. A call that was forwarded is carried out by the node that got it, or refused. It is never
//!    forwarded again, so calls do not circle.
//! 2. A write is tried again only after a refusal that proves that it changed nothing and will not:
//!    the node does not lead, or the call did not reach it. After a doubt the caller gets `Unavailable`.
//! 3. A read is split into parts, and a tablet is read whole in one of them. A part begins again, at the
//!    same node or another, only before its first batch.
//! 4. Parts of a read come one after the other, so that rows are in order, and a limit of rows ends
//!    the read at the part that reaches it.
//! 5. Memory: of a forwarded read one frame is decoded at a time; what comes after it waits in the
//!    window of its connection. Requests of other nodes are counted ([`Forwarded`]).
//! 6. A stream or future that is dropped drops its call of the other node, which ends there.
//! 7. A call looks for a leader for a bounded time ([`search`]).

mod forwarded;
mod parts;
mod pieces;
mod read;
mod search;
mod tablets;
mod write;

pub use forwarded::Forwarded;

use crate::group::NodeId;
use crate::link::{Answers, CallError, FRAME_BYTES_MAX, finish};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use search::{Failure, Leaders, Place, Search};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use table::wire::{Answer, Call};
use table::{
    BackupRecord, ChangeStream, ChangeStreams, CheckAndMutate, CreateTable, DropRows, Error,
    FamilyChange, Groups, HasRoom, Local, OnceRow, ReadChanges, ReadModifyWriteRule, ReadRows,
    RecordChange, Records, Result, Row, RowKeySample, RowMutations, RowOutput, RowStream, Shelves,
    Store, TableIdentity, TableName, TableSchema, TableUpdate, TreeId,
};

/// The other nodes, as calls are forwarded to them.
#[async_trait]
pub trait Nodes: Send + Sync + 'static {
    /// Makes a node carry out a call ([`table::wire::Call`]), and returns its answers. Ends the call if the
    /// future or the stream is dropped.
    async fn forward(&self, to: NodeId, request: Bytes) -> Result<Answers, CallError>;

    /// Returns the nodes that have a replica of a tablet, as far as it is known here; in any order. Waits
    /// for nothing.
    fn members(&self, tree: TreeId) -> Vec<NodeId>;
}

/// The tables of a cluster. Clones share what they know of leaders.
#[derive(Clone)]
pub struct Routed {
    local: Local,
    leaders: Arc<Leaders>,
    nodes: Arc<dyn Nodes>,
}

/// A tablet that a call is for.
#[derive(Clone, Copy)]
enum Subject<'a> {
    /// The tablet that has a row.
    Row(&'a TableName, &'a [u8]),
    /// A tablet of a table.
    Tablet(&'a TableName, TreeId),
}

impl Routed {
    /// Returns the tables as node `me` serves them. `local` are its own tables, over `groups`.
    pub fn new(me: NodeId, local: Local, groups: Arc<dyn Groups>, nodes: Arc<dyn Nodes>) -> Self {
        let leaders = Arc::new(Leaders::new(me, groups, Arc::clone(&nodes)));
        Self { local, leaders, nodes }
    }

    /// Returns the tables of this node, which serve the tablets that it leads.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Has a call carried out where its tablet is led. Looks for the leader as long as the call is
    /// refused.
    async fn at_leader<T, F>(
        &self,
        subject: Subject<'_>,
        call: impl Fn(Place) -> F + Send + Sync,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>> + Send,
    {
        let mut search = Search::begin();
        loop {
            let tree = match subject {
                // Asked for each time: the table may be deleted, or another one of its name created.
                Subject::Tablet(table, tree) => {
                    let schema = self.local.get_table(table).await?;
                    if schema.tablets.iter().all(|tablet| tablet.tree != tree) {
                        return Err(Error::Unavailable(format!(
                            "table {table} was created anew during the request; send it again"
                        )));
                    }
                    tree
                }
                Subject::Row(table, row) => {
                    let schema = self.local.get_table(table).await?;
                    schema.tablets[schema.tablet_of(row)].tree
                }
            };
            let place = self.leaders.next(tree, &mut search);
            match call(place).await {
                Ok(done) => {
                    self.leaders.found(tree, place);
                    return Ok(done);
                }
                Err(Failure::Failed(error)) => return Err(error),
                Err(Failure::Refused { leader, error }) => match search.refused(leader) {
                    Some(pause) => wait(pause).await,
                    None => return Err(error),
                },
            }
        }
    }

    /// Forwards a call. Returns the first answer, and the stream of further ones.
    async fn begin(&self, to: NodeId, call: &Call) -> Result<(Answer, Answers), Failure> {
        let request = Bytes::from(call.encode());
        if request.len() > FRAME_BYTES_MAX {
            let bytes = request.len();
            let text = format!(
                "the request takes {bytes} bytes on its way to the node that leads the tablet, more \
                 than {FRAME_BYTES_MAX}"
            );
            return Err(Failure::Failed(Error::invalid("", text)));
        }
        let mut answers = self.nodes.forward(to, request).await?;
        let first = next_answer(to, &mut answers).await?;
        match first {
            Answer::Failed(error) => {
                finish(answers).await;
                Err(error.into())
            }
            answer => Ok((answer, answers)),
        }
    }

    /// Forwards a call with one answer.
    async fn ask(&self, to: NodeId, call: &Call) -> Result<Answer, Failure> {
        let (answer, answers) = self.begin(to, call).await?;
        finish(answers).await;
        Ok(answer)
    }
}

/// Returns the next answer of a call.
async fn next_answer(node: NodeId, answers: &mut Answers) -> Result<Answer, Failure> {
    match answers.next().await {
        Some(frame) => {
            let answer = Answer::decode(&frame?);
            answer.map_err(|error| {
                Failure::Failed(Error::Internal(format!("answer of node {}: {error}", node.0)))
            })
        }
        None => Err(Failure::Failed(Error::Unavailable(format!(
            "node {} ended a call without an answer",
            node.0
        )))),
    }
}

/// Returns the failure of a call that another node answered with something else.
fn unexpected(node: NodeId) -> Failure {
    Failure::Failed(Error::Internal(format!("node {} answered another call", node.0)))
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotDone(text) => {
                Self::Refused { leader: None, error: Error::Unavailable(text) }
            }
            CallError::Unknown(text) => Self::Failed(Error::Unavailable(text)),
        }
    }
}

async fn wait(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

#[async_trait]
impl Store for Routed {
    fn now_micros(&self) -> i64 {
        self.local.now_micros()
    }

    async fn create_table(&self, table: CreateTable) -> Result<Arc<TableSchema>> {
        self.local.create_table(table).await
    }

    async fn get_table(&self, table: &TableName) -> Result<Arc<TableSchema>> {
        self.local.get_table(table).await
    }

    async fn list_tables(&self, prefix: &str) -> Result<Vec<Arc<TableSchema>>> {
        self.local.list_tables(prefix).await
    }

    async fn identity(&self, table: &TableName) -> Result<TableIdentity> {
        self.local.identity(table).await
    }

    async fn sync(&self) -> Result<()> {
        self.local.sync().await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.local.delete_table(table).await
    }

    async fn update_table(
        &self,
        table: &TableName,
        update: TableUpdate,
    ) -> Result<Arc<TableSchema>> {
        self.local.update_table(table, update).await
    }

    async fn modify_families(
        &self,
        table: &TableName,
        changes: Vec<FamilyChange>,
    ) -> Result<Arc<TableSchema>> {
        self.local.modify_families(table, changes).await
    }

    async fn drop_rows(&self, table: &TableName, rows: DropRows) -> Result<()> {
        self.drop_rows_at_leaders(table, &rows).await
    }

    async fn mutate_row(&self, table: &TableName, row: RowMutations) -> Result<()> {
        self.mutate_at_leader(table, row).await
    }

    async fn mutate_rows(
        &self,
        table: &TableName,
        rows: Vec<RowMutations>,
    ) -> Result<Vec<Result<()>>> {
        let rows = rows.into_iter().map(|change| OnceRow { change, once: None }).collect();
        self.mutate_at_leaders(table, rows).await
    }

    async fn mutate_rows_once(
        &self,
        table: &TableName,
        rows: Vec<OnceRow>,
    ) -> Result<Vec<Result<()>>> {
        self.mutate_at_leaders(table, rows).await
    }

    fn waiting_part(&self, table: &TableName) -> f64 {
        self.local.waiting_part(table)
    }

    async fn check_and_mutate_row(
        &self,
        table: &TableName,
        request: CheckAndMutate,
    ) -> Result<bool> {
        self.check_at_leader(table, request).await
    }

    /// The room is asked for before the call is forwarded, and then for the bytes of the rules: the new
    /// cells are not known here.
    async fn read_modify_write_with_room(
        &self,
        table: &TableName,
        row: Bytes,
        rules: Vec<ReadModifyWriteRule>,
        has_room: &HasRoom<'_>,
    ) -> Result<Row> {
        self.modify_at_leader(table, row, rules, has_room).await
    }

    #[expect(clippy::manual_async_fn, reason = "`async_trait` would box the future")]
    fn read_rows<S: RowOutput>(
        &self,
        table: &TableName,
        request: ReadRows,
        output: S,
    ) -> impl Future<Output = Result<RowStream<S::Batch>>> + Send {
        async move { self.read_at_leaders(table, request, output).await }
    }

    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowKeySample>> {
        self.sample_replicas(table).await
    }
}

#[async_trait]
impl Records for Routed {
    fn record(&self, name: &str) -> Option<Bytes> {
        self.local.record(name)
    }

    fn records(&self, prefix: &str) -> Vec<(String, Bytes)> {
        self.local.records(prefix)
    }

    async fn change_records(&self, changes: Vec<RecordChange>) -> Result<()> {
        self.local.change_records(changes).await
    }
}

/// A cluster has none yet: the tables of the node refuse.
#[async_trait]
impl ChangeStreams for Routed {
    fn change_retention(&self, table: &TableName) -> Result<Option<Duration>> {
        self.local.change_retention(table)
    }

    async fn keep_changes(&self, table: &TableName, retention: Option<Duration>) -> Result<()> {
        self.local.keep_changes(table, retention).await
    }

    async fn read_changes(&self, table: &TableName, request: ReadChanges) -> Result<ChangeStream> {
        self.local.read_changes(table, request).await
    }
}

/// A cluster keeps no deleted tables and no backups yet: the tables of the node refuse.
#[async_trait]
impl Shelves for Routed {
    async fn undelete_table(&self, table: &TableName) -> Result<Arc<TableSchema>> {
        self.local.undelete_table(table).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<()> {
        self.local.drop_table(table).await
    }

    async fn purge_deleted(&self, prefix: &str) -> Result<()> {
        self.local.purge_deleted(prefix).await
    }

    async fn back_up_table(
        &self,
        table: &TableName,
        backup: String,
        expire_micros: i64,
        record: BackupRecord,
    ) -> Result<()> {
        self.local.back_up_table(table, backup, expire_micros, record).await
    }

    async fn copy_backup(
        &self,
        from: String,
        backup: String,
        expire_micros: i64,
        record: BackupRecord,
    ) -> Result<()> {
        self.local.copy_backup(from, backup, expire_micros, record).await
    }

    async fn restore_table(
        &self,
        backup: String,
        table: TableName,
        records: Vec<RecordChange>,
    ) -> Result<Arc<TableSchema>> {
        self.local.restore_table(backup, table, records).await
    }

    async fn set_backup_expiry(
        &self,
        backup: String,
        expire_micros: i64,
        record: RecordChange,
    ) -> Result<()> {
        self.local.set_backup_expiry(backup, expire_micros, record).await
    }

    async fn delete_backup(&self, backup: String) -> Result<()> {
        self.local.delete_backup(backup).await
    }

    async fn drop_expired(&self) -> Result<usize> {
        self.local.drop_expired().await
    }
}
