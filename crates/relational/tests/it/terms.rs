//! A database in a group whose term ends, and writes whose outcome is not known.

use crate::group::{Fault, LocalGroup};
use crate::harness::*;
use base::env::sim::SimEnv;
use relational::catalog::Sequence;
use relational::{
    CancelFlag, DataType, Database, DatabaseOptions, IndexProgress, NewIndex, NewSequence, Oid,
    OnConflict, Result, SequenceChange, SqlState, Transaction,
};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use table::Local;

/// A group, and the database of its first term.
struct World {
    local: Local,
    group: Arc<LocalGroup>,
    database: Arc<Database>,
}

impl World {
    async fn new() -> Self {
        let local = store(&SimEnv::new(1)).unwrap();
        let group = LocalGroup::of(&local).await.unwrap();
        let database = open_next(&local, &group).await;
        Self { local, group, database }
    }

    /// Opens the database of the next term, beside the one of the last.
    async fn next(&self) -> Arc<Database> {
        open_next(&self.local, &self.group).await
    }
}

async fn open_next(local: &Local, group: &Arc<LocalGroup>) -> Arc<Database> {
    let options = DatabaseOptions::default();
    Database::open_in_group(local, group.next_term().await, options).await.unwrap()
}

fn run(test: impl AsyncFn()) {
    run_over(Form::Group, test);
}

fn state<T: std::fmt::Debug>(result: Result<T>) -> SqlState {
    result.unwrap_err().state
}

async fn inserting(database: &Arc<Database>, table: Oid, id: i32, name: &str) -> Transaction {
    let mut transaction = begin(database);
    transaction.insert(table, vec![named(id, name)], OnConflict::Fail).await.unwrap();
    transaction
}

#[test]
fn a_commit_after_its_term_writes_nothing() {
    run(async || {
        let world = World::new().await;
        let table = create_names(&world.database, "t", true).await;
        insert(&world.database, table, vec![named(1, "a")]).await.unwrap();
        let late = inserting(&world.database, table, 2, "b").await;
        let mut definition = begin(&world.database);
        let columns = vec![column("x", DataType::Int4)];
        definition.create_table(crate::harness::table("u", columns, vec![])).await.unwrap();
        let next = world.next().await;
        assert_eq!(state(late.commit().await), SqlState::SERIALIZATION_FAILURE);
        assert_eq!(state(definition.commit().await), SqlState::SERIALIZATION_FAILURE);
        let mut reader = world.database.begin(relational::Isolation::ReadCommitted, true);
        assert_eq!(state(reader.start_statement().await), SqlState::SERIALIZATION_FAILURE);
        assert_eq!(rows(&next, table).await, [named(1, "a")]);
        assert!(next.catalog().find(PUBLIC, "u").is_none());
        insert(&next, table, vec![named(2, "c")]).await.unwrap();
        check_indexes(&next, table).await;
    });
}

#[test]
fn a_write_waits_until_the_group_has_room() {
    run(async || {
        let world = World::new().await;
        let table = create_names(&world.database, "t", false).await;
        world.group.fail([Fault::Busy; 5]);
        insert(&world.database, table, vec![named(1, "a")]).await.unwrap();
        assert_eq!(rows(&world.database, table).await.len(), 1);
    });
}

#[test]
fn rows_of_a_commit_in_doubt_stay_locked_until_it_is_known() {
    run(async || {
        let world = World::new().await;
        let table = create_names(&world.database, "t", true).await;
        let doubtful = inserting(&world.database, table, 1, "a").await;
        world.group.fail([Fault::Unknown]);
        assert_eq!(state(doubtful.commit().await), SqlState::STATEMENT_COMPLETION_UNKNOWN);
        let mut second = begin(&world.database);
        second.set_lock_timeout(Some(Duration::from_millis(20)));
        let again = second.insert(table, vec![named(1, "b")], OnConflict::Fail).await;
        assert_eq!(state(again), SqlState::LOCK_NOT_AVAILABLE);
        drop(second);
        // A later write brings the outcome with it.
        insert(&world.database, table, vec![named(2, "b")]).await.unwrap();
        let again = insert(&world.database, table, vec![named(1, "c")]).await;
        assert_eq!(state(again), SqlState::UNIQUE_VIOLATION);
        assert_eq!(rows(&world.database, table).await, [named(1, "a"), named(2, "b")]);
        check_indexes(&world.database, table).await;
    });
}

#[test]
fn a_change_of_the_catalog_in_doubt_is_waited_for() {
    run(async || {
        let world = World::new().await;
        let table = create_names(&world.database, "t", false).await;
        insert(&world.database, table, vec![named(1, "a")]).await.unwrap();
        let mut transaction = begin(&world.database);
        let columns = vec![("name".to_owned(), false, false)];
        let index = NewIndex { table, name: None, unique: true, columns };
        transaction.create_index(index).await.unwrap();
        world.group.fail([Fault::Unknown, Fault::Unknown]);
        transaction.commit().await.unwrap();
        // Writers keep the index from now on.
        insert(&world.database, table, vec![named(2, "b")]).await.unwrap();
        check_indexes(&world.database, table).await;
        let next = world.next().await;
        assert_eq!(next.catalog().table(table).unwrap().indexes.len(), 1);
        check_indexes(&next, table).await;
    });
}

#[test]
fn a_change_of_the_catalog_in_doubt_ends_with_its_term() {
    for is_lost in [false, true] {
        run(async || {
            let world = World::new().await;
            let mut transaction = begin(&world.database);
            let columns = vec![column("x", DataType::Int4)];
            let definition = crate::harness::table("u", columns, vec![]);
            transaction.create_table(definition).await.unwrap();
            world.group.fail([Fault::Unknown; 3]);
            let commit = tokio::spawn(transaction.commit());
            tokio::time::sleep(Duration::from_millis(10)).await;
            if is_lost {
                world.group.lose_late();
            }
            let next = world.next().await;
            assert_eq!(state(commit.await.unwrap()), SqlState::STATEMENT_COMPLETION_UNKNOWN);
            let database = &world.database;
            assert!(database.catalog().find(PUBLIC, "u").is_none());
            assert_eq!(next.catalog().find(PUBLIC, "u").is_none(), is_lost);
            create_names(&next, "v", false).await;
            let after = world.next().await;
            assert!(after.catalog().find(PUBLIC, "v").is_some());
        });
    }
}

/// Creates a sequence from 1 on.
async fn create_sequence(database: &Arc<Database>, name: &str) -> Arc<Sequence> {
    let mut transaction = begin(database);
    let sequence = NewSequence {
        schema: PUBLIC,
        name: name.to_owned(),
        owner: OWNER,
        data_type: DataType::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        owned_by: None,
    };
    let oid = transaction.create_sequence(sequence).await.unwrap();
    transaction.commit().await.unwrap();
    Arc::clone(database.catalog().sequence(oid).unwrap())
}

/// Polls a future, and gives it up as soon as it waits for the next write, which is made.
async fn give_up_in_write<T>(world: &World, future: impl Future<Output = T>) {
    world.group.fail([Fault::Untold]);
    let mut future = std::pin::pin!(future);
    while world.group.faults() > 0 {
        let step = |context: &mut Context<'_>| Poll::Ready(future.as_mut().poll(context));
        assert!(std::future::poll_fn(step).await.is_pending());
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_change_of_a_sequence_that_is_given_up_gives_no_number_twice() {
    run(async || {
        for is_set in [false, true] {
            let world = World::new().await;
            let sequence = create_sequence(&world.database, "s").await;
            let mut given = Vec::new();
            for _ in 0..20 {
                given.push(world.database.next_value(&sequence).await.unwrap());
            }
            match is_set {
                true => {
                    // It repeats the last number, so that no number may be given twice.
                    let set = world.database.set_value(&sequence, 20, true);
                    give_up_in_write(&world, set).await;
                }
                false => {
                    let mut transaction = begin(&world.database);
                    let change = SequenceChange { cycle: Some(true), ..Default::default() };
                    let alter = transaction.alter_sequence(sequence.oid, change);
                    give_up_in_write(&world, alter).await;
                }
            }
            for _ in 0..10 {
                given.push(world.database.next_value(&sequence).await.unwrap());
            }
            // The next term has the record alone.
            let next = world.next().await;
            let sequence = Arc::clone(next.catalog().sequence(sequence.oid).unwrap());
            given.push(next.next_value(&sequence).await.unwrap());
            let count = given.len();
            given.sort_unstable();
            given.dedup();
            assert_eq!(given.len(), count, "set: {is_set}, {given:?}");
        }
    });
}

#[test]
fn a_number_that_is_asked_for_during_the_commit_of_a_restart_is_behind_it() {
    run(async || {
        let world = World::new().await;
        let sequence = create_sequence(&world.database, "s").await;
        // Nothing is set aside, so the next number needs a record.
        world.database.set_value(&sequence, 500, true).await.unwrap();
        let mut transaction = begin(&world.database);
        transaction.restart_sequence(sequence.oid, None).await.unwrap();
        world.group.fail([Fault::Untold]);
        let commit = tokio::spawn(transaction.commit());
        while world.group.faults() > 0 {
            tokio::task::yield_now().await;
        }
        let (other, of) = (world.database.clone(), Arc::clone(&sequence));
        let number = tokio::spawn(async move { other.next_value(&of).await.unwrap() });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!commit.is_finished());
        world.group.tell(1);
        commit.await.unwrap().unwrap();
        assert_eq!(number.await.unwrap(), 1);
        assert_eq!(world.database.next_value(&sequence).await.unwrap(), 2);
    });
}

#[test]
fn a_restart_that_is_rolled_back_leaves_the_sequence_where_it_was() {
    run(async || {
        let world = World::new().await;
        let sequence = create_sequence(&world.database, "s").await;
        let next_of = async || world.database.next_value(&sequence).await.unwrap();
        assert_eq!(next_of().await, 1);
        let mut transaction = begin(&world.database);
        transaction.savepoint("before");
        transaction.restart_sequence(sequence.oid, Some(100)).await.unwrap();
        let own = transaction.restarts();
        assert_eq!(own.next(&sequence).unwrap(), Some(100));
        assert_eq!(next_of().await, 2, "others go on");
        transaction.rollback_to("before").unwrap();
        assert_eq!(own.next(&sequence).unwrap(), None);
        let error = transaction.restart_sequence(sequence.oid, Some(0)).await.unwrap_err();
        assert_eq!(error.state, SqlState::INVALID_PARAMETER_VALUE);
        transaction.restart_sequence(sequence.oid, Some(200)).await.unwrap();
        transaction.rollback().await;
        assert_eq!(next_of().await, 3);
        let mut transaction = begin(&world.database);
        transaction.restart_sequence(sequence.oid, Some(300)).await.unwrap();
        assert_eq!(transaction.restarts().next(&sequence).unwrap(), Some(300));
        transaction.commit().await.unwrap();
        assert_eq!(next_of().await, 301);
        let next = world.next().await;
        assert!(next.next_value(&sequence).await.unwrap() > 301);
    });
}

#[test]
fn a_build_is_ended_though_the_write_of_its_end_is_lost_at_first() {
    run(async || {
        for is_unique in [false, true] {
            let world = World::new().await;
            let table = create_names(&world.database, "t", false).await;
            insert(&world.database, table, vec![named(1, "x"), named(2, "x")]).await.unwrap();
            let columns = vec![("name".to_owned(), false, false)];
            let index = NewIndex { table, name: None, unique: is_unique, columns };
            let (progress, cancel) = (IndexProgress::default(), CancelFlag::default());
            // The index is added by one write behind the one that clears its part, and rows have another one.
            let before = if is_unique { 2 } else { 3 };
            world.group.fail(vec![Fault::Made; before]);
            world.group.fail([Fault::Lost]);
            let built = world.database.create_index_online(index, progress, cancel).await;
            assert_eq!(world.group.faults(), 0);
            let catalog = world.database.catalog();
            let indexes = &catalog.table(table).unwrap().indexes;
            match is_unique {
                true => {
                    assert_eq!(state(built), SqlState::UNIQUE_VIOLATION);
                    assert!(indexes.is_empty(), "{indexes:?}");
                }
                false => {
                    let ready: Vec<_> = indexes.iter().map(|index| index.ready).collect();
                    assert_eq!((built.is_ok(), ready), (true, vec![true]));
                }
            }
        }
    });
}

#[test]
fn sequences_go_on_in_the_next_term_and_give_no_number_twice() {
    run(async || {
        let world = World::new().await;
        let oid = create_sequence(&world.database, "s").await.oid;
        let next_of = async |database: &Arc<Database>| {
            let sequence = Arc::clone(database.catalog().sequence(oid).unwrap());
            database.next_value(&sequence).await
        };
        assert_eq!(next_of(&world.database).await.unwrap(), 1);
        world.group.fail([Fault::Unknown]);
        let sequence = Arc::clone(world.database.catalog().sequence(oid).unwrap());
        let set = world.database.set_value(&sequence, 500, true).await;
        assert_eq!(state(set), SqlState::STATEMENT_COMPLETION_UNKNOWN);
        let mut given = Vec::new();
        for _ in 0..40 {
            given.push(next_of(&world.database).await.unwrap());
        }
        let next = world.next().await;
        // Numbers that were set aside are given by no other database.
        let late = loop {
            match next_of(&world.database).await {
                Ok(number) => given.push(number),
                Err(error) => break error,
            }
        };
        assert_eq!(late.state, SqlState::SERIALIZATION_FAILURE);
        for _ in 0..40 {
            given.push(next_of(&next).await.unwrap());
        }
        let count = given.len();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), count, "{given:?}");
    });
}

#[test]
fn a_build_of_an_index_ends_with_its_term_and_leaves_nothing() {
    run(async || {
        let world = World::new().await;
        let table = create_names(&world.database, "t", false).await;
        let many = (0..2000).map(|id| named(id, "x")).collect();
        insert(&world.database, table, many).await.unwrap();
        let columns = vec![("name".to_owned(), false, false)];
        let index = NewIndex { table, name: None, unique: false, columns };
        let (progress, cancel) = (IndexProgress::default(), CancelFlag::default());
        let building = world.database.clone();
        let watched = progress.clone();
        let build =
            tokio::spawn(
                async move { building.create_index_online(index, progress, cancel).await },
            );
        while watched.rows() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let next = world.next().await;
        assert_eq!(state(build.await.unwrap()), SqlState::SERIALIZATION_FAILURE);
        assert!(next.catalog().table(table).unwrap().indexes.is_empty());
        assert_eq!(rows(&next, table).await.len(), 2000);
    });
}

#[test]
fn only_the_transaction_that_made_garbage_waits_for_it() {
    run(async || {
        let world = World::new().await;
        let (dropped, kept) = (
            create_names(&world.database, "dropped", false).await,
            create_names(&world.database, "kept", false).await,
        );
        insert(&world.database, dropped, vec![named(1, "a")]).await.unwrap();
        let mut transaction = begin(&world.database);
        transaction.drop_table(dropped, false).await.unwrap();
        world.group.fail([Fault::Made, Fault::Untold]);
        let commit = tokio::spawn(transaction.commit());
        while world.group.faults() > 0 {
            tokio::task::yield_now().await;
        }
        let other = inserting(&world.database, kept, 1, "a").await;
        at_once(other.rollback());
        let made = create_names(&world.database, "made", false);
        tokio::time::timeout(Duration::from_secs(20), made).await.unwrap();
        assert!(!commit.is_finished());
        world.group.tell(1);
        commit.await.unwrap().unwrap();
        assert!(rows(&world.database, kept).await.is_empty());
    });
}

#[test]
fn numbers_of_trees_are_given_again_only_when_they_are_empty() {
    run(async || {
        let world = World::new().await;
        let mut transaction = begin(&world.database);
        let columns = vec![column("id", DataType::Int4), column("name", DataType::Text)];
        let definition = crate::harness::table("t", columns, vec![key(&["id"])]);
        let table = transaction.create_table(definition).await.unwrap();
        transaction.insert(table, vec![named(1, "a")], OnConflict::Fail).await.unwrap();
        // Its entries are written before the commit that does not come.
        let columns = vec![("name".to_owned(), false, false)];
        let index = NewIndex { table, name: None, unique: false, columns };
        transaction.create_index(index).await.unwrap();
        let stray = used_trees(&world.database);
        assert_eq!(stray.len(), 2, "the catalog's, and the one of the new table");
        let next = world.next().await;
        assert_eq!(used_trees(&next).len(), 1);
        let other = create_names(&next, "other", true).await;
        drop(transaction);
        assert!(rows(&next, other).await.is_empty());
        check_indexes(&next, other).await;
    });
}
