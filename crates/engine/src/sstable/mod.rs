//! SSTables: sorted, immutable files of entries (docs/format/sstable.md).
//!
//! `builder` writes one from entries in order, as `options` say, to its `output`; `reader` opens one
//! and answers from its `source`, `cursor` walks it, `verify` checks it, `show` prints it. Blocks are
//! read through the block cache; each is checked once, when it enters it, and read in place from
//! then on. Nothing here knows of levels, versions or the manifest.

mod ages;
mod ahead;
mod block;
mod builder;
mod cursor;
mod damage;
mod filter;
mod format;
mod frames;
#[doc(hidden)]
pub mod fuzz;

mod heads;
mod heirs;
mod held;
mod in_place;
mod index;
mod ints;
mod last_key;
mod load;
#[doc(hidden)]
pub mod measure;
mod options;
mod origin;
mod output;
mod plain;
mod point;
mod prefix_index;
mod properties;
mod ranges;
mod readahead;
mod reader;
mod refs;
mod run;
pub(crate) mod salvage;
mod scan;
mod show;
mod source;
mod stretch;
#[cfg(test)]
mod tests;
mod top_index;
mod verify;

pub use crate::file::FileNumber;
pub use ages::Ages;
pub use builder::{SstBuilder, SstSummary};
pub use cursor::SstCursor;
pub use damage::Damage;
pub(crate) use filter::RowBits;
pub use filter::{Asked, FilterQuery};
pub use format::{BlockType, FORMAT_VERSION, Footer, FooterError, Handle};
pub(crate) use heads::head_of;
pub(crate) use heirs::{Heir, Heirs};
pub(crate) use held::HeldBlocks;
pub(crate) use in_place::{Covers, LargeValues, RowCells, SeenBy, SeenPut, ToMerge};
pub(crate) use load::BlockLoad;
pub use options::SstOptions;
pub use origin::Origin;
pub(crate) use plain::PlainCells;
pub(crate) use point::{Ahead, Candidate, Descent, Missing, RowHit};
pub use properties::{Deferred, Properties};
pub(crate) use readahead::{Readahead, ReadaheadSource};
pub use reader::SstReader;
pub(crate) use run::SstRun;
pub(crate) use stretch::{Stretch, WantedCells};

use crate::cache::Cache;
use block::DataMeta;
use filter::FilterMeta;
use index::IndexMeta;

/// The cache of the engine's blocks.
pub type BlockCache = Cache<Block>;

/// What a cached block is, beside its bytes, which were checked.
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
