//! SSTables: sorted, immutable files of entries (docs/format/sstable.md).
//!
//! In: entries in order, to be written; rows and keys, to be read. Out: files, and entries as they lie
//! in checked blocks. May use `cache`, `files`, `memory`, `counters` and `semantics`. Nothing here
//! knows of levels, versions or the manifest.
//!
//! - `format`, `block`, `index` and `filter` are the parts of a file; they do no I/O.
//! - `write` makes a file from entries in order.
//! - `read` opens one and finds blocks, through the block cache: a block is checked once, when it
//!   enters the cache, and read in place from then on.
//! - `rows` walks and lends the rows of found blocks.
//! - `inspect` verifies and prints whole files, `salvage` reads damaged ones.

mod block;
mod filter;
mod format;
pub(crate) mod fuzz;
mod inspect;
mod read;
mod rows;
mod write;

mod index;
pub(crate) mod measure;
pub(crate) mod salvage;
#[cfg(test)]
mod tests;

pub(crate) use crate::files::FileNumber;
pub(crate) use filter::RowBits;
pub(crate) use filter::filter_counters::{FILTER_COUNTS, FilterCounters, filtered};
pub(crate) use filter::{Asked, FilterQuery};
pub(crate) use format::ages::Ages;
pub(crate) use format::key_heads::head_of;
pub(crate) use format::origin::Origin;
pub use format::properties::Deferred;
pub(crate) use format::properties::Properties;
pub use inspect::show::DumpOptions;
pub(crate) use read::block_load::BlockLoad;
pub(crate) use read::pinned_blocks::PinnedBlocks;
pub(crate) use read::point_lookup::{Ahead, Candidate, Descent, Missing, RowHit};
pub use read::sst_reader::SstReader;
pub(crate) use read::sst_run::SstRun;
pub(crate) use read::warm_blocks::{WarmBlock, WarmBlocks};
pub(crate) use rows::readahead::{Readahead, ReadaheadSource};
pub(crate) use rows::resolve_in_block::{Covers, LargeValues, RowCells, SeenBy, SeenPut, ToMerge};
pub(crate) use rows::row_span::{RowSpan, WantedCells};
pub(crate) use rows::simple_row::SimpleCells;
pub(crate) use rows::sst_cursor::SstCursor;
pub(crate) use write::sst_builder::SstBuilder;
pub(crate) use write::sst_options::SstOptions;

use crate::cache::Cache;
use block::DataMeta;
use filter::FilterMeta;
use index::IndexMeta;

/// The cache of the engine's blocks.
pub type BlockCache = Cache<Block>;

/// Metadata of a cached block, whose bytes were checked.
#[derive(Debug, Clone, Copy)]
pub struct Block(Content);

/// In this layout, so that the first bytes of a filter's are in one line with the head of its frame.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Content {
    Data(DataMeta),
    Index(IndexMeta),
    Filter(FilterMeta),
    LargeValue,
}

impl Content {
    /// Bytes of it that a filter has.
    const FILTER_BYTES: usize = align_of::<FilterMeta>() + size_of::<FilterMeta>();
}
