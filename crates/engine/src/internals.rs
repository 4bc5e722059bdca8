//! Parts of the engine that Stele's own tests, fuzz targets and benchmarks look into. No promise
//! holds for them: they change at any time.

pub use crate::batch::{BatchError, FrozenBatch, Mutation, Mutations, check_entry};
pub use crate::cache::CacheFeatures;
pub use crate::cell::{Entry, Kind, RangeTombstone};
pub use crate::compaction::output_split::Splitter;
pub use crate::compaction::pick::{
    Busy, Destination, L1Target, Plan, Work, is_full, pick, runs_max,
};
pub use crate::compaction::signals::Signals;
pub use crate::files::{FileIdentity, FileNumber};
pub use crate::ingest::sort::SORT_MEMORY_BYTES_MIN;
pub use crate::locks::LOCKS;
pub use crate::log::{LogReader, SegmentNumber};
pub use crate::manifest::load as load_manifest;
pub use crate::manifest::state::version::LEVELS;
pub use crate::manifest::{LogPosition, Run, RunId, SstMeta, State, TreeVersion};
pub use crate::marks::Mark;
pub use crate::memory::budget::{Budget, Use};
pub use crate::memtable::{Memtable, MemtableCursor};
pub use crate::options::ReadPath;
pub use crate::request::Wanted;
pub use crate::semantics::model::{Model, OwnedEntry, OwnedRow};
pub use crate::semantics::row_cursor::RowCursor;
pub use crate::shape::Shape;
pub use crate::sstable::measure::{BlockFinder, FilterWriter, FindBy, SstMemory, sst_memory};
pub use crate::sstable::{BlockCache, SstReader};

/// Decoders, each fed bytes of any kind. A panic is a defect.
pub mod fuzz {
    pub use crate::batch::fuzz as batch;
    pub use crate::files::copy_note::fuzz as copy_note;
    pub use crate::group_log::fuzz::group_record;
    pub use crate::ingest::sort::fuzz as sort_run;
    pub use crate::log::fuzz::log_record;
    pub use crate::manifest::fuzz::manifest_edit;
    pub use crate::merge_operator::fuzz_sketch as sketch;
    pub use crate::sstable::fuzz::{block, filter, footer, index};
}
