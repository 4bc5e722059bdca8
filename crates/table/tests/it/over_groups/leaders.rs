//! Reads and writes where the leaders of tablets change.

use super::harness::{Harness, TestClock, set, show};
use super::{Node, groups::OTHER};
use base::env::{Clock, Env};
use engine::{Column, Durability, FamilyId, Options, ReadyBatch, WriteBatch};
use futures::StreamExt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use table::mutate::WriteTime;
use table::wire::{Answer, Call};
use table::*;

/// A node with the table of its harness, split at `m`.
async fn node() -> (Harness, Node, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(1_000_000));
    let env = Env { clock: clock.clone(), ..Env::real(1) };
    let options = Options { durability: Durability::None, ..Options::default() };
    let node = Node::open(env, dir.path(), options, &Arc::default(), clock.clone());
    let name = TableName::new("projects/p/instances/i/tables/t").unwrap();
    let (local, engine) = (node.local.clone(), node.engine.clone());
    let h = Harness { local, engine, clock, name };
    h.create(&["f"], &["m"]).await;
    (h, node, dir)
}

impl Harness {
    async fn trees(&self) -> Vec<TreeId> {
        let schema = self.local.get_table(&self.name).await.unwrap();
        schema.tablets.iter().map(|tablet| tablet.tree).collect()
    }

    async fn set_now(&self, row: &'static str, value: &'static str) -> Result<()> {
        let cell = RowMutation::SetCell {
            family: "f".into(),
            qualifier: "q".into(),
            timestamp: WriteTime::Server,
            value: value.into(),
        };
        self.mutate(row, vec![cell]).await
    }
}

/// A batch that sets `f:q` of a row.
fn cell(row: &str, micros: i64, value: &[u8]) -> ReadyBatch {
    let mut batch = WriteBatch::new();
    batch.put(row.as_bytes(), Column::of(FamilyId(1), b"q"), Timestamp(micros), value);
    batch.ready().unwrap()
}

fn not_leader<T: std::fmt::Debug>(result: Result<T>) {
    assert_eq!(result.unwrap_err(), Error::NotLeader { leader: Some(OTHER) });
}

#[tokio::test]
async fn a_node_that_does_not_lead_refuses_and_changes_nothing() {
    let (h, node, _dir) = node().await;
    h.mutate("a", vec![set("f", "q", 1, "1")]).await.unwrap();
    node.groups.lose();
    not_leader(h.read(ReadRows::default()).await);
    not_leader(h.mutate("a", vec![set("f", "q", 1, "2")]).await);
    not_leader(h.increment("a", 1).await);
    not_leader(h.local.drop_rows(&h.name, DropRows::All).await);
    let check = CheckAndMutate {
        row: "a".into(),
        predicate: None,
        on_true: vec![RowMutation::DeleteFromRow],
        on_false: vec![],
    };
    not_leader(h.local.check_and_mutate_row(&h.name, check).await);
    node.groups.lead();
    assert_eq!(h.dump().await, "a f:q@1=1\n");
    assert_eq!(h.local.waiting_part(&h.name), 0.0);
}

#[tokio::test]
async fn only_the_tablets_of_a_request_have_to_be_led() {
    let (h, node, _dir) = node().await;
    let trees = h.trees().await;
    for row in ["a", "z"] {
        h.mutate(row, vec![set("f", "q", 1, row)]).await.unwrap();
    }
    node.groups.lose_one(|tree| tree == trees[1]);
    let row = |key: &'static str| ReadRows { rows: RowSet::key(key), ..ReadRows::default() };
    assert_eq!(show(&h.read(row("a")).await.unwrap()), "a f:q@1=a\n");
    not_leader(h.read(row("z")).await);
    not_leader(h.read(ReadRows::default()).await);
    let entry = |row: &'static str| RowMutations {
        row: row.into(),
        mutations: vec![set("f", "q", 2, "2")],
    };
    let results = h.local.mutate_rows(&h.name, vec![entry("z"), entry("b")]).await.unwrap();
    assert_eq!(results, [Err(Error::NotLeader { leader: Some(OTHER) }), Ok(())]);
    not_leader(h.local.drop_rows(&h.name, DropRows::All).await);
    let led = BTreeSet::from([trees[0]]);
    h.local.drop_rows_of(&h.name, &DropRows::All, &led).await.unwrap();
    let samples = h.local.sample_tablets(&h.name, led).await.unwrap();
    assert_eq!(samples.iter().map(|tablet| tablet.tree).collect::<Vec<_>>(), [trees[0]]);
    node.groups.lead();
    assert_eq!(h.dump().await, "z f:q@1=z\n");
}

#[tokio::test]
async fn a_conditional_write_is_evaluated_again_in_a_new_term() {
    let (h, node, _dir) = node().await;
    let tree = h.trees().await[0];
    h.increment("a", 1).await.unwrap();
    // Between the read of the row and the proposal another leader wrote.
    node.groups.after_reading(move |groups| {
        groups.lose();
        groups.write_elsewhere(tree, cell("a", 2_000_000, &7i64.to_be_bytes()), 2_000_000);
        groups.lead();
    });
    let row = h.increment("a", 1).await.unwrap();
    assert_eq!(row.cells[0].value[..], 8i64.to_be_bytes());
    node.groups.after_reading(|groups| {
        groups.lose();
        groups.lead();
    });
    let check = CheckAndMutate {
        row: "a".into(),
        predicate: Some(RowFilter::ValueRegex("x".into())),
        on_true: vec![],
        on_false: vec![RowMutation::DeleteFromRow],
    };
    assert_eq!(h.local.check_and_mutate_row(&h.name, check).await, Ok(false));
    assert_eq!(h.dump().await, "");
    // Not without end.
    for _ in 0..3 {
        node.groups.after_reading(|groups| {
            groups.lose();
            groups.lead();
        });
    }
    not_leader(h.increment("a", 1).await);
    assert_eq!(h.dump().await, "");
}

#[tokio::test]
async fn times_of_a_new_term_are_above_those_of_all_earlier_ones() {
    let (h, node, _dir) = node().await;
    let tree = h.trees().await[0];
    h.set_now("a", "mine").await.unwrap();
    node.groups.lose();
    node.groups.write_elsewhere(tree, cell("a", 9_000_000, b"other"), 9_000_000);
    node.groups.lead();
    h.set_now("a", "again").await.unwrap();
    h.increment("b", 1).await.unwrap();
    let newest = RowFilter::CellsPerColumnLimit(1);
    let read = ReadRows { filter: Some(newest), ..ReadRows::default() };
    let shown = show(&h.read(read).await.unwrap());
    assert!(shown.starts_with("a f:q@9001=again\nb f:q@9001="), "{shown}");
    // Rows of other tablets keep to the clock.
    h.set_now("z", "now").await.unwrap();
    assert!(h.dump().await.ends_with("z f:q@1000=now\n"));
    assert_eq!(h.clock.now_micros(), 1_000_000);
}

#[tokio::test]
async fn what_a_write_excludes_ends_with_its_outcome_and_not_with_its_task() {
    let (h, node, _dir) = node().await;
    node.groups.halt(true);
    let (local, name) = (h.local.clone(), h.name.clone());
    let row =
        RowMutations { row: "a".into(), mutations: vec![set("f", "q", 1, "\0\0\0\0\0\0\0\x05")] };
    let write = tokio::spawn(async move { local.mutate_row(&name, row).await });
    while h.local.waiting_part(&h.name) == 0.0 {
        tokio::task::yield_now().await;
    }
    // The task got that far in one poll, and waits for the outcome.
    write.abort();
    assert!(write.await.unwrap_err().is_cancelled());
    assert!(h.local.waiting_part(&h.name) > 0.0, "it is still under way");
    let mut increment = Box::pin(h.increment("a", 1));
    let early = tokio::time::timeout(Duration::from_millis(20), &mut increment).await;
    assert!(early.is_err(), "it would not see the write: {early:?}");
    node.groups.halt(false);
    let row = increment.await.unwrap();
    assert_eq!(row.cells[0].value[..], 6i64.to_be_bytes());
    assert_eq!(h.local.waiting_part(&h.name), 0.0);
}

#[tokio::test]
async fn a_node_carries_out_calls_of_others() {
    let (h, node, _dir) = node().await;
    let trees = h.trees().await;
    let ask = async |call: Call| -> Vec<Answer> {
        let call = Call::decode(&call.encode().into()).unwrap();
        let answers: Vec<Vec<u8>> = h.local.carry_out(call).collect().await;
        answers.into_iter().map(|frame| Answer::decode(&frame.into()).unwrap()).collect()
    };
    let row = |row: &'static str, value: &str| OnceRow {
        change: RowMutations { row: row.into(), mutations: vec![set("f", "q", 1, value)] },
        once: None,
    };
    let rows = vec![row("a", "1"), row("", "2"), row("z", "3")];
    let answers = ask(Call::MutateRows(h.name.clone(), rows)).await;
    let [Answer::Results(results)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    let read = || Call::ReadRows(h.name.clone(), ReadRows::default());
    let answers = ask(read()).await;
    let [Answer::Rows(batch), Answer::Done] = &answers[..] else { panic!("{answers:?}") };
    let starts = batch.rows.iter().filter(|piece| matches!(piece, RowPiece::Start(_)));
    assert_eq!((starts.count(), batch.stats.rows_returned), (2, 2));
    let check = CheckAndMutate {
        row: "a".into(),
        predicate: Some(RowFilter::ValueRegex("1".into())),
        on_true: vec![set("f", "q", 2, "yes")],
        on_false: vec![],
    };
    assert_eq!(ask(Call::CheckAndMutate(h.name.clone(), check)).await, [Answer::Checked(true)]);
    let all = |trees: &[TreeId]| Call::DropRows {
        table: h.name.clone(),
        rows: DropRows::All,
        trees: trees.to_vec(),
    };
    assert_eq!(ask(all(&trees[..1])).await, [Answer::Done]);
    assert_eq!(h.dump().await, "z f:q@1=3\n");
    let sample = Call::SampleTablets { table: h.name.clone(), trees: trees.clone() };
    let answers = ask(sample).await;
    assert!(
        matches!(&answers[..], [Answer::Samples(samples)] if samples.len() == 2),
        "{answers:?}"
    );
    node.groups.lose();
    let lost = [Answer::Failed(Error::NotLeader { leader: Some(OTHER) })];
    assert_eq!(ask(read()).await, lost);
    assert_eq!(ask(all(&trees)).await, lost);
}

#[tokio::test]
async fn a_leader_that_has_a_newer_schema_serves_no_request_with_an_older_one() {
    let (h, node, _dir) = node().await;
    h.mutate("a", vec![set("f", "q", 1, "1")]).await.unwrap();
    let mut version = 100;
    // The request took its table; then this node applied a change of it and became the leader.
    let mut change_meanwhile = || {
        let (local, name) = (h.local.clone(), h.name.clone());
        version += 1;
        node.groups.after_reading(move |_| {
            let schema = futures::executor::block_on(local.get_table(&name)).unwrap();
            local.learn(Versioned { schema: TableSchema::clone(&schema), version }).unwrap();
        });
    };
    // The node named is the one that leads: this one.
    let refused = Err(Error::NotLeader { leader: Some(1) });
    change_meanwhile();
    assert_eq!(h.read(ReadRows::default()).await.map(drop), refused);
    change_meanwhile();
    assert_eq!(h.mutate("a", vec![set("f", "q", 1, "2")]).await, refused);
    change_meanwhile();
    assert_eq!(h.increment("a", 1).await.map(drop), refused);
    change_meanwhile();
    let check = CheckAndMutate {
        row: "a".into(),
        predicate: None,
        on_true: vec![RowMutation::DeleteFromRow],
        on_false: vec![],
    };
    assert_eq!(h.local.check_and_mutate_row(&h.name, check).await.map(drop), refused);
    change_meanwhile();
    let add = RowMutations { row: "a".into(), mutations: vec![set("f", "q", 1, "3")] };
    let once = OnceRow { change: add, once: None };
    let results = h.local.mutate_rows_once(&h.name, vec![once]).await.unwrap();
    assert_eq!(results, std::slice::from_ref(&refused));
    assert_eq!(h.dump().await, "a f:q@1=1\n");
}

#[tokio::test]
async fn a_drop_that_was_done_in_part_does_not_say_that_nothing_was_done() {
    let (h, node, _dir) = node().await;
    let trees = h.trees().await;
    for row in ["a", "z"] {
        h.mutate(row, vec![set("f", "q", 1, row)]).await.unwrap();
    }
    // The terms are looked at for both tablets, and again before the batch of each.
    (0..3).for_each(|_| node.groups.after_reading(|_| ()));
    node.groups.after_reading(move |groups| groups.lose_one(|tree| tree == trees[1]));
    let dropped = h.local.drop_rows(&h.name, DropRows::All).await;
    assert!(matches!(dropped, Err(Error::Unavailable(_))), "{dropped:?}");
    node.groups.lead();
    assert_eq!(h.dump().await, "z f:q@1=z\n");
}

impl Harness {
    fn entry(row: &'static str, value: &'static str) -> RowMutations {
        RowMutations { row: row.into(), mutations: vec![set("f", "q", 1, value)] }
    }

    /// Begins a write in a task, which has no outcome when this returns.
    async fn write_without_outcome<F>(&self, node: &Node, write: impl FnOnce(Local, TableName) -> F)
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let before = node.groups.undecided();
        tokio::spawn(write(self.local.clone(), self.name.clone()));
        while node.groups.undecided() == before {
            tokio::task::yield_now().await;
        }
    }
}

const EIGHT: &str = "\0\0\0\0\0\0\0\x08";

#[tokio::test]
async fn a_tablet_without_a_majority_stops_no_row_of_another_one() {
    let (h, node, _dir) = node().await;
    node.groups.lose_majority(h.trees().await[0]);
    // A write of rows of both tablets at once, and a drop that concerns every row of the lost one.
    h.write_without_outcome(&node, |local, name| async move {
        local.mutate_rows(&name, vec![Harness::entry("a", EIGHT), Harness::entry("z", EIGHT)]).await
    })
    .await;
    let drop_it = DropRows::Prefix("c".into());
    h.write_without_outcome(
        &node,
        |local, name| async move { local.drop_rows(&name, drop_it).await },
    )
    .await;
    // This one waits for its row of the lost tablet.
    let (local, name) = (h.local.clone(), h.name.clone());
    tokio::spawn(async move {
        let once = |row| OnceRow { change: Harness::entry(row, EIGHT), once: None };
        local.mutate_rows_once(&name, vec![once("b"), once("y")]).await
    });
    let healthy = async {
        for row in ["z", "y"] {
            while h
                .read(ReadRows { rows: RowSet::key(row), ..ReadRows::default() })
                .await
                .unwrap()
                .is_empty()
            {
                tokio::task::yield_now().await;
            }
            let row = h.increment(row, 1).await.unwrap();
            assert_eq!(row.cells[0].value[..], 9i64.to_be_bytes());
        }
        // Rows of the same stripes as any others, wherever these are.
        for at in 0..300 {
            h.increment(&format!("x{at}"), 1).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), healthy).await.unwrap();
    assert_eq!(node.groups.undecided(), 2);
}

#[tokio::test]
async fn who_waits_for_a_row_is_refused_when_another_node_leads() {
    let (h, node, _dir) = node().await;
    node.groups.lose_majority(h.trees().await[0]);
    h.write_without_outcome(&node, |local, name| async move {
        local.mutate_row(&name, Harness::entry("a", EIGHT)).await
    })
    .await;
    let mut increment = Box::pin(h.increment("a", 1));
    assert!(futures::poll!(&mut increment).is_pending());
    // A plain write comes after it in the queue.
    let mut write = Box::pin(h.mutate("a", vec![set("f", "q", 2, "2")]));
    assert!(futures::poll!(&mut write).is_pending());
    node.groups.lose();
    not_leader(increment.await);
    not_leader(write.await);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_row_does_not_wait_without_bound() {
    let (h, node, _dir) = node().await;
    node.groups.lose_majority(h.trees().await[0]);
    h.write_without_outcome(&node, |local, name| async move {
        local.mutate_row(&name, Harness::entry("a", EIGHT)).await
    })
    .await;
    let refused = h.increment("a", 1).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    // A request that gave up stops no other one.
    h.write_without_outcome(&node, |local, name| async move {
        local.mutate_row(&name, Harness::entry("a", EIGHT)).await
    })
    .await;
}
