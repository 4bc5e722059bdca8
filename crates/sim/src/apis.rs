//! The same question in every way that the engine can be asked about rows and columns: gets,
//! multi-gets, gets in flight, and reads of rows on a thread and as a task.

use crate::names;
use crate::oracle::{Oracle, Trouble};
use crate::workload::request;
use base::env::Rng;
use base::testing::block_on;
use engine::OwnedCell;
use engine::{Cell, ColumnOf, Engine, FamilyId, RowEnd, RowSelection, Snapshot, Tree};
use engine::{Columns, Direction, QualifierRange, RowRange, ScanRequest};
use engine::{Timestamp, TreeId};
use std::ops::ControlFlow;

/// A column of a row, and what a get of it must find.
struct Wanted {
    row: Vec<u8>,
    family: FamilyId,
    qualifier: Vec<u8>,
    expected: Option<(Timestamp, Vec<u8>)>,
    /// Cells older than this count as gone.
    shown_from: Timestamp,
}

impl Wanted {
    fn of(&self) -> ColumnOf<'_> {
        ColumnOf { row: &self.row, family: self.family, qualifier: &self.qualifier }
    }

    fn compare(&self, how: &str, found: Option<(Timestamp, &[u8])>) -> Result<(), Trouble> {
        let found = found.filter(|(time, _)| *time >= self.shown_from);
        let expected = self.expected.as_ref().map(|(time, value)| (*time, value.as_slice()));
        if found == expected {
            return Ok(());
        }
        let short =
            |cell: Option<(Timestamp, &[u8])>| cell.map(|(time, value)| (time, value.len()));
        let (found, expected) = (short(found), short(expected));
        let (row, qualifier) = (self.row.escape_ascii(), self.qualifier.escape_ascii());
        let of = format!("\"{row}\" {}:\"{qualifier}\"", self.family.0);
        Err(format!("{how} of {of}: found {found:?}, expected {expected:?}").into())
    }
}

/// Asks `engine` about some rows and columns of `tree` at `snapshot` (`None`: now) in every way,
/// and compares the answers with those of `oracle`.
pub fn ask(
    oracle: &Oracle,
    engine: &Engine,
    tree: TreeId,
    snapshot: Option<&Snapshot>,
    rng: &mut Rng,
) -> Result<(), Trouble> {
    let reader = engine.tree(tree)?;
    let wanted: Vec<Wanted> =
        (0..1 + rng.below(40)).map(|_| draw(oracle, tree, snapshot, rng)).collect();
    ask_columns(&reader, &wanted, snapshot, 1 + rng.index(20))?;
    let ScanRequest { columns, timestamps, versions_max, .. } = request(rng);
    let selection = RowSelection { columns: &columns, timestamps, versions_max };
    for (at, Wanted { row, .. }) in wanted.iter().enumerate().take(8) {
        let next = || wanted[at + 1..].iter().map(|wanted| wanted.row.as_slice());
        let rows = RowRange::single(row);
        let (columns, direction) = (columns.clone(), Default::default());
        let request = ScanRequest { rows, direction, columns, timestamps, versions_max };
        let at = snapshot.map_or(oracle.last(), Snapshot::sequence);
        let expected = oracle.answer(tree, &request, at).pop().map_or(Vec::new(), |row| row.1);
        ask_row(oracle, &reader, (row, next()), &selection, snapshot, &expected)?;
    }
    Ok(())
}

/// Asks `engine` for every column and row that `tree` has at `snapshot` (`None`: now), and for
/// columns that its rows may lack, in every way, and compares the answers with those of `oracle`.
pub fn ask_for_all(
    oracle: &Oracle,
    engine: &Engine,
    tree: TreeId,
    snapshot: Option<&Snapshot>,
    rng: &mut Rng,
) -> Result<(), Trouble> {
    let reader = engine.tree(tree)?;
    let at = snapshot.map_or(oracle.last(), Snapshot::sequence);
    let rows = oracle.answer(tree, &ScanRequest::rows(RowRange::ALL), at);
    let mut wanted = Vec::new();
    for (row, cells) in &rows {
        let columns = cells.chunk_by(|a, b| (a.family, &a.qualifier) == (b.family, &b.qualifier));
        wanted.extend(columns.map(|column| Wanted {
            row: row.clone(),
            family: column[0].family,
            qualifier: column[0].qualifier.clone(),
            expected: Some((column[0].timestamp, column[0].value.clone())),
            shown_from: oracle.shown_from(),
        }));
        let (family, qualifier) = (names::family(rng), names::qualifier(rng));
        if !cells.iter().any(|cell| cell.family == family && cell.qualifier == qualifier) {
            let (row, shown_from) = (row.clone(), oracle.shown_from());
            wanted.push(Wanted { row, family, qualifier, expected: None, shown_from });
        }
    }
    ask_columns(&reader, &wanted, snapshot, 1 + rng.index(20))?;
    let selection = RowSelection::of(&Columns::All);
    for (at, (row, cells)) in rows.iter().enumerate() {
        let next = rows[at + 1..].iter().map(|(row, _)| row.as_slice());
        ask_row(oracle, &reader, (row, next), &selection, snapshot, cells)?;
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let request = ScanRequest { direction, ..ScanRequest::rows(RowRange::ALL) };
        oracle.ask(engine, tree, &request, snapshot)?;
        oracle.ask(engine, tree, &request_of(direction, rng), snapshot)?;
    }
    Ok(())
}

fn request_of(direction: Direction, rng: &mut Rng) -> ScanRequest {
    ScanRequest { direction, ..request(rng) }
}

fn draw(oracle: &Oracle, tree: TreeId, snapshot: Option<&Snapshot>, rng: &mut Rng) -> Wanted {
    let (row, family, qualifier) = (names::row(rng), names::family(rng), names::qualifier(rng));
    let columns = Columns::ranges(vec![QualifierRange::column(family, &qualifier)]);
    let rows = ScanRequest::rows(RowRange::single(&row));
    let request = ScanRequest { columns, versions_max: Some(1), ..rows };
    let at = snapshot.map_or(oracle.last(), Snapshot::sequence);
    let cell = oracle.answer(tree, &request, at).pop().and_then(|(_, mut cells)| cells.pop());
    let expected = cell.map(|cell| (cell.timestamp, cell.value));
    Wanted { row, family, qualifier, expected, shown_from: oracle.shown_from() }
}

fn ask_columns(
    reader: &Tree,
    wanted: &[Wanted],
    snapshot: Option<&Snapshot>,
    depth: usize,
) -> Result<(), Trouble> {
    for wanted in wanted {
        let found = reader.get(wanted.of(), snapshot)?;
        wanted.compare("a get", found.as_ref().map(|(time, value)| (*time, value.as_slice())))?;
    }
    let columns: Vec<ColumnOf<'_>> = wanted.iter().map(Wanted::of).collect();
    let mut outcomes = Vec::new();
    reader.multi_get_with(&columns, snapshot, |at, cell| {
        outcomes.push(wanted[at].compare("a multi-get", cell));
    })?;
    outcomes.into_iter().collect::<Result<Vec<()>, Trouble>>().and_then(|lent| {
        let all = lent.len() == wanted.len();
        if all { Ok(()) } else { Err("a multi-get lent another number".to_owned().into()) }
    })?;
    let mut gets = reader.in_flight(depth, snapshot);
    for (tag, wanted) in (0..).zip(wanted) {
        gets.submit(tag, wanted.of());
    }
    let mut answers = 0;
    while let Some((tag, answer)) = gets.wait() {
        let found = answer?;
        let found = found.as_ref().map(|(time, value)| (*time, value.as_slice()));
        wanted[tag as usize].compare("a get in flight", found)?;
        answers += 1;
    }
    if answers == wanted.len() {
        return Ok(());
    }
    Err(format!("{answers} answers to {} gets in flight", wanted.len()).into())
}

/// Asks for a row, where rows are to come that a task may look at beforehand.
fn ask_row<'a>(
    oracle: &Oracle,
    reader: &Tree,
    (row, next): (&[u8], impl Iterator<Item = &'a [u8]> + Clone),
    selection: &RowSelection<'_>,
    snapshot: Option<&Snapshot>,
    expected: &[OwnedCell],
) -> Result<(), Trouble> {
    let compare = |how: &str, found: &mut Vec<OwnedCell>, lent: u64| {
        let all = lent == found.len() as u64;
        found.retain(|cell| oracle.shows(cell.timestamp));
        if all && found == expected {
            return Ok(());
        }
        let (name, found, count) = (row.escape_ascii(), found.len(), expected.len());
        Err(format!("{how} of {name}: {found} cells, {lent} said, {count} expected").into())
    };
    let mut found = Vec::new();
    let lent = reader.read_row_with(row, selection, snapshot, |cell| found.push(owned(cell)))?;
    compare("a row read", &mut found, lent)?;
    found.clear();
    let mut reads = reader.row_reads(snapshot);
    let read = reads.read(row, next, selection, |cell| {
        found.push(owned(cell));
        ControlFlow::Continue(())
    });
    match block_on(read)? {
        RowEnd::Lent(lent) => compare("a row read as a task", &mut found, lent),
        RowEnd::Waits => Ok(()),
        RowEnd::Stopped => Err("a row read stopped by itself".to_owned().into()),
    }
}

fn owned(cell: &Cell<'_>) -> OwnedCell {
    OwnedCell {
        family: cell.family,
        qualifier: cell.qualifier.to_vec(),
        timestamp: cell.timestamp,
        value: cell.value.to_vec(),
    }
}
