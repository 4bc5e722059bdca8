//! The threads that lead commits for tasks, and what follows from commits that tasks are not there for.
//!
//! The threads start with the first write of a task and end with the engine. Two are enough: one writes
//! and syncs a group while the other applies a large one, or freezes a memtable.

use crate::background::scheduler;
use crate::error::{Cause, Error, Result};
use crate::health::failure_policy::Task;
use crate::state::Shared;
use crate::tree::TreeState;
use crate::write::group_commit::Upkeep;
use crate::write::request::{Commit, Request};
use base::env::task::start_thread;
use std::sync::Arc;

const THREADS: usize = 2;

/// Upkeep after commits to an engine.
pub(super) struct KeepUp<'a>(pub(super) &'a Arc<Shared>);

impl Upkeep for KeepUp<'_> {
    fn note(&self, tree: &Arc<TreeState>, bytes: usize) -> bool {
        scheduler::note_commit(self.0, tree, bytes)
    }

    fn keep_up(&self, tree: &Arc<TreeState>) {
        let done = self.0.health.guard(Task::Flush, "what follows a commit", || {
            scheduler::keep_up(self.0, tree);
            Ok(())
        });
        if done.is_err() {
            self.0.progress_made();
        }
    }

    fn failed(&self, error: Error) {
        self.0.log_failed(error);
    }
}

/// Gives `request`, of a task, its place in the order of commits, and lets go of `held`.
pub(super) fn submit<H>(shared: &Arc<Shared>, request: Request, held: H) -> Commit {
    shared.commits.submit_in_task(request, held, &KeepUp(shared))
}

/// Starts the threads with the first call. `Unavailable` if the system refuses to start one.
pub(super) fn start(shared: &Arc<Shared>) -> Result<()> {
    if shared.commit_threads.are_started() {
        return Ok(());
    }
    let started = shared.commit_threads.start(THREADS, |number| {
        let shared = Arc::clone(shared);
        start_thread(&format!("stele-commit-{number}"), move || {
            while shared.commits.lead_for_tasks(&KeepUp(&shared)) {}
        })
    });
    started.map_err(|error| {
        let why = format!("could not start a thread for commits: {error}");
        Error::Unavailable(Cause { why, source: None })
    })
}
