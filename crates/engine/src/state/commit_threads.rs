//! The threads that lead commits for tasks: started once, joined when the engine ends.

use crate::locks::CommitThreadList;
use base::sync::Mutex;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The threads of one engine, or none yet.
#[derive(Default)]
pub(crate) struct CommitThreads {
    /// Raised under `threads` (`Release`, read with `Acquire`).
    started: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>, CommitThreadList>,
}

impl CommitThreads {
    /// Returns whether there is a thread.
    pub(crate) fn are_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Starts up to `count` threads, each with its number; an error if not even one starts.
    pub(crate) fn start(
        &self,
        count: usize,
        start: impl Fn(usize) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<()> {
        let mut threads = self.threads.lock();
        if self.are_started() {
            return Ok(());
        }
        threads.push(start(0)?);
        threads.extend((1..count).map_while(|number| start(number).ok()));
        self.started.store(true, Ordering::Release);
        Ok(())
    }

    /// Joins the threads, which were told to end.
    pub(crate) fn join(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        let this = std::thread::current().id();
        // The waker of a task may be what ends the engine: its thread ends when that returns.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
            let _ = thread.join();
        }
    }
}
