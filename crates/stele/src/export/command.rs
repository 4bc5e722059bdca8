//! The command: from its options to an export.

use super::args::ExportArgs;
use super::place;
use super::run::{Export, Limits, Plan, stream};
use super::source::{Directory, Remote, Source};
use anyhow::{Context, Result};
use indicatif::{HumanBytes, HumanCount};
use interchange::rows::{RowWriter, writer};
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use tokio::runtime::Runtime;

/// Runs an export to its end.
pub(crate) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let (job, limits) = (args.job()?, limits(args)?);
    args.selection.check()?;
    let runtime = Runtime::new().context("could not start threads")?;
    if args.to_stdout() {
        let output = BufWriter::with_capacity(1 << 20, std::io::stdout());
        let mut writer = writer(args.format(), args.write_options(), Box::new(output))?;
        let outcome = to_stdout(args, &runtime, writer.as_mut());
        if outcome.is_err() {
            // An output that takes no more bytes is torn already.
            let _ = writer.tear();
        }
        return outcome.map(|()| ExitCode::SUCCESS);
    }
    let dir = &args.destination;
    std::fs::create_dir_all(dir).with_context(|| format!("could not create {}", dir.display()))?;
    let file = place::hold(dir)?;
    let found = place::look(dir, &job, args.restart)?;
    let source = open(args, &runtime)?;
    let plan = Plan {
        dir,
        job,
        id: args.random_id(),
        format: args.format(),
        options: args.write_options(),
        limits,
        range: args.selection.range()?,
        assume_same_table: args.assume_same_table,
        source: source.as_ref(),
        runtime: &runtime,
        step: &|_| Ok(()),
    };
    let mut export = Export::begin(plan, file, found)?;
    let outcome = export.all();
    conclude(args, &export, outcome.and(runtime.block_on(source.close())))
}

/// Prints a summary, also of an interrupted export.
fn conclude(args: &ExportArgs, export: &Export<'_>, outcome: Result<()>) -> Result<ExitCode> {
    export.progress().finish();
    let totals = export.totals();
    let said = format!(
        "exported {} rows with {} cells from {} to {} ({} parts, {})",
        HumanCount(totals.rows),
        HumanCount(totals.cells),
        args.table.name()?,
        args.destination.display(),
        HumanCount(totals.parts),
        HumanBytes(totals.bytes),
    );
    writeln!(std::io::stdout(), "{said}")?;
    if outcome.is_err() {
        let how = if args.restart { "the command without --restart" } else { "the command" };
        export.progress().say(&format!("interrupted; rerun {how} to resume"));
    }
    outcome.map(|()| ExitCode::SUCCESS)
}

fn open(args: &ExportArgs, runtime: &Runtime) -> Result<Box<dyn Source>> {
    let (table, selection) = (args.table.name()?, &args.selection);
    Ok(match &args.data_dir {
        Some(dir) => Box::new(Directory::open(dir, table, selection.filter())?),
        None => {
            let server = args.connect.server(&args.endpoint, "h2")?;
            let remote = Remote::connect(server, table, selection.wire_filter());
            Box::new(runtime.block_on(remote)?)
        }
    })
}

fn limits(args: &ExportArgs) -> Result<Limits> {
    Ok(Limits { bytes: args.part_bytes()?, rows: args.part_rows.unwrap_or(u64::MAX) })
}

/// Writes one file to standard output. There is nothing to resume, so a failure ends it.
fn to_stdout(args: &ExportArgs, runtime: &Runtime, writer: &mut dyn RowWriter) -> Result<()> {
    let source = open(args, runtime)?;
    let streamed = stream(source.as_ref(), runtime, args.selection.range()?, writer);
    let closed = runtime.block_on(source.close());
    let rows = streamed?;
    closed?;
    writer.finish().context("could not write to standard output")?;
    writeln!(std::io::stderr(), "exported {} rows", HumanCount(rows))?;
    Ok(())
}
