//! RocksDB, tuned as its experts would.
//!
//! Always: HyperClockCache that sizes its own slots; full Bloom filter of 10 bits, of whole keys
//! and, where rows have columns or versions, of row prefixes; hash index in data blocks at 0.75;
//! format version 7 with XXH3 checksums, verified on read. Disk-bound: index and filter in
//! partitions in the cache with their top level pinned; direct reads, which it counts itself.
//!
//! Configurations: data blocks of 4 KB or 16 KB, and index search by halving or interpolation.
//! Disk-bound, with many reads in flight, also MultiGet in place of threads, over one large file:
//! it batches the reads of a file through io_uring where the build has it; and blocks that begin and
//! end with a page of the file.

use crate::data::{Cell, Model};
use crate::engines::encode::{Rows, key_of, key_of_part};
use crate::engines::{
    BenchEngine, DiskReads, Entry, InFlight, Merging, Part, Reader, Result, Setup, Sizes, Written,
};
use crate::source::Source;
use crate::touched::Touched;
use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};
use rocksdb::statistics::Ticker;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamily, DB, DBCompressionType,
    DBRawIterator, DataBlockIndexType, FlushOptions, IngestExternalFileOptions, Options,
    ReadOptions, SliceTransform, SstFileWriter, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// See [`Entry`].
pub(crate) const ENTRY: Entry = Entry { name: "rocksdb", configurations, open };

fn configurations(setup: &Setup) -> std::result::Result<Vec<&'static str>, &'static str> {
    let mut all = vec!["4k", "16k", "16k-interpolation"];
    if setup.disk_bound {
        all.extend(["4k-multiget", "4k-aligned", "4k-aligned-multiget"]);
    }
    Ok(all)
}

const BLOOM_BITS: f64 = 10.0;
const HASH_INDEX_UTILISATION: f64 = 0.75;
const BACKGROUND_JOBS: i32 = 2;
/// Defaults of `max_bytes_for_level_base` and `target_file_size_base`, and the most levels.
const LEVEL_BASE_BYTES: u64 = 256 << 20;
const FILE_BYTES: u64 = 64 << 20;
const LEVELS: u32 = 7;
/// SSTables of a bulk load; MultiGet batches its reads of one file only.
const BULK_FILE_BYTES: u64 = 256 << 20;
const BULK_FILE_BYTES_MULTI_GET: u64 = 64 << 30;
/// Keys of a MultiGet: two threads with 16 each keep 32 in flight.
const MULTI_GET_KEYS: usize = 16;
const METADATA_BLOCK_BYTES: usize = 4 << 10;

fn open(dir: &Path, setup: &Setup, configuration: &str) -> Result<Box<dyn BenchEngine>> {
    let cache = Cache::new_hyper_clock_cache(setup.cache_bytes, 0);
    let mut base = database_options(setup);
    base.set_block_based_table_factory(&table_options(setup, configuration, &cache));
    // The binding has no setters for these.
    let search =
        if configuration.ends_with("interpolation") { "kInterpolation" } else { "kBinary" };
    let aligned = is_aligned(configuration);
    let options = base.get_options_from_string(format!(
        "block_based_table_factory={{index_block_search_type={search};block_align={aligned}}}"
    ))?;
    let db = DB::open_cf_with_opts(&options, dir.join("db"), [("default", options.clone())])?;
    let multi_get = configuration.ends_with("multiget");
    let mut printed = describe(setup, configuration, search);
    if multi_get {
        printed += &format!(
            " MultiGet of {MULTI_GET_KEYS} keys, one file, async_io, io_uring={}",
            cfg!(feature = "io-uring")
        );
    }
    let engine = Rocks {
        db,
        options,
        model: setup.model,
        disk_bound: setup.disk_bound,
        counting: setup.sizes != Sizes::Usual,
        multi_get,
        dir: dir.to_owned(),
        ingested: AtomicU32::new(0),
        block_reads: AtomicU64::new(0),
        block_bytes: AtomicU64::new(0),
        printed,
        _base: base,
    };
    Ok(Box::new(engine))
}

/// Blocks begin and end with a page.
fn is_aligned(configuration: &str) -> bool {
    configuration.contains("aligned")
}

fn block_bytes(configuration: &str) -> usize {
    if configuration.starts_with("4k") { 4 << 10 } else { 16 << 10 }
}

fn database_options(setup: &Setup) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_bottommost_compression_type(DBCompressionType::None);
    options.set_max_background_jobs(BACKGROUND_JOBS);
    options.set_write_buffer_size(setup.memtable_bytes);
    options.set_max_write_buffer_number(4);
    options.set_max_open_files(-1);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.set_enable_pipelined_write(true);
    options.set_use_direct_reads(setup.disk_bound);
    if setup.row_bytes > 0 && setup.model != Model::Keys {
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(setup.row_bytes));
    }
    if let Sizes::Parts(parts) = setup.sizes {
        options.set_max_bytes_for_level_base(LEVEL_BASE_BYTES / parts);
        options.set_target_file_size_base(FILE_BYTES / parts);
        options.enable_statistics();
    }
    if setup.merging == Merging::Never {
        options.set_disable_auto_compactions(true);
        options.set_level_zero_slowdown_writes_trigger(1 << 20);
        options.set_level_zero_stop_writes_trigger(1 << 20);
    }
    options
}

fn table_options(setup: &Setup, configuration: &str, cache: &Cache) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_block_size(block_bytes(configuration));
    table.set_bloom_filter(BLOOM_BITS, false);
    table.set_whole_key_filtering(true);
    table.set_optimize_filters_for_memory(true);
    table.set_format_version(7);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    table.set_data_block_hash_ratio(HASH_INDEX_UTILISATION);
    if setup.disk_bound {
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_metadata_block_size(METADATA_BLOCK_BYTES);
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_top_level_index_and_filter(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    }
    table
}

fn describe(setup: &Setup, configuration: &str, search: &str) -> String {
    let mut text = format!(
        "block_size={} cache=HyperClockCache(auto,{} MiB) bloom={BLOOM_BITS} whole_key_filtering \
         data_block_hash_index={HASH_INDEX_UTILISATION} index_block_search_type={search} \
         format_version=7 checksum=XXH3 compression=none write_buffer_size={} MiB \
         max_background_jobs={BACKGROUND_JOBS} max_open_files=-1 pipelined_write",
        block_bytes(configuration),
        setup.cache_bytes >> 20,
        setup.memtable_bytes >> 20,
    );
    if setup.row_bytes > 0 && setup.model != Model::Keys {
        text += &format!(" prefix_extractor=fixed:{} prefix_bloom", setup.row_bytes);
    }
    if setup.merging == Merging::Never {
        text += " disable_auto_compactions";
    }
    if let Sizes::Parts(parts) = setup.sizes {
        text += &format!(
            " max_bytes_for_level_base={} MiB target_file_size_base={} MiB statistics",
            LEVEL_BASE_BYTES / parts >> 20,
            FILE_BYTES / parts >> 20
        );
    }
    if setup.disk_bound {
        text += " use_direct_reads index=partitioned filter=partitioned top level pinned";
        text += &format!(" block_align={}", is_aligned(configuration));
    }
    text
}

struct Rocks {
    db: DB,
    options: Options,
    model: Model,
    disk_bound: bool,
    /// Whether it keeps statistics.
    counting: bool,
    multi_get: bool,
    dir: PathBuf,
    ingested: AtomicU32,
    /// Blocks and bytes that readers read from disk, added when a reader is dropped. Counted
    /// only where data is on disk: counting costs some nanoseconds.
    block_reads: AtomicU64,
    block_bytes: AtomicU64,
    printed: String,
    /// Keeps what `options` was made from.
    _base: Options,
}

impl Rocks {
    fn default_family(&self) -> &ColumnFamily {
        self.db.cf_handle("default").expect("every database has the default column family")
    }

    fn read_options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.set_async_io(self.disk_bound);
        options
    }

    /// Reads rows, which all lie under one prefix; whole scans cross prefixes.
    fn prefix_options(&self) -> ReadOptions {
        let mut options = self.read_options();
        options.set_prefix_same_as_start(true);
        options
    }

    fn total_order_options(&self) -> ReadOptions {
        let mut options = self.read_options();
        options.set_total_order_seek(true);
        options
    }
}

impl BenchEngine for Rocks {
    fn options(&self) -> String {
        self.printed.clone()
    }

    fn write(&self, cells: &[Cell<'_>]) -> Result<()> {
        let mut batch = WriteBatch::default();
        let mut key = Vec::new();
        for cell in cells {
            key_of(self.model, cell, &mut key);
            match cell.value {
                Some(value) => batch.put(&key, value),
                None => batch.delete(&key),
            }
        }
        let mut options = WriteOptions::default();
        options.set_sync(false);
        Ok(self.db.write_opt(batch, &options)?)
    }

    fn bulk_load(&self, source: &mut Source<'_>) -> Result<()> {
        let file_bytes = if self.multi_get { BULK_FILE_BYTES_MULTI_GET } else { BULK_FILE_BYTES };
        let mut paths = Vec::new();
        let mut key = Vec::new();
        let mut writer: Option<SstFileWriter<'_>> = None;
        while let Some(cells) = source.next_chunk() {
            for cell in &cells {
                let open = match &mut writer {
                    Some(open) => open,
                    None => {
                        let number = self.ingested.fetch_add(1, Ordering::Relaxed);
                        let path = self.dir.join(format!("ingest-{number}.sst"));
                        let open = writer.insert(SstFileWriter::create(&self.options));
                        open.open(&path)?;
                        paths.push(path);
                        open
                    }
                };
                key_of(self.model, cell, &mut key);
                open.put(&key, cell.value.unwrap_or_default())?;
            }
            // Asked once a chunk: the answer crosses into C++ and costs.
            if writer.as_ref().is_some_and(|open| open.file_size() >= file_bytes)
                && let Some(mut full) = writer.take()
            {
                full.finish()?;
            }
        }
        if let Some(mut last) = writer.take() {
            last.finish()?;
        }
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        Ok(self.db.ingest_external_file_opts(&options, paths)?)
    }

    fn flush(&self) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_opt(&options)?;
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn in_flight(&self) -> InFlight {
        if self.multi_get { InFlight::Batches(MULTI_GET_KEYS) } else { InFlight::Threads }
    }

    fn disk_reads(&self) -> Option<DiskReads> {
        self.disk_bound.then(|| DiskReads {
            reads: self.block_reads.load(Ordering::Relaxed),
            bytes: Some(self.block_bytes.load(Ordering::Relaxed)),
        })
    }

    fn written(&self) -> Option<Written> {
        let files_at = |level: u32| {
            let name = format!("rocksdb.num-files-at-level{level}");
            self.db.property_int_value(&name).ok().flatten()
        };
        let below = (1..LEVELS).filter(|level| files_at(*level).is_some_and(|files| files > 0));
        self.counting.then(|| Written {
            flushed: self.options.get_ticker_count(Ticker::FlushWriteBytes),
            compacted: self.options.get_ticker_count(Ticker::CompactWriteBytes),
            runs: files_at(0).unwrap_or(0) + below.count() as u64,
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        let counting =
            if self.disk_bound { PerfStatsLevel::EnableCount } else { PerfStatsLevel::Disable };
        set_perf_stats(counting);
        // What the thread's earlier readers counted is theirs.
        let mut counts = PerfContext::default();
        counts.reset();
        Ok(Box::new(RocksReader {
            engine: self,
            family: self.default_family(),
            options: self.read_options(),
            counts,
            total: None,
            prefix: None,
            key: Vec::new(),
        }))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

struct RocksReader<'a> {
    engine: &'a Rocks,
    family: &'a ColumnFamily,
    options: ReadOptions,
    /// Counts of this thread.
    counts: PerfContext,
    /// An iterator over everything and one within a row, each made when first needed and reused.
    total: Option<DBRawIterator<'a>>,
    prefix: Option<DBRawIterator<'a>>,
    key: Vec<u8>,
}

impl<'a> RocksReader<'a> {
    fn total(&mut self) -> &mut DBRawIterator<'a> {
        let engine = self.engine;
        self.total.get_or_insert_with(|| engine.db.raw_iterator_opt(engine.total_order_options()))
    }

    /// The iterator within a row, and the scratch key.
    fn prefix(&mut self) -> (&mut DBRawIterator<'a>, &mut Vec<u8>) {
        let engine = self.engine;
        let iterator =
            self.prefix.get_or_insert_with(|| engine.db.raw_iterator_opt(engine.prefix_options()));
        (iterator, &mut self.key)
    }
}

impl Drop for RocksReader<'_> {
    fn drop(&mut self) {
        let count = |metric| self.counts.metric(metric);
        self.engine.block_reads.fetch_add(count(PerfMetric::BlockReadCount), Ordering::Relaxed);
        self.engine.block_bytes.fetch_add(count(PerfMetric::BlockReadByte), Ordering::Relaxed);
    }
}

impl Reader for RocksReader<'_> {
    fn get(&mut self, key: &[u8], touched: &mut Touched) -> Result<()> {
        if self.engine.model == Model::Versions {
            let (iterator, _) = self.prefix();
            iterator.seek(key);
            match iterator.item() {
                Some((found, value)) if found.starts_with(key) => touched.value(value),
                _ => touched.missing(),
            }
            return Ok(iterator.status()?);
        }
        match self.engine.db.get_pinned_opt(key, &self.options)? {
            Some(value) => touched.value(&value),
            None => touched.missing(),
        }
        Ok(())
    }

    fn multi_get(&mut self, keys: &[&[u8]], touched: &mut Touched) -> Result<()> {
        let keys = keys.iter().copied();
        let values =
            self.engine.db.batched_multi_get_cf_opt(self.family, keys, false, &self.options);
        for value in values {
            match value? {
                Some(value) => touched.value(&value),
                None => touched.missing(),
            }
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8], count: usize, touched: &mut Touched) -> Result<()> {
        let mut rows = Rows::new(self.engine.model);
        let iterator = self.total();
        iterator.seek(key);
        let mut left = count;
        while left > 0
            && let Some((key, value)) = iterator.item()
        {
            left -= usize::from(rows.touch(key, value, touched));
            iterator.next();
        }
        Ok(iterator.status()?)
    }

    fn scan(&mut self, touched: &mut Touched) -> Result<()> {
        let mut rows = Rows::new(self.engine.model);
        let iterator = self.total();
        iterator.seek_to_first();
        while let Some((key, value)) = iterator.item() {
            rows.touch(key, value, touched);
            iterator.next();
        }
        Ok(iterator.status()?)
    }

    fn row(&mut self, row: &[u8], part: Part, touched: &mut Touched) -> Result<()> {
        if let Part::Column(..) = part {
            key_of_part(row, part, &mut self.key);
            match self.engine.db.get_pinned_opt(&self.key, &self.options)? {
                Some(value) => touched.value(&value),
                None => touched.missing(),
            }
            return Ok(());
        }
        let (iterator, prefix) = self.prefix();
        key_of_part(row, part, prefix);
        iterator.seek(&prefix);
        let mut met = false;
        while let Some((key, value)) = iterator.item()
            && key.starts_with(prefix)
        {
            touched.entry(&key[row.len() + 1..], value);
            met = true;
            iterator.next();
        }
        if !met {
            touched.missing();
        }
        Ok(iterator.status()?)
    }
}
