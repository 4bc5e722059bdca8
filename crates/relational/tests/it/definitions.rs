//! Changes of the catalog: in transactions, over restarts, and beside writers.

use crate::harness::*;
use relational::catalog::TablePart;
use relational::{
    AlterColumn, AlterTable, CancelFlag, DataType, IndexProgress, LockMode, NewColumn,
    NewConstraint, NewIndex, NewSequence, NewView, OnConflict, SequenceChange, SqlState, Value,
    Wait,
};
use std::time::Duration;

fn index_on(table: u32, column: &str, unique: bool) -> NewIndex {
    NewIndex { table, name: None, unique, columns: vec![(column.to_owned(), false, false)] }
}

fn sequence(name: &str) -> NewSequence {
    NewSequence {
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
    }
}

#[test]
fn the_catalog_survives_a_restart_with_its_numbers() {
    run(async || {
        let (machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        insert(&database, table, vec![named(1, "a")]).await.unwrap();
        let mut transaction = begin(&database);
        let schema = transaction.create_schema("s", OWNER).await.unwrap();
        let view = NewView {
            schema,
            name: "v".into(),
            owner: OWNER,
            query: "SELECT 1".into(),
            columns: vec![("x".into(), DataType::Int4)],
            reads: vec![table],
            names: Vec::new(),
            replace: false,
        };
        transaction.create_view(view).await.unwrap();
        transaction.create_sequence(sequence("q")).await.unwrap();
        transaction.commit().await.unwrap();
        let before = database.catalog();
        let list = |catalog: &relational::Catalog| {
            format!(
                "{:?}{:?}{:?}{:?}{:?}",
                catalog.tables().map(|table| (table.oid, &table.indexes)).collect::<Vec<_>>(),
                catalog.views().collect::<Vec<_>>(),
                catalog.sequences().collect::<Vec<_>>(),
                catalog.schemas().collect::<Vec<_>>(),
                catalog.roles().collect::<Vec<_>>(),
            )
        };
        let listed = list(&before);
        // A catalog keeps the trees of its tables open.
        drop((database, before));
        let database = open(&machine).await.unwrap();
        assert_eq!(list(&database.catalog()), listed);
        assert_eq!(rows(&database, table).await, [named(1, "a")]);
        let other = create_names(&database, "other", false).await;
        assert!(!listed.contains(&other.to_string()));
    });
}

#[test]
fn the_keys_of_rows_and_of_each_index_are_where_the_table_says() {
    run(async || {
        let (_machine, database) = new().await;
        let other = create_names(&database, "other", true).await;
        let table = create_names(&database, "t", true).await;
        insert(&database, other, vec![named(7, "x")]).await.unwrap();
        insert(&database, table, vec![named(1, "a"), named(2, "b"), named(3, "c")]).await.unwrap();
        let catalog = database.catalog();
        let table = catalog.table(table).unwrap();
        let index = table.indexes[0].oid;
        let keys_at = |part| {
            let place = table.place_of(part).unwrap();
            let tree = database.engine().tree(place.tree).unwrap();
            let mut scan = tree.scan(&engine::ScanRequest::rows(place.rows), None).unwrap();
            let mut keys = 0;
            while scan.next_row().unwrap().is_some() {
                keys += 1;
            }
            keys
        };
        let parts = [TablePart::All, TablePart::Rows, TablePart::Index(index)];
        assert_eq!(parts.map(keys_at), [6, 3, 3]);
        for part in parts {
            let place = table.place_of(part).unwrap();
            assert_eq!(place.is_shared, form() == Form::Group, "{part:?}");
        }
        // Numbers of trees of the database and of the engine may be equal, and mean nothing to each other.
        let rows = table.place_of(TablePart::Rows).unwrap().rows;
        let (begins, before) = (table.layout.key.prefix(), table.tree.to_be_bytes());
        match form() {
            Form::Machine => assert_eq!(rows.start, begins),
            Form::Group => assert_eq!(rows.start, [&before[..], &begins].concat()),
        }
        let missing = table.place_of(TablePart::Index(other)).unwrap_err();
        assert_eq!(missing.state, SqlState::UNDEFINED_OBJECT);
    });
}

#[test]
fn a_tree_that_a_table_does_not_own_is_refused() {
    run_over(Form::Machine, async || {
        let (machine, database) = new().await;
        let oid = create_names(&database, "t", false).await;
        let mut batch = engine::WriteBatch::new();
        table::TreeOwnership::remove(&mut batch, &format!("sql/{oid}"));
        database.engine().tree(table::TreeOwnership::SYSTEM_TREE).unwrap().write(&batch).unwrap();
        drop(database);
        let error = open(&machine).await.unwrap_err();
        assert!(error.contains("which the schema does not give to it"), "{error}");
    });
}

#[test]
fn definitions_roll_back_with_their_rows_and_trees() {
    run(async || {
        let (machine, database) = new().await;
        let trees = database.engine().trees();
        let used = used_trees(&database);
        let mut transaction = begin(&database);
        let definition = table("t", vec![column("a", DataType::Int4)], vec![key(&["a"])]);
        let table = transaction.create_table(definition.clone()).await.unwrap();
        transaction.insert(table, vec![vec![Value::Int4(1)]], OnConflict::Fail).await.unwrap();
        transaction.start_statement().await.unwrap();
        assert_eq!(rows_in(transaction.view(), table, None).await.len(), 1);
        transaction.rollback().await;
        assert_eq!(database.engine().trees(), trees);
        assert_eq!(used_trees(&database), used);
        assert!(database.catalog().find(PUBLIC, "t").is_none());
        // A savepoint takes back a table, and another one takes its name.
        let mut transaction = begin(&database);
        transaction.savepoint("s");
        transaction.create_table(definition.clone()).await.unwrap();
        let error = transaction.create_table(definition.clone()).await.unwrap_err();
        assert_eq!(error.state, SqlState::DUPLICATE_TABLE);
        transaction.rollback_to("s").unwrap();
        let table = transaction.create_table(definition).await.unwrap();
        transaction.commit().await.unwrap();
        insert(&database, table, vec![vec![Value::Int4(1)]]).await.unwrap();
        assert_eq!(used_trees(&database).len(), used.len() + 1);
        drop(database);
        let database = open(&machine).await.unwrap();
        assert_eq!(rows(&database, table).await.len(), 1);
        assert_eq!(used_trees(&database).len(), used.len() + 1);
    });
}

#[test]
fn dropped_and_emptied_tables_are_read_to_their_end() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        insert(&database, table, vec![named(1, "a"), named(2, "b")]).await.unwrap();
        let trees = database.engine().trees().len();
        let used = used_trees(&database);
        let view = begin(&database).view();
        let mut transaction = begin(&database);
        transaction.truncate(&[table]).await.unwrap();
        transaction.insert(table, vec![named(3, "a")], OnConflict::Fail).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(rows(&database, table).await, [named(3, "a")]);
        assert_eq!(rows_in(view.clone(), table, None).await.len(), 2);
        let mut transaction = begin(&database);
        transaction.drop_table(table, false).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(rows_in(view.clone(), table, None).await.len(), 2);
        drop(view);
        // No other statement is needed for that.
        while used_trees(&database).len() >= used.len() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        create_names(&database, "u", false).await;
        assert_eq!(database.engine().trees().len(), trees);
    });
}

#[test]
fn columns_are_added_dropped_and_changed() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        insert(&database, table, vec![named(1, "a")]).await.unwrap();
        let mut transaction = begin(&database);
        let added = NewColumn { not_null: true, ..column("n", DataType::Int4) };
        let change = AlterTable::AddColumn { column: added.clone(), missing: Value::Null };
        let error = transaction.alter_table(table, change).await.unwrap_err();
        assert_eq!(error.state, SqlState::NOT_NULL_VIOLATION);
        let change = AlterTable::AddColumn { column: added, missing: Value::Int4(7) };
        transaction.alter_table(table, change).await.unwrap();
        let to_int8 =
            AlterTable::Column { name: "n".into(), change: AlterColumn::SetType(DataType::Int8) };
        transaction.alter_table(table, to_int8).await.unwrap();
        let to_text =
            AlterTable::Column { name: "n".into(), change: AlterColumn::SetType(DataType::Text) };
        let error = transaction.alter_table(table, to_text).await.unwrap_err();
        assert_eq!(error.state, SqlState::FEATURE_NOT_SUPPORTED);
        transaction.commit().await.unwrap();
        let mut all = rows(&database, table).await;
        assert_eq!(all, [[Value::Int4(1), Value::text("a"), Value::Int8(7)]]);
        let row = vec![Value::Int4(2), Value::Null, Value::Int8(8)];
        insert(&database, table, vec![row]).await.unwrap();
        let mut transaction = begin(&database);
        let not_null =
            AlterTable::Column { name: "name".into(), change: AlterColumn::SetNotNull(true) };
        let error = transaction.alter_table(table, not_null).await.unwrap_err();
        assert_eq!(error.state, SqlState::NOT_NULL_VIOLATION);
        let drop = AlterTable::DropColumn { name: "name".into(), cascade: false };
        transaction.alter_table(table, drop).await.unwrap();
        let rename = AlterTable::RenameColumn { from: "n".into(), to: "m".into() };
        transaction.alter_table(table, rename).await.unwrap();
        transaction.alter_table(table, AlterTable::Rename("w".into())).await.unwrap();
        transaction.commit().await.unwrap();
        all = rows(&database, table).await;
        assert_eq!(all, [[Value::Int4(1), Value::Int8(7)], [Value::Int4(2), Value::Int8(8)]]);
        let catalog = database.catalog();
        assert!(catalog.table(table).unwrap().indexes.is_empty());
        assert!(catalog.find(PUBLIC, "t").is_none() && catalog.find(PUBLIC, "w").is_some());
    });
}

#[test]
fn a_primary_key_comes_later_and_goes() {
    run(async || {
        let (_machine, database) = new().await;
        let columns = vec![column("id", DataType::Int4), column("name", DataType::Text)];
        let table = create(&database, "t", columns, vec![unique(&["name"])]).await;
        insert(&database, table, vec![named(2, "b"), named(1, "a")]).await.unwrap();
        let mut transaction = begin(&database);
        transaction.insert(table, vec![named(1, "c")], OnConflict::Fail).await.unwrap();
        let add = AlterTable::AddConstraint(key(&["id"]));
        let error = transaction.alter_table(table, add.clone()).await.unwrap_err();
        assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
        assert_eq!(error.detail.as_deref(), Some("Key (id)=(1) is duplicated."));
        drop(transaction);
        let mut transaction = begin(&database);
        transaction.alter_table(table, add).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(rows(&database, table).await, [named(1, "a"), named(2, "b")]);
        check_indexes(&database, table).await;
        let error = insert(&database, table, vec![named(1, "z")]).await.unwrap_err();
        assert_eq!(error.constraint.as_deref(), Some("t_pkey"));
        let mut transaction = begin(&database);
        let drop_key = AlterTable::DropConstraint { name: "t_pkey".into(), cascade: false };
        transaction.alter_table(table, drop_key).await.unwrap();
        transaction.commit().await.unwrap();
        insert(&database, table, vec![named(1, "z")]).await.unwrap();
        assert_eq!(rows(&database, table).await.len(), 3);
        check_indexes(&database, table).await;
    });
}

#[test]
fn a_change_of_a_table_waits_for_its_writers() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        let mut writer = begin(&database);
        writer.insert(table, vec![named(1, "a")], OnConflict::Fail).await.unwrap();
        let other = database.clone();
        let change = tokio::spawn(async move {
            let mut transaction = begin(&other);
            let index = transaction.create_index(index_on(table, "name", true)).await.unwrap();
            transaction.commit().await.unwrap();
            index
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!change.is_finished());
        let mut late = begin(&database);
        late.set_lock_timeout(Some(Duration::from_millis(5)));
        let error = late.insert(table, vec![named(2, "b")], OnConflict::Fail).await.unwrap_err();
        assert_eq!(error.state, SqlState::LOCK_NOT_AVAILABLE);
        drop(late);
        writer.commit().await.unwrap();
        change.await.unwrap();
        check_indexes(&database, table).await;
        let error = insert(&database, table, vec![named(3, "a")]).await.unwrap_err();
        assert_eq!(error.constraint.as_deref(), Some("t_name_idx"));
    });
}

#[test]
fn an_index_is_built_while_others_write() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        for part in 0..10 {
            let rows = (0..100).map(|id| named(part * 100 + id, &format!("n{id}-{part}")));
            insert(&database, table, rows.collect()).await.unwrap();
        }
        // A row that is locked meanwhile holds the build up, and no writer of other rows.
        let mut holder = begin(&database);
        holder.lock(table, &[Value::Int4(500)], LockMode::Update, Wait::Wait).await.unwrap();
        let other = database.clone();
        let (progress, cancel) = (IndexProgress::default(), CancelFlag::default());
        let seen = progress.clone();
        let new = index_on(table, "name", true);
        // The lock of the table is the holder's, so the build waits for it first.
        let build =
            tokio::spawn(async move { other.create_index_online(new, progress, cancel).await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        holder.commit().await.unwrap();
        for round in 0..20 {
            let mut writer = begin(&database);
            let id = round * 40;
            let keys = [Value::Int4(id)];
            if let Some(old) =
                writer.lock(table, &keys, LockMode::Update, Wait::Wait).await.unwrap()
            {
                match round % 2 {
                    0 => writer.delete(table, &old).await.unwrap(),
                    _ => writer.update(table, &old, named(id, &format!("new{id}"))).await.unwrap(),
                }
            }
            let row = named(10_000 + id, &format!("late{id}"));
            writer.insert(table, vec![row], OnConflict::Fail).await.unwrap();
            writer.commit().await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let index = build.await.unwrap().unwrap();
        assert!(seen.rows() >= 990, "{}", seen.rows());
        assert!(database.catalog().table(table).unwrap().index(index).unwrap().ready);
        check_indexes(&database, table).await;
        let error = insert(&database, table, vec![named(-1, "late0")]).await.unwrap_err();
        assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
        // A build that fails leaves no index.
        insert(&database, table, vec![named(-1, "x")]).await.unwrap();
        let columns = vec![("name".to_owned(), false, false)];
        let twice = NewIndex { table, name: Some("u".into()), unique: true, columns };
        let mut writer = begin(&database);
        writer.drop_index(index).await.unwrap();
        writer.insert(table, vec![named(-2, "x")], OnConflict::Fail).await.unwrap();
        writer.commit().await.unwrap();
        let error = database
            .create_index_online(twice, IndexProgress::default(), CancelFlag::default())
            .await
            .unwrap_err();
        assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
        assert!(database.catalog().table(table).unwrap().indexes.is_empty());
    });
}

#[test]
fn sequences_never_give_a_number_twice() {
    run(async || {
        let (machine, database) = new().await;
        let mut transaction = begin(&database);
        let oid = transaction.create_sequence(sequence("q")).await.unwrap();
        let definition = transaction.catalog().sequence(oid).unwrap().clone();
        assert_eq!(database.next_value(&definition).await.unwrap(), 1);
        transaction.commit().await.unwrap();
        for want in 2..100 {
            assert_eq!(database.next_value(&definition).await.unwrap(), want);
        }
        drop(database);
        let database = open(&machine.power_loss()).await.unwrap();
        let next = database.next_value(&definition).await.unwrap();
        assert!((100..=132).contains(&next), "{next}");
        database.set_value(&definition, 10, true).await.unwrap();
        assert_eq!(database.last_value(&definition).await.unwrap(), (10, true));
        assert_eq!(database.next_value(&definition).await.unwrap(), 11);
        let mut short = (*definition).clone();
        short.max = 12;
        assert_eq!(database.next_value(&short).await.unwrap(), 12);
        let error = database.next_value(&short).await.unwrap_err();
        assert_eq!(error.state, SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED);
        short.cycle = true;
        assert_eq!(database.next_value(&short).await.unwrap(), 1);
    });
}

#[test]
fn a_sequence_with_another_step_never_gives_a_number_twice() {
    run(async || {
        let (machine, database) = new().await;
        let mut transaction = begin(&database);
        let oid = transaction.create_sequence(sequence("q")).await.unwrap();
        transaction.commit().await.unwrap();
        let before = database.catalog().sequence(oid).unwrap().clone();
        assert_eq!(database.next_value(&before).await.unwrap(), 1);
        let mut transaction = begin(&database);
        let change = SequenceChange { increment: Some(100), ..Default::default() };
        transaction.alter_sequence(oid, change).await.unwrap();
        // Another session has the definition of before.
        assert_eq!(database.next_value(&before).await.unwrap(), 2);
        transaction.commit().await.unwrap();
        let after = database.catalog().sequence(oid).unwrap().clone();
        for want in [102, 202, 302] {
            assert_eq!(database.next_value(&after).await.unwrap(), want);
        }
        drop(database);
        let database = open(&machine.power_loss()).await.unwrap();
        let next = database.next_value(&after).await.unwrap();
        assert!(next > 302, "{next}");
    });
}

#[test]
fn a_definition_too_long_to_be_read_is_refused() {
    run(async || {
        let (machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        insert(&database, table, vec![named(1, "a")]).await.unwrap();
        for (name, length, fits) in [("c", 4_300_000, true), ("d", 13_000_000, false)] {
            let missing = Value::text("x".repeat(length));
            let change = AlterTable::AddColumn { column: column(name, DataType::Text), missing };
            let mut transaction = begin(&database);
            transaction.alter_table(table, change).await.unwrap();
            match transaction.commit().await {
                Ok(()) => assert!(fits),
                Err(error) => assert_eq!(
                    (error.state, fits),
                    (SqlState::PROGRAM_LIMIT_EXCEEDED, false),
                    "{error}"
                ),
            }
        }
        drop(database);
        let database = open(&machine).await.unwrap();
        let all = rows(&database, table).await;
        assert_eq!((all.len(), all[0].len()), (1, 3));
        assert_eq!(all[0][2], Value::text("x".repeat(4_300_000)));
    });
}

#[test]
fn a_catalog_that_lost_its_header_is_refused() {
    run(async || {
        for is_lost in [true, false] {
            let (machine, database) = new().await;
            create_names(&database, "t", false).await;
            let (tree, prefix) = keys_of(&database, relational::CATALOG_TREE.0);
            let row = [&prefix[..], b"od\0\0\0\0"].concat();
            let family = engine::FamilyId(1);
            let column = engine::Column::of(family, b"");
            let mut batch = engine::WriteBatch::new();
            match is_lost {
                true => batch.delete_row(&row),
                false => {
                    let old = b"\x01{\"Database\":{\"name\":\"stele\",\"next_oid\":16385}}";
                    batch.put(&row, column, engine::Timestamp(0), old);
                }
            }
            tree.write(&batch).unwrap();
            drop((database, tree));
            let error = open(&machine).await.unwrap_err();
            assert!(error.contains("XX001") && error.contains("restore a backup"), "{error}");
        }
    });
}

#[test]
fn a_table_moves_to_a_schema_in_which_all_its_names_are_free() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        let mut transaction = begin(&database);
        let schema = transaction.create_schema("s", OWNER).await.unwrap();
        let taken = NewSequence { schema, ..sequence("t_name_key") };
        transaction.create_sequence(taken).await.unwrap();
        let error =
            transaction.alter_table(table, AlterTable::SetSchema(schema)).await.unwrap_err();
        assert_eq!(error.state, SqlState::DUPLICATE_TABLE);
        let other = transaction.create_schema("other", OWNER).await.unwrap();
        transaction.alter_table(table, AlterTable::SetSchema(other)).await.unwrap();
        let catalog = transaction.catalog();
        assert!(catalog.find(other, "t_name_key").is_some());
        assert!(catalog.find(PUBLIC, "t_name_key").is_none());
        transaction.commit().await.unwrap();
    });
}

#[test]
fn what_others_need_is_not_dropped() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        let mut transaction = begin(&database);
        let view = NewView {
            schema: PUBLIC,
            name: "v".into(),
            owner: OWNER,
            query: "SELECT * FROM t".into(),
            columns: vec![],
            reads: vec![table],
            names: Vec::new(),
            replace: false,
        };
        transaction.create_view(view).await.unwrap();
        let index = transaction.catalog().table(table).unwrap().indexes[0].oid;
        for error in [
            transaction.drop_table(table, false).await.unwrap_err(),
            transaction.drop_index(index).await.unwrap_err(),
            transaction.drop_schema(PUBLIC, false).await.unwrap_err(),
            transaction.drop_role(OWNER).await.unwrap_err(),
        ] {
            assert_eq!(error.state, SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
        }
        let check = NewConstraint::Check { name: None, expression: "id > 0".into() };
        transaction.alter_table(table, AlterTable::AddConstraint(check)).await.unwrap();
        assert_eq!(transaction.catalog().table(table).unwrap().checks[0].name, "t_check");
        transaction.drop_table(table, true).await.unwrap();
        assert_eq!(transaction.catalog().views().count(), 0);
        transaction.commit().await.unwrap();
    });
}
