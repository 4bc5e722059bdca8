//! Whether the engine is open and takes writes, and the one place where a panic of its work ends.
//!
//! In: errors and panics of background work, of the log and of the manifest. Out: whether writes are
//! taken, and what becomes of the work (`failure_policy`). Uses no other room.
//!
//! Invariants:
//! 1. Every job that the engine gives to the environment runs within [`Health::guard`], and so does
//!    work that a caller waits for: a panic ends there, never a thread.
//! 2. After a panic nobody knows what of the work was done. Files and views change under the
//!    manifest only (`background`, invariant 2), so readers see what was there; nothing is
//!    written any more, and the next open begins with what is on disk.
//! 3. Stopping is for good, and whoever waits for background work looks for it.

pub(crate) mod failure_policy;

use crate::error::{Cause, Error, Result};
use failure_policy::{Kind, Task, Writers, rule};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the file header.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Raised by whoever closes the engine (`Release`, read with `Acquire`).
    closing: AtomicBool,
    /// Why writes stopped.
    stopped: OnceLock<Cause>,
    /// Relaxed: stands by itself.
    panics: AtomicU64,
}

impl Health {
    /// Notes that the engine closes; whether it did already.
    pub(crate) fn close(&self) -> bool {
        self.closing.swap(true, Ordering::AcqRel)
    }

    /// Returns whether the engine closes, or is closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// `WritesStopped` with the reason, once writes have stopped.
    pub(crate) fn check(&self) -> Result<()> {
        match self.stopped.get() {
            None => Ok(()),
            Some(why) => Err(Error::WritesStopped(why.clone())),
        }
    }

    /// Returns whether writes have stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Returns whether no work is to begin: writes have stopped, or the engine closes.
    pub(crate) fn is_over(&self) -> bool {
        self.is_stopped() || self.is_closing()
    }

    /// Stops writes until the engine is opened again. The first reason counts.
    pub(crate) fn stop(&self, why: impl FnOnce() -> Cause) {
        self.stopped.get_or_init(|| {
            let why = why();
            tracing::error!(%why, "writes stopped until the engine is reopened");
            why
        });
    }

    /// Panics of its work so far.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Does `work`, which is part of `task` and is named by `what`. If it panics, writes stop, and the
    /// outcome is `WritesStopped` with the panic in its text.
    pub(crate) fn guard<T>(
        &self,
        task: Task,
        what: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        // What it leaves half done is not used any more (invariant 2).
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            self.panics.fetch_add(1, Ordering::Relaxed);
            let why = format!("{what} panicked: {}", text_of(&*panic));
            let why = Cause { why, source: None };
            if rule(task, Kind::Panic).writers == Writers::Stopped {
                self.stop(|| why.clone());
            }
            Err(Error::WritesStopped(why))
        })
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_here_and_stops_writes_with_its_text() {
        let health = Health::default();
        assert_eq!(health.guard(Task::Flush, "a sum", || Ok(1 + 1)).unwrap(), 2);
        let closed = health.guard(Task::Flush, "an end", || Err::<(), _>(Error::Closed));
        assert!(matches!(closed, Err(Error::Closed)) && health.check().is_ok());
        let first = health.guard(Task::Flush, "a flush", || -> Result<()> { panic!("row {}", 7) });
        for refused in [first, health.check()] {
            let Err(Error::WritesStopped(why)) = refused else { panic!("{refused:?}") };
            assert_eq!(why.why, "a flush panicked: row 7");
        }
        let second = health
            .guard(Task::Compaction, "a merge", || -> Result<()> { std::panic::panic_any(7) });
        let Err(Error::WritesStopped(why)) = second else { panic!("{second:?}") };
        assert_eq!(why.why, "a merge panicked: without a text");
        let Err(Error::WritesStopped(why)) = health.check() else { panic!("it is stopped") };
        assert_eq!((why.why.as_str(), health.panics()), ("a flush panicked: row 7", 2));
    }
}
