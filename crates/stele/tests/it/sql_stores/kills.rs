//! Concurrent transactions against a server that is killed in the midst of them, again and again.
//!
//! 1. Transfers move money between accounts and write it down: the sum stays, and every balance is what the
//!    journal says.
//! 2. Inserts that were acknowledged are there; of the others at most the one in flight.
//! 3. Every index has the rows that its table has, and a sequence gives no number twice.
//!
//! `STELE_KILL_SEED` is the seed of the operations and of the moments of the kills; how sessions meet is
//! not drawn from it. `STELE_SQL_KILL_CYCLES` is the number of kills (5).

use super::{FLAGS, connect, number};
use crate::server::{Server, run, stderr};
use base::env::{Clock, Rng, SystemClock};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_postgres::{Client, Error};

/// Sessions that work at one time.
const WORKERS: usize = 6;
const ACCOUNTS: i64 = 40;
/// Money on each account at the start.
const START: i64 = 1_000;

/// The inserts of a worker.
#[derive(Default)]
struct Inserts {
    /// Numbers of the inserts that were acknowledged.
    acknowledged: Mutex<BTreeSet<i64>>,
    /// The last number that was tried.
    tried: AtomicI64,
}

fn from_environment(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect(variable))
}

#[test]
fn committed_transactions_outlive_kill_9() {
    let seed = from_environment("STELE_KILL_SEED")
        .unwrap_or_else(|| SystemClock.now_micros() as u64 % 1_000_000_000);
    let cycles = from_environment("STELE_SQL_KILL_CYCLES").unwrap_or(5);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), FLAGS);
    let mut rng = Rng::new(seed);
    runtime.block_on(async { set_up(&connect(&server).await).await.unwrap() });
    let inserts: Arc<Vec<Inserts>> = Arc::new((0..WORKERS).map(|_| Inserts::default()).collect());
    for cycle in 0..cycles {
        let mut workers = Vec::new();
        for worker in 0..WORKERS {
            let client = runtime.block_on(connect(&server));
            let (inserts, rng) =
                (Arc::clone(&inserts), Rng::new(seed + cycle * 100 + worker as u64));
            workers.push(
                runtime.spawn(async move { work(client, worker, &inserts[worker], rng).await }),
            );
        }
        std::thread::sleep(Duration::from_millis(500 + rng.below(1_000)));
        server.kill_9();
        for worker in workers {
            let error = runtime.block_on(worker).unwrap();
            assert!(error.as_db_error().is_none(), "seed {seed}, cycle {cycle}: {error:?}");
        }
        server.restart();
        runtime.block_on(async { check(&connect(&server).await, &inserts, (seed, cycle)).await });
    }
    let done: usize = inserts.iter().map(|one| one.acknowledged.lock().unwrap().len()).sum();
    let transfers = runtime
        .block_on(async { number(&connect(&server).await, "SELECT count(*) FROM journal").await });
    assert!(done > 0 && transfers > 0, "seed {seed}: {done} inserts, {transfers} transfers");
    assert!(server.terminate().success());
    let checked = run(&["check", dir.path().to_str().unwrap()]);
    assert!(checked.status.success(), "check: {}", stderr(&checked));
    // The test harness hides what a passing test prints by macro.
    let summary = format!("{cycles} kills, {done} inserts, {transfers} transfers, seed {seed}\n");
    std::io::stderr().write_all(summary.as_bytes()).unwrap();
}

async fn set_up(client: &Client) -> Result<(), Error> {
    client
        .batch_execute(
            "CREATE TABLE accounts (id bigint PRIMARY KEY, owner text NOT NULL, balance bigint NOT NULL
                 CHECK (balance >= 0));
             CREATE INDEX accounts_balance ON accounts (balance);
             CREATE TABLE journal (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, debit bigint NOT NULL,
                 credit bigint NOT NULL, amount bigint NOT NULL);
             CREATE SEQUENCE numbers;
             CREATE TABLE inserted (worker bigint, n bigint, number bigint NOT NULL UNIQUE, filler text,
                 PRIMARY KEY (worker, n));",
        )
        .await?;
    let fill = "INSERT INTO accounts SELECT g, 'owner ' || g, $1::bigint FROM generate_series(1, $2::bigint) AS g";
    client.execute(fill, &[&START, &ACCOUNTS]).await.map(drop)
}

/// Works until the connection is lost. Returns the error of the loss, or of a statement that may not fail.
async fn work(mut client: Client, worker: usize, inserts: &Inserts, mut rng: Rng) -> Error {
    let filler = "x".repeat(200);
    let insert = "INSERT INTO inserted VALUES ($1, $2, nextval('numbers'), $3)";
    let mut n = inserts.tried.load(Ordering::Relaxed);
    loop {
        n += 1;
        inserts.tried.store(n, Ordering::Relaxed);
        match client.execute(insert, &[&(worker as i64), &n, &filler]).await {
            Ok(_) => drop(inserts.acknowledged.lock().unwrap().insert(n)),
            Err(error) => return error,
        }
        let debit = 1 + rng.below(ACCOUNTS as u64) as i64;
        let credit = 1 + rng.below(ACCOUNTS as u64) as i64;
        let amount = rng.below(50) as i64;
        match transfer(&mut client, debit, credit, amount).await {
            Ok(()) => {}
            Err(error) => match error.code().map(|code| code.code()) {
                // A deadlock, or an account without enough money.
                Some("40P01" | "23514") => {}
                _ => return error,
            },
        }
    }
}

async fn transfer(client: &mut Client, debit: i64, credit: i64, amount: i64) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    let change = "UPDATE accounts SET balance = balance + $2 WHERE id = $1";
    transaction.execute(change, &[&debit, &-amount]).await?;
    transaction.execute(change, &[&credit, &amount]).await?;
    let note = "INSERT INTO journal (debit, credit, amount) VALUES ($1, $2, $3)";
    transaction.execute(note, &[&debit, &credit, &amount]).await?;
    transaction.commit().await
}

async fn check(client: &Client, inserts: &[Inserts], (seed, cycle): (u64, u64)) {
    let place = format!("seed {seed}, cycle {cycle}");
    assert_eq!(
        number(client, "SELECT sum(balance)::bigint FROM accounts").await,
        ACCOUNTS * START,
        "{place}"
    );
    let wrong = format!(
        "SELECT count(*) FROM accounts a
         LEFT JOIN (SELECT debit, sum(amount)::bigint AS s FROM journal GROUP BY debit) d ON d.debit = a.id
         LEFT JOIN (SELECT credit, sum(amount)::bigint AS s FROM journal GROUP BY credit) c ON c.credit = a.id
         WHERE a.balance <> {START} - coalesce(d.s, 0) + coalesce(c.s, 0)"
    );
    assert_eq!(number(client, &wrong).await, 0, "{place}: balances and journal");
    let by_index = "SELECT count(*) FROM accounts WHERE balance >= 0";
    assert_eq!(number(client, by_index).await, ACCOUNTS, "{place}: the index of balances");
    for row in client.query("SELECT id, balance FROM accounts", &[]).await.unwrap() {
        let (id, balance): (i64, i64) = (row.get(0), row.get(1));
        let found =
            client.query("SELECT id FROM accounts WHERE balance = $1", &[&balance]).await.unwrap();
        assert!(
            found.iter().any(|row| row.get::<_, i64>(0) == id),
            "{place}: account {id} by its balance"
        );
    }
    for (worker, counts) in inserts.iter().enumerate() {
        let query = "SELECT n FROM inserted WHERE worker = $1";
        let rows = client.query(query, &[&(worker as i64)]).await.unwrap();
        let found: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let acknowledged = counts.acknowledged.lock().unwrap();
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "{place}: worker {worker} lost {lost:?}");
        let last = counts.tried.load(Ordering::Relaxed);
        assert!(found.iter().all(|n| *n <= last), "{place}: inserts that were never made");
        // Each kill leaves at most one insert of a worker without an answer.
        assert!(found.len() - acknowledged.len() <= cycle as usize + 1, "{place}: {worker}");
    }
    let rows = number(client, "SELECT count(*) FROM inserted").await;
    let distinct =
        number(client, "SELECT count(DISTINCT number) FROM inserted WHERE number > 0").await;
    assert_eq!(rows, distinct, "{place}: numbers of the sequence");
    let highest = number(client, "SELECT coalesce(max(number), 0) FROM inserted").await;
    assert!(
        number(client, "SELECT nextval('numbers')").await > highest,
        "{place}: the next number"
    );
}
