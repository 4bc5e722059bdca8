//! One file's part in the read of a row, in stages. Each stage looks only at what is resident,
//! takes no lock, and ends by asking the processor to fetch what the next one looks at, so that
//! a reader of several files, or of several rows, waits for memory once per stage and not once per
//! file.
//!
//! A stage that needs a block which is not in the arena says which ([`Missing`]) and can be tried
//! again when a [`BlockLoad`](super::BlockLoad) has brought it in.

use super::block::{BlockView, Search};
use super::filter::{FilterPartition, FilterQuery};
use super::format::Handle;
use super::index::IndexPartition;
use super::reader::SstReader;
use super::top_index::Slot;
use super::{Block, Content};
use crate::cache::{BlockRef, Hint};
use crate::cell::Timestamp;
use crossbeam_epoch::Guard;

/// Bytes of a data block in which its row heads usually lie; fetched before it is known where, since
/// waiting for memory twice costs more than some lines too many.
const KEYS_BYTES: usize = 1 << 10;

/// A block of a file, by the way that leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The filter of a partition.
    Filter(usize),
    /// The index of a partition.
    Index(usize),
    /// A data block of a partition.
    Data(usize, usize),
}

/// Where in a file a row can be: the partition.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'g> {
    sst: &'g SstReader,
    partition: u32,
}

/// A search for a row in a file that its filter let pass.
#[derive(Clone)]
pub(crate) struct Descent<'g, 'k> {
    sst: &'g SstReader,
    partition: usize,
    block: usize,
    way: Option<(Handle, &'g Hint)>,
    view: Option<BlockView<'g>>,
    search: Option<Search<'k>>,
}

/// A row that was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowHit<'g> {
    pub(in crate::sstable) view: BlockView<'g>,
    pub(in crate::sstable) row: usize,
}

impl<'g> Candidate<'g> {
    /// The only place of the file where `row` can be, which is not after its last row.
    #[inline]
    pub(crate) fn begin(sst: &'g SstReader, row: &[u8]) -> Option<Self> {
        let partition = sst.top.partition_of(row)?;
        sst.prefetch(&sst.top.slots()[partition].filter_hint, 0);
        Some(Self { sst, partition: partition as u32 })
    }

    fn slot(self) -> &'g Slot {
        &self.sst.top.slots()[self.partition as usize]
    }

    /// No entry of the row that the file may have is newer.
    pub(crate) fn timestamp_max(self) -> Timestamp {
        Timestamp(self.slot().timestamp_max)
    }

    /// Asks the processor to fetch the row's line of the filter.
    #[inline]
    pub(crate) fn reach_filter(self, query: &FilterQuery<'_>, pinned: &'g Guard) {
        if let Some(filter) = self.filter(pinned) {
            filter.prefetch(query);
        }
    }

    /// Whether the filter lets the row pass for any of `queries`. `false` is certain.
    #[inline]
    pub(crate) fn probe(
        self,
        queries: &[FilterQuery<'_>],
        pinned: &'g Guard,
    ) -> std::result::Result<bool, Missing> {
        let slot = self.slot();
        let passes = if self.sst.properties().filter_bits_per_key == 0 {
            true
        } else if slot.filter.is_none() {
            // No row begins in the partition: a wide one covers it.
            false
        } else {
            let filter = self.filter(pinned).ok_or(Missing::Filter(self.partition as usize))?;
            queries.iter().any(|query| filter.may_contain(query))
        };
        if passes {
            self.sst.prefetch(&slot.index_hint, 0);
        }
        Ok(passes)
    }

    #[inline]
    fn filter(self, pinned: &'g Guard) -> Option<FilterPartition<'g>> {
        let slot = self.slot();
        let block = self.sst.look(slot.filter?, &slot.filter_hint, pinned)?;
        match &block.meta.0 {
            Content::Filter(meta) => Some(FilterPartition::of(block.bytes, meta)),
            _ => None,
        }
    }

    /// Begins to search the file.
    pub(crate) fn descend<'k>(self) -> Descent<'g, 'k> {
        let partition = self.partition as usize;
        Descent { sst: self.sst, partition, block: 0, way: None, view: None, search: None }
    }
}

impl<'g, 'k> Descent<'g, 'k> {
    /// Finds the data block.
    pub(crate) fn find_block(
        &mut self,
        row: &[u8],
        pinned: &'g Guard,
    ) -> std::result::Result<(), Missing> {
        let slot = &self.sst.top.slots()[self.partition];
        let block = self.sst.look(slot.index, &slot.index_hint, pinned);
        let block = block.ok_or(Missing::Index(self.partition))?;
        let Content::Index(meta) = &block.meta.0 else {
            return Err(Missing::Index(self.partition));
        };
        let index = IndexPartition::of(block.bytes, meta);
        self.block = index.block_of(row);
        let hint = &block.hints[self.block];
        self.sst.prefetch(hint, KEYS_BYTES);
        self.way = Some((index.handle(self.block), hint));
        Ok(())
    }

    /// Finds where in the block the row can be.
    pub(crate) fn reach_row(
        &mut self,
        row: &'k [u8],
        pinned: &'g Guard,
    ) -> std::result::Result<(), Missing> {
        let (handle, hint) = self.way.expect("the block was found before");
        let missing = Missing::Data(self.partition, self.block);
        let block = self.sst.look(handle, hint, pinned).ok_or(missing)?;
        let Content::Data(meta) = &block.meta.0 else { return Err(missing) };
        let view = BlockView::of(block.bytes, meta);
        self.view = Some(view);
        self.search = view.search(row);
        Ok(())
    }

    /// Finds the row by its head.
    pub(crate) fn reach_cells(&mut self) {
        if let (Some(view), Some(search)) = (&self.view, &mut self.search) {
            view.search_heads(search);
        }
    }

    /// The row, if the file has it.
    pub(crate) fn row(&self) -> Option<RowHit<'g>> {
        let (view, search) = (self.view?, self.search.as_ref()?);
        view.found(search).map(|row| RowHit { view, row })
    }
}

impl SstReader {
    #[inline]
    fn look<'g>(
        &'g self,
        handle: Handle,
        hint: &Hint,
        pinned: &'g Guard,
    ) -> Option<BlockRef<'g, Block>> {
        self.cache().find(self.key(handle), hint, pinned)
    }

    #[inline]
    fn prefetch(&self, hint: &Hint, len: usize) {
        self.cache().prefetch(hint, len);
    }
}
