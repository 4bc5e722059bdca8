//! The work of `bench sql`: reads of one row, inserts of one row, transfers of five statements, COPY.

use super::SqlArgs;
use super::peers::Peer;
use crate::AnyError;
use crate::measure::Phase;
use base::env::Rng;
use bytes::Bytes;
use futures::SinkExt;
use futures::future::try_join_all;
use hdrhistogram::Histogram;
use std::fmt::Write;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Rows of the smaller tables of a transfer, per 100,000 accounts.
const TELLERS: i32 = 10;
/// Bytes that one message of COPY carries.
const COPY_CHUNK: usize = 64 << 10;

const TABLES: &str = "
CREATE TABLE branches (bid int PRIMARY KEY, balance int NOT NULL, filler char(88));
CREATE TABLE tellers (tid int PRIMARY KEY, bid int, balance int NOT NULL, filler char(84));
CREATE TABLE accounts (aid int PRIMARY KEY, bid int, balance int NOT NULL, filler char(84));
CREATE TABLE history (tid int, bid int, aid int, delta int, mtime timestamptz, filler char(22));
CREATE TABLE events (id bigint PRIMARY KEY, kind int NOT NULL, at timestamptz NOT NULL, body text);
CREATE TABLE copied (id int PRIMARY KEY, kind int, at timestamptz, amount numeric(12, 2), body text);
";

/// Kinds of work, in the order in which they are measured.
pub(super) const WORKS: [Work; 4] = [Work::Select, Work::Insert, Work::Transfer, Work::Copy];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// A prepared SELECT of one row by its key.
    Select,
    /// A prepared INSERT of one row, a transaction of its own.
    Insert,
    /// Five statements between BEGIN and COMMIT, as TPC-B has them.
    Transfer,
    /// COPY of many rows as text; an operation is a row.
    Copy,
}

impl Work {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Insert => "insert",
            Self::Transfer => "transfer",
            Self::Copy => "copy",
        }
    }
}

/// The measurements of one server.
#[derive(Default)]
pub(super) struct Seen {
    cpu_ns: Vec<f64>,
    p50_us: Vec<f64>,
    per_second: Vec<f64>,
}

pub(super) struct Medians {
    pub(super) cpu_ns: f64,
    pub(super) p50_us: f64,
    pub(super) per_second: f64,
}

impl Seen {
    pub(super) fn add(&mut self, phase: &Phase) {
        self.cpu_ns.push(phase.cpu_ns());
        self.p50_us.push(phase.percentiles_us.map_or(f64::NAN, |us| us[0] as f64));
        self.per_second.push(phase.per_second());
    }

    pub(super) fn medians(self) -> Medians {
        let median = |values: Vec<f64>| bench_core::Spread::of(values).median;
        Medians {
            cpu_ns: median(self.cpu_ns),
            p50_us: median(self.p50_us),
            per_second: median(self.per_second),
        }
    }
}

/// Makes the tables, and fills the ones to be read.
pub(super) async fn load(peer: &Peer, rows: i32) -> Result<(), AnyError> {
    let client = peer.connect().await?;
    client.batch_execute(TABLES).await?;
    client
        .batch_execute(&format!(
            "INSERT INTO branches VALUES (1, 0, '');
             INSERT INTO tellers SELECT i, 1, 0, '' FROM generate_series(1, {TELLERS}) AS t(i);"
        ))
        .await?;
    let line = |aid: i32, text: &mut String| writeln!(text, "{aid}\t1\t0\t");
    copy(&client, "COPY accounts FROM STDIN", 1..rows + 1, line).await?;
    Ok(())
}

/// Copies the rows of `numbers`. Returns how many the server took.
async fn copy(
    client: &Client,
    command: &str,
    numbers: std::ops::Range<i32>,
    line: impl Fn(i32, &mut String) -> std::fmt::Result,
) -> Result<u64, AnyError> {
    let sink = client.copy_in::<_, Bytes>(command).await?;
    let mut sink = Box::pin(sink);
    let mut text = String::new();
    for number in numbers {
        line(number, &mut text)?;
        if text.len() >= COPY_CHUNK {
            sink.send(std::mem::take(&mut text).into()).await?;
        }
    }
    sink.send(text.into()).await?;
    Ok(sink.as_mut().finish().await?)
}

/// Does one kind of work for the time that `args` gives.
pub(super) async fn phase(
    args: &SqlArgs,
    peer: &Peer,
    work: Work,
    clients: usize,
) -> Result<Phase, AnyError> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(peer.connect().await?);
    }
    if work == Work::Copy {
        connections[0].batch_execute("TRUNCATE copied").await?;
    }
    let (cpu, begun) = (peer.cpu()?, Instant::now());
    let until = begun + Duration::from_secs(args.seconds);
    let each = connections.into_iter().map(|client| {
        let args = args.clone();
        tokio::spawn(async move { one_client(&args, client, work, until).await })
    });
    let mut seen = Histogram::<u64>::new(3)?;
    let mut operations = 0;
    for done in try_join_all(each).await? {
        let (count, times) = done?;
        operations += count;
        seen.add(times)?;
    }
    let wall = begun.elapsed();
    let percentiles = [50.0, 99.0, 99.9].map(|at| seen.value_at_percentile(at));
    Ok(Phase {
        name: format!("{} {}, {clients} clients", peer.name, work.name()),
        operations,
        wall,
        cpu: peer.cpu()?.saturating_sub(cpu),
        percentiles_us: Some(percentiles),
    })
}

async fn one_client(
    args: &SqlArgs,
    client: Client,
    work: Work,
    until: Instant,
) -> Result<(u64, Histogram<u64>), AnyError> {
    static CLIENTS: AtomicI32 = AtomicI32::new(0);
    let mut rng = Rng::new(CLIENTS.fetch_add(1, Ordering::Relaxed).unsigned_abs().into());
    let mut seen = Histogram::<u64>::new(3)?;
    if work == Work::Copy {
        let begun = Instant::now();
        let rows = copy_rows(&client, args.copy_rows).await?;
        seen.record(u64::try_from(begun.elapsed().as_micros())?)?;
        return Ok((rows, seen));
    }
    let prepared = Prepared::new(&client).await?;
    let mut count = 0;
    while Instant::now() < until {
        let begun = Instant::now();
        let aid = 1 + i32::try_from(rng.below(args.rows.unsigned_abs().into()))?;
        match work {
            Work::Select => prepared.select(&client, aid).await?,
            Work::Insert => prepared.insert(&client).await?,
            Work::Transfer | Work::Copy => prepared.transfer(&client, aid, &mut rng).await?,
        }
        seen.record(u64::try_from(begun.elapsed().as_micros())?)?;
        count += 1;
    }
    Ok((count, seen))
}

async fn copy_rows(client: &Client, rows: i32) -> Result<u64, AnyError> {
    let line = |id: i32, text: &mut String| {
        let body = "the body of a row that is copied, neither short nor long";
        writeln!(text, "{id}\t{}\t2026-01-01 00:00:{:02}+00\t{id}.25\t{body}", id % 7, id % 60)
    };
    copy(client, "COPY copied FROM STDIN", 0..rows, line).await
}

struct Prepared {
    select: tokio_postgres::Statement,
    insert: tokio_postgres::Statement,
    transfer: [tokio_postgres::Statement; 5],
}

impl Prepared {
    async fn new(client: &Client) -> Result<Self, AnyError> {
        let transfer = try_join_all(
            [
                "UPDATE accounts SET balance = balance + $1 WHERE aid = $2",
                "SELECT balance FROM accounts WHERE aid = $1",
                "UPDATE tellers SET balance = balance + $1 WHERE tid = $2",
                "UPDATE branches SET balance = balance + $1 WHERE bid = $2",
                "INSERT INTO history (tid, bid, aid, delta, mtime)
                 VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
            ]
            .map(|text| client.prepare(text)),
        );
        Ok(Self {
            select: client.prepare("SELECT balance FROM accounts WHERE aid = $1").await?,
            insert: client.prepare("INSERT INTO events VALUES ($1, $2, now(), $3)").await?,
            transfer: transfer.await?.try_into().map_err(|_| "five statements")?,
        })
    }

    async fn select(&self, client: &Client, aid: i32) -> Result<(), AnyError> {
        let row = client.query_one(&self.select, &[&aid]).await?;
        let _: i32 = row.try_get(0)?;
        Ok(())
    }

    async fn insert(&self, client: &Client) -> Result<(), AnyError> {
        static IDS: AtomicI64 = AtomicI64::new(0);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let body = "what happened, in as many words as it takes to tell it";
        client.execute(&self.insert, &[&id, &7, &body]).await?;
        Ok(())
    }

    async fn transfer(&self, client: &Client, aid: i32, rng: &mut Rng) -> Result<(), AnyError> {
        let delta = i32::try_from(rng.below(10_000))? - 5_000;
        let tid = 1 + i32::try_from(rng.below(10))?;
        let [account, read, teller, branch, history] = &self.transfer;
        client.batch_execute("BEGIN").await?;
        client.execute(account, &[&delta, &aid]).await?;
        client.query_one(read, &[&aid]).await?;
        client.execute(teller, &[&delta, &tid]).await?;
        client.execute(branch, &[&delta, &1]).await?;
        client.execute(history, &[&tid, &1, &aid, &delta]).await?;
        client.batch_execute("COMMIT").await?;
        Ok(())
    }
}

/// Fails unless all tables of transfers tell the same sum.
pub(super) async fn check_sums(peer: &Peer) -> Result<(), AnyError> {
    let client = peer.connect().await?;
    let mut sums = Vec::new();
    for (column, table) in [
        ("balance", "accounts"),
        ("balance", "tellers"),
        ("balance", "branches"),
        ("delta", "history"),
    ] {
        let row = client
            .query_one(&format!("SELECT coalesce(sum({column}), 0) FROM {table}"), &[])
            .await?;
        sums.push(row.try_get::<_, i64>(0)?);
    }
    if sums.iter().any(|sum| *sum != sums[0]) {
        return Err(
            format!("{}: the sums of a transfer's tables differ: {sums:?}", peer.name).into()
        );
    }
    Ok(())
}
