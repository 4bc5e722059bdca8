//! Append-only storage that readers walk without locks while one writer adds to it.
//!
//! Invariants:
//! 1. A slot never moves: chunks are allocated once, each twice the size of the one before, and
//!    live as long as the arena.
//! 2. Slots are handed out by the one writer (its `&mut` counter); a reader only uses indices that
//!    it got from a link published after the slot was filled.

use std::sync::OnceLock;

/// Slots of the first chunk: few, so that a thousand small memtables are small together.
const FIRST_CHUNK: u32 = 1 << 6;
/// Chunks enough to use up every `u32` index.
const CHUNKS: usize = 27;

/// A growing array of `T` with stable places.
pub(super) struct Arena<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

impl<T: Default> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }
}

/// Chunk and place in it of `index`.
fn locate(index: u32) -> (usize, usize) {
    let shifted = u64::from(index) + u64::from(FIRST_CHUNK);
    let chunk = shifted.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, (shifted - (u64::from(FIRST_CHUNK) << chunk)) as usize)
}

fn chunk_len(chunk: usize) -> usize {
    (FIRST_CHUNK as usize) << chunk
}

impl<T: Default> Arena<T> {
    /// The slots from `index` to the end of its chunk. `index` was handed out, and so were at
    /// least the slots reserved together with it; those behind them may be in use or not.
    pub(super) fn from(&self, index: u32) -> &[T] {
        let (chunk, at) = locate(index);
        &self.chunks[chunk].get().expect("an index handed out lies in an allocated chunk")[at..]
    }

    /// The slot at `index`, which must have been handed out.
    pub(super) fn get(&self, index: u32) -> &T {
        &self.from(index)[0]
    }

    /// Bytes allocated once the slots before `next` were handed out.
    pub(super) fn bytes_allocated(next: u32) -> usize {
        let slots = next.checked_sub(1).map_or(0, |last| {
            let (chunk, _) = locate(last);
            chunk_len(chunk + 1) - FIRST_CHUNK as usize
        });
        slots * size_of::<T>()
    }

    /// Hands out `count` neighbouring slots from `next` on, all in one chunk, and returns the
    /// index of the first; `None` when the arena is used up.
    pub(super) fn reserve(&self, next: &mut u32, count: u32) -> Option<u32> {
        debug_assert!((1..=FIRST_CHUNK).contains(&count));
        let (mut chunk, mut at) = locate(*next);
        if at + count as usize > chunk_len(chunk) {
            *next = next.checked_add((chunk_len(chunk) - at) as u32)?;
            (chunk, at) = (chunk + 1, 0);
        }
        debug_assert_eq!(locate(*next), (chunk, at));
        self.chunks
            .get(chunk)?
            .get_or_init(|| (0..chunk_len(chunk)).map(|_| T::default()).collect());
        let first = *next;
        *next = next.checked_add(count)?;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVED: usize = if cfg!(miri) { 400 } else { 4000 };

    #[test]
    fn neighbouring_slots_stay_in_one_chunk() {
        let arena = Arena::<u32>::default();
        let mut next = 1;
        let mut last_end = 1;
        for count in (1..=12).cycle().take(RESERVED) {
            let first = arena.reserve(&mut next, count).unwrap();
            assert!(first >= last_end);
            let (chunk, at) = locate(first);
            assert_eq!(locate(first + count - 1), (chunk, at + count as usize - 1));
            assert_eq!(*arena.get(first + count - 1), 0);
            assert!(arena.from(first).len() >= count as usize);
            last_end = first + count;
        }
    }

    #[test]
    fn chunks_are_counted_as_they_are_allocated() {
        let arena = Arena::<u32>::default();
        let mut next = 0;
        assert_eq!(Arena::<u32>::bytes_allocated(next), 0);
        for _ in 0..RESERVED {
            arena.reserve(&mut next, 7).unwrap();
            let chunks = arena.chunks.iter().filter_map(OnceLock::get);
            let bytes: usize = chunks.map(|chunk| size_of_val(&**chunk)).sum();
            assert_eq!(Arena::<u32>::bytes_allocated(next), bytes);
        }
    }

    #[test]
    fn the_last_index_lies_in_the_last_chunk() {
        assert_eq!(locate(0), (0, 0));
        assert_eq!(locate(u32::MAX).0, CHUNKS - 1);
    }
}
