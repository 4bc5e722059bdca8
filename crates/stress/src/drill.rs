//! The parent: starts workers, kills them, and gives the verdict.

use crate::plan::{End, Run};
use crate::report::{Event, Memory, Tally};
use crate::work::check;
use crate::{ArgumentError, StressArgs};
use anyhow::{Context, Result, bail};
use base::env::{Clock, FileSystem, RealFileSystem, SystemClock};
use indicatif::HumanCount;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often progress is printed.
const PRINT_EVERY: Duration = Duration::from_secs(10);
/// How long a worker may be silent, but for what it is asked to do.
const PATIENCE: Duration = Duration::from_secs(300);
/// A cycle works for no longer than this, and no longer than that part of the whole.
const WORK_MAX: Duration = Duration::from_secs(60);
const WORK_PART: u32 = 6;
/// Every byte is checked after one kill in so many.
const CHECK_EVERY: u64 = 4;

/// Runs all cycles. The exit status is 0 if nothing was wrong.
pub(crate) fn run(args: &StressArgs) -> Result<ExitCode> {
    let mut drill = Drill::new(args)?;
    let outcome = drill.go();
    let mut out = std::io::stdout().lock();
    if drill.tally.batches > 0 {
        write!(out, "{}", drill.tally.latencies.show())?;
    }
    match outcome {
        Ok(()) => {
            std::fs::remove_dir_all(&drill.dir)
                .with_context(|| format!("cannot remove {}", drill.dir.display()))?;
            writeln!(out, "stress passed: {}", drill.summary())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(what) => {
            let Run { seed, writers, readers, .. } = drill.run;
            let (dir, rows) = (drill.dir.display(), args.rows);
            writeln!(out, "wrong in cycle {}: {what}", drill.cycle)?;
            writeln!(
                out,
                "the store is kept as it was left in {dir}/store, and as it was before the last kill's recovery in {dir}/before"
            )?;
            writeln!(
                out,
                "once more: stele-stress --seed {seed} --minutes {} --writers {writers} --readers \
                 {readers} --rows {rows} --data-dir ANOTHER",
                args.minutes
            )?;
            writeln!(out, "stress FAILED: {}", drill.summary())?;
            Ok(ExitCode::FAILURE)
        }
    }
}

struct Drill {
    run: Run,
    dir: PathBuf,
    begun: Duration,
    length: Duration,
    cycle: u64,
    kills: u64,
    closes: u64,
    checks: u64,
    tally: Tally,
    printed: Duration,
}

impl Drill {
    fn new(args: &StressArgs) -> Result<Self> {
        if !(args.minutes > 0.0 && args.minutes <= 1e6) {
            bail!(ArgumentError("--minutes must be more than 0 and at most 1000000".to_owned()));
        }
        let seed = args.seed.unwrap_or_else(|| SystemClock.now_micros() as u64 % 1_000_000_000);
        let rows = u16::try_from(args.rows / u32::from(args.writers)).unwrap_or(u16::MAX);
        let run = Run { seed, writers: args.writers, readers: args.readers, rows };
        let dir = args.data_dir.clone();
        let name = dir.display();
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {name}"))?;
        if !RealFileSystem.list(&dir).with_context(|| format!("cannot list {name}"))?.is_empty() {
            bail!(ArgumentError(format!(
                "{name} is not empty: stress wants a directory of its own"
            )));
        }
        let dir = dir.canonicalize().with_context(|| format!("cannot open {name}"))?;
        std::fs::write(dir.join("run.json"), serde_json::to_vec(&run)?)
            .with_context(|| format!("cannot write to {}", dir.display()))?;
        let begun = SystemClock.monotonic();
        writeln!(
            std::io::stdout(),
            "stress: seed {seed}, {} minutes, {} writers, {} readers, 3 trees of {} rows, in {}",
            args.minutes,
            args.writers,
            args.readers,
            u32::from(rows) * u32::from(args.writers),
            dir.display()
        )?;
        Ok(Self {
            run,
            dir,
            begun,
            length: Duration::from_secs_f64(args.minutes * 60.0),
            cycle: 0,
            kills: 0,
            closes: 0,
            checks: 0,
            tally: Tally::default(),
            printed: begun,
        })
    }

    fn elapsed(&self) -> Duration {
        SystemClock.monotonic().saturating_sub(self.begun)
    }

    /// All cycles; the last one is closed, not killed.
    fn go(&mut self) -> Result<(), String> {
        loop {
            self.cycle += 1;
            let left = self.length.saturating_sub(self.elapsed());
            let longest = WORK_MAX.min(self.length / WORK_PART).min(left);
            let end = match longest.is_zero() {
                true => End::Closed(Duration::ZERO),
                false => End::draw(&self.run, self.cycle, longest),
            };
            self.run_cycle(end)?;
            self.print_progress();
            if longest.is_zero() {
                return Ok(());
            }
        }
    }

    fn run_cycle(&mut self, end: End) -> Result<(), String> {
        self.keep_before()?;
        let (mut worker, events) = self.start().map_err(|error| format!("{error:#}"))?;
        let listened = self.listen(&mut worker, &events, end);
        // Whatever happened, it is not left running.
        if listened.is_err() {
            let _ = worker.kill();
            let _ = worker.wait();
        }
        let status = listened?;
        match end {
            End::Closed(_) if status.success() => self.closes += 1,
            End::Closed(_) => return Err(format!("the worker ended with {status}")),
            _ => self.kills += 1,
        }
        if self.cycle.is_multiple_of(CHECK_EVERY) || status.success() {
            self.checks += 1;
            check(&self.dir.join("store"))?;
        }
        Ok(())
    }

    fn start(&self) -> Result<(Child, Receiver<Event>)> {
        let program = std::env::current_exe().context("this program is not to be found")?;
        let mut worker = Command::new(program)
            .arg("--data-dir")
            .arg(&self.dir)
            .args(["--worker-cycle", &self.cycle.to_string()])
            // What glibc keeps for each of many threads is not the engine's.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a worker")?;
        let out = worker.stdout.take().context("standard output is a pipe")?;
        let (send, receive) = channel();
        let hear = move || hear(BufReader::new(out), &send);
        std::thread::Builder::new().name("stele-stress-ear".to_owned()).spawn(hear)?;
        Ok((worker, receive))
    }

    /// Listens to the worker until its end has come.
    fn listen(
        &mut self,
        worker: &mut Child,
        events: &Receiver<Event>,
        end: End,
    ) -> Result<ExitStatus, String> {
        let started = SystemClock.monotonic();
        let mut due = match end {
            End::KilledAfterStart(after) => Some(started + after),
            _ => None,
        };
        let mut heard = started;
        loop {
            let now = SystemClock.monotonic();
            if due.is_some_and(|due| now >= due) {
                break;
            }
            if now.saturating_sub(heard) > PATIENCE {
                return Err(format!("the worker has said nothing for {PATIENCE:?}"));
            }
            let until = due.map_or(PRINT_EVERY, |due| due.saturating_sub(now).min(PRINT_EVERY));
            match events.recv_timeout(until) {
                Ok(event) => {
                    heard = SystemClock.monotonic();
                    if matches!(event, Event::Opened) {
                        due = match end {
                            End::KilledAtWork(after) | End::Closed(after) => Some(heard + after),
                            End::KilledAfterStart(_) => due,
                        };
                    }
                    self.take(event)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = worker.wait().map_err(|error| error.to_string())?;
                    return Err(format!("the worker ended by itself, with {status}"));
                }
            }
            if SystemClock.monotonic().saturating_sub(self.printed) >= PRINT_EVERY {
                self.print_progress();
            }
        }
        match end {
            // It closes when its input ends.
            End::Closed(_) => drop(worker.stdin.take()),
            _ => worker.kill().map_err(|error| format!("cannot kill the worker: {error}"))?,
        }
        loop {
            match events.recv_timeout(PATIENCE) {
                Ok(event) => self.take(event)?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("the worker has not ended for {PATIENCE:?}"));
                }
            }
        }
        worker.wait().map_err(|error| error.to_string())
    }

    fn take(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Opened => {}
            Event::Did(tally) => self.tally.add(&tally),
            Event::Wrong(what) => return Err(what),
        }
        Ok(())
    }

    /// Keeps the store as the last worker left it, until the next one has opened and closed it:
    /// SSTables, which never change, by a second name.
    fn keep_before(&self) -> Result<(), String> {
        let (store, before) = (self.dir.join("store"), self.dir.join("before"));
        let keep = || -> std::io::Result<()> {
            if before.exists() {
                std::fs::remove_dir_all(&before)?;
            }
            if !store.exists() {
                return Ok(());
            }
            std::fs::create_dir(&before)?;
            for name in RealFileSystem.list(&store)? {
                let (from, to) = (store.join(&name), before.join(&name));
                match name.extension().is_some_and(|kind| kind == "sst") {
                    true => std::fs::hard_link(from, to)?,
                    false => std::fs::copy(from, to).map(drop)?,
                }
            }
            Ok(())
        };
        keep().map_err(|error| format!("cannot keep the store in {}: {error}", before.display()))
    }

    fn print_progress(&mut self) {
        self.printed = SystemClock.monotonic();
        let tally = &self.tally;
        let line = format!(
            "{:>6.0} s  cycle {:<4} {} batches, {} reads, {} rows scanned, {} kills, longest \
             write {:.0?}, memory at most {} MiB",
            self.elapsed().as_secs_f64(),
            self.cycle,
            HumanCount(tally.batches),
            HumanCount(tally.gets + tally.row_reads + tally.scans),
            HumanCount(tally.scanned_rows),
            self.kills,
            tally.latencies.max(),
            self.memory(),
        );
        // Progress that nobody can see is no reason to stop.
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    /// The most that was in use, by budget.
    fn memory(&self) -> String {
        let most = |(budget, memory): (&u64, &Memory)| {
            let Memory { bytes, charged } = memory;
            format!("{} of {} ({} charged)", bytes >> 20, budget >> 20, charged >> 20)
        };
        self.tally.memory.iter().map(most).collect::<Vec<_>>().join(", ")
    }

    fn summary(&self) -> String {
        let tally = &self.tally;
        let counts = [
            (self.cycle, "cycles"),
            (self.kills, "kills"),
            (self.closes, "closes"),
            (tally.quiet, "quiet moments"),
            (self.checks, "checks of every byte"),
            (tally.batches, "batches"),
            (tally.ingests, "of them ingested"),
            (tally.gets, "gets"),
            (tally.row_reads, "row reads"),
            (tally.scans, "scans"),
            (tally.scanned_rows, "rows scanned"),
            (tally.snapshots, "snapshots held"),
            (tally.checkpoints, "checkpoints"),
            (tally.flushes, "flushes"),
            (tally.compactions, "compactions"),
            (tally.stalls, "stalls"),
            (tally.slowdowns, "slowdowns"),
        ];
        let counts: Vec<String> =
            counts.iter().map(|(count, what)| format!("{} {what}", HumanCount(*count))).collect();
        format!(
            "seed {}, {:.1} minutes, {}; longest write {:.0?}; memory at most {} MiB; at most {} descriptors beside those of SSTables",
            self.run.seed,
            self.elapsed().as_secs_f64() / 60.0,
            counts.join(", "),
            tally.latencies.max(),
            self.memory(),
            tally.descriptors,
        )
    }
}

/// Hands on what the worker says. The last line of one that was killed may be half a line.
fn hear(out: impl BufRead, events: &Sender<Event>) {
    for line in out.lines() {
        let Ok(line) = line else { return };
        let Ok(event) = serde_json::from_str(&line) else { continue };
        if events.send(event).is_err() {
            return;
        }
    }
}
