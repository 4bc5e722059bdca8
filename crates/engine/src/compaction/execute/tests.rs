//! Whole lives of a tree on disk: flushed, compacted by plan and by hand, read back entry by
//! entry; and failures at every call of the file system.

use super::*;
use crate::cache::CacheFeatures;
use crate::compaction::pick::{Busy, Manual, manual, pick};
use crate::compaction::signals::Signals;
use crate::compaction::testing::{Change, batch_of, changes};
use crate::files::open_files::OpenFiles;
use crate::manifest::{LogPosition, State, TreeVersion};
use crate::memory::budget::Use;
use crate::options::{FilterGranularity, Options, TreeOptions};
use crate::semantics::model::{Model, OwnedEntry};
use crate::semantics::row_cursor::testing::Owned;
use crate::shape::Shape;
use crate::sstable::BlockCache;
use base::env::FileSystem;
use base::env::RealFileSystem;
use base::env::fs::{ReadFile, WriteFile};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

const TREE: TreeId = TreeId(7);

/// The machine's files, until its calls are used up; then every change fails.
struct Faulty {
    calls_left: AtomicUsize,
}

impl Faulty {
    fn call(&self) -> io::Result<()> {
        let less = |left: usize| left.checked_sub(1);
        match self.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("the disk is sick")),
        }
    }
}

struct FaultyFile(Arc<Faulty>, Box<dyn WriteFile>);

impl WriteFile for FaultyFile {
    fn write_all_at(&mut self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.call()?;
        self.1.write_all_at(data, offset)
    }
    fn allocate(&mut self, len: u64) -> io::Result<()> {
        self.1.allocate(len)
    }
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.1.set_len(len)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.0.call()
    }
    fn size(&self) -> io::Result<u64> {
        self.1.size()
    }
}

struct FaultyFs(Arc<Faulty>);

impl FileSystem for FaultyFs {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.0.call()?;
        RealFileSystem.open_read(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.0.call()?;
        Ok(Box::new(FaultyFile(Arc::clone(&self.0), RealFileSystem.create(path)?)))
    }
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        RealFileSystem.open_write(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFileSystem.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealFileSystem.remove_file(path)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFileSystem.hard_link(from, to)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        RealFileSystem.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        RealFileSystem.list(dir)
    }
    fn size(&self, path: &Path) -> io::Result<u64> {
        RealFileSystem.size(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealFileSystem.exists(path)
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.0.call()
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        RealFileSystem.lock(path)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        RealFileSystem.free_bytes(path)
    }
}

/// All rows, divided at `borders`, which ascend.
fn between(borders: &[Vec<u8>]) -> Vec<RowRange> {
    let starts = std::iter::once(Vec::new()).chain(borders.iter().cloned());
    let ends = borders.iter().cloned().map(Some).chain([None]);
    starts.zip(ends).map(|(start, end)| RowRange { start, end }).collect()
}

/// A tree on disk.
struct TreeState {
    dir: tempfile::TempDir,
    fs: FaultyFs,
    options: Options,
    tree_options: TreeOptions,
    cache: Arc<BlockCache>,
    ahead: Arc<ReadaheadSource>,
    state: State,
    readers: BTreeMap<FileNumber, Arc<SstReader>>,
    model: Model,
    next_file: Cell<u64>,
    position: u64,
}

impl TreeState {
    fn new(sst_bytes_max: u64, l1_bytes_max: u64) -> Self {
        let tree_options = TreeOptions { block_bytes: 1 << 10, ..TreeOptions::default() };
        let create = Edit::CreateTree { tree: TREE, options: tree_options.clone() };
        let faulty = Arc::new(Faulty { calls_left: AtomicUsize::new(usize::MAX) });
        Self {
            dir: tempfile::tempdir().unwrap(),
            ahead: ReadaheadSource::new(
                Arc::new(FaultyFs(Arc::clone(&faulty))),
                64 << 20,
                &Shape::DEFAULT,
            ),
            fs: FaultyFs(faulty),
            options: Options {
                l0_runs_compact: 2,
                sst_bytes_max,
                l1_bytes_max,
                ..Options::default()
            },
            tree_options,
            cache: BlockCache::new(1 << 20, CacheFeatures::PASSING),
            state: State::default().apply(&[create]).unwrap(),
            readers: BTreeMap::new(),
            model: Model::default(),
            next_file: Cell::new(1),
            position: 0,
        }
    }

    fn version(&self) -> &TreeVersion {
        self.state.tree(TREE).unwrap()
    }

    fn with_writing<T>(&self, work: impl FnOnce(&Writing<'_>) -> T) -> T {
        work(&Writing {
            fs: &self.fs,
            dir: self.dir.path(),
            options: &self.options,
            tree: TREE,
            flushed: LogPosition(self.position),
            tree_options: &self.tree_options,
            filter_granularity: FilterGranularity::Column,
            open_files: &OpenFiles::new(Arc::new(FaultyFs(Arc::clone(&self.fs.0))), &self.options),
            cache: &self.cache,
            new_file: &|| Ok(FileNumber(self.next_file.replace(self.next_file.get() + 1))),
            cancelled: &|| false,
            wrote: &|_| (),
        })
    }

    fn memtable(&mut self, changes: &[Change]) -> Arc<Memtable> {
        let memtable = Arc::new(Memtable::default());
        for change in changes {
            let batch = batch_of(change);
            let first = SequenceNumber(self.position + 1);
            self.position += batch.len() as u64;
            memtable.apply(&batch.freeze().unwrap(), first, LogPosition(self.position));
            self.model.apply(&batch, first);
        }
        memtable
    }

    fn flush(&mut self, memtable: &Arc<Memtable>, snapshots: &[SequenceNumber]) -> Result<()> {
        self.flush_all(std::slice::from_ref(memtable), snapshots)
    }

    fn flush_all(
        &mut self,
        memtables: &[Arc<Memtable>],
        snapshots: &[SequenceNumber],
    ) -> Result<()> {
        let run = self.version().next_run();
        let written = self.with_writing(|w| flush(w, memtables, run, snapshots.to_vec()))?;
        self.install(written);
        Ok(())
    }

    fn compact(&mut self, plan: &Plan, snapshots: &[SequenceNumber]) -> Result<()> {
        self.compact_divided(plan, snapshots, &[])
    }

    /// The same in subcompactions that end at `borders`, the last of them written first.
    fn compact_divided(
        &mut self,
        plan: &Plan,
        snapshots: &[SequenceNumber],
        borders: &[Vec<u8>],
    ) -> Result<()> {
        let written = self.with_writing(|writing| self.merge(writing, plan, snapshots, borders))?;
        self.install(written);
        Ok(())
    }

    fn merge(
        &self,
        writing: &Writing<'_>,
        plan: &Plan,
        snapshots: &[SequenceNumber],
        borders: &[Vec<u8>],
    ) -> Result<Written> {
        if plan.work == Work::Move {
            return Ok(moved(TREE, plan));
        }
        let inputs = Inputs {
            open: &|number| Arc::clone(&self.readers[&number]),
            snapshots: snapshots.to_vec(),
            policy: Box::new(KeepAll),
            above: Box::new(|_, _| Ok(false)),
            published: SequenceNumber(0),
            ahead: Some(Arc::clone(&self.ahead)),
        };
        let merging = Merging::new(writing, Arc::new(plan.clone()), inputs);
        let mut subcompactions = Vec::new();
        for rows in between(borders).iter().rev() {
            match merging.write(writing, rows) {
                Ok(subcompaction) => subcompactions.insert(0, subcompaction),
                Err(error) => {
                    subcompactions
                        .into_iter()
                        .for_each(|subcompaction| subcompaction.discard(writing));
                    return Err(error);
                }
            }
        }
        Ok(merging.finish(subcompactions))
    }

    /// Divided at `borders`, `plan` writes the same entries and the same range tombstones.
    fn compare_divided(&self, plan: &Plan, snapshots: &[SequenceNumber], borders: &[Vec<u8>]) {
        let written = |subcompactions: &[Vec<u8>]| {
            let merge = |w: &Writing<'_>| self.merge(w, plan, snapshots, subcompactions);
            let written = self.with_writing(merge).unwrap();
            let spans = added(&written).map(SstMeta::span).collect::<Vec<_>>();
            let apart =
                |pair: &[RowRange]| pair[0].end.as_ref().is_some_and(|end| *end <= pair[1].start);
            assert!(spans.windows(2).all(apart), "in order and disjoint: {spans:?}");
            let contents = contents_of(&written.readers, borders);
            for reader in &written.readers {
                std::fs::remove_file(reader.path()).unwrap();
            }
            (contents, written.counts)
        };
        if plan.work == Work::Merge {
            assert_eq!(written(borders), written(&[]), "divided at {borders:?}");
        }
    }

    fn install(&mut self, written: Written) {
        self.state = self.state.apply(&written.edits).unwrap();
        for number in &written.obsolete {
            self.readers.remove(number);
            std::fs::remove_file(number.sst_path(self.dir.path())).unwrap();
        }
        self.readers.extend(written.readers.into_iter().map(|reader| (reader.number(), reader)));
        let listed: Vec<FileNumber> = self.state.files().into_iter().collect();
        assert_eq!(listed, self.readers.keys().copied().collect::<Vec<_>>());
        assert_eq!(listed, self.files());
    }

    /// What is in the directory.
    fn files(&self) -> Vec<FileNumber> {
        let names = RealFileSystem.list(self.dir.path()).unwrap();
        names.iter().map(|name| FileNumber::of_sst(name).unwrap()).collect()
    }

    fn check(&self, views: &[SequenceNumber]) {
        let mut got = Model::default();
        for run in self.version().runs() {
            let ssts = run.ssts.iter().map(|sst| Arc::clone(&self.readers[&sst.number]));
            let ssts: Arc<[Arc<SstReader>]> = ssts.collect();
            for tombstone in ssts.iter().flat_map(|sst| sst.range_tombstones()) {
                got.drop_range(tombstone.clone());
            }
            let with_entries = ssts.iter().filter(|sst| sst.properties().entries > 0);
            let with_entries: Arc<[Arc<SstReader>]> = with_entries.cloned().collect();
            let all = 0..with_entries.len();
            let run = Arc::new(SstRun::new(with_entries));
            let mut cursor = RunCursor::new(run, all, CacheFill::Bypass);
            cursor.seek(&[]).unwrap();
            while let Some(row) = cursor.row().map(<[u8]>::to_vec) {
                while cursor.entry().is_some() {
                    got.add(&row, OwnedEntry::copy_of(&cursor.entry_with_value().unwrap()));
                    cursor.next_entry().unwrap();
                }
                cursor.next_row().unwrap();
            }
        }
        for view in views.iter().copied().chain([SequenceNumber::MAX]) {
            for row in b'a'..=b'z' {
                let want = self.model.row_at(&[row], view);
                assert_eq!(got.row_at(&[row], view), want, "row {row} at {view:?}");
            }
        }
    }
}

/// What `written` adds, in its order.
fn added(written: &Written) -> impl Iterator<Item = &SstMeta> {
    written.edits.iter().filter_map(|edit| match edit {
        Edit::AddSst { meta, .. } => Some(meta),
        _ => None,
    })
}

/// All entries of `ssts`, which are in row order, and of many rows, `borders` among them, the
/// numbers of the range tombstones that cover them.
fn contents_of(
    ssts: &[Arc<SstReader>],
    borders: &[Vec<u8>],
) -> (Vec<Owned>, Vec<Vec<SequenceNumber>>) {
    let mut entries = Vec::new();
    for sst in ssts {
        let mut cursor = sst.cursor(CacheFill::Bypass);
        cursor.seek(&[]).unwrap();
        while let Some(row) = cursor.row().map(<[u8]>::to_vec) {
            while cursor.entry().is_some() {
                let entry = OwnedEntry::copy_of(&cursor.entry_with_value().unwrap());
                entries.push((row.clone(), entry));
                cursor.next_entry().unwrap();
            }
            cursor.next_row().unwrap();
        }
    }
    let rows = (b'a'..=b'z').map(|row| vec![row]).chain(borders.iter().cloned()).chain([vec![]]);
    let covering = |row: Vec<u8>| {
        let tombstones = ssts.iter().flat_map(|sst| sst.range_tombstones());
        let mut covering: Vec<SequenceNumber> =
            tombstones.filter(|t| t.covers(&row)).map(|t| t.sequence).collect();
        covering.sort_unstable();
        covering
    };
    (entries, rows.map(covering).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_tree_on_disk_reads_the_same_after_flushes_and_compactions(
        flushes in proptest::collection::vec((changes(8), any::<u8>()), 1..8),
        mut snapshots in proptest::collection::vec(1u64..200, 0..3),
        (sst, l1) in (1u64..4_000, 1u64..20_000),
        borders in proptest::collection::btree_set("[a-j][ab\\x00]?", 0..4),
    ) {
        let borders: Vec<Vec<u8>> = borders.into_iter().map(String::into_bytes).collect();
        let mut tree = TreeState::new(sst, l1);
        let mut waiting = Vec::new();
        for (changes, choice) in &flushes {
            let views: Vec<_> = snapshots.iter().copied().map(SequenceNumber).collect();
            waiting.insert(0, tree.memtable(changes));
            if choice % 5 == 0 {
                continue;
            }
            tree.flush_all(&std::mem::take(&mut waiting), &views).unwrap();
            tree.check(&views);
            if choice % 4 == 0 {
                snapshots.pop();
            }
            let views: Vec<_> = snapshots.iter().copied().map(SequenceNumber).collect();
            let by_hand = RowRange { start: vec![b'a' + choice % 8], end: None };
            let busy = Busy::default();
            let plan = match choice % 3 {
                0 => match manual(tree.version(), &by_hand, &tree.options, &busy) {
                    Manual::Plan(plan) => Some(plan),
                    _ => None,
                },
                _ => picked(&tree),
            };
            if let Some(plan) = plan {
                tree.compare_divided(&plan, &views, &borders);
                tree.compact_divided(&plan, &views, &borders).unwrap();
                tree.check(&views);
            }
        }
    }
}

/// What the shape of the tree asks for.
fn picked(tree: &TreeState) -> Option<Plan> {
    let picked = pick(tree.version(), &tree.options, &Busy::default(), &Signals::default());
    picked.map(|(plan, _)| plan)
}

/// Rows enough for several files, overwritten once.
fn two_runs() -> TreeState {
    let mut tree = TreeState::new(2_000, 1 << 20);
    for round in 0..2 {
        let change = |n: u8| (n % 15, n % 26, 1, 0, i64::from(n % 4), round);
        let changes: Vec<Change> = (0..200).map(change).collect();
        let memtable = tree.memtable(&changes);
        tree.flush(&memtable, &[]).unwrap();
    }
    tree
}

#[test]
fn outputs_are_cut_by_size_and_nothing_is_left_that_is_not_needed() {
    let mut tree = two_runs();
    let Manual::Plan(plan) =
        manual(tree.version(), &RowRange::ALL, &tree.options, &Busy::default())
    else {
        panic!("there is something to do");
    };
    tree.options.sst_bytes_max = 1;
    tree.compact(&plan, &[]).unwrap();
    tree.check(&[]);
    let [l0, l1, last] = &tree.version().levels;
    assert!(l0.is_empty() && l1.is_empty() && last.len() == 1);
    assert!(last[0].ssts.len() > 5, "{} files", last[0].ssts.len());
    for sst in &last[0].ssts {
        assert_eq!(sst.first_row, sst.last_row, "a row a file");
        assert_eq!((sst.tombstones, sst.range_tombstones), (0, 0));
    }
}

#[test]
fn a_failure_at_any_call_leaves_no_file_and_can_be_repeated() {
    let mut tree = two_runs();
    let plan = picked(&tree).unwrap();
    let before = tree.files();
    let mut failures = 0;
    for calls in 0.. {
        tree.fs.0.calls_left.store(calls, Ordering::Relaxed);
        match tree.compact_divided(&plan, &[], &[b"h".to_vec(), b"p".to_vec()]) {
            Ok(()) => break,
            Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
        }
        assert_eq!(tree.files(), before, "after {calls} calls");
        failures += 1;
    }
    assert!(failures >= 5, "{failures}");
    tree.check(&[]);
}

#[test]
fn a_cancelled_compaction_leaves_nothing() {
    let tree = two_runs();
    let plan = picked(&tree).unwrap();
    let before = tree.files();
    let rows = Cell::new(0);
    let outcome = tree.with_writing(|writing| {
        let cancelled = || rows.replace(rows.get() + 1) == 3;
        tree.merge(&Writing { cancelled: &cancelled, ..*writing }, &plan, &[], &[])
    });
    assert!(matches!(outcome, Err(Error::Closed)));
    assert_eq!(tree.files(), before);
}

#[test]
fn memtables_that_waited_become_one_run() {
    let mut tree = TreeState::new(1 << 20, 1 << 20);
    let older = tree.memtable(&[(1, 1, 1, 0, 1, 0), (2, 1, 1, 0, 1, 0)]);
    let newer = tree.memtable(&[(1, 1, 1, 0, 1, 1)]);
    let flushed = newer.position();
    tree.flush_all(&[newer, older], &[]).unwrap();
    tree.check(&[]);
    assert_eq!(tree.version().runs().count(), 1);
    let origin = tree.readers.values().next().unwrap().properties().origin.as_ref();
    assert_eq!(origin.map(|origin| origin.position), Some(flushed.0), "that of the newest");
}

#[test]
fn an_empty_memtable_writes_no_file() {
    let mut tree = TreeState::new(1_000, 1_000);
    tree.flush(&Arc::default(), &[]).unwrap();
    assert!(tree.files().is_empty());
}

#[test]
fn dropped_files_are_not_read() {
    let mut tree = two_runs();
    let drop_all = (15, 0, 1, 0, 0, 0);
    let memtable = tree.memtable(&[drop_all]);
    tree.flush(&memtable, &[]).unwrap();
    // Bytes that are not read may be anything.
    for number in &tree.files()[..2] {
        let path = number.sst_path(tree.dir.path());
        let mut file = RealFileSystem.open_write(&path).unwrap();
        file.write_all_at(&[0xee; 600], 0).unwrap();
    }
    let Manual::Plan(plan) =
        manual(tree.version(), &RowRange::ALL, &tree.options, &Busy::default())
    else {
        panic!("there is something to do");
    };
    tree.compact(&plan, &[]).unwrap();
    assert!(tree.files().is_empty(), "all rows were dropped");
}

#[test]
fn what_a_file_gathers_is_charged_until_it_is_finished() {
    let tree = TreeState::new(64 << 20, 64 << 20);
    let memtable = Arc::new(Memtable::default());
    let mut random = base::env::Rng::new(5);
    for row in 0..3000u64 {
        let value: Vec<u8> = (0..50).flat_map(|_| random.next_u64().to_be_bytes()).collect();
        let mut batch = crate::batch::WriteBatch::new();
        let column = crate::cell::Column::of(crate::cell::FamilyId(1), b"q");
        batch.put(&row.to_be_bytes(), column, crate::cell::Timestamp(1), &value);
        memtable.apply(&batch.freeze().unwrap(), SequenceNumber(row + 1), LogPosition(row + 1));
    }
    let charged = || tree.cache.budget().charged(Use::Building);
    let seen = std::cell::RefCell::new(Vec::new());
    let wrote = |_| seen.borrow_mut().push(charged());
    let run = tree.version().next_run();
    let written = tree.with_writing(|writing| {
        flush(
            &Writing { wrote: &wrote, ..*writing },
            std::slice::from_ref(&memtable),
            run,
            Vec::new(),
        )
    });
    assert_eq!(written.unwrap().readers.len(), 1);
    let seen = seen.into_inner();
    // 1.2 MB in blocks of 1 KiB: an index and a filter grow, beside what waits to be written.
    assert!(seen.len() > 3 && seen.is_sorted() && seen[1] > 0, "{seen:?}");
    assert!(seen.iter().all(|bytes| *bytes < 1 << 20), "{seen:?}");
    assert_eq!(charged(), 0);
}
