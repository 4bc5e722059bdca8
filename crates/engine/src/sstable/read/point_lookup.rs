//! One file's part in the read of a row, in stages. Each stage looks only at what is resident,
//! takes no lock, and ends by asking the processor to fetch what the next one looks at, so that
//! a reader of several files, or of several rows, waits for memory once per stage and not once per
//! file.
//!
//! A stage that needs a block which is not in the arena says which ([`Missing`]) and can be tried
//! again when a [`BlockLoad`](crate::sstable::BlockLoad) has brought it in.

use super::sst_reader::SstReader;
use crate::cache::{BlockRef, Hint, Prefetched};
use crate::cell::Timestamp;
use crate::sstable::block::{BlockView, LargeValue, Search, aimed};
use crate::sstable::filter::{FilterPartition, FilterQuery, RowBits, line_at};
use crate::sstable::format::Handle;
use crate::sstable::index::IndexPartition;
use crate::sstable::index::top_index::Slot;
use crate::sstable::{Block, Content};
use crossbeam_epoch::Guard;
use std::ops::Range;

/// A block of a file, by the way that leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The filter of a partition.
    Filter(usize),
    /// The index of a partition.
    Index(usize),
    /// A data block of a partition.
    Data(usize, usize),
    /// The block of a large value, of which a data block tells.
    Large(LargeValue),
}

impl Missing {
    /// Bytes of the large value, if it is one.
    pub(crate) fn large_bytes(self) -> usize {
        if let Self::Large(large) = self { large.len as usize } else { 0 }
    }
}

/// Where in a file a row can be: the partition.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'g> {
    sst: &'g SstReader,
    partition: u32,
    /// The partition's filter, then, once that let the row pass, its index.
    ahead: Prefetched<'g, Block>,
}

/// What of a data block is fetched before anything of it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// Also the part of the directory where the row probably is: a read that is alone waits for
    /// memory once less.
    Rows,
    /// No more than leads there: of many reads at once, fewer lines cost less than the wait.
    Keys,
}

/// The bytes of a data block with its prefix, its dictionary and its samples, usually.
const KEYS: Range<usize> = 64..192;

/// A search for a row in a file that its filter let pass.
#[derive(Clone)]
pub(crate) struct Descent<'g, 'k> {
    sst: &'g SstReader,
    partition: usize,
    block: usize,
    /// The next block: the index, then the data block.
    ahead: Prefetched<'g, Block>,
    /// Where in the block the row probably lies, in parts of 2^32; `None` if that is not used.
    fraction: Option<u32>,
    way: Option<(Handle, &'g Hint)>,
    view: Option<BlockView<'g>>,
    search: Option<Search<'k>>,
}

/// A row that was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowHit<'g> {
    pub(crate) view: BlockView<'g>,
    pub(crate) row: usize,
}

impl<'g> Candidate<'g> {
    /// The only place of the file where the row of `query` can be, which is not after its last
    /// row. Asks the processor to fetch the row's line of the filter there.
    #[inline]
    pub(crate) fn begin(
        sst: &'g SstReader,
        query: &FilterQuery<'_>,
        pinned: &'g Guard,
    ) -> Option<Self> {
        let partition = sst.top.partition_of(query.asked_row())?;
        let hint = &sst.top.slots()[partition].filter_hint;
        let line = |lines: u32| [line_at(query.row_hash(), lines as usize)];
        let ahead = sst.cache().prefetch_block(hint, Content::FILTER_BYTES, line, pinned);
        Some(Self { sst, partition: partition as u32, ahead })
    }

    fn slot(self) -> &'g Slot {
        &self.sst.top.slots()[self.partition as usize]
    }

    /// No entry of the row that the file may have is newer, in whatever blocks and partitions the
    /// row goes on.
    pub(crate) fn timestamp_max(self) -> Timestamp {
        Timestamp(self.slot().newest_of_rows)
    }

    /// Returns whether the filter lets the row pass for any of `queries`, of which `bits` are the row's.
    /// `false` is certain.
    #[inline]
    pub(crate) fn probe(
        &mut self,
        queries: &[FilterQuery<'_>],
        bits: &mut RowBits,
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
            filter.may_have_row(&queries[0], bits)
                && queries.iter().any(|query| filter.may_have_part(query))
        };
        if passes {
            self.ahead = self.sst.prefetch_block(&slot.index_hint, |_| [], pinned);
        }
        Ok(passes)
    }

    #[inline]
    fn filter(self, pinned: &'g Guard) -> Option<FilterPartition<'g>> {
        let slot = self.slot();
        let block = self.sst.look(self.ahead, slot.filter?, &slot.filter_hint, pinned)?;
        match &block.meta.0 {
            Content::Filter(meta) => Some(FilterPartition::of(block.bytes, meta)),
            _ => None,
        }
    }

    /// Begins to search the file.
    pub(crate) fn descend<'k>(self) -> Descent<'g, 'k> {
        Descent {
            sst: self.sst,
            partition: self.partition as usize,
            block: 0,
            ahead: self.ahead,
            fraction: None,
            way: None,
            view: None,
            search: None,
        }
    }
}

impl<'g, 'k> Descent<'g, 'k> {
    /// Finds the data block. `Ahead` says what of it is asked for.
    #[inline]
    pub(crate) fn find_block(
        &mut self,
        row: &[u8],
        ahead: Ahead,
        pinned: &'g Guard,
    ) -> std::result::Result<(), Missing> {
        let slot = &self.sst.top.slots()[self.partition];
        let block = self.sst.look(self.ahead, slot.index, &slot.index_hint, pinned);
        let block = block.ok_or(Missing::Index(self.partition))?;
        let Content::Index(meta) = &block.meta.0 else {
            return Err(Missing::Index(self.partition));
        };
        let index = IndexPartition::of(block.bytes, meta);
        let fraction;
        (self.block, fraction) = index.place_of(row, block.hints);
        let hint = &block.hints[self.block];
        self.ahead = match ahead {
            Ahead::Rows => {
                self.fraction = Some(fraction);
                self.sst.prefetch_block(
                    hint,
                    |prefetch_hint| aimed(prefetch_hint, fraction),
                    pinned,
                )
            }
            Ahead::Keys => self.sst.prefetch_block(hint, |_| [KEYS], pinned),
        };
        self.way = Some((index.handle(self.block), hint));
        Ok(())
    }

    /// Finds where in the block the row can be.
    #[inline]
    pub(crate) fn reach_row(
        &mut self,
        row: &'k [u8],
        pinned: &'g Guard,
    ) -> std::result::Result<(), Missing> {
        let (handle, hint) = self.way.expect("the block was found before");
        let missing = Missing::Data(self.partition, self.block);
        let block = self.sst.look(self.ahead, handle, hint, pinned).ok_or(missing)?;
        let Content::Data(meta) = &block.meta.0 else { return Err(missing) };
        let view = BlockView::of(block.bytes, meta);
        self.view = Some(view);
        self.search = view.search(row, self.fraction);
        Ok(())
    }

    /// Finds the row by its head.
    #[inline]
    pub(crate) fn reach_cells(&mut self) {
        if let (Some(view), Some(search)) = (&self.view, &mut self.search) {
            view.search_heads(search);
        }
    }

    /// The file that is searched.
    pub(crate) fn sst(&self) -> &'g SstReader {
        self.sst
    }

    /// The block that was found, if it is still where it was.
    pub(crate) fn data_block(&self, pinned: &'g Guard) -> Option<BlockRef<'g, Block>> {
        let (handle, hint) = self.way?;
        self.sst.cache().look(self.sst.key(handle), hint, pinned)
    }

    /// The row, if the file has it.
    pub(crate) fn row(&self) -> Option<RowHit<'g>> {
        let (view, search) = (self.view?, self.search.as_ref()?);
        view.found(search).map(|row| RowHit { view, row })
    }
}

impl<'g> RowHit<'g> {
    /// The row in a block, if it is there; outside, `None` if that is no data block.
    pub(crate) fn in_block(block: BlockRef<'g, Block>, row: &[u8]) -> Option<Option<Self>> {
        let Content::Data(meta) = &block.meta.0 else { return None };
        let view = BlockView::of(block.bytes, meta);
        let search = view.search(row, None).map(|mut search| {
            view.search_heads(&mut search);
            search
        });
        let row = search.and_then(|search| view.found(&search));
        Some(row.map(|row| Self { view, row }))
    }
}

impl SstReader {
    #[inline]
    fn prefetch_block<'g, const N: usize>(
        &'g self,
        hint: &Hint,
        parts: impl FnOnce(u32) -> [Range<usize>; N],
        pinned: &'g Guard,
    ) -> Prefetched<'g, Block> {
        self.cache().prefetch_block(hint, size_of::<Block>(), parts, pinned)
    }

    #[inline]
    fn look<'g>(
        &'g self,
        ahead: Prefetched<'g, Block>,
        handle: Handle,
        hint: &Hint,
        pinned: &'g Guard,
    ) -> Option<BlockRef<'g, Block>> {
        self.cache().find_prefetched(ahead, self.key(handle), hint, pinned)
    }
}
