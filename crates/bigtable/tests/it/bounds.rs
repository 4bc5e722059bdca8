//! Clients that would make the server hold too much, by HTTP/2 and nothing else.

use crate::harness::{
    INSTANCE, TABLE, connect_to, create_table, entry, limits, raw_call, read_all, serve_named,
    serve_within, store,
};
use bigtable::{
    Allowed, Bounds, Caller, CallerHandle, Callers, EndedCall, KnownNames, Limits, Refusal,
    ResourcePolicy,
};
use bytes::Bytes;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use googleapis_tonic_google_rpc::google::rpc;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Ping, Reason, SendStream};
use prost::Message;
use std::net::SocketAddr;
use std::sync::Arc;
use table::meter::{Operation, Outcome};
use tokio::net::TcpStream;
use tonic::codegen::http::Request;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

const MUTATE_ROW: &str = "/google.bigtable.v2.Bigtable/MutateRow";
const READ_ROWS: &str = "/google.bigtable.v2.Bigtable/ReadRows";
const READ_MODIFY_WRITE: &str = "/google.bigtable.v2.Bigtable/ReadModifyWriteRow";
const UPLOAD_BYTES_MAX: usize = 100_000;

/// A server with an empty table whose uploads have [`UPLOAD_BYTES_MAX`] bytes together.
async fn server() -> (SocketAddr, tempfile::TempDir) {
    let (store, dir) = store();
    let limits = Limits { upload_bytes_max: UPLOAD_BYTES_MAX, ..limits() };
    let address = serve_within(store, &limits).await;
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let mut tables = admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel);
    let families = [("f", admin::ColumnFamily::default())];
    tables.create_table(create_table("t", families)).await.unwrap();
    (address, dir)
}

async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Begins a write of a row; its message is still to be sent.
fn begin(client: &mut SendRequest<Bytes>) -> (ResponseFuture, SendStream<Bytes>) {
    let request = Request::post(format!("http://localhost{MUTATE_ROW}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    client.send_request(request.body(()).unwrap(), false).unwrap()
}

/// Returns the status of a call, which ended without a message.
async fn status(answer: ResponseFuture) -> Status {
    let answer = answer.await.unwrap();
    let mut headers = answer.headers().clone();
    let mut body = answer.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data.unwrap().len()).unwrap();
    }
    headers.extend(body.trailers().await.unwrap().unwrap_or_default());
    Status::from_header_map(&headers).expect("the call has a status")
}

fn write_of(value_bytes: usize) -> data::MutateRowRequest {
    data::MutateRowRequest {
        table_name: TABLE.into(),
        row_key: "row".into(),
        mutations: vec![crate::harness::set("f:q", 1_000, &vec![b'v'; value_bytes])],
        ..Default::default()
    }
}

fn framed(message: &impl Message) -> Bytes {
    let bytes = message.encode_to_vec();
    [&[0], &(bytes.len() as u32).to_be_bytes()[..], &bytes].concat().into()
}

#[tokio::test]
async fn uploads_that_hold_too_much_together_are_refused_until_one_ends() {
    let (address, _dir) = server().await;
    let mut client = connect(address).await;
    let large = framed(&write_of(90_000));
    let (first, mut upload) = begin(&mut client);
    upload.send_data(large.slice(..60_000), false).unwrap();
    // One of the two is refused: the one that the server reads last.
    let (second, mut upload_too) = begin(&mut client);
    upload_too.send_data(large.slice(..60_000), false).unwrap();
    let refused = tokio::select! {
        first = status(first) => first,
        second = status(second) => second,
    };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.message().contains("100000 bytes"), "{refused:?}");
    let details = rpc::Status::decode(refused.details()).unwrap().details;
    let info = rpc::RetryInfo::decode(&details[0].value[..]).unwrap();
    assert_eq!(info.retry_delay.unwrap().seconds, 1);
    let small = raw_call(address, MUTATE_ROW, &write_of(10).encode_to_vec(), None).await;
    assert_eq!(small.code(), Code::Ok, "a message in one piece is taken");
}

#[tokio::test]
async fn one_upload_may_have_more_than_all_together() {
    let (address, _dir) = server().await;
    for _ in 0..3 {
        let message = write_of(10 * UPLOAD_BYTES_MAX).encode_to_vec();
        let status = raw_call(address, MUTATE_ROW, &message, None).await;
        assert_eq!(status.code(), Code::Ok, "{status:?}");
    }
}

#[tokio::test]
async fn claims_over_the_limit_of_a_method_are_refused_before_they_come() {
    let (address, _dir) = server().await;
    let mut client = connect(address).await;
    for (path, limit) in [
        (MUTATE_ROW, bigtable::REQUEST_BYTES_MAX),
        (READ_ROWS, 16 << 20),
        ("/google.bigtable.admin.v2.BigtableTableAdmin/CreateTable", 4 << 20),
    ] {
        let request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let (answer, mut upload) = client.send_request(request.body(()).unwrap(), false).unwrap();
        let claim = [&[0], &(limit as u32 + 1).to_be_bytes()[..]].concat();
        upload.send_data(claim.into(), false).unwrap();
        let refused = status(answer).await;
        assert_eq!(refused.code(), Code::InvalidArgument, "{path}: {refused:?}");
        assert!(refused.message().contains(&limit.to_string()), "{path}: {refused:?}");
    }
}

#[tokio::test]
async fn pieces_that_make_no_message_are_refused() {
    let (address, _dir) = server().await;
    let mut client = connect(address).await;
    let whole = framed(&write_of(10));
    let short = whole.slice(..whole.len() - 1);
    let two: Bytes = [&whole[..], &whole[..]].concat().into();
    for (case, bytes) in [("short", short), ("two", two)] {
        let (answer, mut upload) = begin(&mut client);
        upload.send_data(bytes, true).unwrap();
        let refused = status(answer).await;
        assert_eq!(refused.code(), Code::InvalidArgument, "{case}: {refused:?}");
    }
}

#[tokio::test]
async fn a_client_that_pings_without_an_end_is_told_to_be_calm() {
    let (address, _dir) = server().await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (_client, mut connection) = h2::client::handshake(stream).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    let ended = tokio::spawn(connection);
    while pings.ping(Ping::opaque()).await.is_ok() {}
    let error = ended.await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn a_connection_without_a_place_is_closed_and_one_that_goes_leaves_its_place() {
    let (store, _dir) = store();
    let address = serve_within(store, &Limits { connections_max: 1, ..limits() }).await;
    // The server reads a connection only if it has a place, and answers a ping.
    let first = pinged(address).await.expect("there is a place");
    assert!(pinged(address).await.is_none(), "there is no other");
    drop(first);
    // The server sees the end of the first in its own time.
    while pinged(address).await.is_none() {}
}

/// Returns a connection that the server answers; nothing if the server closes it.
async fn pinged(address: SocketAddr) -> Option<impl Sized> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, mut connection) = h2::client::handshake(stream).await.ok()?;
    let mut pings = connection.ping_pong().unwrap();
    let mut served = tokio::task::JoinSet::new();
    served.spawn(connection);
    pings.ping(Ping::opaque()).await.ok()?;
    Some((client, served))
}

#[tokio::test]
async fn a_server_without_room_for_answers_sends_small_batches_and_a_large_row_that_is_alone() {
    let (store, _dir) = store();
    let crowded = Limits { answer_bytes_max: 0, ..limits() };
    let mut clients = connect_to(bigtable::routes(store, &crowded)).await;
    let families = [("f", admin::ColumnFamily::default())];
    clients.tables.create_table(create_table("t", families)).await.unwrap();
    let cell = |len| vec![crate::harness::set("f:q", 1_000, &vec![b'v'; len])];
    let entries = (0..200).map(|row| entry(&format!("row-{row}"), cell(1_000))).collect();
    clients.write_rows(entries).await.unwrap();
    clients.write("s-large", cell(3 << 20)).await;
    let mut stream = clients.data.read_rows(read_all()).await.unwrap().into_inner();
    let mut lens = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        lens.push(message.encoded_len());
    }
    let large = lens.pop().unwrap();
    assert!(large > 3 << 20 && lens.len() > 15, "{lens:?}, {large}");
    assert!(lens.iter().all(|len| *len < 12 << 10), "{lens:?}");
}

/// A caller who may do everything.
struct Known(String);

impl Caller for Known {
    fn name(&self) -> &str {
        &self.0
    }

    fn allowed(&self, _: &str, _: &str) -> Allowed {
        Allowed::Everything
    }

    fn is_permission(&self, _: &str) -> bool {
        true
    }

    fn policy(&self, _: &str) -> ResourcePolicy {
        ResourcePolicy::default()
    }

    fn note(&self, _: &EndedCall<'_>) {}
}

/// Header that names the caller.
const CALLER: &str = "x-caller";

/// A server with an empty table that knows its callers by [`CALLER`], and its bounds.
async fn server_of_named(limits: Limits) -> (SocketAddr, Bounds, tempfile::TempDir) {
    let (store, dir) = store();
    let mut admin = crate::harness::connect(store.clone()).await;
    let families = [("f", admin::ColumnFamily::default())];
    admin.tables.create_table(create_table("t", families)).await.unwrap();
    let bounds = Bounds::new(&limits);
    let routes = bigtable::routes_for(store, KnownNames::All, Callers::Named, &bounds);
    let address = serve_named(routes, &limits, |request| {
        let name = request.metadata().get(CALLER)?.to_str().ok()?.to_owned();
        Some(CallerHandle(Arc::new(Known(name))))
    });
    (address.await, bounds, dir)
}

/// Begins a write of a row as a caller, with as many bytes of its message.
fn begin_as(
    client: &mut SendRequest<Bytes>,
    caller: &str,
    bytes: &Bytes,
) -> (ResponseFuture, SendStream<Bytes>) {
    let request = Request::post(format!("http://localhost{MUTATE_ROW}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header(CALLER, caller);
    let (answer, mut upload) = client.send_request(request.body(()).unwrap(), false).unwrap();
    upload.send_data(bytes.clone(), false).unwrap();
    (answer, upload)
}

fn refused(bounds: &Bounds, wanted: Refusal) -> u64 {
    bounds.refusals().find(|(refusal, _)| *refusal == wanted).unwrap().1
}

#[tokio::test]
async fn uploads_of_one_identity_leave_half_of_the_room_to_another() {
    let limits = Limits { upload_bytes_max: UPLOAD_BYTES_MAX, ..limits() };
    let (address, bounds, _dir) = server_of_named(limits).await;
    let (mut mallory, mut ann) = (connect(address).await, connect(address).await);
    let message = framed(&write_of(45_000));
    let part = message.slice(..30_000);
    let (first, _upload) = begin_as(&mut mallory, "mallory", &part);
    let (second, _upload_too) = begin_as(&mut mallory, "mallory", &part);
    let (refusal, kept) = tokio::select! {
        refusal = status(first) => (refusal, &_upload_too),
        refusal = status(second) => (refusal, &_upload),
    };
    assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal:?}");
    assert!(refusal.message().contains("50000 bytes"), "{refusal:?}");
    let details = rpc::Status::decode(refusal.details()).unwrap().details;
    assert!(details[0].type_url.ends_with("google.rpc.RetryInfo"));
    let (answer, mut upload) = begin_as(&mut ann, "ann", &part);
    upload.send_data(message.slice(30_000..), true).unwrap();
    assert_eq!(status(answer).await.code(), Code::Ok, "ann has room");
    assert_eq!(refused(&bounds, Refusal::UploadsOfIdentity), 1);
    assert!(bounds.holdings().upload_bytes > 0, "{:?}", kept.stream_id());
}

#[tokio::test]
async fn calls_of_one_identity_are_bounded_and_counted() {
    let limits = Limits { calls_max: 4, calls_per_identity_max: 2, ..limits() };
    let (address, bounds, _dir) = server_of_named(limits).await;
    let (mut mallory, mut ann) = (connect(address).await, connect(address).await);
    let part = framed(&write_of(45_000)).slice(..10);
    let held = [0; 2].map(|_| begin_as(&mut mallory, "mallory", &part));
    while bounds.holdings().calls < 2 {
        tokio::task::yield_now().await;
    }
    let (answer, _upload) = begin_as(&mut mallory, "mallory", &part);
    let refusal = status(answer).await;
    assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal:?}");
    assert!(refusal.message().contains("2 calls"), "{refusal:?}");
    assert_eq!(refused(&bounds, Refusal::CallsOfIdentity), 1);
    let write = framed(&write_of(10));
    let (answer, mut upload) = begin_as(&mut ann, "ann", &write);
    upload.send_data(Bytes::new(), true).unwrap();
    assert_eq!(status(answer).await.code(), Code::Ok);
    drop(held);
    drop(mallory);
    while bounds.holdings().calls > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn results_of_queries_are_counted_as_rows_are() {
    let (store, _dir) = store();
    let bounds = Bounds::new(&Limits { answer_bytes_max: 0, ..limits() });
    let known = KnownNames::All;
    let routes = bigtable::routes_for(Arc::clone(&store), known, Callers::Anybody, &bounds);
    let mut clients = connect_to(routes).await;
    let families = [("f", admin::ColumnFamily::default())];
    clients.tables.create_table(create_table("t", families)).await.unwrap();
    let cell = |len| vec![crate::harness::set("f:q", 1_000, &vec![b'v'; len])];
    let entries = (0..200).map(|row| entry(&format!("row-{row}"), cell(1_000))).collect();
    clients.write_rows(entries).await.unwrap();
    let query = |text: &str| data::ExecuteQueryRequest {
        instance_name: INSTANCE.into(),
        #[expect(deprecated, reason = "a query without its preparation")]
        query: text.into(),
        #[expect(deprecated, reason = "a query without its preparation")]
        data_format: Some(data::execute_query_request::DataFormat::ProtoFormat(
            data::ProtoFormat {},
        )),
        ..Default::default()
    };
    let read = |clients: &crate::harness::Clients, text: &str| {
        let (mut data, request) = (clients.data.clone(), query(text));
        async move {
            let mut stream = data.execute_query(request).await?.into_inner();
            let mut lens = Vec::new();
            while let Some(message) = stream.message().await? {
                lens.push(message.encoded_len());
            }
            Ok::<_, Status>(lens)
        }
    };
    let lens = read(&clients, "SELECT f['q'] FROM t").await.unwrap();
    assert!(lens.len() > 15 && lens.iter().all(|len| *len < 12 << 10), "{lens:?}");
    let ended = |outcome| {
        let named = store.named_tables();
        let mut reads = named[0].counters.latency();
        reads
            .find(|(operation, of, _)| (*operation, *of) == (Operation::ReadRows, outcome))
            .map_or(0, |(.., latency)| latency.count())
    };
    assert_eq!((ended(Outcome::Ok), ended(Outcome::Cancelled)), (1, 0));
    read(&clients, "SELECT f['q'] FROM t LIMIT 3").await.unwrap();
    assert_eq!((ended(Outcome::Ok), ended(Outcome::Cancelled)), (2, 0), "it has all its rows");
    clients.write("s-large", cell(3 << 20)).await;
    let large = read(&clients, "SELECT f['q'] FROM t WHERE _key = 's-large'").await.unwrap();
    assert!(large.iter().sum::<usize>() > 3 << 20, "it is alone");
    // The server may let its room go after the client has all of it.
    while bounds.holdings().answer_bytes > 0 {
        tokio::task::yield_now().await;
    }
    // A client that takes nothing of a large row leaves no room for another one.
    // A read of rows before it may let its room go at the end of a step, and take it again.
    let large_row = data::RowSet { row_keys: vec!["s-large".into()], ..data::RowSet::default() };
    let slow = data::ReadRowsRequest { rows: Some(large_row), ..read_all() };
    let slow = clients.data.read_rows(slow).await.unwrap();
    while bounds.holdings().answer_bytes < 3 << 20 {
        tokio::task::yield_now().await;
    }
    let refusal = read(&clients, "SELECT f['q'] FROM t WHERE _key = 's-large'").await.unwrap_err();
    assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal:?}");
    assert_eq!(refused(&bounds, Refusal::Answers), 1);
    assert_eq!((ended(Outcome::Busy), ended(Outcome::Cancelled)), (1, 0));
    let mut rows = clients.data.read_rows(read_all()).await.unwrap().into_inner();
    let refusal = loop {
        match rows.message().await {
            Ok(message) => assert!(message.is_some(), "the large row is missing"),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal:?}");
    assert_eq!((ended(Outcome::Busy), ended(Outcome::Cancelled)), (2, 0));
    drop(slow);
    while bounds.holdings().answer_bytes > 0 {
        tokio::task::yield_now().await;
    }
}

/// A client that takes nothing gets no more large rows than there is room for, and a change whose row has
/// none is not made.
#[tokio::test]
async fn rows_of_changes_that_no_client_takes_are_bounded() {
    const CELL: usize = 1_500_000;
    let (store, _dir) = store();
    let limits = Limits { answer_bytes_max: 4 << 20, ..limits() };
    let bounds = Bounds::new(&limits);
    let routes = bigtable::routes_for(store, KnownNames::All, Callers::Anybody, &bounds);
    let address = serve_named(routes, &limits, |_| None).await;
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let mut tables =
        admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel.clone());
    let families = [("f", admin::ColumnFamily::default())];
    tables.create_table(create_table("t", families)).await.unwrap();
    let mut data =
        data::bigtable_client::BigtableClient::new(channel).max_decoding_message_size(16 << 20);
    for row in ["a", "b", "c"] {
        let write = data::MutateRowRequest { row_key: row.into(), ..write_of(CELL) };
        data.mutate_row(write).await.unwrap();
    }
    let append = |row: &'static str| data::ReadModifyWriteRowRequest {
        table_name: TABLE.into(),
        row_key: row.into(),
        rules: vec![data::ReadModifyWriteRule {
            family_name: "f".into(),
            column_qualifier: "q".into(),
            rule: Some(data::read_modify_write_rule::Rule::AppendValue("w".into())),
        }],
        ..Default::default()
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = h2::client::Builder::new()
        .initial_window_size(0)
        .handshake::<_, Bytes>(stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for row in ["a", "b", "c"] {
        let request = Request::post(format!("http://{address}{READ_MODIFY_WRITE}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let (answer, mut upload) = client.send_request(request.body(()).unwrap(), false).unwrap();
        upload.send_data(framed(&append(row)), true).unwrap();
        answers.push(answer.await.unwrap());
    }
    let refused = Status::from_header_map(answers[2].headers()).expect("it is refused at once");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(bounds.holdings().calls >= 2 && bounds.holdings().answer_bytes >= 2 * CELL);
    drop((answers, client));
    while bounds.holdings().answer_bytes > 0 {
        tokio::task::yield_now().await;
    }
    let answer = data.read_modify_write_row(append("c")).await.unwrap().into_inner();
    let value = &answer.row.unwrap().families[0].columns[0].cells[0].value;
    assert_eq!(value.len(), CELL + 1, "the refused change was not made");
}
