//! `bench scraped-tables`: point reads of a server with very many tables, alone and while its metrics are
//! scraped.

use super::paced::{self, Readers, line};
use super::{Bench, FAMILY, INSTANCE, connect, histogram, set_cell};
use crate::AnyError;
use crate::server::Server;
use bench_core::print;
use clap::Args;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The command line of `bench scraped-tables`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScrapedArgs {
    /// The server binary to start and measure.
    #[arg(long)]
    server: PathBuf,
    /// Rows of the table that is read.
    #[arg(long, default_value_t = 100_000)]
    rows: u64,
    /// Tables beside it, each with one row.
    #[arg(long, default_value_t = 100_000)]
    tables: u64,
    /// Seconds after which no further table is created.
    #[arg(long, default_value_t = 600)]
    create_seconds: u64,
    /// Calls at a time that create tables.
    #[arg(long, default_value_t = 16)]
    creators: usize,
    /// Milliseconds from the begin of a scrape to the next one.
    #[arg(long, default_value_t = 1_000)]
    scrape_ms: u64,
    #[command(flatten)]
    readers: Readers,
    /// Turns of a phase without scrapes and a phase with them.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Starts the server and prints what it measures.
pub(crate) fn run(args: &ScrapedArgs) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: &ScrapedArgs) -> Result<(), AnyError> {
    let dir = tempfile::tempdir()?;
    let mut server = Server::start(&args.server, dir.path(), &["--durability=none".into()])?;
    let bench = paced::load(&server, args.rows, 100).await?;
    create_tables(args, &bench).await?;
    server.rest().await?;
    let (mut alone, mut beside) = (histogram()?, histogram()?);
    let scrapes = Arc::new(Scrapes::default());
    for _ in 0..args.rounds {
        let quiet = args.readers.read(&bench).await?;
        print(&line("alone", &quiet));
        let scraping = start(args, &server, &scrapes);
        let busy = args.readers.read(&bench).await?;
        drop(scraping);
        server.rest().await?;
        print(&line("scraped", &busy));
        alone.add(quiet)?;
        beside.add(busy)?;
    }
    let count = scrapes.count.load(Ordering::Relaxed).max(1);
    let [bytes, micros] = [&scrapes.bytes, &scrapes.micros].map(|sum| sum.load(Ordering::Relaxed));
    print(&format!(
        "{count} scrapes, of {} KiB and {} ms in the mean",
        (bytes / count) >> 10,
        micros / count / 1_000
    ));
    let failed = scrapes.failed.load(Ordering::Relaxed);
    if failed > 0 {
        return Err(format!("{failed} scrapes failed").into());
    }
    let p99 = |micros: &Histogram<u64>| micros.value_at_quantile(0.99) as f64;
    print(&line("all alone", &alone));
    print(&line("all scraped", &beside));
    print(&format!("p99 scraped / alone: {:.2}", p99(&beside) / p99(&alone)));
    server.terminate().await
}

/// Creates tables, and writes a row of each.
async fn create_tables(args: &ScrapedArgs, bench: &Arc<Bench>) -> Result<(), AnyError> {
    let begin = Instant::now();
    let end = begin + Duration::from_secs(args.create_seconds);
    let next = Arc::new(AtomicU64::new(0));
    let mut creators = JoinSet::new();
    for _ in 0..args.creators {
        let (bench, next, tables) = (Arc::clone(bench), Arc::clone(&next), args.tables);
        creators.spawn(async move {
            let channel = connect(&bench.args).await?;
            let mut admin =
                admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel);
            let mut client = bench.client().await?;
            let mut created = 0u64;
            while Instant::now() < end {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= tables {
                    break;
                }
                let table_id = format!("t{number:06}");
                let family = (FAMILY.to_owned(), admin::ColumnFamily::default());
                let table = admin::Table {
                    column_families: BTreeMap::from([family]),
                    ..Default::default()
                };
                let request = admin::CreateTableRequest {
                    parent: INSTANCE.to_owned(),
                    table_id: table_id.clone(),
                    table: Some(table),
                    ..Default::default()
                };
                admin.create_table(request).await?;
                let request = data::MutateRowRequest {
                    table_name: format!("{INSTANCE}/tables/{table_id}"),
                    row_key: "row".into(),
                    mutations: vec![set_cell(b"value".to_vec())],
                    ..Default::default()
                };
                client.mutate_row(request).await?;
                created += 1;
            }
            Ok::<_, AnyError>(created)
        });
    }
    let mut created = 0;
    while let Some(done) = creators.join_next().await {
        created += done??;
    }
    let seconds = begin.elapsed().as_secs_f64();
    print(&format!(
        "{created} tables in {seconds:.0} s, {:.0} a second",
        created as f64 / seconds.max(0.001)
    ));
    Ok(())
}

/// Sums over all scrapes of the run.
#[derive(Default)]
struct Scrapes {
    failed: AtomicU64,
    count: AtomicU64,
    bytes: AtomicU64,
    micros: AtomicU64,
}

/// Scrapes again and again, until what is returned is dropped.
fn start(args: &ScrapedArgs, server: &Server, scrapes: &Arc<Scrapes>) -> JoinSet<()> {
    let (address, scrapes) = (server.http_address().to_owned(), Arc::clone(scrapes));
    let mut ticks = tokio::time::interval(Duration::from_millis(args.scrape_ms.max(1)));
    let mut scraping = JoinSet::new();
    scraping.spawn(async move {
        loop {
            ticks.tick().await;
            let begin = Instant::now();
            let Ok(bytes) = scrape(&address).await else {
                scrapes.failed.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            scrapes.count.fetch_add(1, Ordering::Relaxed);
            scrapes.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            scrapes.micros.fetch_add(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
        }
    });
    scraping
}

/// Makes a scrape. Returns its bytes.
async fn scrape(address: &str) -> Result<usize, AnyError> {
    let mut stream = TcpStream::connect(address).await?;
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    match answer.starts_with(b"HTTP/1.1 200 ") {
        true => Ok(answer.len()),
        false => Err(String::from_utf8_lossy(&answer[..answer.len().min(200)]).into()),
    }
}
