//! `bench soak-writes`: random writes at full rate for minutes. How long writes wait, and what reads
//! beside them take, against what they take when nobody writes.

use crate::AnyError;
use crate::timing::WaitForCore;
use bench_core::{SplitMix64, print};
use clap::{Args, ValueEnum};
use engine::{
    BackgroundRate, Buckets, Column, ColumnOf, Durability, Engine, FamilyId, Options, RowRange,
    Timestamp, TreeId, TreeOptions, WriteBatch,
};
use hdrhistogram::Histogram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);
/// Between two reads of one reader: reads beside writes are a service, not a load of their own.
const BETWEEN_READS: Duration = Duration::from_micros(500);

/// Options of `bench soak-writes`.
#[derive(Debug, Args)]
pub(crate) struct SoakWritesArgs {
    /// Minutes of writes.
    #[arg(long, default_value_t = 3.0)]
    minutes: f64,
    /// Threads that write.
    #[arg(long, default_value_t = 2)]
    writers: u64,
    /// Rows, all of them there before the writes begin.
    #[arg(long, default_value_t = 4_000_000)]
    rows: u64,
    /// Bytes of each value.
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Rows of a batch.
    #[arg(long, default_value_t = 10)]
    batch: u64,
    /// Memory of the engine, in MiB.
    #[arg(long, default_value_t = 512)]
    memory_mib: usize,
    /// Limit of what flushes and compactions write.
    #[arg(long, value_enum, default_value_t = Rate::Off)]
    rate: Rate,
    /// Sync every commit.
    #[arg(long)]
    sync: bool,
    /// Directory under which data is made and removed again. Default: that for temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rate {
    Off,
    Auto,
}

/// Runs the soak and prints what it showed.
pub(crate) fn run(args: &SoakWritesArgs) -> Result<(), AnyError> {
    let dir = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let options = Options {
        durability: if args.sync { Durability::Sync } else { Durability::None },
        memory_bytes_max: args.memory_mib << 20,
        background_rate: match args.rate {
            Rate::Off => BackgroundRate::Unlimited,
            Rate::Auto => BackgroundRate::Auto,
        },
        ..Options::default()
    };
    let engine = Engine::open(dir.path(), options)?;
    engine.create_tree(TREE, TreeOptions::default())?;
    let soak = Soak { engine: &engine, args, written: AtomicU64::new(0) };
    soak.fill()?;
    engine.tree(TREE)?.compact_range(&RowRange::ALL)?;
    let time = Duration::from_secs_f64(args.minutes * 60.0);
    soak.reads(time / 10, 1)?;
    let quiet = soak.reads(time / 5, 2)?;
    let before = stalls(&engine);
    let (busy, runs_max) = soak.reads_beside_writes(time)?;
    let after = stalls(&engine);
    let mib = soak.written.load(Ordering::Relaxed) as f64 / f64::from(1 << 20);
    print(&format!("writes: {:.1} MiB/s of keys and values", mib / time.as_secs_f64()));
    show_stalls(&before, &after);
    show_reads("quiet", &quiet);
    show_reads("beside writes", &busy);
    let [calm, loaded] = [&quiet, &busy].map(|reads| reads.whole.value_at_quantile(0.999));
    print(&format!(
        "p99.9 of reads beside writes is {:.1} times that of quiet ones (goal: at most 5)",
        loaded as f64 / calm as f64
    ));
    print(&format!("runs in front of a scan: {runs_max} at most"));
    engine.close()?;
    Ok(())
}

struct Soak<'a> {
    engine: &'a Engine,
    args: &'a SoakWritesArgs,
    /// Bytes of keys and values.
    written: AtomicU64,
}

impl Soak<'_> {
    fn batch(&self, random: &mut SplitMix64, numbers: impl Iterator<Item = u64>) -> WriteBatch {
        let mut batch = WriteBatch::new();
        let mut value = vec![0; self.args.value_bytes];
        for number in numbers {
            value.chunks_mut(8).for_each(|piece| {
                let bytes = random.next_u64().to_le_bytes();
                piece.copy_from_slice(&bytes[..piece.len()]);
            });
            batch.put(&key(number), Column::of(FAMILY, b"q"), Timestamp(1), &value);
        }
        batch
    }

    fn fill(&self) -> Result<(), AnyError> {
        let mut random = SplitMix64(1);
        for first in (0..self.args.rows).step_by(100) {
            let numbers = first..(first + 100).min(self.args.rows);
            self.engine.tree(TREE)?.write(&self.batch(&mut random, numbers))?;
        }
        Ok(())
    }

    /// Reads of random rows for `time`.
    fn reads(&self, time: Duration, seed: u64) -> Result<Latencies, AnyError> {
        let mut latencies = Latencies::new()?;
        let core = WaitForCore::of_this_thread();
        let (mut random, begin) = (SplitMix64(seed), Instant::now());
        while begin.elapsed() < time {
            let number = random.next_u64() % self.args.rows;
            let (start, waited) = (Instant::now(), core.so_far());
            let found =
                self.engine.tree(TREE)?.get(ColumnOf::new(&key(number), FAMILY, b"q"), None)?;
            latencies.record(start.elapsed(), core.so_far().saturating_sub(waited))?;
            if found.is_none() {
                return Err(format!("row {number} is not there").into());
            }
            std::thread::sleep(BETWEEN_READS);
        }
        Ok(latencies)
    }

    /// The same while all writers write; with the most runs that were seen.
    fn reads_beside_writes(&self, time: Duration) -> Result<(Latencies, u64), AnyError> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let write = |seed| self.write(seed, &over);
            let writers: Vec<_> =
                (0..self.args.writers).map(|seed| scope.spawn(move || write(seed))).collect();
            let watch = scope.spawn(|| self.most_runs(&over));
            let reads = self.reads(time, 3);
            over.store(true, Ordering::Relaxed);
            for writer in writers {
                writer.join().map_err(|_| "a writer panicked")??;
            }
            let runs = watch.join().map_err(|_| "the watch of runs panicked")?;
            Ok((reads?, runs))
        })
    }

    fn write(&self, seed: u64, over: &AtomicBool) -> Result<(), AnyError> {
        let mut random = SplitMix64(seed + 10);
        while !over.load(Ordering::Relaxed) {
            let numbers: Vec<u64> =
                (0..self.args.batch).map(|_| random.next_u64() % self.args.rows).collect();
            let batch = self.batch(&mut random, numbers.into_iter());
            self.engine.tree(TREE)?.write(&batch)?;
            let bytes = self.args.batch * (self.args.value_bytes as u64 + 8);
            self.written.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn most_runs(&self, over: &AtomicBool) -> u64 {
        let mut most = 0;
        while !over.load(Ordering::Relaxed) {
            most = most.max(self.engine.metrics().get("level_runs").unwrap_or(0));
            std::thread::sleep(Duration::from_millis(20));
        }
        most
    }
}

/// How long reads took, in microseconds, at least 1.
struct Latencies {
    whole: Histogram<u64>,
    /// Without the time in which the thread could run and had no core.
    on_core: Histogram<u64>,
}

impl Latencies {
    fn new() -> Result<Self, AnyError> {
        Ok(Self { whole: Histogram::new(3)?, on_core: Histogram::new(3)? })
    }

    fn record(&mut self, took: Duration, waited_for_core: Duration) -> Result<(), AnyError> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).map(|micros| micros.max(1));
        self.whole.record(micros(took)?)?;
        self.on_core.record(micros(took.saturating_sub(waited_for_core))?)?;
        Ok(())
    }
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn stalls(engine: &Engine) -> Option<Buckets> {
    engine.metrics().histogram("write_stall_seconds").map(|histogram| histogram.buckets.clone())
}

fn show_stalls(before: &Option<Buckets>, after: &Option<Buckets>) {
    let (Some(before), Some(after)) = (before, after) else { return };
    print("writes that waited, by how long at most:");
    let counts = after.counts.iter().zip(&before.counts).map(|(after, before)| after - before);
    let bounds = after.bounds.iter().map(Some).chain([None]);
    for (bound, count) in bounds.zip(counts).filter(|(_, count)| *count > 0) {
        let bound =
            bound.map_or("longer".to_owned(), |micros| format!("{} ms", *micros as f64 / 1e3));
        print(&format!("  {bound:>10} {count:>10}"));
    }
    let long = after.above(1_000_000) - before.above(1_000_000);
    print(&format!("writes that waited longer than a second: {long} (goal: none)"));
}

fn show_reads(name: &str, latencies: &Latencies) {
    let count = latencies.whole.len();
    for (what, each) in
        [("", &latencies.whole), (" but for the wait for a core", &latencies.on_core)]
    {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|at| each.value_at_quantile(at));
        let max = each.max();
        print(&format!(
            "reads, {name}{what}: {count}; p50 {p50} us, p99 {p99} us, p99.9 {p999} us, longest {max} us"
        ));
    }
}
