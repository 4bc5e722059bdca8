//! Scans over data that is mostly plain, so that most rows are lent in stretches: cut by other
//! runs, by memtables, by dropped ranges, by deletes, by snapshots, by bounds and by seeks.

use crate::support::{TREE, open, owned};
use engine::internals::{Model, OwnedRow};
use engine::{
    Column, Columns, Direction, Engine, FamilyId, Options, QualifierRange, RowRange, Scan,
    ScanRequest, SequenceNumber, Timestamp, TimestampRange, TreeOptions, WriteBatch,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const ROWS: u32 = 600;

struct Data {
    random: StdRng,
    engine: Engine,
    model: Model,
    last: SequenceNumber,
}

impl Data {
    fn row(&mut self) -> Vec<u8> {
        row_of(self.random.random_range(0..ROWS))
    }

    fn write(&mut self, batch: &WriteBatch) {
        let first = SequenceNumber(self.last.0 + 1);
        self.last = self.engine.tree(TREE).unwrap().write(batch).unwrap();
        self.model.apply(batch, first);
    }

    /// Writes rows `from..to`, of which one in `every`, each of one cell or of several.
    fn fill(&mut self, (from, to): (u32, u32), every: u32, narrow: bool) {
        let mut batch = WriteBatch::new();
        for number in from..to {
            if self.random.random_range(0..every) > 0 {
                continue;
            }
            let row = row_of(number);
            let value = vec![number as u8; self.random.random_range(0..60)];
            let more = if narrow { 0 } else { self.random.random_range(0..4) };
            for at in 0..=more {
                let qualifier = [b'q'; 2];
                let column = Column::of(FamilyId(1 + at / 2), &qualifier[..usize::from(at % 2)]);
                batch.put(&row, column, Timestamp(self.random.random_range(0..3)), &value);
            }
        }
        if !batch.is_empty() {
            self.write(&batch);
        }
    }

    /// Something that keeps rows from being plain, or makes them vanish.
    fn disturb(&mut self) {
        let (row, end) = (self.row(), self.row());
        let mut batch = WriteBatch::new();
        match self.random.random_range(0..3) {
            0 => batch.delete_row(&row),
            1 => batch.drop_row_range(&row, Some(&end)),
            _ => batch.put(&row, Column::of(FamilyId(1), b""), Timestamp(1), b"again"),
        }
        if !batch.is_empty() {
            self.write(&batch);
        }
    }

    fn request(&mut self) -> ScanRequest {
        let rows = match self.random.random_range(0..3) {
            0 => RowRange::ALL,
            1 => RowRange { start: self.row(), end: None },
            _ => RowRange { start: self.row(), end: Some(self.row()) },
        };
        let columns = match self.random.random_range(0..4) {
            0 => Columns::ranges(vec![QualifierRange::family(FamilyId(2))]),
            1 => Columns::ranges(vec![QualifierRange::column(FamilyId(1), b"q")]),
            _ => Columns::All,
        };
        let timestamps = match self.random.random_range(0..4) {
            0 => TimestampRange { start: Timestamp(1), end: Some(Timestamp(2)) },
            _ => TimestampRange::ALL,
        };
        let direction = match self.random.random_bool(0.5) {
            true => Direction::Forward,
            false => Direction::Reverse,
        };
        let versions_max = match self.random.random_range(0..8) {
            0 => Some(0),
            1..5 => Some(1),
            _ => None,
        };
        ScanRequest { rows, direction, columns, timestamps, versions_max }
    }

    /// Scans with random steps and seeks and compares each with the model.
    fn compare(&mut self, at: SequenceNumber, snapshot: Option<&engine::Snapshot>) {
        let request = self.request();
        let all = self.model.scan(&request, at);
        let mut scan = self.engine.tree(TREE).unwrap().scan(&request, snapshot).unwrap();
        let mut rest = all.iter();
        for _ in 0..self.random.random_range(1..5) {
            for _ in 0..self.random.random_range(0..2 * ROWS) {
                let got = self.step(&mut scan);
                assert_eq!(got.as_ref(), rest.next(), "{request:?} at {at:?}");
                if got.is_none() {
                    break;
                }
            }
            let row = self.row();
            scan.seek(&row);
            let before = match request.direction {
                Direction::Forward => all.partition_point(|(key, _)| *key < row),
                Direction::Reverse => all.partition_point(|(key, _)| *key >= row),
            };
            rest = all[before..].iter();
        }
    }

    /// The scan's next row with all of its cells, asked for in one of three ways.
    fn step(&mut self, scan: &mut Scan) -> Option<OwnedRow> {
        let mut cells = Vec::new();
        let row = match self.random.random_bool(0.5) {
            true => {
                let (row, cell) = scan.next_row_and_cell().unwrap()?;
                cells.push(owned(&cell));
                row.to_vec()
            }
            false => scan.next_row().unwrap()?.to_vec(),
        };
        assert_eq!(scan.row(), Some(&row[..]));
        while let Some(cell) = scan.next_cell().unwrap() {
            cells.push(owned(&cell));
        }
        assert!(scan.next_cell().unwrap().is_none(), "a row's end stays its end");
        Some((row, cells))
    }
}

fn row_of(number: u32) -> Vec<u8> {
    // Some keys are short, so that some blocks mark their tails; some are long.
    match number % 97 {
        0 => format!("r{number:03}").into_bytes(),
        1 => format!("r{number:03}/{}", "long".repeat(30)).into_bytes(),
        _ => format!("r{number:03}/with/more").into_bytes(),
    }
}

fn run(seed: u64) {
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let options = Options { l0_runs_compact: 60, l0_runs_stall: 64, ..Options::default() };
    let engine = open(dir.path(), options);
    engine.create_tree(TREE, TreeOptions { block_bytes: 1 << 10, ..Default::default() }).unwrap();
    let random = StdRng::seed_from_u64(seed);
    let mut data = Data { random, engine, model: Model::default(), last: SequenceNumber(0) };
    let mut snapshots = Vec::new();
    for round in 0..6 {
        let narrow = data.random.random_bool(0.7);
        let from = data.random.random_range(0..ROWS);
        let (range, every) = match round {
            0 => ((0, ROWS), 1),
            _ => ((from, (from + 200).min(ROWS)), [1, 3, 40][data.random.random_range(0..3)]),
        };
        data.fill(range, every, narrow);
        for _ in 0..data.random.random_range(0..4) {
            data.disturb();
        }
        snapshots.push((data.last, data.engine.snapshot()));
        if data.random.random_bool(0.8) {
            data.engine.tree(TREE).unwrap().flush().unwrap();
        }
        for _ in 0..10 {
            let of = data.random.random_range(0..=snapshots.len());
            match snapshots.get(of) {
                Some((at, snapshot)) => data.compare(*at, Some(snapshot)),
                None => data.compare(data.last, None),
            }
        }
    }
    drop(snapshots);
    data.engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    for _ in 0..10 {
        data.compare(data.last, None);
    }
}

#[test]
fn row_spans_return_the_rows_of_the_model() {
    match std::env::var("STELE_SEED").ok() {
        Some(seed) => run(seed.parse().expect("a number")),
        None => (0..12).for_each(run),
    }
}
