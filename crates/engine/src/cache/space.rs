//! Which frames of the arena are free, and the hand that makes more.
//!
//! The hand goes over all live frames, slab after slab, as the hand of a clock: a frame that was
//! used since it last came by loses a life, one without lives is evicted unless it is held. Frames
//! evicted from slabs of another class than the one wanted go to their own class; a slab that has
//! come to be free as a whole is cut anew for the class wanted. So memory follows demand.
//!
//! Invariants:
//! 1. `free[class]` has exactly the free frames of the slabs of that class; `free_in_slab` counts
//!    them by slab.
//! 2. What leaves a live state here is handed to the caller, who gives it back (`take_back`) after
//!    a grace period, outside of the lock.

use super::frames::{Arena, FreeFrame, Retired};
use super::hint::Place;
use super::{CacheKey, Plain};
use crossbeam_epoch::Guard;

/// Free frames of a class that the hand works ahead for.
const AHEAD: usize = 4;
/// Frames that wait for their grace period beyond which the hand stands still: a reader that was
/// interrupted while pinned must not cost the cache its content.
const LIMBO_MAX: usize = 64;
/// Frames the hand passes at most to find one.
const STEPS_MAX: usize = 1 << 12;

/// See the file header.
pub(super) struct Space {
    free: Vec<Vec<FreeFrame>>,
    free_in_slab: Vec<usize>,
    /// Slabs without a class that nobody reads.
    uncut: Vec<u32>,
    hand: Place,
    /// Frames taken away and not yet given back.
    limbo: usize,
}

/// What the hand took away: unreachable for new readers, not yet reusable.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) frames: Vec<Retired>,
    pub(super) slabs: Vec<u32>,
    /// The blocks that were in the frames, to be taken off the table.
    pub(super) keys: Vec<(CacheKey, Place)>,
}

impl Taken {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.slabs.is_empty()
    }
}

impl Space {
    pub(super) fn new(slabs: usize, classes: usize) -> Self {
        Self {
            free: (0..classes).map(|_| Vec::new()).collect(),
            free_in_slab: vec![0; slabs],
            uncut: (0..slabs as u32).rev().collect(),
            hand: Place { slab: 0, frame: 0 },
            limbo: 0,
        }
    }

    /// A free frame of `class`, if there is one now.
    pub(super) fn take<M: Plain>(&mut self, arena: &Arena<M>, class: usize) -> Option<FreeFrame> {
        if self.free[class].is_empty()
            && let Some(slab) = self.uncut.pop()
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

    /// Whether the hand should make frames of `class` free.
    pub(super) fn runs_short(&self, class: usize) -> bool {
        self.uncut.is_empty() && self.free[class].len() < AHEAD && self.limbo < LIMBO_MAX
    }

    /// Turns the hand until it has freed some frames for `class`, or has gone far enough.
    pub(super) fn make_room<M: Plain>(
        &mut self,
        arena: &Arena<M>,
        class: usize,
        pinned: &Guard,
    ) -> Taken {
        let mut taken = Taken::default();
        let mut found = 0;
        for _ in 0..STEPS_MAX {
            if found >= AHEAD {
                break;
            }
            let Some(here) = arena.class_of(self.hand.slab) else {
                self.next_slab(arena);
                continue;
            };
            if here != class && self.whole_slab_free(arena, here) {
                self.withdraw(arena, here, &mut taken);
                found += AHEAD;
            } else {
                found += usize::from(self.pass(arena, pinned, &mut taken) && here == class);
            }
            self.advance(arena, here);
            if taken.frames.len() >= LIMBO_MAX {
                break;
            }
        }
        self.limbo += taken.frames.len();
        taken
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
        let Some(key) = head.key() else { return false };
        let evicted = !head.take_life() && head.doom_if_unheld();
        if evicted {
            taken.frames.push(Retired::told(self.hand));
            taken.keys.push((key, self.hand));
        }
        evicted
    }

    fn advance<M: Plain>(&mut self, arena: &Arena<M>, class: usize) {
        self.hand.frame += 1;
        if self.hand.frame as usize >= arena.frames_of(class) {
            self.next_slab(arena);
        }
    }

    fn next_slab<M: Plain>(&mut self, arena: &Arena<M>) {
        let slabs = arena.slabs().max(1) as u32;
        self.hand = Place { slab: (self.hand.slab + 1) % slabs, frame: 0 };
    }

    /// Takes back what was taken away, after its grace period.
    pub(super) fn take_back<M: Plain>(&mut self, arena: &Arena<M>, frames: Vec<Retired>) {
        self.limbo = self.limbo.saturating_sub(frames.len());
        for retired in frames {
            let frame = arena.reclaim(retired);
            let slab = frame.place().slab;
            let class = arena.class_of(slab).expect("a slab with a live frame keeps its class");
            self.free_in_slab[slab as usize] += 1;
            self.free[class].push(frame);
        }
    }

    /// Takes back slabs without a class, after their grace period.
    pub(super) fn take_back_slabs(&mut self, slabs: &[u32]) {
        self.uncut.extend_from_slice(slabs);
    }

    /// Frames that hold blocks.
    pub(super) fn frames_in_use<M: Plain>(&self, arena: &Arena<M>) -> (usize, usize) {
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
