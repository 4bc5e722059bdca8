//! Promises to the observer of a door: each statement ends once, with its work, and before its client knows.

use crate::server::Server;
use engine::perf_context::{Detail, PerfTime};
use parking_lot::Mutex;
use sql::{DoorOptions, EndedStatement, Kept, Observer};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Upper bound for what the door does soon.
const PATIENCE: Duration = Duration::from_secs(60);

/// One statement as it was told.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    kind: &'static str,
    error: Option<String>,
    text: Option<String>,
    was_synced: bool,
    kept: u64,
}

/// Keeps all that it is told.
#[derive(Debug, Default)]
struct Listener {
    begun: Mutex<u64>,
    told: Mutex<Vec<Told>>,
}

impl Observer for Listener {
    fn begin(&self) -> (Detail, Option<Kept>) {
        let mut begun = self.begun.lock();
        *begun += 1;
        (Detail::Sums, Some(Box::new(*begun)))
    }

    fn ended(&self, ended: EndedStatement<'_>) {
        assert!(!format!("{ended:?}").contains("VALUES"), "its text shows");
        let kept = ended.kept.as_ref().and_then(|kept| kept.downcast_ref::<u64>());
        self.told.lock().push(Told {
            kind: ended.kind,
            error: ended.error.map(|state| state.to_string()),
            text: ended.text(),
            was_synced: ended.context.time(PerfTime::LogSync) > Duration::ZERO
                || ended.context.time(PerfTime::Commit) > Duration::ZERO,
            kept: *kept.unwrap(),
        });
    }
}

impl Listener {
    /// Returns kinds and errors of what was told since the last call.
    fn take(&self) -> Vec<(&'static str, Option<String>)> {
        let told = std::mem::take(&mut *self.told.lock());
        told.into_iter().map(|told| (told.kind, told.error)).collect()
    }
}

async fn start() -> (Server, Arc<Listener>) {
    let listener = Arc::<Listener>::default();
    let observer: Arc<dyn Observer> = Arc::<Listener>::clone(&listener);
    let options = DoorOptions { observer: Some(observer), ..DoorOptions::default() };
    (Server::with(options).await, listener)
}

/// Returns a message, which has a kind unless it is the first one of a connection.
fn message(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let len = (body.len() + 4) as u32;
    kind.into_iter().chain(len.to_be_bytes()).chain(body.iter().copied()).collect()
}

fn failed(state: &str) -> Option<String> {
    Some(state.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_statement_of_a_text_ends_once_and_before_its_client_knows() {
    let (server, listener) = start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    assert_eq!(listener.take(), [("schema", None)]);
    client.batch_execute("INSERT INTO t VALUES (77)").await.unwrap();
    let told = std::mem::take(&mut *listener.told.lock());
    let [insert] = &told[..] else { panic!("{told:?}") };
    assert_eq!((insert.kind, insert.kept), ("insert", 2));
    assert_eq!(insert.text.as_deref(), Some("INSERT INTO t VALUES (?)"));
    assert!(insert.was_synced, "its commit is part of its work");
    let text = "BEGIN; UPDATE t SET a = 78; SELECT a FROM t; DELETE FROM t; COMMIT; SHOW timezone";
    client.batch_execute(text).await.unwrap();
    let kinds: Vec<_> = listener.take().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["transaction", "update", "select", "delete", "transaction", "other"]);
    client.batch_execute("SELECT 1; SELECT 1/0; SELECT 2").await.unwrap_err();
    assert_eq!(listener.take(), [("select", None), ("select", failed("22012"))]);
    client.batch_execute("SELECT nothing").await.unwrap_err();
    assert_eq!(listener.take(), [("select", failed("42703"))]);
    client.batch_execute("SELEC 1").await.unwrap_err();
    assert_eq!(listener.take(), [], "it is no statement");
    client.batch_execute("BEGIN; INSERT INTO t VALUES (1), (1)").await.unwrap_err();
    assert_eq!(listener.take(), [("transaction", None), ("insert", failed("23505"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_ends_with_its_commit_and_in_parts() {
    let (server, listener) = start().await;
    let mut client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    listener.take();
    let insert = client.prepare("INSERT INTO t VALUES ($1)").await.unwrap();
    assert_eq!(listener.take(), [("prepare", None)]);
    client.execute(&insert, &[&5]).await.unwrap();
    let told = std::mem::take(&mut *listener.told.lock());
    let [one] = &told[..] else { panic!("{told:?}") };
    assert_eq!((one.kind, one.was_synced), ("insert", true));
    assert_eq!(one.text.as_deref(), Some("INSERT INTO t VALUES ($1)"));
    client.execute(&insert, &[&5]).await.unwrap_err();
    assert_eq!(listener.take(), [("insert", failed("23505"))]);
    client.prepare("SELECT nothing").await.unwrap_err();
    assert_eq!(listener.take(), [("prepare", failed("42703"))]);
    let rows = client.prepare("SELECT * FROM generate_series(1, 5)").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind(&rows, &[]).await.unwrap();
    listener.take();
    for (most, count) in [(3, 3), (3, 2)] {
        assert_eq!(transaction.query_portal(&portal, most).await.unwrap().len(), count);
        assert_eq!(listener.take(), [("select", None)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_whose_client_goes_away_ends_too() {
    let (server, listener) = start().await;
    let other = server.client().await;
    other.batch_execute("CREATE TABLE t (a int)").await.unwrap();
    let mut client = TcpStream::connect(server.address).await.unwrap();
    let mut start = 196_608_i32.to_be_bytes().to_vec();
    start.extend_from_slice(b"user\0stele\0database\0stele\0\0");
    client.write_all(&message(None, &start)).await.unwrap();
    client.write_all(&message(Some(b'Q'), b"COPY t FROM STDIN\0")).await.unwrap();
    // It has begun once the server asks for the data.
    let mut asked = Vec::new();
    while !asked.ends_with(&[b'G', 0, 0, 0, 9, 0, 0, 1, 0, 0]) {
        assert_ne!(client.read_buf(&mut asked).await.unwrap(), 0, "{asked:?}");
    }
    listener.take();
    drop(client);
    let waits = async {
        loop {
            let told = listener.take();
            if let Some(of) = told.iter().find(|(kind, _)| *kind == "copy") {
                return of.1.clone();
            }
            other.batch_execute("SELECT 1").await.unwrap();
        }
    };
    let error = tokio::time::timeout(PATIENCE, waits).await.expect("it never ended");
    assert_eq!(error, failed("08006"));
}
