//! I/O that takes long delays nothing else: that of a load, that of a flush for which writers wait.

use crate::blocking_fs::{At, Blocking};
use crate::harness::{Harness, set};
use base::env::Env;
use engine::{Durability, Engine, IngestOptions, Options};
use std::pin::pin;
use std::sync::Arc;
use table::shape::Shape;
use table::*;

/// While a load writes what memtables hold of its rows, writes and schema changes go on, also where
/// one write at a time may block; and what they change of the table is seen when the load goes on.
#[tokio::test]
async fn writes_and_schema_changes_go_on_while_a_load_waits_for_its_disk() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Blocking::default();
    let env = Env { fs: Arc::new(fs.clone()), ..Env::real(1) };
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
        let (waits, go) = fs.block(At::CreateSst);
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

fn table_name(name: &str) -> TableName {
    TableName::new(format!("projects/p/instances/i/tables/{name}")).unwrap()
}

async fn create(local: &Local, name: &TableName) {
    let families = vec![("f".to_owned(), FamilySpec::default())];
    let table = CreateTable {
        name: name.clone(),
        families,
        splits: vec![],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    local.create_table(table).await.unwrap();
}

fn append(suffix: &'static str) -> Vec<ReadModifyWriteRule> {
    let modify = table::mutate::Modify::Append(suffix.into());
    vec![ReadModifyWriteRule { family: "f".into(), qualifier: "q".into(), modify }]
}

/// A write whose caller is gone has its row until it has been committed: what reads the row to change
/// it comes after.
#[tokio::test]
async fn a_cancelled_write_has_its_row_until_its_commit_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Blocking::default();
    let env = Env { fs: Arc::new(fs.clone()), ..Env::real(1) };
    let clock = env.clock.clone();
    let options = Options { durability: Durability::Sync, ..Options::default() };
    let engine = Engine::open_with_env(env, dir.path(), options).unwrap();
    let local = Local::open(engine, clock).unwrap();
    let name = table_name("t");
    create(&local, &name).await;
    let row = |time, value: &str| RowMutations {
        row: "r".into(),
        mutations: vec![set("f", "q", time, value)],
    };
    local.mutate_row(&name, row(1000, "first")).await.unwrap();
    for (round, changed) in ["row", "rows", "check", "modify"].into_iter().enumerate() {
        let (waits, go) = fs.block(At::SyncLog);
        let (value, time) = (format!("{changed}."), 2000 + 1000 * round as i64);
        let row = row(time, &value);
        let change = async {
            match changed {
                "row" => local.mutate_row(&name, row).await.unwrap(),
                "rows" => drop(local.mutate_rows(&name, vec![row]).await.unwrap()),
                "check" => {
                    let (row, on_true) = (row.row, row.mutations);
                    let (predicate, on_false) = (None, vec![]);
                    let request = CheckAndMutate { row, predicate, on_true, on_false };
                    assert!(local.check_and_mutate_row(&name, request).await.unwrap());
                }
                _ => {
                    let rules = append("modify.");
                    local.read_modify_write_row(&name, "r".into(), rules).await.unwrap();
                }
            }
        };
        {
            let mut change = pin!(change);
            assert!(futures::poll!(&mut change).is_pending(), "{changed}");
            tokio::task::spawn_blocking(move || waits.recv().unwrap()).await.unwrap();
        }
        let mut next = local.read_modify_write_row(&name, "r".into(), append("+"));
        assert!(futures::poll!(&mut next).is_pending(), "{changed}");
        go.send(()).unwrap();
        let after = String::from_utf8(next.await.unwrap().cells[0].value.to_vec()).unwrap();
        assert!(after.ends_with(&format!("{value}+")), "{changed}: {after}");
        // Times of clients are older than the server's: the next change is to be the newest.
        let clear = RowMutations { row: "r".into(), mutations: vec![RowMutation::DeleteFromRow] };
        local.mutate_row(&name, clear).await.unwrap();
        local.mutate_row(&name, row_of("first")).await.unwrap();
    }
}

fn row_of(value: &str) -> RowMutations {
    RowMutations { row: "r".into(), mutations: vec![set("f", "q", 1000, value)] }
}

/// While the flush of one table stands still, and hundreds of its writers with it, everything else goes
/// on: writes, checks and read-modify-writes of another table, schema changes. Its own writers are
/// refused when too much waits, and all that wait go on when the flush does.
#[tokio::test]
async fn a_table_that_stands_still_stops_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Blocking::default();
    let env = Env { fs: Arc::new(fs.clone()), ..Env::real(1) };
    let clock = env.clock.clone();
    let (durability, memtable_bytes_max) = (Durability::None, 64 << 10);
    let options = Options { durability, memtable_bytes_max, ..Options::default() };
    let engine = Engine::open_with_env(env, dir.path(), options).unwrap();
    let shape = Shape { writes_max: 1, reads_max: 1, waiting_bytes_max: 1 << 20, ..Shape::DEFAULT };
    let local = Local::open_shaped(engine.clone(), clock, shape).unwrap();
    let [still, other, new] = ["still", "other", "new"].map(table_name);
    create(&local, &still).await;
    create(&local, &other).await;
    let (waits, go) = fs.block(At::CreateSst);
    let large = "x".repeat(4 << 10);
    let row = |number: usize, value: &str| RowMutations {
        row: format!("r{number}").into(),
        mutations: vec![set("f", "q", 1000, value)],
    };
    let stalls = || engine.metrics().get("write_stalls_total").unwrap();
    'fill: for number in 0.. {
        let mut write = local.mutate_row(&still, row(number, &large));
        while futures::poll!(&mut write).is_pending() {
            if stalls() > 0 {
                break 'fill;
            }
            tokio::task::yield_now().await;
        }
    }
    tokio::task::spawn_blocking(move || waits.recv().unwrap()).await.unwrap();
    let mut waiting = Vec::new();
    let refused = loop {
        let mut write = local.mutate_row(&still, row(waiting.len(), &large));
        match futures::poll!(&mut write) {
            std::task::Poll::Pending => waiting.push(write),
            std::task::Poll::Ready(done) => break done.unwrap_err(),
        }
    };
    assert!(matches!(refused, Error::Busy(_)), "{refused}");
    assert!(waiting.len() > 200, "{} wait", waiting.len());
    // Its own rows, so that those who wait would have their stripes, whatever these are.
    for number in 0..20 {
        local.mutate_row(&other, row(number, "a")).await.unwrap();
        local
            .read_modify_write_row(&other, format!("r{number}").into(), append("b"))
            .await
            .unwrap();
        let RowMutations { row, mutations } = row(number, "c");
        let (predicate, on_true, on_false) = (None, mutations, vec![]);
        let request = CheckAndMutate { row, predicate, on_true, on_false };
        assert!(local.check_and_mutate_row(&other, request).await.unwrap());
    }
    let rows = (0..100).map(|number| row(number, "d")).collect();
    let written = local.mutate_rows(&other, rows).await.unwrap();
    assert!(written.iter().all(Result::is_ok));
    local.drop_rows(&other, DropRows::All).await.unwrap();
    create(&local, &new).await;
    local.delete_table(&new).await.unwrap();
    let families = FamilyChange::Create { name: "g".into(), spec: FamilySpec::default() };
    local.modify_families(&still, vec![families]).await.unwrap();
    let busy = local.mutate_row(&still, row(0, &large)).await.unwrap_err();
    assert!(matches!(busy, Error::Busy(_)), "a schema change forgets nothing: {busy}");
    go.send(()).unwrap();
    for write in waiting {
        write.await.unwrap();
    }
}

/// Small rules that make large cells wait with the size of the cells.
#[tokio::test]
async fn read_modify_writes_wait_with_the_bytes_that_they_write() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Blocking::default();
    let env = Env { fs: Arc::new(fs.clone()), ..Env::real(1) };
    let (clock, engine) =
        (env.clock.clone(), Engine::open_with_env(env, dir.path(), Options::default()).unwrap());
    let shape = Shape { waiting_bytes_max: 1 << 20, ..Shape::DEFAULT };
    let local = Local::open_shaped(engine, clock, shape).unwrap();
    let name = table_name("t");
    create(&local, &name).await;
    let key = |number: usize| Bytes::from(format!("r{number}"));
    let value = "x".repeat(300 << 10);
    for number in 0..4 {
        let mutations = vec![set("f", "q", 1000, &value)];
        local.mutate_row(&name, RowMutations { row: key(number), mutations }).await.unwrap();
    }
    let (waits, go) = fs.block(At::SyncLog);
    let writes = (0..4).map(|number| {
        let (local, name) = (local.clone(), name.clone());
        tokio::spawn(
            async move { local.read_modify_write_row(&name, key(number), append("y")).await },
        )
    });
    // There is room for three, and none ends before the log is synced.
    let (refused, _, waiting) = futures::future::select_all(writes).await;
    let refused = refused.unwrap().unwrap_err();
    assert!(matches!(refused, Error::Busy(_)), "{refused}");
    tokio::task::spawn_blocking(move || waits.recv().unwrap()).await.unwrap();
    go.send(()).unwrap();
    for write in waiting {
        write.await.unwrap().unwrap();
    }
}
