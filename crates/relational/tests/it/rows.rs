//! Inserting, changing and deleting rows: keys, constraints, indexes and what scans return.

use crate::harness::*;
use relational::{
    DataType, Direction, KeyRange, LockMode, NewColumn, NewIndex, OnConflict, ScanSpec, SqlState,
    Value, Wait,
};
use std::ops::Bound;

#[test]
fn rows_come_back_by_key_and_in_its_order() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        let wanted: Vec<_> = (-300..300).map(|id| named(id, &format!("n{id}"))).collect();
        let mut shuffled = wanted.clone();
        shuffled.rotate_left(217);
        insert(&database, table, shuffled).await.unwrap();
        assert_eq!(rows(&database, table).await, wanted);
        let view = begin(&database).view();
        assert_eq!(view.get(table, &[Value::Int4(-7)]).await.unwrap(), Some(named(-7, "n-7")));
        assert_eq!(view.get(table, &[Value::Int4(300)]).await.unwrap(), None);
        let columns = view.get_columns(table, &[Value::Int4(5)], &[1]).await.unwrap();
        assert_eq!(columns, Some(vec![Value::text("n5")]));
        let count = tokio::task::spawn_blocking(move || view.count(table).unwrap());
        assert_eq!(count.await.unwrap(), 600);
    });
}

#[test]
fn own_writes_are_seen_and_those_of_others_are_not() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        insert(&database, table, (0..10).map(|id| named(id, &id.to_string())).collect())
            .await
            .unwrap();
        let mut writer = begin(&database);
        for id in [3, 4] {
            let old = writer.lock(table, &[Value::Int4(id)], LockMode::Update, Wait::Wait).await;
            writer.delete(table, &old.unwrap().unwrap()).await.unwrap();
        }
        writer.insert(table, vec![named(20, "x")], OnConflict::Fail).await.unwrap();
        writer.insert(table, vec![named(-1, "4")], OnConflict::Fail).await.unwrap();
        let old = named(7, "7");
        writer.update(table, &old, named(8 + 100, "moved")).await.unwrap();
        let ids = |rows: Vec<relational::Row>| -> Vec<_> {
            rows.iter().map(|row| row[0].to_string()).collect()
        };
        let own = ids(rows_in(writer.view(), table, None).await);
        assert_eq!(own, ["-1", "0", "1", "2", "5", "6", "8", "9", "20", "108"]);
        let reverse = ScanSpec { direction: Direction::Reverse, ..ScanSpec::of(table) };
        let mut backwards = ids(scan(writer.view(), reverse).await);
        backwards.reverse();
        assert_eq!(backwards, own);
        let index = database.catalog().table(table).unwrap().indexes[0].oid;
        let by_name = ids(rows_in(writer.view(), table, Some(index)).await);
        assert_eq!(by_name, ["0", "1", "2", "-1", "5", "6", "8", "9", "108", "20"]);
        assert_eq!(rows(&database, table).await.len(), 10);
        writer.commit().await.unwrap();
        assert_eq!(ids(rows(&database, table).await), own);
        check_indexes(&database, table).await;
    });
}

#[test]
fn constraints_name_themselves() {
    run(async || {
        let (_machine, database) = new().await;
        let columns = vec![
            column("id", DataType::Int4),
            NewColumn { not_null: true, ..column("name", DataType::Text) },
            column("mail", DataType::Text),
        ];
        let constraints = vec![key(&["id"]), unique(&["name", "mail"])];
        let table = create(&database, "users", columns, constraints).await;
        let row = |id, name: Value, mail: Value| vec![Value::Int4(id), name, mail];
        let text = Value::text;
        insert(&database, table, vec![row(1, text("a"), text("b"))]).await.unwrap();
        let error = insert(&database, table, vec![row(1, text("c"), text("d"))]).await.unwrap_err();
        assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
        assert_eq!(error.constraint.as_deref(), Some("users_pkey"));
        assert_eq!(error.detail.as_deref(), Some("Key (id)=(1) already exists."));
        assert_eq!(error.table.as_deref(), Some("users"));
        let error = insert(&database, table, vec![row(2, text("a"), text("b"))]).await.unwrap_err();
        assert_eq!(error.constraint.as_deref(), Some("users_name_mail_key"));
        assert_eq!(error.detail.as_deref(), Some("Key (name, mail)=(a, b) already exists."));
        let error =
            insert(&database, table, vec![row(2, Value::Null, text("b"))]).await.unwrap_err();
        assert_eq!(error.state, SqlState::NOT_NULL_VIOLATION);
        assert_eq!(error.column.as_deref(), Some("name"));
        // NULL equals no NULL.
        let nulls = vec![row(3, text("a"), Value::Null), row(4, text("a"), Value::Null)];
        insert(&database, table, nulls).await.unwrap();
        check_indexes(&database, table).await;
        let error =
            insert(&database, table, vec![row(5, Value::Int4(1), text("b"))]).await.unwrap_err();
        assert_eq!(error.state, SqlState::INTERNAL_ERROR);
    });
}

#[test]
fn conflicts_are_left_out_or_found() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", true).await;
        let catalog = database.catalog();
        let definition = catalog.table(table).unwrap();
        let primary = definition.primary_key.as_ref().unwrap().oid;
        let by_name = definition.indexes[0].oid;
        insert(&database, table, vec![named(1, "a")]).await.unwrap();
        let mut writer = begin(&database);
        let rows = vec![named(1, "b"), named(2, "a"), named(3, "c"), named(3, "d")];
        let inserted = writer.insert(table, rows, OnConflict::Skip(None)).await.unwrap();
        assert_eq!(inserted, [false, false, true, false]);
        let skip = OnConflict::Skip(Some(by_name));
        assert_eq!(writer.insert(table, vec![named(4, "a")], skip).await.unwrap(), [false]);
        let error = writer.insert(table, vec![named(1, "e")], skip).await.unwrap_err();
        assert_eq!(error.constraint.as_deref(), Some("t_pkey"));
        let found = writer.conflicting(table, &named(9, "a"), Some(by_name)).await.unwrap();
        assert_eq!(found, Some(named(1, "a")));
        let found = writer.conflicting(table, &named(3, "z"), Some(primary)).await.unwrap();
        assert_eq!(found, Some(named(3, "c")));
        assert_eq!(writer.conflicting(table, &named(9, "z"), Some(by_name)).await.unwrap(), None);
        let old = named(1, "a");
        writer.update(table, &old, named(1, "changed")).await.unwrap();
        writer.commit().await.unwrap();
        check_indexes(&database, table).await;
    });
}

#[test]
fn a_table_without_a_key_keeps_equal_rows_apart() {
    run(async || {
        let (machine, database) = new().await;
        let table = create(&database, "t", vec![column("a", DataType::Int4)], vec![]).await;
        let one = || vec![Value::Int4(1)];
        insert(&database, table, vec![one(), one(), one()]).await.unwrap();
        let all = rows(&database, table).await;
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|row| row.len() == 2));
        let mut writer = begin(&database);
        writer.delete(table, &all[1]).await.unwrap();
        let new = vec![Value::Int4(2), all[2][1].clone()];
        writer.update(table, &all[2], new).await.unwrap();
        writer.commit().await.unwrap();
        drop(database);
        let database = open(&machine).await.unwrap();
        insert(&database, table, vec![one()]).await.unwrap();
        let values: Vec<_> =
            rows(&database, table).await.iter().map(|row| row[0].to_string()).collect();
        assert_eq!(values, ["1", "2", "1"]);
    });
}

#[test]
fn indexes_have_the_order_that_they_were_given() {
    run(async || {
        let (_machine, database) = new().await;
        let columns = vec![
            column("id", DataType::Int8),
            column("a", DataType::Int4),
            column("b", DataType::Text),
        ];
        let table = create(&database, "t", columns, vec![key(&["id"])]).await;
        let int = |value: Option<i32>| value.map_or(Value::Null, Value::Int4);
        let text = |value: Option<&str>| value.map_or(Value::Null, Value::text);
        let values = [
            (Some(1), Some("x")),
            (Some(2), None),
            (None, Some("y")),
            (Some(2), Some("y")),
            (Some(1), Some("")),
            (None, None),
        ];
        let rows = values
            .iter()
            .enumerate()
            .map(|(id, (a, b))| vec![Value::Int8(id as i64), int(*a), text(*b)]);
        insert(&database, table, rows.collect()).await.unwrap();
        let new = NewIndex {
            table,
            name: None,
            unique: false,
            columns: vec![("a".to_owned(), true, true), ("b".to_owned(), false, false)],
        };
        let mut transaction = begin(&database);
        let index = transaction.create_index(new).await.unwrap();
        transaction.commit().await.unwrap();
        let ids = |rows: Vec<relational::Row>| -> Vec<_> {
            rows.iter().map(|row| row[0].to_string()).collect()
        };
        let view = begin(&database).view();
        let all = ids(rows_in(view.clone(), table, Some(index)).await);
        assert_eq!(all, ["2", "5", "3", "1", "4", "0"]);
        // Descending: the larger value is the lower bound.
        let below_2 =
            KeyRange { lower: Bound::Excluded(vec![Value::Int4(2)]), upper: Bound::Unbounded };
        let spec = ScanSpec { index: Some(index), ranges: vec![below_2], ..ScanSpec::of(table) };
        assert_eq!(ids(scan(view.clone(), spec).await), ["4", "0"]);
        let ranges = vec![
            KeyRange::prefix(vec![Value::Null]),
            KeyRange::prefix(vec![Value::Int4(1), Value::text("x")]),
        ];
        let spec = ScanSpec { index: Some(index), ranges: ranges.clone(), ..ScanSpec::of(table) };
        assert_eq!(ids(scan(view.clone(), spec).await), ["2", "5", "0"]);
        let spec = ScanSpec {
            index: Some(index),
            ranges,
            direction: Direction::Reverse,
            limit: Some(2),
            columns: Some(vec![2, 0]),
            ..ScanSpec::of(table)
        };
        let found = scan(view, spec).await;
        assert_eq!(found, [[Value::text("x"), Value::Int8(0)], [Value::Null, Value::Int8(5)]]);
    });
}
