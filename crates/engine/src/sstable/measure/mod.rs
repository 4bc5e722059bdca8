//! Single blocks, filters and index partitions for the measurements of `crates/bench`, which a
//! caller of the engine never meets.

mod find_block;

pub use find_block::{BlockFinder, FindBy};

use super::block::{BlockBuilder, BlockView, CellValue, DataMeta, NewValue};
use super::filter::{FilterBuilder, FilterMeta, FilterPartition, FilterQuery};
use super::format::damage::Damage;
use super::format::{BlockType, Sealer};
use super::{BlockCache, FileNumber, SstReader};
use crate::cache::{CacheFeatures, CacheFill, Hint};
use crate::cell::{Column, Entry, Timestamp};
use crate::error::{Error, Result};
use crate::options::{Compression, FilterGranularity};
use crate::shape::Shape;
use base::env::FileSystem;
use std::path::Path;

/// Writes one data block.
#[derive(Default)]
pub struct BlockWriter(BlockBuilder);

impl BlockWriter {
    /// Starts a row.
    pub fn start_row(&mut self, row: &[u8]) {
        self.0.start_row(row);
    }

    /// Adds an entry to the row started last.
    pub fn push(&mut self, entry: &Entry<'_>) {
        let ordered = self.0.push(&entry.key(), &NewValue::Inline(entry.value));
        assert!(ordered, "entries of a row come in order");
    }

    /// Length of the block if it were finished now.
    pub fn len(&self) -> usize {
        self.0.estimated_len()
    }

    /// Returns whether no entry was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The block; the writer is empty afterwards.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut block = Vec::new();
        self.0.finish(&mut block, false);
        block
    }
}

/// A checked data block.
pub struct DataBlock {
    bytes: Vec<u8>,
    meta: DataMeta,
}

impl DataBlock {
    /// Checks the block in `bytes`.
    pub fn new(bytes: Vec<u8>) -> std::result::Result<Self, Damage> {
        let meta = DataMeta::check(&bytes)?;
        Ok(Self { bytes, meta })
    }

    fn view(&self) -> BlockView<'_> {
        BlockView::of(&self.bytes, &self.meta)
    }

    /// The newest value of the column in the row that is not newer than `newest`.
    pub fn get(&self, row: &[u8], column: &Column<'_>, newest: Timestamp) -> Option<&[u8]> {
        let view = self.view();
        let at = view.lower_bound(row);
        if at == view.rows() || !view.row_is(at, row) {
            return None;
        }
        let cells = view.cells_of(at);
        let first = view.find_column(cells.clone(), column);
        for cell in first..cells.end {
            let key = view.key(cell);
            if key.column != *column {
                return None;
            }
            if key.timestamp <= newest {
                let CellValue::Inline(value) = view.value(cell) else { return None };
                return Some(value);
            }
        }
        None
    }

    /// Reads every entry; gives their count and the sum of their values' lengths and timestamps.
    pub fn read_all(&self) -> (usize, u64) {
        let view = self.view();
        let (mut entries, mut sum) = (0, 0u64);
        for row in 0..view.rows() {
            for cell in view.cells_of(row) {
                let key = view.key(cell);
                let CellValue::Inline(value) = view.value(cell) else { continue };
                entries += 1;
                sum = sum.wrapping_add(key.timestamp.0 as u64).wrapping_add(value.len() as u64);
            }
        }
        (entries, sum)
    }
}

/// Bytes of a data block in a file under LZ4.
pub fn lz4_len(raw: &[u8]) -> usize {
    Sealer::new(Compression::Lz4, 0).seal(&mut raw.to_vec(), 0, BlockType::Data, 0) as usize
}

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
