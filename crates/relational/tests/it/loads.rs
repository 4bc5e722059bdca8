//! Bulk loads of columnar tables: who sees their segments, and that nothing is left of one that did not commit.

use crate::harness::*;
use base::env::sim::{Call, Fault, FaultPoint, SimEnv};
use engine::{RowRange, ScanRequest, Tree, TreeId, WriteBatch};
use relational::catalog::{KeyAction, KeyMatch};
use relational::{
    AlterColumn, AlterTable, CancelFlag, CreateTable, DataType, Database, DatabaseOptions,
    Isolation, NewColumn, NewConstraint, NewForeignKey, NewIndex, Oid, OnConflict, Result,
    ScanSpec, Segment, SegmentLoad, Transaction, Value, View, WrittenSegments,
};
use std::sync::Arc;

const COLUMN: u32 = 1;

fn definition(name: &str) -> CreateTable {
    let columns = vec![column("a", DataType::Int4), column("b", DataType::Text)];
    CreateTable { columnar: true, ..table(name, columns, Vec::new()) }
}

async fn create_columnar(database: &Arc<Database>, name: &str) -> Oid {
    let mut transaction = begin(database);
    let oid = transaction.create_table(definition(name)).await.unwrap();
    transaction.commit().await.unwrap();
    oid
}

/// The pages of a segment that is told by a letter: one short, one long.
fn pages(letter: u8) -> Vec<Vec<u8>> {
    vec![vec![letter; 10], vec![letter; 70_000]]
}

/// Writes a segment for each letter by a writer of its own.
fn write(load: &SegmentLoad, letters: &[u8]) -> Result<WrittenSegments> {
    let mut writer = load.writer()?;
    for letter in letters {
        writer.add([(COLUMN, &pages(*letter)[..])], vec![*letter])?;
    }
    writer.finish()
}

async fn add(transaction: &mut Transaction, table: Oid, writers: &[&[u8]]) -> Result<()> {
    let load = transaction.begin_load(table).await?;
    let written: Result<Vec<_>> = writers.iter().map(|letters| write(&load, letters)).collect();
    transaction.add_segments(&load, written?).await
}

/// The letters of the segments that a view sees, whose pages are all there.
fn letters(view: &View, table: Oid) -> Vec<u8> {
    let segments = view.segments(table, &CancelFlag::default()).unwrap();
    let reader = view.pages(table).unwrap();
    let letter = |segment: &Segment| {
        let letter = segment.descriptor[0];
        for (number, page) in pages(letter).iter().enumerate() {
            let found = reader.read(segment.number, COLUMN, number as u16, <[u8]>::to_vec);
            assert_eq!(&found.unwrap(), page);
        }
        letter
    };
    segments.iter().map(letter).collect()
}

fn committed(database: &Arc<Database>, table: Oid) -> Vec<u8> {
    letters(&begin(database).view(), table)
}

/// The tree with the pages of a table.
fn pages_of(database: &Arc<Database>, table: Oid) -> Tree {
    let table = Arc::clone(database.catalog().table(table).unwrap());
    database.engine().tree(TreeId(table.columnar.unwrap().pages)).unwrap()
}

/// The number of rows that the tree of a table's pages has, and of keys that its own tree has.
fn left(database: &Arc<Database>, table: Oid) -> (usize, usize) {
    let catalog = database.catalog();
    let table = catalog.table(table).unwrap();
    let count = |tree: u32| {
        let tree = database.engine().tree(TreeId(tree)).unwrap();
        let mut scan = tree.scan(&ScanRequest::rows(RowRange::ALL), None).unwrap();
        let mut count = 0;
        while scan.next_row().unwrap().is_some() {
            count += 1;
        }
        count
    };
    (count(table.columnar.unwrap().pages), count(table.tree))
}

#[test]
fn segments_are_seen_by_their_transaction_and_by_others_from_its_commit_on() {
    run_over(Form::Machine, async || {
        let (machine, database) = new().await;
        let table = create_columnar(&database, "t").await;
        let mut transaction = begin(&database);
        let before = begin(&database).view();
        add(&mut transaction, table, &[b"ab", b"", b"c"]).await.unwrap();
        assert_eq!(letters(&transaction.view(), table), b"abc");
        assert_eq!(committed(&database, table), b"");
        add(&mut transaction, table, &[b"d"]).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(committed(&database, table), b"abcd");
        assert_eq!(letters(&before, table), b"");
        // A transaction sees its own load with a snapshot from before it.
        let mut repeatable = begin_repeatable(&database);
        assert_eq!(letters(&repeatable.view(), table), b"abcd");
        add(&mut repeatable, table, &[b"e"]).await.unwrap();
        insert(&database, table, vec![vec![Value::Int4(1), Value::text("one")]]).await.unwrap();
        assert_eq!(letters(&repeatable.view(), table), b"abcde");
        repeatable.commit().await.unwrap();
        drop((before, database));
        let database = open(&machine.power_loss()).await.unwrap();
        assert_eq!(committed(&database, table), b"abcde");
        assert_eq!(left(&database, table), (5, 6));
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"f"]).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(committed(&database, table), b"abcdef");
    });
}

#[test]
fn nothing_is_left_of_segments_that_were_taken_back() {
    run_over(Form::Machine, async || {
        let (_machine, database) = new().await;
        let table = create_columnar(&database, "t").await;
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"a", b"b"]).await.unwrap();
        transaction.rollback().await;
        assert_eq!(left(&database, table), (0, 0), "after a rollback");
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"c"]).await.unwrap();
        transaction.savepoint("s");
        add(&mut transaction, table, &[b"d"]).await.unwrap();
        transaction.rollback_to("s").unwrap();
        assert_eq!(letters(&transaction.view(), table), b"c");
        add(&mut transaction, table, &[b"e"]).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(committed(&database, table), b"ce");
        // The pages of `d` are garbage from the commit on; a rollback waits until all garbage is gone.
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"f"]).await.unwrap();
        transaction.rollback().await;
        assert_eq!(left(&database, table), (2, 2), "after a commit");
        // Files that were never added.
        let mut transaction = begin(&database);
        let load = transaction.begin_load(table).await.unwrap();
        drop(write(&load, b"g").unwrap());
        drop((load, transaction));
        assert_eq!(left(&database, table), (2, 2), "after files that were dropped");
    });
}

#[test]
fn disk_space_of_pages_that_were_taken_back_is_given_back() {
    run_over(Form::Machine, async || {
        let (machine, database) = new().await;
        let table = create_columnar(&database, "t").await;
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"a"]).await.unwrap();
        transaction.commit().await.unwrap();
        // Without a flush no compaction would look at pages that a range in memory removes.
        let is_flushed = |database: &Arc<Database>| {
            let pages = pages_of(database, table);
            pages.flushed().unwrap() == pages.applied().unwrap()
        };
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"bcd"]).await.unwrap();
        transaction.rollback().await;
        assert!(is_flushed(&database), "after a rollback");
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"efg"]).await.unwrap();
        let machine = machine.power_loss();
        drop((transaction, database));
        let database = open(&machine).await.unwrap();
        assert_eq!(left(&database, table), (1, 1), "after a power loss");
        assert!(is_flushed(&database), "after a power loss");
    });
}

#[test]
fn pages_that_could_not_be_removed_are_removed_with_the_next_garbage() {
    run_over(Form::Machine, async || {
        let (machine, database) = new().await;
        let table = create_columnar(&database, "t").await;
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"a"]).await.unwrap();
        machine.fs.inject(FaultPoint::Call(Call::WriteAt), 0, 1_000, Fault::NoSpace);
        transaction.rollback().await;
        assert_eq!(left(&database, table), (1, 1), "the disk is full");
        machine.fs.clear_faults();
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"b"]).await.unwrap();
        transaction.rollback().await;
        assert_eq!(left(&database, table), (0, 0));
    });
}

#[test]
fn a_load_beyond_the_limit_of_a_transaction_is_refused_before_its_files_join() {
    run_over(Form::Machine, async || {
        let machine = SimEnv::new(1);
        let options = DatabaseOptions { transaction_bytes_max: 1_000, ..Default::default() };
        let database = open_with(&machine, options).await.unwrap();
        let table = create_columnar(&database, "t").await;
        let mut transaction = begin(&database);
        let error = add(&mut transaction, table, &[b"abc", b"def"]).await.unwrap_err();
        assert_eq!(error.state.code(), "54000");
        assert_eq!(left(&database, table), (0, 0));
        transaction.rollback().await;
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"a"]).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(committed(&database, table), b"a");
    });
}

#[test]
fn numbers_of_segments_are_not_given_again_after_their_pages_were_lost() {
    run_over(Form::Machine, async || {
        let (machine, database) = new().await;
        let table = create_columnar(&database, "t").await;
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"ab"]).await.unwrap();
        transaction.commit().await.unwrap();
        let mut loss = WriteBatch::new();
        loss.drop_row_range(b"", None);
        pages_of(&database, table).write(&loss).unwrap();
        drop(database);
        let database = open(&machine.power_loss()).await.unwrap();
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"c"]).await.unwrap();
        transaction.commit().await.unwrap();
        let view = begin(&database).view();
        let segments = view.segments(table, &CancelFlag::default()).unwrap();
        let descriptors: Vec<_> = segments.iter().map(|segment| segment.descriptor[0]).collect();
        assert_eq!(descriptors, b"abc");
        let pages = view.pages(table).unwrap();
        let read = |segment: &Segment| pages.read(segment.number, COLUMN, 0, <[u8]>::len);
        let states: Vec<_> = segments.iter().map(read).collect();
        assert!(states[..2].iter().all(|read| read.as_ref().unwrap_err().state.code() == "XX001"));
        assert_eq!(states[2], Ok(10));
    });
}

#[test]
fn segments_that_are_empty_or_not_whole_are_refused() {
    run_over(Form::Machine, async || {
        let (_machine, database) = new().await;
        let table = create_columnar(&database, "t").await;
        let mut transaction = begin(&database);
        let load = transaction.begin_load(table).await.unwrap();
        let mut writer = load.writer().unwrap();
        assert!(writer.add([], vec![1]).is_err());
        assert!(writer.finish().is_err());
        let mut writer = load.writer().unwrap();
        writer.add([(COLUMN, &pages(b'a')[..])], vec![b'a']).unwrap();
        // Columns must ascend: the second has pages, and then the segment fails.
        let wrong = [(COLUMN + 1, &pages(b'b')[..]), (COLUMN, &pages(b'b')[..])];
        assert!(writer.add(wrong, vec![b'b']).is_err());
        assert!(writer.finish().is_err());
        transaction.rollback().await;
        assert_eq!(left(&database, table), (0, 0));
    });
}

#[test]
fn a_columnar_table_is_emptied_and_dropped_with_its_pages() {
    run_over(Form::Machine, async || {
        let (machine, database) = new().await;
        let trees = database.engine().trees().len();
        let table = create_columnar(&database, "t").await;
        assert_eq!(database.engine().trees().len(), trees + 2);
        let mut transaction = begin(&database);
        add(&mut transaction, table, &[b"a"]).await.unwrap();
        transaction.commit().await.unwrap();
        let view = begin(&database).view();
        let mut transaction = begin(&database);
        transaction.truncate(&[table]).await.unwrap();
        assert_eq!(letters(&transaction.view(), table), b"");
        add(&mut transaction, table, &[b"b"]).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(letters(&view, table), b"a", "a view of before reads on");
        drop(view);
        assert_eq!(committed(&database, table), b"b");
        let mut transaction = begin(&database);
        transaction.truncate(&[table]).await.unwrap();
        transaction.rollback().await;
        assert_eq!(committed(&database, table), b"b");
        assert_eq!(database.engine().trees().len(), trees + 2, "trees of tables that are gone");
        let mut transaction = begin(&database);
        transaction.drop_table(table, false).await.unwrap();
        transaction.commit().await.unwrap();
        drop(database);
        let database = open(&machine.power_loss()).await.unwrap();
        assert_eq!(database.engine().trees().len(), trees);
    });
}

#[test]
fn keys_indexes_and_plain_scans_of_a_columnar_table_are_refused() {
    run_over(Form::Machine, async || {
        let (_machine, database) = new().await;
        let mut transaction = begin(&database);
        for constraint in [key(&["a"]), unique(&["a"])] {
            let with_key = CreateTable { constraints: vec![constraint], ..definition("k") };
            let error = transaction.create_table(with_key).await.unwrap_err();
            assert_eq!(error.state.code(), "0A000");
        }
        drop(transaction);
        let table = create_columnar(&database, "t").await;
        let mut transaction = begin(&database);
        let change = AlterTable::AddConstraint(unique(&["a"]));
        assert_eq!(transaction.alter_table(table, change).await.unwrap_err().state.code(), "0A000");
        let index = NewIndex {
            table,
            name: None,
            unique: false,
            columns: vec![("a".into(), false, false)],
        };
        assert_eq!(transaction.create_index(index).await.unwrap_err().state.code(), "0A000");
        let error = transaction.view().scan(ScanSpec::of(table)).unwrap_err();
        assert_eq!(error.state.code(), "0A000");
        let row = vec![Value::Int4(7), Value::Null];
        transaction.insert(table, vec![row], OnConflict::Fail).await.unwrap();
        let spec = ScanSpec { delta_rows: true, ..ScanSpec::of(table) };
        assert_eq!(scan(transaction.view(), spec).await.len(), 1);
        drop(transaction);
        let plain = create(&database, "r", vec![column("a", DataType::Int4)], vec![]).await;
        let view = begin(&database).view();
        assert!(view.pages(plain).is_err());
        assert!(view.segments(plain, &CancelFlag::default()).is_err());
    });
    run_over(Form::Group, async || {
        let (_machine, database) = new().await;
        let error = begin(&database).create_table(definition("t")).await.unwrap_err();
        assert_eq!(error.state.code(), "0A000");
    });
}

#[test]
fn what_needs_a_look_at_all_rows_counts_the_rows_in_segments() {
    run_over(Form::Machine, async || {
        let (_machine, database) = new().await;
        let not_null = |name: &str| AlterTable::Column {
            name: name.into(),
            change: AlterColumn::SetNotNull(true),
        };
        let added = |name: &str, missing: Value| AlterTable::AddColumn {
            column: NewColumn { not_null: true, ..column(name, DataType::Int4) },
            missing,
        };
        let table = create_columnar(&database, "t").await;
        let mut transaction = begin(&database);
        assert!(!transaction.view().has_rows(table).unwrap());
        for change in [not_null("a"), added("c", Value::Null)] {
            transaction.alter_table(table, change).await.unwrap();
        }
        add(&mut transaction, table, &[b"a"]).await.unwrap();
        for is_committed in [false, true] {
            assert!(transaction.view().has_rows(table).unwrap(), "committed: {is_committed}");
            for (change, state) in [
                (not_null("b"), "0A000"),
                (added("d", Value::Null), "23502"),
                (
                    AlterTable::Column {
                        name: "a".into(),
                        change: AlterColumn::SetType(DataType::Int8),
                    },
                    "0A000",
                ),
            ] {
                let error = transaction.alter_table(table, change.clone()).await.unwrap_err();
                assert_eq!(error.state.code(), state, "{change:?}, committed: {is_committed}");
            }
            if !is_committed {
                transaction.commit().await.unwrap();
                transaction = begin(&database);
            }
        }
        transaction.alter_table(table, added("d", Value::Int4(1))).await.unwrap();
        transaction.truncate(&[table]).await.unwrap();
        assert!(!transaction.view().has_rows(table).unwrap());
        transaction.alter_table(table, not_null("b")).await.unwrap();
    });
}

#[test]
fn a_columnar_table_references_none_and_is_referenced_by_none() {
    run_over(Form::Machine, async || {
        let (_machine, database) = new().await;
        let columnar = create_columnar(&database, "t").await;
        let plain = create(&database, "r", vec![column("a", DataType::Int4)], vec![key(&["a"])]);
        let plain = plain.await;
        let mut transaction = begin(&database);
        for (table, references) in [(columnar, plain), (plain, columnar)] {
            for referenced in [vec![], vec!["a".to_owned()]] {
                let key = NewConstraint::ForeignKey(NewForeignKey {
                    name: None,
                    columns: vec!["a".into()],
                    references: Some(references),
                    referenced,
                    on_delete: KeyAction::NoAction,
                    on_update: KeyAction::NoAction,
                    matching: KeyMatch::Simple,
                });
                let change = AlterTable::AddConstraint(key);
                let error = transaction.alter_table(table, change).await.unwrap_err();
                assert_eq!(error.state.code(), "0A000", "{table} references {references}");
            }
        }
    });
}

/// A table, and two loads of it, each in a commit of its own. Returns how many of them were acknowledged.
async fn load_twice(machine: &SimEnv) -> usize {
    let Ok(database) = open(machine).await else { return 0 };
    let mut acknowledged = 0;
    for writers in [None, Some([b"ab", b"cd"]), Some([b"ef", b"gh"])] {
        let step = async {
            let mut transaction = database.begin(Isolation::ReadCommitted, false);
            transaction.start_statement().await?;
            match writers {
                None => drop(transaction.create_table(definition("t")).await?),
                Some(writers) => {
                    let table = database.catalog().find(PUBLIC, "t").map_or(0, |found| found.oid());
                    add(&mut transaction, table, &writers.map(|letters| &letters[..])).await?;
                }
            }
            transaction.commit().await
        };
        if step.await.is_err() {
            break;
        }
        acknowledged += 1;
    }
    acknowledged
}

#[test]
fn a_power_loss_at_any_moment_leaves_whole_loads_and_no_page_beside_them() {
    run_over(Form::Machine, async || {
        let machine = SimEnv::new(1);
        assert_eq!(load_twice(&machine).await, 3);
        let operations = machine.fs.operations();
        assert!(operations > 30, "{operations}");
        for operation in 1..=operations {
            let machine = SimEnv::new(operation);
            machine.fs.power_off_at(operation);
            let acknowledged = load_twice(&machine).await;
            let machine = machine.power_loss();
            let database = open(&machine).await.unwrap();
            let found = database.catalog().find(PUBLIC, "t").map(|found| found.oid());
            let Some(table) = found else {
                assert_eq!(acknowledged, 0, "loss at operation {operation}");
                continue;
            };
            let segments = committed(&database, table);
            let whole = [&b""[..], b"abcd", b"abcdefgh"];
            let of = whole.iter().position(|whole| *whole == segments);
            let of = of.unwrap_or_else(|| panic!("loss at operation {operation}: {segments:?}"));
            assert!((acknowledged..acknowledged + 2).contains(&(of + 1)), "at {operation}: {of}");
            assert_eq!(left(&database, table), (segments.len(), segments.len()), "at {operation}");
            let mut transaction = begin(&database);
            add(&mut transaction, table, &[b"z"]).await.unwrap();
            transaction.commit().await.unwrap();
            assert_eq!(committed(&database, table).last(), Some(&b'z'));
        }
    });
}
