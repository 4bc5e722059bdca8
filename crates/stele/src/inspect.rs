//! `stele check` and `stele dump`: looking at a data directory without opening it.

use crate::config::ConfigError;
use anyhow::{Context, Result};
use base::env::{Env, RealFileSystem};
use clap::Args;
use engine::Error;
use engine::check::{Report, check_dir};
use engine::dump::dump_file;
use indicatif::{HumanBytes, HumanCount};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The data directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Arguments of `dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// A file of a data directory: CURRENT, MANIFEST-N, N.log or N.sst.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const DAMAGED: u8 = 1;
const UNUSABLE: u8 = 2;

/// Checks a data directory: 0 clean, 1 damaged, 2 unusable.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match check_dir(&Env::real(1), &args.dir) {
        Ok(report) => {
            show(&report, &mut out)?;
            Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
        }
        Err(error) => {
            writeln!(out, "unusable: {error}")?;
            Ok(ExitCode::from(UNUSABLE))
        }
    }
}

fn show(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let verdict = match report.findings.len() {
        0 => "clean".to_owned(),
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
    )
}

/// Shows a file as text, up to the first damage.
pub(crate) fn dump(args: &DumpArgs) -> Result<ExitCode> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let shown = dump_file(&RealFileSystem, &args.file, &mut out);
    let flushed = out.flush();
    match shown {
        // The reader of a pipe (`head`) has seen enough.
        Err(Error::Io { op: "write", kind: ErrorKind::BrokenPipe, .. }) => {}
        Err(Error::InvalidArgument(what)) => return Err(ConfigError(what).into()),
        Err(error) => return Err(error).context("the file could not be shown to its end"),
        Ok(()) => match flushed {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
            _ => {}
        },
    }
    Ok(ExitCode::SUCCESS)
}
