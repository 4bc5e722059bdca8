//! The export itself: read, write part after part, record each, resume.

use super::manifest::Manifest;
use super::part::PartWriter;
use super::part_list::{self, PartList, Totals};
use super::place::{self, Found};
use super::selection::Range;
use super::source::{Piece, Source};
use crate::import::progress::Progress;
use crate::import::target::{Attempts, Failure, persist};
use crate::state_file::StateFile;
use anyhow::{Context, Result, bail};
use indicatif::HumanCount;
use interchange::rows::{Format, RowWriter, WriteOptions};
use std::path::Path;
use tokio::runtime::Runtime;

/// The source, the destination and the form of an export.
pub(super) struct Plan<'a> {
    pub(super) dir: &'a Path,
    pub(super) job: String,
    /// Random name for the export, unless it resumes an earlier one.
    pub(super) id: String,
    pub(super) format: Format,
    pub(super) options: WriteOptions,
    pub(super) limits: Limits,
    pub(super) range: Range,
    /// True if a source that does not tell its table is believed to have the same one as before.
    pub(super) assume_same_table: bool,
    pub(super) source: &'a dyn Source,
    pub(super) runtime: &'a Runtime,
    /// Called at each step; an error stops the export there.
    pub(super) step: &'a dyn Fn(Step) -> Result<()>,
}

/// Size at which a part ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) bytes: u64,
    pub(super) rows: u64,
}

/// A moment at which a test may stop an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The source is ready, and nothing is changed yet.
    Ready,
    /// The manifest is written.
    Begun,
    /// The list of parts is open.
    Listed,
    /// Parts that the list does not have are removed.
    Cleaned,
    /// A row of a part is written.
    Row,
    /// A part is synced under its temporary name.
    Synced,
    /// The part has its name.
    Renamed,
    /// The list of parts has it.
    Recorded,
}

/// An export that has begun, and is not complete.
pub(super) struct Export<'a> {
    plan: Plan<'a>,
    file: StateFile,
    manifest: Manifest,
    list: PartList,
    progress: Progress,
}

impl<'a> Export<'a> {
    /// Begins or resumes an export in a directory that this process holds. Nothing in the directory
    /// changes before the source has answered.
    pub(super) fn begin(plan: Plan<'a>, file: StateFile, found: Found) -> Result<Self> {
        let identity = plan.runtime.block_on(persist(|| plan.source.identity()))?;
        let fresh = || {
            let schema = plan.runtime.block_on(persist(|| plan.source.schema()))?;
            let (id, job) = (plan.id.clone(), plan.job.clone());
            anyhow::Ok(Manifest::new(id, job, identity.clone(), schema.as_ref(), plan.format))
        };
        let manifest = match found {
            Found::Nothing => fresh()?,
            Found::Unfinished(found) => {
                let parts = part_list::check_parts(plan.dir, &found)?;
                resumed(found, parts, &identity, plan.assume_same_table)?
            }
            Found::Old => {
                plan.runtime.block_on(persist(|| first_rows(plan.source, &plan.range)))?;
                fresh()?
            }
        };
        (plan.step)(Step::Ready)?;
        manifest.save(&file)?;
        (plan.step)(Step::Begun)?;
        let list = PartList::open(plan.dir, &manifest)?;
        (plan.step)(Step::Listed)?;
        place::remove_unrecorded(plan.dir, &list)?;
        (plan.step)(Step::Cleaned)?;
        let (progress, totals) = (Progress::new(None), list.totals());
        if totals.parts > 0 {
            progress.say(&format!(
                "resuming after {} parts ({} rows)",
                HumanCount(totals.parts),
                HumanCount(totals.rows)
            ));
        }
        Ok(Self { plan, file, manifest, list, progress })
    }

    /// Returns the sums over all finished parts.
    pub(super) fn totals(&self) -> Totals {
        self.list.totals()
    }

    /// Returns where the export shows how far it is.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Exports the rows that are not in a finished part.
    pub(super) fn all(&mut self) -> Result<()> {
        let mut attempts = Attempts::new();
        loop {
            let parts = self.list.totals().parts;
            let mut range = self.plan.range.clone();
            if let Some(next) = self.list.next_key()? {
                range.start = next;
            }
            // A range that ends where it starts has no row.
            if range.end.as_ref().is_some_and(|end| *end <= range.start) {
                break;
            }
            match self.read(&range)? {
                Ok(()) => break,
                Err(Failure::Later(why)) => {
                    if self.list.totals().parts > parts {
                        attempts = Attempts::new();
                    }
                    self.plan.runtime.block_on(attempts.failed(&why))?;
                }
                Err(failure) => return Err(failure.into_error()),
            }
        }
        self.check_table()?;
        // Families may have come since the export began.
        let schema = self.plan.runtime.block_on(persist(|| self.plan.source.schema()))?;
        self.manifest.add_schema(schema)?;
        self.manifest.complete = true;
        self.manifest.totals = self.list.totals();
        self.manifest.save(&self.file)
    }

    /// Writes parts with the rows of one read. The outer error is of the destination.
    fn read(&mut self, range: &Range) -> Result<Result<(), Failure>> {
        let mut pieces = match self.plan.runtime.block_on(self.plan.source.read(range)) {
            Ok(pieces) => pieces,
            Err(failure) => return Ok(Err(failure)),
        };
        let mut part: Option<PartWriter> = None;
        loop {
            let batch = match self.plan.runtime.block_on(pieces.next()) {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(failure) => return Ok(Err(failure)),
            };
            for piece in batch {
                let mut open = match part.take() {
                    Some(part) => part,
                    None => {
                        let path = self.plan.dir.join(self.list.next_file()?);
                        PartWriter::create(path, self.plan.format, self.plan.options)?
                    }
                };
                self.write(&mut open, &piece)?;
                let limits = self.plan.limits;
                let full = open.bytes() >= limits.bytes || open.rows() >= limits.rows;
                if piece.last && full {
                    self.finish(open)?;
                } else {
                    part = Some(open);
                }
            }
            self.show(part.as_ref());
        }
        part.map_or(Ok(()), |part| self.finish(part))?;
        Ok(Ok(()))
    }

    fn write(&self, part: &mut PartWriter, piece: &Piece) -> Result<()> {
        part.write(piece)?;
        if piece.last { (self.plan.step)(Step::Row) } else { Ok(()) }
    }

    fn show(&mut self, part: Option<&PartWriter>) {
        let (rows, bytes) = part.map_or((0, 0), |part| (part.rows(), part.bytes()));
        let totals = self.list.totals();
        let (rows, parts) = (HumanCount(totals.rows + rows), HumanCount(totals.parts));
        self.progress.tell(totals.bytes + bytes, format!("{rows} rows, {parts} parts finished"));
    }

    fn finish(&mut self, mut part: PartWriter) -> Result<()> {
        part.sync()?;
        (self.plan.step)(Step::Synced)?;
        let part = part.rename()?;
        (self.plan.step)(Step::Renamed)?;
        self.check_table()?;
        self.list.add(part)?;
        (self.plan.step)(Step::Recorded)
    }

    /// Refuses to record rows if the table is not the one of the first part. A table that is made again
    /// never gets an earlier identity, so all reads before this check were of the same table.
    fn check_table(&self) -> Result<()> {
        let began = &self.manifest.source;
        if began.is_empty() {
            return Ok(());
        }
        let identity = self.plan.runtime.block_on(persist(|| self.plan.source.identity()))?;
        if identity.is_empty() {
            bail!(
                "the server no longer tells which table it reads, so the part is not recorded; check \
                 the permissions of the identity, then rerun the command to resume"
            );
        }
        if identity != *began {
            bail!(
                "the table was recreated while it was exported: it was {began} and is {identity}; \
                 pass --restart to export all rows, or use another directory"
            );
        }
        Ok(())
    }
}

/// Returns the manifest of an interrupted export with that number of parts, if the table is still the same.
fn resumed(
    mut found: Manifest,
    parts: u64,
    identity: &str,
    assume_same_table: bool,
) -> Result<Manifest> {
    if parts == 0 {
        // No row is written yet, so it may be any table.
        found.source = identity.to_owned();
        return Ok(found);
    }
    if found.source.is_empty() || identity.is_empty() {
        if assume_same_table {
            found.source = identity.to_owned();
            return Ok(found);
        }
        bail!(
            "the server does not tell whether the table is the one that the interrupted export read; \
             if it is, pass --assume-same-table to resume, else --restart to export all rows"
        );
    }
    if found.source != identity {
        bail!(
            "the interrupted export read table {}; this table is {identity}: it was recreated or is \
             in another store; pass --restart to export all rows, or use another directory",
            found.source
        );
    }
    Ok(found)
}

/// Writes the rows of `range` to an output that is read at once, and returns their number. A read that fails
/// goes on after the last row, unless it failed inside of one, because the output takes nothing back.
pub(super) fn stream(
    source: &dyn Source,
    runtime: &Runtime,
    range: Range,
    writer: &mut dyn RowWriter,
) -> Result<u64> {
    let began = runtime.block_on(persist(|| source.identity()))?;
    let mut attempts = Attempts::new();
    let mut stream = Stream { source, runtime, range, writer, rows: 0, in_row: false };
    loop {
        let rows = stream.rows;
        match stream.read()? {
            Ok(()) => break,
            Err(Failure::Later(why)) if !stream.in_row => {
                if stream.rows > rows {
                    attempts = Attempts::new();
                }
                runtime.block_on(attempts.failed(&why))?;
            }
            Err(failure) => return Err(failure.into_error()),
        }
    }
    let ended = runtime.block_on(persist(|| source.identity()))?;
    if !began.is_empty() && ended != began {
        bail!("the table was recreated while it was exported, or the server no longer tells it");
    }
    Ok(stream.rows)
}

/// An export to an output that is read at once.
struct Stream<'a> {
    source: &'a dyn Source,
    runtime: &'a Runtime,
    /// Rows that are still to come.
    range: Range,
    writer: &'a mut dyn RowWriter,
    rows: u64,
    /// True if cells of a row are written, and others are not.
    in_row: bool,
}

impl Stream<'_> {
    /// Writes the rows of one read. The outer error is of the output.
    fn read(&mut self) -> Result<Result<(), Failure>> {
        if self.range.end.as_ref().is_some_and(|end| *end <= self.range.start) {
            return Ok(Ok(()));
        }
        let mut pieces = match self.runtime.block_on(self.source.read(&self.range)) {
            Ok(pieces) => pieces,
            Err(failure) => return Ok(Err(failure)),
        };
        loop {
            let batch = match self.runtime.block_on(pieces.next()) {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(Ok(())),
                Err(failure) => return Ok(Err(failure)),
            };
            for Piece { row, last } in batch {
                self.writer.write(&row).context("could not write to standard output")?;
                self.in_row = !last;
                if last {
                    self.rows += 1;
                    self.range.start.clear();
                    self.range.start.extend_from_slice(&row.key);
                    self.range.start.push(0);
                }
            }
        }
    }
}

/// Reads the first rows of `range`, to see that the source can be read.
async fn first_rows(source: &dyn Source, range: &Range) -> Result<(), Failure> {
    let mut pieces = source.read(range).await?;
    pieces.next().await.map(|_| ())
}
