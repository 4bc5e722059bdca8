//! Change streams: what is told of each kind of write, once and in order, and what is refused.

use crate::harness::{Harness, set};
use futures::StreamExt;
use std::time::Duration;
use table::mutate::{Modify, WriteTime};
use table::*;

const DAY: Duration = Duration::from_secs(24 * 3600);
const SECOND: i64 = 1_000_000;
const BEAT: Duration = Duration::from_secs(5);

fn from(from: ChangesFrom) -> ReadChanges {
    ReadChanges { rows: RowRange::ALL, from, until_micros: None, heartbeat: BEAT }
}

fn after(rows: RowRange, token: &str) -> ReadChanges {
    let from = ChangesFrom::Tokens(vec![(rows.clone(), token.to_owned())]);
    ReadChanges { rows, from, until_micros: None, heartbeat: BEAT }
}

fn rows(start: &str, end: &str) -> RowRange {
    let end = (!end.is_empty()).then(|| end.as_bytes().to_vec());
    RowRange { start: start.as_bytes().to_vec(), end }
}

async fn open(t: &Harness, request: ReadChanges) -> ChangeStream {
    t.local.read_changes(&t.name, request).await.unwrap()
}

/// The next `count` changes of rows; heartbeats are passed over.
async fn take(stream: &mut ChangeStream, count: usize) -> Vec<RowChange> {
    let mut changes = Vec::new();
    while changes.len() < count {
        let records = stream.next().await.expect("the stream goes on").unwrap();
        changes.extend(records.into_iter().filter_map(|record| match record {
            ChangeRecord::Row(change) => Some(change),
            ChangeRecord::Heartbeat { .. } => None,
        }));
    }
    assert_eq!(changes.len(), count, "nothing more was committed");
    changes
}

fn names(changes: &[RowChange]) -> Vec<String> {
    changes.iter().map(|change| String::from_utf8_lossy(&change.row).into_owned()).collect()
}

/// Why a stream cannot be opened.
async fn refused(t: &Harness, request: ReadChanges) -> Error {
    match t.local.read_changes(&t.name, request).await {
        Ok(_) => panic!("it opens"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn each_kind_of_write_is_told_as_it_took_effect() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    let sum = FamilySpec {
        value_type: ValueType::Aggregate(Aggregate::SumInt64),
        ..FamilySpec::default()
    };
    let raw = FamilySpec::default();
    let families = [("f", raw.clone()), ("g", raw), ("sum", sum)];
    let families = families.map(|(name, spec)| (name.to_owned(), spec)).into();
    t.create_with(families, &["m"]).await;
    t.mutate("before", vec![set("f", "q", 1, "not told")]).await.unwrap();
    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    let mut stream = open(&t, from(ChangesFrom::Now)).await;

    let server = |family: &str| RowMutation::SetCell {
        family: family.into(),
        qualifier: "q".into(),
        timestamp: WriteTime::Server,
        value: "v".into(),
    };
    let add = RowMutation::AddToCell {
        family: "sum".into(),
        qualifier: "q".into(),
        timestamp: WriteTime::At(Timestamp(5_000)),
        input: AddInput::Int64(-7),
    };
    let range = TimestampRange { start: Timestamp(1_000), end: Some(Timestamp(9_000)) };
    let column =
        |range| RowMutation::DeleteFromColumn { family: "f".into(), qualifier: "q".into(), range };
    let family = |name: &str| RowMutation::DeleteFromFamily { family: name.into() };
    t.clock.set(3 * SECOND);
    let written =
        vec![set("f", "q", 4, "v"), add.clone(), column(range), column(TimestampRange::ALL)];
    t.mutate("a", written.clone()).await.unwrap();
    t.mutate("z", vec![server("g")]).await.unwrap();
    t.mutate("a", vec![RowMutation::DeleteFromRow, set("g", "r", 1, "w")]).await.unwrap();
    t.modify("a", Modify::Append("x".into())).await.unwrap();
    t.modify("a", Modify::Append("y".into())).await.unwrap();
    let check = CheckAndMutate {
        row: "a".into(),
        predicate: None,
        on_true: vec![family("g")],
        on_false: vec![],
    };
    assert!(t.local.check_and_mutate_row(&t.name, check).await.unwrap());

    let told = take(&mut stream, 6).await;
    assert_eq!(names(&told), ["a", "z", "a", "a", "a", "a"]);
    assert_eq!(told[0].mutations, written);
    let RowMutation::SetCell { timestamp: WriteTime::At(time), .. } = told[1].mutations[0] else {
        panic!("{:?}", told[1])
    };
    assert_eq!(time, Timestamp(3 * SECOND), "the time that the server gave");
    let deleted = [family("f"), family("g"), family("sum"), set("g", "r", 1, "w")];
    assert_eq!(told[2].mutations, deleted);
    let appended = |change: &RowChange| match &change.mutations[..] {
        [RowMutation::SetCell { value, .. }] => value.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((appended(&told[3]), appended(&told[4])), ("x".into(), "xy".into()));
    assert_eq!(told[5].mutations, [family("g")]);
    // Order is told by commit time, and by the tiebreaker within one.
    let order = |change: &RowChange| (change.commit_micros, change.tiebreaker);
    assert!(told.windows(2).all(|two| order(&two[0]) < order(&two[1])));
}

#[tokio::test]
async fn each_row_of_a_request_is_a_change_and_every_token_goes_on_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &["h", "p"]).await;
    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    t.clock.set(2 * SECOND);
    let keys: Vec<String> = (b'a'..=b'z').map(|key| char::from(key).to_string()).collect();
    let entries = || {
        let one = |key: &String| RowMutations {
            row: Bytes::from(key.clone()),
            mutations: vec![set("f", "q", 1, key), set("f", "r", 1, key)],
        };
        keys.iter().map(one).collect()
    };
    let results = t.local.mutate_rows(&t.name, entries()).await.unwrap();
    assert!(results.iter().all(Result::is_ok));
    let all = take(&mut open(&t, from(ChangesFrom::Time(2 * SECOND))).await, keys.len()).await;
    let mut sorted = names(&all);
    sorted.sort();
    assert_eq!(sorted, keys);
    assert!(all.iter().all(|change| change.mutations.len() == 2));
    for (at, change) in all.iter().enumerate().take(keys.len() - 1) {
        let left = all.len() - at - 1;
        let rest = take(&mut open(&t, after(RowRange::ALL, &change.token)).await, left).await;
        assert_eq!(rest, all[at + 1..], "after {at}");
    }
    // Partitions are any ranges of rows.
    let mut part =
        open(&t, ReadChanges { rows: rows("g", "j"), ..from(ChangesFrom::Time(2 * SECOND)) }).await;
    let mut told = names(&take(&mut part, 3).await);
    told.sort();
    assert_eq!(told, ["g", "h", "i"]);
}

#[tokio::test]
async fn tokens_of_neighbours_are_one_partition_without_a_row_told_twice() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &["m"]).await;
    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    t.clock.set(2 * SECOND);
    for (number, key) in ["a", "x", "b", "y", "c", "z"].iter().enumerate() {
        t.mutate(key, vec![set("f", "q", number as i64, "v")]).await.unwrap();
    }
    let (low, high) = (rows("", "m"), rows("m", ""));
    let time = ChangesFrom::Time(2 * SECOND);
    let first = ReadChanges { rows: low.clone(), ..from(time.clone()) };
    let low_told = take(&mut open(&t, first).await, 3).await;
    let second = ReadChanges { rows: high.clone(), ..from(time) };
    let high_told = take(&mut open(&t, second).await, 3).await;
    // The lower one has told `a`, the upper one `x` and `y`.
    let tokens = [(low, low_told[0].token.clone()), (high, high_told[1].token.clone())];
    let merged = || from(ChangesFrom::Tokens(tokens.iter().rev().cloned().collect()));
    let rest = take(&mut open(&t, merged()).await, 3).await;
    assert_eq!(names(&rest), ["b", "c", "z"]);
    for (at, change) in rest.iter().enumerate().take(2) {
        let again = take(&mut open(&t, after(RowRange::ALL, &change.token)).await, 2 - at).await;
        assert_eq!(names(&again), names(&rest[at + 1..]));
    }
    // Together they are to cover the partition.
    let half = from(ChangesFrom::Tokens(tokens[..1].to_vec()));
    let twice =
        from(ChangesFrom::Tokens(vec![tokens[0].clone(), tokens[0].clone(), tokens[1].clone()]));
    for wrong in [half, twice, from(ChangesFrom::Tokens(vec![]))] {
        assert!(matches!(refused(&t, wrong).await, Error::InvalidArgument { .. }));
    }
}

#[tokio::test]
async fn what_cannot_be_told_is_refused_by_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    let now = from(ChangesFrom::Now);
    assert!(matches!(refused(&t, now.clone()).await, Error::FailedPrecondition(_)));
    t.clock.set(100 * SECOND);
    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    t.mutate("a", vec![set("f", "q", 1, "v")]).await.unwrap();
    // Before the stream began, and after now.
    let early = refused(&t, from(ChangesFrom::Time(99 * SECOND))).await;
    assert!(matches!(early, Error::OutOfRange(_)), "{early:?}");
    let late = refused(&t, from(ChangesFrom::Time(101 * SECOND))).await;
    assert!(
        matches!(&late, Error::InvalidArgument { field, .. } if field == "start_time"),
        "{late:?}"
    );
    let start = t.local.change_retention(&t.name).unwrap();
    assert_eq!(start, Some(DAY));
    let mut stream = open(&t, now).await;
    t.mutate("b", vec![set("f", "q", 1, "v")]).await.unwrap();
    let token = take(&mut stream, 1).await.remove(0).token;
    let wrong = [
        after(RowRange::ALL, "no token"),
        after(RowRange::ALL, &token.replace('0', "1")),
        after(rows("", "m"), &token),
        ReadChanges { rows: rows("b", "a"), ..from(ChangesFrom::Now) },
    ];
    for wrong in wrong {
        let error = refused(&t, wrong.clone()).await;
        assert!(matches!(error, Error::InvalidArgument { .. }), "{wrong:?}: {error:?}");
    }
    // A token of another table.
    let other = TableName::new("projects/p/instances/i/tables/other").unwrap();
    let families = vec![("f".to_owned(), FamilySpec::default())];
    let create = CreateTable {
        name: other.clone(),
        families,
        splits: vec![],
        deletion_protection: false,
        granularity: Granularity::default(),
        row_key_schema: None,
    };
    t.local.create_table(create).await.unwrap();
    t.local.keep_changes(&other, Some(DAY)).await.unwrap();
    let error = t.local.read_changes(&other, after(RowRange::ALL, &token)).await.err().unwrap();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
    // Older than what is kept.
    t.clock.set(100 * SECOND + DAY.as_micros() as i64 + 10 * SECOND);
    let expired = refused(&t, after(RowRange::ALL, &token)).await;
    assert!(matches!(expired, Error::OutOfRange(_)), "{expired:?}");
    // A token of the stream before this one.
    let mut stream = open(&t, from(ChangesFrom::Now)).await;
    t.mutate("c", vec![set("f", "q", 1, "v")]).await.unwrap();
    let token = take(&mut stream, 1).await.remove(0).token;
    t.local.keep_changes(&t.name, None).await.unwrap();
    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    let anew = refused(&t, after(RowRange::ALL, &token)).await;
    assert!(matches!(anew, Error::OutOfRange(_)), "{anew:?}");
}

#[tokio::test]
async fn a_stream_ends_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    // All up to a time that is past: a change at that time, none after it.
    let mut late = open(&t, from(ChangesFrom::Now)).await;
    t.mutate("a", vec![set("f", "q", 1, "v")]).await.unwrap();
    let first = take(&mut late, 1).await.remove(0);
    t.clock.set(2 * SECOND);
    t.mutate("b", vec![set("f", "q", 1, "v")]).await.unwrap();
    let start = ChangesFrom::Time(first.commit_micros);
    let until_micros = Some(first.commit_micros);
    let mut until = open(&t, ReadChanges { until_micros, ..from(start) }).await;
    assert_eq!(names(&take(&mut until, 1).await), ["a"]);
    assert!(until.next().await.is_none());
    // And up to one at which nothing happened.
    let quiet = ReadChanges { until_micros: Some(2 * SECOND), ..from(ChangesFrom::Now) };
    assert!(open(&t, quiet).await.next().await.is_none());

    let mut off = open(&t, from(ChangesFrom::Now)).await;
    t.local.keep_changes(&t.name, None).await.unwrap();
    t.mutate("c", vec![set("f", "q", 1, "v")]).await.unwrap();
    let ended = off.next().await.unwrap().unwrap_err();
    assert!(matches!(ended, Error::FailedPrecondition(_)), "{ended:?}");
    assert!(off.next().await.is_none());

    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    let mut deleted = open(&t, from(ChangesFrom::Now)).await;
    t.local.delete_table(&t.name).await.unwrap();
    let ended = deleted.next().await.unwrap().unwrap_err();
    assert!(matches!(ended, Error::NotFound { .. }), "{ended:?}");

    t.create(&["f"], &[]).await;
    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    let mut draining = open(&t, from(ChangesFrom::Now)).await;
    t.local.end_change_streams();
    let ended = draining.next().await.unwrap().unwrap_err();
    assert!(matches!(ended, Error::Unavailable(_)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_come_at_their_time_and_go_on_where_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    let mut stream = open(&t, from(ChangesFrom::Now)).await;
    let begun = tokio::time::Instant::now();
    let mut watermark = 0;
    for beat in 1..=3u32 {
        t.clock.set(i64::from(beat) * 2 * SECOND);
        let records = stream.next().await.unwrap().unwrap();
        let [ChangeRecord::Heartbeat { token, low_watermark_micros }] = &records[..] else {
            panic!("{records:?}")
        };
        assert!(begun.elapsed() >= BEAT * beat);
        assert!(*low_watermark_micros >= t.clock.now());
        assert!(*low_watermark_micros > watermark, "time goes on without a change");
        watermark = *low_watermark_micros;
        // The next change is later, and comes after the heartbeat's token.
        t.mutate("a", vec![set("f", "q", i64::from(beat), "v")]).await.unwrap();
        let told = take(&mut stream, 1).await.remove(0);
        assert!(told.commit_micros > watermark);
        let again = take(&mut open(&t, after(RowRange::ALL, token)).await, 1).await;
        assert_eq!(again, [told]);
    }
}

#[tokio::test]
async fn streams_outlive_the_store_and_its_families() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f", "g"], &["m"]).await;
    t.local.keep_changes(&t.name, Some(DAY)).await.unwrap();
    let mut stream = open(&t, from(ChangesFrom::Now)).await;
    t.mutate("a", vec![set("f", "q", 1, "v")]).await.unwrap();
    let token = take(&mut stream, 1).await.remove(0).token;
    t.mutate("b", vec![set("g", "q", 1, "gone"), set("f", "q", 1, "v")]).await.unwrap();
    t.mutate("c", vec![set("g", "q", 1, "gone")]).await.unwrap();
    t.mutate("z", vec![set("f", "q", 1, "v")]).await.unwrap();
    let drop_g = FamilyChange::Drop { name: "g".to_owned() };
    t.local.modify_families(&t.name, vec![drop_g]).await.unwrap();
    drop((stream, t));
    let t = Harness::open(dir.path());
    assert_eq!(t.local.change_retention(&t.name).unwrap(), Some(DAY));
    let told = take(&mut open(&t, after(RowRange::ALL, &token)).await, 2).await;
    assert_eq!(names(&told), ["b", "z"], "families that were dropped have no name");
    assert_eq!(told[0].mutations, [set("f", "q", 1, "v")]);
}
