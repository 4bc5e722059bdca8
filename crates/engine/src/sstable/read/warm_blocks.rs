//! Which blocks of a compaction's outputs are to be in memory since those that they came of are.
//!
//! Each block of an input that is in memory is told to the blocks of the outputs that its rows went
//! to, by its parts there. Where that makes at least half of a block, the block is a warm one, as warm
//! as what it came of. Index and filter partitions are told in the same way, in blocks instead of
//! bytes; and the index of a partition that has a warm block is warm itself.
//!
//! 1. Rows are compared, not bytes followed: it does not matter how the outputs were written. What
//!    vanished on the way counts as if it had gone to the place where it would be.
//! 2. Of the inputs only what is in memory is looked at, and nothing of that counts as a use.
//!    Of the outputs, only index partitions in whose rows something is warm are read.
//! 3. A wide row's blocks follow each other by column; the part of a block that lies in several is
//!    then taken to be even.

use super::block_load::{BlockLoad, Lead};
use super::point_lookup::Missing;
use super::sst_reader::SstReader;
use super::typed_refs::{DataRef, IndexRef};
use crate::cache::{CacheFill, CacheKey, Warmth};
use crate::cell::Column;
use crate::error::Result;
use crate::request::Direction;
use crate::sstable::block::{BlockView, decode_column};
use crate::sstable::index::encode_column;
use crate::sstable::index::top_index::Partition;
use crate::sstable::read::sst_reader::Place;
use std::cmp::Reverse;
use std::sync::Arc;

/// A block that is to be brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WarmBlock {
    /// Which of the outputs it is of.
    sst: usize,
    /// Where in it.
    block: HeirBlock,
    /// Turns of the cache's hand that it is to survive.
    pub(crate) lives: u8,
    /// How much of it is warm, in eighths.
    eighths: u8,
}

/// A block of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HeirBlock {
    /// The index of a partition.
    Index(usize),
    /// The filter of a partition.
    Filter(usize),
    /// A data block of a partition.
    Data(usize, usize),
}

/// What became of the warm blocks of some inputs.
#[derive(Debug, Default)]
pub(crate) struct WarmBlocks {
    /// The outputs that have entries, in row order.
    outputs: Vec<Arc<SstReader>>,
    /// The warm blocks: what leads to others first, then the warmest, then as they lie.
    pub(crate) blocks: Vec<WarmBlock>,
    /// Bytes of the blocks in whose place they come.
    pub(crate) bytes: usize,
    /// All blocks of the inputs that are in memory.
    pub(crate) former: Vec<CacheKey>,
}

impl WarmBlocks {
    /// The warm blocks among `outputs`, which are in row order, of what of `inputs` is in memory.
    pub(crate) fn find(
        inputs: &[Arc<SstReader>],
        outputs: &[Arc<SstReader>],
        go_on: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let with_entries = |sst: &&Arc<SstReader>| sst.properties().entries > 0;
        let outputs: Vec<_> = outputs.iter().filter(with_entries).cloned().collect();
        let mut found = Self::default();
        if outputs.is_empty() {
            return Ok(found);
        }
        let mut shares = Shares::new(&outputs);
        for input in inputs {
            for at in 0..input.top.partitions().len() {
                if !go_on() {
                    return Ok(Self::default());
                }
                found.look_at(input, at, &mut shares)?;
            }
        }
        found.blocks = shares.warm_blocks()?;
        Ok(Self { outputs, ..found })
    }

    /// The load of one of them.
    pub(crate) fn load(&self, warm_block: &WarmBlock) -> Result<Option<BlockLoad>> {
        let sst = Arc::clone(&self.outputs[warm_block.sst]);
        match warm_block.block {
            HeirBlock::Index(at) => BlockLoad::new(sst, Missing::Index(at)),
            HeirBlock::Filter(at) => BlockLoad::new(sst, Missing::Filter(at)),
            HeirBlock::Data(at, block) => {
                let index = sst.index_aside(at)?;
                Ok(Some(BlockLoad::of_data(sst, index, block, CacheFill::Insert)))
            }
        }
    }

    /// Tells what is in memory of a partition to `shares`.
    fn look_at(
        &mut self,
        input: &Arc<SstReader>,
        at: usize,
        shares: &mut Shares<'_>,
    ) -> Result<()> {
        let lead = input.index_lead(at);
        let filter = input.filter_lead(at).and_then(|lead| self.warmth(input, &lead));
        // Whoever reads a block goes through its index, which stays longer.
        let Some(warm) = self.warmth(input, &lead) else { return Ok(()) };
        let Some(index) = input.peek(&lead).and_then(IndexRef::new) else { return Ok(()) };
        // Without lives it is only here since the compaction read it.
        let warm = Some(warm).filter(|warmth| warmth.lives > 0);
        let partitions = [warm, filter];
        self.bytes += partitions.iter().flatten().map(|warmth| warmth.bytes).sum::<usize>();
        let blocks = index.view().blocks();
        for block in 0..blocks {
            let lead = Lead::data(&index, block);
            let data = self.warmth(input, &lead);
            if data.is_none() && partitions == [None, None] {
                continue;
            }
            shares.seek(&Key::of(&index, block))?;
            shares.tell_partition(partitions);
            let Some(warmth) = data else { continue };
            self.bytes += warmth.bytes;
            let next = match block + 1 < blocks {
                true => Some(Key::of(&index, block + 1)),
                false => Key::of_partition(input, at + 1),
            };
            let Some(data) = input.peek(&lead).and_then(DataRef::new) else { continue };
            shares.tell_data(data.view(), u64::from(lead.handle().len), warmth, next.as_ref())?;
        }
        Ok(())
    }

    /// How warm a block is, if it is in memory; it is noted then.
    fn warmth(&mut self, input: &SstReader, lead: &Lead<'_>) -> Option<Warmth> {
        let key = input.key(lead.handle());
        let warmth = input.cache().warmth(key, lead.hint())?;
        self.former.push(key);
        Some(warmth)
    }
}

/// The first key of a block: its row, and its column if the row goes on in it, encoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Key {
    row: Vec<u8>,
    column: Option<Vec<u8>>,
}

impl Key {
    /// Of the data block at `block` of `index`.
    fn of(index: &IndexRef, block: usize) -> Self {
        let mut key = Self::default();
        index.view().copy_row(block, &mut key.row);
        key.column = index.view().first_column(block).map(|column| encode_column(&column));
        key
    }

    /// Of the partition of `sst` at `at`, if there is one.
    fn of_partition(sst: &SstReader, at: usize) -> Option<Self> {
        let Partition { row, column, .. } = sst.top.partitions().get(at)?;
        Some(Self { row: row.clone(), column: column.clone() })
    }

    /// In the order of keys, which is not that of encoded columns.
    fn parts(&self) -> (&[u8], Option<Column<'_>>) {
        (&self.row, self.column.as_deref().and_then(decode_column))
    }
}

/// Units of a block that came of warm ones: of a data block bytes, of a partition blocks.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    units: u64,
    /// Each unit as often as it has lives.
    lives: u64,
}

impl Share {
    fn add(&mut self, units: u64, warmth: Warmth) {
        self.units += units;
        self.lives += units * u64::from(warmth.lives);
    }

    /// Returns whether it makes half of `all` units.
    fn is_half_of(self, all: u64) -> bool {
        self.units > 0 && self.units.saturating_mul(2) >= all
    }

    /// As warm as its units are in the middle.
    fn warm_block(self, sst: usize, block: HeirBlock, all: u64) -> WarmBlock {
        let units = self.units.max(1);
        let lives = ((self.lives + units / 2) / units) as u8;
        let lives = match block {
            HeirBlock::Data(..) => lives,
            HeirBlock::Index(_) | HeirBlock::Filter(_) => lives.max(1),
        };
        let eighths = self.units.saturating_mul(8) / all.max(1);
        WarmBlock { sst, block, lives, eighths: eighths.min(8) as u8 }
    }
}

/// The shares of a partition and of what it leads to.
#[derive(Debug, Clone, Default)]
struct Shared {
    index: Share,
    filter: Share,
    /// Of each data block; empty if none has any.
    data: Vec<Share>,
}

/// A data block of the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
    sst: usize,
    at: Place,
}

/// What is told to the blocks of the outputs.
struct Shares<'a> {
    outputs: &'a [Arc<SstReader>],
    partitions: Vec<Vec<Shared>>,
    /// Where the key sought last went to.
    spot: Spot,
    key: Key,
    /// The index read last.
    index: Option<(usize, usize, IndexRef)>,
}

impl<'a> Shares<'a> {
    /// Nothing told yet. Each of the outputs has an entry.
    fn new(outputs: &'a [Arc<SstReader>]) -> Self {
        let partitions =
            outputs.iter().map(|sst| vec![Shared::default(); sst.top.partitions().len()]);
        let first = Spot { sst: 0, at: Place { partition: 0, block: 0 } };
        let partitions = partitions.collect();
        Self { outputs, partitions, spot: first, key: Key::default(), index: None }
    }

    /// The index of the partition at `at` of the output `sst`.
    fn index(&mut self, sst: usize, at: usize) -> Result<IndexRef> {
        if let Some((of, partition, index)) = &self.index
            && (*of, *partition) == (sst, at)
        {
            return Ok(index.clone());
        }
        let index = self.outputs[sst].index_aside(at)?;
        self.index = Some((sst, at, index.clone()));
        Ok(index)
    }

    /// Goes to the block that `key` went to, or would have.
    fn seek(&mut self, key: &Key) -> Result<()> {
        // Within a wide row the walk goes on from where it is.
        let onward =
            key.column.is_some() && key.row == self.key.row && self.key.parts() <= key.parts();
        if !onward {
            let begin = |sst: &Arc<SstReader>| sst.properties().first_row <= key.row;
            let sst = self.outputs.partition_point(begin).saturating_sub(1);
            let partition = self.outputs[sst].top.partition_of(&key.row).unwrap_or(0);
            let block = self.index(sst, partition)?.view().block_of(&key.row);
            self.spot = Spot { sst, at: Place { partition, block } };
        }
        if key.column.is_some() {
            while let Some((next, first)) = self.after(self.spot)?
                && first.parts() <= key.parts()
            {
                self.spot = next;
            }
        }
        self.key.clone_from(key);
        Ok(())
    }

    /// The block after the one at `spot`, and its first key.
    fn after(&mut self, spot: Spot) -> Result<Option<(Spot, Key)>> {
        let sst = &self.outputs[spot.sst];
        let next = match sst.place_beside(spot.at, Direction::Forward) {
            Some(at) => Spot { at, ..spot },
            None if spot.sst + 1 < self.outputs.len() => {
                Spot { sst: spot.sst + 1, at: Place { partition: 0, block: 0 } }
            }
            None => return Ok(None),
        };
        let index = self.index(next.sst, next.at.partition)?;
        Ok(Some((next, Key::of(&index, next.at.block))))
    }

    /// A block of a partition whose index and filter are so warm came here.
    fn tell_partition(&mut self, [index, filter]: [Option<Warmth>; 2]) {
        let Spot { sst, at } = self.spot;
        let shared = &mut self.partitions[sst][at.partition];
        index.inspect(|warmth| shared.index.add(1, *warmth));
        filter.inspect(|warmth| shared.filter.add(1, *warmth));
    }

    /// `data`, of `bytes` bytes in its file, came here and to what follows, up to `end`.
    fn tell_data(
        &mut self,
        data: BlockView<'_>,
        bytes: u64,
        warmth: Warmth,
        end: Option<&Key>,
    ) -> Result<()> {
        let mut parts = vec![(self.spot, 0)];
        let mut spot = self.spot;
        while let Some((next, first)) = self.after(spot)? {
            let before = data.lower_bound(&first.row);
            if before == data.rows() || end.is_some_and(|end| first.parts() >= end.parts()) {
                break;
            }
            parts.push((next, before));
            spot = next;
        }
        let even = data.rows() < parts.len();
        for (at, (spot, before)) in parts.iter().enumerate() {
            let rows = parts.get(at + 1).map_or(data.rows(), |(_, before)| *before) - before;
            let part = match even {
                true => bytes / parts.len() as u64,
                false => bytes * rows as u64 / data.rows() as u64,
            };
            self.tell(*spot, part, warmth);
        }
        Ok(())
    }

    fn tell(&mut self, Spot { sst, at }: Spot, bytes: u64, warmth: Warmth) {
        let blocks = usize::from(self.outputs[sst].top.partitions()[at.partition].blocks);
        let data = &mut self.partitions[sst][at.partition].data;
        data.resize(blocks, Share::default());
        data[at.block].add(bytes, warmth);
    }

    /// All that is to be brought in.
    fn warm_blocks(mut self) -> Result<Vec<WarmBlock>> {
        let mut warm_blocks = Vec::new();
        for (sst, partitions) in std::mem::take(&mut self.partitions).into_iter().enumerate() {
            for (at, shared) in partitions.into_iter().enumerate() {
                self.heirs_of(&mut warm_blocks, sst, at, &shared)?;
            }
        }
        let order = |warm_block: &WarmBlock| {
            let WarmBlock { sst, block, lives, eighths } = *warm_block;
            (matches!(block, HeirBlock::Data(..)), Reverse(lives), Reverse(eighths), sst, block)
        };
        warm_blocks.sort_unstable_by_key(order);
        Ok(warm_blocks)
    }

    fn heirs_of(
        &mut self,
        warm_blocks: &mut Vec<WarmBlock>,
        sst: usize,
        at: usize,
        shared: &Shared,
    ) -> Result<()> {
        let before = warm_blocks.len();
        if !shared.data.is_empty() {
            let index = self.index(sst, at)?;
            for (block, share) in shared.data.iter().enumerate() {
                let len = u64::from(index.view().handle(block).len);
                if share.is_half_of(len) {
                    warm_blocks.push(share.warm_block(sst, HeirBlock::Data(at, block), len));
                }
            }
        }
        let leads = warm_blocks.len() > before;
        let partition = &self.outputs[sst].top.partitions()[at];
        let blocks = u64::from(partition.blocks);
        if leads || shared.index.is_half_of(blocks) {
            warm_blocks.push(shared.index.warm_block(sst, HeirBlock::Index(at), blocks));
        }
        let filtered = shared.filter.units > 0 && partition.filter.is_some();
        if filtered && (leads || shared.filter.is_half_of(blocks)) {
            warm_blocks.push(shared.filter.warm_block(sst, HeirBlock::Filter(at), blocks));
        }
        Ok(())
    }
}

impl SstReader {
    /// The index partition at `at`, not counted, and kept until others need the room.
    fn index_aside(&self, at: usize) -> Result<IndexRef> {
        let lead = self.index_lead(at);
        IndexRef::new(self.load_aside(&lead)?).ok_or_else(|| self.wrong_type(lead.handle()))
    }
}
