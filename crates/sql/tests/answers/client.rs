//! A session that runs texts of SQL and shows rows as sqllogictest compares them.
//!
//! 1. NULL is shown as `NULL`, an empty text as `(empty)`, and a line break as `\n`.

use std::fmt;

use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::server::Server;

/// The server whose answers are tested.
pub(crate) enum Target {
    /// A door of this process.
    Stele(Box<Server>),
    /// A PostgreSQL, by the connection string of a database of its own.
    PostgreSql(String),
}

/// Returns the connection string of PostgreSQL, if the tests are given one.
pub(crate) fn postgresql() -> Option<String> {
    std::env::var("STELE_TEST_POSTGRES").ok()
}

impl Target {
    /// Returns an empty database for a file.
    pub(crate) async fn for_file(name: &str) -> Self {
        match postgresql() {
            Some(address) => Self::new_database(&address, name).await,
            None => Self::stele().await,
        }
    }

    /// Returns an empty database behind a door.
    pub(crate) async fn stele() -> Self {
        Self::Stele(Box::new(Server::start().await))
    }

    /// Returns a new database of a PostgreSQL.
    pub(crate) async fn new_database(address: &str, name: &str) -> Self {
        let client = connect(&format!("{address} dbname=postgres")).await;
        let drop = format!("DROP DATABASE IF EXISTS \"answers_{name}\" WITH (FORCE)");
        client.simple_query(&drop).await.unwrap();
        let create = format!(
            "CREATE DATABASE \"answers_{name}\" TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
        );
        client.simple_query(&create).await.unwrap();
        Self::PostgreSql(format!("{address} dbname=answers_{name}"))
    }

    /// Connects to the database as its owner.
    pub(crate) async fn client(&self) -> Client {
        match self {
            Self::Stele(server) => server.client().await,
            Self::PostgreSql(address) => connect(address).await,
        }
    }
}

async fn connect(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// An error of the server: SQLSTATE and message.
#[derive(Debug)]
pub(crate) struct Failure {
    state: String,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.state, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<tokio_postgres::Error> for Failure {
    fn from(problem: tokio_postgres::Error) -> Self {
        let message = problem.as_db_error().map_or_else(
            || problem.to_string(),
            |said| format!("{} {}", said.message(), said.detail().unwrap_or("")),
        );
        Self { state: crate::server::code(&problem), message }
    }
}

/// A connection whose texts are simple queries.
pub(crate) struct Session(Client);

impl Session {
    /// Returns a session of a database.
    pub(crate) async fn open(target: &Target) -> Result<Self, Failure> {
        Ok(Self(target.client().await))
    }
}

/// Returns a field as the files show it.
pub(crate) fn shown(field: Option<&str>) -> String {
    match field {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text) => text.replace('\n', "\\n"),
    }
}

#[async_trait]
impl AsyncDB for Session {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let mut rows = Vec::new();
        let mut width = None;
        let mut changed = 0;
        for message in self.0.simple_query(sql).await? {
            match message {
                SimpleQueryMessage::RowDescription(columns) => width = Some(columns.len()),
                SimpleQueryMessage::Row(row) => {
                    rows.push((0..row.len()).map(|at| shown(row.get(at))).collect());
                }
                SimpleQueryMessage::CommandComplete(count) => changed = count,
                _ => {}
            }
        }
        Ok(match width {
            Some(width) => DBOutput::Rows { types: vec![DefaultColumnType::Any; width], rows },
            None => DBOutput::StatementComplete(changed),
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "postgresql"
    }

    fn error_sql_state(problem: &Failure) -> Option<String> {
        Some(problem.state.clone())
    }
}
