//! Free frames of the arena, and the clock hand that frees more.
//!
//! The hand goes over all live frames that may stay, slab after slab, as the hand of a clock: a
//! frame that was used since it last came by loses a life, one without lives is evicted unless it
//! is held. Frames evicted from slabs of another class than the one wanted go to their own class; a
//! slab that has come to be free as a whole is cut anew for the class wanted. So memory follows
//! demand. Where a class has few frames the hand would empty the others on its way, so it then
//! clears one slab of which not much was used lately.
//!
//! The first `allowed` slabs may have memory. The others are **leaving** while any of their frames
//! is in use: what nobody holds was evicted, the rest goes as its holders let go. Then they lose
//! their class, and after one more grace period their memory.
//!
//! Invariants:
//! 1. `free[class]` has exactly the free frames of the slabs of that class that are not leaving,
//!    `leaving` those of the slabs that are; `free_in_slab` counts both by slab. A leaving slab all
//!    of whose frames are free is withdrawn at once.
//! 2. What leaves a live state here is handed to the caller, who gives it back (`take_back`,
//!    `take_back_slabs`) after a grace period, outside of the lock.
//! 3. A slab is cut, or in `uncut`, or in `absent` and without memory, or on its way between these
//!    in the hands of a caller.

use super::hint::Place;
use super::{Arena, FreeFrame, Retired};
use crate::cache::{CacheKey, Plain};
use crate::marks::Mark;
use crate::shape::Shape;
use crossbeam_epoch::Guard;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// See the file header.
pub(crate) struct Space {
    shape: Shape,
    free: Vec<Vec<FreeFrame>>,
    free_in_slab: Vec<usize>,
    /// Slabs without a class that nobody reads.
    uncut: Vec<u32>,
    /// Slabs without memory, the first on top.
    absent: BinaryHeap<Reverse<u32>>,
    allowed: u32,
    leaving: Vec<FreeFrame>,
    hand: Place,
    /// Frames taken away and not yet given back.
    limbo: usize,
}

/// Frames that the hand took: unreachable for new readers, not yet reusable.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) frames: Vec<Retired>,
    pub(crate) slabs: Vec<u32>,
    /// The blocks that were in the frames, to be taken off the table.
    pub(crate) keys: Vec<(CacheKey, Place)>,
}

impl Taken {
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.slabs.is_empty()
    }
}

impl Space {
    pub(crate) fn new(slabs: usize, classes: usize, shape: &Shape) -> Self {
        Self {
            shape: *shape,
            free: (0..classes).map(|_| Vec::new()).collect(),
            free_in_slab: vec![0; slabs],
            uncut: Vec::new(),
            absent: (0..slabs as u32).map(Reverse).collect(),
            allowed: slabs as u32,
            leaving: Vec::new(),
            hand: Place { slab: 0, frame: 0 },
            limbo: 0,
        }
    }

    /// Slabs that may have memory.
    pub(crate) fn allowed(&self) -> usize {
        self.allowed as usize
    }

    /// Slabs that have memory.
    pub(crate) fn present(&self) -> usize {
        self.free_in_slab.len() - self.absent.len()
    }

    /// Returns whether slabs have memory that may not.
    pub(crate) fn is_leaving(&self) -> bool {
        let absent = self.absent.iter().filter(|slab| slab.0 >= self.allowed).count();
        absent < self.free_in_slab.len() - self.allowed()
    }

    /// Returns whether there is a slab to cut.
    fn has_uncut(&self) -> bool {
        !self.uncut.is_empty() || self.absent.peek().is_some_and(|slab| slab.0 < self.allowed)
    }

    fn pop_uncut(&mut self) -> Option<u32> {
        let absent = |space: &mut Self| {
            let first = space.absent.peek_mut()?;
            (first.0 < space.allowed).then(|| PeekMut::pop(first).0)
        };
        self.uncut.pop().or_else(|| absent(self))
    }

    /// Lets the first `allowed` slabs have memory. Of the others, takes away what is in use and
    /// not held; again, with the same number, what has come to be used since.
    pub(crate) fn confine<M: Plain>(
        &mut self,
        arena: &Arena<M>,
        allowed: usize,
        pinned: &Guard,
    ) -> Taken {
        self.allowed = allowed as u32;
        if self.hand.slab >= self.allowed {
            self.hand = Place { slab: 0, frame: 0 };
        }
        let mut taken = Taken::default();
        let leaves = |slab: u32| slab as usize >= allowed;
        for frame in std::mem::take(&mut self.leaving) {
            self.put_back(arena, frame);
        }
        for free in &mut self.free {
            self.leaving.extend(free.extract_if(.., |frame| leaves(frame.place().slab)));
        }
        taken.slabs.extend(self.uncut.extract_if(.., |slab| leaves(*slab)));
        for slab in self.allowed..arena.slabs() as u32 {
            let Some(class) = arena.class_of(slab) else { continue };
            for frame in 0..arena.frames_of(class) as u32 {
                let place = Place { slab, frame };
                let Some(head) = arena.head(place, pinned) else { continue };
                let Some(key) = head.key() else { continue };
                taken.keys.push((key, place));
                if head.doom() {
                    taken.frames.push(Retired::told(place));
                }
            }
            self.withdraw_leaving(arena, slab, &mut taken);
        }
        taken
    }

    /// Withdraws a leaving slab if all its frames are free.
    fn withdraw_leaving<M: Plain>(&mut self, arena: &Arena<M>, slab: u32, taken: &mut Taken) {
        let frames = arena.class_of(slab).map(|class| arena.frames_of(class));
        if frames == Some(self.free_in_slab[slab as usize]) {
            let of_slab = |frame: &mut FreeFrame| frame.place().slab == slab;
            arena.withdraw(slab, self.leaving.extract_if(.., of_slab).collect());
            self.free_in_slab[slab as usize] = 0;
            taken.slabs.push(slab);
        }
    }

    /// Puts a free frame, counted already, where it belongs.
    fn put_back<M: Plain>(&mut self, arena: &Arena<M>, frame: FreeFrame) {
        let slab = frame.place().slab;
        if slab >= self.allowed {
            return self.leaving.push(frame);
        }
        let class = arena.class_of(slab).expect("a slab with a frame keeps its class");
        self.free[class].push(frame);
    }

    /// A free frame of `class`, if there is one now.
    pub(crate) fn take<M: Plain>(&mut self, arena: &Arena<M>, class: usize) -> Option<FreeFrame> {
        if self.free[class].is_empty()
            && let Some(slab) = self.pop_uncut()
        {
            // In reverse, so that frames are used in the order of their addresses.
            let mut frames: Vec<_> = arena.carve(slab, class).collect();
            self.free_in_slab[slab as usize] = frames.len();
            frames.reverse();
            self.free[class].append(&mut frames);
        }
        let frame = self.free[class].pop()?;
        self.free_in_slab[frame.place().slab as usize] -= 1;
        Some(frame)
    }

    /// Returns whether a frame of `class` that is taken now has to be made free by the hand.
    pub(crate) fn is_full(&self, class: usize) -> bool {
        !self.has_uncut() && self.free[class].len() <= 2 * self.shape.frames_ahead_max
    }

    /// Returns whether the hand should make frames of `class` free. While many wait for their grace
    /// period it stands still: a reader that was interrupted while pinned must not cost the cache
    /// its content.
    pub(crate) fn runs_short(&self, class: usize) -> bool {
        let Shape { frames_ahead_min, limbo_max, .. } = self.shape;
        !self.has_uncut() && self.free[class].len() < frames_ahead_min && self.limbo < limbo_max
    }

    /// Returns the number of frames of `class` the hand frees at once: so many that taking the lock
    /// and waiting for readers is shared among them, but never more than a small part of the arena.
    fn ahead<M: Plain>(&self, arena: &Arena<M>, class: usize) -> usize {
        let Shape { frames_ahead_min, frames_ahead_max, frames_ahead_parts, .. } = self.shape;
        let part = self.allowed() * arena.slab_bytes() / frames_ahead_parts;
        (part / arena.bytes_of(class)).clamp(frames_ahead_min, frames_ahead_max)
    }

    /// Turns the hand until it has freed some frames for `class`, or has gone far enough.
    pub(crate) fn make_room<M: Plain>(
        &mut self,
        arena: &Arena<M>,
        class: usize,
        pinned: &Guard,
    ) -> Taken {
        let mut taken = Taken::default();
        let ahead = self.ahead(arena, class);
        let mut found = 0;
        let mut elsewhere = 0;
        for _ in 0..self.shape.hand_steps_max {
            if found >= ahead {
                break;
            }
            let Some(here) = arena.class_of(self.hand.slab) else {
                self.next_slab();
                continue;
            };
            if here != class && self.whole_slab_free(arena, here) {
                Mark::SlabRecut.hit();
                self.withdraw(arena, here, &mut taken);
                found += ahead;
            } else if here != class
                && elsewhere >= self.shape.elsewhere_max
                && self.is_cold(arena, here, pinned)
            {
                Mark::SlabCleared.hit();
                self.clear(arena, here, pinned, &mut taken);
                // The hand stays, so that it finds the slab free the next time.
                break;
            } else if self.pass(arena, pinned, &mut taken) {
                found += usize::from(here == class);
                elsewhere += usize::from(here != class);
            }
            self.advance(arena, here);
            if taken.frames.len() >= self.shape.limbo_max {
                break;
            }
        }
        self.limbo += taken.frames.len();
        taken
    }

    /// Returns whether the hand is at the begin of a slab, of `class`, of which so little was used
    /// lately that it can be cut anew.
    fn is_cold<M: Plain>(&self, arena: &Arena<M>, class: usize, pinned: &Guard) -> bool {
        let warm = |frame: &u32| {
            let head = arena.head(Place { frame: *frame, ..self.hand }, pinned);
            head.is_some_and(|head| head.key().is_some() && head.lives() > 0)
        };
        let frames = arena.frames_of(class);
        self.hand.frame == 0
            && (0..frames as u32).filter(warm).count() * self.shape.cold_part <= frames
    }

    /// Evicts what is in the slab under the hand, of `class`, and not held.
    fn clear<M: Plain>(&self, arena: &Arena<M>, class: usize, pinned: &Guard, taken: &mut Taken) {
        for frame in 0..arena.frames_of(class) as u32 {
            self.evict(arena, Place { frame, ..self.hand }, pinned, taken);
        }
    }

    fn whole_slab_free<M: Plain>(&self, arena: &Arena<M>, class: usize) -> bool {
        self.free_in_slab[self.hand.slab as usize] == arena.frames_of(class)
    }

    /// Gives up the slab under the hand, all of whose frames are free.
    fn withdraw<M: Plain>(&mut self, arena: &Arena<M>, class: usize, taken: &mut Taken) {
        let slab = self.hand.slab;
        let of_slab = |frame: &mut FreeFrame| frame.place().slab == slab;
        let frames = self.free[class].extract_if(.., of_slab).collect();
        arena.withdraw(slab, frames);
        self.free_in_slab[slab as usize] = 0;
        taken.slabs.push(slab);
    }

    /// Passes the frame under the hand; whether it was evicted.
    fn pass<M: Plain>(&self, arena: &Arena<M>, pinned: &Guard, taken: &mut Taken) -> bool {
        let Some(head) = arena.head(self.hand, pinned) else { return false };
        head.key().is_some() && !head.take_life() && self.evict(arena, self.hand, pinned, taken)
    }

    /// Evicts what is in the frame at `place`, unless it is held; whether it was.
    fn evict<M: Plain>(
        &self,
        arena: &Arena<M>,
        place: Place,
        pinned: &Guard,
        taken: &mut Taken,
    ) -> bool {
        let Some(head) = arena.head(place, pinned) else { return false };
        let Some(key) = head.key() else { return false };
        let evicted = head.doom_if_unpinned();
        if evicted {
            taken.frames.push(Retired::told(place));
            taken.keys.push((key, place));
        }
        evicted
    }

    fn advance<M: Plain>(&mut self, arena: &Arena<M>, class: usize) {
        self.hand.frame += 1;
        if self.hand.frame as usize >= arena.frames_of(class) {
            self.next_slab();
        }
    }

    fn next_slab(&mut self) {
        self.hand = Place { slab: (self.hand.slab + 1) % self.allowed.max(1), frame: 0 };
    }

    /// Takes back what was taken away, after its grace period. Gives slabs that have come to be
    /// free and must go.
    pub(crate) fn take_back<M: Plain>(&mut self, arena: &Arena<M>, frames: Vec<Retired>) -> Taken {
        let mut taken = Taken::default();
        self.limbo = self.limbo.saturating_sub(frames.len());
        for retired in frames {
            let frame = arena.reclaim(retired);
            let slab = frame.place().slab;
            self.free_in_slab[slab as usize] += 1;
            self.put_back(arena, frame);
            if slab >= self.allowed {
                self.withdraw_leaving(arena, slab, &mut taken);
            }
        }
        taken
    }

    /// Takes back slabs without a class, after their grace period. Gives those that may not have
    /// memory: the caller takes it from them, and says so (`without_memory`).
    #[must_use]
    pub(crate) fn take_back_slabs(&mut self, slabs: Vec<u32>) -> Vec<u32> {
        let (leaving, uncut) = slabs.into_iter().partition(|slab| *slab >= self.allowed);
        let mut uncut: Vec<u32> = uncut;
        self.uncut.append(&mut uncut);
        leaving
    }

    /// These slabs have no memory now.
    pub(crate) fn without_memory(&mut self, slabs: Vec<u32>) {
        self.absent.extend(slabs.into_iter().map(Reverse));
    }

    /// Frames that hold blocks.
    pub(crate) fn frames_in_use<M: Plain>(&self, arena: &Arena<M>) -> (usize, usize) {
        let mut frames = 0;
        let mut bytes = 0;
        for slab in 0..arena.slabs() as u32 {
            let Some(class) = arena.class_of(slab) else { continue };
            let used = arena.frames_of(class) - self.free_in_slab[slab as usize];
            frames += used;
            bytes += used * arena.slab_bytes() / arena.frames_of(class);
        }
        (frames, bytes)
    }
}
