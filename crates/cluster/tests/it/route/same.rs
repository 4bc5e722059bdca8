//! The tables of a cluster give the answers of a single server, while leaders move.

use super::world::{Cluster, env, still};
use super::{create, name, pieces, row, set};
use engine::{Direction, Engine, Options};
use proptest::prelude::*;
use std::ops::Bound;
use table::filter::ColumnRange;
use table::mutate::Modify;
use table::{
    Bytes, CheckAndMutate, DropRows, Error, KeyRange, Local, Once, OnceRow, ReadModifyWriteRule,
    ReadRows, Result, RowFilter, RowMutation, RowMutations, RowPiece, RowSet, Store,
    TimestampRange,
};

/// A step of a test.
#[derive(Debug, Clone)]
enum Step {
    Mutate(RowMutations),
    MutateAll(Vec<RowMutations>),
    /// With a token for each row.
    Once(Vec<(RowMutations, u8)>),
    Check(CheckAndMutate),
    Modify(Bytes, i64),
    Read(ReadRows),
    Drop(DropRows),
    /// The tablet of this number gets a leader.
    Lead(usize, u64),
}

fn key() -> impl Strategy<Value = Bytes> {
    "[a-z]{1,2}".prop_map(Bytes::from)
}

fn qualifier() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("p"), Just("q")]
}

fn family() -> impl Strategy<Value = &'static str> {
    prop_oneof![9 => Just("f"), 9 => Just("g"), 1 => Just("none")]
}

fn mutation() -> impl Strategy<Value = RowMutation> {
    prop_oneof![
        8 => (family(), qualifier(), 1i64..4, "[x-z]{1,3}")
            .prop_map(|(family, qualifier, time, value)| set(family, qualifier, time, value)),
        1 => (family(), qualifier()).prop_map(|(family, qualifier)| {
            RowMutation::DeleteFromColumn {
                family: family.to_owned(),
                qualifier: qualifier.into(),
                range: TimestampRange::ALL,
            }
        }),
        1 => Just(RowMutation::DeleteFromRow),
    ]
}

fn change() -> impl Strategy<Value = RowMutations> {
    (key(), proptest::collection::vec(mutation(), 0..4)).prop_map(|(key, all)| row(key, all))
}

fn any_bound() -> impl Strategy<Value = Bound<Bytes>> {
    prop_oneof![
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ]
}

fn filter() -> impl Strategy<Value = Option<RowFilter>> {
    let range = ColumnRange {
        family: "f".to_owned(),
        start: Bound::Included("q".into()),
        end: Bound::Unbounded,
    };
    prop_oneof![
        4 => Just(None),
        1 => Just(Some(RowFilter::CellsPerColumnLimit(1))),
        1 => Just(Some(RowFilter::ValueRegex("x.*".into()))),
        1 => Just(Some(RowFilter::RowKeyRegex("[a-m].*".into()))),
        1 => Just(Some(RowFilter::ColumnRange(range))),
        1 => Just(Some(RowFilter::Chain(vec![RowFilter::StripValue, RowFilter::ApplyLabel("l".into())]))),
        1 => Just(Some(RowFilter::ApplyLabel("NOT A LABEL".into()))),
    ]
}

fn read() -> impl Strategy<Value = ReadRows> {
    let keys = proptest::collection::vec(key(), 0..3);
    let ranges = proptest::collection::vec((any_bound(), any_bound()), 0..3);
    (keys, ranges, filter(), 0u64..6, any::<bool>()).prop_map(
        |(keys, bounds, filter, rows_limit, reverse)| ReadRows {
            rows: RowSet {
                keys,
                ranges: bounds.into_iter().map(|(start, end)| KeyRange { start, end }).collect(),
            },
            filter,
            rows_limit,
            direction: if reverse { Direction::Reverse } else { Direction::Forward },
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let changes = || proptest::collection::vec(change(), 0..6);
    let check = (key(), filter(), proptest::collection::vec(mutation(), 1..3)).prop_map(
        |(row, predicate, on_true)| CheckAndMutate {
            row,
            predicate,
            on_true,
            on_false: vec![set("f", "q", 9, "false")],
        },
    );
    let once = proptest::collection::vec((change(), 0u8..4), 0..4);
    prop_oneof![
        4 => change().prop_map(Step::Mutate),
        4 => changes().prop_map(Step::MutateAll),
        2 => once.prop_map(Step::Once),
        2 => check.prop_map(Step::Check),
        2 => (key(), 1i64..9).prop_map(|(key, by)| Step::Modify(key, by)),
        6 => read().prop_map(Step::Read),
        1 => "[a-z]{0,1}".prop_map(|prefix| Step::Drop(DropRows::Prefix(prefix.into()))),
        3 => (0usize..4, 1u64..4).prop_map(|(tablet, leader)| Step::Lead(tablet, leader)),
    ]
}

/// Columns of read-modify-writes. Their times are the server's, so that of two nodes they differ, and so
/// may the number of their versions.
fn is_modified(piece: &RowPiece) -> bool {
    matches!(piece, RowPiece::Cell(cell) if cell.qualifier == "n" || cell.qualifier == "s")
}

/// Does a step, and returns what a client sees of it. Cells are counted if `counts`.
async fn take(store: &impl Store, step: Step, counts: bool) -> Result<String> {
    let name = name();
    Ok(match step {
        Step::Mutate(change) => format!("{:?}", store.mutate_row(&name, change).await?),
        Step::MutateAll(all) => format!("{:?}", store.mutate_rows(&name, all).await?),
        Step::Once(all) => {
            let now = store.now_micros();
            let all = all.into_iter().map(|(change, token)| OnceRow {
                change,
                once: Some(Once {
                    token: format!("token-{token}").into(),
                    start_micros: Some(now),
                }),
            });
            format!("{:?}", store.mutate_rows_once(&name, all.collect()).await?)
        }
        Step::Check(check) => format!("{}", store.check_and_mutate_row(&name, check).await?),
        Step::Modify(key, by) => {
            let rule = |qualifier: &'static str, modify| ReadModifyWriteRule {
                family: "g".to_owned(),
                qualifier: qualifier.into(),
                modify,
            };
            let rules =
                vec![rule("n", Modify::Increment(by)), rule("s", Modify::Append("+".into()))];
            let row = store.read_modify_write_row(&name, key, rules).await?;
            format!("{:?}", row.cells.iter().map(|cell| &cell.value).collect::<Vec<_>>())
        }
        Step::Read(request) => {
            let (all, mut stats) = pieces(store, request).await?;
            let mut shown: Vec<RowPiece> = Vec::new();
            for mut piece in all {
                let of_modified = is_modified(&piece);
                if let (true, RowPiece::Cell(cell)) = (of_modified, &mut piece) {
                    cell.timestamp.0 = 0;
                }
                let is_older = of_modified
                    && matches!((shown.last(), &piece), (Some(RowPiece::Cell(last)), RowPiece::Cell(cell))
                        if last.qualifier == cell.qualifier);
                // Keys that a read went past are told when they are.
                if !is_older && !matches!(piece, RowPiece::Scanned(_)) {
                    shown.push(piece);
                }
            }
            // Named rows are read otherwise than ranges, and meet less that was overwritten or deleted.
            (stats.rows_seen, stats.cells_seen) = (0, 0);
            if !counts {
                (stats.cells_returned, stats.bytes_returned) = (0, 0);
            }
            format!("{shown:?} {stats:?}")
        }
        Step::Drop(rows) => format!("{:?}", store.drop_rows(&name, rows).await?),
        Step::Lead(..) => String::new(),
    })
}

fn options() -> Options {
    Options { durability: engine::Durability::None, ..Options::default() }
}

/// Errors by their kind and text.
fn shown(outcome: Result<String>) -> String {
    match outcome {
        Ok(text) => text,
        Err(error @ Error::NotLeader { .. }) => panic!("{error}"),
        Err(error) => format!("{error:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_cluster_answers_as_a_single_server(
        steps in proptest::collection::vec((step(), 1u64..4), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let dir = tempfile::tempdir().unwrap();
        let clock = still();
        runtime.block_on(async {
            let alone = dir.path().join("alone");
            let engine = Engine::open_with_env(env(&clock), &alone, options()).unwrap();
            let alone = Local::open(engine, clock.clone()).unwrap();
            let cluster = Cluster::open(dir.path(), &clock, &options()).await;
            let splits = ["g", "n", "t"];
            create(&alone, &splits).await;
            create(&cluster.nodes[&2], &splits).await;
            let trees = cluster.world.trees();
            let mut counts = true;
            for (at, (step, node)) in steps.into_iter().enumerate() {
                counts &= !matches!(step, Step::Modify(..));
                if let Step::Lead(tablet, leader) = step {
                    cluster.world.lead(trees[tablet], Some(leader));
                    continue;
                }
                let wanted = shown(take(&alone, step.clone(), counts).await);
                let told = format!("step {at} at node {node}: {step:?}");
                let got = shown(take(&cluster.nodes[&node], step, counts).await);
                prop_assert_eq!(got, wanted, "{}", told);
            }
            Ok(())
        })?;
    }
}

#[test]
fn calls_at_the_same_time_as_moving_leaders_are_done_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let cluster = Cluster::open(dir.path(), &still(), &options()).await;
        create(&cluster.nodes[&1], &["m"]).await;
        let trees = cluster.world.trees();
        let adders = cluster.nodes.values().cloned().map(|node| {
            tokio::spawn(async move {
                for _ in 0..100 {
                    for key in ["a", "z"] {
                        let rules = vec![ReadModifyWriteRule {
                            family: "f".to_owned(),
                            qualifier: "n".into(),
                            modify: Modify::Increment(1),
                        }];
                        node.read_modify_write_row(&name(), key.into(), rules).await.unwrap();
                    }
                }
            })
        });
        let adders: Vec<_> = adders.collect();
        let world = cluster.world.clone();
        let moving = tokio::spawn(async move {
            for turn in 0u64.. {
                for (at, tree) in trees.iter().enumerate() {
                    world.lead(*tree, Some((turn + at as u64) % 3 + 1));
                }
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        });
        for adder in adders {
            adder.await.unwrap();
        }
        moving.abort();
        for node in cluster.nodes.values() {
            for key in ["a", "z"] {
                let rows = super::rows(node, super::of_row(key)).await.unwrap();
                assert_eq!(rows[0].cells[0].value, 300i64.to_be_bytes()[..]);
            }
        }
    });
}
