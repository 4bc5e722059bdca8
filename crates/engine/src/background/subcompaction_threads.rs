//! A merge that several threads work on: who takes which subcompaction, and who may help.
//!
//! Invariants:
//! 1. Who has the plan takes one subcompaction after the other until none is left, so all are
//!    written though nobody helps. Only then it waits, and only for subcompactions that others are
//!    writing; who writes one waits for nobody.
//! 2. Helpers are background threads that compactions leave idle. One is asked only if, beside it
//!    and all that compactions have, another thread is left for flushes.
//! 3. The first failure ends all subcompactions at their next rows, and the files of all are removed.
//! 4. A subcompaction whose writer panics is one that failed: nobody waits for it.
//! 5. A helper holds input files only while it has a subcompaction. So nobody but who has the plan holds
//!    them when all are written.

use crate::background::{jobs, throttle};
use crate::compaction::execute::{Merging, Subcompaction, Written};
use crate::compaction::writing::Writing;
use crate::error::{Error, Result};
use crate::health::failure_policy::Task;
use crate::locks::SubcompactionState;
use crate::marks::Mark;
use crate::request::RowRange;
use crate::state::Shared;
use crate::state::idle_threads::Taken;
use crate::state::io_rate::Writer;
use crate::state::running_compactions::Running;
use crate::tree::TreeState;
use base::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The subcompactions of one merge.
struct Subcompactions {
    state: Mutex<State, SubcompactionState>,
    /// Signalled when a subcompaction ends.
    ended: Condvar,
    /// Relaxed: a hint to those who write. What went wrong is in `state`.
    failed: AtomicBool,
}

struct State {
    /// Those that somebody is to take: their place among all, their rows. None after a failure.
    waiting: VecDeque<(usize, RowRange)>,
    /// How many are being written.
    writing: usize,
    /// Those that are written, in their places.
    written: Vec<Option<Subcompaction>>,
    failure: Option<Error>,
}

/// A subcompaction that somebody writes, until this is dropped.
struct Turn<'a> {
    subcompactions: &'a Subcompactions,
    place: usize,
    rows: RowRange,
}

impl Subcompactions {
    fn new(rows: Vec<RowRange>) -> Self {
        let written = rows.iter().map(|_| None).collect();
        let waiting = rows.into_iter().enumerate().collect();
        let state = State { waiting, writing: 0, written, failure: None };
        Self { state: Mutex::new(state), ended: Condvar::new(), failed: AtomicBool::new(false) }
    }

    /// The next subcompaction, if one is left and none has failed.
    fn take(&self) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        let (place, rows) = state.waiting.pop_front()?;
        state.writing += 1;
        Some(Turn { subcompactions: self, place, rows })
    }

    /// Lets no further subcompaction begin. Those that end because of it are told that all is closed.
    fn fail(&self, state: &mut State, error: Error) {
        state.failure.get_or_insert(error);
        state.waiting.clear();
        self.failed.store(true, Ordering::Relaxed);
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Waits for the subcompactions that are being written. Gives those that were, or what failed first.
    fn wait(&self) -> (Vec<Subcompaction>, Result<()>) {
        let mut state = self.state.lock();
        self.ended.wait_while(&mut state, |state| state.writing > 0);
        let failure = state.failure.take();
        let all = std::mem::take(&mut state.written);
        let whole = all.iter().all(Option::is_some);
        assert!(whole || failure.is_some(), "each piece was written, or one failed");
        (all.into_iter().flatten().collect(), failure.map_or(Ok(()), Err))
    }
}

impl Turn<'_> {
    fn end(self, outcome: Result<Subcompaction>) {
        let mut state = self.subcompactions.state.lock();
        match outcome {
            Ok(subcompaction) => state.written[self.place] = Some(subcompaction),
            Err(error) => self.subcompactions.fail(&mut state, error),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = Error::stopped("another thread of the compaction panicked");
            self.subcompactions.fail(&mut self.subcompactions.state.lock(), why);
        }
        self.subcompactions.state.lock().writing -= 1;
        self.subcompactions.ended.notify_all();
    }
}

/// Writes all that `merging` has to, with the help of idle threads if it is large.
pub(crate) fn write_subcompactions(
    shared: &Arc<Shared>,
    tree: &Arc<TreeState>,
    merging: Merging,
    running: &Arc<Running>,
) -> Result<Written> {
    let merging = Arc::new(merging);
    let (rows, helpers) = divide(shared, &merging);
    let subcompactions = Arc::new(Subcompactions::new(rows));
    for helper in helpers {
        ask_for_help(shared, tree, &subcompactions, &merging, running, helper);
    }
    loop {
        // On a simulated machine who was asked helps now.
        if Arc::strong_count(&subcompactions) > 1 {
            shared.env.tasks.help();
        }
        let Some(turn) = subcompactions.take() else { break };
        let outcome = write_subcompaction(shared, tree, &merging, &turn, running);
        turn.end(outcome);
    }
    let (written, outcome) = subcompactions.wait();
    match outcome {
        Ok(()) => Ok(merging.finish(written)),
        Err(error) => {
            shared.writing(tree, &|_| (), |writing| {
                written.into_iter().for_each(|subcompaction| subcompaction.discard(writing));
            });
            Err(error)
        }
    }
}

/// The rows of the subcompactions, and the threads that may help with them.
fn divide(shared: &Shared, merging: &Merging) -> (Vec<RowRange>, Vec<Taken>) {
    let threads = shared.env.tasks.threads();
    let most = shared.options.subcompactions_max.unwrap_or(threads);
    let mut helpers = shared.compactions.threads.take_idle(most - 1, threads);
    let rows = merging.subcompactions(1 + helpers.len());
    helpers.truncate(rows.len() - 1);
    if rows.len() > 1 {
        Mark::CompactionDivided.hit();
        shared.counters.subcompactions.fetch_add(rows.len() as u64, Ordering::Relaxed);
    }
    (rows, helpers)
}

fn ask_for_help(
    shared: &Arc<Shared>,
    tree: &Arc<TreeState>,
    subcompactions: &Arc<Subcompactions>,
    merging: &Arc<Merging>,
    running: &Arc<Running>,
    thread: Taken,
) {
    let (tree, subcompactions) = (Arc::clone(tree), Arc::clone(subcompactions));
    let (merging, running) = (Arc::downgrade(merging), Arc::clone(running));
    jobs::run_later(
        shared,
        Duration::ZERO,
        Task::Compaction,
        "help with a compaction",
        move |shared| {
            let _thread = thread;
            help_with(shared, &tree, &subcompactions, &merging, &running);
        },
    );
}

fn help_with(
    shared: &Shared,
    tree: &TreeState,
    subcompactions: &Subcompactions,
    merging: &Weak<Merging>,
    running: &Running,
) {
    while let Some(turn) = subcompactions.take() {
        let merging = merging.upgrade().expect("who has the plan waits for this piece");
        let outcome = write_subcompaction(shared, tree, &merging, &turn, running);
        drop(merging);
        turn.end(outcome);
        shared.counters.subcompactions_helped.fetch_add(1, Ordering::Relaxed);
    }
}

fn write_subcompaction(
    shared: &Shared,
    tree: &TreeState,
    merging: &Merging,
    turn: &Turn<'_>,
    running: &Running,
) -> Result<Subcompaction> {
    let wrote = |bytes| {
        running.wrote(bytes);
        throttle::keep_to_rate(shared, tree, Writer::Compaction, bytes);
    };
    let cancelled = || shared.is_closing() || turn.subcompactions.has_failed();
    shared.writing(tree, &wrote, |writing| {
        merging.write(&Writing { cancelled: &cancelled, ..*writing }, &turn.rows)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subcompaction_that_panics_has_failed() {
        let subcompactions = Subcompactions::new(vec![RowRange::ALL, RowRange::ALL, RowRange::ALL]);
        let own = subcompactions.take().unwrap();
        let helped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = subcompactions.take().unwrap();
            std::panic::resume_unwind(Box::new("a defect"));
        }));
        assert!(helped.is_err());
        assert!(subcompactions.has_failed() && subcompactions.take().is_none());
        own.end(Err(Error::Closed));
        assert!(matches!(subcompactions.wait().1, Err(Error::WritesStopped(_))));
    }

    #[test]
    fn after_a_failure_no_piece_begins_and_the_first_failure_is_told() {
        let rows = || RowRange::ALL;
        let subcompactions = Subcompactions::new(vec![rows(), rows(), rows()]);
        let (first, second) = (subcompactions.take().unwrap(), subcompactions.take().unwrap());
        first.end(Err(Error::UnknownTree(crate::cell::TreeId(7))));
        assert!(subcompactions.has_failed() && subcompactions.take().is_none());
        second.end(Err(Error::Closed));
        let (written, outcome) = subcompactions.wait();
        assert!(written.is_empty());
        assert!(matches!(outcome, Err(Error::UnknownTree(_))));
        assert!(subcompactions.take().is_none(), "who comes late finds nothing");
    }
}
