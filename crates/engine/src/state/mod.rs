//! What the parts of an open engine share, and the handle that closes it.
//!
//! In: what recovery opened. Out: the same, for background work, reads, ingests and tools. Only this
//! file has methods of [`Shared`]; components take what they need of it. May use all rooms whose
//! values it keeps: `write`, `tree`, `block_loads`, `manifest`, `cache`, `health` and those below.

pub(crate) mod commit_threads;
pub(crate) mod idle_threads;
pub(crate) mod io_rate;
pub(crate) mod obsolete_files;
pub(crate) mod ownership;
pub(crate) mod pacer;
pub(crate) mod running_compactions;
pub(crate) mod tree_ddl;

use crate::block_loads::LoadContext;
use crate::block_loads::async_loads::AsyncLoads;
use crate::cell::TreeId;
use crate::compaction::writing::Writing;
use crate::counters::engine_counters::Counters;
use crate::counters::point_counters::PointCounters;
use crate::counters::read_waits::ReadWaits;
use crate::error::{Cause, Error, Result};
use crate::files::open_files::OpenFiles;
use crate::health::Health;
use crate::health::failure_policy::{Kind, Task, Writers, rule};
use crate::locks::{DirectoryLock, ProgressState, Trees};
use crate::manifest::{Edit, ManifestSet, Member, Owner, State, is_in_doubt};
use crate::memory::budget::Budget;
use crate::options::Options;
use crate::sstable::{BlockCache, ReadaheadSource};
use crate::tree::TreeState;
use crate::tree::counts::PastTrees;
use crate::tree::read_parts::ReadParts;
use crate::tree::snapshots::Snapshots;
use crate::write::group_commit::Commits;
use base::env::Env;
use base::env::sleepers::Sleepers;
use base::sync::{Condvar, Mutex, RwLock};
use commit_threads::CommitThreads;
use io_rate::IoRate;
use obsolete_files::Obsolete;
use ownership::Ownership;
use pacer::Stalls;
use running_compactions::Compactions;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Longest sleep of a waiter before it looks again.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What the waiters of an engine wait on.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Number of jobs that are queued or running.
    pub(crate) jobs: usize,
    /// Bytes committed since the last look at the log's length.
    pub(crate) uninspected: usize,
}

/// What the parts of an open engine share.
pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    /// What reads need of `options`, in one place.
    pub(crate) read_parts: ReadParts,
    pub(crate) commits: Commits,
    pub(crate) log_segments: Arc<crate::log::LogSegments>,
    pub(crate) manifest: ManifestSet,
    pub(crate) trees: RwLock<BTreeMap<TreeId, Arc<TreeState>>, Trees>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) cache: Arc<BlockCache>,
    /// Blocks on their way for reads that hold no thread.
    pub(crate) async_loads: AsyncLoads,
    pub(crate) open_files: Arc<OpenFiles>,
    pub(crate) obsolete: Obsolete,
    pub(crate) progress: Mutex<Progress, ProgressState>,
    /// Signalled with `progress` whenever background work ends ([`Shared::progress_made`]).
    pub(crate) progressed: Condvar,
    /// Tasks that wait for the same.
    pub(crate) stalled_tasks: Sleepers,
    /// The threads that lead commits for tasks.
    pub(crate) commit_threads: CommitThreads,
    pub(crate) health: Arc<Health>,
    pub(crate) counters: Counters,
    pub(crate) stalls: Stalls,
    pub(crate) compactions: Compactions,
    pub(crate) io_rate: IoRate,
    /// How long reads that went to the disk waited.
    pub(crate) read_waits: ReadWaits,
    /// Counts of trees that were dropped.
    pub(crate) past_trees: PastTrees,
    pub(crate) readahead: Arc<ReadaheadSource>,
    /// The node of a cluster that the store is of.
    pub(crate) member: Option<Member>,
    /// Whose the store is; set before the engine is given to anybody.
    pub(crate) ownership: OnceLock<Ownership>,
    /// The directory's lock, held until the last handle is dropped and no job runs any more.
    pub(crate) lock: Mutex<Option<Box<dyn Send + Sync>>, DirectoryLock>,
}

/// An open engine: the last handle that is dropped closes it.
#[derive(Clone)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
    _close_with_last: Arc<CloseWithLast>,
}

impl Handle {
    /// The first handle of what was opened.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let close = CloseWithLast { shared: Arc::clone(&shared) };
        Self { shared, _close_with_last: Arc::new(close) }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

struct CloseWithLast {
    shared: Arc<Shared>,
}

impl Drop for CloseWithLast {
    fn drop(&mut self) {
        if let Err(error) = self.shared.close() {
            tracing::warn!(%error, "could not close the log; the next open recovers it");
        }
        self.shared.commits.end_threads();
        self.shared.commit_threads.join();
        self.shared.async_loads.close();
        self.shared.lock.lock().take();
    }
}

impl Shared {
    pub(crate) fn tree(&self, id: TreeId) -> Result<Arc<TreeState>> {
        self.trees.read().get(&id).cloned().ok_or(Error::UnknownTree(id))
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.health.is_closing()
    }

    /// Returns the parts of the engine that loads of blocks use; the loads are counted in `counters`.
    #[inline]
    pub(crate) fn loads<'a>(&'a self, counters: &'a PointCounters) -> LoadContext<'a> {
        LoadContext {
            env: &self.env,
            cache: &self.cache,
            counters,
            waits: &self.read_waits,
            batched: self.options.read_path.batched_reads,
            bytes_max: self.options.shape.in_flight_bytes_max as u64,
        }
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        self.cache.budget()
    }

    /// See [`crate::Engine::note_process_memory`].
    pub(crate) fn note_process_memory(&self, bytes: usize) {
        self.budget().set_outside(bytes.saturating_sub(self.cache.memory_bytes()));
        self.cache.balance();
    }

    /// Sleeps until background work ends, at most `longest`; or does some of it.
    pub(crate) fn pause(&self, longest: Duration) {
        if !self.env.tasks.help() {
            let mut progress = self.progress.lock();
            self.progressed.wait_for(&mut progress, longest);
        }
    }

    /// As [`Self::pause`], for a task.
    pub(crate) async fn pause_task(&self, longest: Duration) {
        if !self.env.tasks.help() {
            self.stalled_tasks.sleep(longest).await;
        }
    }

    /// Tells all who wait for background work that there is news.
    pub(crate) fn progress_made(&self) {
        self.progressed.notify_all();
        self.stalled_tasks.wake_all();
    }

    /// Does what the policy says of writers when `task` has failed. Gives `error` back.
    pub(crate) fn failed(&self, task: Task, error: Error) -> Error {
        let rule = Kind::of(&error).map(|kind| rule(task, kind));
        if rule.is_some_and(|rule| rule.writers == Writers::Stopped) {
            self.health.stop(|| match &error {
                Error::WritesStopped(cause) => cause.clone(),
                other => Cause { why: format!("{task}: {other}"), ..other.into() },
            });
            self.progress_made();
        }
        error
    }

    /// The same when an append to the log, or a sync of it, has failed. One that it refused is its
    /// caller's affair.
    pub(crate) fn log_failed(&self, error: Error) -> Error {
        if let Error::Io { .. } = error { self.failed(Task::Log, error) } else { error }
    }

    /// The same when an edit of the manifest has failed. One that it refused is its caller's affair.
    pub(crate) fn manifest_failed(&self, error: Error) -> Error {
        if is_in_doubt(&error) { self.failed(Task::Manifest, error) } else { error }
    }

    /// Lends `act` what a flush or compaction of `tree` needs of the engine.
    pub(crate) fn writing<T>(
        &self,
        tree: &TreeState,
        wrote: &dyn Fn(u64),
        act: impl FnOnce(&Writing<'_>) -> T,
    ) -> T {
        let version = Arc::clone(&tree.view().version);
        act(&Writing {
            fs: &*self.env.fs,
            dir: &self.dir,
            options: &self.options,
            tree: tree.id,
            flushed: version.flushed,
            tree_options: &version.options,
            filter_granularity: tree.learn_granularity(),
            open_files: &self.open_files,
            cache: &self.cache,
            new_file: &|| self.manifest.new_file(),
            cancelled: &|| self.is_closing(),
            wrote,
        })
    }

    /// Gives up the segments of the log that no tree needs.
    pub(crate) fn retire_log(&self) {
        let from = self.manifest.change(|state| {
            let flushed = |tree| state.tree(tree).map(|version| version.flushed);
            let first = self.log_segments.first_needed(flushed);
            let Some(first) = first.filter(|first| *first > state.log_from) else {
                return Ok(Vec::new());
            };
            // The segments may hold the only trace of their numbers: those of a tree that was
            // dropped before it was flushed. They are not to be given out again.
            let last = Edit::LastSequence(self.snapshots.published());
            Ok(vec![last, Edit::LogFrom(first)])
        });
        let retired = from.and_then(|state| self.log_segments.retire(state.log_from));
        if let Err(error) = retired.map_err(|error| self.manifest_failed(error)) {
            tracing::warn!(%error, "could not remove old commit log segments; retrying later");
        }
        self.give_up_changes();
    }

    /// Removes kept changes whose time is over.
    pub(crate) fn give_up_changes(&self) {
        let now = u64::try_from(self.env.clock.now_micros()).unwrap_or(0);
        if let Err(error) = self.log_segments.give_up(now) {
            tracing::warn!(%error, "could not remove expired changes; retrying later");
        }
    }

    /// Tells the log what the manifest says of the changes of `trees`.
    pub(crate) fn follow_changes(&self, trees: &[TreeId]) {
        let state = self.manifest.state();
        for tree in trees {
            match state.tree(*tree).and_then(|version| version.change_log) {
                Some(log) => self.log_segments.follow(&[(*tree, log.retention_micros)]),
                None => self.log_segments.unfollow(*tree),
            }
        }
    }

    /// Syncs, closes the log and waits for running jobs. Again: does nothing.
    pub(crate) fn close(&self) -> Result<()> {
        let first = !self.health.close();
        self.snapshots.close();
        let log = self.commits.close();
        self.progress_made();
        self.wait_for_jobs();
        if !first {
            return Ok(());
        }
        self.obsolete.collect();
        if let Ok(Some(end)) = &log
            && let Err(error) = self.manifest.install(&[Edit::LogClosed(*end)])
        {
            tracing::warn!(%error, "could not record the end of the log; closing it anyway");
        }
        log.and(self.manifest.close())
    }

    fn wait_for_jobs(&self) {
        loop {
            // Before helping: on a simulated machine other engines always have something to do.
            if self.progress.lock().jobs == 0 {
                return;
            }
            if !self.env.tasks.help() {
                let mut progress = self.progress.lock();
                if progress.jobs > 0 {
                    self.progressed.wait_for(&mut progress, LOOK_AGAIN);
                }
            }
        }
    }

    /// Whose the store is; `None` while it is nobody's.
    pub(crate) fn owner(&self) -> Option<Owner> {
        let told_by_contents = self.ownership.get().and_then(|known| known.told_by_contents);
        self.manifest.state().owner.or(told_by_contents)
    }

    /// Refuses to write to the store of a server that did not claim it.
    pub(crate) fn check_owner(&self) -> Result<()> {
        match self.ownership.get() {
            Some(known) if known.foreign.load(Ordering::Relaxed) => {
                Err(self.refusal(Owner::Server))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what changes the trees of a node of a cluster past the log of their groups.
    pub(crate) fn check_takes_writes(&self) -> Result<()> {
        self.check_owner()?;
        self.check_is_alone()
    }

    /// Refuses what a node of a cluster cannot do by itself.
    pub(crate) fn check_is_alone(&self) -> Result<()> {
        match self.member {
            None => Ok(()),
            Some(member) => Err(Error::InvalidArgument(format!(
                "the store is of {member}, whose trees take only what Engine::apply gives them, and \
                 which copies nothing by itself"
            ))),
        }
    }

    fn refusal(&self, owner: Owner) -> Error {
        let what = match owner {
            Owner::Server => {
                "it belongs to a server, and other programs write to it through that server; \
                 copy it and read the copy, or choose another directory"
            }
            Owner::Embedder => {
                "it belongs to a program that embeds the engine, and servers do not know its \
                 trees; make tables of them with 'stele adopt', or choose another directory"
            }
        };
        Error::Unusable { dir: self.dir.clone(), what: what.to_owned() }
    }

    /// The edit that tells the owner, if `state` does not and a tree is about to be made.
    pub(crate) fn owning(&self, state: &State) -> Option<Edit> {
        let owner = self.owner().unwrap_or(Owner::Embedder);
        state.owner.is_none().then_some(Edit::Owner(owner))
    }

    /// See [`Engine::claim`].
    pub(crate) fn claim(&self, owner: Owner) -> Result<()> {
        match self.owner() {
            Some(other) if other != owner => Err(self.refusal(other)),
            _ => self.give_to(owner),
        }
    }

    /// See [`Engine::give_to`].
    pub(crate) fn give_to(&self, owner: Owner) -> Result<()> {
        self.manifest.change(|state| match state.owner {
            Some(known) if known == owner => Ok(Vec::new()),
            _ => Ok(vec![Edit::Owner(owner)]),
        })?;
        if let Some(known) = self.ownership.get() {
            known.foreign.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}
