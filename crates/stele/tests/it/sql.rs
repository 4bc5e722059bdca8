//! The tutorial of docs/sql.md: its commands do what it says.
//!
//! The test reads the document. A block of `csv` is a file, one of `console` has a command, `sql` has
//! statements, and `text` is what the last of them answers, as `psql` shows it.

use crate::server::{Server, stderr, stele};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

#[test]
fn the_tutorial_does_what_it_says() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md");
    let document = std::fs::read_to_string(document).unwrap();
    let tutorial = document.split("\n## Tutorial").nth(1).unwrap();
    let tutorial = tutorial.split("\n## ").next().unwrap();
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start(&root.path().join("data"), &["--sql-listen", "127.0.0.1:0"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(connect(&server));
    let (mut answer, mut compared) = (Vec::new(), 0);
    for (kind, block) in blocks(tutorial) {
        match kind {
            "csv" => std::fs::write(root.path().join("people.csv"), block).unwrap(),
            "console" => command(block, &server, root.path()),
            "sql" => answer = runtime.block_on(run(&client, block)),
            "text" => {
                assert_eq!(answer, table(block), "{block}");
                compared += 1;
            }
            other => panic!("a block of {other}"),
        }
    }
    assert_eq!(compared, 3, "the tutorial has other answers");
    server.kill_9();
    server.restart();
    let client = runtime.block_on(connect(&server));
    let again = "SELECT count(*) AS n FROM people JOIN orders ON person = people.id";
    assert_eq!(runtime.block_on(run(&client, again)), [["n"], ["3"]], "after kill -9");
}

/// Returns what the API of the console answers.
fn console(server: &Server, path: &str) -> Value {
    let headers = format!("Host: {}\r\nx-stele-console: 1", server.http());
    let (status, answer) = server.ask(&format!("GET /console/api/v1{path}"), &headers);
    assert_eq!(status, 200, "{path}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

/// A key of equal numbers of different scales begins each next page behind the last row.
#[test]
fn the_console_shows_tables_of_postgresql_clients() {
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start(root.path(), &["--sql-listen", "127.0.0.1:0"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = connect(&server).await;
        let statements = "CREATE SCHEMA s; \
             CREATE TABLE s.t (id int, price numeric, made timestamptz, PRIMARY KEY (price, id)); \
             CREATE INDEX by_time ON s.t (made); \
             INSERT INTO s.t VALUES (1, 1.50, '2026-01-02 03:04:05+00'), (2, -7, NULL), (3, 1.5, NULL)";
        for statement in statements.split("; ") {
            client.batch_execute(statement).await.unwrap();
        }
    });
    assert_eq!(console(&server, "/session")["sql"], true);
    let list = console(&server, "/sql/tables?filter=t");
    let listed = list["relations"].as_array().unwrap().iter();
    let listed: Vec<_> = listed.map(|one| (&one["schema"], &one["name"], &one["kind"])).collect();
    let want = [("s", "by_time", "index"), ("s", "t", "table")];
    let want = want.map(|(schema, name, kind)| [schema, name, kind].map(Value::from));
    let want: Vec<_> = want.iter().map(|[schema, name, kind]| (schema, name, kind)).collect();
    assert_eq!(listed, want, "{list}");
    let oid = &list["relations"][1]["oid"];
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = console(&server, &format!("/sql/rows?oid={oid}&limit=1{after}"));
        for value in page["rows"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap())
        {
            let text = value["string"]["data"].as_str();
            let text = text.map(|text| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap());
            seen.push(text.map_or("NULL".to_owned(), |text| String::from_utf8(text).unwrap()));
        }
        assert!(seen.len() < 10, "pages go round: {seen:?}");
        let Some(next) = page["next"]["data"].as_str() else { break };
        after = format!("&after={next}");
    }
    let rows = ["2", "-7", "NULL", "1", "1.50", "2026-01-02 03:04:05+00", "3", "1.5", "NULL"];
    assert_eq!(seen, rows);
    let index = &list["relations"][0]["oid"];
    let tree = console(&server, &format!("/sql/tree?oid={oid}&index={index}"));
    assert_eq!((&tree["name"], &tree["indexes"][0]["name"]), (&"t".into(), &"by_time".into()));
    assert!(server.terminate().success());
}

/// Returns the kinds and the contents of the blocks of code.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').unwrap())
}

pub(crate) async fn connect(server: &Server) -> Client {
    let config = format!("host=127.0.0.1 port={} user=stele dbname=stele", server.sql().port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Runs a command of the tutorial against the server of the test.
fn command(line: &str, server: &Server, folder: &Path) {
    let words = line.strip_prefix("$ stele ").unwrap().split_whitespace();
    let mut command = stele();
    command.args(words).args(["--endpoint", &server.bigtable().to_string()]);
    let output = command.current_dir(folder).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", stderr(&output));
}

/// Runs statements. Returns names and rows of the last one that answers with rows.
async fn run(client: &Client, statements: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(statements).await;
    let messages = messages.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    let mut answer = Vec::new();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                answer = vec![columns.iter().map(|column| column.name().to_owned()).collect()];
            }
            SimpleQueryMessage::Row(row) => {
                let fields = (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned());
                answer.push(fields.collect());
            }
            _ => {}
        }
    }
    answer
}

/// Returns names and rows of an answer as `psql` shows it.
fn table(shown: &str) -> Vec<Vec<String>> {
    let lines = shown.lines().filter(|line| !line.starts_with('-'));
    lines.map(|line| line.split('|').map(|field| field.trim().to_owned()).collect()).collect()
}
