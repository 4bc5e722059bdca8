//! The import itself: read, batch, send, finish in order, keep the place.

use super::args::ImportArgs;
use super::checkpoint::{Checkpoint, CheckpointFile, Place};
use super::direct::Direct;
use super::exported::row_of;
use super::input::{Input, InputRow};
use super::place::{Earlier, look};
use super::progress::Progress;
use super::rejects::{Reject, Rejects};
use super::remote::Remote;
use super::source::is_same_file;
use super::target::{Target, persist, persist_unless_refused, plain_schema, write_all};
use crate::config::ConfigError;
use crate::state_file::StateFile;
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
use table::{RowMutation, RowMutations};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Bytes and mutations that are sent together, unless one row has more. The server takes
/// [`table::limits::MUTATIONS_MAX`] mutations and a message of `bigtable::REQUEST_BYTES_MAX`.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_MUTATIONS: usize = table::limits::MUTATIONS_MAX / 2;
/// Bytes of a message beside names and values, for each cell and each row, rounded up.
const CELL_BYTES: usize = 32;
/// Interval between writes of the checkpoint.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// Runs an import to its end.
pub(crate) fn run(args: &ImportArgs) -> Result<ExitCode> {
    let source = &args.source;
    source.table()?;
    source.timestamp_micros()?;
    refuse_outputs(args)?;
    let (mut input, input_bytes) = source.input()?;
    if args.create_table {
        input.check_schema()?;
    }
    let job = source.job(&input)?;
    let file = args.checkpoint().map(CheckpointFile::hold).transpose()?;
    let earlier = Earlier::load(args, file.as_ref(), job)?;

    let runtime = Runtime::new().context("could not start threads")?;
    let target: Arc<dyn Target> = match &args.data_dir {
        Some(dir) => Arc::new(Direct::open(dir, source.table()?)?),
        None => {
            let server = args.connect.server(&args.endpoint, "h2")?;
            Arc::new(runtime.block_on(Remote::connect(server, source.table()?))?)
        }
    };
    let mut known_families = HashSet::new();
    if args.create_table {
        let schema = input.schema();
        runtime.block_on(persist(|| target.create_table(&schema)))?;
        known_families.extend(schema.column_families.into_keys());
    }
    if input.is_export()
        && let Some(table) = runtime.block_on(persist(|| target.schema()))?
    {
        input.fit(&table);
        known_families.extend(table.column_families.into_keys());
    }
    let identity = runtime.block_on(persist(|| target.identity()))?;
    let mut checkpoint = earlier.place(args, &identity)?;
    if input.is_export() {
        // Cells have their own times.
        checkpoint.timestamp_micros = 0;
    }
    runtime.block_on(look(args, &checkpoint, target.as_ref()))?;
    let mut import = Import {
        args,
        input,
        target,
        identity,
        runtime,
        rejects: Rejects::resume(&args.rejects(), checkpoint.rejects_len)?,
        progress: Progress::new(input_bytes),
        file,
        saved: SystemClock.monotonic(),
        in_flight: VecDeque::new(),
        keys: HashSet::new(),
        families: known_families,
        last: None,
        last_key: Bytes::new(),
        checkpoint,
    };
    let outcome = import.all();
    import.progress.finish();
    let kept = if outcome.is_err() { import.save(Duration::ZERO) } else { Ok(()) };
    let closed = import.runtime.block_on(import.target.close());
    import.conclude(outcome.and(closed), kept)
}

/// Refuses files of the command that are part of its input, or one and the same.
fn refuse_outputs(args: &ImportArgs) -> Result<(), ConfigError> {
    let rejects = args.rejects();
    args.source.refuse_output(&rejects, "--rejects")?;
    let Some(checkpoint) = args.checkpoint() else { return Ok(()) };
    for path in StateFile::paths(&checkpoint) {
        args.source.refuse_output(&path, "--checkpoint")?;
        if is_same_file(&path, &rejects) {
            let text = format!("--checkpoint and --rejects are both {}", rejects.display());
            return Err(ConfigError(text));
        }
    }
    Ok(())
}

/// An import under way. `checkpoint` says what is finished.
struct Import<'a> {
    args: &'a ImportArgs,
    input: Input,
    target: Arc<dyn Target>,
    /// Identity of the table when the import began.
    identity: String,
    runtime: Runtime,
    rejects: Rejects,
    progress: Progress,
    file: Option<CheckpointFile>,
    saved: Duration,
    in_flight: VecDeque<Sent>,
    /// Keys of the rows in flight and in the batch being filled.
    keys: HashSet<Bytes>,
    /// Families that the table has, as far as it is known.
    families: HashSet<String>,
    /// The last finished batch that has rows.
    last: Option<Finished>,
    /// Key of the last row that was written.
    last_key: Bytes,
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
    /// The place in the input behind it.
    end: Place,
}

/// Rows that were sent, and for each of them why it was refused if it was.
struct Finished {
    rows: Arc<Vec<RowMutations>>,
    refused: Vec<Option<String>>,
}

/// A batch on its way, and what will become of its rows.
struct Sent {
    batch: Batch,
    rows: Arc<Vec<RowMutations>>,
    outcomes: JoinHandle<Result<Vec<Option<String>>>>,
}

impl Import<'_> {
    fn all(&mut self) -> Result<()> {
        self.begin()?;
        self.skip_done()?;
        self.check_rejects(None)?;
        let at = Timestamp(self.checkpoint.timestamp_micros);
        let mut batch = Batch::default();
        let read = loop {
            let item = match self.input.next(at) {
                Ok(Some(item)) => item,
                Ok(None) => break Ok(()),
                // The rows before the damage are written first.
                Err(damage) => break Err(damage),
            };
            self.add(item, &mut batch)?;
            if self.is_full(&batch) {
                self.send(std::mem::take(&mut batch))?;
            }
        };
        let written = self.send(batch).and_then(|()| self.finish_all());
        read.and(written)?;
        self.sync()
    }

    /// Sees to it that the timestamp of all cells is known before there is one of them.
    fn begin(&mut self) -> Result<()> {
        let micros = self.checkpoint.timestamp_micros;
        let given = self.args.source.wanted_micros().is_some();
        match &self.file {
            Some(file) => file.save(&self.checkpoint)?,
            None if given || self.input.is_export() => {}
            None => self.progress.say(&format!(
                "no checkpoint is written; if the import is interrupted, rerun it with \
                 --timestamp {micros} to avoid duplicate versions"
            )),
        }
        Ok(())
    }

    /// Reads over what an earlier run finished.
    fn skip_done(&mut self) -> Result<()> {
        let done = self.checkpoint.place;
        if done == Place::default() {
            return Ok(());
        }
        self.progress.say(&format!(
            "resuming after {} of the input ({} rows, {} rejected)",
            HumanBytes(done.offset),
            HumanCount(self.checkpoint.rows),
            HumanCount(self.checkpoint.rejected),
        ));
        self.input.skip_files(&done)?;
        let at = Timestamp(self.checkpoint.timestamp_micros);
        let mut end = Place::default();
        while end.is_before(&done)
            && let Some(item) = self.input.next(at)?
        {
            end = item.end;
        }
        if end != done {
            bail!(
                "the input has changed since the import began, or another version of stele began \
                 the import; pass --restart to import it again"
            );
        }
        Ok(())
    }

    /// Returns whether the batch is to be sent before `row` is put into it, which would make it too
    /// large.
    fn is_full_for(batch: &Batch, row: &SizedRow) -> bool {
        !batch.rows.is_empty()
            && (batch.bytes + row.bytes > BATCH_BYTES
                || batch.mutations + row.row.mutations.len() > BATCH_MUTATIONS)
    }

    fn is_full(&self, batch: &Batch) -> bool {
        batch.origins.len() + batch.rejects.len() >= self.args.batch_rows as usize
            || batch.bytes >= BATCH_BYTES
            || batch.mutations >= BATCH_MUTATIONS
    }

    /// Puts a record into the batch, or into another after it where it has no room, after the rows
    /// before it if one of them has its key.
    fn add(&mut self, item: InputRow, batch: &mut Batch) -> Result<()> {
        match item.content {
            Ok(row) => {
                if let Some(why) = self.create_families(&row)? {
                    let reject = Reject::row(item.line, why, row_of(&row));
                    batch.bytes += reject.bytes();
                    batch.rejects.push(reject);
                    batch.end = item.end;
                    return Ok(());
                }
                let row = SizedRow::of(row);
                if Self::is_full_for(batch, &row) {
                    self.send(std::mem::take(batch))?;
                }
                if !self.keys.insert(row.row.row.clone()) {
                    self.send(std::mem::take(batch))?;
                    self.finish_all()?;
                    self.keys.insert(row.row.row.clone());
                }
                batch.bytes += row.bytes;
                batch.mutations += row.row.mutations.len();
                batch.rows.push(row.row);
                batch.origins.push((item.line, item.text));
            }
            Err(reject) => {
                batch.bytes += reject.bytes();
                batch.rejects.push(reject);
            }
        }
        batch.end = item.end;
        Ok(())
    }

    /// Creates the families of a row of an export that are missing, if that is asked for. Returns the reason
    /// if the table can have no such family.
    fn create_families(&mut self, row: &RowMutations) -> Result<Option<String>> {
        if !self.args.create_table || !self.input.is_export() {
            return Ok(None);
        }
        for mutation in &row.mutations {
            if let RowMutation::SetCell { family, .. } = mutation
                && !self.families.contains(family)
            {
                if self.input.tells_families() {
                    bail!(
                        "family {family} is not in the schema that the export tells, so it may be of sums; \
                         create it as it was, and rerun the command"
                    );
                }
                let schema = plain_schema([family.as_str()]);
                let create = || self.target.create_table(&schema);
                if let Some(why) = self.runtime.block_on(persist_unless_refused(create))? {
                    return Ok(Some(why));
                }
                self.families.insert(family.clone());
            }
        }
        Ok(None)
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
                    // The records of one row of an export follow each other.
                    let more = self.input.is_export() && row.row == self.last_key;
                    self.last_key = row.row.clone();
                    self.checkpoint.rows += u64::from(!more);
                    self.checkpoint.cells += cells(row);
                }
                Some(reason) if self.input.is_export() => {
                    batch.rejects.push(Reject::row(*line, reason.clone(), row_of(row)));
                }
                Some(reason) => batch.rejects.push(Reject::new(*line, reason.clone(), text)),
            }
        }
        if !rows.is_empty() {
            self.last = Some(Finished { rows, refused: outcomes });
        }
        batch.rejects.sort_by_key(|reject| reject.line);
        for reject in &batch.rejects {
            self.rejects.write(reject)?;
        }
        let done = &mut self.checkpoint;
        done.rejected += batch.rejects.len() as u64;
        done.rejects_len = self.rejects.len();
        done.place = batch.end;
        self.progress.show(done.place.offset, done.rows, done.rejected);
        self.check_rejects(batch.rejects.last())?;
        self.save(CHECKPOINT_EVERY)
    }

    /// Stops the import if too much is rejected. `last` is the last reject.
    fn check_rejects(&self, last: Option<&Reject>) -> Result<()> {
        let (max, record) = (self.args.max_rejects(), self.input.record());
        if self.checkpoint.rejected <= max {
            return Ok(());
        }
        let last = last.map(|last| format!(" ({record} {}: {})", last.line, last.reason));
        Err(anyhow!(
            "more than {max} {record}s were rejected{}; fix the input or the options and pass \
             --restart, or resume with a larger --max-rejects",
            last.unwrap_or_default()
        ))
    }

    /// Refuses to call an import complete that lacks rows of an export, unless the user allowed that.
    fn check_whole(&self) -> Result<()> {
        let rejected = self.checkpoint.rejected;
        if rejected == 0 || !self.input.is_export() || self.args.allows_rejects() {
            return Ok(());
        }
        Err(anyhow!(
            "{} records of the export were rejected, and all others are imported; fix {} and import it \
             with --format export-jsonl, or pass --max-rejects COUNT to allow rejects",
            HumanCount(rejected),
            self.rejects.path().display()
        ))
    }

    /// Puts on disk what was written so far, wherever it was written to. An error if the server may
    /// have lost some of it.
    fn sync(&mut self) -> Result<()> {
        let synced = persist(|| self.target.sync(&self.identity));
        self.runtime.block_on(synced)?;
        self.rejects.sync()
    }

    /// Saves the checkpoint if the last one is older than `age`.
    fn save(&mut self, age: Duration) -> Result<()> {
        let now = SystemClock.monotonic();
        if self.file.is_none() || now.saturating_sub(self.saved) < age {
            return Ok(());
        }
        self.sync()?;
        if let Some(Finished { rows, refused }) = self.last.take() {
            let written = rows.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
            self.checkpoint.see(written.map(|(row, _)| row));
        }
        if let Some(file) = &self.file {
            file.save(&self.checkpoint)?;
        }
        self.saved = SystemClock.monotonic();
        Ok(())
    }

    /// Says how it went, and removes the checkpoint of a complete import. `kept` is what became of
    /// the last checkpoint of another.
    fn conclude(self, outcome: Result<()>, kept: Result<()>) -> Result<ExitCode> {
        let done = &self.checkpoint;
        let mut summary = format!(
            "imported {} rows with {} cells into {}",
            HumanCount(done.rows),
            HumanCount(done.cells),
            self.args.source.table()?,
        );
        if done.rejected > 0 {
            let path = self.rejects.path().display();
            let (rejected, record) = (HumanCount(done.rejected), self.input.record());
            summary += &format!("; {rejected} {record}s rejected, see {path}");
        }
        writeln!(std::io::stdout(), "{summary}")?;
        if outcome.is_ok() {
            self.file.as_ref().map_or(Ok(()), CheckpointFile::remove)?;
            return self.check_whole().map(|()| ExitCode::SUCCESS);
        }
        let micros = done.timestamp_micros;
        self.progress.say(&match (&self.file, kept) {
            (Some(_), Ok(())) => "interrupted; rerun the command to resume".to_owned(),
            (Some(_), Err(error)) => format!(
                "interrupted; rerun the command to resume from the last checkpoint, which is \
                 older: {error:#}"
            ),
            (None, _) if self.input.is_export() => {
                "interrupted; rerun the command to write all rows again, which changes no cell that \
                 is there"
                    .to_owned()
            }
            (None, _) => format!(
                "interrupted; rerun the command with --timestamp {micros} to start over without \
                 duplicate versions"
            ),
        });
        outcome.map(|()| ExitCode::SUCCESS)
    }
}

/// A row and about how long it is in a message.
struct SizedRow {
    row: RowMutations,
    bytes: usize,
}

impl SizedRow {
    fn of(row: RowMutations) -> Self {
        let cells = row.mutations.iter().map(|mutation| match mutation {
            RowMutation::SetCell { family, qualifier, value, .. }
            | RowMutation::MergeToCell { family, qualifier, state: value, .. } => {
                CELL_BYTES + family.len() + qualifier.len() + value.len()
            }
            RowMutation::DeleteFromColumn { family, qualifier, .. } => {
                CELL_BYTES + family.len() + qualifier.len()
            }
            _ => CELL_BYTES,
        });
        let bytes = CELL_BYTES + row.row.len() + cells.sum::<usize>();
        Self { row, bytes }
    }
}

/// Returns how many cells a row gets. A cell that adds up takes two mutations.
fn cells(row: &RowMutations) -> u64 {
    let is_cell = |it: &&RowMutation| !matches!(it, RowMutation::DeleteFromColumn { .. });
    row.mutations.iter().filter(is_cell).count() as u64
}
