//! The import itself: read, batch, send, finish in order, keep the place.

use super::args::ImportArgs;
use super::checkpoint::{Checkpoint, CheckpointFile};
use super::direct::Direct;
use super::format::{Item, Records};
use super::lines::Lines;
use super::mapping::Mapping;
use super::progress::Progress;
use super::rejects::{Reject, Rejects};
use super::remote::Remote;
use super::target::{Target, write_all};
use anyhow::{Context, Result, anyhow, bail};
use base::env::{Clock, SystemClock};
use bytes::Bytes;
use engine::Timestamp;
use indicatif::{HumanBytes, HumanCount};
use std::collections::{HashSet, VecDeque};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use table::RowMutations;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Bytes and mutations at which a batch is sent although it has room for more rows.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_MUTATIONS: usize = 50_000;
/// How often the checkpoint is written.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// Runs an import to its end.
pub(crate) fn run(args: &ImportArgs) -> Result<ExitCode> {
    let source = &args.source;
    let (mapping, job) = (source.mapping(), source.job()?);
    let file = args.checkpoint().map(CheckpointFile::new);
    source.layout()?;
    let (mut lines, input_bytes) = source.open()?;
    let checkpoint = place(args, file.as_ref(), job)?;

    let runtime = Runtime::new().context("cannot start threads")?;
    let target: Arc<dyn Target> = match &args.data_dir {
        Some(dir) => Arc::new(Direct::open(dir, source.table()?)?),
        None => Arc::new(runtime.block_on(Remote::connect(&args.endpoint, source.table()?))?),
    };
    if args.create_table {
        let families: Vec<String> = mapping.families().into_iter().map(Into::into).collect();
        runtime.block_on(target.create_table(&families))?;
    }
    let records = source.records(&mut lines)?;
    let mut import = Import {
        args,
        mapping,
        target,
        runtime,
        rejects: Rejects::resume(&args.rejects(), checkpoint.rejects_len)?,
        progress: Progress::new(input_bytes),
        file,
        saved: SystemClock.monotonic(),
        in_flight: VecDeque::new(),
        keys: HashSet::new(),
        checkpoint,
    };
    let outcome = import.all(lines, records);
    import.progress.finish();
    let closed = import.runtime.block_on(import.target.close());
    import.conclude(outcome.and(closed))
}

/// Where to begin: at the checkpoint of an earlier run, or anew.
fn place(args: &ImportArgs, file: Option<&CheckpointFile>, job: String) -> Result<Checkpoint> {
    if let Some(file) = file
        && !args.restart
        && let Some(checkpoint) = file.load(&job)?
    {
        return Ok(checkpoint);
    }
    let timestamp_micros = args.source.timestamp_micros()?;
    Ok(Checkpoint { job, timestamp_micros, ..Checkpoint::default() })
}

/// An import under way. `checkpoint` says what is finished.
struct Import<'a> {
    args: &'a ImportArgs,
    mapping: Mapping,
    target: Arc<dyn Target>,
    runtime: Runtime,
    rejects: Rejects,
    progress: Progress,
    file: Option<CheckpointFile>,
    saved: Duration,
    in_flight: VecDeque<Sent>,
    /// Keys of the rows in flight and in the batch being filled.
    keys: HashSet<Bytes>,
    checkpoint: Checkpoint,
}

/// Records that are finished together.
#[derive(Default)]
struct Batch {
    rows: Vec<RowMutations>,
    /// For each row the line and text it came from.
    origins: Vec<(u64, Vec<u8>)>,
    rejects: Vec<Reject>,
    bytes: usize,
    mutations: usize,
    /// Offset of the first byte of the input after it.
    end: u64,
}

/// A batch on its way, and what will become of its rows.
struct Sent {
    batch: Batch,
    rows: Arc<Vec<RowMutations>>,
    outcomes: JoinHandle<Result<Vec<Option<String>>>>,
}

impl Import<'_> {
    fn all(&mut self, mut lines: Lines, mut records: Box<dyn Records>) -> Result<()> {
        self.skip_done(&mut lines, records.as_mut())?;
        let mut batch = Batch::default();
        while let Some(item) = records.next(&mut lines).context("cannot read the input")? {
            self.add(item, &mut batch)?;
            if self.is_full(&batch) {
                self.send(std::mem::take(&mut batch))?;
            }
        }
        self.send(batch)?;
        self.finish_all()
    }

    /// Reads over what an earlier run finished.
    fn skip_done(&mut self, lines: &mut Lines, records: &mut dyn Records) -> Result<()> {
        let done = self.checkpoint.end;
        if done == 0 {
            return Ok(());
        }
        self.progress.say(&format!(
            "going on after {} of the input ({} rows, {} rejected)",
            HumanBytes(done),
            HumanCount(self.checkpoint.rows),
            HumanCount(self.checkpoint.rejected),
        ));
        let mut end = 0;
        while end < done {
            let item = records.next(lines).context("cannot read the input")?;
            end = item.map_or(u64::MAX, |item| item.end);
        }
        if end != done {
            bail!("the input is not the one that was begun: pass --restart to import it anew");
        }
        Ok(())
    }

    fn is_full(&self, batch: &Batch) -> bool {
        batch.origins.len() + batch.rejects.len() >= self.args.batch_rows as usize
            || batch.bytes >= BATCH_BYTES
            || batch.mutations >= BATCH_MUTATIONS
    }

    /// Puts a record into the batch, after the rows before it if one of them has its key.
    fn add(&mut self, item: Item, batch: &mut Batch) -> Result<()> {
        let at = Timestamp(self.checkpoint.timestamp_micros);
        match item.content.and_then(|record| self.mapping.row(record, at)) {
            Ok(row) => {
                if !self.keys.insert(row.row.clone()) {
                    self.send(std::mem::take(batch))?;
                    self.finish_all()?;
                    self.keys.insert(row.row.clone());
                }
                batch.bytes += item.text.len();
                batch.mutations += row.mutations.len();
                batch.rows.push(row);
                batch.origins.push((item.line, item.text));
            }
            Err(reason) => batch.rejects.push(Reject::new(item.line, reason, &item.text)),
        }
        batch.end = item.end;
        Ok(())
    }

    /// Sends a batch, once fewer than the allowed number are under way.
    fn send(&mut self, mut batch: Batch) -> Result<()> {
        if batch.origins.is_empty() && batch.rejects.is_empty() {
            return Ok(());
        }
        while self.in_flight.len() >= self.args.batches as usize {
            self.finish_first()?;
        }
        let rows = Arc::new(std::mem::take(&mut batch.rows));
        let (target, sent) = (Arc::clone(&self.target), Arc::clone(&rows));
        let outcomes = self.runtime.spawn(async move { write_all(target.as_ref(), &sent).await });
        self.in_flight.push_back(Sent { batch, rows, outcomes });
        Ok(())
    }

    fn finish_all(&mut self) -> Result<()> {
        while !self.in_flight.is_empty() {
            self.finish_first()?;
        }
        Ok(())
    }

    /// Waits for the oldest batch, and counts it as done.
    fn finish_first(&mut self) -> Result<()> {
        let Some(Sent { mut batch, rows, outcomes }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        let outcomes = self.runtime.block_on(outcomes).context("a writer panicked")??;
        for ((outcome, row), (line, text)) in outcomes.iter().zip(rows.iter()).zip(&batch.origins) {
            self.keys.remove(&row.row);
            match outcome {
                None => {
                    self.checkpoint.rows += 1;
                    self.checkpoint.cells += row.mutations.len() as u64;
                }
                Some(reason) => batch.rejects.push(Reject::new(*line, reason.clone(), text)),
            }
        }
        batch.rejects.sort_by_key(|reject| reject.line);
        for reject in &batch.rejects {
            self.rejects.write(reject)?;
        }
        let done = &mut self.checkpoint;
        done.rejected += batch.rejects.len() as u64;
        done.rejects_len = self.rejects.len();
        done.end = batch.end;
        self.progress.show(done.end, done.rows, done.rejected);
        if self.checkpoint.rejected > self.args.max_rejects {
            let last = batch.rejects.last().map(|r| format!(" (line {}: {})", r.line, r.reason));
            return Err(anyhow!(
                "more than {} lines were rejected{}: mend the input, or the options, and pass \
                 --restart; or go on with a larger --max-rejects",
                self.args.max_rejects,
                last.unwrap_or_default()
            ));
        }
        self.save(CHECKPOINT_EVERY)
    }

    /// Saves the checkpoint if the last one is older than `age`.
    fn save(&mut self, age: Duration) -> Result<()> {
        let now = SystemClock.monotonic();
        if let Some(file) = &self.file
            && now.saturating_sub(self.saved) >= age
        {
            file.save(&self.checkpoint)?;
            self.saved = now;
        }
        Ok(())
    }

    /// Says how it went, and keeps or removes the checkpoint accordingly.
    fn conclude(mut self, outcome: Result<()>) -> Result<ExitCode> {
        let done = &self.checkpoint;
        let mut summary = format!(
            "imported {} rows with {} cells into {}",
            HumanCount(done.rows),
            HumanCount(done.cells),
            self.args.source.table()?,
        );
        if done.rejected > 0 {
            let path = self.rejects.path().display();
            summary += &format!("; {} lines rejected, see {path}", HumanCount(done.rejected));
        }
        writeln!(std::io::stdout(), "{summary}")?;
        if outcome.is_ok() {
            self.file.as_ref().map_or(Ok(()), CheckpointFile::remove)?;
            return Ok(ExitCode::SUCCESS);
        }
        self.save(Duration::ZERO)?;
        self.progress.say(match &self.file {
            Some(_) => "stopped; run the same command again to go on from there",
            None => "stopped; run the same command again to begin anew, nothing is doubled",
        });
        outcome.map(|()| ExitCode::SUCCESS)
    }
}
