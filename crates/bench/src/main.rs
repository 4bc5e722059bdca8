//! Benchmarks: each subcommand prints what it measured. Speed claims come from here and never
//! from timed tests; ratios within one run count more than absolute figures.

mod ablate;
mod bulk;
mod cache_warming;
mod cluster_log;
mod commit_tails;
mod compaction_sim;
mod door;
mod front;
mod granularity;
mod hits;
mod hostile;
mod measure;
mod memtable;
mod prefix_index;
mod range_drops;
mod row_heat;
mod server;
mod soak_writes;
mod sql;
mod timing;
mod train;

use clap::Parser;
use std::process::ExitCode;

/// What ends a run before its time.
type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Measures Stele. Build with --release.
#[derive(Debug, Parser)]
#[command(name = "bench")]
enum Bench {
    /// What each part of the read path buys: the same reads with it switched off and on.
    Ablate(ablate::AblateArgs),
    /// Wide rows that are only read whole: filters of every column, and filters as reads ask.
    Granularity(granularity::GranularityArgs),
    /// Gets before, during and after a compaction, with and without cache warming.
    CacheWarming(cache_warming::CacheWarmingArgs),
    /// A memtable by itself: inserts, seeks, reads by hash.
    Memtable(memtable::MemtableArgs),
    /// Row prefixes: the prefix index against other ways to a block, and scans of prefixes.
    PrefixIndex(prefix_index::PrefixIndexArgs),
    /// Many dropped row ranges that lie over one another: memory, commits, reads, opening again.
    RangeDrops(range_drops::RangeDropsArgs),
    /// Samples of hot rows: reads and writes of the store with and without them.
    RowHeat(row_heat::RowHeatArgs),
    /// A running server through the Bigtable API: load, point reads, scan.
    Bigtable(front::FrontArgs),
    /// The cost of requests beside a server of constants and Google's emulator; needs Go.
    Door(door::DoorArgs),
    /// Point reads of a server, alone and beside scans that find nothing.
    BarrenScans(front::barren::BarrenArgs),
    /// Point reads of a server with very many tables, alone and while its metrics are scraped.
    ScrapedTables(front::scraped::ScrapedArgs),
    /// Sorted bulk load, in CPU per key net of the generator.
    Bulk(bulk::BulkArgs),
    /// What compaction costs for trees of any size, by its own picks, without writing them.
    CompactionSim(compaction_sim::CompactionSimArgs),
    /// Commits beside ingests under a rate limit and beside checkpoints, against quiet ones.
    CommitTails(commit_tails::CommitTailsArgs),
    /// The group log of three nodes: syncs and bytes of a write, and the CPU of groups that sleep.
    ClusterLog(cluster_log::ClusterLogArgs),
    /// Three servers as a cluster beside one: latency, CPU, syncs, failovers, tablets that sleep.
    Cluster(front::clustered::ClusteredArgs),
    /// Stele beside PostgreSQL: reads and writes of single rows, transactions, COPY.
    Sql(sql::SqlArgs),
    /// The table of ClickBench in Stele's columnar tables, PostgreSQL, DuckDB and ClickHouse.
    Hits(hits::HitsArgs),
    /// Random writes at full rate for minutes: stalls of writes, and reads beside them.
    SoakWrites(soak_writes::SoakWritesArgs),
    /// Attacks on a running server, each beside an honest client that is measured.
    Hostile(hostile::HostileArgs),
    /// A server binary driven through named workloads: for its profile, or to compare binaries.
    Train(train::TrainArgs),
}

#[expect(clippy::print_stderr, reason = "a program tells its user what went wrong")]
fn main() -> ExitCode {
    let done = match Bench::parse() {
        Bench::Ablate(args) => ablate::run(&args).map_err(|error| error.to_string()),
        Bench::Granularity(args) => granularity::run(&args).map_err(|error| error.to_string()),
        Bench::CacheWarming(args) => cache_warming::run(&args).map_err(|error| error.to_string()),
        Bench::Memtable(args) => memtable::run(&args).map_err(|error| error.to_string()),
        Bench::PrefixIndex(args) => prefix_index::run(&args).map_err(|error| error.to_string()),
        Bench::BarrenScans(args) => front::barren::run(&args).map_err(|error| error.to_string()),
        Bench::ScrapedTables(args) => front::scraped::run(&args).map_err(|error| error.to_string()),
        Bench::Bulk(args) => bulk::run(&args).map_err(|error| error.to_string()),
        Bench::CompactionSim(args) => compaction_sim::run(&args).map_err(|error| error.to_string()),
        Bench::ClusterLog(args) => cluster_log::run(&args).map_err(|error| error.to_string()),
        Bench::Cluster(args) => front::clustered::run(&args).map_err(|error| error.to_string()),
        Bench::SoakWrites(args) => soak_writes::run(&args).map_err(|error| error.to_string()),
        Bench::Sql(args) => sql::run(&args).map_err(|error| error.to_string()),
        Bench::Hits(args) => hits::run(&args).map_err(|error| error.to_string()),
        Bench::Bigtable(args) => front::run(&args).map_err(|error| error.to_string()),
        Bench::Door(args) => door::run(&args).map_err(|error| error.to_string()),
        Bench::RowHeat(args) => row_heat::run(&args).map_err(|error| error.to_string()),
        Bench::RangeDrops(args) => range_drops::run(&args).map_err(|error| error.to_string()),
        Bench::CommitTails(args) => commit_tails::run(&args).map_err(|error| error.to_string()),
        Bench::Hostile(args) => hostile::run(&args).map_err(|error| error.to_string()),
        Bench::Train(args) => train::run(&args).map_err(|error| error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
