//! Options fixed when an engine or a tree is opened.

use crate::error::{Error, Result};
use crate::shape::Shape;
use std::time::Duration;

/// When an acknowledged write is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Every commit is synced before it is acknowledged. Nothing acknowledged is ever lost.
    Sync,
    /// Commits are synced at this interval; a crash of the machine (not of the process) can lose
    /// the last interval. 1 ms..=60 s.
    Interval(Duration),
    /// The log is written but never synced, except when a segment is full: for bulk work that
    /// can be repeated. A crash of the process alone loses nothing.
    None,
}

/// Values of one engine, that is of one data directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// When an acknowledged write is on disk. Default [`Durability::Sync`].
    pub durability: Durability,
    /// Memory for blocks of SSTables, memtables of all trees, and what open trees and files need:
    /// the one number to set. Memtables take up to half of it, and are flushed before they are full
    /// where they are many; blocks take what is left, and give it up when memtables grow. Not in
    /// it: what flushes, compactions, ingests and requests in flight work with, and memtables
    /// replayed at open until they are flushed. 1 MiB or more, default 512 MiB.
    pub memory_bytes_max: usize,
    /// Blocks take no more than this of `memory_bytes_max`, so that the page cache of the system
    /// has the rest, or that measurements are of equal caches. 1 MiB..=`memory_bytes_max`; `None`,
    /// the default: all that is left.
    pub cache_bytes_max: Option<usize>,
    /// Memtable size that triggers a flush of its tree; a second one fills meanwhile. Larger:
    /// fewer, bigger SSTables and longer recovery. 64 KiB..=4 GiB, default 64 MiB; beyond what
    /// `memory_bytes_max` leaves to memtables it has no effect.
    pub memtable_bytes_max: usize,
    /// SSTables are read past the page cache of the system: what the block cache keeps is then in
    /// memory once, and reads of data far larger than memory cost less. All memory for blocks is
    /// then in `memory_bytes_max`: give it what the page cache would have had. Scans and compactions
    /// read ahead by themselves, so they do not wait for each block; a
    /// scan shorter than three blocks waits for each it misses. Where the file system cannot, files
    /// are read through the page cache, and the log says so once. Default false.
    pub direct_reads: bool,
    /// SSTables that are open at a time. A colder one is closed for one that is read from disk, and
    /// opened again when it is read itself, which a resident read is not. Fewer: more descriptors
    /// are left for others, more reads of the disk open a file first. 16 or more; `None`, the
    /// default: three quarters of what the process may open when the engine is (`RLIMIT_NOFILE`).
    /// Reads under way may hold a few more.
    pub open_files_max: Option<usize>,
    /// Parts of the read path that diagnosis switches off; all are on by default.
    #[doc(hidden)]
    pub read_path: ReadPath,
    /// Size of one log segment, preallocated. Larger: fewer files; smaller: space returns
    /// sooner. 64 KiB..=1 GiB, default 64 MiB.
    pub log_segment_bytes: u64,
    /// Runs of level 0 at which a compaction starts. All levels together have at most two runs more
    /// (three with 1), as flushes wait until there is a place for theirs. Lower: faster reads, more
    /// rewriting. 1..=64, default 4.
    pub l0_runs_compact: usize,
    /// Runs of level 0 at which writes wait for compaction: so many come only of flushes that
    /// somebody asks for and of ingests. Must exceed `l0_runs_compact`. Default 12.
    pub l0_runs_stall: usize,
    /// Size at which compaction starts another SSTable. 64 KiB..=4 GiB, default 128 MiB.
    pub sst_bytes_max: u64,
    /// Target bytes of the older run of level 1; the last level takes what exceeds it. Where the
    /// last level is large it grows with it, but slower; the younger run has its size between that
    /// and memtables. Default 512 MiB.
    pub l1_bytes_max: u64,
    /// Pieces into which a large compaction is divided at most, to be merged at the same time by the
    /// background threads that are idle but for one, which is left to flushes. A piece has
    /// `sst_bytes_max` bytes of inputs at least. More: a compaction ends sooner where processors are
    /// idle, and leaves one smaller file more for each piece; 1: none is divided. 1..=64; `None`, the
    /// default: as many as there are background threads.
    pub subcompactions_max: Option<usize>,
    /// How fast flushes and compactions write. Default [`BackgroundRate::Unlimited`].
    pub background_rate: BackgroundRate,
    /// Threads for flushes and compactions. An engine that is opened in an environment uses the
    /// threads of the environment. 1..=64, default 2.
    pub background_threads: usize,
    /// Internal constants; for the tests of Stele itself.
    #[doc(hidden)]
    pub shape: Shape,
}

/// How fast flushes and compactions may write, all trees together. Slower: reads share the disk and
/// the processors with less; writers are held back sooner, as compactions fall behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundRate {
    /// As fast as they can.
    Unlimited,
    /// As fast as they must: slower while reads wait for the disk longer than they use to, faster
    /// while writers are held back.
    Auto,
    /// So many bytes a second. Flushes go before compactions. 1 MiB or more.
    BytesPerSecond(u64),
}

/// Parts of the read path, each of which can be switched off to see what it buys. No answer
/// depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPath {
    /// The block cache asks the system for huge pages. Without effect where it has none.
    pub huge_pages: bool,
    /// A resident block is found by the hint beside what leads to it, not by its key.
    pub hints: bool,
    /// Filters are asked before a file is read for a row.
    pub filters: bool,
    /// A row that needs no merging is read without a merge, and many rows together.
    pub point_reads: bool,
    /// All blocks that a point read or a group of a multi-get misses are read side by side.
    pub batched_reads: bool,
    /// Scans, and compactions of their inputs, read blocks ahead once they have missed two in a row.
    pub readahead: bool,
    /// Data blocks are found by the prefix index, in files that have one.
    pub prefix_index: bool,
    /// What a compaction writes takes the place in memory of what it came of, block by block.
    pub cache_warming: bool,
    /// Once the cache is full, gets in flight leave it as it is for blocks that nobody asked for
    /// lately.
    pub admission: bool,
    /// Point reads count themselves and the filters that they ask. Without the counts, a tree learns no
    /// filter granularity, and is not compacted for its reads.
    pub counters: bool,
}

impl Default for ReadPath {
    fn default() -> Self {
        Self {
            huge_pages: true,
            hints: true,
            filters: true,
            point_reads: true,
            batched_reads: true,
            readahead: true,
            prefix_index: true,
            cache_warming: true,
            admission: true,
            counters: true,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            memory_bytes_max: 512 << 20,
            cache_bytes_max: None,
            memtable_bytes_max: 64 << 20,
            direct_reads: false,
            open_files_max: None,
            read_path: ReadPath::default(),
            log_segment_bytes: 64 << 20,
            l0_runs_compact: 4,
            l0_runs_stall: 12,
            sst_bytes_max: 128 << 20,
            l1_bytes_max: 512 << 20,
            subcompactions_max: None,
            background_rate: BackgroundRate::Unlimited,
            background_threads: 2,
            shape: Shape::DEFAULT,
        }
    }
}

impl Options {
    /// Checks every range; the error names the option and its range.
    pub fn validate(&self) -> Result<()> {
        let check = |name: &str, ok: bool, range: &str| {
            if ok {
                Ok(())
            } else {
                Err(Error::InvalidArgument(format!("option {name} must be {range}")))
            }
        };
        if let Durability::Interval(every) = self.durability {
            let range = Duration::from_millis(1)..=Duration::from_secs(60);
            check("durability interval", range.contains(&every), "1 ms to 60 s")?;
        }
        let shape = &self.shape;
        shape.validate().map_err(Error::InvalidArgument)?;
        let memtable = shape.memtable_bytes_min..=(4 << 30);
        check(
            "memtable_bytes_max",
            memtable.contains(&self.memtable_bytes_max),
            "64 KiB to 4 GiB",
        )?;
        check(
            "memory_bytes_max",
            self.memory_bytes_max >= shape.memory_bytes_min,
            "1 MiB or more",
        )?;
        let cache = shape.memory_bytes_min..=self.memory_bytes_max;
        let within = self.cache_bytes_max.is_none_or(|bytes| cache.contains(&bytes));
        check("cache_bytes_max", within, "1 MiB to memory_bytes_max")?;
        let segment = shape.log_segment_bytes_min as u64..=(1 << 30);
        check("log_segment_bytes", segment.contains(&self.log_segment_bytes), "64 KiB to 1 GiB")?;
        check("l0_runs_compact", (1..=64).contains(&self.l0_runs_compact), "1 to 64")?;
        let above = self.l0_runs_stall > self.l0_runs_compact;
        check("l0_runs_stall", above, "greater than l0_runs_compact")?;
        let sst = shape.sst_bytes_min as u64..=(4 << 30);
        check("sst_bytes_max", sst.contains(&self.sst_bytes_max), "64 KiB to 4 GiB")?;
        check("l1_bytes_max", self.l1_bytes_max >= shape.l1_bytes_min as u64, "64 KiB or more")?;
        let pieces = self.subcompactions_max.is_none_or(|most| (1..=64).contains(&most));
        check("subcompactions_max", pieces, "1 to 64")?;
        let rate = match self.background_rate {
            BackgroundRate::BytesPerSecond(rate) => rate,
            BackgroundRate::Unlimited | BackgroundRate::Auto => u64::MAX,
        };
        let files = self.open_files_max.is_none_or(|files| files >= shape.open_files_min);
        check("open_files_max", files, "16 or more")?;
        check("background_rate", rate >= 1 << 20, "1 MiB a second or more")?;
        check("background_threads", (1..=64).contains(&self.background_threads), "1 to 64")
    }
}

/// How blocks are compressed. The byte on disk is frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Kept as they are.
    None = 0,
    /// LZ4 block format: cheap both ways.
    Lz4 = 1,
    /// Zstandard level 3: smaller, dearer to read.
    Zstd = 2,
}

impl Compression {
    /// The compression of a byte on disk; `None` for a byte that names none.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::None),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// For which questions the filter of a file holds keys, beside those of rows and deletes, which
/// it always holds. More keys, larger filters. The byte on disk is frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FilterGranularity {
    /// "Is this row here?"
    Row = 0,
    /// And "has it this family?"
    Family = 1,
    /// And "has it this column?"
    Column = 2,
}

impl FilterGranularity {
    /// All, from the coarsest to the finest.
    pub const ALL: [Self; 3] = [Self::Row, Self::Family, Self::Column];

    /// The granularity of a byte on disk; `None` for a byte that names none.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Row),
            1 => Some(Self::Family),
            2 => Some(Self::Column),
            _ => None,
        }
    }
}

/// Values of one tree; they shape its bytes, so they are kept in the manifest with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeOptions {
    /// Bytes of a data block before compression, a target. 1 KiB..=64 KiB, default 16 KiB.
    pub block_bytes: u32,
    /// Compression of files above the last level. Default LZ4.
    pub compression: Compression,
    /// Compression of the last level. Default LZ4.
    pub compression_last: Compression,
    /// Bits of filter per key; 0 builds none. 0..=32, default 12.
    pub filter_bits_per_key: u8,
    /// For which questions filters hold keys. `None`, the default: those that reads of the tree
    /// ask, from one flush or compaction to the next; a tree begins with `Column`.
    pub filter_granularity: Option<FilterGranularity>,
    /// Length of the row prefix for which filters hold a key too, so that a scan of rows that
    /// share so many first bytes skips files without them; a shorter row has no prefix. 0 means
    /// none. 0..=1024, default 0.
    pub row_prefix_bytes: u16,
    /// Indexes lead from the hash of a row prefix to its data blocks, which costs about 4 bytes of
    /// memory for each distinct prefix in every 256 blocks. It pays, a little, only for prefixes of
    /// more than 8 bytes that each fill a block: measure before setting it. Needs
    /// `row_prefix_bytes`. Default off.
    pub prefix_index: bool,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            block_bytes: 16 << 10,
            compression: Compression::Lz4,
            compression_last: Compression::Lz4,
            filter_bits_per_key: 12,
            filter_granularity: None,
            row_prefix_bytes: 0,
            prefix_index: false,
        }
    }
}

/// Longest row prefix of [`TreeOptions::row_prefix_bytes`].
pub(crate) const ROW_PREFIX_BYTES_MAX: u16 = 1024;

impl TreeOptions {
    /// Checks every range; the error names the option and its range.
    pub fn validate(&self) -> Result<()> {
        if !(1 << 10..=64 << 10).contains(&self.block_bytes) {
            return Err(Error::InvalidArgument("block_bytes must be 1 KiB to 64 KiB".into()));
        }
        if self.filter_bits_per_key > 32 {
            return Err(Error::InvalidArgument("filter_bits_per_key must be 0 to 32".into()));
        }
        if self.row_prefix_bytes > ROW_PREFIX_BYTES_MAX {
            return Err(Error::InvalidArgument("row_prefix_bytes must be 0 to 1024".into()));
        }
        if self.prefix_index && self.row_prefix_bytes == 0 {
            return Err(Error::InvalidArgument("prefix_index needs row_prefix_bytes".into()));
        }
        Ok(())
    }
}
