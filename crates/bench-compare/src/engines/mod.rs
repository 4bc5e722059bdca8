//! The engines: one small interface, one file an engine.
//!
//! To add an engine, write a file with its [`Entry`] and list it in [`ALL`]. Rules that make the
//! figures comparable: no compression; checksums verified on every read of a block from disk; a
//! commit log written and never synced; values lent and touched, not copied; all memory for
//! blocks within `Setup::cache_bytes`; at most two background threads.

#[cfg(any(feature = "rocksdb", feature = "fjall", feature = "lmdb"))]
mod encode;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod stele;

use crate::data::{Cell, Model};
use crate::source::Source;
use crate::touched::Touched;
use hdrhistogram::Histogram;
use std::error::Error;
use std::path::Path;

/// Any failure ends the run.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What an engine is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setup {
    /// What rows look like.
    pub(crate) model: Model,
    /// Bytes of a row key where all are equally long, else 0: for filters of prefixes.
    pub(crate) row_bytes: usize,
    /// Memory for blocks, filters and indexes.
    pub(crate) cache_bytes: usize,
    /// Memory for one memtable.
    pub(crate) memtable_bytes: usize,
    /// Whether data is far larger than memory: direct reads, metadata in the cache.
    pub(crate) disk_bound: bool,
    /// Whether runs may be merged in the background.
    pub(crate) merging: Merging,
    /// Whether it is about reading several runs, which an engine without runs cannot show.
    pub(crate) of_runs: bool,
    /// For what sizes of files and levels are chosen.
    pub(crate) sizes: Sizes,
}

/// See [`Setup::sizes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// The engine's defaults.
    Usual,
    /// The engine's defaults divided by this, so that a tree has as many levels as one that is so
    /// many times as large; and what is flushed and merged is counted.
    Parts(u64),
}

/// See [`Setup::merging`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merging {
    /// As the engine sees fit.
    Automatic,
    /// Not at all.
    Never,
}

/// How several reads are kept in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InFlight {
    /// As many threads, each with a get.
    Threads,
    /// Fewer threads, each with a multi-get of so many keys.
    #[cfg_attr(not(feature = "rocksdb"), expect(dead_code, reason = "only RocksDB does so"))]
    Batches(usize),
    /// So many threads, each of which starts the next get when any of its own is answered.
    Queues(usize),
}

/// Which part of a wide row is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// One column of a family: its place in `QUALIFIERS`.
    Column(u8, u8),
    /// All columns of a family.
    Family(u8),
    /// The whole row.
    Row,
}

/// Disk reads an engine counted itself, since it was opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DiskReads {
    /// Blocks or batches of bytes read.
    pub(crate) reads: u64,
    /// Their bytes, if the engine counts them.
    pub(crate) bytes: Option<u64>,
}

/// What background work wrote since the engine was opened, and what it left.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    /// Bytes of files that flushes wrote.
    pub(crate) flushed: u64,
    /// Bytes of files that merging wrote.
    pub(crate) compacted: u64,
    /// Sorted runs in front of a scan now, what is in memory not counted.
    pub(crate) runs: u64,
}

/// An open engine in a directory of its own. Dropping it closes it.
pub(crate) trait BenchEngine: Sync {
    /// Every option that was set, for the reader of the results.
    fn options(&self) -> String;

    /// Commits `cells` in one atomic batch, log written and not synced.
    fn write(&self, cells: &[Cell<'_>]) -> Result<()>;

    /// Loads cells in key order into an empty engine, by its fastest way.
    fn bulk_load(&self, source: &mut Source<'_>) -> Result<()>;

    /// Writes what is in memory into files and waits for it.
    fn flush(&self) -> Result<()>;

    /// How it is asked for many keys at once, where a workload keeps several reads in flight.
    fn in_flight(&self) -> InFlight {
        InFlight::Threads
    }

    /// A reader for one thread; it sees all that was written before it was made.
    fn reader(&self) -> Result<Box<dyn Reader + '_>>;

    /// Disk reads so far, where the engine counts them without slowing reads.
    fn disk_reads(&self) -> Option<DiskReads> {
        None
    }

    /// What is on disk and what was written, if the engine tells; with [`Sizes::Parts`] only.
    fn written(&self) -> Option<Written> {
        None
    }

    /// Stops background work and closes.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Reads of one thread. What is read is lent to `touched`; nothing needs to be copied.
pub(crate) trait Reader {
    /// The value of `key`; of [`Model::Versions`] that with the newest timestamp.
    fn get(&mut self, key: &[u8], touched: &mut Touched) -> Result<()>;

    /// The values of `keys`, in any order.
    fn multi_get(&mut self, keys: &[&[u8]], touched: &mut Touched) -> Result<()>;

    /// The values of `keys`, `depth` gets in flight at a time, in any order; notes the latency of
    /// each. Only for engines that say [`InFlight::Queues`].
    fn get_queued(
        &mut self,
        _keys: &[&[u8]],
        _depth: usize,
        _touched: &mut Touched,
        _each: &mut Histogram<u64>,
    ) -> Result<()> {
        Err("this engine keeps no gets in flight from one thread".into())
    }

    /// The first `count` entries at or after `key`.
    fn seek(&mut self, key: &[u8], count: usize, touched: &mut Touched) -> Result<()>;

    /// Every entry.
    fn scan(&mut self, touched: &mut Touched) -> Result<()>;

    /// Part of a row of [`Model::Columns`].
    fn row(&mut self, row: &[u8], part: Part, touched: &mut Touched) -> Result<()>;
}

/// An engine that can take part.
pub(crate) struct Entry {
    /// Its name on the command line and in results.
    pub(crate) name: &'static str,
    /// Names of the configurations to try for a setup; the best one of each workload counts.
    /// Empty with the reason where the engine cannot do it.
    pub(crate) configurations: fn(&Setup) -> std::result::Result<Vec<&'static str>, &'static str>,
    /// Opens an engine in a directory, which is empty or was written by the same configuration.
    pub(crate) open: fn(&Path, &Setup, &str) -> Result<Box<dyn BenchEngine>>,
}

/// All engines of this build.
pub(crate) const ALL: &[Entry] = &[
    stele::ENTRY,
    #[cfg(feature = "rocksdb")]
    rocksdb::ENTRY,
    #[cfg(feature = "fjall")]
    fjall::ENTRY,
    #[cfg(feature = "lmdb")]
    lmdb::ENTRY,
];

/// The engine called `name`.
pub(crate) fn by_name(name: &str) -> Result<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|entry| entry.name).collect();
        format!("no engine is called {name}; this build has {}", known.join(", ")).into()
    })
}
