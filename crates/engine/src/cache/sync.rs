//! The atomics of the frame protocol: the machine's, or `loom`'s where a test explores every
//! interleaving of it (`RUSTFLAGS="--cfg loom" cargo test -p engine --release --lib cache::`).

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
