//! The atomics of the frame protocol: the machine's, or `loom`'s where a test explores every
//! interleaving of it (`RUSTFLAGS="--cfg loom" cargo test -p engine --release --lib cache::`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
