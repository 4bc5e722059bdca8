//! Single filters and index partitions for the measurements of `crates/bench`, which a
//! caller of the engine never meets.

mod find_block;

pub use find_block::{BlockFinder, FindBy};

use super::filter::{FilterBuilder, FilterMeta, FilterPartition, FilterQuery};
use super::format::damage::Damage;
use super::{BlockCache, FileNumber, SstReader};
use crate::cache::{CacheFeatures, CacheFill, Hint};
use crate::cell::Entry;
use crate::error::{Error, Result};
use crate::options::FilterGranularity;
use crate::shape::Shape;
use base::env::FileSystem;
use std::path::Path;

/// Builds the filter of one partition.
pub struct FilterWriter(FilterBuilder);

impl FilterWriter {
    /// A writer; `None` for 0 bits.
    pub fn new(granularity: FilterGranularity, bits_per_key: u8) -> Option<Self> {
        FilterBuilder::new(granularity, bits_per_key, &Shape::DEFAULT).map(Self)
    }

    /// Adds a whole row.
    pub fn add_row<'a>(&mut self, row: &[u8], entries: impl Iterator<Item = Entry<'a>>) {
        let hash = FilterBuilder::hash_row(row);
        entries.for_each(|entry| self.0.add(hash, &entry));
        self.0.end_row(hash);
    }

    /// Returns whether a file's builder would cut the partition here.
    pub fn is_full(&self) -> bool {
        self.0.len() >= Shape::DEFAULT.filter_bytes_cut
    }

    /// The filter.
    pub fn finish(mut self) -> std::result::Result<Filter, Damage> {
        let bytes = self.0.finish();
        let meta = FilterMeta::check(&bytes)?;
        Ok(Filter { bytes, meta })
    }
}

/// A checked filter partition.
pub struct Filter {
    bytes: Vec<u8>,
    meta: FilterMeta,
}

impl Filter {
    /// Returns whether what `query` asks for may be here. `false` is certain.
    pub fn may_contain(&self, query: &FilterQuery<'_>) -> bool {
        FilterPartition::of(&self.bytes, &self.meta).may_contain(query)
    }

    /// Returns whether the row may have a tombstone of any scope here. `false` is certain.
    pub fn may_have_tombstone(&self, query: &FilterQuery<'_>) -> bool {
        FilterPartition::of(&self.bytes, &self.meta).may_have_tombstone(query)
    }

    /// Bytes of the filter.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Bytes that a file needs in memory for reads to find their way in it, beside its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SstMemory {
    /// Length of the file.
    pub file_bytes: u64,
    /// Keys, qualifiers and values as they were added.
    pub raw_bytes: u64,
    /// Held as long as the file is open: the top index.
    pub pinned_bytes: u64,
    /// All index partitions with the hints beside them, as they lie in the cache.
    pub index_bytes: u64,
    /// All filter partitions.
    pub filter_bytes: u64,
}

/// Reads all metadata of the SSTable at `path`. Errors as for opening it and reading its blocks.
pub fn sst_memory(fs: &dyn FileSystem, path: &Path) -> Result<SstMemory> {
    let file = fs.open_read(path).map_err(|error| Error::io("open", path, &error))?;
    let cache = BlockCache::new(0, CacheFeatures::PASSING);
    let sst = SstReader::open(file, path, FileNumber(0), cache)?;
    let mut memory = SstMemory {
        file_bytes: sst.bytes(),
        raw_bytes: sst.properties().raw_bytes,
        pinned_bytes: sst.pinned_bytes() as u64,
        ..SstMemory::default()
    };
    for at in 0..sst.top.partitions().len() {
        let index = sst.index(at, CacheFill::Bypass)?;
        let index = index.0.get();
        memory.index_bytes += (index.bytes.len() + size_of_val::<[Hint]>(index.hints)) as u64;
        if let Some(filter) = sst.filter(at, CacheFill::Bypass)? {
            memory.filter_bytes += filter.0.get().bytes.len() as u64;
        }
    }
    Ok(memory)
}
