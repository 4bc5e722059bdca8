//! A load whose I/O takes long is in nobody's way.

use crate::harness::{Harness, set};
use base::env::fs::{ReadFile, WriteFile};
use base::env::{Env, FileSystem, RealFileSystem};
use engine::{Engine, IngestOptions, Options};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use table::shape::Shape;
use table::*;

/// A file system on which whoever creates an SSTable waits, once that was asked for.
#[derive(Default)]
struct Blocking {
    /// Tells that somebody waits, and lets go.
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Blocking {
    /// Blocks whoever comes next. Gives what tells that somebody waits, and what lets go.
    fn block(&self) -> (Receiver<()>, Sender<()>) {
        let ((came, wait), (go, hold)) = (channel(), channel());
        *self.gate.lock() = Some((came, hold));
        (wait, go)
    }

    fn pass(&self, path: &Path) {
        if path.extension().is_none_or(|kind| kind != "sst") {
            return;
        }
        let gate = self.gate.lock().take();
        if let Some((came, hold)) = gate {
            came.send(()).unwrap();
            // An error: the test is over.
            let _ = hold.recv();
        }
    }
}

impl FileSystem for Blocking {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        RealFileSystem.open_read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.pass(path);
        RealFileSystem.create(path)
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

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealFileSystem.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        RealFileSystem.lock(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        RealFileSystem.free_bytes(path)
    }
}

/// While a load writes what memtables hold of its rows, writes and schema changes go on, also where
/// one write at a time may block; and what they change of the table is seen when the load goes on.
#[tokio::test]
async fn writes_and_schema_changes_go_on_while_a_load_waits_for_its_disk() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Arc::new(Blocking::default());
    let env = Env { fs: fs.clone(), ..Env::real(1) };
    let (clock, engine) =
        (env.clock.clone(), Engine::open_with_env(env, dir.path(), Options::default()).unwrap());
    let shape = Shape { writes_max: 1, ..Shape::DEFAULT };
    let local = Local::open_shaped(engine.clone(), clock, shape).unwrap();
    let name = |name: &str| TableName::new(format!("projects/p/instances/i/tables/{name}"));
    let [loaded, other, new] = ["loaded", "other", "new"].map(|table| name(table).unwrap());
    let table = |name: &TableName| CreateTable {
        name: name.clone(),
        families: ["f", "g"].map(|family| (family.into(), FamilySpec::default())).into(),
        splits: vec![],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    local.create_table(table(&loaded)).await.unwrap();
    local.create_table(table(&other)).await.unwrap();
    let row =
        |value: &str| RowMutations { row: "r".into(), mutations: vec![set("f", "q", 1, value)] };
    for dropped in [false, true] {
        local.mutate_row(&loaded, row("in a memtable")).await.unwrap();
        let mut load = local.load(&loaded, &IngestOptions::default()).unwrap();
        load.add(&row("loaded")).unwrap();
        let rows = load.finish().unwrap();
        let (waits, go) = fs.block();
        let installing = tokio::spawn({
            let local = local.clone();
            async move { local.install(rows).await }
        });
        tokio::task::spawn_blocking(move || waits.recv().unwrap()).await.unwrap();
        local.mutate_row(&other, row("value")).await.unwrap();
        let rule = ReadModifyWriteRule {
            family: "f".into(),
            qualifier: "n".into(),
            modify: table::mutate::Modify::Increment(1),
        };
        local.read_modify_write_row(&other, "r".into(), vec![rule]).await.unwrap();
        local.create_table(table(&new)).await.unwrap();
        local.delete_table(&new).await.unwrap();
        if dropped {
            let drop = FamilyChange::Drop { name: "f".into() };
            local.modify_families(&loaded, vec![drop]).await.unwrap();
        }
        go.send(()).unwrap();
        let installed = installing.await.unwrap();
        let refused = matches!(installed, Err(Error::FailedPrecondition(_)));
        assert_eq!(refused, dropped, "{installed:?}");
        assert!(refused || installed.is_ok(), "{installed:?}");
    }
}

/// A request of many rows holds the times of a bounded number of them at once: each commit is of no
/// more, while rows whose writer gives the times share one.
#[tokio::test]
async fn rows_at_the_servers_time_are_committed_a_bounded_number_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let Harness { engine, clock, name, .. } = Harness::open(dir.path());
    let shape = Shape { timed_rows_max: 3, ..Shape::DEFAULT };
    let local = Local::open_shaped(engine.clone(), clock, shape).unwrap();
    let family = vec![("f".to_owned(), FamilySpec::default())];
    let (splits, deletion_protection) = (vec![], false);
    let table = CreateTable {
        name: name.clone(),
        families: family,
        splits,
        deletion_protection,
        granularity: Default::default(),
        row_key_schema: None,
    };
    local.create_table(table).await.unwrap();
    let batches = || engine.metrics().get("commit_batches_total").unwrap();
    for (timestamp, commits) in [(-1, 4), (1000, 1)] {
        let timestamp = table::mutate::WriteTime::from_micros(timestamp);
        let row = |number: u8| RowMutations {
            row: vec![b'r', number].into(),
            mutations: vec![RowMutation::SetCell {
                family: "f".into(),
                qualifier: "q".into(),
                timestamp,
                value: "v".into(),
            }],
        };
        let before = batches();
        let written = local.mutate_rows(&name, (0..10).map(row).collect()).await.unwrap();
        assert!(written.iter().all(Result::is_ok), "{written:?}");
        assert_eq!(batches() - before, commits);
    }
}
