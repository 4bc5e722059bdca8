//! Writes an SSTable from entries in order.
//!
//! Data blocks and large values go to the file as they are cut; filter and index partitions are
//! kept in memory (about 1.5 % of the file) and written behind them, so that opening a file reads
//! its end only. Cuts:
//! 1. A data block ends after the row that fills it, and before one with whose key it would pass
//!    one and a half targets; a row that goes on past as much is cut inside and continues in the
//!    next block.
//! 2. An index partition ends with its 256th block, or after the row with which its filter
//!    reaches 64 KiB; data blocks never span partitions.
//! 3. The filter keys of a row belong to the partition in which the row begins, so a filter is
//!    finished when its last row is, which may be after its partition was cut.

use super::file_output::Output;
use super::sst_options::SstOptions;
use crate::batch::{QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX, check_entry};
use crate::cell::{Column, Entry, Kind, RangeTombstone, SequenceNumber, Timestamp};
use crate::error::{Error, Result};
use crate::files::FileIdentity;
use crate::files::FileNumber;
use crate::files::sst_meta::SstMeta;
use crate::marks::Mark;
use crate::sstable::block::{BlockBuilder, LargeValue, NewValue};
use crate::sstable::filter::FilterBuilder;
use crate::sstable::format::ages::Ages;
use crate::sstable::format::block_identity::Frames;
use crate::sstable::format::origin::Origin;
use crate::sstable::format::properties::{Deferred, Properties};
use crate::sstable::format::{BlockType, Footer, Handle, Sealer, range_block};
use crate::sstable::index::top_index::{Partition, TopIndex};
use crate::sstable::index::{IndexEntry, RowPrefixes, encode_column, encode_partition};
use base::env::fs::WriteFile;
use std::cmp::Ordering;
use std::path::Path;

/// Writes one file. Dropped without `finish`, or after an error, it leaves a file without a
/// footer, which the caller removes.
pub(crate) struct SstBuilder {
    output: Output,
    options: SstOptions,
    block: BlockBuilder,
    /// The row of the entry added last.
    row: Vec<u8>,
    row_hash: u64,
    /// Blocks of the current partition.
    index: Vec<IndexEntry>,
    /// First column of the block being built, if it continues a row.
    block_column: Option<Vec<u8>>,
    /// Prefixes of the rows that begin in the current partition.
    prefixes: RowPrefixes,
    partitions: Vec<NewPartition>,
    /// Bytes that `partitions` takes in the file.
    partitions_len: usize,
    /// The partition in which the current row began, and its filter.
    filter: Option<FilterBuilder>,
    filter_partition: usize,
    tombstones: Vec<RangeTombstone>,
    properties: Properties,
    ages: Ages,
    ingested: bool,
}

struct NewPartition {
    top: Partition,
    index: Vec<u8>,
    filter: Vec<u8>,
}

impl SstBuilder {
    /// A builder that writes to `file`, which is empty and whose name `path` is for messages.
    pub(crate) fn new(file: Box<dyn WriteFile>, path: &Path, options: SstOptions) -> Self {
        options.assert_valid();
        let shape = options.shape;
        let sealer = Sealer::new(options.compression, shape.incompressible_skip_max);
        let (path, pending) = (path.to_owned(), Vec::new());
        let (pending_max, frames) = (shape.sst_write_bytes, Frames::Of(FileIdentity(0)));
        let filter = (options.filter_granularity, options.filter_bits_per_key);
        Self {
            output: Output { file, path, sealer, pending, pending_max, written: 0, frames },
            block: BlockBuilder::default(),
            row: Vec::new(),
            row_hash: 0,
            index: Vec::new(),
            block_column: None,
            prefixes: RowPrefixes { bytes: options.row_prefix_bytes, ..Default::default() },
            partitions: Vec::new(),
            partitions_len: 0,
            filter: FilterBuilder::new(filter.0, filter.1, &shape),
            filter_partition: 0,
            tombstones: Vec::new(),
            properties: empty_properties(&options),
            ages: Ages::default(),
            options,
            ingested: false,
        }
    }

    /// The same for a file to be ingested: its entries come with the sequence number 0, and get
    /// theirs when the manifest takes the file. It takes no range tombstones.
    pub(crate) fn for_ingest(file: Box<dyn WriteFile>, path: &Path, options: SstOptions) -> Self {
        Self { ingested: true, ..Self::new(file, path, options) }
    }

    /// Has the file tell where it comes from.
    pub(crate) fn with_origin(mut self, origin: Origin) -> Self {
        self.properties.origin = Some(origin);
        self
    }

    /// Has the file tell what it lacks.
    pub(crate) fn with_deferred(mut self, deferred: Deferred) -> Self {
        self.properties.deferred = deferred;
        self
    }

    /// Has the file tell what it is known by wherever it is copied to, and its blocks be blocks of
    /// that file only. Comes before any entry.
    pub(crate) fn with_identity(mut self, identity: FileIdentity) -> Self {
        assert!(self.is_empty(), "an identity comes before entries");
        self.properties.identity = Some(identity);
        self.output.frames = Frames::Of(identity);
        self
    }

    /// Has the file be of version 1, which nothing but tests writes.
    #[cfg(test)]
    pub(crate) fn of_version_1(mut self) -> Self {
        self.output.frames = Frames::Unmarked;
        self
    }

    /// Adds an entry. Entries come in the order of `crate::cell`, each larger than the one before
    /// and within the limits of a batch; anything else is a bug of the caller and panics.
    pub(crate) fn add(&mut self, row: &[u8], entry: &Entry<'_>) -> Result<()> {
        check_entry(entry).expect("entries were checked when they were written");
        assert!(row.len() <= ROW_BYTES_MAX, "a row key over its limit");
        assert!(entry.column.qualifier.len() <= QUALIFIER_BYTES_MAX, "a qualifier over its limit");
        assert!(entry.value.len() <= VALUE_BYTES_MAX, "a value over its limit");
        assert!(entry.sequence <= SequenceNumber::MAX, "a sequence number over its limit");
        if !self.try_add(row, entry)? {
            assert!(row == self.row, "rows out of order: {}", row.escape_ascii());
            panic!("entries of a row out of order: {entry:?}");
        }
        Ok(())
    }

    /// Adds an entry that is within the limits, as `add` wants it, unless it does not come after
    /// the one before; whether it does. If not, nothing has changed.
    pub(crate) fn try_add(&mut self, row: &[u8], entry: &Entry<'_>) -> Result<bool> {
        let order = match self.properties.entries {
            0 => Ordering::Greater,
            _ => row.cmp(&self.row),
        };
        match order {
            Ordering::Greater => self.start_row(row)?,
            Ordering::Equal => {
                let cut = self.must_cut_inside_row();
                if (cut || self.lies_apart(entry)) && !self.block.comes_last(&entry.key()) {
                    return Ok(false);
                }
                if cut {
                    self.cut_inside_row(&entry.column)?;
                }
            }
            Ordering::Less => return Ok(false),
        }
        if !self.push(entry)? {
            return Ok(false);
        }
        if let Some(filter) = &mut self.filter {
            filter.add(self.row_hash, entry);
        }
        self.ages.add(&entry.key());
        let properties = &mut self.properties;
        properties.entries += 1;
        properties.tombstones += u64::from(entry.kind == Kind::Tombstone);
        let bytes = row.len() + entry.column.qualifier.len() + entry.value.len();
        properties.raw_bytes += bytes as u64;
        Ok(true)
    }

    /// Adds a dropped row range, in any order among themselves and the entries. One that is there
    /// already adds nothing; an empty one is a bug of the caller and panics.
    pub(crate) fn add_range_tombstone(&mut self, tombstone: &RangeTombstone) {
        let bounded = tombstone.end.as_ref().is_none_or(|end| tombstone.start < *end);
        assert!(bounded, "a dropped range that is empty");
        assert!(tombstone.sequence <= SequenceNumber::MAX, "a sequence number over its limit");
        assert!(!self.ingested, "a range tombstone in a file to be ingested");
        self.tombstones.push(tombstone.clone());
    }

    /// Bytes of the file if it were finished now, about.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, FilterBuilder::len);
        self.output.len() + (self.block.estimated_len() + self.partitions_len + filter) as u64
    }

    /// Bytes of the file without what is gathered for the next block; cheap.
    pub(crate) fn bytes_cut(&self) -> u64 {
        self.output.len() + self.partitions_len as u64
    }

    /// Bytes of memory that grow with the file until it is finished.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.partitions_len + self.output.pending.capacity()
    }

    /// The row of the entry added last; empty before the first.
    pub(crate) fn last_row(&self) -> &[u8] {
        &self.row
    }

    /// Returns whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.properties.entries == 0 && self.tombstones.is_empty()
    }

    /// Writes the rest of the file and syncs it. The file is durable when this returns, its name
    /// when its directory is synced. `number` is that of the file.
    pub(crate) fn finish(mut self, number: FileNumber) -> Result<SstMeta> {
        if self.properties.entries > 0 {
            self.properties.last_row.clone_from(&self.row);
            self.end_row();
            self.cut_partition()?;
            self.finish_filter();
        }
        if self.is_empty() {
            self.properties.sequence_min = SequenceNumber(0);
        }
        self.tombstones.sort_by(|a, b| range_block::order(a).cmp(&range_block::order(b)));
        self.tombstones.dedup();
        let top_index = self.write_partitions()?;
        let range_tombstones = self.write_range_tombstones()?;
        self.properties.ages = Some(std::mem::take(&mut self.ages)).filter(|ages| !ages.is_empty());
        let properties =
            self.output.write_block(&self.properties.encode(), BlockType::Properties)?;
        let Self { ingested, options: SstOptions { prefix_index, .. }, .. } = self;
        let identity = match self.output.frames {
            Frames::Unmarked => None,
            Frames::Of(identity) => Some(identity),
        };
        let footer =
            Footer { top_index, properties, range_tombstones, ingested, prefix_index, identity };
        self.output.pending.extend_from_slice(&footer.encode());
        self.output.flush()?;
        let Output { file, path, .. } = &mut self.output;
        file.sync().map_err(|error| Error::io("sync", path, &error))?;
        Ok(self.meta(number))
    }

    /// Ends the row before, if there is one, and begins `row`.
    fn start_row(&mut self, row: &[u8]) -> Result<()> {
        if self.properties.entries > 0 {
            self.end_row();
        } else {
            self.properties.first_row = row.to_vec();
        }
        let overfull = self.block.reaches_with(row, self.overfull_bytes());
        if overfull {
            Mark::BlockOverfull.hit();
        }
        if overfull || self.block.reaches(self.options.block_bytes) || self.has_cells_enough() {
            Mark::BlockFull.hit();
            self.cut_block(Continues::No)?;
        }
        let filter_cut = self.options.shape.filter_bytes_cut;
        let filter_full = self.filter.as_ref().is_some_and(|f| f.len() >= filter_cut);
        if filter_full {
            Mark::PartitionFullOfFilter.hit();
        }
        if filter_full || self.has_blocks_enough() {
            self.cut_partition()?;
        }
        if self.filter_partition < self.partitions.len() {
            self.finish_filter();
            self.filter_partition = self.partitions.len();
        }
        self.row_hash = FilterBuilder::hash_row(row);
        self.add_prefix_of(row);
        self.block.start_row(row);
        self.row.clear();
        self.row.extend_from_slice(row);
        self.properties.rows += 1;
        Ok(())
    }

    /// Adds the prefix of a row that begins in the block being built.
    fn add_prefix_of(&mut self, row: &[u8]) {
        let prefix = match self.options.row_prefix_bytes {
            0 => None,
            len => row.get(..len.into()),
        };
        let Some(prefix) = prefix.map(FilterBuilder::hash_row) else { return };
        if let Some(filter) = &mut self.filter {
            filter.add_prefix(prefix);
        }
        if self.options.prefix_index {
            self.prefixes.blocks.add(prefix, self.index.len());
        }
    }

    fn end_row(&mut self) {
        if let Some(filter) = &mut self.filter {
            filter.end_row(self.row_hash);
        }
    }

    /// Returns whether the row goes on in another block.
    fn must_cut_inside_row(&self) -> bool {
        self.block.reaches(self.overfull_bytes()) || self.has_cells_enough()
    }

    /// Length that a block reaches with the last of its entries only.
    fn overfull_bytes(&self) -> usize {
        let SstOptions { block_bytes, shape, .. } = &self.options;
        block_bytes * shape.block_overrun_percent / 100
    }

    /// Returns whether the block being built takes no cell more.
    fn has_cells_enough(&self) -> bool {
        let full = self.block.cells() >= self.options.shape.block_cells_max;
        if full {
            Mark::BlockCellsFull.hit();
        }
        full
    }

    /// Returns whether the partition being built takes no block more.
    fn has_blocks_enough(&self) -> bool {
        let full = self.index.len() >= self.options.shape.partition_blocks_max;
        if full {
            Mark::PartitionFullOfBlocks.hit();
        }
        full
    }

    /// Makes room for another entry, of `column`, of a row that fills its block.
    fn cut_inside_row(&mut self, column: &Column<'_>) -> Result<()> {
        Mark::RowGoesOn.hit();
        self.cut_block(Continues::Yes)?;
        if self.has_blocks_enough() {
            Mark::RowGoesOnInNextPartition.hit();
            self.cut_partition()?;
        }
        self.block.continue_row(&self.row);
        self.block_column = Some(encode_column(column));
        Ok(())
    }

    /// Returns whether the value of `entry` gets a block of its own.
    fn lies_apart(&self, entry: &Entry<'_>) -> bool {
        entry.kind == Kind::Put && entry.value.len() >= self.options.large_value_bytes
    }

    /// Adds `entry` to the block, if it comes after all that the block has of its row.
    fn push(&mut self, entry: &Entry<'_>) -> Result<bool> {
        if !self.lies_apart(entry) {
            return Ok(self.block.push(&entry.key(), &NewValue::Inline(entry.value)));
        }
        Mark::LargeValueApart.hit();
        let handle = self.output.write_block(entry.value, BlockType::LargeValue)?;
        self.properties.large_values += 1;
        let len = u32::try_from(entry.value.len()).expect("values are below 4 GiB");
        Ok(self.block.push(&entry.key(), &NewValue::Large(LargeValue { handle, len })))
    }

    fn cut_block(&mut self, continues: Continues) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let row = self.block.first_row().to_vec();
        let timestamp_max = self.count_block();
        let block = &mut self.block;
        let fill = |out: &mut Vec<u8>| block.finish(out, continues == Continues::Yes);
        let handle = self.output.write_block_with(BlockType::Data, fill)?;
        let column = self.block_column.take();
        self.index.push(IndexEntry { row, column, handle, timestamp_max });
        Ok(())
    }

    /// Adds the block to the properties. Gives its newest timestamp.
    fn count_block(&mut self) -> i64 {
        let (oldest, newest) = self.block.timestamp_range();
        let (first, last) = self.block.sequence_range();
        let properties = &mut self.properties;
        properties.data_blocks += 1;
        properties.timestamp_min = properties.timestamp_min.min(Timestamp(oldest));
        properties.timestamp_max = properties.timestamp_max.max(Timestamp(newest));
        properties.sequence_min = properties.sequence_min.min(SequenceNumber(first));
        properties.sequence_max = properties.sequence_max.max(SequenceNumber(last));
        newest
    }

    /// Ends the block and the partition. The filter goes on until its last row ends.
    fn cut_partition(&mut self) -> Result<()> {
        self.cut_block(Continues::No)?;
        let (Some(first), blocks) = (self.index.first(), self.index.len()) else { return Ok(()) };
        let timestamp_max = self.index.iter().map(|entry| entry.timestamp_max).max();
        let top = Partition {
            row: first.row.clone(),
            column: first.column.clone(),
            index: Handle::default(),
            filter: None,
            timestamp_max: timestamp_max.unwrap_or(i64::MIN),
            blocks: u16::try_from(blocks).expect("at most 256"),
        };
        let index = encode_partition(&self.index, &self.prefixes);
        self.partitions_len += index.len() + top.encoded_len();
        self.partitions.push(NewPartition { top, index, filter: Vec::new() });
        self.index.clear();
        self.prefixes.blocks.clear();
        Ok(())
    }

    /// Ends the filter of the partition in which the rows ended since the last call began.
    fn finish_filter(&mut self) {
        if let Some(filter) = &mut self.filter
            && !filter.is_empty()
        {
            let filter = filter.finish();
            self.partitions_len += filter.len();
            self.partitions[self.filter_partition].filter = filter;
        }
    }

    fn write_partitions(&mut self) -> Result<Handle> {
        let Self { partitions, output, .. } = self;
        for partition in partitions.iter_mut().filter(|partition| !partition.filter.is_empty()) {
            let handle = output.write_block(&partition.filter, BlockType::Filter)?;
            partition.top.filter = Some(handle);
        }
        for partition in partitions.iter_mut() {
            partition.top.index = output.write_block(&partition.index, BlockType::Index)?;
        }
        let top: Vec<Partition> = partitions.drain(..).map(|partition| partition.top).collect();
        output.write_block(&TopIndex::encode(&top), BlockType::TopIndex)
    }

    fn write_range_tombstones(&mut self) -> Result<Option<Handle>> {
        if self.tombstones.is_empty() {
            return Ok(None);
        }
        self.properties.range_tombstones = self.tombstones.len() as u64;
        for tombstone in &self.tombstones {
            let properties = &mut self.properties;
            properties.sequence_min = properties.sequence_min.min(tombstone.sequence);
            properties.sequence_max = properties.sequence_max.max(tombstone.sequence);
        }
        let block = range_block::encode(&self.tombstones);
        self.output.write_block(&block, BlockType::RangeTombstones).map(Some)
    }

    fn meta(self, number: FileNumber) -> SstMeta {
        let dropped = range_block::hull(&self.tombstones);
        let start = dropped.as_ref().map(|range| range.start.clone()).unwrap_or_default();
        let without_entries = self.properties.entries == 0;
        let Properties { first_row, last_row, .. } = self.properties;
        SstMeta {
            number,
            bytes: self.output.written,
            first_row: if without_entries { start.clone() } else { first_row },
            last_row: if without_entries { start } else { last_row },
            entries: self.properties.entries,
            tombstones: self.properties.tombstones,
            range_tombstones: self.properties.range_tombstones,
            dropped,
            sequence_min: self.properties.sequence_min,
            sequence_max: self.properties.sequence_max,
            timestamp_min: self.properties.timestamp_min,
            timestamp_max: self.properties.timestamp_max,
        }
    }
}

impl std::fmt::Debug for SstBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SstBuilder").field("path", &self.output.path).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Continues {
    Yes,
    No,
}

fn empty_properties(options: &SstOptions) -> Properties {
    Properties {
        first_row: Vec::new(),
        last_row: Vec::new(),
        rows: 0,
        entries: 0,
        tombstones: 0,
        range_tombstones: 0,
        sequence_min: SequenceNumber::MAX,
        sequence_max: SequenceNumber(0),
        timestamp_min: Timestamp::MAX,
        timestamp_max: Timestamp::MIN,
        data_blocks: 0,
        large_values: 0,
        raw_bytes: 0,
        large_value_bytes: options.large_value_bytes as u64,
        filter_granularity: options.filter_granularity,
        filter_bits_per_key: options.filter_bits_per_key,
        row_prefix_bytes: options.row_prefix_bytes,
        origin: None,
        ages: None,
        deferred: Deferred::default(),
        identity: None,
    }
}
