//! `bench barren-scans`: point reads of a server alone, and beside scans for a column that no row has,
//! over many times its cache; and the work that goes on when those scans are cancelled.

use super::paced::{self, KEY_BYTES, Readers, line};
use super::{Bench, count_rows, histogram};
use crate::AnyError;
use crate::server::Server;
use bench_core::print;
use clap::Args;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use hdrhistogram::Histogram;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Smallest memory budget of a server.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Time after which cancelled scans may not work any more, and for which they are watched then.
const FREE_AFTER: Duration = Duration::from_secs(1);
/// Time from the start of the scans to the first read that counts.
const WARM_UP: Duration = Duration::from_millis(500);

/// The command line of `bench barren-scans`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BarrenArgs {
    /// The server binary to start and measure.
    #[arg(long)]
    server: PathBuf,
    /// The number of rows to load.
    #[arg(long, default_value_t = 200_000)]
    rows: u64,
    /// Bytes of each value (incompressible).
    #[arg(long, default_value_t = 1_024)]
    value_bytes: usize,
    /// The memory budget of the server is this part of the rows, but at least 1 MiB.
    #[arg(long, default_value_t = 100)]
    memory_part: u64,
    /// The number of scans at a time.
    #[arg(long, default_value_t = 64)]
    scans: usize,
    #[command(flatten)]
    readers: Readers,
    /// Turns of a phase without scans and a phase with them.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Starts the server and prints what it measures.
pub(crate) fn run(args: &BarrenArgs) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: &BarrenArgs) -> Result<(), AnyError> {
    let dir = tempfile::tempdir()?;
    let bytes = args.rows * (KEY_BYTES + args.value_bytes) as u64;
    let memory = (bytes / args.memory_part).max(MEMORY_BYTES_MIN);
    let flags = [format!("--memory-bytes-max={memory}"), "--durability=none".into()];
    let mut server = Server::start(&args.server, dir.path(), &flags)?;
    let bench = paced::load(&server, args.rows, args.value_bytes).await?;
    server.rest().await?;
    print(&format!("{} rows of {} MiB, budget {} KiB", args.rows, bytes >> 20, memory >> 10));
    let (mut alone, mut beside) = (histogram()?, histogram()?);
    for _ in 0..args.rounds {
        let quiet = args.readers.read(&bench).await?;
        print(&line("alone", &quiet));
        let scans = start_scans(&bench, args).await?;
        tokio::time::sleep(WARM_UP).await;
        let busy = args.readers.read(&bench).await?;
        drop(scans);
        tokio::time::sleep(FREE_AFTER).await;
        let before = server.cpu()?;
        tokio::time::sleep(FREE_AFTER).await;
        let after = server.cpu()?.saturating_sub(before).as_millis();
        print(&format!("{}   {after} ms CPU in the second second after", line("beside", &busy)));
        alone.add(quiet)?;
        beside.add(busy)?;
    }
    let p99 = |micros: &Histogram<u64>| micros.value_at_quantile(0.99) as f64;
    print(&line("all alone", &alone));
    print(&line("all beside", &beside));
    print(&format!("p99 beside {} scans / alone: {:.2}", args.scans, p99(&beside) / p99(&alone)));
    server.terminate().await
}

/// Starts scans, again and again, until what is returned is dropped.
async fn start_scans(bench: &Arc<Bench>, args: &BarrenArgs) -> Result<JoinSet<()>, AnyError> {
    let mut scans = JoinSet::new();
    for _ in 0..args.scans {
        let mut client = bench.client().await?;
        let column = data::row_filter::Filter::ColumnQualifierRegexFilter("none".into());
        let request = data::ReadRowsRequest {
            table_name: bench.table.clone(),
            filter: Some(data::RowFilter { filter: Some(column) }),
            ..Default::default()
        };
        scans.spawn(async move { while count_rows(&mut client, request.clone()).await.is_ok() {} });
    }
    Ok(scans)
}
