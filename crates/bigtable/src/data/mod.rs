//! The data service: `google.bigtable.v2.Bigtable`.
//!
//! Each method turns its message into a request to the store, and the store's answer into
//! messages. Reads are streamed: the store is at most a few batches ahead of what the client has
//! taken, and a client that goes away drops the stream and with it the scan.

mod changes;
mod chunks;
mod convert;
pub(crate) mod families;
pub(crate) mod filter;
mod rate;

use crate::admin::directory::{Directory, Use};
use crate::api::data::mutate_rows_response::Entry;
use crate::api::data::read_rows_request::RequestStatsView;
use crate::api::data::{
    CheckAndMutateRowResponse, ExecuteQueryRequest, FullReadStatsView,
    GenerateInitialChangeStreamPartitionsRequest, GenerateInitialChangeStreamPartitionsResponse,
    MutateRowResponse, MutateRowsResponse, PingAndWarmRequest, PingAndWarmResponse,
    PrepareQueryRequest, PrepareQueryResponse, ReadChangeStreamRequest, ReadChangeStreamResponse,
    ReadIterationStats, ReadModifyWriteRowRequest, ReadModifyWriteRowResponse, ReadRowsRequest,
    ReadRowsResponse, RequestLatencyStats, RequestStats, SampleRowKeysRequest,
    SampleRowKeysResponse, request_stats,
};
use crate::api::server::bigtable_server;
use crate::call::authorize::Sees;
use crate::call::bounds::answers::Answer;
use crate::call::features::Features;
use crate::call::status;
use crate::names;
use crate::query::{Queries, ResultStream};
use crate::wire::ReadRowsMessage;
use crate::wire::mutations::{CheckAndMutateRowRequest, MutateRowRequest, MutateRowsRequest};
use bytes::Bytes;
use changes::{ChangeMessages, ChangeWriter};
use chunks::{ChunkWriter, LargeRows};
use futures::Stream;
use futures::stream::{self, BoxStream};
use parking_lot::Mutex;
use prost::Message;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use table::meter::Outcome;
use table::{
    CheckAndMutate, Error, ReadStats, RowBatch, RowFilter, RowMutation, RowStream, Store, Subset,
    TableName,
};
use tonic::{Request, Response, Status};

/// Entries of one `MutateRowsResponse`.
const ENTRIES_PER_MESSAGE: usize = 1_000;

/// The target of a request, or the status that refuses it.
macro_rules! target {
    ($service:expr, $request:ident, $usage:expr) => {{
        let (table, view) = (&$request.table_name, &$request.authorized_view_name);
        let names = Names { table, view, profile: &$request.app_profile_id };
        $service.target(&names, $usage).map_err(status::from_error)
    }};
}

/// The service over a store.
pub(crate) struct DataService<S> {
    store: Arc<S>,
    directory: Arc<Directory>,
    queries: Queries<S>,
}

impl<S: Store> DataService<S> {
    pub(crate) fn new(store: Arc<S>, directory: Arc<Directory>) -> Self {
        Self { queries: Queries::new(Arc::clone(&store)), store, directory }
    }

    /// Refuses a request to an instance that its app profile does not allow.
    fn admit_to_instance(
        &self,
        field: &'static str,
        name: &str,
        profile: &str,
    ) -> Result<(), Status> {
        let admitted = names::instance(field, name)
            .and_then(|instance| self.directory.admit(instance, profile, Use::Rows));
        admitted.map_err(status::from_error)
    }

    /// Returns the table of a request, and the part of it that the request's authorized view shows.
    /// Refuses the request if its app profile does not allow it.
    fn target(&self, names: &Names<'_>, usage: Use) -> table::Result<Target> {
        let (table, part) = if names.view.is_empty() {
            (names::table("table_name", names.table)?, None)
        } else {
            let (table, _) = names::authorized_view("authorized_view_name", names.view)?;
            if !names.table.is_empty() && names.table != table.as_str() {
                let rule = "is not of the table in table_name";
                return Err(Error::invalid("authorized_view_name", rule));
            }
            (table, Some(names.view))
        };
        self.directory.admit_to(&table, names.profile, usage)?;
        let part = part.map(|view| self.directory.part(view)).transpose()?;
        Ok(Target { table, part })
    }

    /// Returns the table of a request that takes no authorized view.
    fn whole_table(&self, table: &str, profile: &str) -> Result<TableName, Status> {
        let target = self.target(&Names { table, view: "", profile }, Use::Rows);
        target.map(|target| target.table).map_err(status::from_error)
    }

    /// Refuses changes of a row that reach beyond the part of its table that a view shows.
    async fn check(
        &self,
        target: &Target,
        row: &[u8],
        mutations: &[RowMutation],
    ) -> table::Result<()> {
        let Some(part) = &target.part else { return Ok(()) };
        let schema = self.store.get_table(&target.table).await?;
        part.check_mutations(&schema, row, mutations)
    }
}

/// Names that a request has.
struct Names<'a> {
    table: &'a str,
    view: &'a str,
    profile: &'a str,
}

/// The table of a request.
struct Target {
    table: TableName,
    /// The part of the table that the request may see; `None` is all of it.
    part: Option<Arc<Subset>>,
}

impl Target {
    /// Returns the filter of a request, which is to take only what the request may see.
    fn within(&self, filter: Option<RowFilter>) -> Option<RowFilter> {
        let Some(part) = &self.part else { return filter };
        let filter = filter.unwrap_or(RowFilter::PassAll);
        Some(RowFilter::Within(Arc::clone(part), Box::new(filter)))
    }
}

#[tonic::async_trait]
impl<S: Store> bigtable_server::Bigtable for DataService<S> {
    type ReadRowsStream = MessageStream;
    type SampleRowKeysStream = BoxStream<'static, Result<SampleRowKeysResponse, Status>>;
    type ExecuteQueryStream = ResultStream;
    type GenerateInitialChangeStreamPartitionsStream =
        BoxStream<'static, Result<GenerateInitialChangeStreamPartitionsResponse, Status>>;
    type ReadChangeStreamStream = BoxStream<'static, Result<ReadChangeStreamResponse, Status>>;
    type MutateRowsStream = BoxStream<'static, Result<MutateRowsResponse, Status>>;

    async fn read_rows(
        &self,
        request: Request<ReadRowsRequest>,
    ) -> Result<Response<MessageStream>, Status> {
        let started = Instant::now();
        let client = request.metadata().get("x-goog-api-client");
        let client = client.and_then(|name| name.to_str().ok()).unwrap_or_default();
        let large_rows = LargeRows::for_client(client);
        let answer = request.extensions().get::<Arc<Answer>>().cloned();
        let tells_scanned = request.features().last_scanned_row_responses;
        let sees = request.extensions().get::<Sees>().copied().unwrap_or(Sees::All);
        let request = request.into_inner();
        refuse_materialized(&request.materialized_view_name)?;
        let target = target!(self, request, Use::Rows)?;
        let sees = if target.part.is_some() { Sees::Part } else { sees };
        let wants_stats = request.request_stats_view == RequestStatsView::RequestStatsFull as i32;
        let mut read = convert::read_rows(request).map_err(status::from_error)?;
        read.filter = target.within(read.filter);
        let output = ChunkWriter::new(large_rows).counting(answer.clone());
        let output = output.telling_scanned(tells_scanned && sees == Sees::All);
        let rows = self.store.read_rows(&target.table, read, output).await;
        let rows = rows.map_err(status::from_error)?;
        Ok(Response::new(MessageStream::new(rows, wants_stats.then_some((started, sees)), answer)))
    }

    async fn sample_row_keys(
        &self,
        request: Request<SampleRowKeysRequest>,
    ) -> Result<Response<Self::SampleRowKeysStream>, Status> {
        let request = request.into_inner();
        refuse_materialized(&request.materialized_view_name)?;
        let target = target!(self, request, Use::Rows)?;
        let samples = self.store.sample_row_keys(&target.table).await;
        let mut samples = samples.map_err(status::from_error)?;
        if let Some(part) = &target.part {
            samples.retain(|sample| sample.key.is_empty() || part.has_row(&sample.key));
        }
        let messages = samples.into_iter().map(|sample| {
            let offset_bytes = i64::try_from(sample.offset_bytes).unwrap_or(i64::MAX);
            Ok(SampleRowKeysResponse { row_key: sample.key, offset_bytes })
        });
        Ok(Response::new(Box::pin(stream::iter(messages))))
    }

    async fn mutate_row(
        &self,
        request: Request<MutateRowRequest>,
    ) -> Result<Response<MutateRowResponse>, Status> {
        let request = request.into_inner();
        let target = target!(self, request, Use::Rows)?;
        let (key, mutations) = (request.row_key, request.mutations);
        let row = convert::once_row(key, mutations, request.idempotency);
        let row = row.map_err(status::from_error)?;
        let allowed = self.check(&target, &row.change.row, &row.change.mutations).await;
        allowed.map_err(status::from_error)?;
        let table = &target.table;
        let written = match row.once {
            None => self.store.mutate_row(table, row.change).await,
            Some(_) => self.store.mutate_rows_once(table, vec![row]).await.and_then(first),
        };
        written.map_err(status::from_error)?;
        Ok(Response::new(MutateRowResponse {}))
    }

    async fn mutate_rows(
        &self,
        request: Request<MutateRowsRequest>,
    ) -> Result<Response<Self::MutateRowsStream>, Status> {
        let features = request.features();
        let request = request.into_inner();
        let target = target!(self, request, Use::Rows)?;
        if request.entries.is_empty() {
            let error = Error::invalid("entries", "at least one entry is needed");
            return Err(status::from_error(error));
        }
        // An entry that cannot be understood fails alone, as one that cannot be applied.
        let mut results = Vec::with_capacity(request.entries.len());
        let mut rows = Vec::with_capacity(request.entries.len());
        for entry in request.entries {
            let row = match convert::once_row(entry.row_key, entry.mutations, entry.idempotency) {
                Ok(row) => {
                    let (key, mutations) = (&row.change.row, &row.change.mutations);
                    self.check(&target, key, mutations).await.map(|()| row)
                }
                refused => refused,
            };
            results.push(row.map(|row| rows.push(row)));
        }
        let applied = match rows.iter().all(|row| row.once.is_none()) {
            true => {
                let rows = rows.into_iter().map(|row| row.change).collect();
                self.store.mutate_rows(&target.table, rows).await
            }
            false => self.store.mutate_rows_once(&target.table, rows).await,
        };
        let mut applied = applied.map_err(status::from_error)?.into_iter();
        let entries: Vec<_> = results
            .into_iter()
            .map(|converted| converted.and_then(|()| applied.next().unwrap_or(Ok(()))))
            .enumerate()
            .map(|(i, result)| Entry { index: i as i64, status: Some(status::of_entry(result)) })
            .collect();
        let mut messages: Vec<_> = entries
            .chunks(ENTRIES_PER_MESSAGE)
            .map(|part| MutateRowsResponse { entries: part.to_vec(), ..Default::default() })
            .collect();
        if let Some(last) = messages.last_mut() {
            last.rate_limit_info = rate::advice(features, self.store.waiting_part(&target.table));
        }
        Ok(Response::new(Box::pin(stream::iter(messages.into_iter().map(Ok)))))
    }

    async fn check_and_mutate_row(
        &self,
        request: Request<CheckAndMutateRowRequest>,
    ) -> Result<Response<CheckAndMutateRowResponse>, Status> {
        let request = request.into_inner();
        let target = target!(self, request, Use::Transaction)?;
        let mut check = check_and_mutate(request).map_err(status::from_error)?;
        for mutations in [&check.on_true, &check.on_false] {
            let allowed = self.check(&target, &check.row, mutations).await;
            allowed.map_err(status::from_error)?;
        }
        check.predicate = target.within(check.predicate);
        let matched = self.store.check_and_mutate_row(&target.table, check).await;
        let predicate_matched = matched.map_err(status::from_error)?;
        Ok(Response::new(CheckAndMutateRowResponse { predicate_matched }))
    }

    async fn read_modify_write_row(
        &self,
        request: Request<ReadModifyWriteRowRequest>,
    ) -> Result<Response<ReadModifyWriteRowResponse>, Status> {
        let answer = request.extensions().get::<Arc<Answer>>().cloned();
        let request = request.into_inner();
        let target = target!(self, request, Use::Transaction)?;
        let rules = convert::rules(request.rules).map_err(status::from_error)?;
        if let Some(part) = &target.part {
            part.check_rules(&request.row_key, &rules).map_err(status::from_error)?;
        }
        // The room that is found before the change is held until its cells are counted themselves.
        let reserved = Mutex::new(None);
        let has_room = |bytes| {
            let Some(answer) = &answer else { return true };
            let mut reserved = reserved.lock();
            *reserved = answer.reserve(bytes);
            reserved.is_some()
        };
        let (table, key) = (&target.table, request.row_key);
        let row = self.store.read_modify_write_with_room(table, key, rules, &has_room).await;
        if let Some(refusal) = answer.as_ref().and_then(|answer| answer.refusal()) {
            return Err(refusal);
        }
        let mut row = row.map_err(status::from_error)?;
        if let Some(answer) = &answer {
            for cell in &mut row.cells {
                cell.value = answer.count(std::mem::take(&mut cell.value));
            }
        }
        Ok(Response::new(ReadModifyWriteRowResponse { row: Some(convert::row(row)) }))
    }

    async fn generate_initial_change_stream_partitions(
        &self,
        request: Request<GenerateInitialChangeStreamPartitionsRequest>,
    ) -> Result<Response<Self::GenerateInitialChangeStreamPartitionsStream>, Status> {
        let request = request.into_inner();
        let table = self.whole_table(&request.table_name, &request.app_profile_id)?;
        let schema = self.store.get_table(&table).await.map_err(status::from_error)?;
        if self.store.change_retention(&table).map_err(status::from_error)?.is_none() {
            let text = format!("table {table} has no change stream: set its retention period");
            return Err(status::from_error(Error::FailedPrecondition(text)));
        }
        let partitions: Vec<_> = schema
            .tablet_rows()
            .map(|rows| {
                let partition = Some(changes::partition(&rows));
                Ok(GenerateInitialChangeStreamPartitionsResponse { partition })
            })
            .collect();
        Ok(Response::new(Box::pin(stream::iter(partitions))))
    }

    async fn read_change_stream(
        &self,
        request: Request<ReadChangeStreamRequest>,
    ) -> Result<Response<Self::ReadChangeStreamStream>, Status> {
        let answer = request.extensions().get::<Arc<Answer>>().cloned();
        let request = request.into_inner();
        let table = self.whole_table(&request.table_name, &request.app_profile_id)?;
        let read = changes::read_changes(request).map_err(status::from_error)?;
        let rows = read.rows.clone();
        let records = self.store.read_changes(&table, read).await.map_err(status::from_error)?;
        let cluster = match names::instance_of(&table) {
            Some(instance) => self.directory.cluster_ids(instance).map_err(status::from_error)?,
            None => Vec::new(),
        };
        let writer = ChangeWriter { rows, cluster: cluster.into_iter().next().unwrap_or_default() };
        Ok(Response::new(ChangeMessages::new(records, writer, answer).boxed()))
    }

    async fn ping_and_warm(
        &self,
        request: Request<PingAndWarmRequest>,
    ) -> Result<Response<PingAndWarmResponse>, Status> {
        let request = request.get_ref();
        self.admit_to_instance("name", &request.name, &request.app_profile_id)?;
        Ok(Response::new(PingAndWarmResponse {}))
    }

    async fn prepare_query(
        &self,
        request: Request<PrepareQueryRequest>,
    ) -> Result<Response<PrepareQueryResponse>, Status> {
        let request = request.into_inner();
        self.admit_to_instance("instance_name", &request.instance_name, &request.app_profile_id)?;
        self.queries.prepare(request).await.map(Response::new)
    }

    async fn execute_query(
        &self,
        request: Request<ExecuteQueryRequest>,
    ) -> Result<Response<ResultStream>, Status> {
        let answer = request.extensions().get::<Arc<Answer>>().cloned();
        let request = request.into_inner();
        self.admit_to_instance("instance_name", &request.instance_name, &request.app_profile_id)?;
        self.queries.execute(request, answer).await.map(Response::new)
    }
}

/// The result of the one change of a request.
fn first(results: Vec<table::Result<()>>) -> table::Result<()> {
    results.into_iter().next().unwrap_or(Ok(()))
}

fn refuse_materialized(view: &str) -> Result<(), Status> {
    if view.is_empty() {
        return Ok(());
    }
    Err(status::unsupported("materialized views are"))
}

fn check_and_mutate(request: CheckAndMutateRowRequest) -> table::Result<CheckAndMutate> {
    Ok(CheckAndMutate {
        row: request.row_key,
        predicate: filter::optional("predicate_filter", request.predicate_filter)?,
        on_true: convert::mutations("true_mutations", request.true_mutations)?,
        on_false: convert::mutations("false_mutations", request.false_mutations)?,
    })
}

/// The messages of one read. Dropping it ends the read.
#[derive(Debug)]
pub(crate) struct MessageStream {
    rows: RowStream<Vec<ReadRowsMessage>>,
    ready: std::vec::IntoIter<ReadRowsMessage>,
    stats: ReadStats,
    /// When the request came, and the cells that it sees, if it asked for statistics.
    stats_since: Option<(Instant, Sees)>,
    /// Tells that there was no room for a row.
    answer: Option<Arc<Answer>>,
    ended: bool,
}

impl MessageStream {
    fn new(
        rows: RowStream<Vec<ReadRowsMessage>>,
        stats_since: Option<(Instant, Sees)>,
        answer: Option<Arc<Answer>>,
    ) -> Self {
        let (ready, stats) = (Vec::new().into_iter(), ReadStats::default());
        Self { rows, ready, stats, stats_since, answer, ended: false }
    }
}

impl Stream for MessageStream {
    type Item = Result<ReadRowsMessage, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(message) = this.ready.next() {
                return Poll::Ready(Some(Ok(message)));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            let next = ready!(Pin::new(&mut this.rows).poll_next(context));
            if let Some(refusal) = this.answer.as_ref().and_then(|answer| answer.refusal()) {
                this.ended = true;
                this.rows.end(Outcome::Busy);
                return Poll::Ready(Some(Err(refusal)));
            }
            match next {
                Some(Ok(RowBatch { rows, stats })) => {
                    (this.ready, this.stats) = (rows.into_iter(), stats);
                }
                Some(Err(error)) => {
                    this.ended = true;
                    this.rows.end(Outcome::of(&error));
                    return Poll::Ready(Some(Err(status::from_error(error))));
                }
                None => {
                    this.ended = true;
                    this.rows.end(Outcome::Ok);
                    let message = |(since, sees)| Ok(stats_message(this.stats, sees, since));
                    let stats = this.stats_since.map(message);
                    return Poll::Ready(stats);
                }
            }
        }
    }
}

/// Returns the message of statistics. It tells nothing of rows and cells that the request does not see.
fn stats_message(mut stats: ReadStats, sees: Sees, since: Instant) -> ReadRowsMessage {
    if sees == Sees::Part {
        (stats.rows_seen, stats.cells_seen) = (stats.rows_returned, stats.cells_returned);
    }
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let view = FullReadStatsView {
        read_iteration_stats: Some(ReadIterationStats {
            rows_seen_count: count(stats.rows_seen),
            rows_returned_count: count(stats.rows_returned),
            cells_seen_count: count(stats.cells_seen),
            cells_returned_count: count(stats.cells_returned),
        }),
        request_latency_stats: Some(RequestLatencyStats {
            frontend_server_latency: since.elapsed().try_into().ok(),
        }),
    };
    let stats_view = Some(request_stats::StatsView::FullReadStatsView(view));
    let message =
        ReadRowsResponse { request_stats: Some(RequestStats { stats_view }), ..Default::default() };
    ReadRowsMessage(Bytes::from(message.encode_to_vec()))
}
