//! Brings in the blocks that point reads miss, all that are known together at once.
//!
//! Load tickets: of the blocks that a call finds neither resident nor claimed, it takes tickets for
//! all, reads all, and ends all, before it waits for those that others claimed. So two calls whose
//! blocks overlap never wait for each other in a circle, and no block is read twice at the same
//! time.

use crate::block_loads::LoadContext;
use crate::cache::{CacheKey, CacheLookup, LoadTicket, Loading, PinnedBlock};
use crate::counters::perf_context::{self, PerfCount, PerfTime};
use crate::counters::point_counters::PointCount;
use crate::error::Result;
use crate::marks::Mark;
use crate::sstable::{Block, BlockLoad, Missing, PinnedBlocks, SstReader};
use base::env::read_queue::{ReadQueue, with_thread_queue};
use std::sync::Arc;

/// A missing block with the file it is of.
pub(crate) type Missed = (Arc<SstReader>, Missing);

/// A block to be read by the caller.
pub(crate) type Own<'a> = (&'a BlockLoad, LoadTicket<'a, Block>);

/// Brings in `missed`, with repetitions or without, and adds what it holds of them to `pinned_blocks`. A
/// block may still be missing afterwards: the cache could not keep it, or the thread that was
/// loading it gave up. After an error some were not brought in. The caller is not pinned.
pub(crate) fn fetch(
    context: LoadContext<'_>,
    missed: Vec<Missed>,
    pinned_blocks: &mut PinnedBlocks,
) -> Result<()> {
    context.counters.add(PointCount::Fetched as usize, missed.len() as u64);
    let mut loads = Vec::with_capacity(missed.len());
    for (sst, missing) in missed {
        loads.extend(BlockLoad::new(sst, missing)?);
    }
    let (own, others) = load_tickets(context, &loads, pinned_blocks);
    let read = read_all(context, own, pinned_blocks);
    for (key, other) in others {
        if let Some(outcome) = other.wait() {
            pinned_blocks.push(key, outcome?);
        }
    }
    read
}

/// Claims what nobody has claimed, holds what is resident, and gives the rest to be waited for.
fn load_tickets<'a>(
    context: LoadContext<'a>,
    loads: &'a [BlockLoad],
    pinned_blocks: &mut PinnedBlocks,
) -> (Vec<Own<'a>>, Vec<(CacheKey, Loading<Block>)>) {
    let (mut own, mut others) = (Vec::with_capacity(loads.len()), Vec::new());
    for load in loads {
        match load.load_ticket(context.cache) {
            CacheLookup::Resident(pin) => pinned_blocks.push(load.key(), pin),
            CacheLookup::Free(ticket) => own.push((load, ticket)),
            CacheLookup::Loading(other) => others.push((load.key(), other)),
        }
    }
    (own, others)
}

/// Reads all blocks and ends all load tickets; gives the first error.
fn read_all(
    context: LoadContext<'_>,
    own: Vec<Own<'_>>,
    pinned_blocks: &mut PinnedBlocks,
) -> Result<()> {
    let counters = context.counters;
    counters.add(PointCount::DiskReads as usize, own.len() as u64);
    let bytes = own.iter().map(|(load, _)| load.bytes()).sum();
    counters.add(PointCount::DiskBytes as usize, bytes);
    perf_context::add([(PerfCount::DiskBlocks, own.len() as u64), (PerfCount::DiskBytes, bytes)]);
    let begin = context.env.clock.monotonic();
    let any = !own.is_empty();
    let mut first_error = None;
    let mut keep = |load: &BlockLoad, outcome: Result<PinnedBlock<Block>>| match outcome {
        Ok(pin) => pinned_blocks.push(load.key(), pin),
        Err(error) => drop(first_error.get_or_insert(error)),
    };
    // A lone read is done soonest without a queue.
    if own.len() > 1 && context.batched {
        counters.add(PointCount::Batched as usize, own.len() as u64);
        let most = context.bytes_max;
        with_thread_queue(&context.env.fs, |queue| read_together(queue, most, own, &mut keep));
    } else {
        own.into_iter().for_each(|(load, ticket)| keep(load, load.read(ticket)));
    }
    if any {
        let took = context.env.clock.monotonic().saturating_sub(begin);
        context.waits.record(took);
        perf_context::took(PerfTime::DiskRead, begin, took);
    }
    first_error.map_or(Ok(()), Err)
}

/// Reads all blocks side by side, at once as many as have `bytes_max` bytes but for the last one's,
/// and gives each to `keep` as it comes. So a device is busy whatever the size of blocks, and what
/// is in flight is bounded however many blocks are asked for together.
pub(crate) fn read_together(
    queue: &mut dyn ReadQueue,
    bytes_max: u64,
    own: Vec<Own<'_>>,
    keep: &mut dyn FnMut(&BlockLoad, Result<PinnedBlock<Block>>),
) {
    let (mut waiting, mut done) = (Vec::with_capacity(own.len()), Vec::new());
    let (mut left, mut bytes) = (own.into_iter(), 0);
    loop {
        while bytes < bytes_max
            && let Some((load, ticket)) = left.next()
        {
            match load.submit(queue, waiting.len() as u64) {
                Ok(()) => {
                    bytes += load.bytes();
                    waiting.push(Some((load, ticket)));
                }
                Err(error) => keep(load, load.fail(ticket, error)),
            }
        }
        if left.len() > 0 {
            Mark::InFlightFull.hit();
        }
        if queue.in_flight() == 0 {
            return;
        }
        queue.wait(1, &mut done);
        for completed in done.drain(..) {
            let (load, ticket) = waiting[completed.tag as usize].take().expect("a tag comes once");
            bytes -= load.bytes();
            keep(load, load.end(ticket, completed.result));
        }
    }
}
