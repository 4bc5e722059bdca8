//! What streaming promises, over a store that never ends: back-pressure, cancellation, progress,
//! and what a client sees of methods that are not served.

use crate::harness::{TABLE, connect, raw_call, serve, wants_progress};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost::Message;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use table::{
    BackupRecord, Bytes, ChangeStream, ChangeStreams, CheckAndMutate, CreateTable, DropRows, Error,
    FamilyChange, HasRoom, OnceRow, ReadChanges, ReadModifyWriteRule, ReadRows, ReadStats,
    RecordChange, Records, Result, Row, RowBatch, RowKeySample, RowMutations, RowOutput, RowStream,
    Shelves, Store, TableIdentity, TableName, TableSchema, TableUpdate, Timestamp, YieldedCell,
};
use tokio::sync::Notify;
use tonic::Code;

/// Rows of 4 KiB without end, until the reader goes away.
#[derive(Default)]
struct Endless {
    batches: AtomicU64,
    dropped: Notify,
}

struct EndlessStore(Arc<Endless>);

fn batch<S: RowOutput>(i: u64, output: &mut S) -> RowBatch<S::Batch> {
    output.scanned(format!("row-{i:010}-before").as_bytes());
    output.start(format!("row-{i:010}").as_bytes());
    output.cell(&YieldedCell {
        family: &"f".into(),
        qualifier: b"q",
        timestamp: Timestamp(0),
        value: &[b'v'; 4 << 10],
        label: None,
    });
    output.end();
    RowBatch { rows: output.take(), stats: ReadStats::default() }
}

fn none<T>() -> Result<T> {
    Err(Error::Internal("not of this store".into()))
}

#[tonic::async_trait]
impl Records for EndlessStore {
    fn record(&self, _: &str) -> Option<Bytes> {
        None
    }
    fn records(&self, _: &str) -> Vec<(String, Bytes)> {
        Vec::new()
    }
    async fn change_records(&self, _: Vec<RecordChange>) -> Result<()> {
        none()
    }
}

#[tonic::async_trait]
impl ChangeStreams for EndlessStore {
    fn change_retention(&self, _: &TableName) -> Result<Option<Duration>> {
        none()
    }
    async fn keep_changes(&self, _: &TableName, _: Option<Duration>) -> Result<()> {
        none()
    }
    async fn read_changes(&self, _: &TableName, _: ReadChanges) -> Result<ChangeStream> {
        none()
    }
}

#[tonic::async_trait]
impl Shelves for EndlessStore {
    async fn undelete_table(&self, _: &TableName) -> Result<Arc<TableSchema>> {
        none()
    }
    async fn drop_table(&self, _: &TableName) -> Result<()> {
        none()
    }
    async fn purge_deleted(&self, _: &str) -> Result<()> {
        none()
    }
    async fn back_up_table(&self, _: &TableName, _: String, _: i64, _: BackupRecord) -> Result<()> {
        none()
    }
    async fn copy_backup(&self, _: String, _: String, _: i64, _: BackupRecord) -> Result<()> {
        none()
    }
    async fn restore_table(
        &self,
        _: String,
        _: TableName,
        _: Vec<RecordChange>,
    ) -> Result<Arc<TableSchema>> {
        none()
    }
    async fn set_backup_expiry(&self, _: String, _: i64, _: RecordChange) -> Result<()> {
        none()
    }
    async fn delete_backup(&self, _: String) -> Result<()> {
        none()
    }
    async fn drop_expired(&self) -> Result<usize> {
        none()
    }
}

#[tonic::async_trait]
impl Store for EndlessStore {
    fn now_micros(&self) -> i64 {
        0
    }

    fn read_rows<S: RowOutput>(
        &self,
        _: &TableName,
        _: ReadRows,
        mut output: S,
    ) -> impl Future<Output = Result<RowStream<S::Batch>>> + Send {
        let (sender, stream) = RowStream::channel(2);
        let state = self.0.clone();
        tokio::spawn(async move {
            for i in 0.. {
                if sender.send(Ok(batch(i, &mut output))).await.is_err() {
                    state.dropped.notify_one();
                    return;
                }
                state.batches.fetch_add(1, Ordering::Relaxed);
            }
        });
        std::future::ready(Ok(stream))
    }

    async fn create_table(&self, _: CreateTable) -> Result<Arc<TableSchema>> {
        none()
    }
    async fn get_table(&self, _: &TableName) -> Result<Arc<TableSchema>> {
        none()
    }
    async fn list_tables(&self, _: &str) -> Result<Vec<Arc<TableSchema>>> {
        none()
    }
    async fn identity(&self, _: &TableName) -> Result<TableIdentity> {
        none()
    }
    async fn sync(&self) -> Result<()> {
        none()
    }
    async fn delete_table(&self, _: &TableName) -> Result<()> {
        none()
    }
    async fn update_table(&self, _: &TableName, _: TableUpdate) -> Result<Arc<TableSchema>> {
        none()
    }
    async fn modify_families(
        &self,
        _: &TableName,
        _: Vec<FamilyChange>,
    ) -> Result<Arc<TableSchema>> {
        none()
    }
    async fn mutate_rows_once(&self, _: &TableName, _: Vec<OnceRow>) -> Result<Vec<Result<()>>> {
        none()
    }
    async fn drop_rows(&self, _: &TableName, _: DropRows) -> Result<()> {
        none()
    }
    async fn mutate_row(&self, _: &TableName, _: RowMutations) -> Result<()> {
        Err(Error::ResourceExhausted("disk full".into()))
    }
    async fn mutate_rows(&self, _: &TableName, rows: Vec<RowMutations>) -> Result<Vec<Result<()>>> {
        Ok(rows.iter().map(|_| Err(Error::ResourceExhausted("disk full".into()))).collect())
    }
    fn waiting_part(&self, _: &TableName) -> f64 {
        0.0
    }
    async fn check_and_mutate_row(&self, _: &TableName, _: CheckAndMutate) -> Result<bool> {
        none()
    }
    async fn read_modify_write_with_room(
        &self,
        _: &TableName,
        _: Bytes,
        _: Vec<ReadModifyWriteRule>,
        _: &HasRoom<'_>,
    ) -> Result<Row> {
        none()
    }
    /// Never answers, for tests of deadlines.
    async fn sample_row_keys(&self, _: &TableName) -> Result<Vec<RowKeySample>> {
        std::future::pending().await
    }
}

fn read() -> data::ReadRowsRequest {
    data::ReadRowsRequest { table_name: TABLE.into(), ..Default::default() }
}

#[tokio::test]
async fn a_slow_client_holds_the_scan_back_and_leaving_ends_it() {
    let state = Arc::new(Endless::default());
    let mut clients = connect(Arc::new(EndlessStore(state.clone()))).await;
    let request = wants_progress(read());
    let mut stream = clients.data.read_rows(request).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.last_scanned_row_key, "row-0000000000-before");
    assert_eq!(first.chunks, []);

    // The client takes no more: what fits the windows is sent, and then the scan stands still.
    let mut before = u64::MAX;
    let mut now = state.batches.load(Ordering::Relaxed);
    for _ in 0..100 {
        if now == before {
            break;
        }
        before = now;
        tokio::time::sleep(Duration::from_millis(200)).await;
        now = state.batches.load(Ordering::Relaxed);
    }
    assert_eq!(now, before, "the scan went on without a reader");

    drop(stream);
    tokio::time::timeout(Duration::from_secs(60), state.dropped.notified())
        .await
        .expect("the scan goes on after its client left");
}

#[tokio::test]
async fn a_full_disk_is_resource_exhausted() {
    let mut clients = connect(Arc::new(EndlessStore(Arc::default()))).await;
    let row = data::MutateRowRequest { table_name: TABLE.into(), ..Default::default() };
    let status = clients.data.mutate_row(row).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "disk full"));
}

/// The transport has a timer for the same deadline and another code.
#[tokio::test]
async fn late_calls_end_with_deadline_exceeded() {
    let state = Arc::new(Endless::default());
    let address = serve(Arc::new(EndlessStore(state.clone()))).await;
    let sample = data::SampleRowKeysRequest { table_name: TABLE.into(), ..Default::default() };
    for _ in 0..20 {
        let path = "/google.bigtable.v2.Bigtable/SampleRowKeys";
        let status = raw_call(address, path, &sample.encode_to_vec(), Some("20m")).await;
        assert_eq!(status.code(), Code::DeadlineExceeded);
    }
    let path = "/google.bigtable.v2.Bigtable/ReadRows";
    let status = raw_call(address, path, &read().encode_to_vec(), Some("200m")).await;
    assert_eq!(status.code(), Code::DeadlineExceeded);
    tokio::time::timeout(Duration::from_secs(60), state.dropped.notified())
        .await
        .expect("the scan goes on after its deadline");
}

#[tokio::test]
async fn methods_not_served_say_so() {
    let mut clients = connect(Arc::new(EndlessStore(Arc::default()))).await;
    let snapshot = admin::GetSnapshotRequest::default();
    let status = clients.tables.get_snapshot(snapshot).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    let message =
        "google.bigtable.admin.v2.BigtableTableAdmin/GetSnapshot is not supported by this server";
    assert_eq!(status.message(), message);

    let view = data::ReadRowsRequest {
        materialized_view_name: "projects/p/instances/i/materializedViews/v".into(),
        ..Default::default()
    };
    let status = clients.data.read_rows(view).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}
