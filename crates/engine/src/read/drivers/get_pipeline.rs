//! Gets of one thread, many in flight.
//!
//! Each get is a state machine that never waits by itself:
//!
//! ```text
//! planned --(what it needs is resident)--> answered
//!    ^  \--(it misses blocks)--> waiting for them
//!    \------(they have come, or failed)------/
//! ```
//!
//! Where the block that a get waits for decides it, it is answered from that block without another
//! plan; a block that decides all that wait for it need not enter the cache, if that has no room.
//! After `Shape::fetches_max` rounds, and where a plan says so, it is merged, which reads what it still
//! misses by itself.
//!
//! 1. A get waits exactly for the loads that list it, each in flight in the queue.
//! 2. A block is loaded once at a time here. No load ticket is kept between calls: whoever drives the
//!    gets may read by other means, or do nothing, and nobody must wait for that. A block is
//!    claimed when it has been read, so it enters the cache once.
//! 3. Blocks that have come together are worked through one at a time, as answers are asked for: a
//!    caller who submits a get for each answer keeps the disk at work meanwhile.
//! 4. Without a snapshot each plan looks at the newest state of the tree, so the answer is of a
//!    moment between submission and answer, and no files are kept from being deleted.

use crate::block_loads::blocking_loads::Missed;
use crate::cache::{BlockRef, CacheKey, KeyMap};
use crate::cell::{FamilyId, Timestamp};
use crate::counters::point_counters::PointCount;
use crate::error::{Error, Result};
use crate::read::drivers::{ColumnOf, Planned, Tree};
use crate::sstable::{Block, BlockLoad, PinnedBlocks};
use crate::tree::snapshots::Snapshot;
use base::env::read_queue::{Completed, ReadQueue};
use std::collections::VecDeque;

/// What a get came to: the newest visible cell's timestamp and value; `None` if there is none.
pub type Answer = Result<Option<(Timestamp, Vec<u8>)>>;

/// Gets in flight: see [`Tree::in_flight`]. Dropped, it waits for the disk and gives no more
/// answers.
pub struct GetPipeline {
    tree: Tree,
    snapshot: Option<Snapshot>,
    queue: Box<dyn ReadQueue>,
    /// Those that wait for blocks.
    gets: Slots<Get>,
    /// By the tag of their read.
    loads: Slots<Load>,
    loading: KeyMap<usize>,
    answered: VecDeque<(u64, Answer)>,
    /// Reads that have come and were not looked at yet.
    completed: VecDeque<Completed>,
    /// Empty; kept for its memory.
    arriving: Vec<Completed>,
}

/// A get that waits for blocks.
struct Get {
    tag: u64,
    row: Vec<u8>,
    family: FamilyId,
    qualifier: Vec<u8>,
    /// Rounds in which it missed blocks.
    rounds: usize,
    /// Loads that list it.
    waits_for: usize,
    /// The block that it waits for decides it.
    decided: bool,
    pinned_blocks: PinnedBlocks,
    failed: Option<Error>,
}

/// A block that is being read, and the gets that wait for it.
struct Load {
    block: BlockLoad,
    gets: Vec<usize>,
}

impl Get {
    fn of(&self) -> ColumnOf<'_> {
        ColumnOf { row: &self.row, family: self.family, qualifier: &self.qualifier }
    }
}

impl GetPipeline {
    pub(crate) fn new(tree: Tree, snapshot: Option<Snapshot>, queue: Box<dyn ReadQueue>) -> Self {
        Self {
            tree,
            snapshot,
            queue,
            gets: Slots::default(),
            loads: Slots::default(),
            loading: KeyMap::default(),
            answered: VecDeque::new(),
            completed: VecDeque::new(),
            arriving: Vec::new(),
        }
    }

    /// Asks for the newest visible cell of a column. The answer comes out of [`wait`](Self::wait)
    /// or [`poll`](Self::poll) with `tag`, errors too, in any order; that of a get which finds all
    /// it needs resident is there at once. Waits for the disk itself only where sources have to be
    /// merged. Gets beyond the depth wait their turn; how many are asked for is for the caller to
    /// bound.
    pub fn submit(&mut self, tag: u64, of: ColumnOf<'_>) {
        self.tree.count(PointCount::Reads, 1);
        match self.tree.plan_get(of, self.snapshot.as_ref(), &PinnedBlocks::default()) {
            Ok(Planned::Done(cell)) => self.answered.push_back((tag, Ok(cell))),
            Ok(Planned::Missed { missed, decides }) => {
                let slot = self.gets.insert(Get {
                    tag,
                    row: of.row.to_vec(),
                    family: of.family,
                    qualifier: of.qualifier.to_vec(),
                    rounds: 0,
                    waits_for: 0,
                    decided: decides,
                    pinned_blocks: PinnedBlocks::default(),
                    failed: None,
                });
                self.want(slot, missed);
                self.go_on(slot);
            }
            Ok(Planned::ToMerge) => {
                let answer = self.tree.get_merged(of, self.snapshot.as_ref());
                self.answered.push_back((tag, answer));
            }
            Err(error) => self.answered.push_back((tag, Err(error))),
        }
    }

    /// The next answer; waits for the disk if there is none yet. `None` if nothing is in flight.
    pub fn wait(&mut self) -> Option<(u64, Answer)> {
        while self.answered.is_empty() {
            if self.completed.is_empty() {
                if self.queue.in_flight() == 0 {
                    return None;
                }
                self.take_completed(1);
            }
            self.look_at_next();
        }
        self.answered.pop_front()
    }

    /// The next answer, if there is one by now. Does not wait.
    pub fn poll(&mut self) -> Option<(u64, Answer)> {
        if self.answered.is_empty() && self.completed.is_empty() && self.queue.in_flight() > 0 {
            self.queue.flush();
            self.take_completed(0);
        }
        while self.answered.is_empty() && !self.completed.is_empty() {
            self.look_at_next();
        }
        self.answered.pop_front()
    }

    /// Gets that were submitted and whose answer was not taken.
    pub fn in_flight(&self) -> usize {
        self.gets.len() + self.answered.len()
    }

    /// Takes the reads that have come from the queue, at least `at_least`.
    fn take_completed(&mut self, at_least: usize) {
        self.queue.wait(at_least, &mut self.arriving);
        self.completed.extend(self.arriving.drain(..));
    }

    /// Goes on with the gets that wait for the next block that has come.
    fn look_at_next(&mut self) {
        if let Some(read) = self.completed.pop_front() {
            self.arrived(read);
        }
    }

    /// A block has come, or failed to.
    fn arrived(&mut self, read: Completed) {
        let mut load = self.loads.remove(read.tag as usize);
        let key = load.block.key();
        self.loading.remove(&key);
        if let Ok(framed) = &read.result
            && self.is_passing(&load, key)
        {
            load.gets = self.answer_from_passing(&load.block, framed, load.gets);
            if load.gets.is_empty() {
                return self.tree.cache().rejected(framed.len());
            }
        }
        let outcome = load.block.enter(self.tree.cache(), read.result);
        for slot in load.gets {
            if let Ok(hold) = &outcome
                && self.answer_decided(slot, hold.get())
            {
                continue;
            }
            let get = self.gets.get(slot);
            match &outcome {
                Ok(hold) => get.pinned_blocks.push(key, hold.clone()),
                Err(error) => get.failed = Some(error.clone()),
            }
            get.waits_for -= 1;
            self.go_on(slot);
        }
    }

    /// Whether all gets that wait for a block are decided by it, and the cache can do without it.
    fn is_passing(&mut self, load: &Load, key: CacheKey) -> bool {
        self.tree.parts().path.admission
            && load.gets.iter().all(|slot| self.gets.get(*slot).decided)
            && !self.tree.cache().is_worth_keeping(key, load.block.bytes() as usize)
    }

    /// Answers gets from a block that is not kept; gives those for which that does not do, all if
    /// the block is damaged.
    fn answer_from_passing(
        &mut self,
        block: &BlockLoad,
        framed: &[u8],
        mut gets: Vec<usize>,
    ) -> Vec<usize> {
        let looked = block.look_at(framed, |block| {
            gets.retain(|slot| !self.answer_decided(*slot, block));
        });
        // Entering the cache tells of the damage again, to whoever waits for the block.
        drop(looked);
        gets
    }

    /// Answers a get, if `block` decides it.
    fn answer_decided(&mut self, slot: usize, block: BlockRef<'_, Block>) -> bool {
        let get = self.gets.get(slot);
        if !get.decided {
            return false;
        }
        let answer = self.tree.get_decided(get.of(), self.snapshot.as_ref(), block);
        let Some(answer) = answer else { return false };
        let get = self.gets.remove(slot);
        self.answered.push_back((get.tag, answer));
        true
    }

    /// Plans a get again, and again, until it waits for a block or has its answer.
    fn go_on(&mut self, slot: usize) {
        loop {
            let get = self.gets.get(slot);
            if get.waits_for > 0 {
                return;
            }
            let rounds = get.rounds;
            let rounds_max = usize::from(self.tree.parts().fetches_max);
            let planned = match get.failed.take() {
                Some(error) => Err(error),
                None if rounds >= rounds_max => Ok(Planned::ToMerge),
                None => self.tree.plan_get(get.of(), self.snapshot.as_ref(), &get.pinned_blocks),
            };
            let answer = match planned {
                Ok(Planned::Missed { missed, decides }) => {
                    self.gets.get(slot).decided = decides;
                    self.want(slot, missed);
                    continue;
                }
                Ok(Planned::ToMerge) => {
                    self.tree.get_merged(self.gets.get(slot).of(), self.snapshot.as_ref())
                }
                Ok(Planned::Done(cell)) => Ok(cell),
                Err(error) => Err(error),
            };
            let get = self.gets.remove(slot);
            self.answered.push_back((get.tag, answer));
            return;
        }
    }

    /// Lets a get wait for the blocks that it missed.
    fn want(&mut self, slot: usize, missed: Vec<Missed>) {
        self.tree.count(PointCount::Fetched, missed.len() as u64);
        self.gets.get(slot).rounds += 1;
        for missed in missed {
            if let Err(error) = self.want_block(slot, missed) {
                self.gets.get(slot).failed = Some(error);
            }
        }
    }

    fn want_block(&mut self, slot: usize, (sst, missing): Missed) -> Result<()> {
        let Some(block) = BlockLoad::new(sst, missing)? else { return Ok(()) };
        let key = block.key();
        if let Some(load) = self.loading.get(&key) {
            self.loads.get(*load).gets.push(slot);
        } else if let Some(hold) = block.resident(self.tree.cache()) {
            self.gets.get(slot).pinned_blocks.push(key, hold);
            return Ok(());
        } else {
            let tag = self.loads.next();
            block.submit(&mut *self.queue, tag as u64)?;
            // At once: while this thread works, the disk must not run dry.
            self.queue.flush();
            self.tree.count(PointCount::DiskReads, 1);
            self.tree.count(PointCount::DiskBytes, block.bytes());
            let inserted = self.loads.insert(Load { block, gets: vec![slot] });
            assert_eq!(inserted, tag, "nothing came between");
            self.loading.insert(key, tag);
        }
        self.gets.get(slot).waits_for += 1;
        Ok(())
    }
}

impl std::fmt::Debug for GetPipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GetPipeline").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

/// Values in places that are used again.
struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Where the next value will be put.
    fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.places.len())
    }

    fn insert(&mut self, value: T) -> usize {
        let at = self.next();
        match self.free.pop() {
            Some(at) => self.places[at] = Some(value),
            None => self.places.push(Some(value)),
        }
        at
    }

    fn get(&mut self, at: usize) -> &mut T {
        self.places[at].as_mut().expect("a place in use")
    }

    fn remove(&mut self, at: usize) -> T {
        let value = self.places[at].take().expect("a place in use");
        self.free.push(at);
        value
    }
}
