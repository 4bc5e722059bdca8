//! The memory that a read queue reads into, and its reuse.

use super::aligned::AlignedBuffer;
use parking_lot::Mutex;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Lengths that are kept for reuse: 4 KiB, doubled for each class, to 128 KiB. Longer ones are
/// for large values, whose reading dwarfs an allocation.
const CLASSES: usize = 6;
const CLASS_0_BYTES: usize = 4096;

/// The bytes that a read asked for, no more and no less. Dropping it gives its memory back to the
/// queue it came from; it may outlive the queue.
pub struct ReadBuffer {
    /// `None` only while it is dropped.
    memory: Option<AlignedBuffer>,
    wanted: Range<usize>,
    pool: Arc<BufferPool>,
}

impl ReadBuffer {
    pub(super) fn new(memory: AlignedBuffer, wanted: Range<usize>, pool: &Arc<BufferPool>) -> Self {
        assert!(wanted.end <= memory.len());
        Self { memory: Some(memory), wanted, pool: Arc::clone(pool) }
    }
}

impl Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let memory = self.memory.as_ref().map_or(&[][..], AlignedBuffer::bytes);
        &memory[self.wanted.clone()]
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.put(memory);
        }
    }
}

impl std::fmt::Debug for ReadBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadBuffer").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Memory that was read into and is free again.
pub(super) struct BufferPool {
    free: Mutex<Free>,
    /// Bytes that may lie here unused.
    free_bytes_max: usize,
}

/// Free buffers by class of length.
#[derive(Default)]
struct Free {
    classes: [Vec<AlignedBuffer>; CLASSES],
    bytes: usize,
}

impl BufferPool {
    /// An empty pool that keeps up to `free_bytes_max` bytes.
    pub(super) fn new(free_bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), free_bytes_max })
    }

    /// Memory of at least `len` bytes and less than twice that, or a page. What it holds is
    /// arbitrary.
    pub(super) fn take(&self, len: usize) -> AlignedBuffer {
        let Some(class) = class_of(len) else { return AlignedBuffer::new(len) };
        let mut free = self.free.lock();
        let Some(memory) = free.classes[class].pop() else {
            drop(free);
            return AlignedBuffer::new(CLASS_0_BYTES << class);
        };
        free.bytes -= memory.len();
        memory
    }

    /// Takes `memory` back, to keep or to free it.
    pub(super) fn put(&self, memory: AlignedBuffer) {
        let Some(class) = class_of(memory.len()) else { return };
        let mut free = self.free.lock();
        if free.bytes + memory.len() <= self.free_bytes_max {
            free.bytes += memory.len();
            free.classes[class].push(memory);
        }
    }
}

/// The shortest class that holds `len` bytes.
fn class_of(len: usize) -> Option<usize> {
    let pages = len.div_ceil(CLASS_0_BYTES).max(1);
    let class = pages.next_power_of_two().trailing_zeros() as usize;
    (class < CLASSES).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_fall_into_the_shortest_class_that_holds_them() {
        for (len, want) in [
            (0, Some(0)),
            (1, Some(0)),
            (4096, Some(0)),
            (4097, Some(1)),
            (16 << 10, Some(2)),
            (128 << 10, Some(5)),
            ((128 << 10) + 1, None),
        ] {
            assert_eq!(class_of(len), want, "{len}");
        }
    }

    #[test]
    fn memory_is_used_again_up_to_a_limit() {
        let pool = BufferPool::new(10_000);
        let addresses = |buffers: &[ReadBuffer]| -> Vec<usize> {
            buffers.iter().map(|buffer| buffer.as_ptr().addr()).collect()
        };
        let take = || ReadBuffer::new(pool.take(4000), 0..4000, &pool);
        let buffers = [take(), take(), take()];
        let before = addresses(&buffers);
        drop(buffers);
        assert_eq!(pool.free.lock().bytes, 8192, "a third would be too much");
        let buffers = [take(), take()];
        let after = addresses(&buffers);
        assert!(after.iter().all(|address| before.contains(address)));
        assert_eq!(pool.free.lock().bytes, 0);
    }

    #[test]
    fn long_memory_is_of_its_length_and_not_kept() {
        let pool = BufferPool::new(1 << 30);
        let buffer = ReadBuffer::new(pool.take(200_000), 1..200_000, &pool);
        assert_eq!(buffer.len(), 199_999);
        assert_eq!(pool.take(200_000).len(), 200_000);
        drop(buffer);
        assert_eq!(pool.free.lock().bytes, 0);
    }
}
