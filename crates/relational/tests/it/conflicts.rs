//! Keys that are there already: which rows are left out, which locks that takes, and what a snapshot allows.

use crate::harness::*;
use relational::{
    DataType, Database, Direction, KeyRange, LockMode, NewColumn, NewIndex, Oid, OnConflict, Row,
    ScanSpec, SqlState, Value, View, Wait,
};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

const AT_ONCE: Option<Duration> = Some(Duration::from_millis(5));

fn index_of(database: &Arc<Database>, table: Oid) -> Oid {
    database.catalog().table(table).unwrap().indexes[0].oid
}

#[test]
fn the_arbiter_decides_before_the_primary_key() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        insert(&database, table, vec![named(1, "a"), named(2, "b")]).await.unwrap();
        let skip = OnConflict::Skip(Some(index_of(&database, table)));
        let mut writer = begin(&database);
        let same = vec![named(1, "a"), named(1, "b"), named(3, "c"), named(3, "c")];
        assert_eq!(writer.insert(table, same, skip).await.unwrap(), [false, false, true, false]);
        let error = writer.insert(table, vec![named(1, "e")], skip).await.unwrap_err();
        assert_eq!(error.constraint.as_deref(), Some("t_pkey"));
        writer.commit().await.unwrap();
        check_indexes(&database, table).await;
    });
}

#[test]
fn rows_that_are_left_out_take_no_locks() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        insert(&database, table, vec![named(1, "a"), named(2, "b")]).await.unwrap();
        let (mut first, mut second) = (begin(&database), begin(&database));
        first.set_lock_timeout(AT_ONCE);
        second.set_lock_timeout(AT_ONCE);
        let skip = OnConflict::Skip(None);
        assert_eq!(first.insert(table, vec![named(1, "a")], skip).await.unwrap(), [false]);
        assert_eq!(second.insert(table, vec![named(2, "b")], skip).await.unwrap(), [false]);
        assert_eq!(first.insert(table, vec![named(9, "b")], skip).await.unwrap(), [false]);
        assert_eq!(second.insert(table, vec![named(1, "z")], skip).await.unwrap(), [false]);
        let mut writer = begin(&database);
        writer.set_lock_timeout(AT_ONCE);
        writer.update(table, &named(1, "a"), named(1, "new")).await.unwrap();
        // A key that changes under way is waited for, and not held once the row is left out.
        let error = first.insert(table, vec![named(7, "a")], skip).await.unwrap_err();
        assert_eq!(error.state, SqlState::LOCK_NOT_AVAILABLE);
        drop((first, second));
        let other = database.clone();
        let late = tokio::spawn(async move {
            let mut late = begin(&other);
            let rows = vec![named(7, "a"), named(8, "new")];
            (late.insert(table, rows, skip).await.unwrap(), late)
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!late.is_finished());
        writer.commit().await.unwrap();
        let (inserted, late) = late.await.unwrap();
        assert_eq!(inserted, [true, false]);
        late.commit().await.unwrap();
        check_indexes(&database, table).await;
    });
}

#[test]
fn repeatable_read_neither_skips_nor_takes_keys_of_later_commits() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        insert(&database, table, vec![named(1, "a"), named(2, "x"), named(3, "z")]).await.unwrap();
        let snapshots: Vec<_> = (0..5).map(|_| begin_repeatable(&database)).collect();
        let mut other = begin(&database);
        other.update(table, &named(2, "x"), named(2, "y")).await.unwrap();
        other.delete(table, &named(3, "z")).await.unwrap();
        other.insert(table, vec![named(5, "later")], OnConflict::Fail).await.unwrap();
        other.commit().await.unwrap();
        let by_name = index_of(&database, table);
        for (at, mut repeatable) in snapshots.into_iter().enumerate() {
            let error = match at {
                0 => {
                    let row = vec![named(5, "q")];
                    repeatable.insert(table, row, OnConflict::Skip(None)).await.unwrap_err()
                }
                1 => {
                    let new = named(1, "x");
                    repeatable.update(table, &named(1, "a"), new).await.unwrap_err()
                }
                2 => {
                    let row = vec![named(9, "x")];
                    repeatable.insert(table, row, OnConflict::Fail).await.unwrap_err()
                }
                3 => {
                    let row = vec![named(3, "q")];
                    repeatable.insert(table, row, OnConflict::Fail).await.unwrap_err()
                }
                _ => {
                    let row = named(9, "x");
                    repeatable.conflicting(table, &row, Some(by_name)).await.unwrap_err()
                }
            };
            assert_eq!(error.state, SqlState::SERIALIZATION_FAILURE, "case {at}");
        }
        let mut fresh = begin_repeatable(&database);
        fresh.update(table, &named(1, "a"), named(1, "x")).await.unwrap();
        fresh.update(table, &named(1, "x"), named(1, "a")).await.unwrap();
        fresh.insert(table, vec![named(3, "x")], OnConflict::Fail).await.unwrap();
        fresh.commit().await.unwrap();
        check_indexes(&database, table).await;
    });
}

#[test]
fn an_upsert_by_an_index_waits_for_a_delete() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        insert(&database, table, vec![named(1, "a")]).await.unwrap();
        let by_name = index_of(&database, table);
        for commits in [false, true] {
            let mut deleter = begin(&database);
            let key = [Value::Int4(1)];
            deleter.lock(table, &key, LockMode::Update, Wait::Wait).await.unwrap();
            let other = database.clone();
            let upsert = tokio::spawn(async move {
                let mut upsert = begin(&other);
                let found = upsert.conflicting(table, &named(2, "a"), Some(by_name)).await;
                (upsert, found)
            });
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(!upsert.is_finished());
            deleter.delete(table, &named(1, "a")).await.unwrap();
            match commits {
                true => deleter.commit().await.unwrap(),
                false => deleter.rollback().await,
            }
            let (mut upsert, found) = upsert.await.unwrap();
            assert_eq!(found.unwrap(), (!commits).then(|| named(1, "a")));
            if commits {
                upsert.insert(table, vec![named(2, "a")], OnConflict::Fail).await.unwrap();
            }
            upsert.commit().await.unwrap();
        }
        assert_eq!(rows(&database, table).await, [named(2, "a")]);
        check_indexes(&database, table).await;
    });
}

#[test]
fn upserts_and_inserts_of_one_row_wait_for_each_other() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        let by_name = index_of(&database, table);
        let mut first = begin(&database);
        assert_eq!(first.conflicting(table, &named(1, "a"), Some(by_name)).await.unwrap(), None);
        let other = database.clone();
        let second = tokio::spawn(async move {
            let mut second = begin(&other);
            second.insert(table, vec![named(1, "a")], OnConflict::Fail).await
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        first.insert(table, vec![named(1, "a")], OnConflict::Fail).await.unwrap();
        first.commit().await.unwrap();
        let error = second.await.unwrap().unwrap_err();
        assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
    });
}

async fn names(view: View, spec: ScanSpec) -> Vec<String> {
    scan(view, spec).await.iter().map(|row: &Row| row[1].to_string()).collect()
}

#[test]
fn values_too_long_for_a_key_are_not_there_and_bound_all_the_same() {
    run(async || {
        let (_machine, database) = new().await;
        let columns = vec![column("id", DataType::Int4), column("name", DataType::Text)];
        let table = create(&database, "t", columns, vec![key(&["name"])]).await;
        let rows = ["a", "m", "mn", "z"].into_iter().zip(0..).map(|(name, id)| named(id, name));
        insert(&database, table, rows.collect()).await.unwrap();
        let new = NewIndex {
            table,
            name: None,
            unique: false,
            columns: vec![("name".to_owned(), true, true), ("id".to_owned(), false, false)],
        };
        let mut transaction = begin(&database);
        let down = transaction.create_index(new).await.unwrap();
        transaction.commit().await.unwrap();
        let long = Value::text("m".repeat(9000));
        let mut reader = begin(&database);
        let view = reader.view();
        assert_eq!(view.get(table, std::slice::from_ref(&long)).await.unwrap(), None);
        let locked =
            reader.lock(table, std::slice::from_ref(&long), LockMode::Update, Wait::Wait).await;
        assert_eq!(locked.unwrap(), None);
        let bounds = [Bound::Included(vec![long.clone()]), Bound::Excluded(vec![long.clone()])];
        for bound in bounds {
            let from = KeyRange { lower: bound.clone(), upper: Bound::Unbounded };
            let to = KeyRange { lower: Bound::Unbounded, upper: bound };
            let spec =
                |index, range| ScanSpec { index, ranges: vec![range], ..ScanSpec::of(table) };
            assert_eq!(names(view.clone(), spec(None, from.clone())).await, ["mn", "z"]);
            assert_eq!(names(view.clone(), spec(None, to.clone())).await, ["a", "m"]);
            assert_eq!(names(view.clone(), spec(Some(down), from)).await, ["m", "a"]);
            let reverse =
                ScanSpec { direction: Direction::Reverse, ..spec(Some(down), to.clone()) };
            assert_eq!(names(view.clone(), reverse).await, ["mn", "z"]);
        }
        let spec = ScanSpec { ranges: vec![KeyRange::prefix(vec![long])], ..ScanSpec::of(table) };
        assert!(names(view, spec).await.is_empty());
        let error = insert(&database, table, vec![named(9, &"m".repeat(9000))]).await.unwrap_err();
        assert_eq!(error.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    });
}

#[test]
fn the_detail_of_a_missing_value_shows_others_in_short() {
    run(async || {
        let (_machine, database) = new().await;
        let columns = vec![
            NewColumn { not_null: true, ..column("id", DataType::Int4) },
            column("name", DataType::Text),
        ];
        let table = create(&database, "t", columns, vec![]).await;
        let row = vec![Value::Null, Value::text("\u{e9}".repeat(33))];
        let error = insert(&database, table, vec![row]).await.unwrap_err();
        let shown = format!("Failing row contains (null, {}...).", "\u{e9}".repeat(32));
        assert_eq!(error.detail, Some(shown));
    });
}
