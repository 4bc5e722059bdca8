//! Blocks that are looked at, and blocks that are held.

use super::frames::PinnedFrame;
use super::frames::free_space::Taken;
use super::{BlockRef, Cache, Hint, Loaded, Plain};
use std::sync::Arc;

/// A block that stays readable as long as this lives, whatever the cache evicts.
#[derive(Debug)]
pub struct PinnedBlock<M: Plain>(Pin<M>);

#[derive(Debug)]
enum Pin<M: Plain> {
    Frame(FramePin<M>),
    Heap(Arc<HeapBlock<M>>),
}

/// A count in a frame's head.
struct FramePin<M: Plain> {
    cache: Arc<Cache<M>>,
    frame: PinnedFrame<M>,
}

/// A block outside of the arena.
#[derive(Debug)]
pub(super) struct HeapBlock<M> {
    meta: M,
    bytes: Box<[u8]>,
    hints: Box<[Hint]>,
}

impl<M: Plain> HeapBlock<M> {
    /// A copy of what was loaded.
    pub(super) fn of(loaded: &Loaded<'_, M>) -> Self {
        let hints = (0..loaded.hints).map(|_| Hint::default()).collect();
        Self { meta: loaded.meta, bytes: loaded.bytes.into(), hints }
    }
}

impl<M: Plain> PinnedBlock<M> {
    /// A block that no cache knows of.
    pub fn apart(loaded: &Loaded<'_, M>) -> Self {
        Self::on_heap(Arc::new(HeapBlock::of(loaded)))
    }

    pub(super) fn on_heap(block: Arc<HeapBlock<M>>) -> Self {
        Self(Pin::Heap(block))
    }

    pub(super) fn in_frame(cache: Arc<Cache<M>>, frame: PinnedFrame<M>) -> Self {
        Self(Pin::Frame(FramePin { cache, frame }))
    }

    #[inline]
    pub fn get(&self) -> BlockRef<'_, M> {
        match &self.0 {
            Pin::Frame(pin) => pin.frame.block(),
            Pin::Heap(block) => {
                BlockRef { meta: &block.meta, bytes: &block.bytes, hints: &block.hints }
            }
        }
    }
}

impl<M: Plain> Clone for PinnedBlock<M> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Pin::Frame(pin) => {
                Pin::Frame(FramePin { cache: Arc::clone(&pin.cache), frame: pin.frame.again() })
            }
            Pin::Heap(block) => Pin::Heap(Arc::clone(block)),
        })
    }
}

impl<M: Plain> Drop for FramePin<M> {
    fn drop(&mut self) {
        if let Some(retired) = self.frame.let_go() {
            self.cache.retire(Taken { frames: vec![retired], ..Taken::default() });
        }
    }
}

impl<M: Plain> std::fmt::Debug for FramePin<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameHold").field("place", &self.frame.place()).finish_non_exhaustive()
    }
}
