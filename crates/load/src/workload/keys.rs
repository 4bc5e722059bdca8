//! A table of keys with one row each. Operations insert, update, read and scan rows.

use super::findings::{Findings, Problem};
use super::lane::Share;
use super::verify::Expected;
use super::{Next, Trouble};
use crate::choose::Choice;
use crate::client::{Api, NewCell, NewRow, Row, Rows, Selection};
use crate::data::{Frontier, Identity, RowKeys, Taken, Version, Versions, column, value};
use crate::measure::Operation;
use bench_core::SplitMix64;
use std::ops::Range;
use std::sync::Arc;

/// Shape of the data, and the mix of operations of each lane.
pub(crate) struct Keys {
    pub(super) identity: Identity,
    pub(super) row_keys: RowKeys,
    pub(super) share: Share,
    /// Columns of each row, at least 1.
    pub(super) columns: u64,
    pub(super) value_len: usize,
    pub(super) frontier: Frontier,
    pub(super) versions: Versions,
    pub(super) choice: Choice,
    /// Mix of operations, by lane.
    pub(super) mixes: Vec<Mix>,
    pub(super) scan_rows_max: u64,
    /// Keys that exist before the run begins.
    pub(super) fill_end: u64,
    pub(super) batch_rows: usize,
    pub(super) findings: Arc<Findings>,
}

pub(super) type Mix = Vec<(Action, f64)>;

/// Part of a mix of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Inserts the next key; updates a key when all are inserted.
    Write,
    /// Writes one column of an existing row.
    Update,
    /// Reads a row, or some columns of it.
    Read(Shape),
    /// Reads a row that was never written.
    ReadMissing,
    /// Reads a row and writes one column of it.
    ReadModifyWrite,
    /// Reads up to so many rows from an existing one on.
    Scan,
}

/// Columns that a read asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Row,
    Columns(u64),
}

/// One operation on a key of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyTask {
    Insert { key: u64 },
    Update { key: u64, column: u64 },
    Read { key: u64, columns: Range<u64> },
    ReadMissing { key: u64 },
    ReadModifyWrite { key: u64, column: u64 },
    Scan { key: u64, rows: u64 },
}

impl Action {
    /// Returns the kind of operation that the action leads to.
    fn operation(self) -> Operation {
        match self {
            Self::Write => Operation::Insert,
            Self::Update => Operation::Update,
            Self::Read(_) => Operation::Read,
            Self::ReadMissing => Operation::ReadMissing,
            Self::ReadModifyWrite => Operation::ReadModifyWrite,
            Self::Scan => Operation::Scan,
        }
    }
}

impl KeyTask {
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Insert { .. } => Operation::Insert,
            Self::Update { .. } => Operation::Update,
            Self::Read { .. } => Operation::Read,
            Self::ReadMissing { .. } => Operation::ReadMissing,
            Self::ReadModifyWrite { .. } => Operation::ReadModifyWrite,
            Self::Scan { .. } => Operation::Scan,
        }
    }
}

/// The answer to a read of a row.
struct Answer {
    key: u64,
    columns: Range<u64>,
    row: Vec<u8>,
    /// Versions that were acknowledged when the read began, by column.
    floors: Vec<Option<Version>>,
    rows: Vec<Row>,
}

/// Rows to write before the run, with their keys and versions.
#[derive(Debug)]
pub(crate) struct KeyBatch {
    keys: Vec<u64>,
    versions: Vec<Vec<Version>>,
    pub(super) rows: Vec<NewRow>,
}

impl Keys {
    pub(super) fn next(&self, lane: usize, random: &mut SplitMix64) -> Next<KeyTask> {
        let mix = &self.mixes[lane];
        let mut at = random.fraction() * mix.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut action = mix[mix.len() - 1].0;
        for (candidate, weight) in mix {
            if at < *weight {
                action = *candidate;
                break;
            }
            at -= weight;
        }
        if action == Action::Write {
            match self.frontier.take(u64::MAX) {
                Taken::Key(key) => return Next::Do(KeyTask::Insert { key }),
                // Updates go on while the window of inserts is full or the last inserts end.
                Taken::Later | Taken::Exhausted => action = Action::Update,
            }
        }
        let written = self.frontier.written();
        if written == 0 {
            return Next::Later;
        }
        let key = self.choice.key(written, random);
        Next::Do(self.task(action, key, random))
    }

    /// Returns the kinds of operation of a lane with their weights.
    pub(super) fn kinds(&self, lane: usize) -> Vec<(Operation, f64)> {
        let kind = |(action, weight): &(Action, f64)| match action {
            Action::Write if self.frontier.is_exhausted() => (Operation::Update, *weight),
            action => (action.operation(), *weight),
        };
        self.mixes[lane].iter().map(kind).collect()
    }

    fn task(&self, action: Action, key: u64, random: &mut SplitMix64) -> KeyTask {
        match action {
            Action::Write | Action::Update => {
                KeyTask::Update { key, column: random.below(self.columns) }
            }
            Action::ReadModifyWrite => {
                KeyTask::ReadModifyWrite { key, column: random.below(self.columns) }
            }
            Action::Read(Shape::Row) => KeyTask::Read { key, columns: 0..self.columns },
            Action::Read(Shape::Columns(count)) => {
                let count = count.clamp(1, self.columns);
                let first = random.below(self.columns - count + 1);
                KeyTask::Read { key, columns: first..first + count }
            }
            Action::ReadMissing => KeyTask::ReadMissing { key },
            Action::Scan => KeyTask::Scan { key, rows: 1 + random.below(self.scan_rows_max) },
        }
    }

    pub(super) async fn perform(
        &self,
        task: &KeyTask,
        client: &mut impl Api,
    ) -> Result<u64, Trouble> {
        match task {
            KeyTask::Insert { key } => {
                let outcome = self.write(*key, 0..self.columns, client).await;
                match outcome.is_ok() {
                    true => self.frontier.done(*key),
                    false => self.frontier.failed(*key),
                }
                outcome
            }
            KeyTask::Update { key, column } => self.write(*key, *column..*column + 1, client).await,
            KeyTask::Read { key, columns } => self.read(*key, columns.clone(), client).await,
            KeyTask::ReadMissing { key } => self.read_missing(*key, client).await,
            KeyTask::ReadModifyWrite { key, column } => {
                // The verification would count as a part of the operation between its two calls.
                let answer = self.ask(*key, 0..self.columns, client).await?;
                let written = self.write(*key, *column..*column + 1, client).await?;
                self.check(&answer).map(|_| written)
            }
            KeyTask::Scan { key, rows } => self.scan(*key, *rows, client).await,
        }
    }

    /// Returns the row key of a key of this process.
    pub(super) fn row(&self, key: u64) -> Vec<u8> {
        self.row_keys.row(self.identity.prefix(), self.share.global(key))
    }

    /// Returns the number of a cell among the cells of this process, by which versions are kept.
    pub(super) fn cell(&self, key: u64, column: u64) -> u64 {
        key.wrapping_mul(self.columns).wrapping_add(column)
    }

    fn new_row(&self, key: u64, columns: Range<u64>) -> (NewRow, Vec<Version>) {
        let first = self.share.global(key).wrapping_mul(self.columns);
        let mut versions = Vec::new();
        let cells = columns.map(|index| {
            let timestamp = self.versions.issue(self.cell(key, index));
            versions.push(timestamp);
            let number = first.wrapping_add(index);
            let value = value(self.identity.seed(), number, timestamp, self.value_len);
            NewCell { qualifier: column(index), timestamp, value }
        });
        let cells = cells.collect();
        (NewRow { key: self.row(key), cells }, versions)
    }

    fn ack(&self, key: u64, first: u64, versions: &[Version]) {
        for (index, version) in (first..).zip(versions) {
            self.versions.ack(self.cell(key, index), *version);
        }
    }

    async fn write(
        &self,
        key: u64,
        columns: Range<u64>,
        client: &mut impl Api,
    ) -> Result<u64, Trouble> {
        let first = columns.start;
        let (row, versions) = self.new_row(key, columns);
        client.write(row).await?;
        self.ack(key, first, &versions);
        Ok(1)
    }

    async fn read(
        &self,
        key: u64,
        columns: Range<u64>,
        client: &mut impl Api,
    ) -> Result<u64, Trouble> {
        let answer = self.ask(key, columns, client).await?;
        self.check(&answer)
    }

    /// Reads columns of a row, and remembers what they must have at least.
    async fn ask(
        &self,
        key: u64,
        columns: Range<u64>,
        client: &mut impl Api,
    ) -> Result<Answer, Trouble> {
        let row = self.row(key);
        let whole = columns == (0..self.columns);
        let last = columns.end.saturating_sub(1);
        let selection = Selection {
            rows: Rows::One(row.clone()),
            columns: (!whole).then(|| (column(columns.start), column(last))),
            cells_max: columns.end - columns.start,
            bytes_max: self.bytes_max(columns.end - columns.start),
        };
        let floors: Vec<Option<Version>> =
            columns.clone().map(|index| self.versions.acked(self.cell(key, index))).collect();
        let rows = client.read(selection).await?;
        Ok(Answer { key, columns, row, floors, rows })
    }

    /// Verifies what a row was found to have.
    fn check(&self, answer: &Answer) -> Result<u64, Trouble> {
        let Answer { key, columns, row, floors, rows } = answer;
        let Some(found) = rows.first() else {
            let detail = "the row was acknowledged and is not there".to_owned();
            return Err(Trouble::Wrong(self.findings.report(Problem::MissingRow, row, detail)));
        };
        if found.key != *row || rows.len() > 1 {
            let detail = "another row than was asked for".to_owned();
            let problem = self.findings.report(Problem::Unexpected, &found.key, detail);
            return Err(Trouble::Wrong(problem));
        }
        self.verify(found, *key, columns.clone(), |index| floors[(index - columns.start) as usize])
            .map(|()| 1)
    }

    /// Returns the bytes that an answer with so many cells may have. A value may be somewhat longer
    /// than it should be, so that it is reported as wrong and not as too long.
    pub(super) fn bytes_max(&self, cells: u64) -> u64 {
        cells.saturating_mul(self.value_len as u64 + 16).saturating_add(4096)
    }

    /// Verifies a row of this process.
    pub(super) fn verify(
        &self,
        row: &Row,
        key: u64,
        columns: Range<u64>,
        floor: impl Fn(u64) -> Option<Version>,
    ) -> Result<(), Trouble> {
        let expected = self.expected(self.share.global(key), columns);
        let judge = |index: u64, seen: Version| {
            self.versions.judge(self.cell(key, index), seen, floor(index))
        };
        expected.verify(row, judge).map_err(Trouble::Wrong)
    }

    /// Returns what the row of a key of any process must have.
    pub(super) fn expected(&self, global: u64, columns: Range<u64>) -> Expected<'_> {
        Expected {
            seed: self.identity.seed(),
            first_cell: global.wrapping_mul(self.columns),
            columns,
            value_len: self.value_len,
            findings: &self.findings,
        }
    }

    async fn read_missing(&self, key: u64, client: &mut impl Api) -> Result<u64, Trouble> {
        let row = self.row_keys.absent(self.identity.prefix(), self.share.global(key));
        let selection = Selection {
            rows: Rows::One(row),
            columns: None,
            cells_max: self.columns,
            bytes_max: self.bytes_max(self.columns),
        };
        match client.read(selection).await?.first() {
            None => Ok(0),
            Some(found) => {
                let detail = "a row that was never written".to_owned();
                let problem = self.findings.report(Problem::Unexpected, &found.key, detail);
                Err(Trouble::Wrong(problem))
            }
        }
    }

    pub(super) fn fill_rows(&self) -> u64 {
        self.fill_end.saturating_sub(self.frontier.written())
    }

    pub(super) fn fill(&self) -> Next<KeyBatch> {
        let mut batch = KeyBatch { keys: Vec::new(), versions: Vec::new(), rows: Vec::new() };
        loop {
            match self.frontier.take(self.fill_end) {
                Taken::Key(key) => {
                    let (row, versions) = self.new_row(key, 0..self.columns);
                    batch.keys.push(key);
                    batch.versions.push(versions);
                    batch.rows.push(row);
                    if batch.keys.len() >= self.batch_rows {
                        return Next::Do(batch);
                    }
                }
                _ if !batch.keys.is_empty() => return Next::Do(batch),
                Taken::Later => return Next::Later,
                Taken::Exhausted => return Next::Done,
            }
        }
    }

    pub(super) fn filled(&self, batch: &KeyBatch, outcomes: &[bool]) -> u64 {
        let mut written = 0;
        for (at, key) in batch.keys.iter().enumerate() {
            if outcomes.get(at) == Some(&true) {
                self.ack(*key, 0, &batch.versions[at]);
                self.frontier.done(*key);
                written += 1;
            } else {
                self.frontier.failed(*key);
            }
        }
        written
    }
}
