//! Power lost at every write and sync: what was acknowledged is there, what was under way happened as a
//! whole or not at all, and row, index, catalog and trees always fit each other.

use crate::harness::*;
use base::env::sim::SimEnv;
use relational::{
    AlterTable, CancelFlag, DataType, Database, IndexProgress, Isolation, NewIndex, Oid,
    OnConflict, Result, Row, Value,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of each table by its name, with the names of its indexes.
type State = BTreeMap<String, (Vec<String>, Vec<Row>)>;

fn oid(database: &Arc<Database>, name: &str) -> Oid {
    database.catalog().find(PUBLIC, name).map_or(0, |found| found.oid())
}

/// One committed change after the other. Nothing behind the last one.
async fn step(database: &Arc<Database>, number: usize) -> Option<Result<()>> {
    let step = async {
        let mut transaction = database.begin(Isolation::ReadCommitted, false);
        transaction.start_statement().await?;
        let (t, u) = (oid(database, "t"), oid(database, "u"));
        let index = NewIndex {
            table: t,
            name: Some("t_later".into()),
            unique: false,
            columns: vec![("name".into(), true, true)],
        };
        match number {
            0 => {
                let columns = vec![column("id", DataType::Int4), column("name", DataType::Text)];
                let definition = table("t", columns, vec![key(&["id"]), unique(&["name"])]);
                let oid = transaction.create_table(definition).await?;
                transaction.insert(oid, vec![named(1, "one")], OnConflict::Fail).await?;
            }
            1 => {
                let rows = (2..6).map(|id| named(id, &format!("n{id}"))).collect();
                transaction.insert(t, rows, OnConflict::Fail).await?;
            }
            2 => transaction.update(t, &named(3, "n3"), named(30, "moved")).await?,
            3 => {
                let definition = table("u", vec![column("a", DataType::Int8)], vec![]);
                let oid = transaction.create_table(definition).await?;
                let row = vec![Value::Int8(1)];
                transaction.insert(oid, vec![row.clone(), row], OnConflict::Fail).await?;
                transaction.delete(t, &named(1, "one")).await?;
            }
            4 => drop(transaction.create_index(index).await?),
            5 => {
                // Rows of two tables in one commit.
                transaction.update(t, &named(2, "n2"), named(2, "one")).await?;
                transaction.insert(u, vec![vec![Value::Int8(5)]], OnConflict::Fail).await?;
            }
            6 => transaction.drop_index(index_named(database, t, "t_later")).await?,
            7 => {
                transaction.truncate(&[u]).await?;
                transaction.insert(u, vec![vec![Value::Int8(9)]], OnConflict::Fail).await?;
            }
            8 => {
                let change = AlterTable::DropConstraint { name: "t_pkey".into(), cascade: false };
                transaction.alter_table(t, change).await?;
            }
            9 => transaction.drop_table(u, false).await?,
            10 => {
                drop(transaction);
                let (progress, cancel) = (IndexProgress::default(), CancelFlag::default());
                return database.create_index_online(index, progress, cancel).await.map(|_| ());
            }
            _ => {
                let rows = (60..63).map(|id| named(id, &format!("n{id}"))).collect();
                transaction.insert(t, rows, OnConflict::Fail).await?;
            }
        }
        transaction.commit().await
    };
    if number <= 11 { Some(step.await) } else { None }
}

fn index_named(database: &Arc<Database>, table: Oid, name: &str) -> Oid {
    let catalog = database.catalog();
    let indexes = catalog.table(table).map(|table| table.indexes.clone()).unwrap_or_default();
    indexes.iter().find(|index| index.name == name).map_or(0, |index| index.oid)
}

/// Returns true if the catalog has the tree, or is in it.
fn has(database: &Arc<Database>, tree: u32) -> bool {
    tree == relational::CATALOG_TREE.0
        || database.catalog().tables().any(|table| table.tree == tree)
}

async fn state(database: &Arc<Database>) -> State {
    let mut state = State::new();
    let tables: Vec<_> = database.catalog().tables().cloned().collect();
    for table in tables {
        check_indexes(database, table.oid).await;
        let names = table.indexes.iter().map(|index| index.name.clone()).collect();
        let mut rows = rows(database, table.oid).await;
        rows.iter_mut().for_each(|row| row.truncate(table.columns.len()));
        state.insert(table.name.clone(), (names, rows));
    }
    state
}

/// The state before the first step and after each, and the operations of the disk that all took.
async fn history() -> (Vec<State>, u64) {
    let machine = SimEnv::new(1);
    let database = open(&machine).await.unwrap();
    let mut states = vec![state(&database).await];
    while let Some(done) = step(&database, states.len() - 1).await {
        done.unwrap();
        states.push(state(&database).await);
    }
    (states, machine.fs.operations())
}

#[test]
fn a_power_loss_at_any_moment_leaves_whole_transactions() {
    run(async || {
        let (states, operations) = history().await;
        assert!(operations > 60, "{operations}");
        for operation in 1..=operations {
            let machine = SimEnv::new(operation);
            machine.fs.power_off_at(operation);
            let mut acknowledged = 0;
            if let Ok(database) = open(&machine).await {
                while let Some(Ok(())) = step(&database, acknowledged).await {
                    acknowledged += 1;
                }
            }
            let machine = machine.power_loss();
            let database = open(&machine).await;
            let database = database
                .unwrap_or_else(|error| panic!("after a loss at operation {operation}: {error}"));
            let found = state(&database).await;
            let allowed = &states[acknowledged..states.len().min(acknowledged + 2)];
            assert!(
                allowed.contains(&found),
                "loss at operation {operation}: {found:?}\nis not among {allowed:?}"
            );
            // No orphan is left. On one machine there are also the trees of the schema and of the catalog.
            let orphans = match form() {
                Form::Machine => database.engine().trees().len() - found.len() - 2,
                Form::Group => {
                    used_trees(&database).into_iter().filter(|tree| !has(&database, *tree)).count()
                }
            };
            assert_eq!(orphans, 0, "orphans after a loss at operation {operation}");
            // And the database takes changes.
            create_names(&database, "later", true).await;
        }
    });
}
