//! The command line: subcommands and their help. What a setting of the server is, its default and
//! its range are written once, on [`crate::config::Settings`].

use crate::admin::AdminArgs;
use crate::adopt::AdoptArgs;
use crate::config::ServeArgs;
use crate::copies::{BackupArgs, CheckpointArgs, CloneArgs, RestoreArgs};
use crate::import::ImportArgs;
use crate::inspect::{CheckArgs, DumpArgs, RepairArgs};
use crate::load::LoadArgs;
use crate::manual::{CompletionsArgs, ManArgs};
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
    /// Load many rows straight into a data directory that no server has open.
    ///
    /// Reads what `import` reads, and writes it past log and memtable into SSTables that become part
    /// of the table all at once, or not at all: a load that stops leaves nothing behind, and is begun
    /// anew. The input is in order of its row keys, or is sorted first (--sort). Records of one key
    /// are one row: of two cells of a column the later record's is kept. Lines that cannot be loaded
    /// go to a file with their number and the reason.
    LoadSorted(Box<LoadArgs>),
    /// Show any file of a data directory as text, or what the directory's manifest says.
    ///
    /// Keys and values are escaped: \x00, \n, \\. Nothing is changed, and nothing is locked: of a
    /// directory in use, what is shown may be gone already.
    Dump(DumpArgs),
    /// Verify a whole data directory without changing it.
    ///
    /// Reads every byte that counts and goes on after each finding. Prints each finding with file,
    /// offset and what to do next, then the verdict. Exit status: 0 clean, 1 damaged, 2 could not
    /// check (in use, of a newer format, no data directory).
    Check(CheckArgs),
    /// Make tables of the trees of a data directory that no table names.
    ///
    /// Gives the directory to servers if a program that embeds the engine made it: each of its trees
    /// becomes a table below projects/recovered/instances/recovered, with a family for each number it
    /// has cells of, and that program cannot write to it any more. Trees that are empty are removed.
    /// Nothing else is changed; run again after a crash, it goes on.
    Adopt(AdoptArgs),
    /// Salvage what verifies of a damaged data directory into a new one.
    ///
    /// Prints what is lost, by file, rows or sequence numbers, and reason, then a summary. The old
    /// directory is never changed. Restoring a backup is better where there is one: where newer data
    /// is lost, what it had overwritten or deleted shows again. Exit status: 0 nothing is lost,
    /// 1 something is or may be, 2 refused before anything was touched.
    Repair(RepairArgs),
    /// Ask a running server what it does, and tell it what to do.
    ///
    /// Speaks to the server's HTTP address, which is reachable from this machine only unless the
    /// server was started with --insecure-listen.
    Admin(AdminArgs),
    /// Copy a store as it is at one moment, of a running server or a stopped one, by hard links.
    ///
    /// The copy is a data directory of the same store: every write that was acknowledged before,
    /// none that was made after. SSTables take no more room until one of the two has merged them.
    Checkpoint(CheckpointArgs),
    /// Make a store of its own of a stopped one, or of a checkpoint, by hard links.
    ///
    /// The old directory is not changed. The clone has backups of its own.
    Clone(CloneArgs),
    /// Back up a store, running or stopped, to a directory or an S3-compatible object store.
    ///
    /// Only SSTables that the destination does not have are sent. A backup that was interrupted is
    /// gone on with when the same command is run again; until its end it is none. What it holds is
    /// stated: every write up to a sequence number, and when that was.
    Backup(Box<BackupArgs>),
    /// Restore a backup into a new directory.
    ///
    /// Every checksum is compared before a byte is used. A restore that was interrupted goes on
    /// where it was when the same command is run again.
    Restore(Box<RestoreArgs>),
    /// Print the completions for a shell.
    ///
    /// For bash, for example: stele completions bash > /usr/share/bash-completion/completions/stele
    Completions(CompletionsArgs),
    /// Write the manual pages to a directory.
    Man(ManArgs),
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
