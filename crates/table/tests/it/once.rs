//! Changes that take effect once.

use super::harness::Harness;
use table::mutate::WriteTime;
use table::*;

const MINUTE: i64 = 60_000_000;

fn add(row: &str, amount: i64, token: Option<&str>) -> OnceRow {
    let mutation = RowMutation::AddToCell {
        family: "sum".into(),
        qualifier: "q".into(),
        timestamp: WriteTime::At(Timestamp(0)),
        input: amount.into(),
    };
    let change =
        RowMutations { row: Bytes::copy_from_slice(row.as_bytes()), mutations: vec![mutation] };
    let once =
        |token: &str| Once { token: Bytes::copy_from_slice(token.as_bytes()), start_micros: None };
    OnceRow { change, once: token.map(once) }
}

async fn harness() -> (Harness, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let h = Harness::open(dir.path());
    let value_type = ValueType::Aggregate(Aggregate::SumInt64);
    let sum = FamilySpec { value_type, ..FamilySpec::default() };
    h.create_with(vec![("sum".into(), sum), ("f".into(), FamilySpec::default())], &["m"]).await;
    (h, dir)
}

impl Harness {
    async fn once(&self, rows: Vec<OnceRow>) -> Vec<Result<()>> {
        self.local.mutate_rows_once(&self.name, rows).await.unwrap()
    }

    async fn add(&self, row: &str, amount: i64, token: &str) {
        self.once(vec![add(row, amount, Some(token))]).await.remove(0).unwrap();
    }

    /// The sums of all rows.
    async fn sums(&self) -> Vec<i64> {
        let rows = self.read(ReadRows::default()).await.unwrap();
        let cells = rows.iter().map(|row| {
            assert_eq!(row.cells.len(), 1, "{row:?}");
            i64::from_be_bytes(row.cells[0].value[..].try_into().unwrap())
        });
        cells.collect()
    }

    fn compact(&self) {
        for tree in self.engine.trees() {
            let tree = self.engine.tree(tree).unwrap();
            tree.flush().unwrap();
            tree.compact_range(&engine::RowRange::ALL).unwrap();
        }
    }

    /// Number of tokens in the table.
    fn tokens(&self) -> usize {
        let trees = self.engine.trees().into_iter().filter(|tree| *tree >= TreeId::FIRST_OF_TABLES);
        let mut tokens = 0;
        for tree in trees {
            let all = engine::ScanRequest::rows(engine::RowRange::ALL);
            let mut scan = self.engine.tree(tree).unwrap().scan(&all, None).unwrap();
            while scan.next_row().unwrap().is_some() {
                while let Some(cell) = scan.next_cell().unwrap() {
                    tokens += usize::from(cell.family == FamilyId(u16::MAX));
                }
            }
        }
        tokens
    }
}

#[tokio::test]
async fn a_token_stands_for_one_change_of_its_row() {
    let (h, dir) = harness().await;
    for _ in 0..3 {
        h.add("a", 1, "token--1").await;
        h.add("a", 10, "token--2").await;
        h.add("z", 100, "token--1").await;
    }
    assert_eq!(h.sums().await, [11, 100]);
    let many = vec![
        add("a", 1, Some("token--1")),
        add("a", 1_000, Some("token--3")),
        add("a", 1_000, Some("token--3")),
        add("z", 1_000, Some("token--3")),
        add("z", 1, None),
        add("z", 1, None),
    ];
    assert_eq!(h.once(many).await, vec![Ok(()); 6]);
    assert_eq!(h.sums().await, [1_011, 1_102]);

    h.compact();
    if super::OVER_GROUPS {
        return; // Nothing feeds the engine again.
    }
    let Harness { local, engine, .. } = h;
    engine.close().unwrap();
    drop((local, engine));
    let h = Harness::open(dir.path());
    h.add("a", 1, "token--1").await;
    h.add("z", 1_000, "token--3").await;
    assert_eq!(h.sums().await, [1_011, 1_102], "after a restart, too");
}

#[tokio::test]
async fn what_is_refused_leaves_no_token() {
    let (h, _dir) = harness().await;
    let mut wrong = add("a", 1, Some("token--1"));
    wrong.change.mutations.push(RowMutation::DeleteFromFamily { family: "nowhere".into() });
    let short = add("a", 1, Some("1234567"));
    let long = add("a", 1, Some(&"t".repeat(257)));
    let results = h.once(vec![wrong, short, long, add("", 1, Some("token--1"))]).await;
    assert!(matches!(results[0], Err(Error::NotFound { .. })), "{results:?}");
    for result in &results[1..] {
        assert!(matches!(result, Err(Error::InvalidArgument { .. })), "{results:?}");
    }
    h.add("a", 1, "token--1").await;
    assert_eq!(h.sums().await, [1]);
}

#[tokio::test]
async fn changes_that_count_nothing_leave_no_token() {
    let (h, _dir) = harness().await;
    let set = crate::harness::set("f", "q", 1, "v");
    let change = RowMutations { row: "a".into(), mutations: vec![set] };
    let once = Some(Once { token: "token--1".into(), start_micros: None });
    h.once(vec![OnceRow { change, once }]).await.remove(0).unwrap();
    assert_eq!(h.tokens(), 0);
}

#[tokio::test]
async fn tokens_end_with_their_time() {
    let (h, _dir) = harness().await;
    let start = 100 * MINUTE;
    h.clock.set(start);
    h.add("a", 1, "token--1").await;
    h.clock.set(start + 15 * MINUTE);
    h.add("a", 1, "token--1").await;
    assert_eq!(h.sums().await, [1], "within 15 minutes");

    let sent = |micros| OnceRow {
        once: Some(Once { token: "token--1".into(), start_micros: Some(micros) }),
        ..add("a", 1, None)
    };
    assert_eq!(h.once(vec![sent(start)]).await, [Ok(())], "known to be applied");
    h.clock.set(start + 15 * MINUTE + 1_000);
    let refused = h.once(vec![sent(start)]).await.remove(0);
    assert!(matches!(refused, Err(Error::FailedPrecondition(_))), "{refused:?}");
    assert_eq!(h.sums().await, [1]);

    h.compact();
    assert_eq!(h.tokens(), 1, "compaction keeps a token that counts");
    h.clock.set(start + 20 * MINUTE + 1_000);
    h.add("b", 1, "token--2").await;
    h.compact();
    assert_eq!(h.tokens(), 1, "compaction removes the old one");
    h.add("a", 1, "token--1").await;
    assert_eq!(h.sums().await, [2, 1], "after that it is another change");
}

#[tokio::test]
async fn a_deleted_row_forgets_what_was_counted() {
    let (h, _dir) = harness().await;
    h.add("a", 1, "token--1").await;
    h.mutate("a", vec![RowMutation::DeleteFromRow]).await.unwrap();
    h.add("a", 1, "token--1").await;
    assert_eq!(h.sums().await, [1], "counted once since the row was deleted");
    h.mutate("a", vec![RowMutation::DeleteFromFamily { family: "sum".into() }]).await.unwrap();
    h.add("a", 1, "token--1").await;
    assert_eq!(h.sums().await.len(), 0, "the family's deletion leaves the token");
}

#[tokio::test]
async fn attempts_at_the_same_time_count_once() {
    let (h, _dir) = harness().await;
    let attempts =
        (0..16).map(|_| h.once(vec![add("a", 1, Some("token--1")), add("z", 1, Some("token--1"))]));
    for results in futures::future::join_all(attempts).await {
        assert_eq!(results, [Ok(()), Ok(())]);
    }
    assert_eq!(h.sums().await, [1, 1]);
}
