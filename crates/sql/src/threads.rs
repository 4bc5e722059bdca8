//! Threads on which statements run.
//!
//! Invariants:
//! 1. Work that keeps a thread busy for long says so by [`aside`], so that other tasks go on.
//! 2. Trees of statements are walked by recursion. Their depth is bounded for stacks of [`STACK_BYTES`].
//! 3. Sessions run on [`SessionThreads`], not on the threads of the server. An expression that waits, as for the
//!    next number of a sequence, keeps its thread. A session has one at most, so there are threads for the tasks
//!    that it waits for; and the server's are free for the answers of other nodes.

use relational::{Error, Result};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

/// Threads for blocking calls of sessions, beside one for each session.
const BLOCKING_THREADS: usize = 512;

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

/// Has work done by these threads, and waits for its result on this one.
pub(crate) fn result_of<T: Send + 'static>(
    threads: &Handle,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let done = threads.spawn(work);
    let done = aside(|| threads.block_on(done));
    done.unwrap_or_else(|error| {
        Err(Error::internal(format!("the work of a session ended: {error}")))
    })
}

/// The threads of all sessions of a server.
pub(crate) struct SessionThreads(Option<Runtime>);

impl SessionThreads {
    /// Starts threads for so many sessions at one time.
    pub(crate) fn start(sessions_max: usize) -> Result<Self> {
        let started = Builder::new_multi_thread()
            .max_blocking_threads(sessions_max.saturating_add(BLOCKING_THREADS))
            .thread_name("sql-session")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build();
        let started = started.map_err(|error| {
            Error::internal(format!("the threads of sessions cannot be started: {error}"))
        });
        started.map(|runtime| Self(Some(runtime)))
    }

    /// Returns the threads, for tasks.
    pub(crate) fn handle(&self) -> &Handle {
        self.0.as_ref().map(Runtime::handle).expect("they end when this is dropped")
    }
}

impl Drop for SessionThreads {
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}
