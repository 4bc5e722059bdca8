//! The log of slow requests of the real server.

use crate::server::Server;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use serde_json::Value;
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};

/// Upper bound for what a server does soon.
const PATIENCE: Duration = Duration::from_secs(60);
const PARENT: &str = "projects/p/instances/i";
const TABLE: &str = "projects/p/instances/i/tables/t";
const SECRET: &str = "a value that no log may have";

pub(crate) type Data = data::bigtable_client::BigtableClient<Channel>;

/// Connects to `server` and creates the table `t` with the family `f`.
pub(crate) async fn with_table(server: &Server) -> Data {
    let address = format!("http://{}", server.bigtable());
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let mut tables =
        admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel.clone());
    let table = admin::Table {
        column_families: [("f".to_owned(), admin::ColumnFamily::default())].into(),
        ..Default::default()
    };
    let request = admin::CreateTableRequest {
        parent: PARENT.to_owned(),
        table_id: "t".to_owned(),
        table: Some(table),
        ..Default::default()
    };
    tables.create_table(request).await.unwrap();
    Data::new(channel)
}

/// Writes `value` into a row of the table.
pub(crate) async fn write(client: &mut Data, row: &[u8], value: Vec<u8>) {
    let set = data::mutation::SetCell {
        family_name: "f".to_owned(),
        column_qualifier: b"q".to_vec().into(),
        timestamp_micros: -1,
        value: value.into(),
    };
    let request = data::MutateRowRequest {
        table_name: TABLE.to_owned(),
        row_key: row.to_vec().into(),
        mutations: vec![data::Mutation { mutation: Some(data::mutation::Mutation::SetCell(set)) }],
        ..Default::default()
    };
    client.mutate_row(request).await.unwrap();
}

/// Reads a row of the table to the end of the answer; returns the number of its messages.
pub(crate) async fn read(client: &mut Data, request: tonic::Request<()>, row: &[u8]) -> usize {
    let rows = data::RowSet { row_keys: vec![row.to_vec().into()], ..Default::default() };
    let wanted = data::ReadRowsRequest {
        table_name: TABLE.to_owned(),
        rows: Some(rows),
        ..Default::default()
    };
    let mut answers = client.read_rows(request.map(|()| wanted)).await.unwrap().into_inner();
    let mut messages = 0;
    while answers.message().await.unwrap().is_some() {
        messages += 1;
    }
    messages
}

/// Returns the fields of the lines of slow requests.
fn lines(server: &Server) -> Vec<Value> {
    let text = server.stderr();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let slow = lines.filter(|line| line["target"] == "stele::slow_request");
    slow.map(|line| line["fields"].clone()).collect()
}

/// Waits for a line of a slow request that `is_it`.
fn line(server: &Server, is_it: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        if let Some(line) = lines(server).into_iter().find(&is_it) {
            return line;
        }
        assert!(begun.elapsed() < PATIENCE, "no such line in\n{}", server.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_slow_request_tells_where_its_time_went_and_shows_no_value() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--slow-request-ms=0", "--log-format=json", "--memtable-bytes-max=64KiB"];
    let server = Server::start(dir.path(), &flags);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = with_table(&server).await;
        write(&mut client, b"key \"1\"\n and much more than is told", SECRET.into()).await;
        let written = line(&server, |line| line["method"] == "MutateRow");
        assert_eq!(written["table"], TABLE);
        assert_eq!(written["key"], "key \\\"1\\\"\\n and much more t...");
        assert_eq!(written["code"], "OK");
        assert_eq!((&written["keys"], &written["rows_written"]), (&1.into(), &1.into()));
        let millis = |field: &str| written[field].as_f64().unwrap_or_else(|| panic!("{written}"));
        assert!(millis("log_sync_ms") + millis("commit_ms") <= millis("took_ms"), "{written}");

        // Memtables are flushed until the row lies in an SSTable.
        write(&mut client, b"m", b"small".to_vec()).await;
        let begun = Instant::now();
        for round in 0.. {
            assert!(begun.elapsed() < PATIENCE, "no file was read:\n{}", server.stderr());
            write(&mut client, b"z", vec![b'x'; 50_000]).await;
            let id = format!("read-{round}");
            let mut request = tonic::Request::new(());
            request.metadata_mut().insert("x-request-id", id.parse().unwrap());
            std::thread::sleep(Duration::from_millis(150));
            assert_eq!(read(&mut client, request, b"m").await, 1);
            std::thread::sleep(Duration::from_millis(10));
            let told = lines(&server).into_iter().find(|line| line["request"] == id.as_str());
            let Some(told) = told else { continue };
            assert_eq!((&told["rows_returned"], &told["point_reads"]), (&1.into(), &1.into()));
            if told["files"].as_u64() > Some(0) && told["blocks_cached"].as_u64() > Some(0) {
                break;
            }
        }
        assert!(!server.stderr().contains(SECRET));
    });
    let (_, metrics) = server.get("/metrics");
    let slow = metrics.lines().find_map(|line| line.strip_prefix("stele_slow_requests_total "));
    assert!(slow.unwrap().parse::<f64>().unwrap() >= 4.0);
}

#[test]
fn lines_are_bounded_and_quick_requests_have_none() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(dir.path(), &["--slow-request-ms=0", "--log-format=json"]);
    let quick = Server::start(other.path(), &["--slow-request-ms=600000", "--log-format=json"]);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = with_table(&server).await;
        let mut all = 0_u64;
        let unlogged = || {
            let (_, metrics) = server.get("/metrics");
            let mut lines = metrics.lines();
            let value =
                lines.find_map(|line| line.strip_prefix("stele_slow_requests_unlogged_total "));
            value.unwrap().parse::<f64>().unwrap() as u64
        };
        let begun = Instant::now();
        while unlogged() == 0 {
            for _ in 0..100 {
                read(&mut client, tonic::Request::new(()), b"none").await;
                all += 1;
            }
            assert!(begun.elapsed() < PATIENCE, "{all} requests, each with a line");
        }
        // A line of a later second tells how many have none.
        let begun = Instant::now();
        while !lines(&server).iter().any(|line| line["left_out"].as_u64() > Some(0)) {
            std::thread::sleep(Duration::from_millis(100));
            read(&mut client, tonic::Request::new(()), b"none").await;
            assert!(begun.elapsed() < PATIENCE, "no line tells of the others");
        }
        let mut client = with_table(&quick).await;
        read(&mut client, tonic::Request::new(()), b"none").await;
    });
    assert!(lines(&quick).is_empty(), "{}", quick.stderr());
}

#[cfg(feature = "sql")]
#[test]
fn a_slow_statement_tells_its_work_and_shows_no_value() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--slow-request-ms=0", "--log-format=json", "--sql-listen=127.0.0.1:0"];
    let server = Server::start(dir.path(), &flags);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = crate::sql::connect(&server).await;
        client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
        let insert = format!("INSERT INTO t VALUES (1, '{SECRET}')");
        client.batch_execute(&insert).await.unwrap();
        let line_of = |method, code| {
            line(&server, move |line| line["method"] == method && line["code"] == code)
        };
        let written = line_of("insert", "00000");
        assert_eq!(written["statement"], "INSERT INTO t VALUES (?, ?)");
        let millis = |field: &str| written[field].as_f64().unwrap_or_default();
        let waited = millis("log_sync_ms") + millis("commit_ms");
        assert!(waited > 0.0 && waited <= millis("took_ms"), "{written}");
        client.batch_execute("SELECT b FROM t WHERE a = 1").await.unwrap();
        let read = line_of("select", "00000");
        assert_eq!(read["session"], written["session"]);
        assert_eq!(read["point_reads"], 1, "{read}");
        client.batch_execute(&insert).await.unwrap_err();
        assert_eq!(line_of("insert", "23505")["statement"], written["statement"]);
        assert!(!server.stderr().contains(SECRET));
    });
    let (_, metrics) = server.get("/metrics");
    for result in ["ok", "client_error"] {
        let labels = format!(r#"result="{result}",statement="insert""#);
        let line = format!("stele_sql_statement_seconds_count{{{labels}}} 1");
        assert!(metrics.lines().any(|have| have == line), "{line} not in\n{metrics}");
    }
}
