//! Counters that make each claim of the engine checkable.

use crate::cache::CacheCounters;
use crate::counters::histogram::HistogramReading;
use crate::counters::point_counters::PointCount;
use crate::manifest::state::version::LEVELS;
use crate::memory::budget::Use;
use crate::options::FilterGranularity;
use crate::sstable::{Asked, FilterCounters};
use crate::state::Shared;
use std::sync::atomic::{AtomicU64, Ordering};

/// A reading of the engine's counters and gauges, over all trees since open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Name (snake case, unit last, counters end in `_total`), help text, value.
    pub values: Vec<(&'static str, &'static str, u64)>,
    /// Distributions.
    pub histograms: Vec<HistogramReading>,
}

impl Metrics {
    /// The value called `name`.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(known, ..)| *known == name).map(|(_, _, value)| *value)
    }
}

/// Names of what a level holds.
const LEVEL_NAMES: [[&str; 2]; LEVELS] = [
    ["level0_runs", "level0_bytes"],
    ["level1_runs", "level1_bytes"],
    ["level2_runs", "level2_bytes"],
];

/// Names of the filter counters: asked for a row, a family, a column, a row prefix.
const FILTER_NAMES: [[&str; 3]; 4] = [
    ["filter_row_probed_total", "filter_row_useful_total", "filter_row_false_positives_total"],
    [
        "filter_family_probed_total",
        "filter_family_useful_total",
        "filter_family_false_positives_total",
    ],
    [
        "filter_column_probed_total",
        "filter_column_useful_total",
        "filter_column_false_positives_total",
    ],
    [
        "filter_prefix_probed_total",
        "filter_prefix_useful_total",
        "filter_prefix_false_positives_total",
    ],
];

/// Names of the counts of trees by the granularity of their filters.
const GRANULARITY_NAMES: [&str; 3] =
    ["trees_filtered_by_row", "trees_filtered_by_family", "trees_filtered_by_column"];

/// Returns the value of a counter.
fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Name, help text and value of each counter and gauge.
type Values = Vec<(&'static str, &'static str, u64)>;

/// Reads all counters and gauges.
pub(crate) fn metrics(shared: &Shared) -> Metrics {
    let mut values = Vec::new();
    let cache = shared.cache.counters();
    add_commits(shared, &mut values);
    add_reads(shared, &mut values);
    add_jobs(shared, &mut values);
    add_limits(shared, &mut values);
    add_cache(shared, &cache, &mut values);
    add_files(shared, &mut values);
    add_memory(shared, &cache, &mut values);
    add_shape(shared, &mut values);
    let help = "Time that stalled writes waited for background work";
    let histograms = vec![shared.stalls.waited.read("write_stall_seconds", help)];
    Metrics { values, histograms }
}

/// Adds commits and the log.
fn add_commits(shared: &Shared, values: &mut Values) {
    let mut add = |name, help, value| values.push((name, help, value));
    add("commit_groups_total", "Appends to the commit log", read(&shared.commits.groups));
    add("commit_batches_total", "Batches committed", read(&shared.commits.batches));
    add("commit_bytes_total", "Bytes of committed batches", read(&shared.commits.bytes));
    add("commit_syncs_total", "Syncs of the commit log", read(&shared.commits.syncs));
    let segments = shared.log_segments.numbers().len() as u64;
    add("log_segments", "Commit log segments", segments);
    let (segments, bytes) = shared.log_segments.kept_size();
    add("change_segments", "Commit log segments kept for change streams", segments);
    add("change_bytes", "Bytes of commit log segments kept for change streams", bytes);
}

/// Adds reads, readahead, and what filters did for them.
fn add_reads(shared: &Shared, values: &mut Values) {
    let mut add = |name, help, value| values.push((name, help, value));
    add("scans_total", "Reads of one or more rows", read(&shared.counters.scans));
    let points = |what: PointCount| shared.point_counters.read(what as usize);
    add("point_reads_total", "Reads of a column or a row", points(PointCount::Reads));
    let merged = points(PointCount::Merged);
    add("point_reads_merged_total", "Point reads that merged several sources", merged);
    let fetched = points(PointCount::Fetched);
    add("point_blocks_fetched_total", "Blocks that point reads loaded", fetched);
    let batched = points(PointCount::Batched);
    add("point_blocks_batched_total", "Blocks that point reads loaded in parallel", batched);
    let reads = points(PointCount::DiskReads);
    add("point_disk_reads_total", "Blocks that point reads read from disk", reads);
    let bytes = points(PointCount::DiskBytes);
    add("point_disk_bytes_total", "Bytes that point reads read from disk", bytes);
    let ahead = shared.readahead.used();
    add("readahead_blocks_issued_total", "Blocks read ahead of scans", ahead.issued);
    add("readahead_blocks_used_total", "Blocks read ahead that a scan used", ahead.used);
    add("readahead_blocks_wasted_total", "Blocks read ahead that no scan used", ahead.wasted);
    let filters = filter_counts(shared);
    for (asked, [probed, useful, wrong]) in Asked::ALL.into_iter().zip(FILTER_NAMES) {
        let of = filters.read(asked);
        add(probed, "Filter checks by reads", of.probed);
        add(useful, "Filter checks that avoided reading a file", of.useful);
        add(wrong, "Filter checks with a false positive", of.false_positives);
    }
}

/// Adds flushes and compactions that ended.
fn add_jobs(shared: &Shared, values: &mut Values) {
    let mut add = |name, help, value| values.push((name, help, value));
    let counters = &shared.counters;
    add("flushes_total", "Memtables written to SSTables", read(&counters.flushes));
    let early = read(&counters.early_flushes);
    add(
        "flushes_for_memory_total",
        "Memtables flushed early to stay within the memory budget",
        early,
    );
    let most = read(&counters.runs_most);
    add(
        "sorted_runs_most",
        "Highest number of sorted runs of a tree since the engine was opened",
        most,
    );
    add("flushed_bytes_total", "Bytes written by flushes", read(&counters.flushed_bytes));
    add("compactions_total", "Compactions finished", read(&counters.compactions));
    let compacted = read(&counters.compacted_bytes);
    add("compacted_bytes_total", "Bytes written by compactions", compacted);
    let count = read(&counters.subcompactions);
    add("subcompactions_total", "Subcompactions of large compactions", count);
    let helped = read(&counters.subcompactions_helped);
    let help = "Subcompactions written by another thread than the compaction's";
    add("subcompactions_helped_total", help, helped);
    let garbage = read(&counters.compactions_for_garbage);
    let help = "Compactions of files that were mostly tombstones and expired cells";
    add("compactions_for_garbage_total", help, garbage);
    let reads = read(&counters.compactions_for_reads);
    let help = "Compactions of trees without writes whose reads visited several runs";
    add("compactions_for_reads_total", help, reads);
}

/// Adds running compactions, ingests, stalls of writers, and failures.
fn add_limits(shared: &Shared, values: &mut Values) {
    let mut add = |name, help, value| values.push((name, help, value));
    let counters = &shared.counters;
    let progress = shared.compactions.progress();
    add("compactions_running", "Running compactions", progress.running);
    add("compactions_running_bytes", "Input bytes of running compactions", progress.bytes_total);
    add(
        "compactions_running_bytes_written",
        "Bytes written by running compactions",
        progress.bytes_written,
    );
    let paused = u64::from(shared.compactions.are_paused());
    add("compactions_paused", "1 while compactions are paused", paused);
    let rate = shared.io_rate.rate();
    add(
        "background_bytes_per_second",
        "Write rate limit of flushes and compactions; 0 if unlimited",
        rate,
    );
    add("ingests_total", "Sets of SSTables ingested", read(&counters.ingests));
    add("ingested_bytes_total", "Bytes ingested", read(&counters.ingested_bytes));
    add(
        "write_stalls_total",
        "Writes that waited for background work",
        read(&counters.write_stalls),
    );
    let slowdowns = read(&counters.write_slowdowns);
    add("write_slowdowns_total", "Writes that were slowed down", slowdowns);
    let failures = read(&counters.background_failures);
    add("background_failures_total", "Flushes and compactions that failed", failures);
    let help = "Panics of background work, after which writes stop";
    add("background_panics_total", help, shared.health.panics());
    let stopped = u64::from(shared.health.is_stopped());
    add("writes_stopped", "1 if writes are stopped until the engine is reopened", stopped);
}

/// Adds the block cache.
fn add_cache(shared: &Shared, cache: &CacheCounters, values: &mut Values) {
    let mut add = |name, help, value| values.push((name, help, value));
    add("cache_hits_total", "Blocks found in the block cache", cache.hits);
    add("cache_misses_total", "Blocks read from disk", cache.misses);
    add("cache_inserted_total", "Blocks added to the block cache", cache.inserted);
    add("cache_evicted_total", "Blocks evicted from the block cache", cache.evicted);
    add("cache_not_kept_total", "Blocks read but not added to the block cache", cache.not_kept);
    let help = "Blocks that the full block cache did not admit";
    add("cache_rejected_total", help, cache.rejected);
    let help = "Blocks written by compactions that replaced their cached input blocks";
    add("cache_warmed_total", help, cache.warmed);
    add("cache_warmed_bytes_total", "Bytes of blocks added by cache warming", cache.warmed_bytes);
    add(
        "cache_warmed_used_total",
        "Blocks added by cache warming that reads used later",
        cache.warmed_used,
    );
    let now = shared.env.clock.monotonic();
    if let Some(huge) = shared.counters.huge_pages.bytes(now, || shared.cache.huge_bytes()) {
        add("cache_huge_page_bytes", "Bytes of the block cache on huge pages", huge);
    }
    add("cache_bytes", "Bytes in the block cache", cache.bytes);
    add("cache_bytes_max", "Current size limit of the block cache", cache.bytes_max);
}

/// Adds sequence numbers, and files that are kept or open.
fn add_files(shared: &Shared, values: &mut Values) {
    let mut add = |name, help, value| values.push((name, help, value));
    let published = shared.snapshots.published();
    add("sequence_last", "Last sequence number committed", published.0);
    let oldest = shared.snapshots.live().first().copied().unwrap_or(published);
    add("sequence_oldest_snapshot", "Oldest sequence number that a snapshot needs", oldest.0);
    let (obsolete, obsolete_bytes) = shared.obsolete.held();
    add("obsolete_ssts", "Replaced SSTables that open reads or snapshots still need", obsolete);
    add(
        "obsolete_sst_bytes",
        "Bytes of replaced SSTables that open reads or snapshots still need",
        obsolete_bytes,
    );
    let open = shared.open_files.count() as u64;
    add("ssts_open", "Open SSTables", open);
    let help = "SSTables reopened after they were closed to stay within open_files_max";
    add("sst_reopens_total", help, shared.open_files.reopened());
}

/// Adds the budget and who uses it.
fn add_memory(shared: &Shared, cache: &CacheCounters, values: &mut Values) {
    let budget = shared.cache.budget();
    let mut add = |name, help, value| values.push((name, help, value));
    add("memory_bytes_max", "Memory budget", budget.bytes_max() as u64);
    add("memory_blocks_bytes", "Memory of the block cache", cache.memory_bytes);
    let charged = |what| budget.charged(what) as u64;
    add("memory_memtables_active_bytes", "Active memtables", charged(Use::Active));
    let frozen = charged(Use::Frozen);
    add("memory_memtables_frozen_bytes", "Memtables waiting for a flush", frozen);
    let outlived = charged(Use::Outlived);
    add("memory_memtables_outlived_bytes", "Flushed memtables that reads still use", outlived);
    let metadata = charged(Use::Metadata);
    add("memory_metadata_bytes", "Metadata of open trees and files", metadata);
    let building = charged(Use::Building);
    add("memory_building_bytes", "Buffers of SSTables being written", building);
    let help = "Memory of the process that the engine does not track, if the process reports it";
    add("memory_untracked_bytes", help, budget.untracked() as u64);
}

/// What was asked of filters, over all trees there are and were.
fn filter_counts(shared: &Shared) -> FilterCounters {
    let sum = FilterCounters::default();
    let trees = shared.trees.read();
    trees.values().for_each(|tree| sum.absorb(&tree.filter_counters));
    sum.absorb(&shared.past_filter_counters);
    sum
}

/// Adds the shape of the trees.
fn add_shape(shared: &Shared, values: &mut Values) {
    let trees: Vec<_> = shared.trees.read().values().cloned().collect();
    let views: Vec<_> = trees.iter().map(|tree| tree.view()).collect();
    let memtables: usize = views.iter().map(|view| view.memtable_bytes()).sum();
    values.push(("trees", "Trees", trees.len() as u64));
    let failing = trees.iter().filter(|tree| tree.work.lock().is_failing()).count() as u64;
    values.push(("trees_failing", "Trees whose last flush or compaction failed", failing));
    for (granularity, name) in FilterGranularity::ALL.into_iter().zip(GRANULARITY_NAMES) {
        let of = trees.iter().filter(|tree| tree.granularity() == granularity).count();
        values.push((name, "Trees whose next SSTables get filters of this granularity", of as u64));
    }
    values.push(("memtable_bytes", "Bytes in memtables", memtables as u64));
    let deferred = || {
        let ssts = views.iter().flat_map(|view| view.ssts());
        ssts.filter(|sst| sst.properties().deferred.is_any())
    };
    let (count, bytes) = (deferred().count() as u64, deferred().map(|sst| sst.bytes()).sum());
    values.push(("deferred_ssts", "SSTables with deferred compression or filters", count));
    values.push((
        "deferred_sst_bytes",
        "Bytes of SSTables with deferred compression or filters",
        bytes,
    ));
    for (level, [runs_name, bytes_name]) in LEVEL_NAMES.into_iter().enumerate() {
        let runs = || views.iter().flat_map(move |view| &view.version.levels[level]);
        values.push((
            runs_name,
            "Sorted runs of this level, over all trees",
            runs().count() as u64,
        ));
        values.push((
            bytes_name,
            "Bytes of SSTables of this level",
            runs().map(|run| run.bytes()).sum(),
        ));
    }
}
