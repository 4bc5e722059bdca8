//! A small store to back up, and what it holds.

use backup::{Backup, BackupId, Begun, Created, Destination, Meter, Removed, Result, Source};
use base::env::{Clock, Env, FileSystem, SystemClock};
use engine::checkpoint::{Copied, checkpoint_dir, contents, store_id};
use engine::{
    Column, Engine, FamilyId, IngestOptions, Options, RowRange, ScanRequest, Timestamp, TreeId,
    TreeOptions, WriteBatch,
};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const TREES: [TreeId; 2] = [TreeId(1), TreeId(2)];

/// All cells of all trees.
pub(crate) type Content = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

pub(crate) fn options() -> Options {
    Options {
        memtable_bytes_max: 64 << 10,
        log_segment_bytes: 64 << 10,
        sst_bytes_max: 64 << 10,
        // Nothing is merged unless a test says so.
        l0_runs_compact: 32,
        l0_runs_stall: 48,
        cache_bytes_max: Some(4 << 20),
        ..Options::default()
    }
}

/// A store in a directory of its own, and room beside it.
pub(crate) struct Home {
    root: tempfile::TempDir,
    engine: Engine,
    /// Gives every backup another id.
    backups: AtomicU32,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    /// A store that may have files of many megabytes.
    pub(crate) fn of_large_files() -> Self {
        Self::with(Options { sst_bytes_max: 64 << 20, ..options() })
    }

    fn with(options: Options) -> Self {
        let root = tempfile::tempdir().unwrap();
        let engine =
            Engine::open_with_env(Env::real(1), &root.path().join("data"), options).unwrap();
        let home = Self { root, engine, backups: Default::default() };
        for tree in TREES {
            home.engine().create_tree(tree, TreeOptions::default()).unwrap();
        }
        home
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes `rows` to both trees; a later call with the same rows overwrites.
    pub(crate) fn write(&self, rows: std::ops::Range<u32>, value: u8) {
        for tree in TREES {
            for row in rows.clone() {
                let mut batch = WriteBatch::new();
                let column = Column::of(FamilyId(1), b"q");
                batch.put(&row.to_be_bytes(), column, Timestamp(0), &noise(row, value, 300));
                self.engine().tree(tree).unwrap().write(&batch).unwrap();
            }
        }
    }

    pub(crate) fn flush(&self) {
        TREES.iter().for_each(|tree| self.engine().tree(*tree).unwrap().flush().unwrap());
    }

    pub(crate) fn compact(&self) {
        for tree in TREES {
            self.engine().tree(tree).unwrap().compact_range(&RowRange::ALL).unwrap();
        }
    }

    /// Puts one SSTable of more than `bytes` into the first tree.
    pub(crate) fn ingest(&self, bytes: u32) {
        let options = IngestOptions::default();
        let mut writer = self.engine().tree(TREES[0]).unwrap().sst_writer(&options).unwrap();
        for row in 0..bytes / 10_000 + 1 {
            let key = [&b"large"[..], &row.to_be_bytes()].concat();
            let column = Column::of(FamilyId(1), b"q");
            writer.put(&key, column, Timestamp(0), &noise(row, 9, 10_000)).unwrap();
        }
        self.engine().ingest(&mut writer.finish().unwrap()).unwrap();
    }

    /// A checkpoint as it is now, and what it must hold.
    pub(crate) fn checkpoint(&self, name: &str) -> (Source, Content) {
        let dir = self.path(name);
        self.engine().store_id().unwrap();
        self.engine().checkpoint(&dir).unwrap();
        (source(&dir), content(self.engine()))
    }

    /// The id of another backup.
    pub(crate) fn id(&self) -> BackupId {
        let number = self.backups.fetch_add(1, Ordering::Relaxed);
        BackupId::new(1_700_000_000_000_000 + i64::from(number) * 1_000_000, 7)
    }

    /// A checkpoint of the closed directory `from`, which is another store from now on if `copied`
    /// says so.
    pub(crate) fn copy(&self, from: &str, to: &str, copied: Copied) -> Source {
        let env = Env::real(1);
        checkpoint_dir(&env, &self.path(from), &self.path(to), copied).unwrap();
        store_id(&env, &self.path(to)).unwrap();
        source(&self.path(to))
    }
}

pub(crate) fn fs() -> Arc<dyn FileSystem> {
    Env::real(1).fs
}

pub(crate) fn source(dir: &Path) -> Source {
    let contents = contents(&fs(), dir).unwrap();
    let taken_micros = SystemClock.now_micros();
    Source { fs: fs(), dir: dir.to_owned(), contents, taken_micros, place: "here".into() }
}

/// Bytes that do not compress.
fn noise(row: u32, value: u8, len: usize) -> Vec<u8> {
    let mut rng = base::env::Rng::new(u64::from(row) << 8 | u64::from(value));
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

pub(crate) fn content(engine: &Engine) -> Content {
    let mut content = Content::new();
    for tree in engine.trees() {
        let request = ScanRequest::rows(RowRange::ALL);
        let mut scan = engine.tree(tree).unwrap().scan(&request, None).unwrap();
        while let Some(row) = scan.next_row().unwrap() {
            let row = row.to_vec();
            while let Some(cell) = scan.next_cell().unwrap() {
                let before = content.insert((tree.0, row.clone()), cell.value.to_vec());
                assert!(before.is_none(), "one cell a row");
            }
        }
    }
    content
}

/// What a restored directory holds, which passes a check.
pub(crate) fn content_of(dir: &Path) -> Content {
    let report = engine::check::check_dir(&Env::real(1), dir, &mut |_| ()).unwrap();
    assert_eq!(report.findings, []);
    content(&Engine::open_with_env(Env::real(1), dir, options()).unwrap())
}

pub(crate) fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

pub(crate) fn at(store: &Arc<dyn ObjectStore>) -> Destination {
    Destination::new(Arc::clone(store), ObjectPath::from("some/prefix"), "memory")
}

pub(crate) async fn create(to: &Destination, source: &Source, id: &BackupId) -> Result<Created> {
    backup::create(to, source, id, &SystemClock, &Meter::silent()).await
}

pub(crate) async fn restore(from: &Destination, id: &BackupId, into: &Path) -> Result<()> {
    let backup: Backup = backup::find(from, Some(id)).await?;
    let restored =
        backup::restore(from, &backup, &fs(), into, &Meter::silent(), |_| Ok(())).await?;
    assert_eq!(restored.point, backup.record.point);
    Ok(())
}

pub(crate) async fn remove(from: &Destination, ids: &[BackupId], own: u32) -> Result<Removed> {
    let begun = Begun { micros: 1, place: "here".into() };
    backup::remove(from, ids, &BackupId::new(1, own), &begun).await
}

/// The backups that can be seen, none of them damaged.
pub(crate) async fn visible(from: &Destination) -> Vec<BackupId> {
    let listed = backup::list(from).await.unwrap().backups;
    listed.into_iter().map(|(id, record)| record.map(|_| id).unwrap()).collect()
}

/// Every backup that can be seen is whole.
pub(crate) async fn all_whole(from: &Destination) {
    let verified = backup::verify(from, None, &Meter::silent()).await.unwrap();
    assert_eq!(verified.findings, []);
}
