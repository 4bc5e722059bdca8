//! The block cache: validated blocks of SSTables, shared by all trees of an engine.
//!
//! In: keys of blocks, and the bytes of those that a reader loaded. Out: blocks in memory, looked at
//! under a pin or held. `frames` has the arena, `heap` the blocks that fit no frame. May use `memory`
//! and `counters`; knows nothing of cells or of what a block means.
//!
//! Blocks lie in frames of one arena on huge pages (cache/frames/mod.rs). What leads to a block on
//! disk has a [`Hint`] beside it that says in which frame the block was last seen; a reader follows
//! it and compares the frame's own key, so a resident block is found without a hash look-up, a lock
//! or a count shared between cores. Readers that only look are pinned to an epoch; those that keep
//! a block hold its frame. What does not fit a frame is kept on the heap (cache/heap/mod.rs),
//! within an eighth of what blocks may take.
//!
//! What a compaction writes can take the place of what it read (warmth.rs). What is not worth the
//! place of another is not kept, where the reader can do without (admission.rs).
//!
//! How much that is follows from what else is charged to the engine's budget. The cache gives
//! memory up as soon as others need it, a step at a time (`balance`): blocks are evicted, nobody
//! who looks at one or holds one sees it go, and when all of a slab is free its memory returns to
//! the system. It takes memory back when so much was evicted for lack of it that it would be used.
//!
//! Invariants:
//! 1. A key names bytes that never change: file numbers are never reused and SSTables are
//!    immutable. An entry therefore never goes stale; it is only evicted.
//! 2. While one thread loads a key that it has the ticket of, others that ask for it can wait for
//!    that load and share its outcome, so no block is read twice at the same time. A load ticket is
//!    ended by the call that took it: who reads across calls takes the ticket of a block when it
//!    has been read. No lock is held during a load, nor may the loader be pinned.
//! 3. Arena and heap together are at most what blocks may take, but for frames that were held when
//!    memory was given up; the arena's memory is only taken from the system as it is used.
//! 4. Lock order: `Size::changing`, `space`, a shard of the table. A heap shard's lock is taken alone.
//!
//! The cache knows nothing of cells: it keeps bytes and what the loader says they are (`M`).

mod admission;
mod cache_counters;
mod frames;
mod heap;
mod key;
mod load_ticket;
mod loads_in_progress;
mod pinned;
mod prefetch;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod warmth;

pub(crate) use cache_counters::{BlockKind, CacheCounters};
pub(crate) use frames::block_ref::BlockRef;
pub(crate) use frames::hint::Hint;
pub(crate) use key::{CacheKey, KeyMap};
pub(crate) use load_ticket::{CacheLookup, LoadTicket, Loading};
pub(crate) use pinned::PinnedBlock;
pub(crate) use prefetch::Prefetched;
pub(crate) use warmth::Warmth;

use crate::files::FileNumber;
use crate::locks::{CacheSize, CacheSpace};
use crate::marks::Mark;
use crate::memory::budget::Budget;
use crate::shape::Shape;
use admission::Admission;
use base::striped::Striped;
use base::sync::Mutex;
use cache_counters::{COUNTERS, Counted, Lookups};
use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_utils::CachePadded;
use frames::frame_head::FrameHead;
use frames::frame_table::Table;
use frames::free_space::{Space, Taken};
use frames::hint::Place;
use frames::{Arena, Retired};
use heap::Heap;
use loads_in_progress::Loads;
use pinned::HeapBlock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How long an entry is worth keeping, compared with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePriority {
    /// Data blocks and large values.
    Normal,
    /// Index and filter partitions: many reads go through each.
    High,
}

impl CachePriority {
    /// Turns of the hand that a block survives after it was put in, and after a use. So many for
    /// those that many reads go through that slabs of data blocks come free for them before they
    /// have to make room for each other.
    fn lives(self) -> (u8, u8) {
        match self {
            Self::Normal => (0, 2),
            Self::High => (6, 7),
        }
    }

    /// The same for a block that somebody put in who is as good as done with it.
    fn lives_after_bypass(self) -> (u8, u8) {
        (0, self.lives().1)
    }
}

/// Whether what a read loads stays in the cache. A block that is already there is used either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheFill {
    /// Loaded blocks are kept: point reads and ordinary scans.
    #[default]
    Insert,
    /// Data blocks are not kept, what is kept goes first, and hits do not count as use: compaction,
    /// checks.
    Bypass,
    /// Kept like `Insert`, but a read that would have to wait for the disk fails. For readers that
    /// must not wait.
    Resident,
}

/// Features of a cache that can be disabled.
#[derive(Debug, Clone, Copy)]
pub struct CacheFeatures {
    /// How its memory is cut, and what its hand does.
    pub shape: Shape,
    /// Ask the system for huge pages.
    pub huge_pages: bool,
    /// Follow hints.
    pub hints: bool,
}

impl CacheFeatures {
    /// For a small cache that lives shortly.
    pub const PASSING: Self = Self { shape: Shape::DEFAULT, huge_pages: false, hints: true };
}

/// A block as its loader gives it.
#[derive(Debug)]
pub struct Loaded<'a, M> {
    /// Metadata of the block.
    pub meta: M,
    pub bytes: &'a [u8],
    /// Number of hints to keep beside it: one for each block it leads to.
    pub hints: usize,
    /// What hints that lead to it say beside its place: see [`Cache::prefetch`].
    pub prefetch_hint: u32,
}

/// Metadata of a block: plain data.
pub trait Plain: Copy + Send + Sync + std::fmt::Debug + 'static {}

impl<T: Copy + Send + Sync + std::fmt::Debug + 'static> Plain for T {}

/// Keeps blocks by file and offset, up to a number of bytes.
pub struct Cache<M: Plain> {
    arena: Arena<M>,
    space: CachePadded<Mutex<Space, CacheSpace>>,
    table: Table,
    heap: Heap<HeapBlock<M>>,
    loading: Box<[CachePadded<Loads<PinnedBlock<M>>>]>,
    budget: Arc<Budget>,
    /// Apart from what reads look at.
    size: CachePadded<Size>,
    admission: Admission,
    /// Hints are followed.
    hints: bool,
    /// Apart, for reads have no use of it.
    shape: Box<Shape>,
    counters: Striped<COUNTERS>,
}

/// Current size limit of the cache.
struct Size {
    /// Held while it changes.
    changing: Mutex<(), CacheSize>,
    /// Bytes of arena and heap.
    bytes_max: AtomicUsize,
    /// Some slab has memory that it may not have.
    leaving: AtomicBool,
    /// Bytes evicted for lack of room since the size last changed.
    evicted: AtomicUsize,
}

/// Shares of the loads in progress.
const LOAD_SHARDS: usize = 64;

impl<M: Plain> Cache<M> {
    /// An empty cache of at most `bytes_max` bytes (0 keeps nothing), whatever else is charged.
    pub fn new(bytes_max: usize, features: CacheFeatures) -> Arc<Self> {
        Self::within(Budget::of_blocks(bytes_max), features)
    }

    /// An empty cache that takes what `budget` has for blocks.
    pub fn within(budget: Arc<Budget>, features: CacheFeatures) -> Arc<Self> {
        let bytes_max = budget.blocks_limit();
        let CacheFeatures { shape, huge_pages, hints } = features;
        // So many slabs at least that all frame sizes in use find room.
        let slab_bytes = bytes_max / shape.slabs_wanted;
        let slab_bytes = slab_bytes.clamp(shape.slab_bytes_min, shape.slab_bytes_max);
        let slab_bytes = 1 << slab_bytes.ilog2();
        let slabs = (bytes_max / 8 * 7 / slab_bytes).min(Place::SLABS_MAX);
        let slabs = if slabs < shape.slabs_min { 0 } else { slabs };
        match slabs {
            0 => Mark::CacheOnHeap.hit(),
            _ => Mark::CacheInSlabs.hit(),
        }
        let arena = Arena::new(slabs, slab_bytes, huge_pages, &shape);
        let heap_bytes = bytes_max - slabs * slab_bytes;
        Arc::new(Self {
            space: CachePadded::new(Mutex::new(Space::new(slabs, arena.classes(), &shape))),
            admission: Admission::new(bytes_max, arena.classes()),
            arena,
            table: Table::new(),
            heap: Heap::new(heap_bytes, &shape),
            loading: (0..LOAD_SHARDS).map(|_| CachePadded::default()).collect(),
            budget,
            size: CachePadded::new(Size {
                changing: Mutex::default(),
                bytes_max: AtomicUsize::new(bytes_max),
                leaving: AtomicBool::new(false),
                evicted: AtomicUsize::new(0),
            }),
            hints,
            shape: Box::new(shape),
            counters: Striped::default(),
        })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The budget that its size follows.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Bytes that it has from the system now.
    pub fn memory_bytes(&self) -> usize {
        let present = self.space.lock().present();
        present * self.arena.slab_bytes() + self.heap.bytes()
    }

    /// Returns whether [`Self::balance`] has something to do.
    pub fn wants_balance(&self) -> bool {
        self.budget.blocks_max() < self.bytes_max() || self.size.leaving.load(Ordering::Relaxed)
    }

    /// Brings the cache to the size that its budget has for blocks now. What is held goes later,
    /// with another call. The caller is not pinned.
    pub fn balance(self: &Arc<Self>) {
        if !self.wants_balance() {
            return;
        }
        let wanted = self.budget.blocks_max();
        // Somebody who is at it already will do: charges that came too late come again.
        let Some(_resizing) = self.size.changing.try_lock() else { return };
        let least = self.budget.blocks_min();
        match wanted < self.bytes_max() {
            true => {
                Mark::CacheShrank.hit();
                self.resize(wanted.saturating_sub(self.step()).max(least));
            }
            false => self.confine(self.slabs_within(self.bytes_max())),
        }
    }

    /// Counts bytes evicted for lack of room, and takes memory back if it is there and so much
    /// was evicted that it will be used.
    fn grow_for(self: &Arc<Self>, evicted: usize) {
        let evicted = self.size.evicted.fetch_add(evicted, Ordering::Relaxed) + evicted;
        let (now, wanted) = (self.bytes_max(), self.budget.blocks_max());
        let (limit, step) = (self.budget.blocks_limit(), self.step());
        // A step stays free, so that the next charge does not undo it at once.
        let to = if wanted == limit { limit } else { wanted.saturating_sub(step) };
        let Some(more) = to.checked_sub(now).filter(|more| *more > 0) else { return };
        if evicted >= more
            && (more >= step || to == limit)
            && let Some(_resizing) = self.size.changing.try_lock()
        {
            self.resize(to);
        }
    }

    fn bytes_max(&self) -> usize {
        self.size.bytes_max.load(Ordering::Relaxed)
    }

    /// By how much the cache changes at once.
    fn step(&self) -> usize {
        (self.budget.blocks_limit() / self.shape.cache_steps).max(self.arena.slab_bytes())
    }

    /// Slabs of a cache of `bytes_max` bytes.
    fn slabs_within(&self, bytes_max: usize) -> usize {
        (bytes_max / 8 * 7 / self.arena.slab_bytes()).min(self.arena.slabs())
    }

    /// Makes `bytes_max` the size. Only for whoever holds `changing`.
    fn resize(self: &Arc<Self>, bytes_max: usize) {
        self.size.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.size.evicted.store(0, Ordering::Relaxed);
        let slabs = self.slabs_within(bytes_max);
        self.confine(slabs);
        let heap_bytes = bytes_max - slabs * self.arena.slab_bytes();
        self.count(Counted::Evicted, self.heap.set_bytes_max(heap_bytes));
    }

    /// Lets the first `slabs` slabs have memory and takes it from the others.
    fn confine(self: &Arc<Self>, slabs: usize) {
        loop {
            let (taken, more) = {
                let pinned = epoch::pin();
                let mut space = self.space.lock();
                let allowed = slabs.max(space.allowed().saturating_sub(self.shape.slabs_at_once));
                let taken = space.confine(&self.arena, allowed, &pinned);
                for (key, place) in &taken.keys {
                    self.table.remove(*key, *place);
                }
                self.size.leaving.store(space.is_leaving(), Ordering::Relaxed);
                self.admission.note(&space);
                (taken, allowed > slabs)
            };
            self.count(Counted::Evicted, taken.keys.len() as u64);
            self.retire(taken);
            if !more {
                return;
            }
        }
    }

    /// The block of `key`, if `hint` leads to it; counts as a use. Takes no lock.
    #[inline]
    pub fn look<'g>(
        &'g self,
        key: CacheKey,
        hint: &Hint,
        pinned: &'g Guard,
    ) -> Option<BlockRef<'g, M>> {
        let (head, block) = self.arena.find(self.follow(hint)?.0, key, pinned)?;
        self.touch(head);
        Some(block)
    }

    /// The block of `key`, if it is in the arena; sets `hint`.
    pub fn find<'g>(
        &'g self,
        key: CacheKey,
        hint: &Hint,
        pinned: &'g Guard,
    ) -> Option<BlockRef<'g, M>> {
        if let Some(block) = self.look(key, hint, pinned) {
            return Some(block);
        }
        let place = self.table.get(key)?;
        let (head, block) = self.arena.find(place, key, pinned)?;
        self.touch(head);
        hint.set(Some((place, head.prefetch_hint())));
        Some(block)
    }

    /// The block of `key` if it is in memory. Counts as a hit or a miss.
    #[inline]
    pub fn get(self: &Arc<Self>, key: CacheKey, hint: &Hint) -> Option<PinnedBlock<M>> {
        let pin = self.pin(key, hint, CacheFill::Insert);
        self.looked_up(BlockKind::Data, pin.is_some());
        pin
    }

    /// Forgets every block of `file`, which is about to be removed.
    pub fn remove_file(self: &Arc<Self>, file: FileNumber) {
        let mut taken = Taken::default();
        {
            let pinned = epoch::pin();
            // A frame found in the table is not filled anew while we are pinned: it leaves the
            // table before its grace period begins.
            for place in self.table.remove_file(file) {
                let head = self.arena.head(place, &pinned);
                let head = head.filter(|head| head.key().is_some_and(|key| key.file == file));
                if head.is_some_and(|head| head.doom()) {
                    taken.frames.push(Retired::told(place));
                }
            }
        }
        self.retire(taken);
        self.heap.remove_file(file);
    }

    /// The counters since the cache was made.
    pub fn counters(&self) -> CacheCounters {
        let (_, frame_bytes) = self.space.lock().frames_in_use(&self.arena);
        let heap_bytes = self.heap.bytes();
        CacheCounters {
            lookups: BlockKind::ALL.map(|kind| Lookups {
                hits: self.counters.read(kind.counter(true)),
                misses: self.counters.read(kind.counter(false)),
            }),
            inserted: self.counters.read(Counted::Inserted as usize),
            evicted: self.counters.read(Counted::Evicted as usize),
            not_kept: self.counters.read(Counted::NotKept as usize),
            rejected: self.counters.read(Counted::Rejected as usize),
            warmed: self.counters.read(Counted::Warmed as usize),
            warmed_bytes: self.counters.read(Counted::WarmedBytes as usize),
            warmed_used: self.counters.read(Counted::WarmedUsed as usize),
            bytes: (frame_bytes + heap_bytes) as u64,
            memory_bytes: self.memory_bytes() as u64,
            bytes_max: self.bytes_max() as u64,
        }
    }

    /// Bytes of memory on huge pages now; `None` where the system does not tell. The system looks
    /// at every page of the process for it, which takes it milliseconds a GiB.
    pub(crate) fn huge_bytes(&self) -> Option<u64> {
        self.arena.huge_bytes()
    }

    /// Notes a use of the block in a frame.
    #[inline]
    fn touch(&self, head: &FrameHead) {
        if head.touch() {
            self.count(Counted::WarmedUsed, 1);
        }
    }

    #[inline]
    fn follow(&self, hint: &Hint) -> Option<(Place, u32)> {
        if self.hints { hint.get() } else { None }
    }

    /// Counts that a reader asked for a block.
    fn looked_up(&self, kind: BlockKind, is_hit: bool) {
        self.counters.add(kind.counter(is_hit), 1);
    }

    fn count(&self, counted: Counted, count: u64) {
        self.counters.add(counted as usize, count);
    }

    /// Takes hold of the block of `key` if it is in memory. Not counted.
    pub fn pin(
        self: &Arc<Self>,
        key: CacheKey,
        hint: &Hint,
        fill: CacheFill,
    ) -> Option<PinnedBlock<M>> {
        if let Some(pin) = self.pin_frame(key, hint, fill) {
            return Some(pin);
        }
        let found = self.heap.get(key, fill)?;
        if found.first_use_of_warmed {
            self.count(Counted::WarmedUsed, 1);
        }
        Some(PinnedBlock::on_heap(found.value))
    }

    fn pin_frame(
        self: &Arc<Self>,
        key: CacheKey,
        hint: &Hint,
        fill: CacheFill,
    ) -> Option<PinnedBlock<M>> {
        let pinned = epoch::pin();
        let live = |place| self.arena.find(place, key, &pinned).map(|(head, _)| (head, place));
        let hinted = self.follow(hint).and_then(|(place, _)| live(place));
        let (head, place) = hinted.or_else(|| self.table.get(key).and_then(live))?;
        if !head.pin() {
            return None;
        }
        if fill != CacheFill::Bypass {
            self.touch(head);
        }
        hint.set(Some((place, head.prefetch_hint())));
        Some(PinnedBlock::in_frame(Arc::clone(self), self.arena.pinned(place)))
    }

    /// Keeps a block that was just loaded, where there is room for it.
    fn insert(
        self: &Arc<Self>,
        key: CacheKey,
        hint: &Hint,
        loaded: &Loaded<'_, M>,
        lives: (u8, u8),
    ) -> PinnedBlock<M> {
        let Some(class) = self.arena.class_for(loaded.bytes.len(), loaded.hints) else {
            return self.insert_on_heap(key, loaded, lives);
        };
        let Some(frame) = self.free_frame(class) else {
            Mark::FrameNotFound.hit();
            self.count(Counted::NotKept, 1);
            return PinnedBlock::apart(loaded);
        };
        let frame = self.arena.fill(frame, key, loaded, lives);
        self.table.insert(key, frame.place());
        hint.set(Some((frame.place(), loaded.prefetch_hint)));
        self.count(Counted::Inserted, 1);
        PinnedBlock::in_frame(Arc::clone(self), frame)
    }

    fn insert_on_heap(
        self: &Arc<Self>,
        key: CacheKey,
        loaded: &Loaded<'_, M>,
        lives: (u8, u8),
    ) -> PinnedBlock<M> {
        let charge = loaded.bytes.len() + loaded.hints * size_of::<Hint>();
        let block = Arc::new(HeapBlock::of(loaded));
        match self.heap.insert(key, &block, charge, lives) {
            Some(evicted) => {
                self.count(Counted::Inserted, 1);
                self.count(Counted::Evicted, evicted);
                if evicted > 0 {
                    Mark::HeapEvicted.hit();
                    self.grow_for(charge);
                }
            }
            None => self.count(Counted::NotKept, 1),
        }
        PinnedBlock::on_heap(block)
    }

    /// A frame of `class`, for which others may have to go. `None` if none comes free in time:
    /// all are held, or readers are still looking at those that were evicted.
    fn free_frame(self: &Arc<Self>, class: usize) -> Option<frames::FreeFrame> {
        for attempt in 0..self.shape.frame_attempts {
            if attempt > 1 {
                // A reader was interrupted while pinned: let it go on.
                std::thread::yield_now();
            }
            let (frame, taken) = {
                let pinned = epoch::pin();
                let mut space = self.space.lock();
                let frame = space.take(&self.arena, class);
                let taken = match space.runs_short(class) {
                    true => space.make_room(&self.arena, class, &pinned),
                    false => Taken::default(),
                };
                if !taken.is_empty() {
                    self.admission.note(&space);
                }
                for (key, place) in &taken.keys {
                    self.table.remove(*key, *place);
                }
                (frame, taken)
            };
            self.count(Counted::Evicted, taken.keys.len() as u64);
            if !taken.keys.is_empty() {
                Mark::FramesEvicted.hit();
                self.grow_for(taken.keys.len() * self.arena.bytes_of(class));
            }
            if frame.is_none() || !taken.is_empty() {
                self.retire(taken);
            }
            if frame.is_some() {
                return frame;
            }
        }
        None
    }

    /// Gives frames and slabs back after a grace period.
    fn retire(self: &Arc<Self>, taken: Taken) {
        if !taken.is_empty() {
            self.defer_return(taken);
        }
        // Readers unpin within microseconds, so the grace period is usually over right away.
        for _ in 0..3 {
            epoch::pin().flush();
        }
    }

    fn defer_return(self: &Arc<Self>, taken: Taken) {
        // Weak: what lies in the epoch's bag must not keep the arena from being freed.
        let cache = Arc::downgrade(self);
        epoch::pin().defer(move || {
            if let Some(cache) = cache.upgrade() {
                cache.take_back(taken);
            }
        });
    }

    /// Takes back what was taken away, its grace period being over. Slabs that have to go then
    /// have one of their own before their memory goes, which is done without the lock.
    fn take_back(self: &Arc<Self>, taken: Taken) {
        let (free, leaving) = {
            let mut space = self.space.lock();
            let free = space.take_back(&self.arena, taken.frames);
            let leaving = space.take_back_slabs(taken.slabs);
            self.admission.note(&space);
            (free, leaving)
        };
        if !free.is_empty() {
            self.defer_return(free);
        }
        if !leaving.is_empty() {
            leaving.iter().for_each(|slab| self.arena.release(*slab));
            self.space.lock().without_memory(leaving);
        }
    }
}

impl<M: Plain> std::fmt::Debug for Cache<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("bytes_max", &self.bytes_max()).finish_non_exhaustive()
    }
}
