//! Flushes: whose turn it is, and how frozen memtables become a run of level 0.
//!
//! 1. Who flushes a tree has its turn (`Work::flushing`), and gives it back however it ends. The
//!    engine's own flushes come as jobs; who asks for a flush, or ingests, takes the turn itself and
//!    flushes in its own thread: so it is told how its own try went.
//! 2. What was written and is not installed is removed, unless the manifest may name it.

use super::LOOK_AGAIN;
use super::io_rate::Writer;
use crate::compaction::execute::{self, Written};
use crate::engine::Shared;
use crate::error::{Error, Result};
use crate::health::failure_policy::Task;
use crate::manifest::{Edit, is_in_doubt};
use crate::marks::Mark;
use crate::tree::Tree;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The turn of a job.
struct JobTurn(Arc<Tree>);

impl Drop for JobTurn {
    fn drop(&mut self) {
        self.0.work.lock().flushing = false;
    }
}

/// The turn of a caller. What became due meanwhile is started when it is given back.
pub(crate) struct FlushTurn<'a> {
    shared: &'a Arc<Shared>,
    tree: &'a Arc<Tree>,
}

impl<'a> FlushTurn<'a> {
    /// Waits for it.
    pub(crate) fn take(shared: &'a Arc<Shared>, tree: &'a Arc<Tree>) -> Result<Self> {
        loop {
            if shared.is_closing() {
                return Err(Error::Closed);
            }
            shared.health.check()?;
            {
                let mut work = tree.work.lock();
                if work.dropped {
                    return Err(Error::UnknownTree(tree.id));
                }
                if !work.flushing {
                    work.flushing = true;
                    return Ok(Self { shared, tree });
                }
            }
            shared.pause(LOOK_AGAIN);
        }
    }
}

impl Drop for FlushTurn<'_> {
    fn drop(&mut self) {
        self.tree.work.lock().flushing = false;
        self.shared.progressed.notify_all();
        self.shared.schedule(self.tree);
    }
}

impl Shared {
    /// Starts flushing `tree` unless that is under way, there is nothing to flush, or it has to wait
    /// (`background`, invariant 3; `health::failure_policy`, invariant 2).
    pub(crate) fn schedule_flush(self: &Arc<Self>, tree: &Arc<Tree>) {
        if self.health.is_over() {
            return;
        }
        if self.holds_flushes(tree) {
            Mark::FlushHeld.hit();
            return;
        }
        let now = self.env.clock.monotonic();
        let due = {
            let mut work = tree.work.lock();
            let due = !work.dropped && !work.flushing && !tree.view().frozen.is_empty();
            let due = due && !work.flush.waits(now);
            work.flushing |= due;
            due
        };
        if due {
            let turn = JobTurn(Arc::clone(tree));
            self.submit(tree, Task::Flush, move |shared, tree| {
                let _turn = turn;
                while !tree.view().frozen.is_empty() && !shared.holds_flushes(tree) {
                    shared.flush_frozen(tree, || shared.commits.sync())?;
                }
                Ok(())
            });
        }
    }

    /// Freezes and flushes what `tree` holds in memory.
    pub(crate) fn flush_and_wait(self: &Arc<Self>, tree: &Arc<Tree>) -> Result<()> {
        let mut last = None;
        self.commits.between_groups(|| {
            tree.freeze();
            last = tree.view().frozen.first().map(|memtable| memtable.position());
        });
        let Some(last) = last else { return Ok(()) };
        let _turn = FlushTurn::take(self, tree)?;
        let what = format!("a manual flush of tree {}", tree.id.0);
        let flushed = self.health.guard(Task::ByHand, &what, || {
            while tree.view().version.flushed < last {
                self.flush_frozen(tree, || self.commits.sync())?;
            }
            Ok(())
        });
        match flushed {
            Ok(()) => {
                tree.work.lock().flush.succeeded();
                Ok(())
            }
            Err(error) => Err(self.failed(Task::ByHand, error)),
        }
    }

    /// Writes what is frozen of `tree` into one run of level 0, at the rate of background work. Only
    /// for whoever has the turn. `sync_log` makes durable what was committed up to now.
    pub(crate) fn flush_frozen(
        &self,
        tree: &Tree,
        sync_log: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let wrote = |bytes| self.keep_to_rate(tree, Writer::Flush, bytes);
        let flushed = self.write_frozen(tree, sync_log, &wrote);
        self.clear_away(flushed.is_ok());
        flushed
    }

    /// Removes files that nothing needs any more and brings the cache to its size; where something
    /// was `flushed`, retires segments of the log. Only for a caller who holds no lock.
    pub(crate) fn clear_away(&self, flushed: bool) {
        self.obsolete.collect();
        self.cache.balance();
        if flushed {
            self.retire_log();
        }
    }

    /// The same without waiting for the rate, and without clearing away what it leaves; `wrote` is
    /// told now and then how many bytes more were written.
    pub(crate) fn write_frozen(
        &self,
        tree: &Tree,
        sync_log: impl Fn() -> Result<()>,
        wrote: &dyn Fn(u64),
    ) -> Result<()> {
        let memtables = tree.view().frozen.clone();
        let Some(newest) = memtables.first() else { return Ok(()) };
        let run = self.manifest.state().tree(tree.id).map(|version| version.next_run());
        let run = run.ok_or(Error::UnknownTree(tree.id))?;
        let mut written = self.writing(tree, wrote, |writing| {
            execute::flush(writing, &memtables, run, self.snapshots.live())
        })?;
        // What was committed before the newest memtable's last batch must be as durable as the
        // SSTable: a power loss may take the newest batches, not some from their midst.
        if let Err(error) = sync_log() {
            self.give_up(&written);
            return Err(self.failed(Task::Log, error));
        }
        let position = newest.position();
        written.edits.push(Edit::Flushed { tree: tree.id, position });
        self.install(tree, &written)?;
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.counters.flushed_bytes.fetch_add(written.bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Makes `written` part of `tree`: first in the manifest, then in the view. If the manifest
    /// does not take it, the next `clear_away` removes what was written.
    pub(crate) fn install(&self, tree: &Tree, written: &Written) -> Result<()> {
        let mut edits = written.edits.clone();
        edits.push(Edit::LastSequence(self.snapshots.published()));
        if let Err(error) = self.install_edits(tree, written, &edits) {
            // If the manifest may name the files, the next open decides.
            if !is_in_doubt(&error) {
                self.give_up(written);
            }
            return Err(self.manifest_failed(error));
        }
        Ok(())
    }

    fn install_edits(&self, tree: &Tree, written: &Written, edits: &[Edit]) -> Result<()> {
        let _installing = tree.installing.lock();
        let state = self.manifest.install(edits)?;
        let version = state.tree(tree.id).cloned().ok_or(Error::UnknownTree(tree.id))?;
        let before = tree.view();
        self.counters.runs_most.fetch_max(version.runs().count() as u64, Ordering::Relaxed);
        tree.install(version, &written.readers, written.deletes_known);
        let gone = before.ssts().filter(|sst| written.obsolete.contains(&sst.number()));
        self.obsolete.add(gone.cloned());
        Ok(())
    }

    /// Lets files be removed that were not installed, once their writer has let go of them.
    fn give_up(&self, written: &Written) {
        self.obsolete.add(written.readers.iter().cloned());
    }
}
