//! Reading SSTables through the block cache.
//!
//! In: a row, a key or a block handle. Out: checked blocks in memory, or which blocks are missing.
//! May use `format`, `block`, `index` and `filter`.

pub(super) mod block_load;
mod block_reads;
pub(super) mod pinned_blocks;
pub(super) mod point_lookup;
pub(super) mod sst_file;
pub(super) mod sst_reader;
pub(super) mod sst_run;
pub(super) mod typed_refs;
pub(super) mod warm_blocks;
