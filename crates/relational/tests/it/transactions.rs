//! Isolation, locks, savepoints and what is left after a rollback.

use crate::harness::*;
use relational::{LockMode, OnConflict, SqlState, Value, Wait};
use std::time::Duration;

#[test]
fn a_dropped_transaction_leaves_nothing() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        let mut writer = begin(&database);
        writer.insert(table, vec![named(1, "a")], OnConflict::Fail).await.unwrap();
        drop(writer);
        assert_eq!(rows(&database, table).await.len(), 0);
        insert(&database, table, vec![named(1, "a")]).await.unwrap();
        let mut reader = database.begin(Default::default(), true);
        let error = reader.insert(table, vec![named(2, "b")], OnConflict::Fail).await.unwrap_err();
        assert_eq!(error.state, SqlState::READ_ONLY_SQL_TRANSACTION);
    });
}

#[test]
fn statements_of_read_committed_see_new_commits() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        let mut reader = begin(&database);
        let before = reader.view();
        let mut repeatable = begin_repeatable(&database);
        let still = repeatable.view();
        insert(&database, table, vec![named(1, "a")]).await.unwrap();
        assert_eq!(rows_in(before, table, None).await.len(), 0);
        reader.start_statement().await.unwrap();
        assert_eq!(rows_in(reader.view(), table, None).await.len(), 1);
        repeatable.start_statement().await.unwrap();
        assert_eq!(rows_in(repeatable.view(), table, None).await.len(), 0);
        assert_eq!(rows_in(still, table, None).await.len(), 0);
    });
}

#[test]
fn two_inserts_of_one_key_wait_for_each_other() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        for commits in [true, false] {
            let id = i32::from(commits);
            let mut first = begin(&database);
            first.insert(table, vec![named(10 + id, "same")], OnConflict::Fail).await.unwrap();
            let mut second = begin(&database);
            let other = tokio::spawn(async move {
                let row = vec![named(20 + id, "same")];
                let inserted = second.insert(table, row, OnConflict::Fail).await;
                match inserted {
                    Ok(_) => second.commit().await,
                    Err(error) => Err(error),
                }
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!other.is_finished());
            match commits {
                true => first.commit().await.unwrap(),
                false => first.rollback().await,
            }
            let outcome = other.await.unwrap();
            match commits {
                true => {
                    assert_eq!(outcome.unwrap_err().state, SqlState::UNIQUE_VIOLATION);
                    let mut writer = begin(&database);
                    writer.delete(table, &named(11, "same")).await.unwrap();
                    writer.commit().await.unwrap();
                }
                false => outcome.unwrap(),
            }
            check_indexes(&database, table).await;
        }
        assert_eq!(rows(&database, table).await, [named(20, "same")]);
    });
}

#[test]
fn a_locked_row_is_as_the_last_commit_left_it() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        insert(&database, table, vec![named(1, "a"), named(2, "b")]).await.unwrap();
        let mut first = begin(&database);
        let key = [Value::Int4(1)];
        first.lock(table, &key, LockMode::NoKeyUpdate, Wait::Wait).await.unwrap();
        let mut second = begin(&database);
        let taken = second.lock(table, &key, LockMode::KeyShare, Wait::NoWait).await.unwrap();
        assert_eq!(taken, Some(named(1, "a")));
        let error = second.lock(table, &key, LockMode::Share, Wait::NoWait).await.unwrap_err();
        assert_eq!(error.state, SqlState::LOCK_NOT_AVAILABLE);
        assert_eq!(second.lock(table, &key, LockMode::Update, Wait::Skip).await.unwrap(), None);
        let other = tokio::spawn(async move {
            let row = second.lock(table, &[Value::Int4(1)], LockMode::Update, Wait::Wait).await;
            (second, row)
        });
        tokio::task::yield_now().await;
        first.update(table, &named(1, "a"), named(1, "new")).await.unwrap();
        first.commit().await.unwrap();
        let (second, row) = other.await.unwrap();
        assert_eq!(row.unwrap(), Some(named(1, "new")));
        drop(second);
        let mut late = begin(&database);
        late.set_lock_timeout(Some(Duration::from_millis(5)));
        let mut holder = begin(&database);
        holder.delete(table, &named(2, "b")).await.unwrap();
        let error = late.delete(table, &named(2, "b")).await.unwrap_err();
        assert_eq!(error.state, SqlState::LOCK_NOT_AVAILABLE);
    });
}

#[test]
fn the_first_committer_wins_under_repeatable_read() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        insert(&database, table, vec![named(1, "a"), named(2, "b")]).await.unwrap();
        let mut repeatable = begin_repeatable(&database);
        assert_eq!(rows_in(repeatable.view(), table, None).await.len(), 2);
        let mut other = begin(&database);
        other.update(table, &named(1, "a"), named(1, "x")).await.unwrap();
        other.delete(table, &named(2, "b")).await.unwrap();
        other.commit().await.unwrap();
        let mut again = begin(&database);
        again.update(table, &named(1, "x"), named(1, "a")).await.unwrap();
        again.commit().await.unwrap();
        // The row looks as in the snapshot, and was written all the same.
        let key = [Value::Int4(1)];
        let error = repeatable.lock(table, &key, LockMode::Update, Wait::Wait).await.unwrap_err();
        assert_eq!(error.state, SqlState::SERIALIZATION_FAILURE);
        let error = repeatable.delete(table, &named(2, "b")).await.unwrap_err();
        assert_eq!(error.state, SqlState::SERIALIZATION_FAILURE);
        drop(repeatable);
        let mut fresh = begin_repeatable(&database);
        assert!(fresh.lock(table, &key, LockMode::Update, Wait::Wait).await.unwrap().is_some());
    });
}

#[test]
fn a_circle_of_waits_ends() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        insert(&database, table, vec![named(1, "a"), named(2, "b")]).await.unwrap();
        let (mut first, mut second) = (begin(&database), begin(&database));
        first.update(table, &named(1, "a"), named(1, "f")).await.unwrap();
        second.update(table, &named(2, "b"), named(2, "s")).await.unwrap();
        let waits = tokio::spawn(async move {
            first.update(table, &named(2, "b"), named(2, "f")).await?;
            first.commit().await
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        let error = second.update(table, &named(1, "a"), named(1, "s")).await.unwrap_err();
        assert_eq!(error.state, SqlState::DEADLOCK_DETECTED);
        drop(second);
        waits.await.unwrap().unwrap();
        assert_eq!(rows(&database, table).await, [named(1, "f"), named(2, "f")]);
    });
}

#[test]
fn savepoints_take_back_what_came_after() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        let mut writer = begin(&database);
        writer.insert(table, vec![named(1, "a")], OnConflict::Fail).await.unwrap();
        writer.savepoint("s");
        writer.update(table, &named(1, "a"), named(1, "b")).await.unwrap();
        writer.savepoint("t");
        writer.delete(table, &named(1, "b")).await.unwrap();
        let mark = writer.mark();
        writer.insert(table, vec![named(3, "c"), named(4, "d")], OnConflict::Fail).await.unwrap();
        writer.undo_to(&mark);
        writer.rollback_to("t").unwrap();
        assert_eq!(rows_in(writer.view(), table, None).await, [named(1, "b")]);
        writer.rollback_to("s").unwrap();
        assert_eq!(rows_in(writer.view(), table, None).await, [named(1, "a")]);
        let error = writer.rollback_to("t").unwrap_err();
        assert_eq!(error.state, SqlState::INVALID_SAVEPOINT_SPECIFICATION);
        writer.insert(table, vec![named(2, "b")], OnConflict::Fail).await.unwrap();
        writer.release("s").unwrap();
        writer.commit().await.unwrap();
        assert_eq!(rows(&database, table).await, [named(1, "a"), named(2, "b")]);
        check_indexes(&database, table).await;
    });
}

#[test]
fn a_transaction_that_writes_too_much_is_refused() {
    run(async || {
        let machine = base::env::sim::SimEnv::new(1);
        let options =
            relational::DatabaseOptions { transaction_bytes_max: 10_000, ..Default::default() };
        let database = open_with(&machine, options).await.unwrap();
        let table = create_names(&database, "t", false).await;
        // Long rows: their locks alone stay below the limit.
        let long = "x".repeat(500);
        let rows = (0..1000).map(|id| named(id, &long)).collect();
        let error = insert(&database, table, rows).await.unwrap_err();
        assert_eq!(error.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    });
}

#[test]
fn locks_of_a_transaction_are_bounded() {
    run(async || {
        let machine = base::env::sim::SimEnv::new(1);
        let options =
            relational::DatabaseOptions { transaction_bytes_max: 50_000, ..Default::default() };
        let database = open_with(&machine, options).await.unwrap();
        let table = create_names(&database, "t", false).await;
        for part in 0..8 {
            let rows = (part * 50..part * 50 + 50).map(|id| named(id, "x")).collect();
            insert(&database, table, rows).await.unwrap();
        }
        let mut reader = begin(&database);
        let mut refused = None;
        for id in 0..400 {
            let key = [Value::Int4(id)];
            if let Err(error) = reader.lock(table, &key, LockMode::Share, Wait::Wait).await {
                refused.get_or_insert(error.state);
            }
        }
        assert_eq!(refused, Some(SqlState::OUT_OF_MEMORY));
    });
}

#[test]
fn a_lock_without_a_write_is_no_conflict() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        let all = vec![named(1, "a"), named(2, "b"), named(3, "c")];
        insert(&database, table, all).await.unwrap();
        let mut repeatable = begin_repeatable(&database);
        let mut holder = begin(&database);
        let key = |id| [Value::Int4(id)];
        holder.lock(table, &key(3), LockMode::Update, Wait::Wait).await.unwrap();
        let mut other = begin(&database);
        other.lock(table, &key(1), LockMode::Update, Wait::Wait).await.unwrap();
        assert_eq!(other.lock(table, &key(3), LockMode::Update, Wait::Skip).await.unwrap(), None);
        other.update(table, &named(2, "b"), named(2, "x")).await.unwrap();
        other.commit().await.unwrap();
        drop(holder);
        for id in [1, 3] {
            let row = repeatable.lock(table, &key(id), LockMode::Update, Wait::Wait).await;
            assert!(row.unwrap().is_some());
        }
        let error =
            repeatable.lock(table, &key(2), LockMode::Update, Wait::Wait).await.unwrap_err();
        assert_eq!(error.state, SqlState::SERIALIZATION_FAILURE);
    });
}

#[test]
fn a_rollback_to_a_savepoint_gives_later_locks_back() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        insert(&database, table, vec![named(1, "a"), named(2, "b")]).await.unwrap();
        let (mut first, mut second) = (begin(&database), begin(&database));
        first.savepoint("s");
        first.update(table, &named(1, "a"), named(1, "first")).await.unwrap();
        second.update(table, &named(2, "b"), named(2, "second")).await.unwrap();
        let other = tokio::spawn(async move {
            second.update(table, &named(1, "a"), named(1, "second")).await?;
            second.commit().await
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        let error = first.update(table, &named(2, "b"), named(2, "first")).await.unwrap_err();
        assert_eq!(error.state, SqlState::DEADLOCK_DETECTED);
        first.undo_to_last_savepoint();
        other.await.unwrap().unwrap();
        first.rollback_to("s").unwrap();
        first.start_statement().await.unwrap();
        first.update(table, &named(1, "second"), named(1, "again")).await.unwrap();
        first.commit().await.unwrap();
        assert_eq!(rows(&database, table).await, [named(1, "again"), named(2, "second")]);
        // A change of the catalog is given back too, and can be made by another transaction.
        let mut first = begin(&database);
        first.savepoint("s");
        first.drop_table(table, false).await.unwrap();
        first.rollback_to("s").unwrap();
        create_names(&database, "u", false).await;
        first.start_statement().await.unwrap();
        first.insert(table, vec![named(3, "c")], OnConflict::Fail).await.unwrap();
        first.drop_table(table, false).await.unwrap();
        first.commit().await.unwrap();
        assert!(database.catalog().table(table).is_none());
        assert!(database.catalog().find(PUBLIC, "u").is_some());
    });
}

#[test]
fn a_transaction_that_has_read_does_not_begin_to_write() {
    run(async || {
        let (_machine, database) = new().await;
        let mut reader = database.begin(Default::default(), true);
        reader.set_read_only(false).unwrap();
        reader.set_read_only(true).unwrap();
        reader.start_statement().await.unwrap();
        reader.set_read_only(true).unwrap();
        let error = reader.set_read_only(false).unwrap_err();
        assert_eq!(error.state, SqlState::ACTIVE_SQL_TRANSACTION);
    });
}

#[test]
fn a_large_commit_is_whole() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        let text = "x".repeat(2000);
        let all = (0..1000).map(|id| named(id, &format!("{id}{text}"))).collect();
        insert(&database, table, all).await.unwrap();
        assert_eq!(rows(&database, table).await.len(), 1000);
        check_indexes(&database, table).await;
    });
}
