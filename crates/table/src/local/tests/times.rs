//! The server's times agree with the order of commits, whatever the clock and the threads do.

use super::super::write::EvaluatedIn;
use super::super::*;
use crate::limits::Granularity;
use crate::mutate::{Modify, RowMutation, WriteTime};
use crate::row::Cell;
use crate::row_output::Pieces;
use crate::schema::FamilySpec;
use base::env::Env;
use base::env::sim::SimEnv;
use base::testing::block_on;
use engine::{IngestOptions, Options, WriteBatch};
use std::path::Path;

fn open(machine: &SimEnv) -> Local {
    let options = Options {
        memory_bytes_max: 4 << 20,
        memtable_bytes_max: 64 << 10,
        log_segment_bytes: 64 << 10,
        ..Options::default()
    };
    let engine = Engine::open_with_env(machine.env(), Path::new("data"), options).unwrap();
    Local::open(engine, machine.env().clock).unwrap()
}

fn name() -> TableName {
    TableName::new("p/t").unwrap()
}

fn create(local: &Local) {
    create_with(local, Granularity::Millis);
}

fn create_with(local: &Local, granularity: Granularity) {
    let families = vec![("f".to_owned(), FamilySpec::default())];
    let table = CreateTable {
        name: name(),
        families,
        splits: vec![],
        deletion_protection: false,
        granularity,
        row_key_schema: None,
    };
    local.core.create_table(table).unwrap();
}

/// Cell `q` of row `r` at the server's time.
fn set(value: &str) -> RowMutations {
    let mutation = RowMutation::SetCell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp: WriteTime::Server,
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    RowMutations { row: "r".into(), mutations: vec![mutation] }
}

/// Writes `value` without waiting for its row, while nobody else does.
fn write(local: &Local, value: &str) {
    let table = local.core.table(&name()).unwrap();
    let (mut batch, RowMutations { row, mutations }) = (WriteBatch::new(), set(value));
    crate::mutate::append(&mut batch, &table.schema, &row, &mutations).unwrap();
    let (tree, batch) = (table.tree_of(&row), batch.ready().unwrap());
    block_on(local.core.commit_row(&table, (tree, &row), batch, EvaluatedIn(None), ())).unwrap();
}

/// All versions of the one cell, newest first.
async fn versions(local: &Local) -> Vec<Cell> {
    let read = local.read_rows(&name(), ReadRows::default(), Pieces::default()).await.unwrap();
    let rows = read.collect_rows().await.unwrap();
    rows.into_iter().flat_map(|row| row.cells).collect()
}

fn newest(local: &Local) -> Cell {
    all(local).remove(0)
}

/// [`versions`], outside of any task.
fn all(local: &Local) -> Vec<Cell> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(versions(local))
}

/// A write takes its time when it commits, not when it begins to wait for its row.
#[tokio::test]
async fn a_write_that_waited_for_its_row_is_newer_than_those_it_waited_for() {
    let machine = SimEnv::new(1);
    let local = open(&machine);
    create(&local);
    let held = local.locks.exclusive(b"r").await;
    let table = name();
    let mut waiting = local.mutate_row(&table, set("waited"));
    // It waits.
    assert!(futures::poll!(&mut waiting).is_pending());
    machine.clock.advance(std::time::Duration::from_secs(5));
    write(&local, "before");
    drop(held);
    waiting.await.unwrap();
    assert_eq!(newest_of(&local).await.value, "waited");
}

/// Every write is newer than all that were acknowledged before it began, and no version appears
/// behind one that was read: with a clock that stands still, all that orders them are the commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn times_ascend_in_the_order_of_commits() {
    const WRITERS: usize = 6;
    const WRITES: usize = 60;
    let dir = tempfile::tempdir().unwrap();
    let clock = SimEnv::new(1).clock;
    let env = Env { clock: clock.clone(), ..Env::real(1) };
    let engine = Engine::open_with_env(env, dir.path(), Options::default()).unwrap();
    let local = Local::open(engine, clock).unwrap();
    create(&local);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let local = local.clone();
            tokio::spawn(async move {
                for number in 0..WRITES {
                    let before = versions(&local).await.first().map(|cell| cell.timestamp);
                    let value = format!("{writer}-{number}");
                    one_write(&local, writer, &value).await;
                    let cells = versions(&local).await;
                    let mine = cells.iter().find(|cell| cell.value == value);
                    let mine = mine.unwrap_or_else(|| panic!("{value} was overwritten"));
                    assert!(Some(mine.timestamp) > before, "{value}: {mine:?} {before:?}");
                }
            })
        })
        .collect();
    let mut seen: Vec<Cell> = Vec::new();
    let mut done = false;
    while !done {
        done = writers.iter().all(|writer| writer.is_finished());
        let cells = versions(&local).await;
        assert!(cells.ends_with(&seen), "a version appeared behind others, or is gone");
        seen = cells;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(seen.len(), WRITERS * WRITES);
}

/// A write by the door that is this writer's.
async fn one_write(local: &Local, writer: usize, value: &str) {
    match writer % 3 {
        0 => local.mutate_row(&name(), set(value)).await.unwrap(),
        1 => {
            let written = local.mutate_rows(&name(), vec![set(value)]).await.unwrap();
            written.into_iter().for_each(|written| written.unwrap());
        }
        _ => {
            let mutations = set(value).mutations;
            let (on_true, on_false) = (mutations.clone(), mutations);
            let request = CheckAndMutate { row: "r".into(), predicate: None, on_true, on_false };
            local.check_and_mutate_row(&name(), request).await.unwrap();
        }
    }
}

/// Entries of one row in one request are versions of their own, in their order.
#[tokio::test]
async fn each_entry_of_a_request_has_its_own_time() {
    let machine = SimEnv::new(1);
    let local = open(&machine);
    create(&local);
    let written = local.mutate_rows(&name(), vec![set("1"), set("2"), set("3")]).await.unwrap();
    assert!(written.iter().all(Result::is_ok));
    let values: Vec<_> = versions(&local).await.into_iter().map(|cell| cell.value).collect();
    assert_eq!(values, ["3", "2", "1"]);
}

/// A read-modify-write is not older than what it read, and what comes after it is newer.
#[tokio::test]
async fn a_read_modify_write_has_its_place_among_the_times() {
    let machine = SimEnv::new(1);
    let local = open(&machine);
    create(&local);
    for number in 0..5 {
        machine.clock.set_micros(9_000_000 - 1_000_000 * number);
        write(&local, &format!("{number}"));
        let modify = Modify::Append("x".into());
        let rule = ReadModifyWriteRule { family: "f".into(), qualifier: "q".into(), modify };
        let row = local.read_modify_write_row(&name(), "r".into(), vec![rule]).await.unwrap();
        assert_eq!(newest_of(&local).await, row.cells[0]);
        assert_eq!(row.cells[0].value, format!("{number}x"));
    }
    assert_eq!(versions(&local).await.len(), 5, "each replaced what it was made of");
}

/// How the store came to be opened again.
#[derive(Clone, Copy)]
enum Again {
    Closed,
    PowerLost,
    FlushedAndClosed,
}

/// The times of a process before count, although the clock went back, and the log was given up.
#[test]
fn times_ascend_over_a_restart_with_a_clock_that_went_back() {
    for (again, granularity) in [
        (Again::Closed, Granularity::Millis),
        (Again::PowerLost, Granularity::Millis),
        (Again::PowerLost, Granularity::Micros),
        (Again::FlushedAndClosed, Granularity::Micros),
    ] {
        let mut machine = SimEnv::new(1);
        let mut local = open(&machine);
        create_with(&local, granularity);
        for round in 0..4 {
            for number in 0..50 {
                write(&local, &format!("{round} {number}"));
            }
            let last = newest(&local);
            if matches!(again, Again::FlushedAndClosed) {
                let engine = &local.core.engine;
                for tree in engine.trees() {
                    engine.tree(tree).unwrap().flush().unwrap();
                }
            }
            if !matches!(again, Again::PowerLost) {
                local.core.engine.close().unwrap();
            }
            drop(local);
            machine = machine.power_loss();
            machine.clock.set_micros(1_000_000);
            local = open(&machine);
            assert_eq!(newest(&local), last);
            write(&local, "after");
            let after = newest(&local);
            assert_eq!(after.value, "after");
            assert!(after.timestamp > last.timestamp, "{after:?} after {last:?}");
        }
    }
}

/// Runs a row ahead of the clock as far as it may.
fn run_ahead(local: &Local) {
    let place = times::Place::of(b"r");
    for _ in 0..engine::TIMES_AHEAD_MICROS_MAX / limits::TIMESTAMP_MICROS_STEP {
        local.core.times.draw_above(0, Granularity::Millis, [place]).next(place);
    }
    write(local, "ahead");
}

/// A process that begins where another had run ahead to runs ahead of that by the one step that keeps
/// what was written there.
#[test]
fn how_far_rows_are_ahead_of_the_clock_does_not_add_up_over_restarts() {
    for again in [Again::Closed, Again::PowerLost, Again::FlushedAndClosed] {
        let mut machine = SimEnv::new(1);
        let limit = machine.env().clock.now_micros() + engine::TIMES_AHEAD_MICROS_MAX;
        let mut local = open(&machine);
        create(&local);
        for process in 0..3 {
            run_ahead(&local);
            assert_eq!(newest(&local).timestamp.0, limit / 1000 * 1000 + 1000 * process);
            if matches!(again, Again::FlushedAndClosed) {
                let engine = &local.core.engine;
                engine
                    .trees()
                    .into_iter()
                    .for_each(|tree| engine.tree(tree).unwrap().flush().unwrap());
            }
            if !matches!(again, Again::PowerLost) {
                local.core.engine.close().unwrap();
            }
            drop(local);
            machine = machine.power_loss();
            local = open(&machine);
            write(&local, "after");
            let cells = all(&local);
            assert_eq!((&*cells[0].value, &*cells[1].value), (&b"after"[..], &b"ahead"[..]));
        }
    }
}

/// A load, which is of all rows, drives none ahead that it does not write.
#[test]
fn a_load_beside_a_hot_row_leaves_the_times_of_other_rows() {
    let machine = SimEnv::new(1);
    let local = open(&machine);
    create(&local);
    run_ahead(&local);
    drop(local.load(&name(), &IngestOptions::default()).unwrap());
    let now = machine.env().clock.now_micros();
    let place = times::Place::of(b"cold");
    assert_eq!(
        local.core.times.draw_above(0, Granularity::Millis, [place]).next(place).0,
        now / 1000 * 1000
    );
}

/// Cells of a load have the time at which it began: above those before, below those after, also
/// where the load is all that tells of it.
#[tokio::test]
async fn a_load_has_its_place_among_the_times() {
    let machine = SimEnv::new(1);
    let local = open(&machine);
    create(&local);
    for number in 0..9 {
        write(&local, &format!("before {number}"));
    }
    let mut load = local.load(&name(), &IngestOptions::default()).unwrap();
    load.add(&set("loaded")).unwrap();
    local.install(load.finish().unwrap()).await.unwrap();
    assert_eq!(newest_of(&local).await.value, "loaded");
    let engine = local.core.engine.clone();
    engine.close().unwrap();
    drop((engine, local));
    let machine = machine.power_loss();
    machine.clock.set_micros(1_000_000);
    let local = open(&machine);
    write(&local, "after");
    assert_eq!(newest_of(&local).await.value, "after");
}

/// A read-modify-write that commits after its row was added to a load is not hidden by the load, though
/// that is installed later.
#[tokio::test]
async fn what_is_counted_after_a_row_was_added_to_a_load_is_not_hidden_by_it() {
    let machine = SimEnv::new(1);
    let local = open(&machine);
    create(&local);
    let mut load = local.load(&name(), &IngestOptions::default()).unwrap();
    load.add(&set("8 bytes.")).unwrap();
    for _ in 0..3 {
        let modify = Modify::Increment(1);
        let rule = ReadModifyWriteRule { family: "f".into(), qualifier: "q".into(), modify };
        local.read_modify_write_row(&name(), "r".into(), vec![rule]).await.unwrap();
    }
    local.install(load.finish().unwrap()).await.unwrap();
    let values: Vec<Bytes> = versions(&local).await.into_iter().map(|cell| cell.value).collect();
    assert_eq!(values, [&3_i64.to_be_bytes()[..], b"8 bytes."]);
}

async fn newest_of(local: &Local) -> Cell {
    versions(local).await.remove(0)
}
