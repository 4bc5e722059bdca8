//! Random transactions against a naive model: maps of rows, copied at each savepoint.

use crate::harness::*;
use base::env::sim::SimEnv;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use relational::{DataType, Database, Oid, OnConflict, Row, SqlState, Transaction, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows by the two columns of their key.
type Model = BTreeMap<(Value, std::cmp::Reverse<Value>), Row>;

struct Run {
    machine: SimEnv,
    database: Arc<Database>,
    table: Oid,
    model: Model,
    random: StdRng,
}

fn row(random: &mut StdRng) -> Row {
    let text = ["", "a", "ab", "b", "\u{1}"][random.random_range(0..5)];
    let unique = match random.random_range(0..4) {
        0 => Value::Null,
        _ => Value::Int8(random.random_range(0..30)),
    };
    vec![
        Value::text(text),
        Value::Int4(random.random_range(-4..4)),
        unique,
        Value::Numeric(relational::Numeric::from(random.random_range(0..3))),
    ]
}

fn key_of(row: &Row) -> (Value, std::cmp::Reverse<Value>) {
    (row[0].clone(), std::cmp::Reverse(row[1].clone()))
}

/// Returns true if the model can take a row in place of the row with the key `instead`.
fn is_free(model: &Model, row: &Row, instead: Option<&(Value, std::cmp::Reverse<Value>)>) -> bool {
    let key = key_of(row);
    let is_other = |at: &(Value, std::cmp::Reverse<Value>)| Some(at) != instead;
    let has_key = model.contains_key(&key) && is_other(&key);
    let mut others = model.iter().filter(|(at, _)| is_other(at));
    !has_key && (row[2].is_null() || others.all(|(_, other)| other[2] != row[2]))
}

impl Run {
    async fn new(seed: u64) -> Self {
        let machine = SimEnv::new(seed);
        let database = open(&machine).await.unwrap();
        let columns = vec![
            column("a", DataType::Text),
            column("b", DataType::Int4),
            column("u", DataType::Int8),
            column("n", DataType::Numeric(None)),
        ];
        let mut transaction = begin(&database);
        let definition = table("t", columns, vec![unique(&["u"])]);
        let table = transaction.create_table(definition).await.unwrap();
        transaction.commit().await.unwrap();
        let mut run = Self {
            machine,
            database,
            table,
            model: Model::new(),
            random: StdRng::seed_from_u64(seed),
        };
        run.add_keys().await;
        run
    }

    /// Gives the table its key, and an index in another order.
    async fn add_keys(&mut self) {
        let mut transaction = begin(&self.database);
        let add = relational::AlterTable::AddConstraint(key(&["a", "b"]));
        transaction.alter_table(self.table, add).await.unwrap();
        let columns = vec![("n".to_owned(), true, false), ("b".to_owned(), false, true)];
        let index = relational::NewIndex { table: self.table, name: None, unique: false, columns };
        transaction.create_index(index).await.unwrap();
        transaction.commit().await.unwrap();
    }

    /// One change in the transaction and in the model. A change that is refused is taken back.
    async fn change(&mut self, transaction: &mut Transaction, model: &mut Model) {
        let new = row(&mut self.random);
        let old = match self.random.random_range(0..3) {
            0 => None,
            _ if model.is_empty() => None,
            _ => model.values().nth(self.random.random_range(0..model.len())).cloned(),
        };
        let mark = transaction.mark();
        match old {
            None => {
                let done =
                    transaction.insert(self.table, vec![new.clone()], OnConflict::Fail).await;
                self.settle(transaction, model, &mark, done.map(|_| ()), None, Some(new));
            }
            Some(old) if self.random.random_bool(0.4) => {
                let done = transaction.delete(self.table, &old).await;
                self.settle(transaction, model, &mark, done, Some(old), None);
            }
            Some(old) => {
                let done = transaction.update(self.table, &old, new.clone()).await;
                self.settle(transaction, model, &mark, done, Some(old), Some(new));
            }
        }
    }

    fn settle(
        &self,
        transaction: &mut Transaction,
        model: &mut Model,
        mark: &relational::Mark,
        done: relational::Result<()>,
        old: Option<Row>,
        new: Option<Row>,
    ) {
        let instead = old.as_ref().map(key_of);
        let fits = new.as_ref().is_none_or(|new| is_free(model, new, instead.as_ref()));
        assert_eq!(done.is_ok(), fits, "{done:?} of {old:?} to {new:?} in {model:?}");
        match done {
            Ok(()) => {
                instead.map(|key| model.remove(&key));
                new.map(|new| model.insert(key_of(&new), new));
            }
            Err(error) => {
                assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
                transaction.undo_to(mark);
            }
        }
    }

    async fn transaction(&mut self) {
        let mut transaction = begin(&self.database);
        let mut model = self.model.clone();
        let mut savepoint: Option<Model> = None;
        for _ in 0..self.random.random_range(1..12) {
            transaction.start_statement().await.unwrap();
            match self.random.random_range(0..10) {
                0 => {
                    transaction.savepoint("s");
                    savepoint = Some(model.clone());
                }
                1 => {
                    if let Some(before) = &savepoint {
                        transaction.rollback_to("s").unwrap();
                        model = before.clone();
                    }
                }
                2 => self.compare(&mut transaction, &model).await,
                _ => self.change(&mut transaction, &mut model).await,
            }
        }
        if self.random.random_bool(0.7) {
            transaction.commit().await.unwrap();
            self.model = model;
        }
    }

    /// Compares what a transaction sees with the model, by key and by each index.
    async fn compare(&mut self, transaction: &mut Transaction, model: &Model) {
        let mut want: Vec<Row> = model.values().cloned().collect();
        want.sort_by_key(|row| (row[0].clone(), row[1].clone()));
        let view = transaction.view();
        assert_eq!(rows_in(view.clone(), self.table, None).await, want);
        let catalog = view.catalog().clone();
        for index in &catalog.table(self.table).unwrap().indexes {
            let mut by_index = rows_in(view.clone(), self.table, Some(index.oid)).await;
            by_index.sort_by_key(|row| (row[0].clone(), row[1].clone()));
            assert_eq!(by_index, want, "by index {}", index.name);
        }
        let row = row(&mut self.random);
        let found = view.get(self.table, &row[..2]).await.unwrap();
        assert_eq!(found.as_ref(), model.get(&key_of(&row)));
    }

    async fn reopen(&mut self) {
        // The engine closes with its last handle.
        let (machine, database) = new().await;
        drop(std::mem::replace(&mut self.database, database));
        self.machine = std::mem::replace(&mut self.machine, machine).power_loss();
        self.database = open(&self.machine).await.unwrap();
    }
}

#[test]
fn random_transactions_do_what_the_model_says() {
    for seed in 0..20 {
        run(async || {
            let mut run = Run::new(seed).await;
            for round in 0..60 {
                run.transaction().await;
                if round % 20 == 19 {
                    run.reopen().await;
                }
                let mut reader = begin(&run.database);
                let model = run.model.clone();
                run.compare(&mut reader, &model).await;
            }
        });
    }
}
