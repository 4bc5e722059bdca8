//! A server over loopback, its clients, and short forms of the messages that tests send.

use crate::assemble::{Assembler, GotRow, lines};
use admin::r#type::Kind;
use admin::r#type::aggregate::Aggregator;
use base::env::Env;
use bigtable::{CallerHandle, Limits};
use data::mutate_rows_request::Entry;
use data::mutation::Mutation;
use data::row_filter::Filter;
use engine::Engine;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use googleapis_tonic_google_longrunning::google::longrunning::operations_client::OperationsClient;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use table::{Local, Store};
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::http::Request;
use tonic::service::{InterceptorLayer, Routes};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

pub(crate) const INSTANCE: &str = "projects/p/instances/i";
pub(crate) const TABLE: &str = "projects/p/instances/i/tables/t";

/// Every client of one server.
pub(crate) struct Clients {
    pub(crate) data: data::bigtable_client::BigtableClient<Channel>,
    pub(crate) tables: admin::bigtable_table_admin_client::BigtableTableAdminClient<Channel>,
    pub(crate) instances:
        admin::bigtable_instance_admin_client::BigtableInstanceAdminClient<Channel>,
    pub(crate) operations: OperationsClient<Channel>,
    /// Kept until the test ends.
    _dir: Option<tempfile::TempDir>,
}

/// Serves `store` until the test's runtime ends; its address.
pub(crate) async fn serve<S: Store>(store: Arc<S>) -> SocketAddr {
    serve_within(store, &limits()).await
}

/// Serves `store` within `limits` until the test's runtime ends; its address.
pub(crate) async fn serve_within<S: Store>(store: Arc<S>, limits: &Limits) -> SocketAddr {
    let (known, callers) = (bigtable::KnownNames::All, bigtable::Callers::Anybody);
    let (routes, data) =
        bigtable::services_for(store, known, callers, &bigtable::Bounds::new(limits));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = bigtable::server(limits).layer(data).add_routes(routes);
    tokio::spawn(server.serve_with_incoming(bigtable::incoming(listener, limits)));
    address
}

/// Returns the limits of most servers.
pub(crate) fn limits() -> Limits {
    Limits::within(512 << 20)
}

async fn serve_routes(routes: Routes, limits: &Limits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = bigtable::server(limits).add_routes(routes);
    tokio::spawn(server.serve_with_incoming(bigtable::incoming(listener, limits)));
    address
}

/// Serves `store` to a caller that the server names, or to an unknown one; clients of it.
pub(crate) async fn connect_as<S: Store>(store: Arc<S>, caller: Option<CallerHandle>) -> Clients {
    let (known, limits) = (bigtable::KnownNames::All, limits());
    let bounds = bigtable::Bounds::new(&limits);
    let routes = bigtable::routes_for(store, known, bigtable::Callers::Named, &bounds);
    clients_of(serve_named(routes, &limits, move |_| caller.clone()).await).await
}

/// Serves `routes` to callers whom `name` finds out, until the test's runtime ends; its address.
pub(crate) async fn serve_named(
    routes: Routes,
    limits: &Limits,
    name: impl Fn(&tonic::Request<()>) -> Option<CallerHandle> + Clone + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let name = InterceptorLayer::new(move |mut request: tonic::Request<()>| {
        if let Some(caller) = name(&request) {
            request.extensions_mut().insert(caller);
        }
        Ok(request)
    });
    let server = bigtable::server(limits).layer(name).add_routes(routes);
    tokio::spawn(server.serve_with_incoming(bigtable::incoming(listener, limits)));
    address
}

/// Calls the method at `path` with the bytes of a message, by HTTP/2 and nothing else; returns how it
/// ended.
pub(crate) async fn raw_call(
    address: SocketAddr,
    path: &str,
    message: &[u8],
    timeout: Option<&str>,
) -> Status {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(timeout) = timeout {
        request = request.header("grpc-timeout", timeout);
    }
    let (answer, mut upload) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let frame = [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat();
    upload.send_data(frame.into(), true).unwrap();
    let answer = answer.await.unwrap();
    let mut headers = answer.headers().clone();
    let mut body = answer.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data.unwrap().len()).unwrap();
    }
    headers.extend(body.trailers().await.unwrap().unwrap_or_default());
    Status::from_header_map(&headers).expect("the call has a status")
}

/// The request of a client that wants to know how far a read without rows is.
pub(crate) fn wants_progress<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    // `FeatureFlags { last_scanned_row_responses: true }`.
    request.metadata_mut().insert("bigtable-features", "IAE=".parse().unwrap());
    request
}

/// Serves `store` until the test's runtime ends; clients of it.
pub(crate) async fn connect<S: Store>(store: Arc<S>) -> Clients {
    clients_of(serve(store).await).await
}

/// Serves `routes` until the test's runtime ends; clients of them.
pub(crate) async fn connect_to(routes: Routes) -> Clients {
    clients_of(serve_routes(routes, &limits()).await).await
}

async fn clients_of(address: SocketAddr) -> Clients {
    let channel =
        Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let message_max = 300 << 20;
    Clients {
        data: data::bigtable_client::BigtableClient::new(channel.clone())
            .max_decoding_message_size(message_max)
            .max_encoding_message_size(message_max),
        tables: admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel.clone()),
        instances: admin::bigtable_instance_admin_client::BigtableInstanceAdminClient::new(
            channel.clone(),
        ),
        operations: OperationsClient::new(channel),
        _dir: None,
    }
}

/// An empty store, and the directory that it lives in.
pub(crate) fn store() -> (Arc<Local>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (open(dir.path()).1, dir)
}

/// The engine and the store in a directory.
pub(crate) fn open(dir: &Path) -> (Engine, Arc<Local>) {
    let env = Env::real(2);
    let clock = env.clock.clone();
    let engine = Engine::open_with_env(env, dir, engine::Options::default()).unwrap();
    let store = Local::open(engine.clone(), clock).unwrap();
    (engine, Arc::new(store))
}

/// A server without tables.
pub(crate) async fn empty() -> Clients {
    let (store, dir) = store();
    Clients { _dir: Some(dir), ..connect(store).await }
}

/// A server with an empty table [`TABLE`] of the families `f` and `g` (raw) and `sum`, `min`,
/// `max` (aggregates).
pub(crate) async fn with_table() -> Clients {
    let mut clients = empty().await;
    let families = [
        ("f", admin::ColumnFamily::default()),
        ("g", admin::ColumnFamily::default()),
        ("sum", aggregate(Aggregator::Sum(Default::default()))),
        ("min", aggregate(Aggregator::Min(Default::default()))),
        ("max", aggregate(Aggregator::Max(Default::default()))),
    ];
    clients.tables.create_table(create_table("t", families)).await.unwrap();
    clients
}

pub(crate) fn create_table<const N: usize>(
    id: &str,
    families: [(&str, admin::ColumnFamily); N],
) -> admin::CreateTableRequest {
    let column_families = families.map(|(name, family)| (name.to_owned(), family));
    admin::CreateTableRequest {
        parent: INSTANCE.into(),
        table_id: id.into(),
        table: Some(admin::Table {
            column_families: BTreeMap::from(column_families),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub(crate) fn aggregate(aggregator: Aggregator) -> admin::ColumnFamily {
    let int64 = admin::Type { kind: Some(Kind::Int64Type(Default::default())) };
    let aggregate = admin::r#type::Aggregate {
        input_type: Some(Box::new(int64)),
        aggregator: Some(aggregator),
        ..Default::default()
    };
    let value_type = admin::Type { kind: Some(Kind::AggregateType(Box::new(aggregate))) };
    admin::ColumnFamily { value_type: Some(value_type), ..Default::default() }
}

/// `SetCell` of `column`, written `family:qualifier`.
pub(crate) fn set(column: &str, timestamp_micros: i64, value: &[u8]) -> data::Mutation {
    let (family, qualifier) = column.split_once(':').unwrap();
    mutation(Mutation::SetCell(data::mutation::SetCell {
        family_name: family.into(),
        column_qualifier: qualifier.to_owned().into(),
        timestamp_micros,
        value: value.to_vec().into(),
    }))
}

/// `AddToCell` of `column`, written `family:qualifier`.
pub(crate) fn add(column: &str, timestamp_micros: i64, input: i64) -> data::Mutation {
    let (family, qualifier) = column.split_once(':').unwrap();
    let value = |kind| Some(data::Value { kind: Some(kind), ..Default::default() });
    mutation(Mutation::AddToCell(data::mutation::AddToCell {
        family_name: family.into(),
        column_qualifier: value(data::value::Kind::RawValue(qualifier.to_owned().into())),
        timestamp: value(data::value::Kind::RawTimestampMicros(timestamp_micros)),
        input: value(data::value::Kind::IntValue(input)),
    }))
}

pub(crate) fn mutation(mutation: Mutation) -> data::Mutation {
    data::Mutation { mutation: Some(mutation) }
}

pub(crate) fn filter(filter: Filter) -> data::RowFilter {
    data::RowFilter { filter: Some(filter) }
}

pub(crate) fn chain<const N: usize>(filters: [Filter; N]) -> Filter {
    Filter::Chain(data::row_filter::Chain { filters: filters.map(filter).into() })
}

pub(crate) fn interleave<const N: usize>(filters: [Filter; N]) -> Filter {
    Filter::Interleave(data::row_filter::Interleave { filters: filters.map(filter).into() })
}

/// A read of the whole of [`TABLE`].
pub(crate) fn read_all() -> data::ReadRowsRequest {
    data::ReadRowsRequest { table_name: TABLE.into(), ..Default::default() }
}

/// A `MutateRows` entry.
pub(crate) fn entry(row: &str, mutations: Vec<data::Mutation>) -> Entry {
    Entry { row_key: row.to_owned().into(), mutations, ..Default::default() }
}

impl Clients {
    pub(crate) async fn write(&mut self, row: &str, mutations: Vec<data::Mutation>) {
        self.try_write(row.as_bytes(), mutations).await.unwrap();
    }

    pub(crate) async fn try_write(
        &mut self,
        row: &[u8],
        mutations: Vec<data::Mutation>,
    ) -> Result<(), Status> {
        let request = data::MutateRowRequest {
            table_name: TABLE.into(),
            row_key: row.to_vec().into(),
            mutations,
            ..Default::default()
        };
        self.data.mutate_row(request).await.map(|_| ())
    }

    /// Codes by entry, in their order.
    pub(crate) async fn write_rows(&mut self, entries: Vec<Entry>) -> Result<Vec<Code>, Status> {
        let request =
            data::MutateRowsRequest { table_name: TABLE.into(), entries, ..Default::default() };
        let mut stream = self.data.mutate_rows(request).await?.into_inner();
        let mut codes = Vec::new();
        while let Some(message) = stream.message().await? {
            for entry in message.entries {
                assert_eq!(entry.index, codes.len() as i64);
                codes.push(Code::from_i32(entry.status.unwrap().code));
            }
        }
        Ok(codes)
    }

    pub(crate) async fn try_read(
        &mut self,
        request: data::ReadRowsRequest,
    ) -> Result<Vec<GotRow>, Status> {
        let mut stream = self.data.read_rows(request).await?.into_inner();
        let mut assembler = Assembler::default();
        while let Some(message) = stream.message().await? {
            assembler.message(message);
        }
        Ok(assembler.finish())
    }

    /// The cells of a read, one line each.
    pub(crate) async fn lines(&mut self, request: data::ReadRowsRequest) -> Vec<String> {
        lines(&self.try_read(request).await.unwrap())
    }

    /// The cells of a filtered read of the whole table, one line each.
    pub(crate) async fn filtered(&mut self, wanted: Filter) -> Vec<String> {
        self.lines(data::ReadRowsRequest { filter: Some(filter(wanted)), ..read_all() }).await
    }

    /// The code of a read that fails, and its message.
    pub(crate) async fn refused(&mut self, request: data::ReadRowsRequest) -> (Code, String) {
        let status = self.try_read(request).await.expect_err("the read should fail");
        (status.code(), status.message().to_owned())
    }
}
