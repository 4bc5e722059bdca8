//! Blocks on their way from disk into the cache.
//!
//! ```text
//! bytes of the file -> checksum -> decompressed, if compressed -> checked -> the cache's frame
//! ```
//!
//! The bytes are copied once, into the frame, after all checks; what lies between is memory of the
//! thread or of a read queue and is used again.
//!
//! Invariant: a block enters the cache checked by itself and against what led to it, whichever way
//! it was read.

use super::point_lookup::Missing;
use super::sst_file::{Scratch, with_scratch};
use super::sst_reader::SstReader;
use super::typed_refs::IndexRef;
use crate::cache::{
    BlockKind, BlockRef, CacheFill, CacheKey, CacheLookup, CachePriority, Hint, LoadTicket, Loaded,
    PinnedBlock,
};
use crate::counters::perf_context::{self, PerfCount, PerfTime};
use crate::error::{Error, Result};
use crate::sstable::block::{BlockView, DataMeta, LargeValue};
use crate::sstable::filter::FilterMeta;
use crate::sstable::format::damage::{Damage, ensure};
use crate::sstable::format::{BlockType, Handle};
use crate::sstable::index::top_index::Partition;
use crate::sstable::index::{IndexMeta, IndexPartition, encode_column};
use crate::sstable::{Block, BlockCache, Content};
use base::env::fs::ReadFile;
use base::env::read_queue::{ReadBuffer, ReadQueue};
use std::io;
use std::sync::Arc;

/// Reference to a block, and the data that the block is checked against.
#[derive(Clone, Copy)]
pub(crate) struct Lead<'a> {
    handle: Handle,
    hint: &'a Hint,
    expected: Expected<'a>,
}

/// Expected kind of a block.
#[derive(Clone, Copy)]
enum Expected<'a> {
    Filter,
    Index(&'a Partition),
    /// The block at this place of this partition.
    Data(IndexPartition<'a>, usize),
    LargeValue(LargeValue),
}

impl<'a> Lead<'a> {
    /// From the index partition `index` to its data block at `block`.
    pub(crate) fn data(index: &'a IndexRef, block: usize) -> Self {
        let view = index.view();
        let expected = Expected::Data(view, block);
        Self { handle: view.handle(block), hint: &index.hints()[block], expected }
    }

    /// From an entry to its large value.
    pub(crate) fn large_value(large: LargeValue, hint: &'a Hint) -> Self {
        Self { handle: large.handle, hint, expected: Expected::LargeValue(large) }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    pub(crate) fn hint(&self) -> &'a Hint {
        self.hint
    }

    fn kind(&self) -> BlockType {
        match self.expected {
            Expected::Filter => BlockType::Filter,
            Expected::Index(_) => BlockType::Index,
            Expected::Data(..) => BlockType::Data,
            Expected::LargeValue(_) => BlockType::LargeValue,
        }
    }

    /// Returns the kind as the cache counts it.
    fn cache_kind(&self) -> BlockKind {
        match self.expected {
            Expected::Filter => BlockKind::Filter,
            Expected::Index(_) => BlockKind::Index,
            Expected::Data(..) => BlockKind::Data,
            Expected::LargeValue(_) => BlockKind::LargeValue,
        }
    }

    fn priority(&self) -> CachePriority {
        match self.expected {
            Expected::Filter | Expected::Index(_) => CachePriority::High,
            Expected::Data(..) | Expected::LargeValue(_) => CachePriority::Normal,
        }
    }
}

impl Content {
    /// Returns the prefetch hint of the block.
    fn prefetch_hint(&self) -> u32 {
        match self {
            Self::Data(meta) => meta.prefetch_hint(),
            // At most 64 KiB and a row more.
            Self::Filter(meta) => meta.lines() as u32,
            Self::Index(_) | Self::LargeValue => 0,
        }
    }
}

impl SstReader {
    /// From the top index to the filter of partition `at`; `None` if it has none.
    pub(crate) fn filter_lead(&self, at: usize) -> Option<Lead<'_>> {
        let slot = &self.top.slots()[at];
        let hint = &slot.filter_hint;
        slot.filter.map(|handle| Lead { handle, hint, expected: Expected::Filter })
    }

    /// From the top index to the index of partition `at`.
    pub(crate) fn index_lead(&self, at: usize) -> Lead<'_> {
        let (partition, slot) = (&self.top.partitions()[at], &self.top.slots()[at]);
        let expected = Expected::Index(partition);
        Lead { handle: partition.index, hint: &slot.index_hint, expected }
    }

    /// The block that `lead` leads to, from the cache or from disk.
    pub(crate) fn load(&self, lead: &Lead<'_>, fill: CacheFill) -> Result<PinnedBlock<Block>> {
        self.load_noting(lead, fill, &mut false)
    }

    /// The same; sets `missed` if it was read from disk.
    pub(crate) fn load_noting(
        &self,
        lead: &Lead<'_>,
        fill: CacheFill,
        missed: &mut bool,
    ) -> Result<PinnedBlock<Block>> {
        let key = self.key(lead.handle);
        perf_context::add([(PerfCount::Blocks, 1)]);
        if fill == CacheFill::Resident {
            let resident = self.load_at_once(lead)?.map(|(pin, _)| pin);
            return resident.ok_or_else(|| Error::not_resident(self.path()));
        }
        self.cache().get_or_load(key, lead.hint, fill, lead.cache_kind(), |ticket| {
            *missed = true;
            let begun = perf_context::now();
            let read = self.read_for(ticket, lead);
            perf_context::timed(PerfTime::DiskRead, begun);
            let bytes = lead.handle.framed_len() as u64;
            perf_context::add([(PerfCount::DiskBlocks, 1), (PerfCount::DiskBytes, bytes)]);
            read
        })
    }

    /// The block that `lead` leads to, if it is in the cache. Not counted.
    pub(crate) fn resident(&self, lead: &Lead<'_>) -> Option<PinnedBlock<Block>> {
        self.cache().pin(self.key(lead.handle), lead.hint, CacheFill::Insert)
    }

    /// The same without a use of it.
    pub(crate) fn peek(&self, lead: &Lead<'_>) -> Option<PinnedBlock<Block>> {
        self.cache().pin(self.key(lead.handle), lead.hint, CacheFill::Bypass)
    }

    /// The block that `lead` leads to, from the cache or from disk, for who neither uses nor counts
    /// it. The caller is not pinned, and has no load tickets.
    pub(crate) fn load_aside(&self, lead: &Lead<'_>) -> Result<PinnedBlock<Block>> {
        let key = self.key(lead.handle);
        loop {
            match self.cache().load_ticket_uncounted(key, lead.hint, CacheFill::Bypass) {
                CacheLookup::Resident(pin) => return Ok(pin),
                CacheLookup::Free(ticket) => return self.read_for(ticket, lead),
                CacheLookup::Loading(load) => {
                    if let Some(outcome) = load.wait() {
                        return outcome;
                    }
                }
            }
        }
    }

    /// The block that `lead` leads to if it can be had without waiting, from the cache or from what
    /// the system keeps of the file; with it, whether it was read. The caller is not pinned, and has
    /// no load tickets.
    fn load_at_once(&self, lead: &Lead<'_>) -> Result<Option<(PinnedBlock<Block>, bool)>> {
        let (key, fill) = (self.key(lead.handle), CacheFill::Insert);
        if let Some(pin) = self.cache().pin(key, lead.hint, fill) {
            return Ok(Some((pin, false)));
        }
        with_scratch(|scratch| {
            let Scratch { framed, raw } = scratch;
            let read = self.source.read_framed_at_once(lead.handle, lead.kind(), framed)?;
            let Some(framed) = read else { return Ok(None) };
            Ok(match self.cache().load_ticket(key, lead.hint, fill, lead.cache_kind()) {
                CacheLookup::Resident(pin) => Some((pin, false)),
                CacheLookup::Free(ticket) => Some((self.end(ticket, lead, Ok(framed), raw)?, true)),
                CacheLookup::Loading(_) => None,
            })
        })
    }

    /// Reads the block that `lead` leads to and ends the load ticket with it.
    fn read_for(
        &self,
        ticket: LoadTicket<'_, Block>,
        lead: &Lead<'_>,
    ) -> Result<PinnedBlock<Block>> {
        with_scratch(|scratch| {
            let framed = self.source.read_framed(lead.handle, lead.kind(), &mut scratch.framed);
            self.end(ticket, lead, framed, &mut scratch.raw)
        })
    }

    /// Ends the load ticket of the block that `lead` leads to with what the file has for it.
    fn end(
        &self,
        ticket: LoadTicket<'_, Block>,
        lead: &Lead<'_>,
        framed: Result<&[u8]>,
        raw: &mut Vec<u8>,
    ) -> Result<PinnedBlock<Block>> {
        let loaded = framed.and_then(|framed| self.checked(lead, framed, raw));
        ticket.end(lead.hint, lead.priority(), loaded)
    }

    /// The block that `lead` leads to, of which the file has `framed`, after all checks.
    fn checked<'a>(
        &self,
        lead: &Lead<'_>,
        framed: &'a [u8],
        raw: &'a mut Vec<u8>,
    ) -> Result<Loaded<'a, Block>> {
        let bytes = self.source.unseal(lead.handle, lead.kind(), framed, raw)?;
        let (content, hints) =
            self.content(lead, bytes).map_err(|damage| self.source.damage(lead.handle, &damage))?;
        Ok(Loaded { meta: Block(content), bytes, hints, prefetch_hint: content.prefetch_hint() })
    }

    /// What the raw bytes of a block are, and the number of blocks that it leads to.
    fn content(&self, lead: &Lead<'_>, bytes: &[u8]) -> Result<(Content, usize), Damage> {
        Ok(match lead.expected {
            Expected::Filter => (Content::Filter(FilterMeta::check(bytes)?), 0),
            Expected::Index(partition) => {
                let meta = IndexMeta::check(bytes)?;
                let index = IndexPartition::of(bytes, &meta);
                check_index(index, partition)?;
                self.check_prefixes(index)?;
                let used = self.uses_prefix_index();
                let meta = if used { meta } else { meta.without_prefix_index() };
                (Content::Index(meta), partition.blocks.into())
            }
            Expected::Data(index, block) => {
                let mut meta = DataMeta::check(bytes)?;
                if let Some(sequence) = self.given() {
                    meta = meta.with_sequence(sequence)?;
                }
                check_data(BlockView::of(bytes, &meta), index, block)?;
                let view = BlockView::of(bytes, &meta);
                (Content::Data(meta), view.large_values_before(view.cells()))
            }
            Expected::LargeValue(large) => {
                let agrees = bytes.len() == large.len as usize;
                ensure(agrees, 0, "a large value of another length")?;
                (Content::LargeValue, 0)
            }
        })
    }

    /// Checks the prefix index of a partition against what the file says of row prefixes.
    fn check_prefixes(&self, index: IndexPartition<'_>) -> Result<(), Damage> {
        let agrees = index.row_prefix_len().is_none_or(|len| {
            self.footer.prefix_index && len == usize::from(self.properties().row_prefix_bytes)
        });
        ensure(agrees, 34, "a prefix index of which the file does not tell")
    }
}

/// Checks a partition against its entry in the top index.
fn check_index(index: IndexPartition<'_>, expected: &Partition) -> Result<(), Damage> {
    let agrees = index.row_is(0, &expected.row)
        && index.first_column(0).map(|column| encode_column(&column)) == expected.column
        && index.blocks() == usize::from(expected.blocks)
        && (0..index.blocks()).all(|block| index.timestamp_max(block).0 <= expected.timestamp_max);
    ensure(agrees, 0, "the index partition is not the one that the top index tells of")
}

/// Checks a block against its entry in the index.
fn check_data(view: BlockView<'_>, index: IndexPartition<'_>, block: usize) -> Result<(), Damage> {
    let mut row = Vec::new();
    index.copy_row(block, &mut row);
    let first_column = view.continued().then(|| view.key(0).column);
    let agrees = view.row_is(0, &row)
        && first_column == index.first_column(block)
        && view.timestamp_max() <= index.timestamp_max(block);
    ensure(agrees, 0, "the data block is not the one that the index tells of")
}

/// A block that is to be read: what leads to it is held.
pub(crate) struct BlockLoad {
    sst: Arc<SstReader>,
    way: Way,
    fill: CacheFill,
}

enum Way {
    Filter(usize),
    Index(usize),
    Data(IndexRef, usize),
    /// Whoever finds the value sets the hint beside what leads to it.
    Large(LargeValue, Hint),
}

impl BlockLoad {
    /// The load of what `sst` misses; `None` if it has no such block. Brings in the partition that
    /// leads to a data block, should it have left the cache. The caller is not pinned, and has no
    /// load tickets.
    pub(crate) fn new(sst: Arc<SstReader>, missing: Missing) -> Result<Option<Self>> {
        let way = match missing {
            Missing::Filter(at) if sst.filter_lead(at).is_none() => return Ok(None),
            Missing::Filter(at) => Way::Filter(at),
            Missing::Index(at) => Way::Index(at),
            Missing::Data(at, block) => Way::Data(sst.index(at, CacheFill::Insert)?, block),
            Missing::Large(large) => Way::Large(large, Hint::default()),
        };
        Ok(Some(Self { sst, way, fill: CacheFill::Insert }))
    }

    /// The load of the data block at `block` of `index`, which is to stay in the cache or not as
    /// `fill` says.
    pub(crate) fn of_data(
        sst: Arc<SstReader>,
        index: IndexRef,
        block: usize,
        fill: CacheFill,
    ) -> Self {
        Self { sst, way: Way::Data(index, block), fill }
    }

    /// The same without reading anything: if what leads to the block has left the cache, the load
    /// of that.
    pub(crate) fn of_resident(sst: Arc<SstReader>, missing: Missing) -> Result<Option<Self>> {
        let Missing::Data(at, block) = missing else { return Self::new(sst, missing) };
        let way = match sst.index(at, CacheFill::Resident) {
            Ok(index) => Way::Data(index, block),
            Err(error) if error.is_not_resident() => Way::Index(at),
            Err(error) => return Err(error),
        };
        Ok(Some(Self { sst, way, fill: CacheFill::Insert }))
    }

    fn lead(&self) -> Lead<'_> {
        match &self.way {
            Way::Filter(at) => self.sst.filter_lead(*at).expect("`new` saw that it has one"),
            Way::Index(at) => self.sst.index_lead(*at),
            Way::Data(index, block) => Lead::data(index, *block),
            Way::Large(large, hint) => Lead::large_value(*large, hint),
        }
    }

    /// Returns the place of the block.
    pub(crate) fn handle(&self) -> Handle {
        self.lead().handle
    }

    /// The block's key.
    pub(crate) fn key(&self) -> CacheKey {
        self.sst.key(self.lead().handle)
    }

    /// Bytes of the file that are read for it.
    pub(crate) fn bytes(&self) -> u64 {
        self.lead().handle.framed_len() as u64
    }

    /// Asks `cache`, through which the file's blocks go, for the block.
    pub(crate) fn load_ticket<'a>(&self, cache: &'a Arc<BlockCache>) -> CacheLookup<'a, Block> {
        let lead = self.lead();
        cache.load_ticket(self.sst.key(lead.handle), lead.hint, self.fill, lead.cache_kind())
    }

    /// Asks `cache`, through which the file's blocks go, for the block, without counting.
    pub(crate) fn load_ticket_uncounted<'a>(
        &self,
        cache: &'a Arc<BlockCache>,
    ) -> CacheLookup<'a, Block> {
        let lead = self.lead();
        cache.load_ticket_uncounted(self.sst.key(lead.handle), lead.hint, self.fill)
    }

    /// Reads the block and ends the load ticket with it.
    pub(crate) fn read(&self, ticket: LoadTicket<'_, Block>) -> Result<PinnedBlock<Block>> {
        self.sst.read_for(ticket, &self.lead())
    }

    /// Submits the read of the block. `Error::Corruption` if it cannot lie in the file; nothing is
    /// submitted then.
    pub(crate) fn submit(&self, queue: &mut dyn ReadQueue, tag: u64) -> Result<()> {
        let (file, offset, len) = self.place()?;
        queue.submit(tag, file, offset, len);
        Ok(())
    }

    /// Where the block lies: the file, the offset, and the bytes. `Error::Corruption` if it cannot
    /// lie there.
    pub(crate) fn place(&self) -> Result<(&Arc<dyn ReadFile>, u64, usize)> {
        let lead = self.lead();
        let len = self.sst.source.framed_len(lead.handle, lead.kind())?;
        Ok((self.sst.source.file(), lead.handle.offset, len))
    }

    /// Ends the load ticket of the block with what was read for it.
    pub(crate) fn end(
        &self,
        ticket: LoadTicket<'_, Block>,
        read: io::Result<ReadBuffer>,
    ) -> Result<PinnedBlock<Block>> {
        let lead = self.lead();
        let offset = lead.handle.offset;
        let read = read.map_err(|error| self.sst.source.read_error(offset, &error));
        let framed = read.as_deref().map_err(Error::clone);
        with_scratch(|scratch| self.sst.end(ticket, &lead, framed, &mut scratch.raw))
    }

    /// The block, if it can be had without waiting; with it, whether it was read. The caller is not
    /// pinned, and has no load tickets.
    pub(crate) fn at_once(&self) -> Result<Option<(PinnedBlock<Block>, bool)>> {
        self.sst.load_at_once(&self.lead())
    }

    /// The block, if it is in `cache`, through which the file's blocks go. Not counted.
    pub(crate) fn resident(&self, cache: &Arc<BlockCache>) -> Option<PinnedBlock<Block>> {
        let lead = self.lead();
        cache.pin(self.sst.key(lead.handle), lead.hint, self.fill)
    }

    /// Brings what was read for the block into `cache`, unless another was faster; should one be
    /// about to, waits for it. The caller is not pinned, and has no load tickets.
    pub(crate) fn enter(
        &self,
        cache: &Arc<BlockCache>,
        read: io::Result<ReadBuffer>,
    ) -> Result<PinnedBlock<Block>> {
        let lead = self.lead();
        loop {
            let (key, kind) = (self.sst.key(lead.handle), lead.cache_kind());
            match cache.load_ticket_of_read(key, lead.hint, self.fill, kind) {
                CacheLookup::Resident(pin) => return Ok(pin),
                CacheLookup::Free(ticket) => return self.end(ticket, read),
                CacheLookup::Loading(load) => {
                    if let Some(outcome) = load.wait() {
                        return outcome;
                    }
                }
            }
        }
    }

    /// Shows what was read for the block, `framed`, to `look` after all checks, and keeps nothing of
    /// it. `Error::Corruption` if the block is damaged.
    pub(crate) fn look_at<R>(
        &self,
        framed: &[u8],
        look: impl FnOnce(BlockRef<'_, Block>) -> R,
    ) -> Result<R> {
        with_scratch(|scratch| {
            let loaded = self.sst.checked(&self.lead(), framed, &mut scratch.raw)?;
            Ok(look(BlockRef { meta: &loaded.meta, bytes: loaded.bytes, hints: &[] }))
        })
    }

    /// Ends the load ticket of the block with an error.
    pub(crate) fn fail(
        &self,
        ticket: LoadTicket<'_, Block>,
        error: Error,
    ) -> Result<PinnedBlock<Block>> {
        let lead = self.lead();
        ticket.end(lead.hint, lead.priority(), Err(error))
    }
}
