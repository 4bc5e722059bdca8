//! Reading ahead of a walk: data blocks that are not in memory are read side by side before the
//! walk comes to them.
//!
//! 1. Nothing is read ahead before the second block in a row was missed, so a short walk, or one over
//!    resident blocks, pays nothing. From then on up to a window of bytes is in flight or waits to
//!    be used; the window doubles from 64 KiB to 1 MiB each time half of it was used. So what a walk
//!    that ends early has read in vain is at most about twice what it has used. What windows have
//!    above 64 KiB is together no more than a sixteenth of the budget of memory: a window that
//!    would take more does not grow.
//! 2. Blocks that are resident, and those that lie outside of the walk's rows, are not read.
//! 3. No load ticket is kept between calls (cache, invariant 2). A block enters the cache when the walk
//!    comes to it, or is kept by the walk alone, as its `CacheFill` says; it is checked then.
//! 4. What goes wrong with a block shows when the walk comes to it, and never otherwise: a window
//!    ends before a block to which the index does not lead or that cannot lie in the file, and that
//!    block is read, and its error found, in the usual way.

use crate::cache::CacheFill;
use crate::counters::perf_context::{self, PerfCount, PerfTime};
use crate::error::Result;
use crate::marks::Mark;
use crate::request::{Direction, RowRange};
use crate::shape::Shape;
use crate::sstable::read::block_load::BlockLoad;
use crate::sstable::read::sst_reader::{Place, SstReader};
use crate::sstable::read::typed_refs::{DataRef, IndexRef};
use base::env::FileSystem;
use base::env::read_queue::{Completed, ReadBuffer, ReadQueue};
use base::striped::Striped;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where walks that read ahead get their queues, and what they count.
pub(crate) struct ReadaheadSource {
    fs: Arc<dyn FileSystem>,
    counters: Striped<3>,
    /// Bytes of the first window, and of the largest.
    window_bytes: (u64, u64),
    /// Reads that the device is given at once.
    queue_depth: usize,
    /// Bytes that windows have above those of the first each, and may have together. Relaxed: stands
    /// by itself.
    grown: AtomicU64,
    grown_max: u64,
}

/// What is counted of blocks read ahead.
#[derive(Debug, Clone, Copy)]
enum Count {
    Issued,
    Used,
    Wasted,
}

/// Blocks read ahead since the engine was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadaheadUse {
    /// Reads that were begun.
    pub(crate) issued: u64,
    /// Blocks that a walk came to.
    pub(crate) used: u64,
    /// Blocks that no walk came to.
    pub(crate) wasted: u64,
}

impl ReadaheadSource {
    /// Queues of `fs`, for walks of an engine that may take `memory_bytes_max` bytes of memory.
    pub(crate) fn new(
        fs: Arc<dyn FileSystem>,
        memory_bytes_max: usize,
        shape: &Shape,
    ) -> Arc<Self> {
        Arc::new(Self {
            fs,
            counters: Striped::default(),
            window_bytes: (shape.window_bytes_min as u64, shape.window_bytes_max as u64),
            queue_depth: shape.window_queue_depth,
            grown: AtomicU64::new(0),
            grown_max: (memory_bytes_max / shape.windows_budget_part) as u64,
        })
    }

    /// Returns whether a window may have `more` bytes; it has them then.
    fn grow(&self, more: u64) -> bool {
        let within = |grown: u64| grown.checked_add(more).filter(|sum| *sum <= self.grown_max);
        self.grown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    /// A window gives up `bytes` bytes by which it had grown.
    fn shrink(&self, bytes: u64) {
        self.grown.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The counters.
    pub(crate) fn used(&self) -> ReadaheadUse {
        let read = |count: Count| self.counters.read(count as usize);
        let (issued, used, wasted) = (read(Count::Issued), read(Count::Used), read(Count::Wasted));
        ReadaheadUse { issued, used, wasted }
    }

    fn count(&self, what: Count, blocks: usize) {
        self.counters.add(what as usize, blocks as u64);
    }
}

/// See the file header. Goes with a walk from file to file.
pub(crate) struct Readahead {
    source: Arc<ReadaheadSource>,
    /// The rows of the walk.
    rows: Arc<RowRange>,
    /// The block missed or used last, and which way the walk went from the one before it.
    missed: Option<Place>,
    direction: Direction,
    window: Option<Box<Window>>,
}

/// What is being read, or was and waits to be used.
struct Window {
    queue: Box<dyn ReadQueue>,
    bytes_max: u64,
    /// In the order of the walk, and their bytes.
    blocks: VecDeque<Block>,
    bytes: u64,
    /// The block to be asked for next; `None` at the end of what the walk wants.
    next: Option<Place>,
    index: Option<(usize, IndexRef)>,
    /// Tag of the next read. Reads with tags below that of the first block were given up.
    tag: u64,
    /// Empty; kept for its memory.
    done: Vec<Completed>,
}

struct Block {
    place: Place,
    load: BlockLoad,
    tag: u64,
    read: Option<io::Result<ReadBuffer>>,
}

impl Readahead {
    /// For a walk over `rows`.
    pub(crate) fn new(source: &Arc<ReadaheadSource>, rows: &Arc<RowRange>) -> Self {
        Self {
            source: Arc::clone(source),
            rows: Arc::clone(rows),
            missed: None,
            direction: Direction::Forward,
            window: None,
        }
    }

    /// The block at `place`, if it was read ahead. Blocks before it in the window are given up, and
    /// further ones are asked for.
    pub(crate) fn take(
        &mut self,
        sst: &Arc<SstReader>,
        place: Place,
        fill: CacheFill,
    ) -> Option<Result<DataRef>> {
        let window = self.window.as_mut()?;
        let at = window.blocks.iter().position(|block| block.place == place)?;
        self.source.count(Count::Wasted, at);
        (0..at).for_each(|_| drop(window.take_first()));
        let begun = perf_context::now();
        let Block { load, read, .. } = window.take_first()?;
        perf_context::timed(PerfTime::DiskRead, begun);
        let bytes = load.bytes();
        perf_context::add([
            (PerfCount::Blocks, 1),
            (PerfCount::DiskBlocks, 1),
            (PerfCount::DiskBytes, bytes),
        ]);
        self.source.count(Count::Used, 1);
        self.missed = Some(place);
        if window.bytes <= window.bytes_max / 2 {
            let more = window.bytes_max.min(self.source.window_bytes.1 - window.bytes_max);
            if more > 0 && self.source.grow(more) {
                Mark::WindowGrew.hit();
                window.bytes_max += more;
            } else if more > 0 {
                Mark::WindowHeldBack.hit();
            }
            window.extend(sst, (&self.rows, self.direction), fill, &self.source);
        }
        let read = read.expect("the first block of a window is waited for");
        Some(load.enter(sst.cache(), read).and_then(|pin| sst.data_of(pin, &load)))
    }

    /// Notes that the block at `place` was not in memory and has been read, and begins to read
    /// ahead if it is the second in a row.
    pub(crate) fn missed(&mut self, sst: &Arc<SstReader>, place: Place, fill: CacheFill) {
        if self.lies_before_the_window(place) {
            self.missed = Some(place);
            return;
        }
        self.give_up();
        let before = self.missed.replace(place);
        let beside = |way: &Direction| before.and_then(|at| sst.place_beside(at, *way));
        let ways = [Direction::Forward, Direction::Reverse];
        let Some(way) = ways.into_iter().find(|way| beside(way) == Some(place)) else { return };
        Mark::ReadAhead.hit();
        self.direction = way;
        let Self { source, rows, direction, window, .. } = self;
        let window = window.get_or_insert_with(|| Window::new(source));
        window.next = sst.place_beside(place, *direction);
        window.extend(sst, (rows, *direction), fill, source);
    }

    /// Returns whether the walk still comes to the window after the block at `place`: that was
    /// resident when it would have been asked for, and no longer when the walk came to it.
    fn lies_before_the_window(&self, place: Place) -> bool {
        let first = self.window.as_ref().and_then(|window| window.blocks.front());
        let Some((first, missed)) = first.map(|block| block.place).zip(self.missed) else {
            return false;
        };
        match self.direction {
            Direction::Forward => missed < place && place < first,
            Direction::Reverse => first < place && place < missed,
        }
    }

    /// Goes on in the next file of a run, which begins with another block.
    pub(crate) fn enter_file(&mut self) {
        self.give_up();
        self.missed = None;
        if let Some(window) = &mut self.window {
            window.index = None;
        }
    }

    /// Gives up what was read ahead: the walk goes elsewhere.
    fn give_up(&mut self) {
        if let Some(window) = &mut self.window {
            self.source.count(Count::Wasted, window.blocks.len());
            window.blocks.clear();
            (window.bytes, window.next) = (0, None);
            let least = self.source.window_bytes.0;
            self.source.shrink(window.bytes_max - least);
            window.bytes_max = least;
        }
    }
}

impl Drop for Readahead {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Window {
    fn new(source: &ReadaheadSource) -> Box<Self> {
        Box::new(Self {
            queue: source.fs.read_queue(source.queue_depth),
            bytes_max: source.window_bytes.0,
            blocks: VecDeque::new(),
            bytes: 0,
            next: None,
            index: None,
            tag: 0,
            done: Vec::new(),
        })
    }

    /// Asks for further blocks of `rows`, from `next` on, until the window is full.
    fn extend(
        &mut self,
        sst: &Arc<SstReader>,
        (rows, direction): (&RowRange, Direction),
        fill: CacheFill,
        source: &ReadaheadSource,
    ) {
        let before = self.blocks.len();
        let mut passed = self.bytes;
        while let Some(place) = self.next.filter(|_| passed < self.bytes_max) {
            self.next = None;
            let Some(index) = self.index_of(sst, place.partition, fill) else { break };
            if !index.view().may_have(place.block, rows) {
                break;
            }
            let load = BlockLoad::of_data(Arc::clone(sst), index.clone(), place.block, fill);
            passed += load.bytes();
            if load.resident(sst.cache()).is_none() {
                if load.submit(&mut *self.queue, self.tag).is_err() {
                    break;
                }
                self.bytes += load.bytes();
                self.blocks.push_back(Block { place, load, tag: self.tag, read: None });
                self.tag += 1;
            }
            self.next = sst.place_beside(place, direction);
        }
        source.count(Count::Issued, self.blocks.len() - before);
        self.queue.flush();
    }

    fn index_of(&mut self, sst: &SstReader, partition: usize, fill: CacheFill) -> Option<IndexRef> {
        if self.index.as_ref().is_none_or(|(at, _)| *at != partition) {
            self.index = Some((partition, sst.index(partition, fill).ok()?));
        }
        self.index.as_ref().map(|(_, index)| index.clone())
    }

    /// Takes the first block out, read.
    fn take_first(&mut self) -> Option<Block> {
        while self.blocks.front()?.read.is_none() {
            self.queue.wait(1, &mut self.done);
            let first = self.blocks.front()?.tag;
            for Completed { tag, result } in self.done.drain(..) {
                let place = tag.checked_sub(first).map(|at| at as usize);
                if let Some(block) = place.and_then(|at| self.blocks.get_mut(at)) {
                    block.read = Some(result);
                }
            }
        }
        let block = self.blocks.pop_front()?;
        self.bytes -= block.load.bytes();
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::RealFileSystem;

    /// Bytes of a first window.
    const FIRST: u64 = Shape::DEFAULT.window_bytes_min as u64;

    /// A source whose windows may grow by 1 MiB together.
    fn source() -> Arc<ReadaheadSource> {
        ReadaheadSource::new(Arc::new(RealFileSystem), 16 << 20, &Shape::DEFAULT)
    }

    #[test]
    fn windows_grow_together_by_a_part_of_the_budget() {
        let source = source();
        assert!(source.grow((1 << 20) - 1));
        assert!(!source.grow(2));
        assert!(source.grow(1));
        assert!(!source.grow(1));
        assert!(!source.grow(u64::MAX));
        source.shrink(10);
        assert!(source.grow(10));
        assert!(!source.grow(1));
    }

    #[test]
    fn a_walk_that_ends_or_goes_elsewhere_gives_back_what_its_window_had_grown_by() {
        let source = source();
        let rows = Arc::new(RowRange::ALL);
        let grown = || {
            let mut ahead = Readahead::new(&source, &rows);
            let mut window = Window::new(&source);
            window.bytes_max = 4 * FIRST;
            assert!(source.grow(3 * FIRST));
            ahead.window = Some(window);
            ahead
        };
        let mut walks = [grown(), grown()];
        assert_eq!(source.grown.load(Ordering::Relaxed), 6 * FIRST);
        walks[0].enter_file();
        assert_eq!(source.grown.load(Ordering::Relaxed), 3 * FIRST);
        drop(walks);
        assert_eq!(source.grown.load(Ordering::Relaxed), 0);
    }
}
