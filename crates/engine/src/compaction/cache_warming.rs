//! Brings in those blocks of a compaction's outputs that take the place of warm ones of its inputs
//! (`sstable/read/warm_blocks.rs` says which), so that what reads had in memory they still have.
//!
//! 1. Never fails: what cannot be read is not in memory, and whoever asks for it finds out why.
//! 2. About as many bytes come in as were warm, and those that they replace leave before: the files
//!    they are of are as good as gone. So nothing else has to make room.
//! 3. The blocks are read back from the files, side by side. A compaction did not read from disk
//!    what was in memory, so both together read no more than the inputs.

use crate::block_loads::blocking_loads::read_together;
use crate::cache::{CacheLookup, KeyMap, PinnedBlock};
use crate::error::Result;
use crate::shape::Shape;
use crate::sstable::{Block, BlockCache, BlockLoad, WarmBlock, WarmBlocks};
use base::env::FileSystem;
use base::env::read_queue::with_thread_queue;
use std::slice::Iter;
use std::sync::Arc;

/// Brings `warm_blocks` into memory, as warm as what they came of. Asks after each batch whether
/// to go on.
pub(crate) fn warm(
    fs: &Arc<dyn FileSystem>,
    cache: &Arc<BlockCache>,
    warm_blocks: &WarmBlocks,
    go_on: &dyn Fn() -> bool,
) {
    cache.forget(&warm_blocks.former);
    let (mut left, mut blocks) = (warm_blocks.bytes, warm_blocks.blocks.iter());
    while left > 0 && blocks.len() > 0 && go_on() {
        match bring_in(fs, cache, warm_blocks, &mut blocks) {
            Ok(bytes) => left = left.saturating_sub(bytes),
            Err(error) => {
                tracing::debug!(%error, "could not load blocks of a compaction's outputs into the cache");
                return;
            }
        }
    }
}

/// Brings in the next of `blocks`, a batch; gives its bytes. After an error some of it stays on disk.
fn bring_in(
    fs: &Arc<dyn FileSystem>,
    cache: &Arc<BlockCache>,
    warm_blocks: &WarmBlocks,
    blocks: &mut Iter<'_, WarmBlock>,
) -> Result<usize> {
    let (mut loads, mut lives, mut bytes) = (Vec::new(), KeyMap::default(), 0);
    // Read side by side.
    let Shape { warmed_blocks, warmed_bytes, in_flight_bytes_max, .. } = *cache.shape();
    while loads.len() < warmed_blocks
        && bytes < warmed_bytes as u64
        && let Some(warm_block) = blocks.next()
    {
        if let Some(load) = warm_blocks.load(warm_block)? {
            bytes += load.bytes();
            lives.insert(load.key(), warm_block.lives);
            loads.push(load);
        }
    }
    let mut sum = Ok(0);
    let mut take = |load: &BlockLoad, came: Result<PinnedBlock<Block>>| match (came, &mut sum) {
        (Ok(hold), Ok(sum)) => {
            let bytes = hold.get().bytes.len();
            cache.warm(load.key(), bytes, lives[&load.key()]);
            *sum += bytes;
        }
        (Err(error), Ok(_)) => sum = Err(error),
        (_, Err(_)) => {}
    };
    let mut own = Vec::with_capacity(loads.len());
    for load in &loads {
        match load.load_ticket_uncounted(cache) {
            CacheLookup::Resident(hold) => take(load, Ok(hold)),
            CacheLookup::Free(ticket) => own.push((load, ticket)),
            // A reader is at it.
            CacheLookup::Loading(_) => {}
        }
    }
    with_thread_queue(fs, |queue| {
        read_together(queue, in_flight_bytes_max as u64, own, &mut take);
    });
    sum
}
