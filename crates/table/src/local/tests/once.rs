//! Power lost at every write and sync around a change with a token, which its client sends again.

use super::super::*;
use crate::mutate::{Once, RowMutation, WriteTime};
use crate::row_output::Pieces;
use crate::schema::{Aggregate, FamilySpec, ValueType};
use base::env::sim::SimEnv;
use engine::{Options, Timestamp};
use std::path::Path;

fn open(machine: &SimEnv) -> Result<Local> {
    let engine = Engine::open_with_env(machine.env(), Path::new("data"), Options::default())?;
    Local::open(engine, machine.env().clock)
}

fn name() -> TableName {
    TableName::new("p/t").unwrap()
}

/// Creates the table, if it is not there, and counts one in each of two rows.
async fn count(local: &Local) -> Result<()> {
    let value_type = ValueType::Aggregate(Aggregate::SumInt64);
    let table = CreateTable {
        name: name(),
        families: vec![("sum".into(), FamilySpec { value_type, ..FamilySpec::default() })],
        splits: vec!["m".into()],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    match local.create_table(table).await {
        Ok(_) | Err(Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(error),
    }
    let one = |row: &'static str| {
        let mutation = RowMutation::AddToCell {
            family: "sum".into(),
            qualifier: "q".into(),
            timestamp: WriteTime::At(Timestamp(0)),
            input: 1.into(),
        };
        let change = RowMutations { row: row.into(), mutations: vec![mutation] };
        OnceRow { change, once: Some(Once { token: "token--1".into(), start_micros: None }) }
    };
    local.mutate_rows_once(&name(), vec![one("a"), one("z")]).await?.into_iter().collect()
}

async fn sums(local: &Local) -> Vec<i64> {
    let read = local.read_rows(&name(), ReadRows::default(), Pieces::default()).await.unwrap();
    let rows = read.collect_rows().await.unwrap();
    rows.iter().map(|row| i64::from_be_bytes(row.cells[0].value[..].try_into().unwrap())).collect()
}

#[tokio::test]
async fn a_change_counts_once_wherever_power_is_lost() {
    let machine = SimEnv::new(1);
    count(&open(&machine).unwrap()).await.unwrap();
    let operations = machine.fs.operations();
    let mut applied_unanswered = 0;
    for operation in 1..=operations {
        let machine = SimEnv::new(operation);
        machine.fs.power_off_at(operation);
        let answered = match open(&machine) {
            Ok(local) => count(&local).await.is_ok(),
            Err(_) => false,
        };
        let machine = machine.power_loss();
        let local = open(&machine).unwrap();
        if !answered && local.get_table(&name()).await.is_ok() {
            applied_unanswered += usize::from(!sums(&local).await.is_empty());
        }
        count(&local).await.unwrap();
        assert_eq!(sums(&local).await, [1, 1], "power lost at operation {operation}");
        drop(local);
        let local = open(&machine.power_loss()).unwrap();
        count(&local).await.unwrap();
        assert_eq!(sums(&local).await, [1, 1], "power lost again");
    }
    assert!(applied_unanswered > 0, "some change was committed and not answered");
}
