//! Threads on which statements run.
//!
//! Invariants:
//! 1. Work that keeps a thread busy for long says so by [`aside`], so that other tasks go on.
//! 2. Trees of statements are walked by recursion. Their depth is bounded for stacks of [`STACK_BYTES`].

use tokio::runtime::{Handle, RuntimeFlavor};

/// Bytes of stack that the threads of a runtime with a door must have, blocking threads included.
pub const STACK_BYTES: usize = 32 << 20;

/// Bytes of a text from which on its plan may take long.
const LONG_BYTES: usize = 4 << 10;

/// Does work that keeps the thread busy, while other tasks move to other threads.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}

/// Does work on a text of `len` bytes, aside if it may take long.
pub(crate) fn aside_if_long<T>(len: usize, work: impl FnOnce() -> T) -> T {
    if len < LONG_BYTES { work() } else { aside(work) }
}
