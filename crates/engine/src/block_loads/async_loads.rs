//! Brings in blocks for reads that wait without holding a thread: the blocks that they miss are
//! read by threads of the environment, and a read is woken when all of its own are there.
//!
//! 1. A block that is being brought in here is one [`AsyncLoad`], whoever waits for it: it is read
//!    once, and every waiter gets its outcome.
//! 2. An async load belongs to nobody: a read that is dropped takes nothing with it. No load ticket
//!    is kept while an async load is on its way (as with `in_flight`); the block is claimed when it
//!    was read.
//! 3. An async load that lands is in the cache, then out of `flying`, then told to its waiters. So what
//!    is neither flying nor resident was never asked for, or has been evicted since.

use crate::block_loads::LoadContext;
use crate::block_loads::blocking_loads::Missed;
use crate::cache::{CacheKey, PinnedBlock};
use crate::counters::perf_context::{self, PerfCount};
use crate::counters::point_counters::PointCount;
use crate::error::Result;
use crate::locks::{self, AsyncLoadStage};
use crate::sstable::{Block, BlockCache, BlockLoad, PinnedBlocks};
use base::env::Env;
use base::env::read_queue::ReadBuffer;
use base::env::read_threads::{ReadThreads, ThreadRead};
use base::histogram::Buckets;
use base::sync::Mutex;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The blocks on their way for reads that hold no thread.
pub(crate) struct AsyncLoads {
    threads: ReadThreads,
    flying: Arc<Flying>,
}

/// The async loads that have not landed.
type Flying = Mutex<HashMap<CacheKey, Arc<AsyncLoad>>, locks::Flying>;

/// A block on its way.
#[derive(Default)]
struct AsyncLoad(Mutex<Stage, AsyncLoadStage>);

enum Stage {
    /// Those to be woken.
    Flying(Vec<Waker>),
    /// `None` if whoever read the block broke down.
    Landed(Option<Result<PinnedBlock<Block>>>),
}

impl Default for Stage {
    fn default() -> Self {
        Self::Flying(Vec::new())
    }
}

/// The duty to end an async load; dropped, also by a panic, it lets the waiters go.
struct Landing {
    block: BlockLoad,
    key: CacheKey,
    flying: Arc<Flying>,
    async_load: Arc<AsyncLoad>,
    outcome: Option<Result<PinnedBlock<Block>>>,
}

impl Landing {
    fn land(mut self, cache: &Arc<BlockCache>, read: io::Result<ReadBuffer>) {
        self.outcome = Some(self.block.enter(cache, read));
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.flying.lock().remove(&self.key);
        let landed = Stage::Landed(self.outcome.take());
        let before = std::mem::replace(&mut *self.async_load.0.lock(), landed);
        if let Stage::Flying(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl AsyncLoad {
    /// The outcome; the task is woken when it is there.
    fn poll(&self, context: &Context<'_>) -> Poll<Option<Result<PinnedBlock<Block>>>> {
        match &mut *self.0.lock() {
            Stage::Landed(outcome) => Poll::Ready(outcome.clone()),
            Stage::Flying(wakers) => {
                let waker = context.waker();
                if !wakers.iter().any(|known| known.will_wake(waker)) {
                    wakers.push(waker.clone());
                }
                Poll::Pending
            }
        }
    }
}

impl AsyncLoads {
    /// Nothing on its way; no thread is started before something is.
    pub(crate) fn new(env: &Env) -> Self {
        let threads = ReadThreads::new(Arc::clone(&env.fs), Arc::clone(&env.clock));
        Self { threads, flying: Arc::default() }
    }

    /// Returns the times that reads waited for a thread or for room, in microseconds.
    pub(crate) fn waits(&self) -> Buckets {
        self.threads.waits()
    }

    /// Waits for what is on its way and joins the threads; what is asked for later fails.
    pub(crate) fn close(&self) {
        self.threads.close();
    }

    /// Brings in `missed`, with repetitions or without, and adds what it holds of them to
    /// `pinned_blocks`. A block may still be missing afterwards, since the cache could not keep it.
    /// After an error some were not brought in. Dropped, it leaves what is on its way to come in by
    /// itself.
    pub(crate) async fn fetch(
        &self,
        context: LoadContext<'_>,
        missed: Vec<Missed>,
        pinned_blocks: &mut PinnedBlocks,
    ) -> Result<()> {
        context.counters.add(PointCount::Fetched as usize, missed.len() as u64);
        let together = context.batched;
        let mut rest = missed.into_iter();
        while rest.len() > 0 {
            let group = if together { rest.len() } else { 1 };
            self.threads.room().await;
            let async_loads = self.begin(context, rest.by_ref().take(group), pinned_blocks)?;
            for (key, async_load) in async_loads {
                if let Some(outcome) = poll_fn(|task| async_load.poll(task)).await {
                    pinned_blocks.push(key, outcome?);
                }
            }
        }
        Ok(())
    }

    /// Holds what can be had at once (it is resident after all, or the system has it), joins what is
    /// on its way, and lets the others begin.
    fn begin(
        &self,
        context: LoadContext<'_>,
        missed: impl Iterator<Item = Missed>,
        pinned_blocks: &mut PinnedBlocks,
    ) -> Result<Vec<(CacheKey, Arc<AsyncLoad>)>> {
        let (mut async_loads, mut reads, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut failed = None;
        for (sst, missing) in missed {
            let Some(block) = BlockLoad::of_resident(sst, missing)? else { continue };
            let key = block.key();
            match self.begin_one(context, block, pinned_blocks) {
                Ok(Some((async_load, read))) => {
                    async_loads.push((key, async_load));
                    bytes += read.as_ref().map_or(0, |read| read.len as u64);
                    reads.extend(read);
                }
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        let counters = context.counters;
        counters.add(PointCount::DiskReads as usize, reads.len() as u64);
        counters.add(PointCount::DiskBytes as usize, bytes);
        let blocks = reads.len() as u64;
        perf_context::add([(PerfCount::DiskBlocks, blocks), (PerfCount::DiskBytes, bytes)]);
        if reads.len() > 1 {
            counters.add(PointCount::Batched as usize, reads.len() as u64);
        }
        self.threads.submit(reads);
        failed.map_or(Ok(async_loads), Err)
    }

    /// The async load that a block comes with and, if it is a new one, its read.
    fn begin_one(
        &self,
        context: LoadContext<'_>,
        block: BlockLoad,
        pinned_blocks: &mut PinnedBlocks,
    ) -> Result<Option<(Arc<AsyncLoad>, Option<ThreadRead>)>> {
        if let Some((pin, read)) = block.at_once()? {
            let counters = context.counters;
            let bytes = if read { block.bytes() } else { 0 };
            counters.add(PointCount::DiskReads as usize, read.into());
            counters.add(PointCount::DiskBytes as usize, bytes);
            perf_context::add([
                (PerfCount::DiskBlocks, read.into()),
                (PerfCount::DiskBytes, bytes),
            ]);
            pinned_blocks.push(block.key(), pin);
            return Ok(None);
        }
        let key = block.key();
        let (file, offset, len) = block.place()?;
        let file = Arc::clone(file);
        let async_load = {
            let mut flying = self.flying.lock();
            if let Some(async_load) = flying.get(&key) {
                return Ok(Some((Arc::clone(async_load), None)));
            }
            if let Some(pin) = block.resident(context.cache) {
                pinned_blocks.push(key, pin);
                return Ok(None);
            }
            Arc::clone(flying.entry(key).or_default())
        };
        let landing = Landing {
            block,
            key,
            flying: Arc::clone(&self.flying),
            async_load: Arc::clone(&async_load),
            outcome: None,
        };
        let cache = Arc::clone(context.cache);
        let done = Box::new(move |read| landing.land(&cache, read));
        Ok(Some((async_load, Some(ThreadRead { file, offset, len, done }))))
    }
}
