//! The counters of a table tell what requests did.

use crate::harness::{Harness, set};
use table::meter::{Operation, Outcome, Queue, TableCounters, Volume};
use table::mutate::{Once, OnceRow, WriteTime};
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
    let waits = || {
        let all = t.local.meter().queue_waits();
        all.map(|(queue, waits)| (queue, waits.count())).collect::<Vec<_>>()
    };
    let before = waits();
    let rows = t.local.read_rows(&t.name, ReadRows::default(), Pieces::default()).await.unwrap();
    assert_eq!(rows.collect_rows().await.unwrap().len(), 2);
    let grown = waits().into_iter().zip(before).filter(|(now, before)| now.1 > before.1);
    assert_eq!(grown.map(|((queue, _), _)| queue).collect::<Vec<_>>(), [Queue::ShortReads]);
}

/// Returns the tree of each tablet.
async fn trees(t: &Harness) -> Vec<engine::TreeId> {
    let schema = t.local.get_table(&t.name).await.unwrap();
    schema.tablets.iter().map(|tablet| tablet.tree).collect()
}

#[tokio::test]
async fn requests_rows_and_bytes_count_in_their_tablets() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &["m"]).await;
    let tablets = t.local.meter().tablets();
    t.mutate("a", vec![set("f", "q", 1, "before")]).await.unwrap();
    tablets.choose(trees(&t).await);
    for (row, value) in [("a", "low"), ("z", "the high one")] {
        t.mutate(row, vec![set("f", "q", 1, value)]).await.unwrap();
    }
    let both = ["b", "y"]
        .map(|key| RowMutations { row: key.into(), mutations: vec![set("f", "q", 1, "value")] });
    let results = t.local.mutate_rows(&t.name, both.into()).await.unwrap();
    assert!(results.iter().all(|result| result.is_ok()));
    let named = ["y", "z"].map(Bytes::from).into();
    let of_high = RowSet { keys: named, ranges: Vec::new() };
    let across = ["b", "y"].map(Bytes::from).into();
    let across = RowSet { keys: across, ranges: Vec::new() };
    for (rows, count) in [(of_high, 2), (across, 2), (RowSet::all(), 4)] {
        let read = ReadRows { rows, ..ReadRows::default() };
        let rows = t.local.read_rows(&t.name, read, Pieces::default()).await.unwrap();
        assert_eq!(rows.collect_rows().await.unwrap().len(), count);
    }
    t.local.drop_rows(&t.name, DropRows::Prefix("zz".into())).await.unwrap();

    let named = tablets.named();
    let [(_, low), (_, high)] = &named[..] else { panic!("{named:?}") };
    let (read, write) = (Operation::ReadRows, Operation::MutateRow);
    assert_eq!(counted(low), [(write, Outcome::Ok, 1)]);
    let dropped = (Operation::DropRows, Outcome::Ok, 1);
    assert_eq!(counted(high), [(read, Outcome::Ok, 1), (write, Outcome::Ok, 1), dropped]);
    let several = (Operation::MutateRows, Outcome::Ok, 1);
    assert_eq!(
        counted(tablets.other()),
        [(read, Outcome::Ok, 2), (write, Outcome::Ok, 1), several],
        "a write before the tablet was chosen, and requests over both"
    );
    let volumes = [low.volume(), high.volume(), tablets.other().volume()];
    assert_eq!(volumes.map(|volume| volume.rows_written), [2, 2, 1]);
    assert_eq!(volumes.map(|volume| volume.rows_read), [3, 5, 0]);
    let sum = |of: fn(&Volume) -> u64| volumes.iter().map(of).sum::<u64>();
    let of_table = t.local.named_tables()[0].counters.volume();
    assert_eq!(sum(|volume| volume.written_bytes), of_table.written_bytes);
    assert_eq!(sum(|volume| volume.read_bytes), of_table.read_bytes);
}

#[tokio::test]
async fn a_table_of_one_tablet_counts_there_only_if_it_has_no_counters_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    t.mutate("a", vec![set("f", "q", 1, "value")]).await.unwrap();
    t.local.meter().tablets().choose(trees(&t).await);
    t.mutate("a", vec![set("f", "q", 1, "value")]).await.unwrap();
    let of_tablet = |t: &Harness| counted(&t.local.meter().tablets().named()[0].1);
    assert_eq!(of_tablet(&t), []);
    assert_eq!(counted(t.local.meter().tablets().other()), []);

    t.local = t.local.with_named_tables_max(1);
    t.name = TableName::new("projects/p/instances/i/tables/unnamed").unwrap();
    t.create(&["f"], &[]).await;
    t.local.meter().tablets().choose(trees(&t).await);
    t.mutate("a", vec![set("f", "q", 1, "value")]).await.unwrap();
    assert_eq!(of_tablet(&t), [(Operation::MutateRow, Outcome::Ok, 1)]);
    assert_eq!(counted(t.local.meter().other()).len(), 1);
}

/// Returns the rows and bytes that were written to the table.
fn written(t: &Harness) -> (u64, u64) {
    let volume = t.local.named_tables()[0].counters.volume();
    (volume.rows_written, volume.written_bytes)
}

#[tokio::test]
async fn only_rows_that_are_written_count_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    let sum =
        FamilySpec { value_type: ValueType::Aggregate(Aggregate::SumInt64), ..Default::default() };
    t.create_with(vec![("f".into(), FamilySpec::default()), ("sum".into(), sum)], &[]).await;
    t.mutate("a", vec![set("f", "q", 1, "value")]).await.unwrap();
    let (rows, bytes) = written(&t);
    let check = CheckAndMutate {
        row: "a".into(),
        predicate: None,
        on_true: Vec::new(),
        on_false: vec![set("f", "q", 2, "other")],
    };
    assert!(t.local.check_and_mutate_row(&t.name, check).await.unwrap());
    assert_eq!(written(&t), (rows, bytes), "nothing was to be done for the row");

    let add = |token: &'static str| {
        let add = RowMutation::AddToCell {
            family: "sum".into(),
            qualifier: "q".into(),
            timestamp: WriteTime::At(Timestamp(0)),
            input: 1.into(),
        };
        let change = RowMutations { row: "a".into(), mutations: vec![add] };
        OnceRow { change, once: Some(Once { token: token.into(), start_micros: None }) }
    };
    let twice = vec![add("token--1"), add("token--1")];
    t.local.mutate_rows_once(&t.name, twice).await.unwrap();
    let once = written(&t);
    assert_eq!(once.0, rows + 1, "a change that comes twice is written once");
    let again = vec![add("token--1"), add("token--2")];
    t.local.mutate_rows_once(&t.name, again).await.unwrap();
    let more = written(&t);
    assert_eq!((more.0 - once.0, more.1 - once.1), (1, once.1 - bytes), "one came again");

    t.mutate("b", vec![set("f", "q", 1, "ab")]).await.unwrap();
    let set = written(&t);
    t.modify("b", table::mutate::Modify::Append("c".into())).await.unwrap();
    let appended = written(&t);
    let of_set = set.1 - more.1;
    assert_eq!(appended.1 - set.1, of_set + 1, "the bytes of the cell that it writes");
}

#[tokio::test]
async fn a_table_that_is_made_again_has_its_own_counters_though_the_old_one_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.local.keep_deleted_for(std::time::Duration::ZERO);
    t.create(&["f"], &[]).await;
    t.mutate("a", vec![set("f", "q", 1, "value")]).await.unwrap();
    let mut read =
        t.local.read_rows(&t.name, ReadRows::default(), Pieces::default()).await.unwrap();
    t.local.delete_table(&t.name).await.unwrap();
    t.create(&["f"], &[]).await;
    assert!(t.local.named_tables().is_empty(), "the new table had no request yet");
    t.mutate("b", vec![set("f", "q", 1, "value")]).await.unwrap();
    let named = t.local.named_tables();
    assert_eq!(counted(&named[0].counters), [(Operation::MutateRow, Outcome::Ok, 1)]);
    while let Some(batch) = read.next_batch().await {
        batch.unwrap();
    }
    drop(read);
    assert_eq!(counted(&t.local.named_tables()[0].counters).len(), 1);
}

#[tokio::test]
async fn a_read_ends_as_its_caller_says() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    t.mutate("a", vec![set("f", "q", 1, "value")]).await.unwrap();
    let read = || t.local.read_rows(&t.name, ReadRows::default(), Pieces::default());
    let mut enough = read().await.unwrap();
    enough.next_batch().await.unwrap().unwrap();
    enough.end(Outcome::Ok);
    assert!(enough.next_batch().await.is_none(), "nothing comes after its end");
    let mut no_room = read().await.unwrap();
    while no_room.next_batch().await.is_some() {}
    no_room.end(Outcome::Busy);
    drop((enough, no_room));
    let counted = counted(&t.local.named_tables()[0].counters);
    let reads: Vec<_> = counted.iter().filter(|one| one.0 == Operation::ReadRows).collect();
    let want = [Outcome::Ok, Outcome::Busy].map(|outcome| (Operation::ReadRows, outcome, 1));
    assert_eq!(reads, want.iter().collect::<Vec<_>>());
}
