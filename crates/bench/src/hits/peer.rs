//! Stele and PostgreSQL as engines: COPY, INSERT and queries over PostgreSQL's protocol.
//!
//! 1. PostgreSQL creates the table and copies with FREEZE in one transaction, which is its fastest way.
//! 2. The CPU time of a load lasts from its begin until the server is at rest, a checkpoint included. Its time on
//!    the clock ends with the last answer to COPY.
//! 3. A query that failed costs its connection: the next one gets a fresh connection.

use super::HitsArgs;
use super::answers::Answer;
use super::data::Data;
use super::engine::{Cost, Execution, Kind, REST, REST_CPU, REST_PATIENCE};
use crate::AnyError;
use crate::sql::peers::Peer;
use bench_core::hits::create_table;
use bytes::Bytes;
use futures::SinkExt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Bytes that one message of COPY carries.
const COPY_CHUNK: usize = 256 << 10;
/// Time between two looks at the memory of a server that has several processes.
const MEMORY_LOOK: Duration = Duration::from_millis(100);
/// Time until the processes that helped with a query have ended and are counted.
const SETTLE: Duration = Duration::from_millis(20);

/// A server with the table `hits`.
pub(super) struct ServerEngine {
    kind: Kind,
    peer: Peer,
    client: Option<Client>,
    query_seconds: u64,
}

impl ServerEngine {
    pub(super) async fn start(kind: Kind, args: &HitsArgs, home: &Path) -> Result<Self, AnyError> {
        let peer = match kind {
            Kind::Postgres => {
                let programs = args.postgres.as_ref().ok_or("--postgres names its programs")?;
                Peer::postgres(programs, args.postgres_uid, home).await?
            }
            _ => Peer::stele(&args.server, home, &args.memory_bytes_max)?,
        };
        Ok(Self { kind, peer, client: None, query_seconds: args.query_seconds })
    }

    /// Creates the table and copies the first rows of `file` into it, at most `rows_max`.
    pub(super) async fn load(
        &mut self,
        file: &Path,
        rows_max: u64,
    ) -> Result<(u64, Cost), AnyError> {
        let client = self.peer.connect().await?;
        let (cpu, begun) = (self.peer.cpu()?, Instant::now());
        let copied = copy_table(&client, self.kind, file, rows_max);
        let rows = watched(&self.peer, copied).await?;
        let wall = begun.elapsed();
        if rows != rows_max {
            return Err(format!("COPY took {rows} rows of {rows_max}").into());
        }
        watched(&self.peer, checkpoint(&client)).await?;
        rest(&self.peer).await?;
        Ok((rows, cost(self.peer.cpu()?.saturating_sub(cpu), wall, 1)))
    }

    /// Adds the further rows by INSERT statements, each a transaction of its own.
    pub(super) async fn insert_all(&mut self, data: &Data) -> Result<Cost, AnyError> {
        let client = self.peer.connect().await?;
        let (cpu, begun) = (self.peer.cpu()?, Instant::now());
        for statement in data.inserts() {
            client.batch_execute(&statement?).await?;
        }
        let wall = begun.elapsed();
        rest(&self.peer).await?;
        Ok(cost(self.peer.cpu()?.saturating_sub(cpu), wall, 1))
    }

    /// Collects statistics for PostgreSQL's planner. Stele has no such statement that does something.
    pub(super) async fn analyze(&mut self) -> Result<(), AnyError> {
        if self.kind == Kind::Postgres {
            let client = self.peer.connect().await?;
            client.batch_execute("VACUUM ANALYZE hits").await?;
            client.batch_execute("CHECKPOINT").await?;
        }
        rest(&self.peer).await
    }

    /// Runs a query for a time, at least once.
    pub(super) async fn query(
        &mut self,
        text: &str,
        least: Duration,
    ) -> Result<Execution, AnyError> {
        let client = match self.client.take() {
            Some(client) if !client.is_closed() => client,
            _ => self.connect_for_queries().await?,
        };
        let (cpu, begun) = (self.peer.cpu()?, Instant::now());
        let (answer, runs) = watched(&self.peer, answer_for(&client, text, least)).await?;
        let wall = begun.elapsed();
        tokio::time::sleep(SETTLE).await;
        let cpu = self.peer.cpu()?.saturating_sub(cpu);
        self.client = Some(client);
        let rows = u64::try_from(answer.rows.len())?;
        Ok(Execution { cost: cost(cpu, wall, runs), rows, answer: Some(answer) })
    }

    async fn connect_for_queries(&self) -> Result<Client, AnyError> {
        let client = self.peer.connect().await?;
        let timeout = self.query_seconds.saturating_mul(1_000);
        client.batch_execute(&format!("SET statement_timeout = {timeout}")).await?;
        // A process of PostgreSQL reads the catalog when it meets a table for the first time.
        client.batch_execute("SELECT * FROM hits LIMIT 1").await?;
        Ok(client)
    }

    /// Returns the largest resident memory so far: as the system notes it, or as seen between two looks.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.peer.resident_peak().unwrap_or_else(|| self.peer.peak_bytes())
    }

    /// Returns the size of the table, if the server tells it.
    pub(super) async fn table_bytes(&self) -> Result<Option<u64>, AnyError> {
        if self.kind != Kind::Postgres {
            return Ok(None);
        }
        let client = self.peer.connect().await?;
        let row = client.query_one("SELECT pg_total_relation_size('hits')", &[]).await?;
        Ok(Some(u64::try_from(row.try_get::<_, i64>(0)?)?))
    }

    pub(super) async fn version(&self) -> Result<String, AnyError> {
        let client = self.peer.connect().await?;
        let row = client.query_one("SELECT version()", &[]).await?;
        Ok(row.try_get(0)?)
    }
}

fn cost(cpu: Duration, wall: Duration, runs: u32) -> Cost {
    let each = |time: Duration| time.as_secs_f64() / f64::from(runs);
    Cost { cpu_s: each(cpu), wall_s: each(wall) }
}

/// Waits for `work` and looks at the memory of the server's processes meanwhile, if it has several.
async fn watched<T>(
    peer: &Peer,
    work: impl Future<Output = Result<T, AnyError>>,
) -> Result<T, AnyError> {
    if peer.resident_peak().is_some() {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    loop {
        let done = tokio::time::timeout(MEMORY_LOOK, work.as_mut()).await;
        peer.note_memory()?;
        if let Ok(done) = done {
            return done;
        }
    }
}

/// Waits until a server uses no CPU time.
async fn rest(peer: &Peer) -> Result<(), AnyError> {
    let deadline = Instant::now() + REST_PATIENCE;
    let mut last = peer.cpu()?;
    loop {
        tokio::time::sleep(REST).await;
        let now = peer.cpu()?;
        if now.saturating_sub(last) <= REST_CPU {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("the server does not come to rest".into());
        }
        last = now;
    }
}

async fn checkpoint(client: &Client) -> Result<(), AnyError> {
    Ok(client.batch_execute("CHECKPOINT").await?)
}

/// Creates the table and copies rows into it, as is best for the server.
async fn copy_table(
    client: &Client,
    kind: Kind,
    file: &Path,
    rows_max: u64,
) -> Result<u64, AnyError> {
    if kind != Kind::Postgres {
        client.batch_execute(&table_of(kind)).await?;
        return copy_file(client, "COPY hits FROM STDIN", file, rows_max).await;
    }
    client.batch_execute("BEGIN").await?;
    client.batch_execute(&table_of(kind)).await?;
    let rows = copy_file(client, "COPY hits FROM STDIN WITH (FREEZE)", file, rows_max).await?;
    client.batch_execute("COMMIT").await?;
    Ok(rows)
}

/// Returns the statement that creates the table in a server.
fn table_of(kind: Kind) -> String {
    let create = create_table("hits");
    let create = create.trim_end_matches(';');
    if kind == Kind::Columnar { format!("{create} USING columnar") } else { create.to_owned() }
}

/// Copies the first rows of `file`, at most `rows_max`. Returns how many the server took.
async fn copy_file(
    client: &Client,
    command: &str,
    file: &Path,
    rows_max: u64,
) -> Result<u64, AnyError> {
    let mut file = File::open(file)?;
    let mut sink = Box::pin(client.copy_in::<_, Bytes>(command).await?);
    let mut buffer = vec![0; COPY_CHUNK];
    let mut rows_left = rows_max;
    while rows_left > 0 {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        let wanted = take_rows(&buffer[..read], &mut rows_left);
        sink.send(Bytes::copy_from_slice(&buffer[..wanted])).await?;
    }
    Ok(sink.as_mut().finish().await?)
}

/// Returns how many bytes of `text` belong to the next `rows_left` lines, and subtracts the lines that end in it.
fn take_rows(text: &[u8], rows_left: &mut u64) -> usize {
    for (index, _) in text.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        *rows_left -= 1;
        if *rows_left == 0 {
            return index + 1;
        }
    }
    text.len()
}

/// Runs a query for a time, at least once. Returns its last answer and how often it ran.
async fn answer_for(
    client: &Client,
    text: &str,
    least: Duration,
) -> Result<(Answer, u32), AnyError> {
    let begun = Instant::now();
    let mut runs = 0;
    loop {
        let messages = client.simple_query(text).await?;
        runs += 1;
        if begun.elapsed() >= least {
            return Ok((answer_of(messages), runs));
        }
    }
}

fn answer_of(messages: Vec<SimpleQueryMessage>) -> Answer {
    let mut answer = Answer::default();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                answer.columns = columns.iter().map(|column| column.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|at| row.get(at).map(str::to_owned));
                answer.rows.push(values.collect());
            }
            _ => {}
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rows_are_taken() {
        for (text, rows, want, left) in [
            ("a\nb\nc\n", 2, 4, 0),
            ("a\nb\nc\n", 3, 6, 0),
            ("a\nb\nc", 5, 5, 3),
            ("half of a row", 1, 13, 1),
        ] {
            let mut rows_left = rows;
            assert_eq!(take_rows(text.as_bytes(), &mut rows_left), want, "{text}");
            assert_eq!(rows_left, left, "{text}");
        }
    }

    #[test]
    fn only_the_columnar_table_is_columnar() {
        assert!(table_of(Kind::Columnar).ends_with("\n) USING columnar"));
        assert!(table_of(Kind::Postgres).ends_with("\n)"));
    }
}
