//! The counters of a table tell what requests did.

use crate::harness::{Harness, set};
use table::meter::{Operation, Outcome, TableCounters, Volume};
use table::*;

/// Returns the requests that were counted, by operation and outcome.
fn counted(counters: &TableCounters) -> Vec<(Operation, Outcome, u64)> {
    counters
        .latency()
        .map(|(operation, outcome, took)| (operation, outcome, took.count()))
        .collect()
}

#[tokio::test]
async fn requests_are_counted_by_operation_and_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    assert!(t.local.named_tables().is_empty(), "no request came yet");
    t.mutate("a", vec![set("f", "q", 1, "value")]).await.unwrap();
    t.mutate("a", vec![set("none", "q", 1, "value")]).await.unwrap_err();
    let rows = ["b", "c"].map(|key| RowMutations {
        row: key.into(),
        mutations: vec![set(if key == "b" { "f" } else { "none" }, "q", 1, "value")],
    });
    let results = t.local.mutate_rows(&t.name, rows.into()).await.unwrap();
    assert!(results[0].is_ok() && results[1].is_err());
    let rows = t.local.read_rows(&t.name, ReadRows::default(), Pieces::default()).await.unwrap();
    assert_eq!(rows.collect_rows().await.unwrap().len(), 2);
    let dropped = t.local.read_rows(&t.name, ReadRows::default(), Pieces::default()).await.unwrap();
    drop(dropped);
    let none = TableName::new("projects/p/instances/i/tables/none").unwrap();
    t.local.sample_row_keys(&none).await.unwrap_err();

    let named = t.local.named_tables();
    assert_eq!(named.len(), 1, "a table that is not there gets no counters");
    assert_eq!(named[0].table, t.name);
    let counters = &named[0].counters;
    assert_eq!(
        counted(counters),
        [
            (Operation::ReadRows, Outcome::Ok, 1),
            (Operation::ReadRows, Outcome::Cancelled, 1),
            (Operation::MutateRow, Outcome::Ok, 1),
            (Operation::MutateRow, Outcome::Refused, 1),
            (Operation::MutateRows, Outcome::Refused, 1),
        ]
    );
    let Volume { rows_read, read_bytes, rows_written, written_bytes } = counters.volume();
    // Keys and values of the read that ended; the other one was dropped before it gave anything.
    assert_eq!((rows_read, read_bytes, rows_written), (2, 12, 2));
    assert!(written_bytes > 10, "{written_bytes}");
    assert_eq!(counted(t.local.meter().other()), []);
}

#[tokio::test]
async fn a_table_keeps_its_counters_over_schema_changes() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &["m"]).await;
    t.mutate("a", vec![set("f", "q", 1, "value")]).await.unwrap();
    let create = FamilyChange::Create { name: "g".into(), spec: FamilySpec::default() };
    t.local.modify_families(&t.name, vec![create]).await.unwrap();
    t.mutate("z", vec![set("g", "q", 1, "value")]).await.unwrap();
    let named = t.local.named_tables();
    assert_eq!(counted(&named[0].counters), [(Operation::MutateRow, Outcome::Ok, 2)]);
    assert_eq!(named[0].trees.len(), 2, "the trees of both tablets");
    // Reads of ranges take a place on a thread.
    let waits = || t.local.meter().place_waits().map(|waits| waits.count());
    let before = waits();
    let rows = t.local.read_rows(&t.name, ReadRows::default(), Pieces::default()).await.unwrap();
    assert_eq!(rows.collect_rows().await.unwrap().len(), 2);
    assert_eq!([waits()[0] - before[0], waits()[1] - before[1]], [1, 0]);
}
