//! Transfers of money between accounts, by clients that go from node to node and know what was acknowledged.
//!
//! 1. The sum of all accounts stays, and each balance is what the journal says.
//! 2. Every transfer that was acknowledged is in the journal; of the others only what was in doubt may be.

use super::{ANSWER_MAX, SOON, connect, number};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error};

const WORKERS: usize = 6;
const ACCOUNTS: i64 = 30;
/// Money on each account at the start.
const START: i64 = 1_000;
/// Acknowledged transfers that show that the cluster works.
const MORE: u64 = 40;
/// Transfers after which a client goes to another node.
const AT_ONE_NODE: usize = 15;

/// Makes the tables, with money on all accounts.
pub(super) async fn set_up(client: &Client) {
    client
        .batch_execute(
            "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
             CREATE INDEX accounts_balance ON accounts (balance);
             CREATE TABLE journal (id bigint PRIMARY KEY, number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
                 debit bigint NOT NULL, credit bigint NOT NULL, amount bigint NOT NULL)",
        )
        .await
        .unwrap();
    let fill = "INSERT INTO accounts SELECT g, $1::bigint FROM generate_series(1, $2::bigint) AS g";
    client.execute(fill, &[&START, &ACCOUNTS]).await.unwrap();
}

#[derive(Default)]
struct Shared {
    addresses: Vec<SocketAddr>,
    acknowledged: AtomicU64,
    stop: AtomicBool,
}

/// Transfers that are under way.
pub(super) struct Transfers {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<Outcome>>,
}

/// Numbers of transfers by what became of them.
#[derive(Default)]
pub(super) struct Outcome {
    acknowledged: BTreeSet<i64>,
    in_doubt: BTreeSet<i64>,
}

impl Transfers {
    pub(super) fn start(runtime: &Runtime, addresses: Vec<SocketAddr>) -> Self {
        let shared = Arc::new(Shared { addresses, ..Shared::default() });
        let work = |worker| runtime.spawn(work(Arc::clone(&shared), worker));
        let workers = (0..WORKERS).map(work).collect();
        Self { shared, workers }
    }

    /// Waits until more transfers were acknowledged.
    pub(super) fn wait_for_more(&self, when: &str) {
        let wanted = self.shared.acknowledged.load(Ordering::SeqCst) + MORE;
        let begun = Instant::now();
        while self.shared.acknowledged.load(Ordering::SeqCst) < wanted {
            assert!(begun.elapsed() < SOON, "transfers do not go on {when}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the transfers, and returns what became of them.
    pub(super) async fn stop(self) -> Outcome {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut all = Outcome::default();
        for worker in self.workers {
            let mut outcome = worker.await.unwrap();
            all.acknowledged.append(&mut outcome.acknowledged);
            all.in_doubt.append(&mut outcome.in_doubt);
        }
        all
    }
}

async fn work(shared: Arc<Shared>, worker: usize) -> Outcome {
    let (mut outcome, mut n) = (Outcome::default(), worker as i64 * 1_000_000);
    let mut at = worker;
    while !shared.stop.load(Ordering::SeqCst) {
        let address = shared.addresses[at % shared.addresses.len()];
        at += 1;
        let connected = tokio::time::timeout(ANSWER_MAX, connect(address)).await;
        let Ok(Ok(mut client)) = connected else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        for _ in 0..AT_ONE_NODE {
            n += 1;
            match tokio::time::timeout(ANSWER_MAX, transfer(&mut client, n)).await {
                Ok(Ok(())) => {
                    outcome.acknowledged.insert(n);
                    shared.acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                Ok(Err(error)) => match error.code().map(|code| code.code()) {
                    // Nothing was written: a deadlock, an account without enough money, a term that ended.
                    Some("40P01" | "23514" | "40001") => {}
                    Some("40003" | "57P01" | "57014") | None => {
                        outcome.in_doubt.insert(n);
                        break;
                    }
                    Some(_) => panic!("transfer {n}: {error:?}"),
                },
                Err(_) => {
                    outcome.in_doubt.insert(n);
                    break;
                }
            }
        }
    }
    outcome
}

async fn transfer(client: &mut Client, n: i64) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    let (debit, credit) = (1 + n * 7 % ACCOUNTS, 1 + n * 11 % ACCOUNTS);
    let amount = n % 17;
    let note = "INSERT INTO journal (id, debit, credit, amount) VALUES ($1, $2, $3, $4)";
    transaction.execute(note, &[&n, &debit, &credit, &amount]).await?;
    let change = "UPDATE accounts SET balance = balance + $2 WHERE id = $1";
    transaction.execute(change, &[&debit, &-amount]).await?;
    transaction.execute(change, &[&credit, &amount]).await?;
    transaction.commit().await
}

impl Outcome {
    /// Compares what a node reads with what is known.
    pub(super) async fn check(&self, client: &Client) {
        let sum = number(client, "SELECT sum(balance)::bigint FROM accounts").await;
        assert_eq!(sum, ACCOUNTS * START);
        let wrong = format!(
            "SELECT count(*) FROM accounts a
             LEFT JOIN (SELECT debit, sum(amount)::bigint AS s FROM journal GROUP BY debit) d ON d.debit = a.id
             LEFT JOIN (SELECT credit, sum(amount)::bigint AS s FROM journal GROUP BY credit) c ON c.credit = a.id
             WHERE a.balance <> {START} - coalesce(d.s, 0) + coalesce(c.s, 0)"
        );
        assert_eq!(number(client, &wrong).await, 0, "balances and journal");
        let by_index = "SELECT count(*) FROM accounts WHERE balance >= 0";
        assert_eq!(number(client, by_index).await, ACCOUNTS, "the index of balances");
        let rows = client.query("SELECT id FROM journal", &[]).await.unwrap();
        let found: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let lost: Vec<_> = self.acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let known: BTreeSet<i64> = self.acknowledged.union(&self.in_doubt).copied().collect();
        let strange: Vec<_> = found.difference(&known).collect();
        assert!(strange.is_empty(), "refused and there: {strange:?}");
        let numbers = "SELECT count(DISTINCT number) FROM journal";
        assert_eq!(number(client, numbers).await, rows.len() as i64, "numbers of the sequence");
    }
}
