//! Manual pages and shell completions, made from the definition of the command line.

use crate::cli::Cli;
use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory for the pages; created if missing. Existing pages are replaced.
    dir: PathBuf,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to print completions for.
    shell: Shell,
}

/// Writes a page for the program and one for each of its commands.
pub(crate) fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let dir = &args.dir;
    let written =
        std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    written.with_context(|| format!("could not write manual pages to {}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the completions for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    // Gathered first: the generator panics if standard output is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "stele", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}
