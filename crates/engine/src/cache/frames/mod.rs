//! The arena: one region of memory on huge pages, cut into slabs, each slab into frames of one
//! size, each frame holding one block.
//!
//! ```text
//! frame: head | what the block is (M) | block, 64-byte aligned | hints
//! ```
//!
//! What makes the reads here sound:
//! 1. A slab's frames lie where its class says. A class changes only from "none" (`carve`), and a
//!    slab gets "none" only when all its frames are free; carving it anew waits for a grace period
//!    (the caller's duty, as for free frames), and so does giving its memory back. So a place that
//!    passes the checks of `frame` names an initialised head as long as the reader stays pinned.
//! 2. Only the owner of a [`FreeFrame`] writes a frame. There is one for each free frame; it is
//!    given up by `fill` and made again by `reclaim`, after the grace period.
//! 3. A live frame's bytes do not change. Whoever found it live while pinned may read it until it
//!    unpins; whoever holds it, until it lets go (frame_head.rs).
#![allow(unsafe_code)]

pub(super) mod atomics;
pub(super) mod block_ref;
pub(super) mod frame_head;
pub(super) mod frame_table;
pub(super) mod free_space;
pub(super) mod hint;

use super::{CacheKey, Loaded, Plain};
use crate::shape::Shape;
use base::memory::{Region, prefetch, undefine};
use block_ref::BlockRef;
use crossbeam_epoch::Guard;
use frame_head::{Contents, FrameHead};
use hint::{Hint, Place};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks and frames are aligned to this.
const ALIGNMENT: usize = 64;
#[repr(C, align(64))]
struct Frame<M> {
    head: FrameHead,
    meta: UnsafeCell<MaybeUninit<M>>,
}

/// A frame that its owner alone may write (invariant 2).
#[derive(Debug)]
pub(super) struct FreeFrame(Place);

impl FreeFrame {
    pub(super) fn place(&self) -> Place {
        self.0
    }
}

/// See the file header.
pub(super) struct Arena<M> {
    region: Region,
    slab_bytes: usize,
    /// Bytes of a frame of each class, ascending, multiples of the alignment.
    classes: Box<[usize]>,
    /// Frames of a slab of each class: every look-up compares with it, and a division is slow.
    frames: Box<[usize]>,
    slabs: Box<[SlabShape]>,
    meta: PhantomData<M>,
}

/// The class of a slab, with what a look-up needs of it, so that it reads one word: bytes of a frame
/// (32 bits), number of frames (16), class plus 1 (16). All 0 for none.
#[derive(Default)]
struct SlabShape(AtomicU64);

impl SlabShape {
    fn set(&self, class: usize, frames: usize, bytes: usize) {
        let word = (bytes as u64) << 32 | (frames as u64) << 16 | (class as u64 + 1);
        self.0.store(word, Ordering::Release);
    }

    fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn class(&self) -> Option<usize> {
        usize::from(self.0.load(Ordering::Acquire) as u16).checked_sub(1)
    }

    /// Number of frames, and bytes of each; 0 frames without a class.
    #[inline]
    fn frames(&self) -> (u32, usize) {
        let word = self.0.load(Ordering::Acquire);
        (word as u32 >> 16, (word >> 32) as usize)
    }
}

// SAFETY: frames are shared under the rules of the file header; their heads are atomics.
unsafe impl<M: Send + Sync> Send for Arena<M> {}
// SAFETY: as above.
unsafe impl<M: Send + Sync> Sync for Arena<M> {}

impl<M: Plain> Arena<M> {
    const BLOCK_AT: usize = size_of::<Frame<M>>().next_multiple_of(ALIGNMENT);

    /// An arena of `slabs` slabs of `slab_bytes` bytes, none carved.
    pub(super) fn new(slabs: usize, slab_bytes: usize, huge: bool, shape: &Shape) -> Self {
        assert!(slab_bytes.is_multiple_of(ALIGNMENT) && slabs <= Place::SLABS_MAX);
        assert!(u32::try_from(slab_bytes).is_ok(), "a frame's length has 32 bits");
        let classes = classes_of(slab_bytes, shape.frame_bytes_min);
        Self {
            region: Region::new(slabs * slab_bytes, huge),
            slab_bytes,
            frames: classes.iter().map(|bytes| slab_bytes / bytes).collect(),
            classes,
            slabs: (0..slabs).map(|_| SlabShape::default()).collect(),
            meta: PhantomData,
        }
    }

    pub(super) fn slabs(&self) -> usize {
        self.slabs.len()
    }

    pub(super) fn slab_bytes(&self) -> usize {
        self.slab_bytes
    }

    pub(super) fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Bytes that lie on huge pages now.
    pub(super) fn huge_bytes(&self) -> Option<u64> {
        self.region.huge_bytes()
    }

    /// The smallest class whose frames take a block of `len` bytes and `hints` hints.
    pub(super) fn class_for(&self, len: usize, hints: usize) -> Option<usize> {
        let bytes = hints_at::<M>(len) + hints * size_of::<Hint>();
        let class = self.classes.partition_point(|frame| *frame < bytes);
        (class < self.classes.len() && self.slabs() > 0).then_some(class)
    }

    /// Bytes of a frame of a class.
    pub(super) fn bytes_of(&self, class: usize) -> usize {
        self.classes[class]
    }

    pub(super) fn frames_of(&self, class: usize) -> usize {
        self.frames[class]
    }

    /// The class of a carved slab.
    pub(super) fn class_of(&self, slab: u32) -> Option<usize> {
        self.slabs.get(slab as usize)?.class()
    }

    /// Cuts a slab without a class, which nobody reads, into free frames.
    pub(super) fn carve(&self, slab: u32, class: usize) -> impl Iterator<Item = FreeFrame> {
        assert!(self.class_of(slab).is_none(), "a slab is carved when it has no class");
        let frames = self.frames_of(class);
        for frame in 0..frames {
            // SAFETY: within the slab, and nobody else reads or writes it (invariant 1).
            unsafe {
                let place = Place { slab, frame: frame as u32 };
                let head = self.address(place, self.classes[class]).cast();
                std::ptr::write(head, FrameHead::free());
            }
        }
        self.slabs[slab as usize].set(class, frames, self.classes[class]);
        (0..frames as u32).map(move |frame| FreeFrame(Place { slab, frame }))
    }

    /// Takes its class from a slab, all of whose frames are given up here.
    pub(super) fn withdraw(&self, slab: u32, frames: Vec<FreeFrame>) {
        let class = self.class_of(slab).expect("a carved slab is withdrawn");
        let all = frames.iter().all(|frame| frame.0.slab == slab);
        assert!(all && frames.len() == self.frames_of(class), "the slab's frames are all free");
        self.slabs[slab as usize].clear();
    }

    /// Gives the memory of a slab without a class, which nobody reads, back to the system.
    pub(super) fn release(&self, slab: u32) {
        assert!(self.class_of(slab).is_none(), "a slab is given back when it has no class");
        // SAFETY: without a class no place in the slab passes `frame`, and the grace period since
        // it lost it is over (the caller's duty): nobody has to do with its bytes until `carve`.
        unsafe { self.region.release(slab as usize * self.slab_bytes, self.slab_bytes) }
    }

    /// Returns the start of a frame of a slab with frames of `bytes` bytes.
    #[inline]
    fn address(&self, place: Place, bytes: usize) -> *mut u8 {
        let offset = place.slab as usize * self.slab_bytes + place.frame as usize * bytes;
        debug_assert!(offset + bytes <= self.region.bytes());
        // SAFETY: slab and frame are in range, so the offset is within the region.
        unsafe { self.region.start().as_ptr().add(offset) }
    }

    /// The frame at `place` and its length, if there is one now.
    #[inline]
    fn frame(&self, place: Place) -> Option<(*mut Frame<M>, usize)> {
        let (frames, bytes) = self.slabs.get(place.slab as usize)?.frames();
        (place.frame < frames).then(|| (self.address(place, bytes).cast(), bytes))
    }

    /// The frame at `place`, if there is one now. The guard keeps it one.
    #[inline]
    pub(super) fn at<'g>(&'g self, place: Place, _pinned: &'g Guard) -> Option<FrameAt<'g, M>> {
        let (frame, _) = self.frame(place)?;
        Some(FrameAt { frame: NonNull::new(frame)?, pinned: PhantomData })
    }

    /// See [`fetch_ahead`].
    #[inline]
    pub(super) fn prefetch<const N: usize>(&self, place: Place, parts: [Range<usize>; N]) {
        if let Some((frame, _)) = self.frame(place) {
            fetch_ahead(frame, size_of::<M>(), parts);
        }
    }

    /// The head of the frame at `place`, if there is one now. The guard keeps it one.
    pub(super) fn head<'g>(&'g self, place: Place, pinned: &'g Guard) -> Option<&'g FrameHead> {
        self.at(place, pinned).map(FrameAt::head)
    }

    /// The block of `key` if the frame at `place` holds it. The guard keeps it readable.
    #[inline]
    pub(super) fn find<'g>(
        &'g self,
        place: Place,
        key: CacheKey,
        pinned: &'g Guard,
    ) -> Option<(&'g FrameHead, BlockRef<'g, M>)> {
        self.at(place, pinned)?.find(key)
    }

    /// The frame at `place`, of whose head the caller has just taken hold.
    pub(super) fn pinned(&self, place: Place) -> PinnedFrame<M> {
        let (frame, _) = self.frame(place).expect("a slab with a held frame keeps its class");
        // SAFETY: a held frame is live or doomed, never free, so its bytes stay (invariant 3).
        let (head, BlockRef { meta, bytes, hints }) =
            unsafe { (&raw const (*frame).head, block_in(frame)) };
        PinnedFrame { place, head, meta: meta.into(), bytes: bytes.into(), hints: hints.into() }
    }

    /// Writes a block into a free frame and makes the frame live, held by the caller.
    pub(super) fn fill(
        &self,
        free: FreeFrame,
        key: CacheKey,
        loaded: &Loaded<'_, M>,
        lives: (u8, u8),
    ) -> PinnedFrame<M> {
        let place = free.0;
        let (frame, room) = self.frame(place).expect("a free frame lies in a carved slab");
        let (len, hints) = (loaded.bytes.len(), loaded.hints);
        assert!(hints_at::<M>(len) + hints * size_of::<Hint>() <= room, "the class was chosen");
        // SAFETY: the caller owns the free frame (invariant 2), and all parts lie within it.
        unsafe {
            let start: *mut u8 = frame.cast();
            (*(*frame).meta.get()).write(loaded.meta);
            let block = start.add(Self::BLOCK_AT);
            std::ptr::copy_nonoverlapping(loaded.bytes.as_ptr(), block, len);
            let hint = start.add(hints_at::<M>(len)).cast::<Hint>();
            (0..hints).for_each(|index| hint.add(index).write(Hint::default()));
            let holds = Contents {
                len: len as u32,
                hints: hints as u32,
                prefetch_hint: loaded.prefetch_hint,
            };
            (*frame).head.publish(key, holds, lives);
        }
        self.pinned(place)
    }

    /// A frame that was doomed, let go by all, and given a grace period since.
    pub(super) fn reclaim(&self, retired: Retired) -> FreeFrame {
        let (frame, bytes) =
            self.frame(retired.0).expect("a slab with a retired frame keeps its class");
        let meta_at = offset_of!(Frame<M>, meta);
        // SAFETY: from now on the frame is its owner's alone (invariant 2), but for its head.
        unsafe { undefine(frame.cast::<u8>().add(meta_at), bytes - meta_at) };
        FreeFrame(retired.0)
    }
}

/// A frame as a pinned reader came to it: by the time it looks, it may hold any block or none.
pub(super) struct FrameAt<'g, M> {
    frame: NonNull<Frame<M>>,
    pinned: PhantomData<&'g Frame<M>>,
}

impl<M> Clone for FrameAt<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for FrameAt<'_, M> {}

impl<'g, M: Plain> FrameAt<'g, M> {
    #[inline]
    fn head(self) -> &'g FrameHead {
        // SAFETY: the frame's head is initialised while the reader is pinned (invariant 1), and made
        // of atomics.
        unsafe { &(*self.frame.as_ptr()).head }
    }

    /// The block of `key` if the frame holds it.
    #[inline]
    pub(super) fn find(self, key: CacheKey) -> Option<(&'g FrameHead, BlockRef<'g, M>)> {
        let head = self.head();
        // SAFETY: the frame was found live by a pinned reader (invariant 3).
        head.is(key).then(|| (head, unsafe { block_in(self.frame.as_ptr()) }))
    }

    /// See [`fetch_ahead`].
    #[inline]
    pub(super) fn prefetch<const N: usize>(self, meta: usize, parts: [Range<usize>; N]) {
        fetch_ahead(self.frame.as_ptr(), meta, parts);
    }
}

/// Asks the processor to fetch what says which block `frame` holds, the first `meta` bytes of what
/// the block is, and `parts` of the block. Touches nothing, so that it needs no guard.
#[inline]
fn fetch_ahead<M: Plain, const N: usize>(
    frame: *const Frame<M>,
    meta: usize,
    parts: [Range<usize>; N],
) {
    let start = frame.cast::<u8>();
    prefetch(start, offset_of!(Frame<M>, meta) + meta);
    for part in parts {
        prefetch(start.wrapping_add(Arena::<M>::BLOCK_AT + part.start), part.len());
    }
}

/// The block in `frame`.
///
/// SAFETY: the frame is live, or doomed and held or found live under a pin that lasts, for as long
/// as the result is used.
#[inline]
unsafe fn block_in<'a, M: Plain>(frame: *mut Frame<M>) -> BlockRef<'a, M> {
    // SAFETY: the head is initialised; the other parts were written by `fill`, which found room for
    // them, before the frame was published.
    unsafe {
        let (len, hints) = (*frame).head.lengths();
        let start: *mut u8 = frame.cast();
        let hint = start.add(hints_at::<M>(len)).cast::<Hint>();
        BlockRef {
            meta: (*(*frame).meta.get()).assume_init_ref(),
            bytes: std::slice::from_raw_parts(start.add(Arena::<M>::BLOCK_AT), len),
            hints: std::slice::from_raw_parts(hint, hints),
        }
    }
}

/// A frame that its owner holds: one count in its head. The owner keeps the arena alive, ends the
/// hold with `let_go`, and does not use it afterwards.
///
/// It has pointers: a reference in an argument has to stay good until the call returns, but whoever
/// takes a hold by value to end it (`drop`) lets the frame be written anew before that.
pub(super) struct PinnedFrame<M> {
    place: Place,
    head: *const FrameHead,
    meta: NonNull<M>,
    bytes: NonNull<[u8]>,
    hints: NonNull<[Hint]>,
}

// SAFETY: it stands for shared references to the head and the block.
unsafe impl<M: Send + Sync> Send for PinnedFrame<M> {}
// SAFETY: as above.
unsafe impl<M: Send + Sync> Sync for PinnedFrame<M> {}

impl<M: Plain> PinnedFrame<M> {
    pub(super) fn place(&self) -> Place {
        self.place
    }

    #[inline]
    pub(super) fn block(&self) -> BlockRef<'_, M> {
        // SAFETY: the frame is held and its arena lives, so the block does not change (invariant 3).
        unsafe {
            BlockRef {
                meta: self.meta.as_ref(),
                bytes: self.bytes.as_ref(),
                hints: self.hints.as_ref(),
            }
        }
    }

    fn head(&self) -> &FrameHead {
        // SAFETY: the frame is held and its arena lives, so its head stays where it is.
        unsafe { &*self.head }
    }

    /// Holds the frame once more.
    pub(super) fn again(&self) -> Self {
        self.head().pin_again();
        Self { ..*self }
    }

    /// Ends the hold; gives the frame if it must be retired.
    pub(super) fn let_go(&self) -> Option<Retired> {
        self.head().let_go().then_some(Retired(self.place))
    }
}

/// A doomed frame without holders: to be reclaimed after a grace period.
#[derive(Debug)]
pub(super) struct Retired(Place);

impl Retired {
    /// For a frame whose head has just said that the caller must retire it.
    pub(super) fn told(place: Place) -> Self {
        Self(place)
    }
}

/// Where the hints of a block of `len` bytes start in its frame.
fn hints_at<M>(len: usize) -> usize {
    let block_at = size_of::<Frame<M>>().next_multiple_of(ALIGNMENT);
    (block_at + len).next_multiple_of(align_of::<Hint>())
}

/// Frame sizes of a slab, about 6 % apart: those that fill the slab well.
fn classes_of(slab_bytes: usize, frame_bytes_min: usize) -> Box<[usize]> {
    let mut classes = vec![slab_bytes];
    let mut frames = 1;
    loop {
        frames = (frames + 1).max(frames * 17 / 16);
        let bytes = slab_bytes / frames / ALIGNMENT * ALIGNMENT;
        if bytes < frame_bytes_min || frames > Place::FRAMES_MAX {
            break;
        }
        classes.push(bytes);
    }
    classes.reverse();
    classes.into()
}
