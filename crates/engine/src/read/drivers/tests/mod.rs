mod resolve_in_block;
mod wide_rows;

use super::*;
use crate::batch::WriteBatch;
use crate::engine::Engine;
use crate::options::{Durability, FilterGranularity, Options, TreeOptions};
use crate::request::Direction;
use crate::request::OwnedCell;
use crate::semantics::model::Model;
use crate::semantics::model::testing::{batches, put_and_delete_batches, put_batches, requests};
use base::env::Env;
use proptest::prelude::*;

const TREE: TreeId = TreeId(3);

fn engine(dir: &std::path::Path, granularity: Option<FilterGranularity>, bits: u8) -> Engine {
    let options =
        Options { durability: Durability::None, memory_bytes_max: 4 << 20, ..Options::default() };
    let engine = Engine::open_with_env(Env::real(1), dir, options).unwrap();
    let tree = TreeOptions {
        filter_granularity: granularity,
        filter_bits_per_key: bits,
        block_bytes: 1 << 10,
        row_prefix_bytes: 1,
        prefix_index: true,
        ..TreeOptions::default()
    };
    engine.create_tree(TREE, tree).unwrap();
    engine
}

/// What happens to the tree between reads.
#[derive(Debug, Clone)]
enum Event {
    Write(WriteBatch),
    Flush,
    Compact,
    Snapshot,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let writes = |batches: BoxedStrategy<WriteBatch>| {
        let event = prop_oneof![
            6 => batches.prop_map(Event::Write),
            2 => Just(Event::Flush),
            1 => Just(Event::Compact),
            1 => Just(Event::Snapshot),
        ];
        proptest::collection::vec(event, 0..25)
    };
    prop_oneof![
        writes(put_batches().boxed()),
        writes(put_and_delete_batches().boxed()),
        writes(batches().boxed()),
    ]
}

fn model_row(model: &Model, request: &ScanRequest, at: SequenceNumber) -> Vec<OwnedCell> {
    let mut rows = model.scan(request, at);
    assert!(rows.len() <= 1, "one row was asked for");
    rows.pop().map(|(_, cells)| cells).unwrap_or_default()
}

fn next_row_of(scan: &mut Scan) -> Option<(Vec<u8>, Vec<OwnedCell>)> {
    let row = scan.next_row().unwrap()?.to_vec();
    let mut cells = Vec::new();
    while let Some(cell) = scan.next_cell().unwrap() {
        cells.push(owned(&cell));
    }
    Some((row, cells))
}

fn owned(cell: &Cell<'_>) -> OwnedCell {
    OwnedCell {
        family: cell.family,
        qualifier: cell.qualifier.to_vec(),
        timestamp: cell.timestamp,
        value: cell.value.to_vec(),
    }
}

/// The cells of a row, if it can be read without a thread that waits.
fn read_in_task<'a>(
    tree: &Tree,
    row: &[u8],
    ahead: impl Iterator<Item = &'a [u8]> + Clone,
    selection: &RowSelection<'_>,
    snapshot: Option<&Snapshot>,
) -> Option<Vec<OwnedCell>> {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (mut reads, mut cells) = (tree.row_reads(snapshot), Vec::new());
    let end = {
        let waker = Arc::new(Unpark(std::thread::current())).into();
        let mut context = std::task::Context::from_waker(&waker);
        let mut read = std::pin::pin!(reads.read(row, ahead, selection, |cell| {
            cells.push(owned(cell));
            std::ops::ControlFlow::Continue(())
        }));
        loop {
            match read.as_mut().poll(&mut context) {
                std::task::Poll::Ready(end) => break end.unwrap(),
                std::task::Poll::Pending => std::thread::park(),
            }
        }
    };
    match end {
        RowEnd::Lent(lent) => assert_eq!(lent, cells.len() as u64),
        RowEnd::Waits => return None,
        RowEnd::Stopped => panic!("it was not stopped"),
    }
    Some(cells)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Every way of reading a row gives what the specification says, whatever of it is in memory
    /// or in one or several files, plain or not, resident or not.
    #[test]
    fn point_reads_agree_with_the_model(
        events in events(),
        questions in proptest::collection::vec(requests(), 4),
        granularity in prop_oneof![
            Just(Some(FilterGranularity::Row)),
            Just(Some(FilterGranularity::Family)),
            Just(Some(FilterGranularity::Column)),
            Just(None),
        ],
        bits in prop_oneof![Just(0u8), Just(12)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(dir.path(), granularity, bits);
        let tree = engine.tree(TREE).unwrap();
        let mut model = Model::default();
        let mut snapshots = Vec::new();
        for event in &events {
            match event {
                Event::Write(batch) => {
                    let last = engine.tree(TREE).unwrap().write(batch).unwrap();
                    if !batch.is_empty() {
                        model.apply(batch, SequenceNumber(last.0 + 1 - batch.len() as u64));
                    }
                }
                Event::Flush => engine.tree(TREE).unwrap().flush().unwrap(),
                Event::Compact => engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap(),
                Event::Snapshot => snapshots.push(engine.snapshot()),
            }
        }
        let rows: Vec<Vec<u8>> = [&b""[..], b"\0", b"a", b"\xff", b"aa", b"a\0", b"\xff\xff"]
            .iter().map(|row| row.to_vec()).collect();
        let moments = snapshots.iter().map(Some).chain([None]);
        for snapshot in moments {
            for question in &questions {
                let mut again = tree.scan(question, snapshot).unwrap();
                for row in &rows {
                    again.seek(row);
                    let mut rest = question.clone();
                    match question.direction {
                        Direction::Forward => rest.rows.start = rest.rows.start.max(row.clone()),
                        Direction::Reverse => {
                            let end = rest.rows.end.take();
                            rest.rows.end = Some(end.map_or(row.clone(), |end| end.min(row.clone())));
                        }
                    }
                    let mut fresh = tree.scan(&rest, snapshot).unwrap();
                    for _ in 0..3 {
                        prop_assert_eq!(next_row_of(&mut again), next_row_of(&mut fresh));
                    }
                }
            }
            let at = snapshot.map_or(engine.snapshot().sequence(), Snapshot::sequence);
            for row in &rows {
                for question in &questions {
                    let request = ScanRequest { rows: RowRange::single(row), ..question.clone() };
                    let selection = RowSelection {
                        columns: &request.columns,
                        timestamps: request.timestamps,
                        versions_max: request.versions_max,
                    };
                    let mut cells = Vec::new();
                    let lent = tree
                        .read_row_with(row, &selection, snapshot, |cell| cells.push(owned(cell)))
                        .unwrap();
                    prop_assert_eq!(lent, cells.len() as u64);
                    prop_assert_eq!(&cells, &model_row(&model, &request, at));
                    let ahead = rows.iter().map(Vec::as_slice);
                    if let Some(by_task) = read_in_task(&tree, row, ahead, &selection, snapshot) {
                        prop_assert_eq!(by_task, cells);
                    }
                }
            }
            let wanted: Vec<ColumnOf<'_>> = rows.iter()
                .flat_map(|row| (1..4).flat_map(move |family| {
                    [&b""[..], b"a", b"a\0", b"b", b"c"].map(|qualifier| ColumnOf {
                        row, family: FamilyId(family), qualifier,
                    })
                }))
                .collect();
            let mut many = vec![None; wanted.len()];
            let mut lent = 0;
            tree.multi_get_with(&wanted, snapshot, |index, cell| {
                many[index] = cell.map(|(timestamp, value)| (timestamp, value.to_vec()));
                lent += 1;
            }).unwrap();
            prop_assert_eq!(lent, wanted.len());
            let mut flown = vec![None; wanted.len()];
            let mut gets = tree.in_flight(4, snapshot);
            for (tag, of) in wanted.iter().enumerate() {
                gets.submit(tag as u64, *of);
            }
            prop_assert_eq!(gets.in_flight(), wanted.len());
            while let Some((tag, answer)) = gets.wait() {
                prop_assert!(flown[tag as usize].replace(answer.unwrap()).is_none());
            }
            prop_assert_eq!(gets.in_flight(), 0);
            for ((of, many), flown) in wanted.iter().zip(many).zip(flown) {
                let column = QualifierRange::column(of.family, of.qualifier);
                let request = ScanRequest {
                    columns: Columns::Ranges(vec![column]),
                    versions_max: Some(1),
                    ..ScanRequest::rows(RowRange::single(of.row))
                };
                let want = model_row(&model, &request, at).pop();
                let want = want.map(|cell| (cell.timestamp, cell.value));
                prop_assert_eq!(&tree.get(*of, snapshot).unwrap(), &want);
                prop_assert_eq!(&many, &want);
                prop_assert_eq!(flown, Some(want));
            }
        }
    }
}

#[test]
fn a_dropped_tree_is_unknown_to_its_reader() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path(), Some(FilterGranularity::Row), 12);
    let tree = engine.tree(TREE).unwrap();
    engine.drop_tree(TREE).unwrap();
    let of = ColumnOf { row: b"r", family: FamilyId(1), qualifier: b"q" };
    assert!(matches!(tree.get(of, None), Err(Error::UnknownTree(TREE))));
}

/// Reads of resident rows touch no disk and are not merged; filters keep absent rows away.
#[test]
fn counters_tell_how_a_row_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path(), Some(FilterGranularity::Column), 14);
    let tree = engine.tree(TREE).unwrap();
    let mut batch = WriteBatch::new();
    for row in 0..500u32 {
        let column = Column::of(FamilyId(1), b"q");
        batch.put(&row.to_be_bytes(), column, Timestamp(1), b"value");
    }
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
    let get = |row: u32, qualifier: &[u8]| {
        let row = row.to_be_bytes();
        tree.get(ColumnOf { row: &row, family: FamilyId(1), qualifier }, None).unwrap()
    };
    let warm = (0..500).filter(|row| get(*row, b"q").is_some()).count();
    let before = engine.metrics();
    let present = (0..500).filter(|row| get(*row, b"q").is_some()).count();
    let absent = (0..500).filter(|row| get(*row, b"other").is_some()).count();
    assert_eq!((warm, present, absent), (500, 500, 0));
    let after = engine.metrics();
    let since = |name: &str| after.get(name).unwrap() - before.get(name).unwrap();
    assert_eq!((since("point_reads_total"), since("point_reads_merged_total")), (1000, 0));
    assert_eq!((since("point_blocks_fetched_total"), since("cache_misses_total")), (0, 0));
    let (probed, useful) = (
        since("filter_checks_total{granularity=\"column\"}"),
        since("filter_checks_total{granularity=\"column\",result=\"useful\"}"),
    );
    let wrong = since("filter_false_positives_total{granularity=\"column\"}");
    assert_eq!((probed, useful + wrong), (1000, 500));
    assert!(wrong < 25, "{wrong} of 500 absent columns passed the filter");
}
