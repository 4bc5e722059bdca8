//! An open SSTable: its pinned parts, its blocks through the cache, its filter.
//!
//! Invariants:
//! 1. Footer, properties, range tombstones and top index are read and checked by `open` and stay
//!    in memory; everything else is read when needed.
//! 2. A block or partition that enters the cache was checked by itself and against the index
//!    entry that led to it, so index and blocks never disagree later.
//! 3. Every failure to make sense of bytes is `Error::Corruption` with the file and an absolute
//!    offset: that of the damage, or of the block that holds it when the block is compressed.
//!
//! Readers are shared freely between threads; nothing in them changes after `open`.

use super::sst_file::Source;
use super::typed_refs::{FilterRef, IndexRef};
use crate::cache::{CacheFill, CacheKey};
use crate::cell::{RangeTombstone, SequenceNumber};
use crate::error::{Error, Result};
use crate::files::FileNumber;
use crate::memory::budget::{Charge, Use};
use crate::options::ReadPath;
use crate::request::{Direction, RowRange};
use crate::sstable::BlockCache;
use crate::sstable::filter::FilterQuery;
use crate::sstable::format::damage::ensure;
use crate::sstable::format::properties::Properties;
use crate::sstable::format::{BlockType, Footer, Handle, range_block};
use crate::sstable::index::top_index::TopIndex;
use base::env::fs::ReadFile;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What the version, its run and the file handle take for an open SSTable, about.
const KNOWN_ELSEWHERE_BYTES: usize = 400;

/// A data block of the file, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) partition: usize,
    pub(crate) block: usize,
}

impl Place {
    /// The place after it, if the partition goes on.
    pub(crate) fn following(self) -> Self {
        Self { block: self.block + 1, ..self }
    }
}

/// An open SSTable.
pub struct SstReader {
    pub(crate) source: Source,
    cache: Arc<BlockCache>,
    pub(crate) footer: Footer,
    properties: Properties,
    range_tombstones: Vec<RangeTombstone>,
    pub(crate) top: TopIndex,
    /// Of an ingested file, the sequence number of all entries.
    given: Option<SequenceNumber>,
    /// Prefix indexes are used.
    by_prefix: bool,
    /// For `pinned_bytes`.
    charge: Charge,
}

impl SstReader {
    /// Opens the SSTable in `file`, whose name `path` is for messages, and reads its pinned parts.
    /// `Error::Unusable` if it is of a newer format.
    pub fn open(
        file: Arc<dyn ReadFile>,
        path: &Path,
        number: FileNumber,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let mut source = Source::new(file, path, number)?;
        let footer = source.read_footer()?;
        let properties =
            source.read_checked(footer.properties, BlockType::Properties, Properties::decode)?;
        let range_tombstones = match footer.range_tombstones {
            Some(handle) => {
                let decode = |bytes: &[u8]| {
                    let tombstones = range_block::decode(bytes)?;
                    ensure(!tombstones.is_empty(), 0, "a range-tombstone block without any")?;
                    Ok(tombstones)
                };
                source.read_checked(handle, BlockType::RangeTombstones, decode)?
            }
            None => Vec::new(),
        };
        let top = source.read_checked(footer.top_index, BlockType::TopIndex, TopIndex::decode)?;
        let given = footer.ingested.then_some(SequenceNumber(0));
        let by_prefix = true;
        let charge = cache.budget().charge(Use::Metadata);
        let mut reader = Self {
            source,
            cache,
            footer,
            properties,
            range_tombstones,
            top,
            given,
            by_prefix,
            charge,
        };
        reader.check_pinned()?;
        reader.charge.set(reader.pinned_bytes());
        Ok(Arc::new(reader))
    }

    /// Returns the statement of the SSTable in `file` about itself; reads its footer and properties only.
    pub(crate) fn properties_of(
        file: Arc<dyn ReadFile>,
        path: &Path,
        number: FileNumber,
    ) -> Result<Properties> {
        let mut source = Source::new(file, path, number)?;
        let handle = source.read_footer()?.properties;
        source.read_checked(handle, BlockType::Properties, Properties::decode)
    }

    /// Gives the entries of an ingested file, just opened, the number that the manifest has for
    /// them; another file stays as it is.
    pub fn numbered(mut sst: Arc<Self>, sequence: SequenceNumber) -> Arc<Self> {
        if sst.footer.ingested {
            let own = Arc::get_mut(&mut sst).expect("nobody else has a file just opened");
            own.given = Some(sequence);
            own.properties.sequence_min = sequence;
            own.properties.sequence_max = sequence;
        }
        sst
    }

    /// Has a file, just opened, read without the parts that `parts` switches off.
    pub fn with_read_path(mut sst: Arc<Self>, parts: ReadPath) -> Arc<Self> {
        if !parts.prefix_index {
            let own = Arc::get_mut(&mut sst).expect("nobody else has a file just opened");
            own.by_prefix = false;
        }
        sst
    }

    /// The same file again, its blocks through another cache.
    pub(crate) fn reopen(&self, cache: Arc<BlockCache>) -> Result<Arc<Self>> {
        let Source { file, path, number, .. } = &self.source;
        let sst = Self::open(Arc::clone(file), path, *number, cache)?;
        Ok(Self::numbered(sst, self.given.unwrap_or_default()))
    }

    /// Checks the pinned parts against each other.
    fn check_pinned(&self) -> Result<()> {
        let fail = |handle: Handle, what| Err(self.source.corruption(handle.offset, what));
        let properties = &self.properties;
        if properties.range_tombstones != self.range_tombstones.len() as u64 {
            return fail(self.footer.properties, "another count of range tombstones");
        }
        let blocks: u64 = self.top.partitions().iter().map(|p| u64::from(p.blocks)).sum();
        if blocks != properties.data_blocks {
            return fail(self.footer.properties, "another count of data blocks");
        }
        let zero = properties.sequence_max == SequenceNumber(0);
        if self.footer.ingested && !(zero && self.range_tombstones.is_empty()) {
            return fail(self.footer.properties, "a sequence number in an ingested file");
        }
        let other = |own| self.footer.identity.is_some_and(|identity| identity != own);
        if properties.identity.is_some_and(other) {
            return fail(self.footer.properties, "another identity than in the footer");
        }
        if self.footer.prefix_index && properties.row_prefix_bytes == 0 {
            return fail(self.footer.properties, "a prefix index without a length of prefixes");
        }
        if let Some(first) = self.top.partitions().first()
            && (first.row != properties.first_row || first.column.is_some())
        {
            return fail(self.footer.top_index, "the first partition has another first row");
        }
        Ok(())
    }

    /// The file's number.
    pub fn number(&self) -> FileNumber {
        self.source.number
    }

    /// The cache its blocks go through.
    pub(crate) fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.source.len
    }

    /// Counts and bounds of the file.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The dropped row ranges, sorted by start.
    pub fn range_tombstones(&self) -> &[RangeTombstone] {
        &self.range_tombstones
    }

    /// From the smallest start to the largest end of the dropped row ranges; `None` without any.
    pub fn dropped(&self) -> Option<RowRange> {
        range_block::hull(&self.range_tombstones)
    }

    /// Bytes of memory held while the file is open, cached blocks not counted: what is read of it,
    /// and what the tree's version and its runs know of it.
    pub fn pinned_bytes(&self) -> usize {
        let Properties { first_row, last_row, .. } = &self.properties;
        let of_range = |range: &RangeTombstone| {
            range.start.len() + range.end.as_ref().map_or(0, Vec::len) + size_of_val(range)
        };
        let ranges: usize = self.range_tombstones.iter().map(of_range).sum();
        let path = self.source.path.as_os_str().len();
        // The version has both rows, too.
        let rows = 2 * (first_row.len() + last_row.len());
        size_of::<Self>() + self.top.memory_bytes() + ranges + path + rows + KNOWN_ELSEWHERE_BYTES
    }

    /// Returns whether the file may have what `query` asks for, or any tombstone of its row: `false` is
    /// certain. Range tombstones are not asked. Reads a filter partition unless it is cached.
    pub fn may_contain(&self, query: &FilterQuery<'_>) -> Result<bool> {
        self.may_contain_for(query, CacheFill::Insert)
    }

    /// The same for a read that fills the cache so.
    pub(crate) fn may_contain_for(&self, query: &FilterQuery<'_>, fill: CacheFill) -> Result<bool> {
        Ok(match self.filter_of(query.asked_row(), fill)? {
            FilterOf::Absent => false,
            FilterOf::Unknown => true,
            FilterOf::Found(filter) => filter.view().may_contain(query),
        })
    }

    /// Returns whether the file may have a tombstone of the query's row, of any scope: `false` is
    /// certain.
    pub fn may_have_tombstone(&self, query: &FilterQuery<'_>) -> Result<bool> {
        if self.properties.tombstones == 0 {
            return Ok(false);
        }
        Ok(match self.filter_of(query.asked_row(), CacheFill::Insert)? {
            FilterOf::Absent => false,
            FilterOf::Unknown => true,
            FilterOf::Found(filter) => filter.view().may_have_tombstone(query),
        })
    }

    /// What the filter says of rows in `rows`, all of which have the prefix that `query` asks for:
    /// whether the file may have one of them. `Some(false)` is certain; `None` means that there
    /// may be some and no filter was asked. Range tombstones are not asked either.
    ///
    /// One filter partition is enough: rows of the range begin in the one its start falls in, or in
    /// those after. If one of those begins with a row of the range, the file has that row; else
    /// they have none.
    pub fn filter_says(&self, rows: &RowRange, query: &FilterQuery<'_>) -> Result<Option<bool>> {
        if usize::from(self.properties.row_prefix_bytes) != query.asked_row().len() {
            return Ok(None);
        }
        let after = self.top.partition_of(&rows.start).map_or(0, |partition| partition + 1);
        if self.top.partitions().get(after).is_some_and(|after| rows.contains(&after.row)) {
            return Ok(None);
        }
        Ok(match self.filter_of(&rows.start, CacheFill::Insert)? {
            FilterOf::Absent => Some(false),
            FilterOf::Unknown => None,
            FilterOf::Found(filter) => Some(filter.view().may_have_prefix(query)),
        })
    }

    fn filter_of(&self, row: &[u8], fill: CacheFill) -> Result<FilterOf> {
        if row > self.properties.last_row.as_slice() {
            return Ok(FilterOf::Absent);
        }
        let Some(partition) = self.top.partition_of(row) else { return Ok(FilterOf::Absent) };
        if self.properties.filter_bits_per_key == 0 {
            return Ok(FilterOf::Unknown);
        }
        // Where there is none, no row begins in the partition: a wide one covers it.
        let filter = self.filter(partition, fill)?;
        Ok(filter.map_or(FilterOf::Absent, FilterOf::Found))
    }

    /// The first row of each index partition, in order, a row of several partitions several times;
    /// each with about the bytes that the file has for it. Nothing is read.
    pub(crate) fn partition_rows(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let partitions = self.top.partitions();
        let blocks: u64 = partitions.iter().map(|partition| u64::from(partition.blocks)).sum();
        let block_bytes = self.bytes() / blocks.max(1);
        partitions
            .iter()
            .map(move |partition| (&*partition.row, block_bytes * u64::from(partition.blocks)))
    }

    /// Row keys that cut the file into parts of about `part_bytes` bytes (at least a data block),
    /// ascending, each with the bytes of data before it. The first row is not among them.
    pub fn sample_rows(&self, part_bytes: u64) -> Result<Vec<(Vec<u8>, u64)>> {
        let mut samples = Vec::new();
        let mut next = part_bytes.max(1);
        let mut row = Vec::new();
        for at in 0..self.top.partitions().len() {
            let index = self.index(at, CacheFill::Insert)?;
            let index = index.view();
            for block in 0..index.blocks() {
                let offset = index.handle(block).offset;
                if offset >= next && !index.continued(block) {
                    index.copy_row(block, &mut row);
                    samples.push((row.clone(), offset));
                    next = offset + part_bytes.max(1);
                }
            }
        }
        Ok(samples)
    }

    /// Bytes of the file that hold the entries of `rows`, to the nearest data blocks. Reads an index
    /// partition for each bound between rows of the file, and nothing for the others.
    pub fn approximate_bytes(&self, rows: &RowRange) -> Result<u64> {
        let Properties { first_row, last_row, .. } = &self.properties;
        let ends_before_it = rows.end.as_ref().is_some_and(|end| end <= first_row);
        if ends_before_it || *last_row < rows.start {
            return Ok(0);
        }
        let ends_behind_it = rows.end.as_ref().is_none_or(|end| end > last_row);
        if ends_behind_it && rows.start <= *first_row {
            return Ok(self.data_end());
        }
        let start = self.offset_of(&rows.start)?;
        let end = match &rows.end {
            Some(end) => self.offset_of(end)?,
            None => self.data_end(),
        };
        Ok(end.saturating_sub(start))
    }

    /// Where the first block lies whose first row is not less than `row`.
    fn offset_of(&self, row: &[u8]) -> Result<u64> {
        let after = self.top.lower_bound(row);
        if let Some(at) = after.checked_sub(1) {
            let index = self.index(at, CacheFill::Insert)?;
            let index = index.view();
            let block = index.lower_bound(row);
            if block < index.blocks() {
                return Ok(index.handle(block).offset);
            }
        } else {
            return Ok(0);
        }
        if after == self.top.partitions().len() {
            return Ok(self.data_end());
        }
        Ok(self.index(after, CacheFill::Insert)?.view().handle(0).offset)
    }

    /// Returns the end of the data blocks.
    pub(crate) fn data_end(&self) -> u64 {
        let partitions = self.top.partitions().iter();
        let handles =
            partitions.flat_map(|partition| partition.filter.into_iter().chain([partition.index]));
        handles.map(|handle| handle.offset).min().unwrap_or(0)
    }

    /// The sequence number of all entries, if the manifest has it.
    pub(crate) fn given(&self) -> Option<SequenceNumber> {
        self.given
    }

    /// Returns whether prefix indexes are used.
    pub(crate) fn uses_prefix_index(&self) -> bool {
        self.by_prefix
    }

    /// The data block beside the one at `place`, in `direction`; `None` at the end of the file.
    pub(crate) fn place_beside(&self, place: Place, direction: Direction) -> Option<Place> {
        let partitions = self.top.partitions();
        let blocks = |partition: usize| partitions.get(partition).map(|p| usize::from(p.blocks));
        let Place { partition, block } = place;
        match direction {
            Direction::Forward if block + 1 < blocks(partition)? => {
                Some(Place { partition, block: block + 1 })
            }
            Direction::Forward => {
                blocks(partition + 1).map(|_| Place { partition: partition + 1, block: 0 })
            }
            Direction::Reverse if block > 0 => Some(Place { partition, block: block - 1 }),
            Direction::Reverse => {
                let partition = partition.checked_sub(1)?;
                Some(Place { partition, block: blocks(partition)?.checked_sub(1)? })
            }
        }
    }

    /// Asks the processor to fetch what says whether the block is where its hint says, and the
    /// parts of the block that `parts` names by its prefetch hint.
    pub(crate) fn prefetch_data<const N: usize>(
        &self,
        index: &IndexRef,
        block: usize,
        parts: impl FnOnce(u32) -> [Range<usize>; N],
    ) {
        self.cache.prefetch(&index.hints()[block], parts);
    }

    pub(crate) fn key(&self, handle: Handle) -> CacheKey {
        CacheKey { file: self.source.number, offset: handle.offset }
    }

    pub(crate) fn wrong_type(&self, handle: Handle) -> Error {
        self.source.corruption(handle.offset, "two handles of different types lead here")
    }
}

impl std::fmt::Debug for SstReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SstReader").field("path", &self.source.path).finish_non_exhaustive()
    }
}

enum FilterOf {
    /// The row is outside all that the file has.
    Absent,
    /// The file has no filter.
    Unknown,
    Found(FilterRef),
}
