//! What the `Store` contract promises.

use super::harness::{Harness, set, show};
use engine::RowRange;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;
use table::filter::Condition;
use table::mutate::{Modify, WriteTime};
use table::*;

fn harness() -> (Harness, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Harness::open(dir.path()), dir)
}

fn text<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

fn protection(on: bool) -> TableUpdate {
    TableUpdate { deletion_protection: Some(on), ..TableUpdate::default() }
}

#[tokio::test]
async fn tables_are_created_listed_and_deleted() {
    let (h, _dir) = harness();
    h.create(&["f", "g"], &["m", "c", "m", ""]).await;
    let table = h.local.get_table(&h.name).await.unwrap();
    let starts: Vec<_> = table.tablets.iter().map(|tablet| tablet.start.clone()).collect();
    assert_eq!(starts, ["", "c", "m"]);
    assert_eq!(table.family("g").unwrap().id, FamilyId(2));

    let again = CreateTable {
        name: h.name.clone(),
        families: vec![],
        splits: vec![],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    let again = h.local.create_table(again).await;
    assert!(matches!(again, Err(Error::AlreadyExists { what: "table", .. })), "{again:?}");
    assert_eq!(h.local.list_tables("projects/p/").await.unwrap().len(), 1);
    assert_eq!(h.local.list_tables("projects/q/").await.unwrap().len(), 0);

    h.local.update_table(&h.name, protection(true)).await.unwrap();
    let protected = h.local.delete_table(&h.name).await;
    assert!(matches!(protected, Err(Error::FailedPrecondition(_))), "{protected:?}");
    h.local.update_table(&h.name, protection(false)).await.unwrap();
    h.local.delete_table(&h.name).await.unwrap();
    let error = text(h.local.get_table(&h.name).await);
    assert_eq!(error, "table not found: projects/p/instances/i/tables/t");
    let error = text(h.mutate("r", vec![set("f", "q", 1, "v")]).await);
    assert!(error.contains("table not found"), "{error}");
}

#[tokio::test]
async fn family_changes_take_effect_together_and_ids_are_never_reused() {
    let (h, _dir) = harness();
    h.create(&["f", "g"], &[]).await;
    h.mutate("r", vec![set("f", "q", 1, "old"), set("g", "q", 1, "kept")]).await.unwrap();
    let create =
        |name: &str| FamilyChange::Create { name: name.into(), spec: FamilySpec::default() };
    let drop = |name: &str| FamilyChange::Drop { name: name.into() };

    let changes = vec![drop("f"), create("g")];
    let error = h.local.modify_families(&h.name, changes).await;
    assert!(matches!(error, Err(Error::AlreadyExists { .. })), "{error:?}");
    assert!(h.dump().await.contains("old"), "nothing of a refused list is applied");

    let table = h.local.modify_families(&h.name, vec![drop("f"), create("f")]).await.unwrap();
    assert_eq!(table.family("f").unwrap().id, FamilyId(3));
    assert_eq!(h.dump().await, "r g:q@1=kept\n");
    h.mutate("r", vec![set("f", "q", 1, "new")]).await.unwrap();
    assert_eq!(h.dump().await, "r g:q@1=kept\nr f:q@1=new\n");

    let error = text(h.local.modify_families(&h.name, vec![drop("x")]).await);
    assert_eq!(error, "column family not found: x");
    let update = FamilyChange::Update {
        name: "g".into(),
        gc: None,
        value_type: Some(ValueType::Aggregate(Aggregate::SumInt64)),
    };
    let error = text(h.local.modify_families(&h.name, vec![update]).await);
    assert!(error.contains("modifications[0].value_type"), "{error}");
}

#[tokio::test]
async fn mutations_of_a_row_take_effect_in_their_order() {
    let (h, _dir) = harness();
    h.create(&["f", "g"], &["m"]).await;
    h.mutate("r", vec![set("f", "a", 1, "1"), set("f", "a", 2, "2"), set("g", "", 1, "")])
        .await
        .unwrap();
    h.mutate("b", vec![set("f", "a", 1, "b")]).await.unwrap();
    assert_eq!(h.dump().await, "b f:a@1=b\nr f:a@2=2\nr f:a@1=1\nr g:@1=\n");

    let range = TimestampRange { start: Timestamp(1000), end: Some(Timestamp(2000)) };
    let delete = RowMutation::DeleteFromColumn { family: "f".into(), qualifier: "a".into(), range };
    h.mutate("r", vec![delete]).await.unwrap();
    assert_eq!(h.dump().await, "b f:a@1=b\nr f:a@2=2\nr g:@1=\n");

    let delete = RowMutation::DeleteFromFamily { family: "f".into() };
    h.mutate("r", vec![set("f", "x", 1, "gone"), delete, set("f", "y", 1, "stays")]).await.unwrap();
    assert_eq!(h.dump().await, "b f:a@1=b\nr f:y@1=stays\nr g:@1=\n");

    h.mutate("r", vec![RowMutation::DeleteFromRow]).await.unwrap();
    assert_eq!(h.dump().await, "b f:a@1=b\n");

    h.clock.set(5_678_901);
    let server = RowMutation::SetCell {
        family: "f".into(),
        qualifier: "t".into(),
        timestamp: WriteTime::from_micros(-1),
        value: "now".into(),
    };
    h.mutate("z", vec![server]).await.unwrap();
    assert_eq!(h.dump().await, "b f:a@1=b\nz f:t@5678=now\n");
}

#[tokio::test]
async fn bad_mutations_are_refused_naming_field_and_limit() {
    let (h, _dir) = harness();
    h.create(&["f"], &[]).await;
    let big = |len: usize| "x".repeat(len);
    let at = |micros: i64| RowMutation::SetCell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp: WriteTime::from_micros(micros),
        value: "v".into(),
    };
    let delete = |start: i64, end: i64| RowMutation::DeleteFromColumn {
        family: "f".into(),
        qualifier: "q".into(),
        range: TimestampRange { start: Timestamp(start), end: Some(Timestamp(end)) },
    };
    let add = RowMutation::AddToCell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp: WriteTime::Server,
        input: 1.into(),
    };
    let ok = || set("f", "q", 1, "v");
    let large = || vec![set("f", "q", 1, &big(90 << 20)), set("f", "r", 1, &big(90 << 20))];
    let row_too_large = [large(), large()].concat();
    for (row, mutations, want) in [
        ("", vec![ok()], vec!["row_key", "non-empty"]),
        (&*big(4097), vec![ok()], vec!["row_key", "4097 bytes", "4096 bytes"]),
        ("r", vec![], vec!["mutations", "at least one"]),
        ("r", vec![ok(); 100_001], vec!["mutations", "100001", "100000"]),
        ("r", vec![ok(), set("no", "q", 1, "v")], vec!["column family not found: no"]),
        (
            "r",
            vec![ok(), set("f", &big((16 << 10) + 1), 1, "v")],
            vec!["mutations[1].set_cell.column_qualifier", "16384 bytes"],
        ),
        (
            "r",
            vec![set("f", "q", 1, &big((100 << 20) + 1))],
            vec!["mutations[0].set_cell.value", "104857600 bytes"],
        ),
        ("r", row_too_large, vec!["mutations", "268435456 bytes"]),
        ("r", vec![at(1)], vec!["mutations[0].set_cell.timestamp_micros", "multiple of 1000"]),
        ("r", vec![at(-2)], vec!["timestamp_micros", "-1 (server time) or at least 0"]),
        ("r", vec![delete(2000, 1000)], vec!["time_range", "inverted range"]),
        ("r", vec![delete(1000, 1001)], vec!["time_range", "multiple of 1000"]),
        ("r", vec![add], vec!["mutations[0].add_to_cell", "needs an aggregate family"]),
    ] {
        let error = text(h.mutate(row, mutations).await);
        for want in want {
            assert!(error.contains(want), "{error:.200} should say {want}");
        }
    }
    assert_eq!(h.dump().await, "", "a refused row leaves nothing");
}

#[tokio::test]
async fn a_bad_entry_of_a_batch_leaves_the_others_alone() {
    let (h, _dir) = harness();
    h.create(&["f"], &["m"]).await;
    let entry = |row: &str, mutation: RowMutation| RowMutations {
        row: Bytes::copy_from_slice(row.as_bytes()),
        mutations: vec![mutation],
    };
    let entries = vec![
        entry("z", set("f", "q", 1, "1")),
        entry("a", set("no", "q", 1, "2")),
        entry("b", set("f", "q", 1, "3")),
        entry("", set("f", "q", 1, "4")),
        entry("b", set("f", "q", 1, "5")),
    ];
    let results = h.local.mutate_rows(&h.name, entries).await.unwrap();
    let ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [true, false, true, false, true]);
    assert_eq!(results[1], Err(Error::NotFound { what: "column family", name: "no".into() }));
    assert_eq!(h.dump().await, "b f:q@1=5\nz f:q@1=1\n");

    let many = vec![entry("r", set("f", "q", 1, "v")); 100_001];
    let error = text(h.local.mutate_rows(&h.name, many).await);
    assert!(error.contains("100001") && error.contains("100000"), "{error}");
    assert_eq!(h.local.mutate_rows(&h.name, vec![]).await, Ok(vec![]));
}

#[tokio::test]
async fn aggregate_families_fold_what_is_added() {
    let (h, _dir) = harness();
    let family = |name: &str, aggregate| {
        let value_type = ValueType::Aggregate(aggregate);
        (name.to_owned(), FamilySpec { value_type, ..FamilySpec::default() })
    };
    let families = vec![
        family("sum", Aggregate::SumInt64),
        family("min", Aggregate::MinInt64),
        family("max", Aggregate::MaxInt64),
    ];
    h.create_with(families, &[]).await;
    let time = WriteTime::At(Timestamp(1000));
    for input in [5, -3, 4] {
        let add = |family: &str| RowMutation::AddToCell {
            family: family.into(),
            qualifier: "q".into(),
            timestamp: time,
            input: input.into(),
        };
        h.mutate("r", vec![add("sum"), add("min"), add("max")]).await.unwrap();
    }
    let merge = |state: &[u8]| RowMutation::MergeToCell {
        family: "sum".into(),
        qualifier: "q".into(),
        timestamp: time,
        state: Bytes::copy_from_slice(state),
    };
    h.mutate("r", vec![merge(&10i64.to_be_bytes())]).await.unwrap();
    let rows = h.read(ReadRows::default()).await.unwrap();
    let values: Vec<_> = rows[0].cells.iter().map(|cell| cell.value.to_vec()).collect();
    assert_eq!(values, [16i64, -3, 5].map(|value| value.to_be_bytes().to_vec()));

    let error = text(h.mutate("r", vec![merge(b"short")]).await);
    assert!(error.contains("merge_to_cell.input") && error.contains("has 8"), "{error}");
    let error = text(h.mutate("r", vec![set("sum", "q", 1, "v")]).await);
    assert!(error.contains("SetCell cannot write aggregate family 'sum'"), "{error}");
    let rule = ReadModifyWriteRule {
        family: "sum".into(),
        qualifier: "q".into(),
        modify: Modify::Increment(1),
    };
    let error = text(h.local.read_modify_write_row(&h.name, "r".into(), vec![rule]).await);
    assert!(error.contains("rules[0].family_name"), "{error}");
}

#[tokio::test]
async fn read_modify_write_makes_new_cells_from_the_newest() {
    let (h, _dir) = harness();
    h.create(&["f"], &[]).await;
    let row = h.increment("r", 5).await.unwrap();
    assert_eq!(show(&[row]), "r f:q@1000=\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05\n");
    h.clock.set(2_000_500);
    let row = h.increment("r", i64::MAX).await.unwrap();
    assert_eq!(&row.cells[0].value[..], &5i64.wrapping_add(i64::MAX).to_be_bytes());
    assert_eq!(row.cells[0].timestamp, Timestamp(2_000_000));
    assert_eq!(h.read(ReadRows::default()).await.unwrap()[0].cells.len(), 2);

    // A cell from the future is not written behind.
    h.mutate("s", vec![set("f", "q", 9_000, "ab")]).await.unwrap();
    let row = h.modify("s", Modify::Append("cd".into())).await.unwrap();
    assert_eq!(show(&[row]), "s f:q@9000=abcd\n");

    let error = h.increment("s", 1).await.unwrap_err();
    let Error::FailedPrecondition(message) = error else { panic!("{error}") };
    assert!(message.contains("4 bytes") && message.contains("64-bit"), "{message}");
    assert_eq!(show(&h.read(only("s")).await.unwrap()), "s f:q@9000=abcd\n");

    // An empty value is no number, an absent cell is zero.
    h.mutate("e", vec![set("f", "q", 1, "")]).await.unwrap();
    assert!(h.increment("e", 1).await.is_err());

    let rule = |qualifier: &'static str, modify| ReadModifyWriteRule {
        family: "f".into(),
        qualifier: qualifier.into(),
        modify,
    };
    let rules = vec![
        rule("y", Modify::Append("1".into())),
        rule("x", Modify::Append("2".into())),
        rule("y", Modify::Append("3".into())),
    ];
    let row = h.local.read_modify_write_row(&h.name, "n".into(), rules).await.unwrap();
    assert_eq!(show(&[row]), "n f:x@2000=2\nn f:y@2000=13\n");
    let none = h.local.read_modify_write_row(&h.name, "n".into(), vec![]).await;
    assert!(text(none).contains("rules"));
}

fn only(row: &'static str) -> ReadRows {
    ReadRows { rows: RowSet::key(row), ..ReadRows::default() }
}

#[tokio::test]
async fn check_and_mutate_takes_the_branch_its_predicate_says() {
    let (h, _dir) = harness();
    h.create(&["f"], &[]).await;
    let check = |predicate: Option<RowFilter>| CheckAndMutate {
        row: "r".into(),
        predicate,
        on_true: vec![set("f", "true", 1, "")],
        on_false: vec![set("f", "false", 1, "")],
    };
    assert!(!h.local.check_and_mutate_row(&h.name, check(None)).await.unwrap());
    assert!(h.local.check_and_mutate_row(&h.name, check(None)).await.unwrap());
    assert_eq!(h.dump().await, "r f:false@1=\nr f:true@1=\n");

    let value = RowFilter::ValueRegex("no".into());
    assert!(!h.local.check_and_mutate_row(&h.name, check(Some(value.clone()))).await.unwrap());
    let nested = RowFilter::Condition(Box::new(Condition {
        predicate: value,
        on_true: None,
        on_false: Some(RowFilter::ColumnQualifierRegex("true".into())),
    }));
    assert!(h.local.check_and_mutate_row(&h.name, check(Some(nested))).await.unwrap());

    let mut empty = check(None);
    empty.on_true.clear();
    empty.on_false.clear();
    let error = text(h.local.check_and_mutate_row(&h.name, empty).await);
    assert!(error.contains("true_mutations or false_mutations"), "{error}");
    let mut bad = check(None);
    bad.on_false = vec![set("f", "q", 1, "v"), set("no", "q", 1, "v")];
    let error = text(h.local.check_and_mutate_row(&h.name, bad).await);
    assert_eq!(error, "column family not found: no", "the branch not taken is checked as well");
    let error = text(
        h.local.check_and_mutate_row(&h.name, check(Some(RowFilter::ValueRegex("(".into())))).await,
    );
    assert!(error.contains("predicate.filter.value_regex_filter"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_increments_and_writes_lose_nothing() {
    let (h, _dir) = harness();
    h.create(&["f"], &[]).await;
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let (local, name) = (h.local.clone(), h.name.clone());
            tokio::spawn(async move {
                for _ in 0..25 {
                    let rule = ReadModifyWriteRule {
                        family: "f".into(),
                        qualifier: "q".into(),
                        modify: Modify::Increment(1),
                    };
                    let row = "hot".into();
                    local.read_modify_write_row(&name, row, vec![rule]).await.unwrap();
                    let mutations = vec![set("f", &format!("t{task}"), 1, "")];
                    let entry = RowMutations { row: "hot".into(), mutations };
                    local.mutate_row(&name, entry).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let rows = h.read(only("hot")).await.unwrap();
    assert_eq!(&rows[0].cells[0].value[..], &400i64.to_be_bytes());
    assert_eq!(rows[0].cells.len(), 17);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_concurrent_checks_wins() {
    let (h, _dir) = harness();
    h.create(&["f"], &[]).await;
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let (local, name) = (h.local.clone(), h.name.clone());
            tokio::spawn(async move {
                let request = CheckAndMutate {
                    row: "lock".into(),
                    predicate: None,
                    on_true: vec![],
                    on_false: vec![set("f", "owner", 1, &task.to_string())],
                };
                local.check_and_mutate_row(&name, request).await.unwrap()
            })
        })
        .collect();
    let mut winners = 0;
    for task in tasks {
        winners += usize::from(!task.await.unwrap());
    }
    assert_eq!(winners, 1);
}

#[tokio::test]
async fn rows_are_dropped_by_prefix_or_all_over_tablets() {
    let (h, _dir) = harness();
    h.create(&["f"], &["ab", "b"]).await;
    for row in ["a", "aa", "ab", "abc", "b", "ba"] {
        h.mutate(row, vec![set("f", "q", 9_000, row)]).await.unwrap();
    }
    h.local.drop_rows(&h.name, DropRows::Prefix("ab".into())).await.unwrap();
    let rows: Vec<_> = h.read(ReadRows::default()).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| &row.key[..]).collect::<Vec<_>>(),
        [&b"a"[..], b"aa", b"b", b"ba"]
    );
    h.mutate("ab", vec![set("f", "q", 1, "later")]).await.unwrap();
    assert_eq!(show(&h.read(only("ab")).await.unwrap()), "ab f:q@1=later\n");
    h.local.drop_rows(&h.name, DropRows::All).await.unwrap();
    assert_eq!(h.dump().await, "");
    let error = text(h.local.drop_rows(&h.name, DropRows::Prefix("".into())).await);
    assert!(error.contains("row_key_prefix"), "{error}");
}

#[tokio::test]
async fn reads_cross_tablets_both_ways_with_a_limit() {
    let (h, _dir) = harness();
    h.create(&["f"], &["r2", "r4"]).await;
    for at in 0..6 {
        h.mutate(&format!("r{at}"), vec![set("f", "q", 1, &at.to_string())]).await.unwrap();
    }
    let range = KeyRange { start: Bound::Excluded("r0".into()), end: Bound::Included("r4".into()) };
    let rows = RowSet { keys: vec!["r5".into(), "r3".into()], ranges: vec![range] };
    let read = async |direction, rows_limit| {
        let request = ReadRows { rows: rows.clone(), direction, rows_limit, filter: None };
        let rows = h.read(request).await.unwrap();
        rows.iter().map(|row| row.cells[0].value[0] as char).collect::<String>()
    };
    assert_eq!(read(Direction::Forward, 0).await, "12345");
    assert_eq!(read(Direction::Reverse, 0).await, "54321");
    assert_eq!(read(Direction::Reverse, 2).await, "54");
}

#[tokio::test]
async fn large_rows_come_in_batches_and_a_dropped_stream_ends_the_read() {
    let (h, _dir) = harness();
    h.create(&["f"], &[]).await;
    let value = "v".repeat(100_000);
    for at in 0..40 {
        h.mutate("big", vec![set("f", &format!("q{at:02}"), 1, &value)]).await.unwrap();
    }
    let mut stream =
        h.local.read_rows(&h.name, ReadRows::default(), Pieces::default()).await.unwrap();
    let mut batches = 0;
    let mut cells = 0;
    while let Some(batch) = stream.next_batch().await {
        let batch = batch.unwrap();
        batches += 1;
        cells += batch.rows.iter().filter(|piece| matches!(piece, RowPiece::Cell(_))).count();
        assert!(batch.rows.len() < 8, "a batch holds about 256 KiB");
    }
    assert_eq!(cells, 40);
    assert!(batches > 10);
    let stream = h.local.read_rows(&h.name, ReadRows::default(), Pieces::default()).await.unwrap();
    drop(stream);
}

#[tokio::test]
async fn a_read_sees_one_state_of_the_table() {
    let (h, _dir) = harness();
    h.create(&["f"], &["b"]).await;
    let value = "v".repeat(200_000);
    for row in ["a1", "a2", "a3", "a4", "a5", "a6", "b1"] {
        h.mutate(row, vec![set("f", "q", 1, &value)]).await.unwrap();
    }
    let stream = h.local.read_rows(&h.name, ReadRows::default(), Pieces::default()).await.unwrap();
    h.mutate("a6", vec![RowMutation::DeleteFromRow]).await.unwrap();
    h.mutate("b2", vec![set("f", "q", 1, "new")]).await.unwrap();
    let rows = stream.collect_rows().await.unwrap();
    let keys: Vec<_> = rows.iter().map(|row| row.key.clone()).collect();
    assert_eq!(keys, ["a1", "a2", "a3", "a4", "a5", "a6", "b1"]);
}

#[tokio::test]
async fn samples_rise_to_the_end_of_the_table() {
    let (h, _dir) = harness();
    h.create(&["f"], &["c", "m"]).await;
    for at in 0..100 {
        let row = format!("{}{at}", (b'a' + at % 26) as char);
        h.mutate(&row, vec![set("f", "q", 1, &"v".repeat(1000))]).await.unwrap();
    }
    let samples = h.local.sample_row_keys(&h.name).await.unwrap();
    let (last, others) = samples.split_last().unwrap();
    assert!(last.key.is_empty());
    assert!(others.is_sorted_by(|a, b| a.key < b.key && a.offset_bytes <= b.offset_bytes));
    let keys: BTreeSet<_> = others.iter().map(|sample| sample.key.clone()).collect();
    assert!(keys.contains(&Bytes::from("c")) && keys.contains(&Bytes::from("m")));
    assert!(others.iter().all(|sample| sample.offset_bytes <= last.offset_bytes));
}

#[tokio::test]
async fn rows_in_memory_are_sampled_up_to_the_last() {
    let (h, _dir) = harness();
    h.create(&["f"], &[]).await;
    assert_eq!(h.local.sample_row_keys(&h.name).await.unwrap().len(), 1, "of no row");
    for at in 0..400 {
        h.mutate(&format!("{at:04}"), vec![set("f", "q", 1, &"v".repeat(10_000))]).await.unwrap();
    }
    let samples = h.local.sample_row_keys(&h.name).await.unwrap();
    let keys: Vec<_> = samples.iter().map(|sample| sample.key.clone()).collect();
    assert_eq!(keys.len(), 5, "4 MB in parts of 1 MiB, the last row and the end: {keys:?}");
    assert_eq!(keys[3..], [Bytes::from("0399"), Bytes::new()]);
    let offsets: Vec<_> = samples.iter().map(|sample| sample.offset_bytes).collect();
    assert!(offsets.is_sorted() && offsets[0] >= 1 << 20, "{offsets:?}");
}

#[tokio::test]
async fn gc_hides_at_once_and_compaction_changes_nothing_that_is_seen() {
    let (h, _dir) = harness();
    let rules = [
        ("versions", GcRule::MaxVersions(2)),
        ("age", GcRule::MaxAge(Duration::from_millis(500))),
        (
            "either",
            GcRule::Union(vec![GcRule::MaxVersions(3), GcRule::MaxAge(Duration::from_millis(300))]),
        ),
        (
            "both",
            GcRule::Intersection(vec![
                GcRule::MaxVersions(1),
                GcRule::MaxAge(Duration::from_millis(300)),
            ]),
        ),
    ];
    let families = rules.iter().map(|(name, gc)| {
        (name.to_string(), FamilySpec { gc: gc.clone(), ..FamilySpec::default() })
    });
    h.create_with(families.collect(), &[]).await;
    for (family, _) in &rules {
        let cells = (1..=10).map(|at| set(family, "q", at * 100, &at.to_string()));
        h.mutate("r", cells.collect()).await.unwrap();
        if *family == "age" {
            h.engine
                .tree(h.local.get_table(&h.name).await.unwrap().tablets[0].tree)
                .unwrap()
                .flush()
                .unwrap();
        }
    }
    let seen = async || {
        let rows = h.read(ReadRows::default()).await.unwrap();
        let of = |family: &str| {
            let cells = rows.iter().flat_map(|row| &row.cells).filter(|c| &*c.family == family);
            let values = cells.map(|cell| String::from_utf8(cell.value.to_vec()).unwrap());
            values.collect::<Vec<_>>().join(" ")
        };
        rules.iter().map(|(family, _)| of(family)).collect::<Vec<_>>()
    };
    // Now is 1000 ms.
    let want = ["10 9", "10 9 8 7 6 5", "10 9 8", "10 9 8 7"];
    assert_eq!(seen().await, want);
    let tree = h.local.get_table(&h.name).await.unwrap().tablets[0].tree;
    h.engine.tree(tree).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(seen().await, want);
    h.clock.set(1_250_000);
    let later = ["10 9", "10 9 8", "10", "10"];
    assert_eq!(seen().await, later);
    h.engine.tree(tree).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(seen().await, later);

    // A relaxed rule shows no more than what is left, a tightened one hides at once.
    let update =
        |name: &str, gc| FamilyChange::Update { name: name.into(), gc: Some(gc), value_type: None };
    let changes =
        vec![update("versions", GcRule::MaxVersions(1)), FamilyChange::Drop { name: "age".into() }];
    h.local.modify_families(&h.name, changes).await.unwrap();
    assert_eq!(seen().await, ["10", "", "10", "10"]);
    h.engine.tree(tree).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(seen().await, ["10", "", "10", "10"]);
}

#[tokio::test]
async fn bad_reads_are_refused_naming_the_field() {
    let (h, _dir) = harness();
    h.create(&["f"], &[]).await;
    let range = KeyRange { start: Bound::Included("b".into()), end: Bound::Excluded("a".into()) };
    let inverted = RowSet { keys: vec![], ranges: vec![range] };
    for (rows, want) in [(RowSet::key(""), "rows.row_keys[0]"), (inverted, "rows.row_ranges[0]")] {
        let error = text(h.read(ReadRows { rows, ..ReadRows::default() }).await);
        assert!(error.contains(want), "{error}");
    }
    let elsewhere = TableName::new("projects/p/instances/i/tables/other").unwrap();
    let error = text(h.local.read_rows(&elsewhere, ReadRows::default(), Pieces::default()).await);
    assert_eq!(error, "table not found: projects/p/instances/i/tables/other");
    for bad in ["", "a/", "a/-t", "a/t:x", &format!("a/{}", "t".repeat(51))] {
        assert!(TableName::new(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn row_samples_take_about_their_share_of_rows() {
    let (h, _dir) = harness();
    h.create(&["f"], &[]).await;
    let entry = |at: usize| RowMutations {
        row: format!("row-{at}").into(),
        mutations: vec![set("f", "q", 1, ""), set("f", "r", 1, "")],
    };
    h.local.mutate_rows(&h.name, (0..2000).map(entry).collect()).await.unwrap();
    let sample = async |share| {
        let filter = Some(RowFilter::RowSample(share));
        h.read(ReadRows { filter, ..ReadRows::default() }).await.unwrap()
    };
    let rows = sample(0.3).await;
    assert!((450..750).contains(&rows.len()), "{}", rows.len());
    assert!(rows.iter().all(|row| row.cells.len() == 2), "rows come whole or not at all");
    assert_ne!(rows, sample(0.3).await, "each request draws anew");
}

#[tokio::test]
async fn a_store_opened_again_knows_its_tables_and_drops_orphan_trees() {
    if super::OVER_GROUPS {
        return; // Nothing feeds the engine again.
    }
    let (h, _dir) = harness();
    let gc = GcRule::Union(vec![GcRule::MaxVersions(2), GcRule::MaxAge(Duration::from_secs(60))]);
    let spec = FamilySpec { gc, ..FamilySpec::default() };
    h.create_with(vec![("f".into(), spec)], &["m"]).await;
    let other = TableName::new("projects/p/instances/i/tables/other").unwrap();
    let table = CreateTable {
        name: other.clone(),
        families: vec![],
        splits: vec![],
        deletion_protection: true,
        granularity: Default::default(),
        row_key_schema: None,
    };
    h.local.create_table(table).await.unwrap();
    h.mutate("r", vec![set("f", "q", 900, "v")]).await.unwrap();
    let orphan = TreeId(99);
    h.engine.create_tree(orphan, engine::TreeOptions::default()).unwrap();
    let before = h.local.list_tables("").await.unwrap();

    let local = Local::open(h.engine.clone(), h.clock.clone()).unwrap();
    assert_eq!(local.list_tables("").await.unwrap(), before);
    assert!(h.engine.trees().contains(&orphan), "nobody intended to drop it");
    let stream = local.read_rows(&h.name, ReadRows::default(), Pieces::default()).await.unwrap();
    assert_eq!(show(&stream.collect_rows().await.unwrap()), "r f:q@900=v\n");

    local.delete_table(&h.name).await.unwrap();
    local.update_table(&other, protection(false)).await.unwrap();
    let trees: BTreeSet<_> = before.iter().flat_map(|t| &t.tablets).map(|t| t.tree).collect();
    let local = Local::open(h.engine.clone(), h.clock.clone()).unwrap();
    assert_eq!(local.list_tables("").await.unwrap().len(), 1);
    let again = CreateTable {
        name: h.name.clone(),
        families: vec![],
        splits: vec![],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    let again = local.create_table(again).await.unwrap();
    assert!(!trees.contains(&again.tablets[0].tree), "tree ids are not reused");

    h.engine.drop_tree(again.tablets[0].tree).unwrap();
    let Err(Error::DataLoss(message)) = Local::open(h.engine.clone(), h.clock.clone()) else {
        panic!("a table without its tree must not open");
    };
    assert!(message.contains(h.name.as_str()), "{message}");
}

#[tokio::test]
async fn tables_and_rows_are_there_after_closing() {
    if super::OVER_GROUPS {
        return; // Nothing feeds the engine again.
    }
    let (h, dir) = harness();
    h.create(&["f", "g"], &["m"]).await;
    h.mutate("a", vec![set("f", "q", 1, "1"), set("g", "q", 1, "2")]).await.unwrap();
    h.increment("z", 7).await.unwrap();
    let before = (h.dump().await, h.local.get_table(&h.name).await.unwrap());
    drop(h);
    let h = Harness::open(dir.path());
    assert_eq!((h.dump().await, h.local.get_table(&h.name).await.unwrap()), before);
}
