//! The environment: everything the engine asks of the machine, behind traits, so that tests can
//! simulate it and break it.
//!
//! Nothing outside this folder calls `std::fs`, reads the clock, draws randomness or starts a
//! thread for background work.

use std::sync::Arc;

mod aligned;
pub mod clock;
mod direct;
mod direct_write;
pub mod fs;
mod one_by_one;
mod read_buffer;
pub mod read_queue;
pub mod read_threads;
pub mod real;
pub mod rng;
pub mod sim;
pub mod sleepers;
pub mod task;
mod uring;

pub use clock::{Clock, SystemClock};
pub use fs::FileSystem;
pub use one_by_one::OneByOne;
pub use real::RealFileSystem;
pub use rng::Rng;
pub use sim::SimEnv;
pub use task::{Tasks, ThreadPool};

/// One machine, real or simulated. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// Files and directories.
    pub fs: Arc<dyn FileSystem>,
    /// Wall-clock and monotonic time.
    pub clock: Arc<dyn Clock>,
    /// Runs background work (flush, compaction).
    pub tasks: Arc<dyn Tasks>,
}

impl Env {
    /// The real machine with `threads` background threads (1..=64).
    pub fn real(threads: usize) -> Self {
        Self {
            fs: Arc::new(RealFileSystem),
            clock: Arc::new(SystemClock),
            tasks: Arc::new(ThreadPool::new(threads)),
        }
    }
}
