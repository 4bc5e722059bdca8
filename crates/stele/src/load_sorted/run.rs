//! The load itself: read, sort if asked to, merge records of one key, write, install.

use super::args::LoadSortedArgs;
use super::rows::{Loaded, Merged, Merger, Packing, too_large};
use crate::import::direct::Direct;
use crate::import::mapping::Mapping;
use crate::import::progress::Progress;
use crate::import::rejects::{Reject, Rejects};
use crate::import::target::{Target, persist, plain_schema};
use anyhow::{Context, Result, anyhow, bail};
use engine::{RowSorter, SortedRows, Timestamp};
use indicatif::{HumanBytes, HumanCount};
use interchange::lines::Lines;
use interchange::records::{Item, Records};
use std::io::Write;
use std::process::ExitCode;
use table::Error;
use table::local::{LoadedRows, TableLoad};
use tokio::runtime::Runtime;

/// Number of records read between looks at the clock.
const SHOW_EVERY: u64 = 1000;

/// Runs a load to its end.
pub(crate) fn run(args: &LoadSortedArgs) -> Result<ExitCode> {
    let source = &args.source;
    let (mapping, table) = (source.mapping(), source.table()?);
    let (at, sort_options) = (Timestamp(source.timestamp_micros()?), args.sort_options()?);
    source.layout()?;
    let (mut lines, input_bytes) = source.open()?;
    let records = source.records(&mut lines)?;
    let runtime = Runtime::new().context("could not start threads")?;
    let target = Direct::open(&args.data_dir, table.clone())?;
    if args.create_table {
        let schema = plain_schema(mapping.families());
        runtime.block_on(persist(|| target.create_table(&schema)))?;
    }
    let store = target.store();
    let load = store.load(&table, &args.ingest_options()).map_err(explained)?;
    let rejects = Rejects::resume(&args.rejects(), 0)?;
    let progress = Progress::new(input_bytes);
    let mut loading = Loading { args, mapping, at, load, rejects, rejected: 0, progress };
    let written = if args.sort {
        let sorter = target.engine().row_sorter(&sort_options)?;
        loading.sort(lines, records, sorter)
    } else {
        loading.straight(lines, records)
    };
    let outcome = written.and_then(|runs| {
        let loaded = loading.load.finish().context("could not finish the SSTables")?;
        let summary = summary(&loaded, runs);
        let installed = runtime.block_on(store.install(loaded));
        installed.context("SSTables were written but not installed; the table is unchanged")?;
        Ok(summary)
    });
    loading.progress.finish();
    let closed = runtime.block_on(target.close());
    let (path, rejected) = (args.rejects(), HumanCount(loading.rejected));
    let seen = match loading.rejected {
        0 => String::new(),
        _ => format!("; {rejected} lines rejected, see {}", path.display()),
    };
    let summary = outcome.with_context(|| format!("nothing was loaded{seen}"))?;
    writeln!(std::io::stdout(), "loaded {summary} into {table}{seen}")?;
    closed.map(|()| ExitCode::SUCCESS)
}

fn summary(loaded: &LoadedRows, runs: usize) -> String {
    let (rows, cells) = (HumanCount(loaded.rows()), HumanCount(loaded.cells()));
    let (files, bytes) = (loaded.files(), HumanBytes(loaded.bytes()));
    let sorted = match runs {
        0 => String::new(),
        _ => format!(", sorted in {runs} parts"),
    };
    format!("{rows} rows with {cells} cells ({files} files, {bytes}{sorted})")
}

/// Adds the remedy to an error of the table.
fn explained(error: Error) -> anyhow::Error {
    match error {
        Error::NotFound { .. } => {
            anyhow!("{error}; pass --create-table to create missing tables and families")
        }
        error => error.into(),
    }
}

/// A load under way.
struct Loading<'a> {
    args: &'a LoadSortedArgs,
    mapping: Mapping,
    at: Timestamp,
    load: TableLoad,
    rejects: Rejects,
    rejected: u64,
    progress: Progress,
}

impl Loading<'_> {
    /// Writes rows as they come.
    fn straight(&mut self, mut lines: Lines, mut records: Box<dyn Records>) -> Result<usize> {
        let mut merger = Merger::default();
        while let Some(loaded) = self.next(&mut lines, records.as_mut())? {
            let (line, key) = (loaded.line, loaded.row.row.clone());
            match merger.add(loaded) {
                Merged::Kept => {}
                Merged::After(row) => self.write(&row)?,
                Merged::TooLarge(line, reason) => self.reject(&too_large(line, reason))?,
                Merged::OutOfOrder(before, last) => bail!(
                    "line {line}: key \"{:.80}\" is smaller than \"{:.80}\" on line {before}; \
                     the input is not in row key order; pass --sort to sort it first",
                    key.escape_ascii(),
                    last.escape_ascii(),
                ),
            }
        }
        merger.finish().map_or(Ok(()), |row| self.write(&row))?;
        Ok(0)
    }

    /// Sorts, then writes. Gives the number of parts that were sorted apart, 0 if memory held all.
    fn sort(
        &mut self,
        mut lines: Lines,
        mut records: Box<dyn Records>,
        mut sorter: RowSorter,
    ) -> Result<usize> {
        let packing = Packing { at: self.at };
        let (mut packed, mut parts) = (Vec::new(), 0);
        while let Some(loaded) = self.next(&mut lines, records.as_mut())? {
            packing.pack(&loaded, &mut packed);
            sorter.add(&loaded.row.row, &packed).context("cannot sort")?;
            if sorter.runs() > parts {
                parts = sorter.runs();
                let bytes = HumanBytes(sorter.spilled_bytes());
                self.progress.say(&format!("{parts} parts sorted, {bytes}"));
            }
        }
        self.progress.finish();
        if parts > 0 {
            self.progress.say("merging the parts");
        }
        let sorted = sorter.finish().context("cannot sort")?;
        self.progress = Progress::of_rows(sorted.rows());
        let parts = if parts == 0 { 0 } else { sorted.runs().max(parts) };
        self.write_sorted(sorted, &packing)?;
        Ok(parts)
    }

    fn write_sorted(&mut self, mut sorted: SortedRows, packing: &Packing) -> Result<()> {
        let mut merger = Merger::default();
        let mut done = 0u64;
        while let Some((row, packed)) =
            sorted.next_row().context("could not read the sorted input")?
        {
            let loaded = packing.unpack(row, packed)?;
            match merger.add(loaded) {
                Merged::Kept => {}
                Merged::After(row) => self.write(&row)?,
                Merged::TooLarge(line, reason) => self.reject(&too_large(line, reason))?,
                Merged::OutOfOrder(..) => bail!("the sort produced rows out of order"),
            }
            done += 1;
            if done.is_multiple_of(SHOW_EVERY) {
                self.progress.show(done, self.load.rows(), self.rejected);
            }
        }
        merger.finish().map_or(Ok(()), |row| self.write(&row))
    }

    /// The next record that can be loaded.
    fn next(&mut self, lines: &mut Lines, records: &mut dyn Records) -> Result<Option<Loaded>> {
        while let Some(Item { line, end, text, content }) =
            records.next(lines).context("could not read the input")?
        {
            if line.is_multiple_of(SHOW_EVERY) {
                self.progress.show(end.offset, self.load.rows(), self.rejected);
            }
            let row = content.and_then(|record| self.mapping.row(record, self.at));
            let checked = row.map(|row| (self.load.check(&row), row));
            let reason = match checked {
                Ok((Ok(()), row)) => return Ok(Some(Loaded { line, row })),
                Ok((Err(error @ Error::InvalidArgument { .. }), _)) => error.to_string(),
                Ok((Err(error), _)) => return Err(explained(error)),
                Err(reason) => reason,
            };
            self.reject(&Reject::new(line, reason, &text))?;
        }
        Ok(None)
    }

    fn reject(&mut self, reject: &Reject) -> Result<()> {
        self.rejects.write(reject)?;
        self.rejected += 1;
        if self.rejected > self.args.max_rejects {
            bail!(
                "more than {} lines were rejected (line {}: {}); fix the input or the options, \
                 or pass a larger --max-rejects",
                self.args.max_rejects,
                reject.line,
                reject.reason
            );
        }
        Ok(())
    }

    fn write(&mut self, loaded: &Loaded) -> Result<()> {
        let added = self.load.add(&loaded.row);
        added.with_context(|| format!("could not write the row of line {}", loaded.line))
    }
}
