//! What a reader of a tree looks at: its memtables and SSTables at one moment, immutable.
//!
//! Invariants:
//! 1. Sources are ordered newest first: the active memtable, the frozen ones, the runs of the
//!    version. Every entry of the tree is in exactly one of them.
//! 2. The range tombstones of the SSTables are indexed when a view has other files with range
//!    tombstones than the one before. The snapshots that readers of the view may hold are asked for
//!    after its files are known, so that all their entries are published (`crate::tree::snapshots`). A
//!    snapshot taken later sees all of them, so the index serves later views as well. Memtables
//!    index their own.
//! 3. A view keeps its files: none is deleted while a view that names it lives.

use crate::cell::SequenceNumber;
use crate::error::Result;
use crate::manifest::{FileNumber, Run, TreeVersion};
use crate::memory::budget::{Charge, Use};
use crate::memtable::Memtable;
use crate::request::RowRange;
use crate::semantics::dropped_ranges::{DroppedAt, DroppedRanges};
use crate::sstable::{FilterQuery, SstReader, SstRun};
use std::collections::HashSet;
use std::sync::Arc;

/// The SSTables of a run, opened.
pub(crate) type OpenRun = Arc<[Arc<SstReader>]>;

/// See the file header.
pub(crate) struct ReadView {
    pub(crate) active: Arc<Memtable>,
    /// Frozen memtables, newest first.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<TreeVersion>,
    /// The SSTables of the version's runs, newest run first.
    pub(crate) files: Vec<OpenRun>,
    /// The same without SSTables that hold only range tombstones.
    runs: Vec<Arc<SstRun>>,
    /// Indexes over the range tombstones of the SSTables and the frozen memtables.
    dropped: Vec<Arc<DroppedRanges>>,
    on_disk: Arc<Dropped>,
    /// Bytes of level 1, and of the last level.
    pub(crate) l1_bytes: u64,
    pub(crate) last_bytes: u64,
}

/// The range tombstones of a view's SSTables.
struct Dropped {
    /// Which files have them.
    files: Vec<FileNumber>,
    index: Arc<DroppedRanges>,
    _charge: Charge,
}

impl Dropped {
    /// Those of `files`; `before`, if it is of the same files.
    fn of(files: &[OpenRun], active: &Memtable, before: Option<&Arc<Self>>) -> Arc<Self> {
        let ssts = files.iter().flat_map(|run| run.iter());
        let ssts = ssts.filter(|sst| !sst.range_tombstones().is_empty());
        let mut files: Vec<FileNumber> = ssts.clone().map(|sst| sst.number()).collect();
        files.sort_unstable();
        if let Some(same) = before.filter(|before| before.files == files) {
            return Arc::clone(same);
        }
        let tombstones = ssts.flat_map(|sst| sst.range_tombstones());
        let index = DroppedRanges::new(tombstones, active.snapshots().borders());
        let bytes = index.memory_bytes() + files.capacity() * size_of::<FileNumber>();
        let charge = active.budget().charge(Use::Metadata).of(bytes);
        Arc::new(Self { files, index: Arc::new(index), _charge: charge })
    }
}

impl ReadView {
    /// A view of `active` and these files: the SSTables of `version`'s runs, newest run first.
    pub(crate) fn new(
        active: Arc<Memtable>,
        version: Arc<TreeVersion>,
        files: Vec<OpenRun>,
    ) -> Self {
        let on_disk = Dropped::of(&files, &active, None);
        Self::of(active, Vec::new(), version, files, on_disk)
    }

    /// A view of the same active memtable with other frozen ones, and other files.
    pub(crate) fn with_files(
        &self,
        frozen: Vec<Arc<Memtable>>,
        version: Arc<TreeVersion>,
        files: Vec<OpenRun>,
    ) -> Self {
        let on_disk = Dropped::of(&files, &self.active, Some(&self.on_disk));
        Self::of(Arc::clone(&self.active), frozen, version, files, on_disk)
    }

    fn of(
        active: Arc<Memtable>,
        frozen: Vec<Arc<Memtable>>,
        version: Arc<TreeVersion>,
        files: Vec<OpenRun>,
        on_disk: Arc<Dropped>,
    ) -> Self {
        let runs = files.iter().map(with_entries).filter(|run| !run.is_empty());
        let runs = runs.map(|run| Arc::new(SstRun::new(run))).collect();
        let [_, l1_bytes, last_bytes] =
            [0, 1, 2].map(|level| version.levels[level].iter().map(Run::bytes).sum());
        let dropped = indexes(&on_disk, &frozen);
        Self { active, frozen, version, files, runs, dropped, on_disk, l1_bytes, last_bytes }
    }

    /// A view of the same files with other memtables.
    pub(crate) fn with_memtables(&self, active: Arc<Memtable>, frozen: Vec<Arc<Memtable>>) -> Self {
        Self {
            active,
            dropped: indexes(&self.on_disk, &frozen),
            frozen,
            version: Arc::clone(&self.version),
            files: self.files.clone(),
            runs: self.runs.clone(),
            on_disk: Arc::clone(&self.on_disk),
            l1_bytes: self.l1_bytes,
            last_bytes: self.last_bytes,
        }
    }

    /// All its SSTables.
    pub(crate) fn ssts(&self) -> impl Iterator<Item = &Arc<SstReader>> {
        self.files.iter().flat_map(|run| run.iter())
    }

    /// The memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }

    /// The runs that have entries, newest first.
    pub(crate) fn runs(&self) -> &[Arc<SstRun>] {
        &self.runs
    }

    /// Whether a memtable may have entries of the row with this hash. `false` is certain for what
    /// was published before the view was taken. Takes no lock.
    #[inline]
    pub(crate) fn may_have_in_memory(&self, hash: u64) -> bool {
        self.memtables().any(|memtable| memtable.may_have_row(hash))
    }

    /// Returns whether a dropped range may cover `row` for a reader at `snapshot`.
    #[inline]
    pub(crate) fn drops(&self, row: &[u8], snapshot: SequenceNumber) -> bool {
        self.active.has_dropped()
            || self.dropped.iter().any(|ranges| ranges.may_cover(row, snapshot))
    }

    /// Whether a memtable, or an SSTable that is none of `inputs`, may have a tombstone of `row`, or
    /// one of all its ranges over the row is newer than `newest_range`. `false` is certain.
    pub(crate) fn may_delete(
        &self,
        row: &[u8],
        newest_range: SequenceNumber,
        inputs: &HashSet<FileNumber>,
    ) -> Result<bool> {
        let query = FilterQuery::row(row);
        for memtable in self.memtables() {
            if memtable.deletes(row, query.row_hash())? {
                return Ok(true);
            }
        }
        if self.on_disk.index.newest(row, SequenceNumber::MAX) > newest_range {
            return Ok(true);
        }
        for run in &self.runs {
            if let Some(sst) = run.sst_around(row)
                && !inputs.contains(&sst.number())
                && sst.may_have_tombstone(&query)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Its range tombstones, for a reader at `snapshot`.
    pub(crate) fn dropped_at(&self, snapshot: SequenceNumber) -> DroppedAt {
        let mut ranges = self.active.dropped_at(snapshot);
        if self.dropped.iter().all(|ranges| ranges.exact_at(snapshot)) {
            ranges.extend(self.dropped.iter().cloned());
            return DroppedAt::new(ranges, snapshot);
        }
        ranges.extend(self.frozen.iter().flat_map(|memtable| memtable.dropped_at(snapshot)));
        if self.on_disk.index.exact_at(snapshot) {
            ranges.push(Arc::clone(&self.on_disk.index));
        } else {
            let on_disk = self.ssts().flat_map(|sst| sst.range_tombstones());
            ranges.push(Arc::new(DroppedRanges::new(on_disk, vec![snapshot])));
        }
        DroppedAt::new(ranges, snapshot)
    }

    pub(crate) fn memtable_bytes(&self) -> usize {
        self.memtables().map(|memtable| memtable.bytes()).sum()
    }

    /// Bytes of the rows in `rows`, on disk and in memory, roughly.
    pub(crate) fn approximate_bytes(&self, rows: &RowRange) -> Result<u64> {
        let mut bytes = 0;
        for sst in self.runs.iter().flat_map(|run| run.ssts().iter()) {
            bytes += sst.approximate_bytes(rows)?;
        }
        let in_memory = if *rows == RowRange::ALL { self.memtable_bytes() } else { 0 };
        Ok(bytes + in_memory as u64)
    }

    /// Row keys that cut the tree into parts of about `part_bytes` bytes on disk, with the bytes
    /// before each: those of its largest run, scaled to the bytes of all.
    pub(crate) fn sample_rows(&self, part_bytes: u64) -> Result<Vec<(Vec<u8>, u64)>> {
        let bytes = |run: &OpenRun| run.iter().map(|sst| sst.bytes()).sum::<u64>();
        let runs = || self.runs.iter().map(|run| run.ssts());
        let Some(largest) = runs().max_by_key(|run| bytes(run)) else {
            return Ok(Vec::new());
        };
        let all: u64 = runs().map(bytes).sum();
        let scale = all as f64 / bytes(largest).max(1) as f64;
        let part = (part_bytes as f64 / scale) as u64;
        let (mut samples, mut before) = (Vec::new(), 0);
        for sst in largest.iter() {
            if before > 0 {
                samples.push((sst.properties().first_row.clone(), scaled(before, scale)));
            }
            for (row, offset) in sst.sample_rows(part)? {
                samples.push((row, scaled(before + offset, scale)));
            }
            before += sst.bytes();
        }
        Ok(samples)
    }
}

/// The indexes over what is `on_disk`, and over the range tombstones of `frozen`.
fn indexes(on_disk: &Dropped, frozen: &[Arc<Memtable>]) -> Vec<Arc<DroppedRanges>> {
    let mut indexes: Vec<_> = frozen.iter().flat_map(|memtable| memtable.dropped()).collect();
    indexes.extend((!on_disk.index.is_empty()).then(|| Arc::clone(&on_disk.index)));
    indexes
}

fn scaled(bytes: u64, scale: f64) -> u64 {
    (bytes as f64 * scale) as u64
}

/// A run without the SSTables that hold only range tombstones.
fn with_entries(run: &OpenRun) -> OpenRun {
    if run.iter().all(|sst| sst.properties().entries > 0) {
        return Arc::clone(run);
    }
    run.iter().filter(|sst| sst.properties().entries > 0).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;
    use crate::cell::{Column, FamilyId, Timestamp, TreeId};
    use crate::engine::Engine;
    use crate::options::{Options, TreeOptions};
    use base::env::Env;

    #[test]
    fn a_tree_knows_which_rows_something_newer_may_delete() {
        const TREE: TreeId = TreeId(1);
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open_with_env(Env::real(1), dir.path(), Options::default()).unwrap();
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
        let tree = engine.shared().tree(TREE).unwrap();
        let commit = |write: &dyn Fn(&mut WriteBatch)| {
            let mut batch = WriteBatch::new();
            write(&mut batch);
            engine.tree(TREE).unwrap().write(&batch).unwrap();
        };
        let files = || tree.view().ssts().map(|sst| sst.number()).collect::<HashSet<_>>();
        let deleted = |inputs: &HashSet<FileNumber>| -> String {
            let deleted = |row: &char| {
                let row = row.to_string();
                tree.view().may_delete(row.as_bytes(), SequenceNumber(0), inputs).unwrap()
            };
            ('a'..='h').filter(deleted).collect()
        };
        let column = Column::of(FamilyId(1), b"q");
        commit(&|batch| {
            ('a'..='h')
                .for_each(|row| batch.put(row.to_string().as_bytes(), column, Timestamp(1), b""));
        });
        engine.tree(TREE).unwrap().flush().unwrap();
        let puts = files();
        assert_eq!(deleted(&puts), "");
        commit(&|batch| batch.put(b"b", column, Timestamp(2), b""));
        assert_eq!(deleted(&puts), "", "puts of a memtable");
        commit(&|batch| batch.delete(b"c", column, crate::batch::TimestampRange::ALL));
        assert_eq!(deleted(&puts), "c", "a memtable");
        commit(&|batch| batch.drop_row_range(b"e", Some(b"g")));
        assert_eq!(deleted(&puts), "cef", "a range in a memtable");
        engine.tree(TREE).unwrap().flush().unwrap();
        assert_eq!(deleted(&puts), "cef", "a file");
        assert_eq!(deleted(&HashSet::new()), "cef", "an input without tombstones");
        let newest = |row: &[u8]| tree.view().on_disk.index.newest(row, SequenceNumber::MAX);
        assert!(!tree.view().may_delete(b"e", newest(b"e"), &files()).unwrap(), "all are inputs");
        assert!(!tree.view().may_delete(b"c", SequenceNumber(0), &files()).unwrap());
    }

    #[test]
    fn range_tombstones_on_disk_are_indexed_when_other_files_have_some() {
        const TREE: TreeId = TreeId(1);
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open_with_env(Env::real(1), dir.path(), Options::default()).unwrap();
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
        let tree = engine.shared().tree(TREE).unwrap();
        let index = || Arc::clone(&tree.view().on_disk.index);
        let flushed = |change: &dyn Fn(&mut WriteBatch)| {
            let mut batch = WriteBatch::new();
            change(&mut batch);
            engine.tree(TREE).unwrap().write(&batch).unwrap();
            engine.tree(TREE).unwrap().flush().unwrap();
            index()
        };
        let put = |row: &'static [u8]| {
            move |batch: &mut WriteBatch| {
                batch.put(row, Column::of(FamilyId(1), b"q"), Timestamp(1), b"");
            }
        };
        flushed(&put(b"a"));
        let snapshot = engine.snapshot();
        let one = flushed(&|batch| batch.drop_row_range(b"a", Some(b"c")));
        assert!(Arc::ptr_eq(&one, &flushed(&put(b"b"))), "a file without ranges");
        assert!(one.exact_at(snapshot.sequence()) && one.exact_at(engine.snapshot().sequence()));
        let two = flushed(&|batch| batch.drop_row_range(b"d", None));
        assert!(two.newest(b"e", SequenceNumber::MAX) > one.newest(b"e", SequenceNumber::MAX));
        drop(snapshot);
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
        assert!(index().is_empty());
    }
}
