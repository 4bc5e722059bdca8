//! `stele repair`.

use super::progress::Progress;
use crate::config::ConfigError;
use anyhow::{Context, Result};
use base::env::{Clock, Env, SystemClock};
use clap::Args;
use engine::repair::{Loss, Lost, RepairReport, repair_dir};
use engine::{Engine, Error, Options};
use indicatif::HumanCount;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use table::local::adopt::adopt_trees;

/// Threads for the background work of the engine that is opened on the outcome.
const THREADS: usize = 2;
const INCOMPLETE: u8 = 1;

/// Arguments of `repair`.
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// Damaged data directory; it is only read.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// New or empty directory for the salvaged data. It needs as much disk space as the old one.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Repairs a data directory: 0 nothing is lost, 1 something is, 2 could not repair.
pub(crate) fn repair(args: &RepairArgs) -> Result<ExitCode> {
    let env = Env::real(THREADS);
    let (from, into) = (resolved(&args.data_dir)?, resolved(&args.into)?);
    if into.starts_with(&from) {
        let text = format!("{} is inside the damaged directory", args.into.display());
        return Err(ConfigError(text).into());
    }
    let mut progress = Progress::new();
    let repaired = repair_dir(&env, &args.data_dir, &args.into, &mut |at| {
        progress.show(at.file, at.bytes, at.bytes_total);
    });
    drop(progress);
    let report = match repaired {
        Ok(report) => report,
        Err(error @ Error::Unusable { .. }) => return Err(ConfigError(error.to_string()).into()),
        Err(error) => return Err(error).context("nothing was repaired or changed"),
    };
    let tables = adopt(env, &args.into).context("could not open the new directory")?;
    let complete = report.is_complete() && tables.is_empty();
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", object(&report, &tables, complete))?,
        false => show(&report, &tables, complete, &args.into, &mut out)?,
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

/// The path without links and dots, as far as it exists.
fn resolved(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let existing = absolute.ancestors().find(|above| above.exists());
    let Some(existing) = existing else { return Ok(absolute) };
    let rest = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
    Ok(existing.canonicalize()?.join(rest))
}

/// Opens the new directory and makes its tables fit its trees; says what that took.
fn adopt(env: Env, into: &Path) -> Result<Vec<String>> {
    let engine = Engine::open_with_env(env, into, Options::default())?;
    let done = adopt_trees(&engine, SystemClock.now_micros())?;
    engine.close()?;
    Ok(done)
}

fn show(
    report: &RepairReport,
    tables: &[String],
    complete: bool,
    into: &Path,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    for loss in &report.losses {
        writeln!(out, "{loss}")?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    for line in tables {
        writeln!(out, "tables: {line}")?;
    }
    if report.rebuilt {
        writeln!(
            out,
            "the manifest was unusable; trees were rebuilt from their SSTables, so a missing \
             file cannot be detected"
        )?;
    }
    if !complete {
        writeln!(out, "values that lost data had overwritten or deleted may reappear")?;
    }
    let verdict = match (report.losses.len(), complete) {
        (0, true) => "nothing is lost".to_owned(),
        (0, false) => "nothing is known to be lost".to_owned(),
        (1, _) => "1 loss".to_owned(),
        (count, _) => format!("{count} losses"),
    };
    writeln!(
        out,
        "{verdict}: {} has {} trees; {} SSTables copied, {} rewritten, {} entries; {} batches \
         kept from the log",
        into.display(),
        HumanCount(report.trees),
        HumanCount(report.copied),
        HumanCount(report.rewritten),
        HumanCount(report.entries),
        HumanCount(report.log_batches),
    )
}

fn object(report: &RepairReport, tables: &[String], complete: bool) -> Value {
    let loss = |loss: &Loss| {
        let Loss { file, offset, reason, lost } = loss;
        let lost = match lost {
            Lost::Rows { tree, rows } => json!({
                "tree": tree.map(|tree| tree.0),
                "from_row": rows.start.escape_ascii().to_string(),
                "to_row": rows.end.as_ref().map(|end| end.escape_ascii().to_string()),
            }),
            Lost::Batches { from, to, trees } => json!({
                "from_sequence": from,
                "to_sequence": to,
                "trees": trees.iter().map(|tree| tree.0).collect::<Vec<_>>(),
            }),
        };
        json!({"file": file, "offset": offset, "reason": reason, "lost": lost})
    };
    json!({
        "complete": complete,
        "losses": report.losses.iter().map(loss).collect::<Vec<_>>(),
        "notes": report.notes,
        "tables": tables,
        "rebuilt": report.rebuilt,
        "trees": report.trees,
        "ssts_copied": report.copied,
        "ssts_rewritten": report.rewritten,
        "entries": report.entries,
        "log_batches": report.log_batches,
    })
}
