//! `stele check`.

use super::progress::Progress;
use anyhow::Result;
use base::env::Env;
use clap::Args;
use engine::check::{Finding, Report, check_dir};
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use table::local::check::{Misfits, check_tables};

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Data directory to check.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

const DAMAGED: u8 = 1;
const UNUSABLE: u8 = 2;

/// Checks a data directory: 0 clean, 1 damaged, 2 could not check.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let mut progress = Progress::new();
    let env = Env::real(1);
    let checked = check_dir(&env, &args.dir, &mut |at| {
        progress.show(at.file, at.bytes, at.bytes_total);
    });
    let checked = checked.map(|report| with_tables(&env, &args.dir, report));
    drop(progress);
    let mut out = std::io::stdout().lock();
    match checked {
        Ok(report) => {
            let shown = if args.json { show_json } else { show };
            shown(&report, &mut out)?;
            Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
        }
        Err(error) => {
            match args.json {
                true => {
                    let error = error.to_string();
                    writeln!(out, "{}", json!({"verdict": "unusable", "error": error}))?;
                }
                false => writeln!(out, "unusable: {error}")?,
            }
            Ok(ExitCode::from(UNUSABLE))
        }
    }
}

/// Adds to `report` where the tables of a server do not fit the trees in `dir`.
fn with_tables(env: &Env, dir: &Path, mut report: Report) -> Report {
    match check_tables(env, dir) {
        Ok(Some(Misfits { findings, notes })) => {
            findings.into_iter().for_each(|what| report.add(dir.to_owned(), 0, what));
            report.notes.extend(notes);
        }
        Ok(None) => {}
        Err(error) => {
            report.notes.push(format!("could not compare tables with trees: {error}"));
        }
    }
    report
}

fn show(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{finding}\n  next: {}", finding.advice)?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let verdict = match report.findings.len() {
        0 => "clean".to_owned(),
        1 => "damaged (1 finding)".to_owned(),
        count => format!("damaged ({count} findings)"),
    };
    writeln!(
        out,
        "{verdict}: {} trees; {} SSTables with {} and {} entries; {} batches in the log",
        HumanCount(report.trees),
        HumanCount(report.ssts),
        HumanBytes(report.sst_bytes),
        HumanCount(report.entries),
        HumanCount(report.log_batches),
    )?;
    match report.group_log_records {
        0 => Ok(()),
        records => writeln!(out, "{} records in the group log", HumanCount(records)),
    }
}

fn show_json(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    let finding = |finding: &Finding| {
        let Finding { file, offset, what, advice } = finding;
        json!({"file": file, "offset": offset, "what": what, "next": advice})
    };
    let findings: Vec<_> = report.findings.iter().map(finding).collect();
    let object = json!({
        "verdict": if report.is_clean() { "clean" } else { "damaged" },
        "findings": findings,
        "notes": report.notes,
        "trees": report.trees,
        "ssts": report.ssts,
        "sst_bytes": report.sst_bytes,
        "entries": report.entries,
        "log_batches": report.log_batches,
        "group_log_records": report.group_log_records,
    });
    writeln!(out, "{object}")
}
