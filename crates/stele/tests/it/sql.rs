//! The tutorial of docs/sql.md: its commands do what it says.
//!
//! The test reads the document. A block of `csv` is a file, one of `console` has a command, `sql` has
//! statements, and `text` is what the last of them answers, as `psql` shows it.

use crate::server::{Server, stderr, stele};
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
