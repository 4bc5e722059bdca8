//! One tree while the engine is open: its current view, and how views follow each other.
//!
//! In: committed batches, and versions that flushes and compactions install. Out: views that reads
//! look at (`read_view`), and snapshots (`snapshots`). May use `memtable`, `sstable`, `manifest` and
//! `compaction` (their values).
//!
//! Invariants:
//! 1. Views are replaced, never changed; readers take the present one without a lock.
//! 2. The active memtable is written, and frozen, only by whoever holds `Commits::applying`
//!    (group_commit.rs): no batch is split between two memtables.
//! 3. The manifest's version and the view follow each other under `installing`, so that views come
//!    in the order of versions.
//! 4. Frozen memtables are flushed oldest first, one at a time, so that level 0 stays in the
//!    order of commits.
//! 5. A snapshot that sees a delete that a compaction did not know, and that may bring back a cell
//!    which the compaction dropped, reads the view of before (`replace`, `look_at`).

pub(crate) mod counts;
pub(crate) mod file_list;
pub(crate) mod learned_granularity;
pub(crate) mod read_parts;
pub(crate) mod read_view;
pub(crate) mod snapshots;
pub(crate) mod work;

pub(crate) use work::Work;

use crate::batch::FrozenBatch;
use crate::cell::{SequenceNumber, TreeId};
use crate::counters::tree_counters::{TreeCounters, WorkCount};
use crate::error::{Error, Result};
use crate::locks::{TreeInstalling, TreeLull, TreeRules, TreeView, TreeWork};
use crate::manifest::{FileNumber, LogPosition, TreeVersion};
use crate::memory::budget::{Budget, Charge, Use};
use crate::memtable::Memtable;
use crate::options::FilterGranularity;
use crate::semantics::elision_policy::{ElisionRules, KeepAll};
use crate::shape::Shape;
use crate::sstable::{FilterCounters, SstReader};
use crate::tree::learned_granularity::Learned;
use crate::tree::read_view::{OpenRun, ReadView};
use crate::tree::snapshots::{Snapshot, Snapshots};
use arc_swap::ArcSwap;
use base::env::FileSystem;
use base::sync::{Mutex, RwLock};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// See the file header.
pub(crate) struct TreeState {
    pub(crate) id: TreeId,
    view: ArcSwap<ReadView>,
    /// Held while a view is replaced by one made from it.
    replacing: Mutex<(), TreeView>,
    /// The tree was dropped.
    gone: AtomicBool,
    /// Its compactions are paused. Relaxed: guards nothing else.
    at_rest: AtomicBool,
    /// Number of the newest delete that spares older cells of its columns (`Memtable::apply`).
    /// Relaxed: raised before the number is published, and a snapshot sees what is published.
    newest_sparing_delete: AtomicU64,
    rules: RwLock<Arc<dyn ElisionRules>, TreeRules>,
    pub(crate) work: Mutex<Work, TreeWork>,
    /// Held while a change of files goes to the manifest and then to the view (invariant 3).
    pub(crate) installing: Mutex<(), TreeInstalling>,
    /// What was asked of the filters of its files.
    pub(crate) filter_counters: Arc<FilterCounters>,
    pub(crate) counters: TreeCounters,
    granularity: Learned,
    lull: Mutex<Lull, TreeLull>,
    /// The newest position that came without a batch, or 0. Written under
    /// `Commits::applying` and read by anybody; it publishes nothing else.
    noted: AtomicU64,
    /// When a stopped writer may next see to room, in microseconds of the monotonic clock. Relaxed:
    /// guards nothing else.
    room_due: AtomicU64,
    snapshots: Arc<Snapshots>,
    _charge: Charge,
}

/// What a tree takes beside its memtables and files.
const TREE_BYTES: usize =
    size_of::<TreeState>() + size_of::<FilterCounters>() + size_of::<ReadView>();

/// What the last look at a tree saw, by which the next one knows whether it was quiet since.
#[derive(Default)]
struct Lull {
    version: Option<Arc<TreeVersion>>,
    position: LogPosition,
    /// Seeks that reads had made by then.
    seeks: u64,
    /// Seeks since, as of the last look; `None` if the tree was not quiet.
    since: Option<u64>,
}

/// A number that those who write to the store in `dir` do not know.
pub(crate) fn draw_seed(fs: &dyn FileSystem, dir: &Path) -> Result<u64> {
    fs.unique().map(|drawn| drawn as u64).map_err(|error| Error::io("draw a seed for", dir, &error))
}

impl TreeState {
    /// A tree of these files with an empty memtable, read at `snapshots`. `seed` is for its memtables
    /// ([`draw_seed`]).
    pub(crate) fn new(
        id: TreeId,
        version: Arc<TreeVersion>,
        runs: Vec<OpenRun>,
        budget: &Arc<Budget>,
        snapshots: &Arc<Snapshots>,
        shape: &Shape,
        seed: u64,
    ) -> Self {
        let newest = runs.iter().flat_map(|run| run.iter()).max_by_key(|sst| sst.number());
        let newest = newest.map(|sst| sst.properties().filter_granularity);
        let active = Arc::new(Memtable::shaped(budget, snapshots.clone(), shape, seed));
        let view = ReadView::new(active, version, runs);
        Self {
            id,
            view: ArcSwap::from_pointee(view),
            snapshots: Arc::clone(snapshots),
            replacing: Mutex::default(),
            gone: AtomicBool::new(false),
            at_rest: AtomicBool::new(false),
            newest_sparing_delete: AtomicU64::new(0),
            rules: RwLock::new(Arc::new(KeepAll)),
            work: Mutex::default(),
            installing: Mutex::default(),
            filter_counters: Arc::default(),
            counters: TreeCounters::default(),
            granularity: Learned::beginning_with(newest, shape.filters_asked_min as u64),
            lull: Mutex::default(),
            noted: AtomicU64::new(0),
            room_due: AtomicU64::new(0),
            _charge: budget.charge(Use::Metadata).of(TREE_BYTES),
        }
    }

    /// Returns whether a stopped writer that comes at `now` is to see to it that room is made: the
    /// first one, and one in each `every` after it.
    pub(crate) fn is_to_make_room(&self, now: Duration, every: Duration) -> bool {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let due = self.room_due.load(Ordering::Relaxed);
        let next = micros(now.saturating_add(every));
        let taken =
            || self.room_due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        micros(now) >= due && taken().is_ok()
    }

    /// Looks whether the tree was written or compacted since the last look.
    pub(crate) fn look_for_quiet(&self) {
        let view = self.view();
        let (position, seeks) = (view.active.position(), self.filter_counters.seeks());
        let mut lull = self.lull.lock();
        let same = lull.version.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &view.version));
        if same && lull.position == position && view.frozen.is_empty() {
            lull.since = Some(seeks.saturating_sub(lull.seeks));
        } else {
            let version = Some(Arc::clone(&view.version));
            *lull = Lull { version, position, seeks, since: None };
        }
    }

    /// Seeks that reads have made since the tree was last written or compacted, as of the last look
    /// (`look_for_quiet`); `None` if that is too recent.
    pub(crate) fn quiet_reads(&self) -> Option<u64> {
        let (view, lull) = (self.view.load(), self.lull.lock());
        let same = lull.version.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &view.version));
        lull.since.filter(|_| same && lull.position == view.active.position())
    }

    /// For which questions the filters of its next files hold keys, as far as is known.
    pub(crate) fn granularity(&self) -> FilterGranularity {
        let fixed = self.view.load().version.options.filter_granularity;
        fixed.unwrap_or_else(|| self.granularity.choice())
    }

    /// The same, by what was asked until now.
    pub(crate) fn learn_granularity(&self) -> FilterGranularity {
        self.granularity.look(&self.filter_counters);
        self.granularity()
    }

    /// The current view.
    pub(crate) fn view(&self) -> Arc<ReadView> {
        self.view.load_full()
    }

    /// The current view, to look at for a moment: no count is shared between cores.
    #[inline]
    pub(crate) fn look(&self) -> arc_swap::Guard<Arc<ReadView>> {
        self.view.load()
    }

    /// The view for a read at `snapshot` (`None`: now), to look at for a moment.
    #[inline]
    pub(crate) fn look_at(&self, snapshot: Option<&Snapshot>) -> arc_swap::Guard<Arc<ReadView>> {
        let newest = self.view.load();
        match snapshot.and_then(|snapshot| snapshot.kept_view(self.id)) {
            Some(kept) => arc_swap::Guard::from_inner(kept),
            None => newest,
        }
    }

    /// Returns whether the tree was dropped.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Notes that the tree was dropped; views taken before go on.
    pub(crate) fn drop_for_readers(&self) {
        self.gone.store(true, Ordering::Relaxed);
        self.view.load().memtables().for_each(|memtable| memtable.outlive());
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        self.at_rest.load(Ordering::Relaxed)
    }

    pub(crate) fn set_at_rest(&self, at_rest: bool) {
        self.at_rest.store(at_rest, Ordering::Relaxed);
    }

    pub(crate) fn rules(&self) -> Arc<dyn ElisionRules> {
        Arc::clone(&self.rules.read())
    }

    pub(crate) fn set_rules(&self, rules: Arc<dyn ElisionRules>) {
        *self.rules.write() = rules;
    }

    /// Applies a committed batch (see `Memtable::apply`) and counts it. Only for the commit leader.
    pub(crate) fn apply(&self, batch: &FrozenBatch, first: SequenceNumber, position: LogPosition) {
        self.counters.add(WorkCount::WrittenBytes, batch.encoding().len() as u64);
        self.replay(batch, first, position);
    }

    /// Applies a batch that was committed, and counted, when it was written. Only for recovery.
    pub(crate) fn replay(&self, batch: &FrozenBatch, first: SequenceNumber, position: LogPosition) {
        let active = Arc::clone(&self.view.load().active);
        if let Some(delete) = active.apply(batch, first, position) {
            self.newest_sparing_delete.fetch_max(delete.0, Ordering::Relaxed);
        }
    }

    /// Takes note of a position without a batch. Only for the commit leader.
    pub(crate) fn note_position(&self, position: LogPosition) {
        self.noted.fetch_max(position.0, Ordering::AcqRel);
    }

    /// The newest position, with a batch or without.
    pub(crate) fn applied(&self) -> LogPosition {
        // Before the view: a flush that comes between moves positions from memtables to the version.
        let noted = LogPosition(self.noted.load(Ordering::Acquire));
        let view = self.look();
        let held = view.memtables().map(|memtable| memtable.position());
        held.fold(view.version.flushed.max(noted), LogPosition::max)
    }

    /// The newest position, if it is above the flushed one and no memtable holds a batch. Only between
    /// groups.
    pub(crate) fn position_without_batches(&self) -> Option<LogPosition> {
        let view = self.view();
        let is_empty = view.memtables().all(|memtable| memtable.is_empty());
        Some(self.applied()).filter(|applied| is_empty && *applied > view.version.flushed)
    }

    /// Freezes the active memtable unless it is empty. Only between groups (invariant 2).
    pub(crate) fn freeze(&self) {
        let _replacing = self.replacing.lock();
        let current = self.view.load();
        if current.active.is_empty() {
            return;
        }
        current.active.freeze();
        let mut frozen = vec![Arc::clone(&current.active)];
        frozen.extend(current.frozen.iter().cloned());
        let active = Arc::new(current.active.successor());
        self.view.store(Arc::new(current.with_memtables(active, frozen)));
    }

    /// Replaces the files by those of `version`, and takes away the frozen memtables up to its
    /// flushed position, whose entries the new files hold. Each file is open in the current view
    /// or among `opened`. `deletes_known` is that of what was written (`compaction::run::Written`).
    /// Under `installing` (invariant 3).
    pub(crate) fn install(
        &self,
        version: Arc<TreeVersion>,
        opened: &[Arc<SstReader>],
        deletes_known: Option<SequenceNumber>,
    ) {
        let _replacing = self.replacing.lock();
        let current = self.view.load();
        let open: HashMap<FileNumber, &Arc<SstReader>> = (current.files.iter())
            .flat_map(|run| run.iter())
            .chain(opened)
            .map(|sst| (sst.number(), sst))
            .collect();
        let files = version.runs().map(|run| {
            let ssts = run.ssts.iter().map(|sst| {
                let sst = open.get(&sst.number);
                Arc::clone(sst.expect("a file joins a version only when it was opened"))
            });
            ssts.collect()
        });
        let files = files.collect();
        let mut frozen = current.frozen.clone();
        let flushed = frozen.extract_if(.., |memtable| memtable.position() <= version.flushed);
        let flushed: Vec<_> = flushed.collect();
        let view = Arc::new(current.with_files(frozen, version, files));
        self.replace(&current, view, deletes_known);
        flushed.iter().for_each(|memtable| memtable.outlive());
    }

    /// Lets `view` follow `current`, of which a compaction dropped cells for the sake of newer
    /// versions that no delete up to `deletes_known` hides (`None`: it dropped none). Snapshots that
    /// see a later delete keep `current`. Those taken from now on read `view` alone, so what they
    /// see does not change either.
    fn replace(
        &self,
        current: &Arc<ReadView>,
        view: Arc<ReadView>,
        deletes_known: Option<SequenceNumber>,
    ) {
        let Some(known) = deletes_known else { return self.view.store(view) };
        let held = self.snapshots.hold_still();
        if self.newest_sparing_delete.load(Ordering::Relaxed) > known.0 {
            held.keep(known, self.id, current);
        }
        self.view.store(view);
    }
}
