//! `bench bigtable`: the same work through the Bigtable API of a running server, or of several
//! server binaries in turns (`versus.rs`).

pub(crate) mod barren;
pub(crate) mod clustered;
mod paced;
pub(crate) mod scraped;
mod versus;

use crate::AnyError;
use crate::measure::Phase;
use bench_core::{KeyKind, SplitMix64, print, random_key, random_value};
use clap::Args;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};

const INSTANCE: &str = "projects/bench/instances/bench";
const FAMILY: &str = "f";

type Client = data::bigtable_client::BigtableClient<Channel>;

/// Options of `bench bigtable`.
#[derive(Debug, Clone, Args)]
pub(crate) struct FrontArgs {
    /// The server, as started by `stele serve`.
    #[arg(long, default_value = "http://127.0.0.1:8086", conflicts_with = "server")]
    endpoint: String,
    /// Server binary to start; may be given many times, to compare them with the first.
    #[arg(long)]
    server: Vec<PathBuf>,
    /// Flag for each server that is started, such as --server-flag=--cache-bytes-max=1GiB.
    #[arg(long, allow_hyphen_values = true)]
    server_flag: Vec<String>,
    /// Slices of each phase for each server that is started, in turns.
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Rows to load.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Bytes of each key.
    #[arg(long, default_value_t = 50)]
    key_bytes: usize,
    /// Bytes of each value (incompressible).
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Numbers of concurrent clients, one connection each, measured one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    clients: Vec<usize>,
    /// Work, in its order. Default: all but read-many.
    #[arg(long, value_enum, value_delimiter = ',')]
    work: Vec<Work>,
    /// Length of each phase but load and scan.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rows of one `MutateRows` request while loading.
    #[arg(long, default_value_t = 100)]
    batch: u64,
    /// Process id of the server, to print its CPU time an operation (Linux).
    #[arg(long)]
    server_pid: Option<u32>,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark.
pub(crate) fn run(args: &FrontArgs) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match args.server.is_empty() {
        true => runtime.block_on(bench(args)),
        false => runtime.block_on(versus::run(args)),
    }
}

/// What one client does again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Work {
    /// Reads the whole table, once and by one client.
    Scan,
    /// Reads a row that is there.
    ReadPresent,
    /// Reads a row that is not.
    ReadAbsent,
    /// Reads 20 rows that are there, in one request.
    ReadMany,
    /// Writes a row.
    Write,
}

/// Rows of one [`Work::ReadMany`].
const MANY: usize = 20;

impl Work {
    const ALL: [Self; 4] = [Self::Scan, Self::ReadPresent, Self::ReadAbsent, Self::Write];

    fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::ReadPresent => "get, existing",
            Self::ReadAbsent => "get, missing",
            Self::ReadMany => "get of 20 rows",
            Self::Write => "write one row",
        }
    }
}

impl FrontArgs {
    /// Each kind of work with its number of clients, in the order it is measured in.
    fn phases(&self) -> Vec<(Work, usize)> {
        let work = if self.work.is_empty() { &Work::ALL[..] } else { &self.work };
        let scan = work.iter().filter(|work| **work == Work::Scan).map(|work| (*work, 1));
        let others = |clients: usize| {
            let others = work.iter().filter(|work| **work != Work::Scan);
            others.map(move |work| (*work, clients))
        };
        scan.chain(self.clients.iter().copied().flat_map(others)).collect()
    }
}

async fn bench(args: &FrontArgs) -> Result<(), AnyError> {
    let bench = Arc::new(Bench { args: args.clone(), table: create_table(args).await? });
    let show = |phase: Phase| print(&if args.json { phase.json() } else { phase.line() });
    show(bench.load().await?);
    for (work, clients) in args.phases() {
        show(bench.phase_of(work, clients).await?);
    }
    Ok(())
}

struct Bench {
    args: FrontArgs,
    table: String,
}

async fn connect(args: &FrontArgs) -> Result<Channel, AnyError> {
    let endpoint = Endpoint::from_shared(args.endpoint.clone())?.tcp_nodelay(true);
    Ok(endpoint.connect().await?)
}

async fn create_table(args: &FrontArgs) -> Result<String, AnyError> {
    let channel = connect(args).await?;
    let mut client = admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel);
    let table_id = format!("bench-{}", std::process::id());
    let family = (FAMILY.to_owned(), admin::ColumnFamily::default());
    let request = admin::CreateTableRequest {
        parent: INSTANCE.to_owned(),
        table_id: table_id.clone(),
        table: Some(admin::Table {
            column_families: BTreeMap::from([family]),
            ..Default::default()
        }),
        ..Default::default()
    };
    client.create_table(request).await?;
    Ok(format!("{INSTANCE}/tables/{table_id}"))
}

fn set_cell(value: Vec<u8>) -> data::Mutation {
    let set = data::mutation::SetCell {
        family_name: FAMILY.to_owned(),
        column_qualifier: Default::default(),
        timestamp_micros: 0,
        value: value.into(),
    };
    data::Mutation { mutation: Some(data::mutation::Mutation::SetCell(set)) }
}

impl Bench {
    fn row(&self, number: u64, kind: KeyKind) -> Vec<u8> {
        let mut bytes = vec![0; self.args.key_bytes];
        random_key(number, kind, &mut bytes);
        bytes
    }

    fn cell(&self, number: u64) -> data::Mutation {
        let mut bytes = vec![0; self.args.value_bytes];
        random_value(number, &mut bytes);
        set_cell(bytes)
    }

    async fn client(&self) -> Result<Client, AnyError> {
        Ok(Client::new(connect(&self.args).await?).max_decoding_message_size(64 << 20))
    }

    /// One phase of `work`.
    async fn phase_of(self: &Arc<Self>, work: Work, clients: usize) -> Result<Phase, AnyError> {
        match work {
            Work::Scan => self.scan().await,
            _ => self.repeat(&format!("{}, {clients} clients", work.name()), work, clients).await,
        }
    }

    /// Loads every row once, as many requests at a time as there will be clients at most.
    async fn load(self: &Arc<Self>) -> Result<Phase, AnyError> {
        let clients = self.args.clients.iter().copied().max().unwrap_or(1);
        let next = Arc::new(AtomicU64::new(0));
        let (wall, cpu) = (Instant::now(), self.server_cpu());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..clients {
            let (bench, next, mut client) =
                (Arc::clone(self), Arc::clone(&next), self.client().await?);
            tasks.spawn(async move {
                let (rows, batch) = (bench.args.rows, bench.args.batch);
                loop {
                    let first = next.fetch_add(batch, Ordering::Relaxed);
                    if first >= rows {
                        return Ok::<_, AnyError>(());
                    }
                    bench.load_batch(&mut client, first..rows.min(first + batch)).await?;
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(self.phase(&format!("load, {clients} clients"), self.args.rows, wall, cpu, None))
    }

    async fn load_batch(
        &self,
        client: &mut Client,
        rows: std::ops::Range<u64>,
    ) -> Result<(), AnyError> {
        let entries = rows
            .map(|number| data::mutate_rows_request::Entry {
                row_key: self.row(number, KeyKind::Present).into(),
                mutations: vec![self.cell(number)],
                ..Default::default()
            })
            .collect();
        let request = data::MutateRowsRequest {
            table_name: self.table.clone(),
            entries,
            ..Default::default()
        };
        let mut replies = client.mutate_rows(request).await?.into_inner();
        while let Some(reply) = replies.message().await? {
            for entry in reply.entries {
                if let Some(status) = entry.status.filter(|status| status.code != 0) {
                    return Err(status.message.into());
                }
            }
        }
        Ok(())
    }

    /// Reads the whole table through one stream.
    async fn scan(&self) -> Result<Phase, AnyError> {
        let mut client = self.client().await?;
        let (wall, cpu) = (Instant::now(), self.server_cpu());
        let request =
            data::ReadRowsRequest { table_name: self.table.clone(), ..Default::default() };
        let rows = count_rows(&mut client, request).await?;
        assert_eq!(rows, self.args.rows, "a scan meets every row");
        Ok(self.phase("scan, 1 client", rows, wall, cpu, None))
    }

    /// `clients` clients at work for the set time.
    async fn repeat(
        self: &Arc<Self>,
        name: &str,
        work: Work,
        clients: usize,
    ) -> Result<Phase, AnyError> {
        let end = Instant::now() + Duration::from_secs(self.args.seconds);
        let (wall, cpu) = (Instant::now(), self.server_cpu());
        let mut tasks = tokio::task::JoinSet::new();
        for index in 0..clients {
            let (bench, mut client) = (Arc::clone(self), self.client().await?);
            tasks.spawn(async move {
                let mut draw = SplitMix64(index as u64 + 1);
                let mut micros = histogram()?;
                while Instant::now() < end {
                    let begin = Instant::now();
                    bench.once(&mut client, work, &mut draw).await?;
                    micros.saturating_record(begin.elapsed().as_micros() as u64);
                }
                Ok::<_, AnyError>(micros)
            });
        }
        let mut all = histogram()?;
        while let Some(done) = tasks.join_next().await {
            all.add(done??)?;
        }
        Ok(self.phase(name, all.len(), wall, cpu, Some(&all)))
    }

    async fn once(
        &self,
        client: &mut Client,
        work: Work,
        draw: &mut SplitMix64,
    ) -> Result<(), AnyError> {
        let number = draw.below(self.args.rows);
        let (kind, count) = match work {
            Work::Scan => return Err("a scan is a phase of its own".into()),
            Work::Write => {
                let request = data::MutateRowRequest {
                    table_name: self.table.clone(),
                    row_key: self.row(number, KeyKind::Present).into(),
                    mutations: vec![self.cell(number)],
                    ..Default::default()
                };
                client.mutate_row(request).await?;
                return Ok(());
            }
            Work::ReadPresent => (KeyKind::Present, 1),
            Work::ReadAbsent => (KeyKind::Absent, 1),
            Work::ReadMany => (KeyKind::Present, MANY.min(self.args.rows as usize)),
        };
        let mut numbers = BTreeSet::from([number]);
        while numbers.len() < count {
            numbers.insert(draw.below(self.args.rows));
        }
        let request = data::ReadRowsRequest {
            table_name: self.table.clone(),
            rows: Some(data::RowSet {
                row_keys: numbers.iter().map(|number| self.row(*number, kind).into()).collect(),
                row_ranges: vec![],
            }),
            rows_limit: count as i64,
            ..Default::default()
        };
        let rows = count_rows(client, request).await?;
        let wanted = if kind == KeyKind::Present { count as u64 } else { 0 };
        assert_eq!(rows, wanted, "every loaded row is found and no other");
        Ok(())
    }

    /// CPU time of the server so far, if its process id was given.
    fn server_cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.args.server_pid?)).ok()?;
        // After the command in parentheses: state is field 3; user and system time are 14 and 15,
        // in ticks of 1/100 s.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(Duration::from_millis(ticks * 10))
    }

    fn phase(
        &self,
        name: &str,
        operations: u64,
        begin: Instant,
        cpu: Option<Duration>,
        micros: Option<&Histogram<u64>>,
    ) -> Phase {
        let cpu = self.server_cpu().zip(cpu).map(|(now, before)| now.saturating_sub(before));
        let percentiles_us =
            micros.map(|micros| [0.5, 0.99, 0.999].map(|q| micros.value_at_quantile(q)));
        Phase {
            name: name.to_owned(),
            operations,
            wall: begin.elapsed(),
            cpu: cpu.unwrap_or_default(),
            percentiles_us,
        }
    }
}

/// Microseconds up to a minute, to three digits.
fn histogram() -> Result<Histogram<u64>, hdrhistogram::CreationError> {
    Histogram::new_with_bounds(1, 60_000_000, 3)
}

async fn count_rows(client: &mut Client, request: data::ReadRowsRequest) -> Result<u64, AnyError> {
    use data::read_rows_response::cell_chunk::RowStatus;
    let mut replies = client.read_rows(request).await?.into_inner();
    let mut rows = 0;
    while let Some(reply) = replies.message().await? {
        let committed = |chunk: &&data::read_rows_response::CellChunk| {
            matches!(chunk.row_status, Some(RowStatus::CommitRow(true)))
        };
        rows += reply.chunks.iter().filter(committed).count() as u64;
    }
    Ok(rows)
}
