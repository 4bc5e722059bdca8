//! Steps of reads that find little: they end, say where they are, take turns, and stop when their client
//! is gone.

use super::super::read::Reader;
use super::super::*;
use super::reads::LookedAt;
use crate::filter::ColumnRange;
use crate::mutate::{RowMutation, WriteTime};
use crate::row::{ReadStats, RowPiece};
use crate::row_output::{Pieces, RowOutput, YieldedCell};
use crate::row_set::{KeyRange, RowSet};
use base::env::Env;
use engine::{Direction, Durability, Options};
use std::ops::Bound;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const ROWS: usize = 500;
/// Units of work of a step.
const STEP: usize = 100;

/// A table of `ROWS` rows of two cells each, of family `f`; of every tenth row the engine has both
/// deleted.
async fn store() -> (Local, TableName, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(LookedAt::at(1_000_000));
    let env = Env { clock: clock.clone(), ..Env::real(1) };
    let options = Options { durability: Durability::None, ..Options::default() };
    let engine = Engine::open_with_env(env, dir.path(), options).unwrap();
    // Only work ends a step: a busy machine gives a thread little of a core.
    let (first_step_micros, second_step_micros) = (1 << 40, 1 << 40);
    let steps = Shape { first_step_micros, second_step_micros, ..Shape::DEFAULT };
    let shape = Shape { batch_steps: STEP, long_reads_min: 1, ..steps };
    let local = Local::open_shaped(engine, clock, shape).unwrap();
    // Samples of rows look at the clock too, and each look takes time.
    local.core.heat.turn_off();
    let name = TableName::new("p/t").unwrap();
    let families = [("f".to_owned(), Default::default())].into();
    let table = CreateTable {
        name: name.clone(),
        families,
        splits: vec!["row-0250".into()],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    local.create_table(table).await.unwrap();
    for i in 0..ROWS {
        let set = |qualifier: &'static str| RowMutation::SetCell {
            family: "f".into(),
            qualifier: qualifier.into(),
            timestamp: WriteTime::At(engine::Timestamp(1_000)),
            value: "v".into(),
        };
        let row = key(i);
        let mutations = vec![set("a"), set("b")];
        local.mutate_row(&name, RowMutations { row: row.clone(), mutations }).await.unwrap();
        if i % 10 == 0 {
            let mutations = vec![RowMutation::DeleteFromRow];
            local.mutate_row(&name, RowMutations { row, mutations }).await.unwrap();
        }
    }
    (local, name, dir)
}

fn key(i: usize) -> Bytes {
    format!("row-{i:04}").into()
}

/// A read of a column that no row has.
fn absent(direction: Direction) -> ReadRows {
    let column = Bound::Included(Bytes::from("no"));
    let range = ColumnRange { family: "f".into(), start: column.clone(), end: column };
    ReadRows { filter: Some(RowFilter::ColumnRange(range)), direction, ..ReadRows::default() }
}

fn reader(local: &Local, name: &TableName, request: &ReadRows) -> Reader {
    let table = local.core.table(name).unwrap();
    let plan = Plan::compile(request.filter.as_ref(), &table.schema, &local.core.shape).unwrap();
    let ranges = request.rows.normalize().unwrap();
    Reader::new(&local.core, table, Arc::new(plan), &ranges, request.direction, 0)
}

/// Keys that a read says it has reached.
fn scanned(pieces: Vec<RowPiece>) -> impl Iterator<Item = Bytes> {
    pieces.into_iter().map(|piece| match piece {
        RowPiece::Scanned(key) => key,
        other => panic!("{other:?}"),
    })
}

#[tokio::test]
async fn a_read_that_finds_nothing_goes_in_steps_and_says_where_it_is() {
    let (local, name, _dir) = store().await;
    for (direction, last) in [(Direction::Forward, key(ROWS - 1)), (Direction::Reverse, key(0))] {
        let mut reader = reader(&local, &name, &absent(direction));
        let (mut steps, mut keys, mut stats) = (0, Vec::new(), ReadStats::default());
        loop {
            let filled = reader.fill(&mut Pieces::default()).unwrap();
            steps += 1;
            if let Some(batch) = filled.batch {
                keys.extend(scanned(batch.rows));
                stats = batch.stats;
            }
            if filled.done {
                break;
            }
        }
        assert!(steps >= ROWS / STEP, "{steps} steps");
        assert!(keys.len() > 2 && keys.len() < steps, "{} keys in {steps} steps", keys.len());
        let in_order = |a: &Bytes, b: &Bytes| (a < b) == (direction == Direction::Forward);
        assert!(keys.is_sorted_by(in_order), "{keys:?}");
        assert_eq!(keys.last(), Some(&last));
        assert_eq!((stats.rows_seen, stats.rows_returned), (ROWS as u64, 0));
        assert!(stats.cells_seen >= ROWS as u64, "{stats:?}");
    }
}

#[tokio::test]
async fn a_read_that_is_taken_back_at_once_makes_no_step() {
    let (local, name, _dir) = store().await;
    let places = local.reads.short_places();
    let free = places.available_permits();
    let mut begins =
        Box::pin(local.read_rows(&name, absent(Direction::Forward), Pieces::default()));
    assert!(futures::poll!(&mut begins).is_pending());
    assert_eq!(places.available_permits(), free, "it has taken no place");
    assert!(begins.await.is_ok(), "it makes the step when it is still waited for");
}

#[tokio::test]
async fn the_end_of_a_read_with_results_says_which_rows_come_after_them() {
    let (local, name, _dir) = store().await;
    let all = |direction| ReadRows { direction, ..ReadRows::default() };
    for (direction, after) in [(Direction::Forward, None), (Direction::Reverse, Some(key(0)))] {
        let stream = local.read_rows(&name, all(direction), Pieces::default()).await;
        let (mut stream, mut rows, mut end) = (stream.unwrap(), 0, None);
        while let Some(batch) = stream.next_batch().await {
            for piece in batch.unwrap().rows {
                match piece {
                    RowPiece::Start(_) => (rows, end) = (rows + 1, None),
                    RowPiece::Scanned(key) => end = Some(key),
                    RowPiece::Cell(_) | RowPiece::End => {}
                }
            }
        }
        assert_eq!((rows, end), (ROWS - ROWS / 10, after));
    }
}

/// Returns whether a snapshot keeps a state of the store before its last write.
fn keeps_old_state(local: &Local) -> bool {
    let metrics = local.core.engine.metrics();
    metrics.get("sequence_oldest_snapshot") < metrics.get("sequence_last")
}

/// Takes all places of reads that need more than one step.
async fn longer_places(local: &Local) -> [OwnedSemaphorePermit; 2] {
    let [middling, long] = local.reads.longer_places();
    [all_of(middling).await, all_of(long).await]
}

async fn all_of(places: Arc<Semaphore>) -> OwnedSemaphorePermit {
    let count = places.available_permits() as u32;
    places.acquire_many_owned(count).await.unwrap()
}

#[tokio::test]
async fn short_reads_do_not_wait_for_long_ones() {
    let (local, name, _dir) = store().await;
    let places = longer_places(&local).await;
    let mut barren = Vec::new();
    for _ in 0..100 {
        let read = local.read_rows(&name, absent(Direction::Forward), Pieces::default());
        barren.push(read.await.unwrap());
    }
    let rows = RowSet { ranges: vec![row_range(3)], ..RowSet::default() };
    let short = ReadRows { rows, ..ReadRows::default() };
    let read = local.read_rows(&name, short, Pieces::default()).await.unwrap();
    assert_eq!(read.collect_rows().await.unwrap().len(), 1);
    // The long ones go on when they have places.
    drop(places);
    for mut stream in barren {
        let mut last = None;
        while let Some(batch) = stream.next_batch().await {
            last = scanned(batch.unwrap().rows).last().or(last);
        }
        assert_eq!(last, Some(key(ROWS - 1)));
    }
}

#[tokio::test]
async fn a_read_of_two_steps_does_not_wait_for_longer_ones() {
    let (local, name, _dir) = store().await;
    let [middling, long] = longer_places(&local).await;
    let mut barren = Vec::new();
    for _ in 0..20 {
        let read = local.read_rows(&name, absent(Direction::Forward), Pieces::default());
        barren.push(read.await.unwrap());
    }
    // More than the first step can look at, and less than the first two can.
    let rows = KeyRange { start: Bound::Included(key(1)), end: Bound::Excluded(key(40)) };
    let rows = RowSet { ranges: vec![rows], ..RowSet::default() };
    let read = ReadRows { rows, ..ReadRows::default() };
    let stream = local.read_rows(&name, read, Pieces::default()).await.unwrap();
    let mut rows = Box::pin(stream.collect_rows());
    tokio::task::yield_now().await;
    assert!(futures::poll!(&mut rows).is_pending(), "it needs a second step");
    drop((barren, middling));
    assert_eq!(rows.await.unwrap().len(), 36);
    drop(long);
}

fn row_range(i: usize) -> KeyRange {
    KeyRange { start: Bound::Included(key(i)), end: Bound::Excluded(key(i + 1)) }
}

#[tokio::test]
async fn a_read_that_is_given_up_takes_no_place_and_keeps_no_snapshot() {
    let (local, name, _dir) = store().await;
    let places = longer_places(&local).await;
    let read = local.read_rows(&name, absent(Direction::Forward), Pieces::default());
    let stream = read.await.unwrap();
    let mutations = vec![RowMutation::DeleteFromRow];
    local.mutate_row(&name, RowMutations { row: key(0), mutations }).await.unwrap();
    assert!(keeps_old_state(&local));
    drop(stream);
    let given_up = async {
        while keeps_old_state(&local) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), given_up).await.unwrap();
    drop(places);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_ends_its_read() {
    let (local, name, _dir) = store().await;
    let local = local.with_read_idle_max(Duration::from_secs(60));
    let read = local.read_rows(&name, ReadRows::default(), Pieces::default());
    let mut stream = read.await.unwrap();
    let mutations = vec![RowMutation::DeleteFromRow];
    local.mutate_row(&name, RowMutations { row: key(0), mutations }).await.unwrap();
    assert!(stream.next_batch().await.unwrap().is_ok());
    // Each batch is taken in time, however long that takes together.
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert!(stream.next_batch().await.unwrap().is_ok() && keeps_old_state(&local));
    }
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(
        !keeps_old_state(&local),
        "the snapshot is free before the client takes what waits for it"
    );
    let mut end = None;
    while let Some(batch) = stream.next_batch().await {
        end = batch.err();
    }
    let end = end.unwrap();
    assert!(matches!(end, Error::Unavailable(_)) && end.to_string().contains("60 s"), "{end}");
}

/// An output that panics at its second batch.
#[derive(Default)]
struct Panics {
    pieces: Pieces,
    batches: usize,
}

impl RowOutput for Panics {
    type Batch = Vec<RowPiece>;

    fn start(&mut self, key: &[u8]) {
        assert!(self.batches < 2, "a defect");
        self.pieces.start(key);
    }

    fn cell(&mut self, cell: &YieldedCell<'_>) {
        self.pieces.cell(cell);
    }

    fn end(&mut self) {
        self.pieces.end();
    }

    fn forget(&mut self) {
        self.pieces.forget();
    }

    fn scanned(&mut self, key: &[u8]) {
        self.pieces.scanned(key);
    }

    fn take(&mut self) -> Vec<RowPiece> {
        self.batches += 1;
        self.pieces.take()
    }
}

#[tokio::test]
async fn a_read_whose_task_panics_ends_with_an_error() {
    let (mut local, name, _dir) = store().await;
    let core = Arc::get_mut(&mut local.core).unwrap();
    core.shape.task_steps = 3;
    let keys = (0..30).filter(|i| i % 10 != 0).map(key).collect();
    let rows = RowSet { keys, ranges: Vec::new() };
    let request = ReadRows { rows, ..ReadRows::default() };
    let mut stream = local.read_rows(&name, request, Panics::default()).await.unwrap();
    let (mut batches, mut error) = (0, None);
    while let Some(batch) = stream.next_batch().await {
        match batch {
            Ok(_) => batches += 1,
            Err(ended) => error = Some(ended),
        }
    }
    assert_eq!(batches, 2);
    assert!(matches!(error, Some(Error::Unavailable(_))), "{error:?}");
}
