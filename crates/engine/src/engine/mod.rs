//! The engine's public API: a store and what concerns all of it ([`Engine`]), and one tree of it
//! (`tree`). Wiring only.
//!
//! In: calls of a program. Out: calls of the rooms that do the work. May use every room below.

mod changes;
mod commit_threads;
mod feed;
mod together;
mod tree;

use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::ingest::IngestFiles;
use crate::ingest::sort::{RowSorter, SortOptions};
use crate::manifest::{Member, Owner, StoreId};
use crate::metrics::{GroupedMetrics, Metrics};
use crate::options::{Durability, Options, TreeOptions};
use crate::read::drivers::Tree;
use crate::recovery::owner_of_contents::told_by_contents;
use crate::request::{RowRange, ScanRequest};
use crate::state::ownership::{Ownership, SCHEMA};
use crate::state::running_compactions::RunningCompaction;
use crate::state::{Handle, LOOK_AGAIN, Shared};
use base::env::Env;
use std::path::Path;
use std::sync::Arc;

pub use crate::read::scan::Scan;
pub use crate::tree::snapshots::Snapshot;
pub use feed::Fed;

/// An open data directory. Cheap to clone; dropping the last clone closes it.
#[derive(Clone)]
pub struct Engine {
    handle: Handle,
}

impl Engine {
    /// Opens the data directory `dir`, creating it if it does not exist, and recovers what the
    /// log holds. `Error::Unusable` if another process has it open or it is of a newer format,
    /// `Error::Corruption` if it is damaged; it is then left as it was.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        options.validate()?;
        Self::open_with_env(Env::real(options.background_threads), dir.as_ref(), options)
    }

    /// [`Self::open`] in an environment of the caller's, whose background threads count in place of
    /// [`Options::background_threads`]: for tests, and for a program that opens several engines.
    pub fn open_with_env(env: Env, dir: &Path, options: Options) -> Result<Self> {
        Self::open_as(env, dir, options, None)
    }

    /// Opens the data directory of a node of a cluster. A directory that does not exist, or was never
    /// used, becomes that of `member`, durably. Its trees get their batches by [`Self::apply`]; the
    /// engine has no log of its own, and after a restart holds what was flushed. All other ways to write
    /// are refused.
    ///
    /// `Unusable` if the directory is that of another node, or of a single server. The text says what
    /// to do. [`Self::open`] refuses the directory of a node.
    pub fn open_member(env: Env, dir: &Path, options: Options, member: Member) -> Result<Self> {
        Self::open_as(env, dir, options, Some(member))
    }

    fn open_as(env: Env, dir: &Path, options: Options, member: Option<Member>) -> Result<Self> {
        let handle = Handle::new(crate::recovery::open(env, dir, options, member)?);
        let engine = Self { handle };
        let shared = engine.shared();
        let schema = || engine.tree(SCHEMA)?.scan(&ScanRequest::rows(RowRange::ALL), None);
        let owner = shared.manifest.state().owner;
        let told = match owner {
            Some(_) => None,
            None => told_by_contents(&engine.trees(), schema)?,
        };
        let _ = shared.ownership.set(Ownership::new(owner, told));
        Ok(engine)
    }

    /// Whose the store is: `None` while it has no trees, and nobody claimed it.
    pub fn owner(&self) -> Option<Owner> {
        self.shared().owner()
    }

    /// Makes the store `owner`'s if it is nobody's yet, durably when this returns. `Unusable` if it
    /// is another's. A server calls it before it writes; without it the store belongs to an
    /// embedding program from its first tree on, and all that writes to a server's store is refused
    /// (`Unusable`).
    pub fn claim(&self, owner: Owner) -> Result<()> {
        self.shared().claim(owner)
    }

    /// Makes the store `owner`'s, whoever had it: for tools, which know what they do.
    pub fn give_to(&self, owner: Owner) -> Result<()> {
        self.shared().give_to(owner)
    }

    /// Creates an empty tree. Durable when it returns. `InvalidArgument` if the id was ever used.
    pub fn create_tree(&self, tree: TreeId, options: TreeOptions) -> Result<Tree> {
        options.validate()?;
        self.shared().check_owner()?;
        crate::state::tree_ddl::create_tree(self.shared(), tree, options)?;
        self.tree(tree)
    }

    /// Returns the tree if it exists, whatever its options are, and creates it otherwise; threads may
    /// do so at the same time. `InvalidArgument` if a tree of this id was dropped.
    pub fn tree_or_create(&self, id: TreeId, options: TreeOptions) -> Result<Tree> {
        loop {
            match self.tree(id) {
                Err(Error::UnknownTree(_)) => {}
                found => return found,
            }
            match self.create_tree(id, options.clone()) {
                // Another thread was faster, and its tree will be there in a moment.
                Err(Error::InvalidArgument(_)) if self.is_in_manifest(id) => {
                    self.shared().pause(LOOK_AGAIN);
                }
                created => return created,
            }
        }
    }

    fn is_in_manifest(&self, id: TreeId) -> bool {
        self.shared().manifest.state().trees.get(&id).is_some()
    }

    /// Drops a tree and all it holds. Durable when it returns; open scans go on. They, and handles
    /// of the tree, keep its files on disk for as long as they live.
    pub fn drop_tree(&self, tree: TreeId) -> Result<()> {
        self.shared().check_owner()?;
        crate::state::tree_ddl::drop_tree(self.shared(), tree)
    }

    /// The ids of all trees, ascending.
    pub fn trees(&self) -> Vec<TreeId> {
        self.shared().trees.read().keys().copied().collect()
    }

    /// The smallest id above those of all trees that ever were.
    pub fn first_unused_tree(&self) -> TreeId {
        let state = self.shared().manifest.state();
        let used = state.trees.keys().chain(state.used.keys()).max();
        TreeId(used.map_or(1, |tree| tree.0.saturating_add(1)))
    }

    /// Returns a tree, looked up once for many reads and writes. `UnknownTree` if it does not exist.
    pub fn tree(&self, tree: TreeId) -> Result<Tree> {
        Ok(Tree::new(self.handle.clone(), self.shared().tree(tree)?))
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.handle.shared()
    }

    /// The time of the newest commit, in microseconds since the epoch: not below any time that a
    /// commit carried ([`Tree::write_timed`]) or that was noted ([`Self::note_commit_micros`]), and
    /// kept from one open to the next, whatever the clock does. 0 if nothing was ever committed.
    pub fn commit_micros(&self) -> u64 {
        self.shared().commits.commit_time()
    }

    /// The latest that the clock showed at a commit of this or an earlier process, in microseconds
    /// since the epoch, as far as it is known: the last moments before a crash are not. 0 if
    /// nothing is.
    pub fn clock_micros(&self) -> u64 {
        self.shared().commits.clock()
    }

    /// Raises the time of the newest commit to `micros`, for files that carry it and are ingested
    /// later. May wait for a commit under way.
    pub fn note_commit_micros(&self, micros: u64) {
        self.shared().commits.note_time(micros);
    }

    /// A snapshot of everything committed so far, over all trees.
    pub fn snapshot(&self) -> Snapshot {
        self.shared().snapshots.take(self.shared().env.clock.monotonic())
    }

    /// Lets no compaction start by itself until [`Self::resume_compactions`]; not kept on disk.
    /// Those that run go on, and so do those by hand. A tree whose level 0 grows until it would
    /// hold its writers back is compacted all the same, so writes never wait for the pause to end.
    pub fn pause_compactions(&self) {
        crate::background::scheduler::set_compactions_paused(self.shared(), true);
    }

    /// Ends a pause; what became due meanwhile starts.
    pub fn resume_compactions(&self) {
        crate::background::scheduler::set_compactions_paused(self.shared(), false);
    }

    /// Returns whether compactions are paused.
    pub fn compactions_paused(&self) -> bool {
        self.shared().compactions.are_paused()
    }

    /// The compactions that run, of all trees, oldest first.
    pub fn compactions(&self) -> Vec<RunningCompaction> {
        let shared = self.shared();
        shared.compactions.running(shared.env.clock.monotonic())
    }

    /// When an acknowledged write is on disk.
    pub fn durability(&self) -> Durability {
        self.shared().options.durability
    }

    /// Makes every acknowledged write durable, whatever the durability mode.
    pub fn sync(&self) -> Result<()> {
        self.shared().commits.sync().map_err(|error| self.shared().log_failed(error))
    }

    /// Tells the engine that this process has `bytes` bytes of memory for it, which are all but
    /// those that it would have without an engine. Blocks give way to what of that is in no charge
    /// (buffers of reads, requests, what the allocator keeps), down to an eighth of the budget, and
    /// take it back when it is gone and they need it. What was told stands until told otherwise,
    /// and less is believed little by little: who tells, tells again, some ten times a second. An
    /// engine that is never told takes its charges for all there is. Costs microseconds, and
    /// milliseconds where many blocks have to go.
    pub fn note_process_memory(&self, bytes: usize) {
        self.shared().note_process_memory(bytes);
    }

    /// Returns all counters, gauges and histograms of the engine. Walks all trees, a few at a time; takes
    /// no lock for long that reads or writes need.
    pub fn metrics(&self) -> Metrics {
        crate::metrics::of_engine(self.shared())
    }

    /// Returns what [`Self::metrics`] does, and the sums of the counters and gauges of groups of trees.
    /// Groups have no tree in common. Walks all trees once.
    pub fn metrics_by_groups(&self, groups: &[Vec<TreeId>]) -> GroupedMetrics {
        crate::metrics::of_groups(self.shared(), groups)
    }

    /// Stops background work, syncs the log whatever the durability mode, writes its closing
    /// record, and refuses further writes; reads go on. Flushes nothing.
    pub fn close(&self) -> Result<()> {
        self.shared().close()
    }

    /// Copies the engine as it is at one moment into `dir`, which is new or empty and on the same
    /// file system: every write that was acknowledged before the call, of all trees, and none that
    /// is made after it returns. SSTables get a second name and take no more room; the log is
    /// copied. Writes wait while the log is sealed. The copy is durable when this returns, is a
    /// data directory of its own, and opens while this one is open.
    ///
    /// `Unusable` if `dir` is not empty; `Io` if it is on another file system. After an error what
    /// was written to `dir` is removed, as far as that can be done, and it does not open as a copy;
    /// the engine goes on as before, unless the failure was one of its own log.
    ///
    /// `InvalidArgument` for a node of a cluster, whose trees hold more than the directory.
    pub fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.shared().check_is_alone()?;
        crate::maintenance::checkpoint::checkpoint(self.shared(), dir)
    }

    /// The data directory, as it was given to [`Self::open`].
    pub fn dir(&self) -> &Path {
        &self.shared().dir
    }

    /// What this store is known by, wherever it is copied and restored to; it is given an id if it
    /// has none, durably when this returns.
    pub fn store_id(&self) -> Result<StoreId> {
        crate::maintenance::checkpoint::id_of_open_store(self.shared())
    }

    /// Sorts rows that come in any order, within a given memory, for an [`SstWriter`] or anything
    /// else that wants them in order. Its files lie in the data directory, which it keeps open.
    /// `InvalidArgument` if it is given too little memory.
    pub fn row_sorter(&self, options: &SortOptions) -> Result<RowSorter> {
        RowSorter::new(self.handle.clone(), options)
    }

    /// Makes `files` part of their trees, all of them or none, whatever happens. When it returns
    /// they are durable, and with them all that was committed before; every later read sees them,
    /// and none at an earlier snapshot. Their cells are newer than all that was committed before.
    /// Blocks like [`Tree::write`], and stops other writes for as long as it takes to write an
    /// edit of the manifest. Returns the sequence number of the cells. Without files it does
    /// nothing.
    ///
    /// `InvalidArgument` if the files are of another engine, or those of two writers overlap.
    /// `UnknownTree` if one of the trees was dropped: then none gets its files. After `NoSpace`
    /// nothing was ingested, and `files` can be ingested when there is space. After a failed write
    /// or sync of the manifest they may or may not be there when the engine is opened again; until
    /// then writes are stopped. After success, and then, `files` are empty; after other errors they
    /// are as before.
    pub fn ingest(&self, files: &mut IngestFiles) -> Result<SequenceNumber> {
        self.shared().check_takes_writes()?;
        crate::ingest::install::ingest(self.shared(), files)
    }

    /// Does of [`Self::ingest`] what needs not be done at its moment: waits until the trees have
    /// room for `files`, and writes what memtables hold of their rows. An ingest that follows soon
    /// waits for no room, and writes only what came in between. Nobody sees anything of `files`
    /// yet. Errors as those of an ingest; `files` are as before.
    pub fn ready_ingest(&self, files: &mut IngestFiles) -> Result<()> {
        self.shared().check_takes_writes()?;
        crate::ingest::install::ready_ingest(self.shared(), files)
    }
}
