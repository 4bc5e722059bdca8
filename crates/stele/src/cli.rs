//! The command line: subcommands and their help. What a setting of the server is, its default and
//! its range are written once, on [`crate::config::Settings`].

use crate::config::ServeArgs;
use crate::import::ImportArgs;
use crate::inspect::{CheckArgs, DumpArgs};
use clap::{Parser, Subcommand};

/// A wide-column database that serves Bigtable clients from its own durable engine.
#[derive(Debug, Parser)]
#[command(name = "stele", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server until SIGTERM or SIGINT.
    ///
    /// Settings come from the file given with --config, are overridden by environment variables
    /// (STELE_...) and those by flags. Unknown keys are refused.
    Serve(Box<ServeArgs>),
    /// Import rows from CSV, TSV, JSON lines or Debian control stanzas.
    ///
    /// One record becomes one row: the key fields its key, each other field a cell. Lines that
    /// cannot be imported go to a file with their number and the reason. An import that was
    /// stopped goes on where it was when the same command is run again.
    Import(Box<ImportArgs>),
    /// Show any file of a data directory as text.
    Dump(DumpArgs),
    /// Verify a whole data directory without changing it.
    ///
    /// Prints each finding with file and offset, then the verdict. Exit status: 0 clean,
    /// 1 damaged, 2 unusable (in use, of a newer format, no data directory).
    Check(CheckArgs),
    /// Print the version.
    Version,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_is_explained() {
        let cli = Cli::command();
        for command in cli.get_subcommands() {
            for arg in command.get_arguments().filter(|arg| arg.get_id() != "help") {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty(), "{} {} has no help", command.get_name(), arg.get_id());
            }
        }
    }
}
