//! The head of a frame: whose bytes the frame holds, who holds it, and how long it may stay.
//!
//! A frame is in one of these states, and its owner (the arena, under its lock) moves it on:
//!
//! ```text
//! free --publish--> live --doom--> doomed --(last holder gone, grace period over)--> free
//! ```
//!
//! Invariants:
//! 1. `file` names a file exactly while the frame is live. It is the last thing that `publish`
//!    writes (`Release`), so whoever reads it (`Acquire`) sees the rest of the head and the block.
//! 2. A doomed frame gets no new holder: taking hold is a compare-and-swap that fails on the
//!    doomed bit.
//! 3. Exactly one call learns that a doomed frame has no holder left (`doom` with `true`, or the
//!    `let_go` of the last holder): it retires the frame. Frames are filled again only after an
//!    epoch's grace period, so a reader that was pinned when it found the frame live may read it
//!    until it unpins, held or not.

use super::atomics::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::cache::CacheKey;
use crate::files::FileNumber;

/// No file has this number.
const NO_FILE: u64 = u64::MAX;
/// In `state`: the frame is on its way out. The bits below count holders.
const DOOMED: u32 = 1 << 31;
/// In `lives`: the block was warmed (warmth.rs), and nobody has used it since.
const WARMED: u8 = 1 << 7;

/// See the file header.
#[repr(C)]
pub(crate) struct FrameHead {
    file: AtomicU64,
    offset: AtomicU64,
    state: AtomicU32,
    /// Bytes of the block.
    len: AtomicU32,
    /// Hints behind it.
    hints: AtomicU32,
    /// What hints say of it beside its place.
    prefetch_hint: AtomicU32,
    /// Turns of the hand that the frame survives without being used, now and after a use.
    lives: AtomicU8,
    lives_max: AtomicU8,
    /// Else padding. Where a hold ends, the frame may be carved anew before `let_go(&self)`
    /// returns, which the aliasing rules allow of bytes in atomics only.
    _rest: [AtomicU8; 6],
}

/// What a frame is filled with: bytes of the block, hints behind it, its prefetch hint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contents {
    pub(crate) len: u32,
    pub(crate) hints: u32,
    pub(crate) prefetch_hint: u32,
}

impl FrameHead {
    /// The head of a free frame.
    pub(crate) fn free() -> Self {
        Self {
            file: AtomicU64::new(NO_FILE),
            offset: AtomicU64::new(0),
            state: AtomicU32::new(0),
            len: AtomicU32::new(0),
            hints: AtomicU32::new(0),
            prefetch_hint: AtomicU32::new(0),
            lives: AtomicU8::new(0),
            lives_max: AtomicU8::new(0),
            _rest: std::array::from_fn(|_| AtomicU8::new(0)),
        }
    }

    /// Makes a free frame, whose block is written, live with one holder.
    pub(crate) fn publish(&self, key: CacheKey, holds: Contents, (lives, lives_max): (u8, u8)) {
        self.offset.store(key.offset, Ordering::Relaxed);
        self.len.store(holds.len, Ordering::Relaxed);
        self.hints.store(holds.hints, Ordering::Relaxed);
        self.prefetch_hint.store(holds.prefetch_hint, Ordering::Relaxed);
        self.lives.store(lives, Ordering::Relaxed);
        self.lives_max.store(lives_max, Ordering::Relaxed);
        self.state.store(1, Ordering::Relaxed);
        self.file.store(key.file.0, Ordering::Release);
    }

    /// Returns whether the frame is live and holds the block of `key`.
    #[inline]
    pub(crate) fn is(&self, key: CacheKey) -> bool {
        self.file.load(Ordering::Acquire) == key.file.0
            && self.offset.load(Ordering::Relaxed) == key.offset
    }

    /// The block of a live frame.
    pub(crate) fn key(&self) -> Option<CacheKey> {
        let file = self.file.load(Ordering::Acquire);
        let offset = self.offset.load(Ordering::Relaxed);
        (file != NO_FILE).then_some(CacheKey { file: FileNumber(file), offset })
    }

    /// Bytes of the block and number of hints behind it. For a frame found live.
    #[inline]
    pub(crate) fn lengths(&self) -> (usize, usize) {
        (self.len.load(Ordering::Relaxed) as usize, self.hints.load(Ordering::Relaxed) as usize)
    }

    /// The prefetch hint of the block. For a frame found live.
    #[inline]
    pub(crate) fn prefetch_hint(&self) -> u32 {
        self.prefetch_hint.load(Ordering::Relaxed)
    }

    /// Takes hold of a frame found live; `false` if it is doomed by now.
    pub(crate) fn pin(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & DOOMED == 0 {
            let pinned = self.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match pinned {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes hold once more for someone who holds the frame already.
    pub(crate) fn pin_again(&self) {
        self.state.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a hold; `true` if the caller must retire the frame.
    #[must_use]
    pub(crate) fn let_go(&self) -> bool {
        self.state.fetch_sub(1, Ordering::AcqRel) == DOOMED | 1
    }

    /// Dooms a live frame unless it is held; `true` if it did: the caller must retire it.
    #[must_use]
    pub(crate) fn doom_if_unpinned(&self) -> bool {
        let doomed =
            self.state.compare_exchange(0, DOOMED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if doomed {
            self.file.store(NO_FILE, Ordering::Release);
        }
        doomed
    }

    /// Dooms a live frame, held or not; `true` if nobody holds it: the caller must retire it.
    #[must_use]
    pub(crate) fn doom(&self) -> bool {
        let before = self.state.fetch_or(DOOMED, Ordering::AcqRel);
        self.file.store(NO_FILE, Ordering::Release);
        before == 0
    }

    /// Notes a use; `true` if it is the first of a block that was warmed.
    #[inline]
    #[must_use]
    pub(crate) fn touch(&self) -> bool {
        let max = self.lives_max.load(Ordering::Relaxed);
        let lives = self.lives.load(Ordering::Relaxed);
        // A store only when it changes something, so that hot frames stay shared among cores.
        if lives == max {
            return false;
        }
        if lives & WARMED != 0 {
            return self.lives.swap(max, Ordering::Relaxed) & WARMED != 0;
        }
        self.lives.store(max, Ordering::Relaxed);
        false
    }

    /// Takes a life as the hand passes, unless the frame is used just now; `false` if there was
    /// none left.
    pub(crate) fn take_life(&self) -> bool {
        let lives = self.lives.load(Ordering::Relaxed);
        if lives & !WARMED == 0 {
            return false;
        }
        let one_less = lives - 1;
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        // A use since then stands.
        let _ = self.lives.compare_exchange(lives, one_less, order, failed);
        true
    }

    /// Turns of the hand that the frame survives now without being used.
    pub(crate) fn lives(&self) -> u8 {
        self.lives.load(Ordering::Relaxed) & !WARMED
    }

    /// Gives the frame `lives` lives, or as many as it may have, for being warmed; `false` if it was
    /// just used, or was warmed already.
    #[must_use]
    pub(crate) fn warm(&self, lives: u8) -> bool {
        let max = self.lives_max.load(Ordering::Relaxed);
        let lives = lives.min(max) | WARMED;
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        let has = self.lives.load(Ordering::Relaxed);
        has & WARMED == 0
            && has != max
            && self.lives.compare_exchange(has, lives, order, failed).is_ok()
    }
}

/// Every interleaving of readers, holders and evictors of one frame. Run by
/// `RUSTFLAGS="--cfg loom" cargo test -p engine --release --lib cache::frame`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const KEY: CacheKey = CacheKey { file: FileNumber(1), offset: 2 };
    const CONTENTS: Contents = Contents { len: 3, hints: 4, prefetch_hint: 5 };

    fn live() -> Arc<FrameHead> {
        let head = Arc::new(FrameHead::free());
        head.publish(KEY, CONTENTS, (0, 0));
        head
    }

    /// Of a hold, an eviction and a removal at once, exactly one retires the frame, and nobody
    /// takes hold of it after that.
    #[test]
    fn a_frame_is_retired_once_and_by_the_last_who_leaves() {
        loom::model(|| {
            let head = live();
            let retired = Arc::new(AtomicU32::new(0));
            let act = |act: fn(&FrameHead) -> bool| {
                let (head, retired) = (Arc::clone(&head), Arc::clone(&retired));
                thread::spawn(move || {
                    if act(&head) {
                        retired.fetch_add(1, Ordering::Relaxed);
                    }
                })
            };
            let threads = [
                act(|head| head.is(KEY) && head.pin() && head.let_go()),
                act(|head| head.doom_if_unpinned()),
                act(|head| head.let_go()),
            ];
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let already = retired.load(Ordering::Relaxed);
            let now = head.doom();
            assert_eq!(already + u32::from(now), 1);
            assert!(!head.pin() && !head.is(KEY));
        });
    }

    /// Who sees the key sees the lengths that were published with it.
    #[test]
    fn a_published_head_is_seen_whole() {
        loom::model(|| {
            let head = Arc::new(FrameHead::free());
            let reader = {
                let head = Arc::clone(&head);
                thread::spawn(move || {
                    if head.is(KEY) {
                        assert_eq!(head.lengths(), (3, 4));
                        assert!(head.pin());
                    }
                })
            };
            head.publish(KEY, CONTENTS, (0, 0));
            reader.join().unwrap();
        });
    }
}
