//! Indexes and keys that are built beside readers and writers, and builds that are given up.

use crate::harness::*;
use engine::{RowRange, ScanRequest};
use relational::{
    AlterTable, CancelFlag, DataType, Database, IndexProgress, KeyRange, NewIndex, Oid, OnConflict,
    Result, Row, ScanSpec, SqlState, Value,
};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

fn index_on(table: Oid, column: &str, unique: bool) -> NewIndex {
    NewIndex { table, name: None, unique, columns: vec![(column.to_owned(), false, false)] }
}

async fn insert_many(database: &Arc<Database>, table: Oid, count: i32, name: fn(i32) -> String) {
    for part in 0..count / 100 {
        let rows = (part * 100..part * 100 + 100).map(|id| named(id, &name(id)));
        insert(database, table, rows.collect()).await.unwrap();
    }
}

/// Waits until a condition holds, which other tasks bring about.
async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came to be: {what}");
}

fn indexes(database: &Arc<Database>, table: Oid) -> usize {
    database.catalog().table(table).unwrap().indexes.len()
}

/// Numbers of the parts of a table's tree that have entries, without the rows.
fn used_parts(database: &Arc<Database>, table: Oid) -> Vec<u16> {
    let (tree, prefix) = keys_of(database, database.catalog().table(table).unwrap().tree);
    let is_used = |part: &u16| {
        let rows = RowRange::prefix(&[&prefix[..], &part.to_be_bytes()].concat());
        let mut scan = tree.scan(&ScanRequest::rows(rows), None).unwrap();
        scan.next_row().unwrap().is_some()
    };
    (2..20).filter(is_used).collect()
}

#[test]
fn a_build_does_not_see_rows_whose_deletion_it_waited_for() {
    run(async || {
        let (_machine, database) = new().await;
        for (name, is_key, left) in
            [("a", true, 0), ("b", false, 0), ("c", true, 1), ("d", false, 1)]
        {
            let columns = vec![column("id", DataType::Int4), column("name", DataType::Text)];
            let table = create(&database, name, columns, vec![unique(&["id"])]).await;
            insert(&database, table, vec![named(1, "a"), named(2, "b")]).await.unwrap();
            let mut writer = begin(&database);
            for row in rows(&database, table).await.iter().skip(left) {
                writer.delete(table, row).await.unwrap();
            }
            let other = database.clone();
            let change = tokio::spawn(async move {
                let mut transaction = begin(&other);
                match is_key {
                    true => {
                        let add = AlterTable::AddConstraint(key(&["id"]));
                        transaction.alter_table(table, add).await.unwrap();
                    }
                    false => {
                        transaction.create_index(index_on(table, "name", true)).await.unwrap();
                    }
                }
                transaction.commit().await.unwrap();
            });
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(!change.is_finished());
            writer.commit().await.unwrap();
            change.await.unwrap();
            assert_eq!(rows(&database, table).await.len(), left, "table {name}");
            check_indexes(&database, table).await;
            insert(&database, table, vec![named(2, "b")]).await.unwrap();
            check_indexes(&database, table).await;
        }
    });
}

#[test]
fn under_repeatable_read_no_index_is_built_over_rows_that_the_snapshot_has() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        insert(&database, table, vec![named(1, "a")]).await.unwrap();
        let mut repeatable = begin_repeatable(&database);
        let mut writer = begin(&database);
        writer.delete(table, &named(1, "a")).await.unwrap();
        writer.commit().await.unwrap();
        let error = repeatable.create_index(index_on(table, "name", false)).await.unwrap_err();
        assert_eq!(error.state, SqlState::FEATURE_NOT_SUPPORTED);
        drop(repeatable);
        let mut fresh = begin_repeatable(&database);
        fresh.create_index(index_on(table, "name", false)).await.unwrap();
        fresh.insert(table, vec![named(2, "b")], OnConflict::Fail).await.unwrap();
        fresh.commit().await.unwrap();
        check_indexes(&database, table).await;
    });
}

#[test]
fn a_build_that_is_given_up_leaves_nothing_and_harms_no_other() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        insert_many(&database, table, 2000, |id| format!("{id:04}{}", "x".repeat(1000))).await;
        let mut transaction = begin(&database);
        let mut build = Box::pin(transaction.create_index(index_on(table, "name", false)));
        // Given up when its first entries are there, or even at its end.
        let mut is_ready = false;
        while !is_ready && used_parts(&database, table).is_empty() {
            let step = |context: &mut Context<'_>| Poll::Ready(build.as_mut().poll(context));
            is_ready = std::future::poll_fn(step).await.is_ready();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(build);
        drop(transaction);
        let mut writer = begin(&database);
        for id in 0..100 {
            let old = named(id, &format!("{id:04}{}", "x".repeat(1000)));
            writer.update(table, &old, named(id, "new")).await.unwrap();
        }
        writer.commit().await.unwrap();
        let mut transaction = begin(&database);
        transaction.create_index(index_on(table, "id", true)).await.unwrap();
        transaction.commit().await.unwrap();
        until("one part is left", || used_parts(&database, table).len() == 1).await;
        check_indexes(&database, table).await;
        // So does one that was rolled back after its end, and one behind a savepoint.
        let mut transaction = begin(&database);
        transaction.savepoint("s");
        transaction.create_index(index_on(table, "name", false)).await.unwrap();
        transaction.rollback_to("s").unwrap();
        transaction.create_index(index_on(table, "name", false)).await.unwrap();
        transaction.rollback().await;
        until("one part is left", || used_parts(&database, table).len() == 1).await;
        check_indexes(&database, table).await;
        insert(&database, table, vec![named(-1, "later")]).await.unwrap();
    });
}

/// Reads the rows with a name, by the index if the view has one.
fn named_so(view: &relational::View, table: Oid, name: &str) -> Result<Vec<Row>> {
    let index = view.table(table)?.indexes.first().map(|index| index.oid);
    let by_index = ScanSpec {
        index,
        ranges: vec![KeyRange::prefix(vec![Value::text(name)])],
        ..ScanSpec::of(table)
    };
    let spec = if index.is_some() { by_index } else { ScanSpec::of(table) };
    view.scan(spec)?.next_batch(100)
}

#[test]
fn a_reader_finds_its_row_while_its_index_comes_and_goes() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        insert(&database, table, vec![named(0, "x")]).await.unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = [false, true]
            .map(|is_repeatable| {
                let (database, is_over) = (database.clone(), Arc::clone(&is_over));
                tokio::task::spawn_blocking(move || {
                    while !is_over.load(Ordering::Acquire) {
                        let mut reader = match is_repeatable {
                            true => begin_repeatable(&database),
                            false => begin(&database),
                        };
                        let found = named_so(&reader.view(), table, "x").unwrap();
                        assert_eq!(found.len(), 1, "{found:?}");
                        assert_eq!(named_so(&reader.view(), table, "x").unwrap(), found);
                    }
                })
            })
            .into();
        for round in 0..40 {
            let mut transaction = begin(&database);
            let index = transaction.create_index(index_on(table, "name", false)).await.unwrap();
            transaction.commit().await.unwrap();
            // The row moves in the commit that drops the index, and right after it.
            for (step, drops) in [true, false].into_iter().enumerate() {
                let id = round * 2 + step as i32;
                let mut transaction = begin(&database);
                if drops {
                    transaction.drop_index(index).await.unwrap();
                }
                transaction.update(table, &named(id, "x"), named(id + 1, "x")).await.unwrap();
                transaction.commit().await.unwrap();
            }
        }
        is_over.store(true, Ordering::Release);
        for reader in readers {
            reader.await.unwrap();
        }
    });
}

#[test]
fn an_online_build_keeps_entries_of_rows_that_had_the_same_key() {
    run(async || {
        let (_machine, database) = new().await;
        for (name, deletes) in [("t", false), ("u", true)] {
            let table = create_names(&database, name, false).await;
            insert_many(&database, table, 3000, |id| (id % 2999).to_string()).await;
            let progress = IndexProgress::default();
            let (seen, other) = (progress.clone(), database.clone());
            let new = index_on(table, "name", true);
            let build = tokio::spawn(async move {
                other.create_index_online(new, progress, CancelFlag::default()).await
            });
            until("the first rows have entries", || seen.rows() > 0 || build.is_finished()).await;
            let mut writer = begin(&database);
            match deletes {
                true => writer.delete(table, &named(2999, "0")).await.unwrap(),
                false => {
                    writer.update(table, &named(2999, "0"), named(2999, "y")).await.unwrap();
                }
            }
            writer.commit().await.unwrap();
            match build.await.unwrap() {
                Ok(_) => check_indexes(&database, table).await,
                // The build was at the last row before the change.
                Err(error) => assert_eq!(error.state, SqlState::UNIQUE_VIOLATION),
            }
        }
    });
}

#[test]
fn an_online_build_follows_changes_of_its_table() {
    run(async || {
        let (_machine, database) = new().await;
        type Change = fn() -> AlterTable;
        let changes: [(&str, Change); 4] = [
            ("a", || AlterTable::AddConstraint(key(&["id"]))),
            ("b", || AlterTable::DropColumn { name: "id".into(), cascade: false }),
            ("c", || AlterTable::AddColumn {
                column: column("more", DataType::Int4),
                missing: Value::Int4(7),
            }),
            ("d", || AlterTable::DropColumn { name: "name".into(), cascade: false }),
        ];
        for (name, change) in changes {
            let columns = vec![column("id", DataType::Int4), column("name", DataType::Text)];
            let table = create(&database, name, columns, vec![]).await;
            insert_many(&database, table, 2000, |id| id.to_string()).await;
            let progress = IndexProgress::default();
            let (seen, other) = (progress.clone(), database.clone());
            let new = index_on(table, "name", true);
            let build = tokio::spawn(async move {
                other.create_index_online(new, progress, CancelFlag::default()).await
            });
            until("the first rows have entries", || seen.rows() > 0 || build.is_finished()).await;
            let mut transaction = begin(&database);
            transaction.alter_table(table, change()).await.unwrap();
            transaction.commit().await.unwrap();
            match build.await.unwrap() {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!((name, error.state), ("d", SqlState::UNDEFINED_OBJECT), "{error}");
                    assert_eq!(indexes(&database, table), 0);
                }
            }
            check_indexes(&database, table).await;
        }
    });
}

#[test]
fn an_online_build_whose_future_is_dropped_leaves_no_index() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        insert_many(&database, table, 3000, |id| id.to_string()).await;
        let other = database.clone();
        let new = index_on(table, "name", true);
        let build = tokio::spawn(async move {
            let (progress, cancel) = (IndexProgress::default(), CancelFlag::default());
            other.create_index_online(new, progress, cancel).await
        });
        until("the index is there", || indexes(&database, table) == 1).await;
        build.abort();
        assert!(build.await.unwrap_err().is_cancelled());
        until("the index is gone", || indexes(&database, table) == 0).await;
        insert(&database, table, vec![named(-1, "1")]).await.unwrap();
    });
}
