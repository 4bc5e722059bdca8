//! `bench commit-tails`: how long commits take beside ingests under a rate limit, and beside
//! checkpoints, against commits of an engine that does nothing else. The three take turns within a
//! run, and the wait for a core is taken off each commit, so that other work on the machine does not
//! count as the engine's.

use crate::AnyError;
use crate::timing::WaitForCore;
use bench_core::{SplitMix64, Spread};
use clap::Args;
use engine::{
    BackgroundRate, Column, Durability, Engine, FamilyId, IngestOptions, Options, Timestamp,
    TreeId, TreeOptions, WriteBatch,
};
use hdrhistogram::Histogram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);
/// Between two commits of a writer: they are a service, not a load of their own.
const BETWEEN_COMMITS: Duration = Duration::from_micros(300);
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// Options of `bench commit-tails`.
#[derive(Debug, Args)]
pub(crate) struct CommitTailsArgs {
    /// Rounds; in each one every phase has its turn.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of a phase.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Threads that write.
    #[arg(long, default_value_t = 2)]
    writers: u64,
    /// Limit of what ingests, flushes and compactions write, in MiB a second.
    #[arg(long, default_value_t = 16)]
    rate_mib: u64,
    /// Rows of each ingest, of 1 KiB.
    #[arg(long, default_value_t = 4096)]
    ingest_rows: u64,
    /// Sync every commit.
    #[arg(long)]
    sync: bool,
    /// Directory under which data is made and removed again. Default: that for temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// What goes on beside the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Ingests,
    Checkpoints,
}

const PHASES: [Beside; 3] = [Beside::Nothing, Beside::Ingests, Beside::Checkpoints];

/// Runs the benchmark and prints, for each phase, its percentiles and their ratios to quiet.
pub(crate) fn run(args: &CommitTailsArgs) -> Result<(), AnyError> {
    let dir = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let options = Options {
        durability: if args.sync { Durability::Sync } else { Durability::None },
        background_rate: BackgroundRate::BytesPerSecond(args.rate_mib << 20),
        ..Options::default()
    };
    let engine = Engine::open(dir.path().join("store"), options)?;
    engine.create_tree(TREE, TreeOptions::default())?;
    let tails =
        Tails { engine: &engine, args, copy: dir.path().join("copy"), rows: AtomicU64::new(0) };
    let mut turns = PHASES.map(|_| Vec::new());
    for round in 0..args.rounds {
        for at in 0..PHASES.len() {
            let phase = (at + round) % PHASES.len();
            turns[phase].push(tails.phase(PHASES[phase])?);
        }
    }
    for (phase, turns_of_phase) in PHASES.iter().zip(&turns) {
        show(*phase, turns_of_phase, &turns[0]);
    }
    engine.close()?;
    Ok(())
}

/// Percentiles of the commits of one turn in microseconds, and how often the other work was done.
struct Turn {
    micros: [f64; 3],
    commits: u64,
    beside: u64,
}

struct Tails<'a> {
    engine: &'a Engine,
    args: &'a CommitTailsArgs,
    copy: PathBuf,
    /// Rows that were ingested.
    rows: AtomicU64,
}

impl Tails<'_> {
    /// Commits for a turn, beside `beside`.
    fn phase(&self, beside: Beside) -> Result<Turn, AnyError> {
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let other = threads.spawn(|| self.beside(beside, &over));
            let writers: Vec<_> =
                (0..self.args.writers).map(|n| threads.spawn(move || self.commits(n))).collect();
            let mut all = Histogram::<u64>::new(3)?;
            for writer in writers {
                all.add(writer.join().map_err(|_| "a writer panicked")??)?;
            }
            over.store(true, Ordering::Relaxed);
            let beside = other.join().map_err(|_| "the other work panicked")??;
            let micros = QUANTILES.map(|at| all.value_at_quantile(at) as f64 / 1e3);
            Ok(Turn { micros, commits: all.len(), beside })
        })
    }

    /// Nanoseconds of the commits of one writer, without its waits for a core.
    fn commits(&self, writer: u64) -> Result<Histogram<u64>, AnyError> {
        let mut nanos = Histogram::new(3)?;
        let core = WaitForCore::of_this_thread();
        let (begun, mut random) = (Instant::now(), SplitMix64(writer));
        while begun.elapsed().as_secs_f64() < self.args.seconds {
            let mut batch = WriteBatch::new();
            let row = random.next_u64().to_be_bytes();
            batch.put(&row, Column::of(FAMILY, b"q"), Timestamp(1), &[1; 100]);
            let (start, waited) = (Instant::now(), core.so_far());
            self.engine.tree(TREE)?.write(&batch)?;
            let took = start.elapsed().saturating_sub(core.so_far() - waited);
            nanos.record(u64::try_from(took.as_nanos())?)?;
            std::thread::sleep(BETWEEN_COMMITS);
        }
        Ok(nanos)
    }

    /// Does what goes on beside the commits until they are over; tells how often.
    fn beside(&self, beside: Beside, over: &AtomicBool) -> Result<u64, AnyError> {
        let mut done = 0;
        while beside != Beside::Nothing && !over.load(Ordering::Relaxed) {
            match beside {
                Beside::Ingests => self.ingest()?,
                _ => checkpoint(self.engine, &self.copy)?,
            }
            done += 1;
        }
        Ok(done)
    }

    fn ingest(&self) -> Result<(), AnyError> {
        let first = self.rows.fetch_add(self.args.ingest_rows, Ordering::Relaxed);
        let mut writer = self.engine.tree(TREE)?.sst_writer(&IngestOptions::default())?;
        let (mut random, mut value) = (SplitMix64(first), vec![0; 1024]);
        for number in first..first + self.args.ingest_rows {
            value
                .chunks_mut(8)
                .for_each(|piece| piece.copy_from_slice(&random.next_u64().to_le_bytes()));
            writer.put(&number.to_be_bytes(), Column::of(FAMILY, b"q"), Timestamp(1), &value)?;
        }
        self.engine.ingest(&mut writer.finish()?)?;
        Ok(())
    }
}

fn checkpoint(engine: &Engine, dir: &Path) -> Result<(), AnyError> {
    engine.checkpoint(dir)?;
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
fn show(phase: Beside, turns: &[Turn], quiet: &[Turn]) {
    let count = |of: fn(&Turn) -> u64| turns.iter().map(of).sum::<u64>();
    let name = match phase {
        Beside::Nothing => "quiet".to_owned(),
        Beside::Ingests => format!("beside {} ingests", count(|turn| turn.beside)),
        Beside::Checkpoints => format!("beside {} checkpoints", count(|turn| turn.beside)),
    };
    println!("{name}: {} commits", count(|turn| turn.commits));
    for (at, quantile) in QUANTILES.iter().enumerate() {
        let us = Spread::of(turns.iter().map(|turn| turn.micros[at]));
        let ratios =
            turns.iter().zip(quiet).map(|(turn, quiet)| turn.micros[at] / quiet.micros[at]);
        let ratio = Spread::of(ratios);
        println!(
            "  p{:<5} {:>9.1} us ({:.1} to {:.1}), to quiet {:.2} ({:.2} to {:.2})",
            quantile * 100.0,
            us.median,
            us.low,
            us.high,
            ratio.median,
            ratio.low,
            ratio.high
        );
    }
}
