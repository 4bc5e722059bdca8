//! The command line: subcommands and their help. The help, default and range of each server
//! setting are on [`crate::config::Settings`].

use crate::admin::AdminArgs;
use crate::adopt::AdoptArgs;
use crate::cert::CertArgs;
use crate::cluster::ClusterArgs;
use crate::config::ServeArgs;
use crate::copies::{BackupArgs, CheckpointArgs, CloneArgs, RestoreArgs};
use crate::dev_cluster::DevClusterArgs;
use crate::export::ExportArgs;
use crate::identity::IdentityArgs;
use crate::import::ImportArgs;
use crate::inspect::{CheckArgs, DumpArgs, RepairArgs};
use crate::load::LoadArgs;
use crate::load_sorted::LoadSortedArgs;
use crate::manual::{CompletionsArgs, ManArgs};
use clap::{Parser, Subcommand};

/// A wide-column database that serves Bigtable clients from its own durable engine.
#[derive(Debug, Parser)]
#[command(name = "stele", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server until SIGTERM or SIGINT.
    ///
    /// Flags override environment variables (STELE_...), which override the file given with
    /// --config. Unknown settings are rejected.
    Serve(Box<ServeArgs>),
    /// Import rows from CSV, TSV, JSON lines or Debian control stanzas, or from an export.
    ///
    /// The files of an export, also Google's in Avro or SequenceFile, have rows with all their cells.
    /// Each record becomes one row. The key fields make the row key, and every other field becomes
    /// a cell. Rejected lines are written to a file with line number and reason. Rerun the command
    /// to resume an interrupted import.
    Import(Box<ImportArgs>),
    /// Export a table or a part of it to files: Avro, Parquet, SequenceFile, CSV or JSON lines.
    ///
    /// Writes parts part-00000.EXT, part-00001.EXT ... and export.json, which lists them, to a
    /// directory. All keys, qualifiers, timestamps and values come back with `import`. Rerun the
    /// command to resume an interrupted export.
    Export(Box<ExportArgs>),
    /// Test a Bigtable endpoint under load: Stele, an emulator, or Google's service.
    ///
    /// Each workload writes its own rows, verifies every value that it reads, and reports throughput,
    /// latency and errors as text, JSON and a page in HTML. Exit status: 0 done, 1 wrong answers or no
    /// success, 2 a wrong flag. See docs/load.md.
    Load(Box<LoadArgs>),
    /// Load rows in bulk into the data directory of a stopped server.
    ///
    /// Reads the same input as `import` and writes SSTables directly, without the commit log and
    /// the memtable. The table gets all rows at once or none: an interrupted load leaves nothing
    /// behind and starts over. The input must be in row key order, unless --sort is given. Records
    /// with the same key form one row; if two records set the same column, the later one wins.
    /// Rejected lines are written to a file with line number and reason.
    LoadSorted(Box<LoadSortedArgs>),
    /// Print any file of a data directory, or the contents of its manifest, as text.
    ///
    /// Keys and values are escaped: \x00, \n, \\. The command changes nothing and takes no lock, so
    /// the output for a directory in use may be out of date.
    Dump(DumpArgs),
    /// Verify a data directory without changing it.
    ///
    /// Reads and verifies every file, and continues after each finding. Prints each finding with
    /// its file, its offset and the next step, then the verdict. Exit status: 0 clean, 1 damaged,
    /// 2 could not check (directory in use, newer format, or no data directory).
    Check(CheckArgs),
    /// Create tables for the trees of a data directory that belong to no table.
    ///
    /// Each such tree becomes a table below projects/recovered/instances/recovered, with one column
    /// family for each family number in its cells. Empty trees are removed. A directory made by a
    /// program that embeds the engine is handed over to servers: that program can no longer write
    /// to it. Nothing else changes. Rerun the command after a crash.
    Adopt(AdoptArgs),
    /// Salvage a damaged data directory into a new one.
    ///
    /// Copies all data that verifies. Prints each loss with its file, its rows or sequence numbers
    /// and the reason, then a summary. The old directory never changes. Prefer a backup if you have
    /// one: after a loss of newer data, values that it had overwritten or deleted reappear. Exit
    /// status: 0 nothing lost, 1 data lost or possibly lost, 2 refused without changing anything.
    Repair(RepairArgs),
    /// Inspect and control a running server.
    ///
    /// Uses the server's HTTP address.
    Admin(AdminArgs),
    /// Copy a store at one point in time, with hard links; the server may be running.
    ///
    /// The copy is a data directory of the same store. It holds every write acknowledged before the
    /// copy and none made after it. Shared SSTables take no extra disk space until compaction
    /// replaces them in one of the two directories.
    Checkpoint(CheckpointArgs),
    /// Make an independent store from a stopped store or a checkpoint, with hard links.
    ///
    /// The source does not change. The clone has its own store id and its own backups.
    Clone(CloneArgs),
    /// Back up a store, running or stopped, to a directory or an S3-compatible object store.
    ///
    /// Uploads only SSTables that the destination does not have. Rerun the command to resume an
    /// interrupted backup. Until it completes, it does not count as a backup. The output names the
    /// last sequence number in the backup and its time.
    Backup(Box<BackupArgs>),
    /// Restore a backup into a new directory.
    ///
    /// Verifies the checksum of every byte before using it. Rerun the command to resume an
    /// interrupted restore.
    Restore(Box<RestoreArgs>),
    /// Found a cluster of several servers. See docs/cluster.md.
    Cluster(ClusterArgs),
    /// Run a cluster of three servers on this machine, to try it.
    ///
    /// Each server is a process of its own, with a data directory and ports of its own. The cluster's
    /// directory is a file, so that no etcd is needed. SIGTERM or SIGINT stops all of them.
    DevCluster(DevClusterArgs),
    /// Make certificates for trying TLS.
    Cert(CertArgs),
    /// Make tokens and key files for those who may call a server.
    Identity(IdentityArgs),
    /// Print shell completions.
    ///
    /// For example: stele completions bash > /usr/share/bash-completion/completions/stele
    Completions(CompletionsArgs),
    /// Write manual pages to a directory.
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
