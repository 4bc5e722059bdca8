//! Many reads in flight from one thread.
//!
//! A caller that knows several ranges it will need submits them all and waits once: the device
//! works on them side by side, and entering the kernel is shared among them. Two implementations
//! behave the same: io_uring (`uring.rs`), and one read after the other ([`PreadQueue`]) where
//! io_uring is not to be had, and for simulated files.
//!
//! 1. Each submitted read is handed out by `wait` exactly once, with its tag, whatever happens.
//! 2. Reads complete in any order.
//! 3. A queue keeps the files of its reads open until they are handed out.

use super::fs::{FileSystem, ReadFile};
use super::read_buffer::BufferPool;
pub use super::read_buffer::ReadBuffer;
use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Weak};

/// Bytes that the memory of a queue may take while it is not in use: for each read of its depth, and
/// at most. A thread keeps its queue for good, and there are many threads.
const FREE_BYTES_PER_READ: usize = 64 << 10;
const FREE_BYTES_MAX: usize = 1 << 20;

/// Number of reads the queue of a thread has in flight.
pub const THREAD_QUEUE_DEPTH: usize = 64;

/// The deepest queue: more than any disk works on, and within the kernel's own limit.
pub(super) const DEPTH_MAX: usize = 4096;

/// Mechanism of a read queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Side by side, through io_uring.
    Uring,
    /// One after the other, when they are submitted.
    Pread,
}

/// Reads in flight. It may move between threads, but works best on the thread that submits.
pub trait ReadQueue: Send {
    /// Asks for the `len` bytes of `file` at `offset`. Never fails: errors come out of
    /// [`wait`](Self::wait), as those of [`ReadFile::read_exact_at`]. Reads beyond the depth of
    /// the queue begin when earlier ones are done. The read may begin only with `flush` or `wait`.
    ///
    /// Takes memory for `len` rounded out to the file's alignment, less than twice as much. How
    /// much is in flight is for the caller to bound.
    fn submit(&mut self, tag: u64, file: &Arc<dyn ReadFile>, offset: u64, len: usize);

    /// Lets the reads submitted so far begin. Does not wait for them.
    fn flush(&mut self);

    /// Waits until `at_least` reads are done, or all if there are fewer, and appends those that
    /// are done to `out`. With 0 it only looks.
    fn wait(&mut self, at_least: usize, out: &mut Vec<Completed>);

    /// Reads that were submitted and not yet handed out.
    fn in_flight(&self) -> usize;

    /// Returns the number of reads that the device gets at once.
    fn depth(&self) -> usize;

    /// Returns the mechanism of the queue.
    fn kind(&self) -> QueueKind;
}

/// A read that is done.
#[derive(Debug)]
pub struct Completed {
    /// The tag that the read was submitted with.
    pub tag: u64,
    /// Its bytes, as many as were asked for.
    pub result: io::Result<ReadBuffer>,
}

/// Memory for a queue of this depth.
pub(super) fn pool_for(depth: usize) -> Arc<BufferPool> {
    BufferPool::new(depth.saturating_mul(FREE_BYTES_PER_READ).min(FREE_BYTES_MAX))
}

/// Reads without a queue.
pub(super) fn read_now(
    pool: &Arc<BufferPool>,
    file: &dyn ReadFile,
    offset: u64,
    len: usize,
) -> io::Result<ReadBuffer> {
    let mut memory = pool.take(len);
    file.read_exact_at(&mut memory.bytes_mut()[..len], offset)?;
    Ok(ReadBuffer::new(memory, 0..len, pool))
}

/// Reads one after the other, each when it is submitted.
pub struct PreadQueue {
    depth: usize,
    pool: Arc<BufferPool>,
    done: Vec<Completed>,
}

impl PreadQueue {
    /// A queue that calls itself `depth` deep, brought into 1..=4096.
    pub fn new(depth: usize) -> Self {
        let depth = depth.clamp(1, DEPTH_MAX);
        Self { depth, pool: pool_for(depth), done: Vec::new() }
    }
}

impl ReadQueue for PreadQueue {
    fn submit(&mut self, tag: u64, file: &Arc<dyn ReadFile>, offset: u64, len: usize) {
        let result = read_now(&self.pool, &**file, offset, len);
        self.done.push(Completed { tag, result });
    }

    fn flush(&mut self) {}

    fn wait(&mut self, _at_least: usize, out: &mut Vec<Completed>) {
        out.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn kind(&self) -> QueueKind {
        QueueKind::Pread
    }
}

/// One read of a batch.
pub struct BatchRead<'a> {
    pub file: &'a Arc<dyn ReadFile>,
    /// Offset of the wanted bytes.
    pub offset: u64,
    /// The number of them.
    pub len: usize,
    /// Set by [`read_batch`].
    pub result: Option<io::Result<ReadBuffer>>,
}

/// Reads all of `reads` and returns when the last is done; each then has its result.
///
/// # Panics
/// If `queue` has other reads in flight.
pub fn read_batch(queue: &mut dyn ReadQueue, reads: &mut [BatchRead<'_>]) {
    assert_eq!(queue.in_flight(), 0, "a batch needs the queue for itself");
    for (tag, read) in reads.iter().enumerate() {
        queue.submit(tag as u64, read.file, read.offset, read.len);
    }
    let mut done = Vec::with_capacity(reads.len());
    queue.wait(reads.len(), &mut done);
    for Completed { tag, result } in done {
        reads[tag as usize].result = Some(result);
    }
}

/// Calls `run` with the queue of this thread, which `fs` makes when the thread first asks for it.
/// It is empty, and what `run` leaves in flight is forgotten. Within `run` another call gets a
/// queue of its own.
pub fn with_thread_queue<R>(
    fs: &Arc<dyn FileSystem>,
    run: impl FnOnce(&mut dyn ReadQueue) -> R,
) -> R {
    /// The queue, and the file system that made it.
    type Kept = Option<(Weak<dyn FileSystem>, Box<dyn ReadQueue>)>;
    thread_local! {
        static QUEUE: RefCell<Kept> = const { RefCell::new(None) };
    }
    // Taken out, so that it is dropped if `run` panics.
    let (owner, mut queue) = QUEUE
        .take()
        .filter(|(owner, _)| std::ptr::addr_eq(owner.as_ptr(), Arc::as_ptr(fs)))
        .unwrap_or_else(|| (Arc::downgrade(fs), fs.read_queue(THREAD_QUEUE_DEPTH)));
    let result = run(&mut *queue);
    if queue.in_flight() == 0 {
        QUEUE.set(Some((owner, queue)));
    }
    result
}
