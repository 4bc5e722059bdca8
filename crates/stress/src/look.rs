//! Reads every way the engine can be read, and holds what was found to what is expected.

use crate::ledger::{CellState, Expected, Possible, Question, Sighting, Window};
use crate::names::{Spot, qualifier};
use base::testing::block_on;
use engine::TimestampRange;
use engine::{ColumnOf, Engine, RowEnd, RowSelection, Snapshot};
use engine::{Columns, Direction, RowRange, ScanRequest};
use engine::{FamilyId, Timestamp};
use std::ops::ControlFlow;

/// What was wrong, in words.
pub(crate) type Judged<T> = Result<T, String>;

/// An error of the engine where none should be.
pub(crate) fn refused(what: &str, error: &engine::Error) -> String {
    format!("{what} failed: {error}")
}

/// One column of a row, the newest version: what a get asks.
pub(crate) fn newest(family: u8, number: u8) -> Question {
    let name = qualifier(number);
    let range = engine::QualifierRange::column(FamilyId(family.into()), &name);
    Question {
        columns: Columns::ranges(vec![range]),
        timestamps: TimestampRange::ALL,
        versions_max: Some(1),
    }
}

/// A column of a row that is got.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) spot: Spot,
    pub(crate) family: u8,
    pub(crate) qualifier: u8,
}

impl Wanted {
    fn sighting(&self, found: Option<(Timestamp, &[u8])>) -> Judged<Sighting> {
        let cell = |(timestamp, value)| {
            let family = FamilyId(self.family.into());
            CellState::of(self.spot, family, &qualifier(self.qualifier), timestamp, value)
        };
        let cells = found.map(cell).transpose()?.into_iter().collect();
        Ok(Sighting { spot: self.spot, cells })
    }

    /// Judges what a get found.
    pub(crate) fn judge(
        &self,
        window: &Window<'_>,
        found: Option<(Timestamp, &[u8])>,
    ) -> Judged<()> {
        let sighting = self.sighting(found).map_err(|what| format!("a get: {what}"))?;
        let question = newest(self.family, self.qualifier);
        window.judge(&question, &[sighting]).map_err(|what| format!("a get: {what}"))
    }
}

/// Gets one column.
pub(crate) fn get(engine: &Engine, expected: &Expected, wanted: Wanted) -> Judged<()> {
    let Wanted { spot, family, qualifier: number } = wanted;
    let window = expected.window([spot.writer]);
    let (tree, row, name) = (expected.tree(spot.slot), spot.key(), qualifier(number));
    let found = engine
        .tree(tree)
        .and_then(|tree| tree.get(ColumnOf::new(&row, FamilyId(family.into()), &name), None));
    let found = found.map_err(|error| refused("a get", &error))?;
    wanted.judge(&window, found.as_ref().map(|(time, value)| (*time, value.as_slice())))
}

/// Gets the same column of many rows of one tree at one moment.
pub(crate) fn multi_get(
    engine: &Engine,
    expected: &Expected,
    spots: &[Spot],
    (family, number): (u8, u8),
) -> Judged<()> {
    let Some(first) = spots.first() else { return Ok(()) };
    let window = expected.window(spots.iter().map(|spot| spot.writer));
    let (rows, name): (Vec<Vec<u8>>, _) =
        (spots.iter().map(|spot| spot.key()).collect(), qualifier(number));
    let column = |row| ColumnOf { row, family: FamilyId(family.into()), qualifier: &name };
    let columns: Vec<ColumnOf<'_>> = rows.iter().map(|row| column(row)).collect();
    let mut seen = vec![None; spots.len()];
    let tree = engine.tree(expected.tree(first.slot)).map_err(|e| refused("a multi-get", &e))?;
    let lend = |at: usize, cell: Option<(Timestamp, &[u8])>| {
        let wanted = Wanted { spot: spots[at], family, qualifier: number };
        seen[at] = Some(wanted.sighting(cell));
    };
    tree.multi_get_with(&columns, None, lend).map_err(|error| refused("a multi-get", &error))?;
    let seen = seen.into_iter().map(|one| one.ok_or("a multi-get passed over a column")?);
    let seen: Vec<Sighting> = seen.collect::<Judged<_>>()?;
    let judged = window.judge(&newest(family, number), &seen);
    judged.map_err(|what| format!("a multi-get: {what}"))
}

/// Gets with many in flight from this thread.
pub(crate) fn gets_in_flight(
    engine: &Engine,
    expected: &Expected,
    wanted: &[Wanted],
    depth: usize,
) -> Judged<()> {
    let Some(first) = wanted.first() else { return Ok(()) };
    let window = expected.window(wanted.iter().map(|wanted| wanted.spot.writer));
    let tree = expected.tree(first.spot.slot);
    let tree = engine.tree(tree).map_err(|error| refused("gets in flight", &error))?;
    let mut gets = tree.in_flight(depth, None);
    for (tag, Wanted { spot, family, qualifier: number }) in (0..).zip(wanted) {
        let (row, name) = (spot.key(), qualifier(*number));
        let family = FamilyId((*family).into());
        gets.submit(tag, ColumnOf { row: &row, family, qualifier: &name });
    }
    let mut answers = 0;
    while let Some((tag, answer)) = gets.wait() {
        let found = answer.map_err(|error| refused("a get in flight", &error))?;
        let found = found.as_ref().map(|(time, value)| (*time, value.as_slice()));
        wanted[tag as usize].judge(&window, found)?;
        answers += 1;
    }
    if answers == wanted.len() { Ok(()) } else { Err(format!("{answers} answers to gets")) }
}

/// Reads a row, on this thread or as a task.
pub(crate) fn row(
    engine: &Engine,
    expected: &Expected,
    spot: Spot,
    question: &Question,
    as_task: bool,
) -> Judged<()> {
    let window = expected.window([spot.writer]);
    let (tree, key) = (expected.tree(spot.slot), spot.key());
    let tree = engine.tree(tree).map_err(|error| refused("a row read", &error))?;
    let Question { columns, timestamps, versions_max } = question;
    let (timestamps, versions_max) = (*timestamps, *versions_max);
    let selection = RowSelection { columns, timestamps, versions_max };
    let mut seen: Vec<Judged<CellState>> = Vec::new();
    let sighted = |cell: &engine::Cell<'_>| {
        CellState::of(spot, cell.family, cell.qualifier, cell.timestamp, cell.value)
    };
    let mut ended = RowEnd::Waits;
    if as_task {
        let mut reads = tree.row_reads(None);
        let read = reads.read(&key, std::iter::empty(), &selection, |cell| {
            seen.push(sighted(cell));
            ControlFlow::Continue(())
        });
        ended = block_on(read).map_err(|error| refused("a row read", &error))?;
    }
    if ended == RowEnd::Waits {
        seen.clear();
        let read = tree.read_row_with(&key, &selection, None, |cell| seen.push(sighted(cell)));
        ended = RowEnd::Lent(read.map_err(|error| refused("a row read", &error))?);
    }
    if ended != RowEnd::Lent(seen.len() as u64) {
        return Err(format!("a row read lent {} cells and ended as {ended:?}", seen.len()));
    }
    let cells: Vec<CellState> = seen.into_iter().collect::<Judged<_>>()?;
    let judged = window.judge(question, &[Sighting { spot, cells }]);
    judged.map_err(|what| format!("a row read: {what}"))
}

/// Scans rows of the tree at `slot` and shows `each` all rows of the request in the order of the
/// scan, those that were not found without cells. Gives how many were found. Nothing is kept, so
/// that a scan takes no memory that grows with the tree.
pub(crate) fn scan(
    engine: &Engine,
    expected: &Expected,
    slot: u8,
    request: &ScanRequest,
    snapshot: Option<&Snapshot>,
    mut each: impl FnMut(&Sighting) -> Judged<()>,
) -> Judged<u64> {
    let failed = |error| refused("a scan", &error);
    let mut scan = engine
        .tree(expected.tree(slot))
        .and_then(|tree| tree.scan(request, snapshot))
        .map_err(failed)?;
    let due = expected.spots(slot, request);
    let mut due = due.as_slice();
    let mut found = 0;
    while let Some(row) = scan.next_row().map_err(failed)? {
        let at = Spot::of(slot, row).and_then(|spot| due.iter().position(|due| *due == spot));
        let at = at.ok_or_else(|| {
            format!("a scan lent row {}, unknown or out of order or range", row.escape_ascii())
        })?;
        due[..at].iter().try_for_each(|spot| each(&Sighting::of_nothing(*spot)))?;
        let mut sighting = Sighting::of_nothing(due[at]);
        due = &due[at + 1..];
        while let Some(cell) = scan.next_cell().map_err(failed)? {
            let (family, name) = (cell.family, cell.qualifier);
            let state = CellState::of(sighting.spot, family, name, cell.timestamp, cell.value);
            sighting.cells.push(state.map_err(|what| format!("a scan: {what}"))?);
        }
        each(&sighting)?;
        found += 1;
    }
    due.iter().try_for_each(|spot| each(&Sighting::of_nothing(*spot)))?;
    Ok(found)
}

pub(crate) fn scan_and_judge(
    engine: &Engine,
    expected: &Expected,
    slot: u8,
    rows: RowRange,
    question: &Question,
    direction: Direction,
) -> Judged<u64> {
    let window = expected.window_on_all();
    let Question { columns, timestamps, versions_max } = question.clone();
    let request = ScanRequest { rows, direction, columns, timestamps, versions_max };
    let mut possible = Possible::new();
    scan(engine, expected, slot, &request, None, |row| {
        let judged = window.judge_more(question, row, &mut possible);
        judged.map_err(|what| format!("a scan ({direction:?} {:?}): {what}", request.rows))
    })
}

/// Reads everything in `engine`, all trees at one moment, and holds it to what `window` allows.
/// Gives after which batches of each writer it fits.
pub(crate) fn everything(
    engine: &Engine,
    expected: &Expected,
    window: &Window<'_>,
    direction: Direction,
) -> Judged<Possible> {
    let snapshot = engine.snapshot();
    let mut possible = Possible::new();
    for slot in 0..expected.field.slots {
        let request = ScanRequest { direction, ..ScanRequest::rows(RowRange::ALL) };
        scan(engine, expected, slot, &request, Some(&snapshot), |row| {
            window.judge_more(&Question::ALL, row, &mut possible)
        })?;
    }
    Ok(possible)
}
