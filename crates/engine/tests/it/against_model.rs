//! Long random histories with flushes, compactions, snapshots and reopening, read in every way
//! and compared with the model.

use crate::support::{TREE, collect, open, owned, small};
use engine::internals::Model;
use engine::merge_operator::{Operand, Operator};
use engine::{
    Column, ColumnOf, Columns, Direction, Engine, FamilyId, QualifierRange, RowRange, RowSelection,
    ScanRequest, SequenceNumber, Snapshot, Timestamp, TimestampRange, TreeOptions, WriteBatch,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

struct History {
    random: StdRng,
    model: Model,
    last: SequenceNumber,
}

impl History {
    fn row(&mut self) -> Vec<u8> {
        format!("row/{:03}", self.random.random_range(0..300)).into_bytes()
    }

    fn family(&mut self) -> FamilyId {
        FamilyId(self.random.random_range(1..4))
    }

    fn qualifier(&mut self) -> Vec<u8> {
        vec![b'a' + self.random.random_range(0..4u8); self.random.random_range(0..3)]
    }

    fn timestamp(&mut self) -> Timestamp {
        Timestamp(self.random.random_range(-3..8))
    }

    fn range(&mut self) -> TimestampRange {
        if self.random.random_bool(0.5) {
            return TimestampRange::ALL;
        }
        let end = self.random.random_bool(0.5).then(|| self.timestamp());
        TimestampRange { start: self.timestamp(), end }
    }

    fn mutate(&mut self, batch: &mut WriteBatch) {
        let (row, family, qualifier) = (self.row(), self.family(), self.qualifier());
        let timestamp = self.timestamp();
        match self.random.random_range(0..100) {
            0..60 => {
                let len = match self.random.random_range(0..40) {
                    0 => 6_000,
                    other => other * 7,
                };
                let value = vec![self.random.random(); len];
                batch.put(&row, Column::of(family, &qualifier), timestamp, &value);
            }
            60..75 => {
                let operand = Operand { operator: Operator::SumInt64, value: self.random.random() };
                // Family 3 is mostly of aggregates, so that folds run deep.
                batch.merge(&row, Column::of(FamilyId(3), b"sum"), timestamp, operand);
            }
            75..85 => {
                let range = self.range();
                batch.delete(&row, Column::of(family, &qualifier), range);
            }
            85..91 => batch.delete_family(&row, family),
            91..97 => batch.delete_row(&row),
            _ => {
                let end = self.row();
                batch.drop_row_range(&row, Some(&end));
            }
        }
    }

    fn write(&mut self, engine: &Engine) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.random.random_range(1..6) {
            self.mutate(&mut batch);
        }
        if batch.is_empty() {
            return;
        }
        let first = SequenceNumber(self.last.0 + 1);
        self.last = engine.tree(TREE).unwrap().write(&batch).expect("writes are taken");
        assert_eq!(self.last.0, first.0 + batch.len() as u64 - 1, "numbers are consecutive");
        self.model.apply(&batch, first);
    }

    fn request(&mut self) -> ScanRequest {
        let rows = match self.random.random_range(0..4) {
            0 => RowRange::ALL,
            3 => RowRange::prefix(&self.row()[..6]),
            1 => RowRange::single(&self.row()),
            _ => RowRange { start: self.row(), end: Some(self.row()) },
        };
        let columns = match self.random.random_range(0..3) {
            0 => Columns::All,
            1 => Columns::ranges(vec![QualifierRange::family(self.family())]),
            _ => {
                let (family, qualifier) = (self.family(), self.qualifier());
                let one = QualifierRange::column(family, &qualifier);
                Columns::ranges(vec![one, QualifierRange::column(FamilyId(3), b"sum")])
            }
        };
        let direction = match self.random.random_bool(0.5) {
            true => Direction::Forward,
            false => Direction::Reverse,
        };
        let versions_max = self.random.random_bool(0.5).then(|| self.random.random_range(1..3));
        ScanRequest { rows, direction, columns, timestamps: self.range(), versions_max }
    }

    fn compare(&mut self, engine: &Engine, snapshots: &[Snapshot]) {
        let at = snapshots.get(self.random.random_range(0..=snapshots.len()));
        let request = self.request();
        let sequence = at.map_or(self.last, Snapshot::sequence);
        let got = collect(engine.tree(TREE).unwrap().scan(&request, at).expect("scans start"));
        let want = self.model.scan(&request, sequence);
        assert_eq!(got, want, "{request:?} at {sequence:?}");
        self.compare_row(engine, at, sequence, request);
    }

    /// The same of one row and of one column, which are not scanned.
    fn compare_row(
        &mut self,
        engine: &Engine,
        at: Option<&Snapshot>,
        sequence: SequenceNumber,
        request: ScanRequest,
    ) {
        let tree = engine.tree(TREE).expect("the tree is there");
        let row = self.row();
        let request = ScanRequest { rows: RowRange::single(&row), ..request };
        let (timestamps, versions_max) = (request.timestamps, request.versions_max);
        let selection = RowSelection { columns: &request.columns, timestamps, versions_max };
        let mut got = Vec::new();
        tree.read_row_with(&row, &selection, at, |cell| got.push(owned(cell))).expect("rows read");
        let want = self.model.scan(&request, sequence).pop().map(|(_, cells)| cells);
        assert_eq!(got, want.unwrap_or_default(), "{request:?} at {sequence:?}");
        let (family, qualifier) = (self.family(), self.qualifier());
        let of = ColumnOf { row: &row, family, qualifier: &qualifier };
        let cells = self.model.row_at(&row, sequence).into_iter();
        let want = cells.filter(|cell| cell.family == family && cell.qualifier == qualifier);
        let want = want.map(|cell| (cell.timestamp, cell.value)).next();
        assert_eq!(tree.get(of, at).expect("columns read"), want, "{of:?} at {sequence:?}");
    }
}

fn run(seed: u64, steps: usize) {
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let mut history = History {
        random: StdRng::seed_from_u64(seed),
        model: Model::default(),
        last: SequenceNumber(0),
    };
    let mut engine = open(dir.path(), small());
    let row_prefix_bytes = [0, 5, 6, 7][history.random.random_range(0..4)];
    let options = TreeOptions {
        block_bytes: 1 << 10,
        row_prefix_bytes,
        prefix_index: row_prefix_bytes > 0,
        ..TreeOptions::default()
    };
    engine.create_tree(TREE, options).unwrap();
    let mut snapshots = Vec::new();
    for _ in 0..steps {
        match history.random.random_range(0..1000) {
            0..8 => engine.tree(TREE).unwrap().flush().unwrap(),
            8..11 => {
                let rows = RowRange { start: history.row(), end: Some(history.row()) };
                engine.tree(TREE).unwrap().compact_range(&rows).unwrap();
            }
            11..14 => {
                snapshots.clear();
                drop(engine);
                engine = open(dir.path(), small());
            }
            14..24 => snapshots.push(engine.snapshot()),
            24..34 => {
                snapshots.pop();
            }
            34..100 => history.compare(&engine, &snapshots),
            _ => history.write(&engine),
        }
    }
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    for _ in 0..20 {
        history.compare(&engine, &snapshots);
    }
    snapshots.clear();
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    for _ in 0..20 {
        history.compare(&engine, &[]);
    }
}

#[test]
fn long_histories_read_as_the_model_says() {
    let seeds = std::env::var("STELE_SEED").ok().map(|seed| seed.parse().expect("a number"));
    match seeds {
        Some(seed) => run(seed, 4_000),
        None => (0..6).for_each(|seed| run(seed, 2_000)),
    }
}
