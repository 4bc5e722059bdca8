//! `bench row-heat`: what samples of hot rows cost reads and writes of the store. Two stores with the same
//! rows, one with samples and one without, do the same work in turns, on one thread.

use crate::AnyError;
use base::env::SystemClock;
use bench_core::{SplitMix64, Spread, Stopwatch, print};
use clap::Args;
use engine::{Durability, Engine, Options};
use std::path::Path;
use std::sync::Arc;
use table::mutate::WriteTime;
use table::{
    CreateTable, FamilySpec, Local, Pieces, ReadRows, RowMutation, RowMutations, RowSet, Store,
    TableName, Timestamp,
};

/// Options of the benchmark `bench row-heat`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RowHeatArgs {
    /// Rows that each of the stores has.
    #[arg(long, default_value_t = 100_000)]
    rows: u64,
    /// Operations of a slice of reads or writes.
    #[arg(long, default_value_t = 20_000)]
    operations: u64,
    /// Slices of each store and kind of work, in turns.
    #[arg(long, default_value_t = 31)]
    pairs: u64,
}

/// Runs the benchmark on one thread.
pub(crate) fn run(args: &RowHeatArgs) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(compare(args))
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Read,
    Write,
    Scan,
}

async fn compare(args: &RowHeatArgs) -> Result<(), AnyError> {
    let dir = tempfile::tempdir()?;
    let with = Filled::open(&dir.path().join("with"), args.rows).await?;
    let mut without = Filled::open(&dir.path().join("without"), args.rows).await?;
    without.store = without.store.without_heat();
    for (name, work) in
        [("read a row", Work::Read), ("write a row", Work::Write), ("scan a row", Work::Scan)]
    {
        let (mut ons, mut offs) = (Vec::new(), Vec::new());
        for pair in 0..args.pairs {
            if pair % 2 == 0 {
                ons.push(with.slice(args, work, pair).await?);
                offs.push(without.slice(args, work, pair).await?);
            } else {
                offs.push(without.slice(args, work, pair).await?);
                ons.push(with.slice(args, work, pair).await?);
            }
        }
        let ratio = Spread::of(ons.iter().zip(&offs).map(|(on, off)| on / off));
        let (on, off) = (Spread::of(ons), Spread::of(offs));
        print(&format!(
            "{name:<12} with samples {:>7.0} ns CPU, without {:>7.0} ns, with/without {:.4} ({:.4} to {:.4})",
            on.median, off.median, ratio.median, ratio.low, ratio.high
        ));
    }
    Ok(())
}

/// A store, its table, and rows that were written.
struct Filled {
    store: Local,
    table: TableName,
}

impl Filled {
    async fn open(dir: &Path, rows: u64) -> Result<Self, AnyError> {
        let options = Options { durability: Durability::None, ..Options::default() };
        let store = Local::open(Engine::open(dir, options)?, Arc::new(SystemClock))?;
        let table = TableName::new("projects/p/instances/i/tables/t")?;
        let create = CreateTable {
            name: table.clone(),
            families: vec![("f".to_owned(), FamilySpec::default())],
            splits: Vec::new(),
            deletion_protection: false,
            granularity: table::Granularity::default(),
            row_key_schema: None,
        };
        store.create_table(create).await?;
        let filled = Self { store, table };
        for number in 0..rows {
            filled.write(number).await?;
        }
        Ok(filled)
    }

    async fn write(&self, number: u64) -> Result<(), AnyError> {
        let set = RowMutation::SetCell {
            family: "f".to_owned(),
            qualifier: "q".into(),
            timestamp: WriteTime::At(Timestamp(1_000)),
            value: vec![b'v'; 100].into(),
        };
        let row = RowMutations { row: key(number).into(), mutations: vec![set] };
        Ok(self.store.mutate_row(&self.table, row).await?)
    }

    /// Reads one row, or all rows. Returns their number.
    async fn read(&self, row: Option<u64>) -> Result<u64, AnyError> {
        let keys = row.map(|number| key(number).into()).into_iter().collect();
        let rows = RowSet { keys, ..RowSet::default() };
        let request = ReadRows { rows, ..ReadRows::default() };
        let mut stream = self.store.read_rows(&self.table, request, Pieces::default()).await?;
        let mut read = 0;
        while let Some(batch) = stream.next_batch().await {
            read = batch?.stats.rows_returned;
        }
        Ok(read)
    }

    /// Does the work of a slice. Returns the nanoseconds of an operation.
    async fn slice(&self, args: &RowHeatArgs, work: Work, seed: u64) -> Result<f64, AnyError> {
        let mut random = SplitMix64(seed);
        let watch = Stopwatch::start();
        let operations = match work {
            Work::Scan => self.read(None).await?,
            Work::Read | Work::Write => {
                for _ in 0..args.operations {
                    let number = random.below(args.rows);
                    match work {
                        Work::Write => self.write(number).await?,
                        _ => assert_eq!(self.read(Some(number)).await?, 1, "the row is there"),
                    }
                }
                args.operations
            }
        };
        Ok(watch.spent().cpu.as_nanos() as f64 / operations.max(1) as f64)
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("user{number:012}").into_bytes()
}
