//! Anomalies in recorded histories of concurrent transactions.
//!
//! Each row is a list of the transactions that wrote it: a write appends its number. So the last commit of
//! a row tells the order of all writes before it, and a read tells what it saw.
//!
//! 1. No aborted write is ever read (G1a), and no intermediate one (G1b): what a list shows was committed.
//! 2. The writes of one row are in one order (G0): each list that is read is a beginning of the last one.
//! 3. No update is lost: each committed write is in the last list, once.
//! 4. Information flows one way (G1c): writes and reads of committed transactions make no circle.
//! 5. A snapshot of REPEATABLE READ shows all writes of a transaction, or none.

use crate::harness::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use relational::{
    DataType, Database, Isolation, LockMode, Oid, Result, Row, SqlState, Value, Wait,
};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ROWS: i32 = 6;
const WORKERS: u64 = 6;
const TRANSACTIONS: u64 = 25;

/// Reads and writes of one transaction.
#[derive(Debug, Clone)]
struct Record {
    number: u64,
    isolation: Isolation,
    is_committed: bool,
    /// Lists that its snapshots showed, by row.
    read: Vec<(i32, Vec<u64>)>,
    /// The list before each write, by row.
    wrote: BTreeMap<i32, Vec<u64>>,
}

fn list(row: &Row) -> Vec<u64> {
    match &row[1] {
        Value::Text(text) => text.split_whitespace().map(|word| word.parse().unwrap()).collect(),
        _ => Vec::new(),
    }
}

async fn transact(
    database: &Arc<Database>,
    table: Oid,
    number: u64,
    random: &mut StdRng,
) -> Record {
    let isolation = match random.random_bool(0.5) {
        true => Isolation::RepeatableRead,
        false => Isolation::ReadCommitted,
    };
    let mut record =
        Record { number, isolation, is_committed: false, read: vec![], wrote: BTreeMap::new() };
    let mut transaction = database.begin(isolation, false);
    let steps: Result<()> = async {
        for _ in 0..random.random_range(1..5) {
            transaction.start_statement().await.unwrap();
            let id = random.random_range(0..ROWS);
            let key = [Value::Int4(id)];
            if random.random_bool(0.4) {
                let row = transaction.view().get(table, &key).await?.unwrap();
                record.read.push((id, list(&row)));
            } else if let Entry::Vacant(wrote) = record.wrote.entry(id) {
                let wait = if random.random_bool(0.9) { Wait::Wait } else { Wait::Skip };
                let old = transaction.lock(table, &key, LockMode::NoKeyUpdate, wait).await?;
                let Some(old) = old else { continue };
                let before = list(&old);
                let last = Value::Int4(number as i32 * 10 + id);
                let new = vec![old[0].clone(), append(&old[1], number), last];
                transaction.update(table, &old, new).await?;
                wrote.insert(before);
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
    .await;
    match steps {
        Ok(()) if random.random_bool(0.9) => {
            transaction.commit().await.unwrap();
            record.is_committed = true;
        }
        Ok(()) => transaction.rollback().await,
        Err(error) => {
            let expected = [SqlState::DEADLOCK_DETECTED, SqlState::SERIALIZATION_FAILURE];
            assert!(expected.contains(&error.state), "{error}");
        }
    }
    record
}

fn append(value: &Value, number: u64) -> Value {
    match value {
        Value::Text(text) => Value::text(format!("{text} {number}")),
        _ => Value::text(number.to_string()),
    }
}

fn check(seed: u64, records: &[Record], last: &BTreeMap<i32, Vec<u64>>) {
    let committed: BTreeMap<u64, &Record> =
        records.iter().filter(|r| r.is_committed).map(|r| (r.number, r)).collect();
    // Invariants 1 and 3.
    for (id, list) in last {
        let writers: BTreeSet<u64> = list.iter().copied().collect();
        assert_eq!(writers.len(), list.len(), "seed {seed}: a write of row {id} is there twice");
        let want = committed.values().filter(|r| r.wrote.contains_key(id));
        let want: BTreeSet<u64> = want.map(|record| record.number).collect();
        assert_eq!(writers, want, "seed {seed}: writes of row {id}");
    }
    let mut edges: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for record in records {
        let own = |list: &[u64]| list.iter().copied().filter(|n| *n != record.number).collect();
        for (id, seen) in &record.read {
            // Invariant 2; own writes stand at the end.
            let others: Vec<u64> = own(seen);
            assert!(last[id].starts_with(&others), "seed {seed}: {record:?} read {seen:?}");
            if let (true, Some(writer)) = (record.is_committed, others.last()) {
                edges.entry(*writer).or_default().insert(record.number);
            }
        }
        for before in record.wrote.values().filter(|_| record.is_committed) {
            if let Some(writer) = before.last() {
                edges.entry(*writer).or_default().insert(record.number);
            }
        }
        // Invariant 5.
        if record.isolation == Isolation::RepeatableRead {
            for (id, seen) in &record.read {
                for writer in own(seen).iter().map(|number: &u64| committed[number]) {
                    for (other, shown) in &record.read {
                        let is_whole =
                            !writer.wrote.contains_key(other) || shown.contains(&writer.number);
                        assert!(is_whole, "seed {seed}: {record:?} saw half of {writer:?} at {id}");
                    }
                }
            }
        }
    }
    assert!(!has_circle(&edges), "seed {seed}: information flows in a circle");
}

fn has_circle(edges: &BTreeMap<u64, BTreeSet<u64>>) -> bool {
    let mut left = edges.clone();
    loop {
        let targets: BTreeSet<u64> = left.values().flatten().copied().collect();
        let sources: Vec<u64> = left.keys().copied().filter(|n| !targets.contains(n)).collect();
        if sources.is_empty() {
            return !left.is_empty();
        }
        sources.iter().for_each(|source| drop(left.remove(source)));
    }
}

#[test]
fn histories_have_no_anomaly_that_is_forbidden() {
    for seed in 0..12 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(one_history(seed));
    }
}

async fn one_history(seed: u64) {
    let (_machine, database) = new().await;
    let columns = vec![
        column("id", DataType::Int4),
        column("list", DataType::Text),
        column("last", DataType::Int4),
    ];
    let table = create(&database, "t", columns, vec![key(&["id"]), unique(&["last"])]).await;
    let rows_at_first = (0..ROWS).map(|id| vec![Value::Int4(id), Value::Null, Value::Int4(-id)]);
    insert(&database, table, rows_at_first.collect()).await.unwrap();
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let database = Arc::clone(&database);
        workers.push(tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed * 100 + worker);
            let mut records = Vec::new();
            for number in 0..TRANSACTIONS {
                let number = 1 + worker * TRANSACTIONS + number;
                records.push(transact(&database, table, number, &mut random).await);
            }
            records
        }));
    }
    let mut records = Vec::new();
    for worker in workers {
        records.extend(worker.await.unwrap());
    }
    let all = rows(&database, table).await;
    let last = all.iter().map(|row| match row[0] {
        Value::Int4(id) => (id, list(row)),
        _ => panic!("{row:?}"),
    });
    check(seed, &records, &last.collect());
    let committed = records.iter().filter(|record| record.is_committed).count();
    assert!(committed > 20, "seed {seed}: only {committed} committed");
}

#[test]
fn write_skew_is_permitted_under_snapshot_isolation() {
    run(async || {
        let (_machine, database) = new().await;
        let table = create_names(&database, "t", false).await;
        insert(&database, table, vec![named(1, "on"), named(2, "on")]).await.unwrap();
        let (mut first, mut second) = (begin_repeatable(&database), begin_repeatable(&database));
        for (transaction, id) in [(&mut first, 1), (&mut second, 2)] {
            assert_eq!(rows_in(transaction.view(), table, None).await.len(), 2);
            transaction.update(table, &named(id, "on"), named(id, "off")).await.unwrap();
        }
        first.commit().await.unwrap();
        second.commit().await.unwrap();
        assert_eq!(rows(&database, table).await, [named(1, "off"), named(2, "off")]);
    });
}

#[test]
fn the_checker_finds_anomalies() {
    let record = |number, read: Vec<(i32, Vec<u64>)>, wrote: &[i32]| Record {
        number,
        isolation: Isolation::RepeatableRead,
        is_committed: true,
        read,
        wrote: wrote.iter().map(|id| (*id, Vec::new())).collect(),
    };
    let finds = |records: Vec<Record>, last: BTreeMap<i32, Vec<u64>>| {
        std::panic::catch_unwind(|| check(0, &records, &last)).is_err()
    };
    let last = |one: &[u64], two: &[u64]| BTreeMap::from([(1, one.to_vec()), (2, two.to_vec())]);
    assert!(!finds(vec![record(1, vec![], &[1])], last(&[1], &[])));
    // A lost update.
    assert!(finds(vec![record(1, vec![], &[1]), record(2, vec![], &[1])], last(&[2], &[])));
    // A read of a write that was never committed.
    assert!(finds(vec![record(2, vec![(1, vec![7])], &[])], last(&[], &[])));
    // Half of a transaction.
    let half = vec![record(1, vec![], &[1, 2]), record(2, vec![(1, vec![1]), (2, vec![])], &[])];
    assert!(finds(half, last(&[1], &[1])));
    // A circle of information.
    let circle = vec![record(1, vec![(2, vec![2])], &[1]), record(2, vec![(1, vec![1])], &[2])];
    assert!(finds(circle, last(&[1], &[2])));
}
