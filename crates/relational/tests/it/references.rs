//! Foreign keys: their definitions, and referenced rows that stay while they are referenced.

use crate::harness::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use relational::catalog::{ForeignKey, KeyAction, KeyMatch};
use relational::{
    AlterColumn, AlterTable, CancelFlag, CreateTable, DataType, Database, Error, Isolation,
    LockMode, NewConstraint, NewForeignKey, NewIndex, Oid, OnConflict, Result, Row, SqlState,
    Transaction, Value, Wait, Writes,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A foreign key from the column `parent` to the primary key of a table, or of the table itself.
fn foreign(references: Option<Oid>) -> NewForeignKey {
    NewForeignKey {
        name: None,
        columns: vec!["parent".to_owned()],
        references,
        referenced: Vec::new(),
        on_delete: KeyAction::NoAction,
        on_update: KeyAction::NoAction,
        matching: KeyMatch::Simple,
    }
}

/// The definition of the table `name` with a key `id`, and a column `parent` that references a table.
fn children(name: &str, parent: DataType, constraints: Vec<NewForeignKey>) -> CreateTable {
    let columns = vec![column("id", DataType::Int4), column("parent", parent)];
    let foreign = constraints.into_iter().map(NewConstraint::ForeignKey);
    table(name, columns, [key(&["id"])].into_iter().chain(foreign).collect())
}

/// A table `p` of names, and a table `c` that references it.
async fn family(database: &Arc<Database>) -> (Oid, Oid) {
    let parents = create_names(database, "p", true).await;
    let mut transaction = begin(database);
    let new = children("c", DataType::Int4, vec![foreign(Some(parents))]);
    let of = transaction.create_table(new).await.unwrap();
    transaction.commit().await.unwrap();
    (parents, of)
}

fn key_of(database: &Arc<Database>, table: Oid) -> ForeignKey {
    database.catalog().table(table).unwrap().foreign_keys[0].clone()
}

fn child(id: i32, parent: i32) -> Row {
    vec![Value::Int4(id), Value::Int4(parent)]
}

/// Alters a table in its own transaction.
async fn alter(database: &Arc<Database>, table: Oid, change: AlterTable) -> Result<()> {
    let mut transaction = begin(database);
    transaction.alter_table(table, change).await?;
    transaction.commit().await
}

/// Inserts a child as a statement does: the row, then a look at what it references.
async fn insert_child(
    transaction: &mut Transaction,
    (of, key): (Oid, &ForeignKey),
    row: Row,
) -> Result<()> {
    transaction.lock_to_write(of, Writes::Inserts).await?;
    let values = [row[1].clone()];
    transaction.insert(of, vec![row], OnConflict::Fail).await?;
    match transaction.lock_referenced(key, &values).await? {
        true => Ok(()),
        false => Err(Error::new(SqlState::FOREIGN_KEY_VIOLATION, "not present")),
    }
}

/// Deletes a parent as a statement does: the row, then a look for rows that reference it.
async fn delete_parent(
    transaction: &mut Transaction,
    (parents, of, key): (Oid, Oid, &ForeignKey),
    id: i32,
) -> Result<()> {
    transaction.lock_to_write(parents, Writes::Changes).await?;
    let id = [Value::Int4(id)];
    let row = transaction.lock(parents, &id, LockMode::Update, Wait::Wait).await?;
    let Some(row) = row else { return Ok(()) };
    transaction.delete(parents, &row).await?;
    match referencing(transaction, of, key, &id).await?.is_empty() {
        true => Ok(()),
        false => Err(Error::new(SqlState::FOREIGN_KEY_VIOLATION, "still referenced")),
    }
}

/// Returns the rows that reference a key, as a statement looks for them.
async fn referencing(
    transaction: &mut Transaction,
    of: Oid,
    key: &ForeignKey,
    values: &[Value],
) -> Result<Vec<Row>> {
    let view = transaction.latest_view();
    let table = Arc::clone(view.table(of)?);
    let mut scan = view.referencing(&table, key, &[values.to_vec()], CancelFlag::default())?;
    let read = tokio::task::spawn_blocking(move || {
        let mut all = Vec::new();
        loop {
            let rows = scan.next_batch(2)?;
            if rows.is_empty() {
                return Ok(all);
            }
            all.extend(rows);
        }
    });
    read.await.unwrap()
}

#[test]
fn a_foreign_key_survives_a_restart_and_names_the_index_that_it_references() {
    run(async || {
        let (machine, database) = new().await;
        let (parents, of) = family(&database).await;
        let key = key_of(&database, of);
        let catalog = database.catalog();
        let primary = catalog.table(parents).unwrap().primary_key.clone().unwrap();
        assert_eq!(
            (key.name.as_str(), key.references, key.index),
            ("c_parent_fkey", parents, primary.oid)
        );
        drop((database, catalog));
        let database = open(&machine).await.unwrap();
        assert_eq!(key_of(&database, of), key);
        assert!(create_names(&database, "other", false).await > key.oid);
        assert_eq!(database.catalog().references_to(parents).count(), 1);
    });
}

#[test]
fn names_of_foreign_keys_are_numbered_where_they_are_taken() {
    run(async || {
        let (_machine, database) = new().await;
        let (parents, of) = family(&database).await;
        let add = |key: NewForeignKey| AlterTable::AddConstraint(NewConstraint::ForeignKey(key));
        alter(&database, of, add(foreign(Some(parents)))).await.unwrap();
        let named = NewForeignKey { name: Some("c_parent_fkey".into()), ..foreign(Some(parents)) };
        let error = alter(&database, of, add(named)).await.unwrap_err();
        assert_eq!(error.state, SqlState::DUPLICATE_OBJECT);
        let rename = AlterTable::RenameConstraint { from: "c_parent_fkey".into(), to: "k".into() };
        alter(&database, of, rename).await.unwrap();
        let catalog = database.catalog();
        let keys = &catalog.table(of).unwrap().foreign_keys;
        let names: Vec<_> = keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["k", "c_parent_fkey1"]);
    });
}

#[test]
fn a_foreign_key_that_references_no_unique_key_is_refused() {
    run(async || {
        let (_machine, database) = new().await;
        let parents = create_names(&database, "p", false).await;
        let refused = async |key: NewForeignKey, parent: DataType| {
            let new = children("c", parent, vec![key]);
            begin(&database).create_table(new).await.unwrap_err().state
        };
        let to = |columns: &[&str]| NewForeignKey {
            referenced: columns.iter().map(|name| name.to_string()).collect(),
            ..foreign(Some(parents))
        };
        assert_eq!(refused(to(&["name"]), DataType::Text).await, SqlState::INVALID_FOREIGN_KEY);
        assert_eq!(refused(to(&["id", "name"]), DataType::Int4).await.code(), "42830");
        assert_eq!(refused(to(&["gone"]), DataType::Int4).await, SqlState::UNDEFINED_COLUMN);
        assert_eq!(refused(to(&["id"]), DataType::Text).await, SqlState::DATATYPE_MISMATCH);
        let from = NewForeignKey { columns: vec!["gone".into()], ..foreign(Some(parents)) };
        assert_eq!(refused(from, DataType::Int4).await, SqlState::UNDEFINED_COLUMN);
        // A column of another width can hold equal values.
        let mut transaction = begin(&database);
        let new = children("c", DataType::Int8, vec![to(&["id"])]);
        let of = transaction.create_table(new).await.unwrap();
        transaction.commit().await.unwrap();
        insert(&database, parents, vec![named(1, "a")]).await.unwrap();
        let mut transaction = begin(&database);
        let key = key_of(&database, of);
        assert!(transaction.lock_referenced(&key, &[Value::Int8(1)]).await.unwrap());
        assert!(!transaction.lock_referenced(&key, &[Value::Int8(1 << 40)]).await.unwrap());
        drop(transaction);
        let set = |name: &str, data_type| AlterTable::Column {
            name: name.into(),
            change: AlterColumn::SetType(data_type),
        };
        alter(&database, parents, set("id", DataType::Int8)).await.unwrap();
        let broken = alter(&database, of, set("parent", DataType::Numeric(None))).await;
        assert_eq!(broken.unwrap_err().state, SqlState::DATATYPE_MISMATCH);
    });
}

#[test]
fn existing_rows_are_checked_when_a_foreign_key_comes() {
    run(async || {
        let (_machine, database) = new().await;
        let parents = create_names(&database, "p", false).await;
        let mut transaction = begin(&database);
        let of = children("c", DataType::Int4, Vec::new());
        let of = transaction.create_table(of).await.unwrap();
        transaction.commit().await.unwrap();
        let null = vec![Value::Int4(3), Value::Null];
        insert(&database, of, vec![child(1, 1), child(2, 1), null]).await.unwrap();
        let add = || AlterTable::AddConstraint(NewConstraint::ForeignKey(foreign(Some(parents))));
        let error = alter(&database, of, add()).await.unwrap_err();
        assert_eq!(error.state, SqlState::FOREIGN_KEY_VIOLATION);
        assert_eq!(error.constraint.as_deref(), Some("c_parent_fkey"));
        assert_eq!(
            error.detail.as_deref(),
            Some("Key (parent)=(1) is not present in table \"p\".")
        );
        assert!(database.catalog().table(of).unwrap().foreign_keys.is_empty());
        insert(&database, parents, vec![named(1, "a")]).await.unwrap();
        alter(&database, of, add()).await.unwrap();
        assert_eq!(key_of(&database, of).name, "c_parent_fkey");
    });
}

#[test]
fn what_a_foreign_key_needs_is_not_dropped_without_cascade() {
    run(async || {
        let (_machine, database) = new().await;
        let (parents, of) = family(&database).await;
        let error = begin(&database).drop_table(parents, false).await.unwrap_err();
        assert_eq!(error.state, SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
        let detail = "constraint c_parent_fkey on table c depends on table p";
        assert_eq!(error.detail.as_deref(), Some(detail));
        let drop_column = |cascade| AlterTable::DropColumn { name: "id".into(), cascade };
        let error = alter(&database, parents, drop_column(false)).await.unwrap_err();
        assert_eq!(error.state, SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
        let drop_key = |cascade| AlterTable::DropConstraint { name: "p_pkey".into(), cascade };
        let error = alter(&database, parents, drop_key(false)).await.unwrap_err();
        assert_eq!(
            error.message,
            "cannot drop constraint p_pkey on table p because other objects depend on it"
        );
        let error = begin(&database).truncate(&[parents]).await.unwrap_err();
        assert_eq!(error.state, SqlState::FEATURE_NOT_SUPPORTED);
        begin(&database).truncate(&[parents, of]).await.unwrap();
        begin(&database).drop_tables(&[parents, of], false).await.unwrap();
        for change in [drop_key(true), drop_column(true)] {
            let mut transaction = begin(&database);
            transaction.alter_table(parents, change).await.unwrap();
            assert!(transaction.catalog().table(of).unwrap().foreign_keys.is_empty());
        }
        let mut transaction = begin(&database);
        transaction.drop_table(parents, true).await.unwrap();
        transaction.commit().await.unwrap();
        assert!(database.catalog().table(of).unwrap().foreign_keys.is_empty());
    });
}

#[test]
fn a_unique_index_that_is_referenced_is_not_dropped() {
    run(async || {
        let (_machine, database) = new().await;
        let parents = create_names(&database, "p", false).await;
        let mut transaction = begin(&database);
        let columns = vec![("name".to_owned(), false, false)];
        let index = NewIndex { table: parents, name: None, unique: true, columns };
        let index = transaction.create_index(index).await.unwrap();
        let to = NewForeignKey { referenced: vec!["name".into()], ..foreign(Some(parents)) };
        let of = transaction.create_table(children("c", DataType::Text, vec![to])).await.unwrap();
        transaction.commit().await.unwrap();
        let error = begin(&database).drop_index(index).await.unwrap_err();
        assert_eq!(error.state, SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
        // A change of the key holds the entry of the index.
        insert(&database, parents, vec![named(1, "a")]).await.unwrap();
        let mut changes = begin(&database);
        changes.update(parents, &named(1, "a"), named(1, "b")).await.unwrap();
        let mut references = begin(&database);
        references.set_lock_timeout(Some(Duration::from_millis(1)));
        let key = key_of(&database, of);
        let wait = references.lock_referenced(&key, &[Value::text("a")]).await;
        assert_eq!(wait.unwrap_err().state, SqlState::LOCK_NOT_AVAILABLE);
        changes.commit().await.unwrap();
        assert!(!references.lock_referenced(&key, &[Value::text("a")]).await.unwrap());
        assert!(references.lock_referenced(&key, &[Value::text("b")]).await.unwrap());
    });
}

#[test]
fn a_change_beside_the_key_does_not_hold_up_references() {
    run(async || {
        let (_machine, database) = new().await;
        let (parents, of) = family(&database).await;
        insert(&database, parents, vec![named(1, "a")]).await.unwrap();
        let key = key_of(&database, of);
        let mut changes = begin(&database);
        changes.update(parents, &named(1, "a"), named(1, "b")).await.unwrap();
        let mut repeatable = begin_repeatable(&database);
        let mut references = begin(&database);
        references.set_lock_timeout(Some(Duration::from_millis(1)));
        insert_child(&mut references, (of, &key), child(1, 1)).await.unwrap();
        references.commit().await.unwrap();
        changes.commit().await.unwrap();
        // Nor does it break a snapshot of before: the key is what it was.
        insert_child(&mut repeatable, (of, &key), child(2, 1)).await.unwrap();
        repeatable.commit().await.unwrap();
    });
}

#[test]
fn a_delete_waits_for_a_reference_and_then_meets_it() {
    run(async || {
        for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
            let (_machine, database) = new().await;
            let (parents, of) = family(&database).await;
            insert(&database, parents, vec![named(1, "a")]).await.unwrap();
            let key = key_of(&database, of);
            let mut deletes = database.begin(isolation, false);
            deletes.start_statement().await.unwrap();
            let mut inserts = begin(&database);
            insert_child(&mut inserts, (of, &key), child(1, 1)).await.unwrap();
            let task = {
                let key = key.clone();
                tokio::spawn(
                    async move { delete_parent(&mut deletes, (parents, of, &key), 1).await },
                )
            };
            tokio::task::yield_now().await;
            assert!(!task.is_finished());
            inserts.commit().await.unwrap();
            let error = task.await.unwrap().unwrap_err();
            assert_eq!(error.state, SqlState::FOREIGN_KEY_VIOLATION, "{isolation:?}");
            assert_eq!(rows(&database, parents).await.len(), 1);
        }
    });
}

#[test]
fn a_reference_waits_for_a_delete_and_then_finds_nothing() {
    run(async || {
        for (isolation, want) in [
            (Isolation::ReadCommitted, SqlState::FOREIGN_KEY_VIOLATION),
            (Isolation::RepeatableRead, SqlState::SERIALIZATION_FAILURE),
        ] {
            let (_machine, database) = new().await;
            let (parents, of) = family(&database).await;
            insert(&database, parents, vec![named(1, "a")]).await.unwrap();
            let key = key_of(&database, of);
            let mut inserts = database.begin(isolation, false);
            inserts.start_statement().await.unwrap();
            let mut deletes = begin(&database);
            delete_parent(&mut deletes, (parents, of, &key), 1).await.unwrap();
            let task = {
                let key = key.clone();
                tokio::spawn(
                    async move { insert_child(&mut inserts, (of, &key), child(1, 1)).await },
                )
            };
            tokio::task::yield_now().await;
            assert!(!task.is_finished());
            deletes.commit().await.unwrap();
            assert_eq!(task.await.unwrap().unwrap_err().state, want, "{isolation:?}");
            assert!(rows(&database, of).await.is_empty());
        }
    });
}

#[test]
fn a_snapshot_does_not_reference_rows_that_came_after_it() {
    run(async || {
        let (_machine, database) = new().await;
        let (parents, of) = family(&database).await;
        let key = key_of(&database, of);
        let mut inserts = begin_repeatable(&database);
        inserts.view();
        insert(&database, parents, vec![named(1, "a")]).await.unwrap();
        let error = insert_child(&mut inserts, (of, &key), child(1, 1)).await.unwrap_err();
        assert_eq!(error.state, SqlState::FOREIGN_KEY_VIOLATION);
        drop(inserts);
        let mut inserts = begin_repeatable(&database);
        inserts.insert(parents, vec![named(2, "b")], OnConflict::Fail).await.unwrap();
        insert_child(&mut inserts, (of, &key), child(1, 2)).await.unwrap();
        inserts.commit().await.unwrap();
    });
}

#[test]
fn a_writer_learns_of_a_foreign_key_that_came_before_its_statement() {
    run(async || {
        let (_machine, database) = new().await;
        let parents = create_names(&database, "p", false).await;
        insert(&database, parents, vec![named(1, "a")]).await.unwrap();
        let (mut committed, mut repeatable) = (begin(&database), begin_repeatable(&database));
        let _ = (committed.view(), repeatable.view());
        let mut defines = begin(&database);
        let new = children("c", DataType::Int4, vec![foreign(Some(parents))]);
        defines.create_table(new).await.unwrap();
        defines.commit().await.unwrap();
        committed.lock_to_write(parents, Writes::Changes).await.unwrap();
        assert!(committed.catalog().has_foreign_keys(parents));
        let error = repeatable.lock_to_write(parents, Writes::Changes).await.unwrap_err();
        assert_eq!(error.state, SqlState::SERIALIZATION_FAILURE);
    });
}

#[test]
fn referencing_rows_are_found_by_an_index_and_without_one() {
    run(async || {
        let (_machine, database) = new().await;
        let (_, of) = family(&database).await;
        let key = key_of(&database, of);
        let all: Vec<Row> = (0..40).map(|id| child(id, id % 4)).collect();
        insert(&database, of, all).await.unwrap();
        let mut found = Vec::new();
        for is_indexed in [false, true] {
            let mut transaction = begin(&database);
            if is_indexed {
                let columns =
                    vec![("parent".to_owned(), true, false), ("id".to_owned(), false, false)];
                let index = NewIndex { table: of, name: None, unique: false, columns };
                transaction.create_index(index).await.unwrap();
            }
            // Own changes count.
            transaction.insert(of, vec![child(100, 3)], OnConflict::Fail).await.unwrap();
            transaction.delete(of, &child(3, 3)).await.unwrap();
            let three = [Value::Int4(3)];
            let mut rows = referencing(&mut transaction, of, &key, &three).await.unwrap();
            rows.sort();
            found.push(rows);
        }
        assert_eq!(found[0].len(), 10);
        assert!(found[0].contains(&child(100, 3)) && !found[0].contains(&child(3, 3)));
        assert_eq!(found[0], found[1]);
    });
}

const PARENTS: i32 = 5;
const WORKERS: u64 = 6;
const TRANSACTIONS: i32 = 30;

/// Inserts and deletes parents and children at random, and commits if nothing failed.
async fn transact(
    database: &Arc<Database>,
    (parents, of, key): (Oid, Oid, &ForeignKey),
    number: i32,
    random: &mut StdRng,
) -> bool {
    let isolation = match random.random_bool(0.5) {
        true => Isolation::RepeatableRead,
        false => Isolation::ReadCommitted,
    };
    let mut transaction = database.begin(isolation, false);
    let steps: Result<()> = async {
        for step in 0..random.random_range(1..4) {
            transaction.start_statement().await?;
            let id = random.random_range(0..PARENTS);
            match random.random_range(0..3) {
                0 => {
                    let row = child(number * 10 + step, id);
                    insert_child(&mut transaction, (of, key), row).await?;
                }
                1 => delete_parent(&mut transaction, (parents, of, key), id).await?,
                _ => {
                    let rows = vec![named(id, &id.to_string())];
                    let skip = OnConflict::Skip(None);
                    transaction.insert(parents, rows, skip).await?;
                    let id = [Value::Int4(id)];
                    for row in referencing(&mut transaction, of, key, &id).await? {
                        let found = table_key(&row);
                        let row =
                            transaction.lock(of, &found, LockMode::Update, Wait::Wait).await?;
                        if let Some(row) = row {
                            transaction.delete(of, &row).await?;
                        }
                    }
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
    .await;
    match steps {
        Ok(()) => {
            transaction.commit().await.unwrap();
            true
        }
        Err(error) => {
            let expected = ["23503", "40001", "40P01"];
            assert!(expected.contains(&error.state.code()), "{error}");
            false
        }
    }
}

fn table_key(row: &Row) -> Vec<Value> {
    vec![row[0].clone()]
}

#[test]
fn no_history_leaves_an_orphan() {
    let (mut with_children, mut committed) = (0, 0);
    for seed in 0..10 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (children, count) = runtime.block_on(one_history(seed));
        with_children += usize::from(children > 0);
        committed += count;
    }
    assert!(with_children > 3, "{with_children} histories left children");
    assert!(committed > 300, "only {committed} transactions were committed");
}

/// Returns how many children a history left, and how many of its transactions were committed.
async fn one_history(seed: u64) -> (usize, usize) {
    let (_machine, database) = new().await;
    let (parents, of) = family(&database).await;
    let key = key_of(&database, of);
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let (database, key) = (Arc::clone(&database), key.clone());
        workers.push(tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed * 100 + worker);
            let mut committed = 0;
            for number in 0..TRANSACTIONS {
                let number = worker as i32 * TRANSACTIONS + number;
                let done = transact(&database, (parents, of, &key), number, &mut random).await;
                committed += usize::from(done);
            }
            committed
        }));
    }
    let mut committed = 0;
    for worker in workers {
        committed += worker.await.unwrap();
    }
    let known: BTreeSet<Value> =
        rows(&database, parents).await.into_iter().map(|row| row[0].clone()).collect();
    let children = rows(&database, of).await;
    let orphan = children.iter().find(|row| !known.contains(&row[1]));
    assert_eq!(orphan, None, "seed {seed}: a row references nothing");
    check_indexes(&database, parents).await;
    (children.len(), committed)
}
