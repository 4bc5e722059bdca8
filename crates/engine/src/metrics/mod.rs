//! Counters, gauges and distributions that make each claim of the engine checkable.
//!
//! In: the parts of an open engine. Out: readings with names, labels and meanings, for the embedding
//! program or the server's metrics. Names and units keep to the rules of Prometheus: base units, the unit
//! last, labels instead of names with a level or a kind in them.

mod of_trees;
mod reading;

pub use reading::{
    GroupedMetrics, HistogramReading, HistogramUnit, Label, MetricKind, Metrics, Reading,
};

use crate::cache::{BlockKind, CacheCounters};
use crate::cell::TreeId;
use crate::memory::budget::Use;
use crate::state::Shared;
use crate::state::running_compactions::CompactionReason;
use crate::tree::TreeState;
use base::histogram::Histogram;
use of_trees::TreeSums;
use reading::Gathered;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the value of a counter.
fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Reads all counters, gauges and distributions of an engine.
pub(crate) fn of_engine(shared: &Shared) -> Metrics {
    of_all(shared, &of_trees::of_groups(shared, &[]).all)
}

/// Reads all of an engine, and the counters and gauges of groups of its trees. Groups have no tree in
/// common.
pub(crate) fn of_groups(shared: &Shared, groups: &[Vec<TreeId>]) -> GroupedMetrics {
    let sums = of_trees::of_groups(shared, groups);
    let is_whole = |(sum, trees): &(&TreeSums, &Vec<TreeId>)| sum.trees == trees.len() as u64;
    let of_group = |one| Some(one).filter(is_whole).map(|(sum, _)| of_sums(sum));
    GroupedMetrics {
        all: of_all(shared, &sums.all),
        groups: sums.groups.iter().zip(groups).map(of_group).collect(),
        others: of_sums(&sums.others),
    }
}

fn of_all(shared: &Shared, trees: &TreeSums) -> Metrics {
    let mut gathered = Gathered::default();
    let cache = shared.cache.counters();
    add_commits(shared, &mut gathered);
    add_readahead(shared, &mut gathered);
    add_jobs(shared, &mut gathered);
    add_limits(shared, &mut gathered);
    add_cache(shared, &cache, &mut gathered);
    add_files(shared, &mut gathered);
    add_memory(shared, &cache, &mut gathered);
    gathered.gauge("trees", "Trees.", trees.trees);
    trees.tell(&mut gathered);
    Metrics { readings: in_order(gathered), histograms: histograms(shared) }
}

/// Reads the counters and gauges of one tree.
pub(crate) fn of_tree(shared: &Shared, tree: &TreeState) -> Metrics {
    let mut sums = TreeSums::default();
    sums.add(tree, &shared.options);
    of_sums(&sums)
}

fn of_sums(sums: &TreeSums) -> Metrics {
    let mut gathered = Gathered::default();
    sums.tell(&mut gathered);
    Metrics { readings: in_order(gathered), histograms: Vec::new() }
}

/// Returns the readings in order of name.
fn in_order(gathered: Gathered) -> Vec<Reading> {
    let mut readings = gathered.0;
    readings.sort_by_key(|reading| reading.name);
    readings
}

fn histograms(shared: &Shared) -> Vec<HistogramReading> {
    let commits = &shared.commits.counters;
    let of = |name, help, unit, histogram: &Histogram| HistogramReading {
        name,
        help,
        unit,
        labels: Vec::new(),
        buckets: histogram.read(),
    };
    let (micros, ones) = (HistogramUnit::Micros, HistogramUnit::Ones);
    let mut histograms = vec![
        of(
            "write_stall_seconds",
            "Time that stalled writes waited for background work.",
            micros,
            &shared.stalls.waited,
        ),
        of(
            "commit_sync_seconds",
            "Time of syncs of the commit log to disk.",
            micros,
            &commits.sync_time,
        ),
        of(
            "commit_group_batches",
            "Batches that were committed together by one append to the log.",
            ones,
            &commits.group_batches,
        ),
    ];
    histograms.extend(queue_waits(shared));
    histograms
}

/// The meaning of `queue_wait_seconds`, to which servers add queues of theirs.
pub const QUEUE_WAIT_HELP: &str = "Time that work waited before it began, by queue. Work that found \
    its way free counts as a wait of 0.";

/// Returns the waits of work in the queues of the engine.
fn queue_waits(shared: &Shared) -> [HistogramReading; 4] {
    let jobs = &shared.counters.job_waits;
    [
        ("commits", shared.commits.counters.queue_wait.read()),
        ("compactions", jobs.compactions.read()),
        ("disk_reads", shared.async_loads.waits()),
        ("flushes", jobs.flushes.read()),
    ]
    .map(|(queue, buckets)| HistogramReading {
        name: "queue_wait_seconds",
        help: QUEUE_WAIT_HELP,
        unit: HistogramUnit::Micros,
        labels: vec![("queue", queue)],
        buckets,
    })
}

/// Adds commits and the log.
fn add_commits(shared: &Shared, to: &mut Gathered) {
    let commits = &shared.commits.counters;
    to.counter("commit_groups_total", "Appends to the commit log.", read(&commits.groups));
    to.counter("commit_batches_total", "Batches committed.", read(&commits.batches));
    to.counter("commit_bytes_total", "Bytes of committed batches.", read(&commits.bytes));
    to.counter("commit_syncs_total", "Syncs of the commit log.", read(&commits.syncs));
    let segments = shared.log_segments.numbers().len() as u64;
    to.gauge("log_segments", "Commit log segments.", segments);
    let (segments, bytes) = shared.log_segments.kept_size();
    to.gauge("change_segments", "Commit log segments kept for change streams.", segments);
    to.gauge("change_bytes", "Bytes of commit log segments kept for change streams.", bytes);
}

/// Adds blocks that were read ahead of scans.
fn add_readahead(shared: &Shared, to: &mut Gathered) {
    let ahead = shared.readahead.used();
    to.counter("readahead_blocks_issued_total", "Blocks read ahead of scans.", ahead.issued);
    for (result, count) in [("used", ahead.used), ("wasted", ahead.wasted)] {
        let help = "Blocks read ahead that a scan used, or that no scan used.";
        to.labelled("readahead_blocks_total", help, &[("result", result)], count);
    }
}

/// Adds flushes and compactions that ended.
fn add_jobs(shared: &Shared, to: &mut Gathered) {
    let counters = &shared.counters;
    to.counter("flushes_total", "Memtables written to SSTables.", read(&counters.flushes));
    let early = read(&counters.early_flushes);
    to.counter(
        "flushes_for_memory_total",
        "Memtables flushed early to stay within the memory budget.",
        early,
    );
    let most = read(&counters.runs_most);
    to.gauge(
        "sorted_runs_most",
        "Highest number of sorted runs of a tree since the engine was opened.",
        most,
    );
    for reason in CompactionReason::ALL {
        let help = "Compactions finished, by their reason: the shape of a tree, garbage in a file, reads \
                    of a tree without writes that visited several runs, or a manual request.";
        let count = read(&counters.compactions[reason as usize]);
        to.labelled("compactions_total", help, &[("reason", reason.label())], count);
    }
    let count = read(&counters.subcompactions);
    to.counter("subcompactions_total", "Subcompactions of large compactions.", count);
    let helped = read(&counters.subcompactions_helped);
    let help = "Subcompactions written by another thread than the compaction's.";
    to.counter("subcompactions_helped_total", help, helped);
}

/// Adds running compactions, ingests, and failures.
fn add_limits(shared: &Shared, to: &mut Gathered) {
    let counters = &shared.counters;
    let progress = shared.compactions.progress();
    to.gauge("compactions_running", "Running compactions.", progress.running);
    let help = "Input bytes of running compactions.";
    to.gauge("compactions_running_input_bytes", help, progress.bytes_total);
    let help = "Bytes written by running compactions.";
    to.gauge("compactions_running_written_bytes", help, progress.bytes_written);
    let paused = u64::from(shared.compactions.are_paused());
    to.gauge("compactions_paused", "1 while compactions are paused.", paused);
    let rate = shared.io_rate.rate();
    to.gauge(
        "background_bytes_per_second",
        "Write rate limit of flushes and compactions; 0 if unlimited.",
        rate,
    );
    to.counter("ingests_total", "Sets of SSTables ingested.", read(&counters.ingests));
    to.counter("ingested_bytes_total", "Bytes ingested.", read(&counters.ingested_bytes));
    let failures = read(&counters.background_failures);
    to.counter("background_failures_total", "Flushes and compactions that failed.", failures);
    let help = "Panics of background work, after which writes stop.";
    to.counter("background_panics_total", help, shared.health.panics());
    let stopped = u64::from(shared.health.is_stopped());
    to.gauge("writes_stopped", "1 if writes are stopped until the engine is reopened.", stopped);
}

/// Returns the value of the label `kind`.
fn kind_name(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Data => "data",
        BlockKind::Index => "index",
        BlockKind::Filter => "filter",
        BlockKind::LargeValue => "large_value",
    }
}

/// Adds the counters of the block cache.
fn add_cache(shared: &Shared, cache: &CacheCounters, to: &mut Gathered) {
    for kind in BlockKind::ALL {
        let (labels, lookups) = ([("kind", kind_name(kind))], cache.lookups[kind as usize]);
        let help = "Blocks found in the block cache, by kind. Point reads look without counting.";
        to.labelled("cache_hits_total", help, &labels, lookups.hits);
        let help = "Blocks that were not in the block cache and were read from disk, by kind.";
        to.labelled("cache_misses_total", help, &labels, lookups.misses);
    }
    to.counter("cache_inserted_total", "Blocks added to the block cache.", cache.inserted);
    to.counter("cache_evicted_total", "Blocks evicted from the block cache.", cache.evicted);
    let help = "Blocks read but not added to the block cache.";
    to.counter("cache_not_kept_total", help, cache.not_kept);
    let help = "Blocks that the full block cache did not admit.";
    to.counter("cache_rejected_total", help, cache.rejected);
    let help = "Blocks written by compactions that replaced their cached input blocks.";
    to.counter("cache_warmed_total", help, cache.warmed);
    let help = "Bytes of blocks added by cache warming.";
    to.counter("cache_warmed_bytes_total", help, cache.warmed_bytes);
    let help = "Blocks added by cache warming that reads used later.";
    to.counter("cache_warmed_used_total", help, cache.warmed_used);
    let now = shared.env.clock.monotonic();
    let huge = shared.counters.huge_pages.bytes(now, || shared.cache.huge_bytes());
    let help = "Bytes of the block cache on huge pages; 0 where the system does not tell.";
    to.gauge("cache_huge_page_bytes", help, huge.unwrap_or(0));
    to.gauge("cache_bytes", "Bytes in the block cache.", cache.bytes);
    to.gauge("cache_limit_bytes", "Current size limit of the block cache.", cache.bytes_max);
}

/// Adds sequence numbers, snapshots, and files that are kept or open.
fn add_files(shared: &Shared, to: &mut Gathered) {
    let published = shared.snapshots.published();
    to.gauge("sequence_last", "Last sequence number committed.", published.0);
    let live = shared.snapshots.live();
    let oldest = live.first().copied().unwrap_or(published);
    let help = "Oldest sequence number that a snapshot needs.";
    to.gauge("sequence_oldest_snapshot", help, oldest.0);
    to.gauge("snapshots", "Moments of the store that snapshots hold.", live.len() as u64);
    let now = shared.env.clock.monotonic();
    let since = shared.snapshots.oldest_since().unwrap_or(now);
    let help = "Age of the oldest snapshot that is held; 0 without one.";
    to.gauge("oldest_snapshot_age_seconds", help, now.saturating_sub(since).as_secs());
    let (obsolete, obsolete_bytes) = shared.obsolete.held();
    let help = "Replaced SSTables that open reads or snapshots still need.";
    to.gauge("obsolete_ssts", help, obsolete);
    let help = "Bytes of replaced SSTables that open reads or snapshots still need.";
    to.gauge("obsolete_sst_bytes", help, obsolete_bytes);
    to.gauge("ssts_open", "Open SSTables.", shared.open_files.count() as u64);
    let help = "SSTables reopened after they were closed to stay within open_files_max.";
    to.counter("sst_reopens_total", help, shared.open_files.reopened());
}

/// Adds the budget and its users.
fn add_memory(shared: &Shared, cache: &CacheCounters, to: &mut Gathered) {
    let budget = shared.cache.budget();
    to.gauge("memory_limit_bytes", "Memory budget.", budget.bytes_max() as u64);
    let charged = |what| budget.charged(what) as u64;
    for (owner, bytes) in [
        ("active_memtables", charged(Use::Active)),
        ("blocks", cache.memory_bytes),
        ("building", charged(Use::Building)),
        ("frozen_memtables", charged(Use::Frozen)),
        ("metadata", charged(Use::Metadata)),
        ("outlived_memtables", charged(Use::Outlived)),
        ("untracked", budget.untracked() as u64),
    ] {
        let help = "Memory by its owner: memtables that take writes, wait for a flush, or were flushed and \
                    are still read; blocks of the cache; metadata of open trees and files; buffers of \
                    SSTables being written; and memory of the process that the engine does not track.";
        to.labelled("memory_bytes", help, &[("owner", owner)], bytes);
    }
}
