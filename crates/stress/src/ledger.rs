//! What must be in the trees, and what a reader beside the writers may see of it.
//!
//! A writer's batches are numbered from 1. A read may see the state after any batch from the last
//! one that was acknowledged before it to the last one that was begun when it ended, but the same
//! one in all that it sees at one moment.
//!
//! Invariants:
//! 1. A batch is begun here before the engine hears of it, and acknowledged here after the engine
//!    has acknowledged it; so [`Window`] never is too narrow, and at most one batch of a writer is
//!    between the two.
//! 2. States of a row are kept from the last acknowledged batch on, or from the lowest batch that a
//!    window holds.

use crate::batch::{Batch, Field};
use crate::names::{GROUP, Place, SUMS, Spot, qualifier, qualifier_number, version};
use engine::TimestampRange;
use engine::internals::Wanted;
use engine::{Column, FamilyId, Timestamp};
use engine::{Columns, Direction, ScanRequest};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// A cell: its place, and the version of its value, or the sum it is. Saved as family, qualifier,
/// timestamp and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "(u8, u8, u8, u64)", from = "(u8, u8, u8, u64)")]
pub(crate) struct CellState {
    pub(crate) place: Place,
    pub(crate) content: u64,
}

impl From<CellState> for (u8, u8, u8, u64) {
    fn from(CellState { place, content }: CellState) -> Self {
        (place.family, place.qualifier, place.timestamp, content)
    }
}

impl From<(u8, u8, u8, u64)> for CellState {
    fn from((family, qualifier, timestamp, content): (u8, u8, u8, u64)) -> Self {
        Self { place: Place { family, qualifier, timestamp }, content }
    }
}

impl CellState {
    /// The state of a cell that was read; an error if no writer wrote it.
    pub(crate) fn of(
        spot: Spot,
        family: FamilyId,
        name: &[u8],
        timestamp: Timestamp,
        value: &[u8],
    ) -> Result<Self, String> {
        let place = || {
            Some(Place {
                family: u8::try_from(family.0).ok()?,
                qualifier: qualifier_number(name)?,
                timestamp: u8::try_from(timestamp.0).ok()?,
            })
        };
        let place = place().ok_or_else(|| {
            format!("{spot:?} has a cell {}:{:?}@{}", family.0, name.escape_ascii(), timestamp.0)
        })?;
        let content = if place.family == SUMS {
            let sum = value.try_into().map_err(|_| format!("{spot:?}: {place:?} is no sum"))?;
            i64::from_be_bytes(sum) as u64
        } else {
            version(spot, place, value).map_err(|what| format!("{spot:?}: {place:?}: {what}"))?
        };
        Ok(Self { place, content })
    }
}

/// Which cells of a row a read asks for.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) columns: Columns,
    pub(crate) timestamps: TimestampRange,
    pub(crate) versions_max: Option<u32>,
}

impl Question {
    pub(crate) const ALL: Self =
        Self { columns: Columns::All, timestamps: TimestampRange::ALL, versions_max: None };

    /// Those of `cells` that are asked for.
    fn select<'a>(&'a self, cells: &'a [CellState]) -> impl Iterator<Item = CellState> + 'a {
        let mut column = None;
        let mut versions = 0;
        cells.iter().copied().filter(move |cell| {
            let Place { family, qualifier: number, timestamp } = cell.place;
            let name = qualifier(number);
            let wanted = self.columns.wants(Column::of(FamilyId(family.into()), &name));
            let inside = self.timestamps.contains(Timestamp(timestamp.into()));
            if wanted != Wanted::Yes || !inside {
                return false;
            }
            versions = if column == Some((family, number)) { versions + 1 } else { 1 };
            column = Some((family, number));
            self.versions_max.is_none_or(|max| versions <= max)
        })
    }
}

/// States of a row and the batch since which each has held, ascending; never empty.
#[derive(Debug, Clone)]
struct History(Vec<(u64, Box<[CellState]>)>);

impl History {
    fn last(&self) -> &[CellState] {
        &self.0[self.0.len() - 1].1
    }

    fn bytes(state: &[CellState]) -> i64 {
        (size_of_val(state) + 32) as i64
    }
}

/// The rows of one writer: see the file header.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// By slot and row.
    rows: Vec<Vec<History>>,
    begun: u64,
    acked: u64,
    /// Batches that windows begin with, and how many.
    holds: BTreeMap<u64, usize>,
}

impl Ledger {
    /// A writer who has done batches up to `number`, which led to `states`, by slot and row.
    pub(crate) fn new(number: u64, states: Vec<Vec<Box<[CellState]>>>) -> Self {
        let history = |cells| History(vec![(number, cells)]);
        let rows = states.into_iter().map(|rows| rows.into_iter().map(history).collect());
        Self { rows: rows.collect(), begun: number, acked: number, holds: BTreeMap::new() }
    }

    /// The number of the last batch, which is acknowledged, and the states it led to.
    pub(crate) fn settled(&self) -> (u64, Vec<Vec<&[CellState]>>) {
        assert_eq!(self.begun, self.acked, "a batch is in flight");
        let rows = self.rows.iter().map(|rows| rows.iter().map(History::last).collect());
        (self.acked, rows.collect())
    }

    /// The batch that comes next.
    pub(crate) fn next(&self) -> u64 {
        assert_eq!(self.begun, self.acked, "a batch is in flight");
        self.begun + 1
    }

    /// The engine is about to get `batch`. Gives by how much the ledger grew, in bytes.
    pub(crate) fn begin(&mut self, batch: &Batch) -> i64 {
        assert_eq!(batch.number, self.next(), "batches come one after the other");
        self.begun = batch.number;
        let held = self.holds.first_key_value().map_or(self.acked, |(number, _)| *number);
        let floor = held.min(self.acked);
        let mut grown = 0;
        for row in batch.rows() {
            let History(states) = &mut self.rows[usize::from(batch.slot)][usize::from(row)];
            let old = states.partition_point(|(since, _)| *since <= floor).saturating_sub(1);
            grown -= states.drain(..old).map(|(_, cells)| History::bytes(&cells)).sum::<i64>();
            let mut cells = states[states.len() - 1].1.to_vec();
            batch.apply(row, &mut cells);
            grown += History::bytes(&cells);
            states.push((batch.number, cells.into_boxed_slice()));
        }
        grown
    }

    /// The engine has acknowledged the batch that was begun.
    pub(crate) fn acknowledge(&mut self) {
        self.acked = self.begun;
    }

    /// The batch that was begun turned out not to be there: a crash came first. Its number is not
    /// used again, so that it would be noticed if it came back.
    fn forget_begun(&mut self) {
        for History(states) in self.rows.iter_mut().flatten() {
            states.retain(|(since, _)| *since <= self.acked);
        }
        self.acked = self.begun;
    }

    /// After which batches, of those in `window`, the row's cells that `question` asks for are
    /// `seen`.
    fn fits(
        &self,
        spot: Spot,
        question: &Question,
        seen: &[CellState],
        window: (u64, u64),
    ) -> Vec<(u64, u64)> {
        let History(states) = &self.rows[usize::from(spot.slot)][usize::from(spot.row)];
        let ends = states.iter().skip(1).map(|(since, _)| since - 1).chain([u64::MAX]);
        let within = states.iter().zip(ends).filter_map(|((since, cells), end)| {
            let part = ((*since).max(window.0), end.min(window.1));
            let fits = part.0 <= part.1 && question.select(cells).eq(seen.iter().copied());
            fits.then_some(part)
        });
        within.collect()
    }
}

/// All writers' rows.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) field: Field,
    pub(crate) ledgers: Vec<Mutex<Ledger>>,
    /// Ids of the trees by slot.
    pub(crate) trees: Vec<AtomicU32>,
    /// Bytes by which the ledgers have grown.
    pub(crate) grown: Arc<AtomicI64>,
}

/// By writer, after which batches the rows are as they were seen: ranges, both ends included.
pub(crate) type Possible = BTreeMap<u8, Vec<(u64, u64)>>;

/// Cells of a row that a read found.
#[derive(Debug, Clone)]
pub(crate) struct Sighting {
    pub(crate) spot: Spot,
    pub(crate) cells: Vec<CellState>,
}

impl Sighting {
    /// No cells in a row.
    pub(crate) fn of_nothing(spot: Spot) -> Self {
        Self { spot, cells: Vec::new() }
    }

    /// A number that differs, all but surely, for other cells.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.cells.hash(&mut hasher);
        hasher.finish()
    }
}

/// What a read may see, from the moment it is made on. Judge all that was seen at one moment
/// together.
pub(crate) struct Window<'a> {
    expected: &'a Expected,
    /// By writer; `None` for those that are not looked at.
    from: Vec<Option<u64>>,
    /// By writer, the last batch begun when the window was closed; before, it goes on.
    until: Option<Vec<u64>>,
}

impl Expected {
    /// The engine's tree at `slot`.
    pub(crate) fn tree(&self, slot: u8) -> engine::TreeId {
        engine::TreeId(self.trees[usize::from(slot)].load(Ordering::Relaxed))
    }

    /// The rows that `request` asks for of the tree at `slot`, in the order of its answer.
    pub(crate) fn spots(&self, slot: u8, request: &ScanRequest) -> Vec<Spot> {
        let (writers, rows) = (self.ledgers.len() as u8, self.field.rows);
        let groups = (0..rows).step_by(GROUP.into());
        let of_group = |first: u16| {
            let of = move |writer| (first..rows.min(first + GROUP)).map(move |row| (writer, row));
            (0..writers).flat_map(of)
        };
        let spots = groups.flat_map(of_group).map(|(writer, row)| Spot { slot, writer, row });
        let mut spots: Vec<Spot> =
            spots.filter(|spot| request.rows.contains(&spot.key())).collect();
        if request.direction == Direction::Reverse {
            spots.reverse();
        }
        spots
    }

    /// A window on rows of `writers`.
    pub(crate) fn window(&self, writers: impl IntoIterator<Item = u8>) -> Window<'_> {
        let mut from = vec![None; self.ledgers.len()];
        for writer in writers.into_iter().map(usize::from) {
            if from[writer].is_none() {
                let mut ledger = self.ledgers[writer].lock();
                let acked = ledger.acked;
                *ledger.holds.entry(acked).or_default() += 1;
                from[writer] = Some(acked);
            }
        }
        Window { expected: self, from, until: None }
    }

    /// A window on all rows.
    pub(crate) fn window_on_all(&self) -> Window<'_> {
        self.window(0..self.ledgers.len() as u8)
    }

    /// The tree at `slot` is another one now, and empty. Nobody writes meanwhile.
    pub(crate) fn replace_tree(&self, slot: u8, tree: engine::TreeId) {
        self.trees[usize::from(slot)].store(tree.0, Ordering::Relaxed);
        for ledger in &self.ledgers {
            let mut ledger = ledger.lock();
            let number = ledger.acked;
            let rows = &mut ledger.rows[usize::from(slot)];
            rows.fill(History(vec![(number, Box::default())]));
        }
    }

    /// Begins `batch` in its writer's ledger.
    pub(crate) fn begin(&self, batch: &Batch) {
        let grown = self.ledgers[usize::from(batch.writer)].lock().begin(batch);
        self.grown.fetch_add(grown, Ordering::Relaxed);
    }

    /// Settles after a crash, when all was seen, which batch each writer's rows are at.
    pub(crate) fn settle(&self, possible: &Possible) {
        for (writer, possible) in possible {
            let mut ledger = self.ledgers[usize::from(*writer)].lock();
            // A batch that changes nothing fits both ways: it was not acknowledged.
            if possible.iter().any(|(first, last)| (*first..=*last).contains(&ledger.acked)) {
                ledger.forget_begun();
            } else {
                ledger.acknowledge();
            }
        }
    }
}

impl Window<'_> {
    /// What is begun from now on cannot be seen.
    pub(crate) fn close(&mut self) {
        let begun = |ledger: &Mutex<Ledger>| ledger.lock().begun;
        self.until = Some(self.expected.ledgers.iter().map(begun).collect());
    }

    /// Whether what was seen at one moment was there. The error says of which row it was not.
    pub(crate) fn judge(&self, question: &Question, seen: &[Sighting]) -> Result<(), String> {
        let possible = &mut Possible::new();
        seen.iter().try_for_each(|sighting| self.judge_more(question, sighting, possible))
    }

    /// The same of one more row that was seen at that moment: narrows what is `possible` after the
    /// others.
    pub(crate) fn judge_more(
        &self,
        question: &Question,
        Sighting { spot, cells }: &Sighting,
        possible: &mut Possible,
    ) -> Result<(), String> {
        let writer = usize::from(spot.writer);
        let from = self.from[writer].expect("the window is on this writer");
        let ledger = self.expected.ledgers[writer].lock();
        let until = self.until.as_ref().map(|until| until[writer]);
        let window = (from, until.unwrap_or(ledger.begun));
        let possible = possible.entry(spot.writer).or_insert_with(|| vec![window]);
        let fits = ledger.fits(*spot, question, cells, window);
        let both = |a: (u64, u64), b: (u64, u64)| (a.0.max(b.0), a.1.min(b.1));
        let pairs = possible.iter().flat_map(|a| fits.iter().map(move |b| both(*a, *b)));
        let left: Vec<(u64, u64)> = pairs.filter(|(first, last)| first <= last).collect();
        if left.is_empty() {
            return Err(ledger.tell(*spot, question, cells, possible, &fits, window));
        }
        *possible = left;
        Ok(())
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        for (ledger, from) in self.expected.ledgers.iter().zip(&self.from) {
            let Some(from) = from else { continue };
            let mut ledger = ledger.lock();
            if let Some(count) = ledger.holds.get_mut(from) {
                *count -= 1;
                if *count == 0 {
                    ledger.holds.remove(from);
                }
            }
        }
    }
}

impl Ledger {
    /// In what a row that was seen is not as it should be.
    fn tell(
        &self,
        spot: Spot,
        question: &Question,
        seen: &[CellState],
        others: &[(u64, u64)],
        fits: &[(u64, u64)],
        window: (u64, u64),
    ) -> String {
        let (key, slot, writer) = (spot.key(), spot.slot, spot.writer);
        let key = key.escape_ascii();
        let head = format!("tree {slot}, row {key}, batches {window:?} of writer {writer}");
        if !fits.is_empty() {
            return format!(
                "{head}: half a batch: this row is as after {fits:?}, others as after {others:?}"
            );
        }
        let History(states) = &self.rows[usize::from(slot)][usize::from(spot.row)];
        let state = states.iter().rev().find(|(since, _)| *since <= window.1);
        let (since, cells) = state.expect("states begin before every window");
        let expected: Vec<CellState> = question.select(cells).collect();
        let (len, count) = (seen.len(), expected.len());
        let at = (0..len.max(count)).find(|at| seen.get(*at) != expected.get(*at));
        let at = at.unwrap_or(0);
        format!(
            "{head}: {len} cells, of which cell {at} is {:?}; after batch {since} it is {:?} of \
             {count}; {question:?}",
            seen.get(at),
            expected.get(at)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: Field = Field { seed: 3, slots: 2, rows: 64 };

    fn expected() -> Expected {
        let ledger = || Mutex::new(Ledger::new(0, vec![vec![Box::default(); 64]; 2]));
        let trees = vec![AtomicU32::new(1), AtomicU32::new(2)];
        let ledgers = vec![ledger(), ledger()];
        Expected { field: FIELD, ledgers, trees, grown: Arc::default() }
    }

    /// Takes batches up to `number` of writer 0, the last of which is begun only.
    fn go(expected: &Expected, number: u64) {
        let next = expected.ledgers[0].lock().begun + 1;
        for number in next..=number {
            expected.ledgers[0].lock().acknowledge();
            expected.begin(&Batch::draw(FIELD, 0, number));
        }
    }

    /// All rows of writer 0 after batch `number`.
    fn state(number: u64) -> Vec<Sighting> {
        let mut rows = vec![vec![Vec::new(); 64]; 2];
        for number in 1..=number {
            let batch = Batch::draw(FIELD, 0, number);
            for row in batch.rows() {
                batch.apply(row, &mut rows[usize::from(batch.slot)][usize::from(row)]);
            }
        }
        let sighting = |slot, (row, cells): (u16, &Vec<CellState>)| Sighting {
            spot: Spot { slot, writer: 0, row },
            cells: cells.clone(),
        };
        let of_slot =
            |slot: u8| (0..64).zip(&rows[usize::from(slot)]).map(move |it| sighting(slot, it));
        (0..2).flat_map(of_slot).collect()
    }

    #[test]
    fn a_read_may_see_what_was_there_while_it_went_on_and_nothing_else() {
        let expected = expected();
        go(&expected, 50);
        let mut window = expected.window([0]);
        go(&expected, 60);
        window.close();
        go(&expected, 70);
        for number in 40..80 {
            let judged = window.judge(&Question::ALL, &state(number));
            assert_eq!(judged.is_ok(), (49..=60).contains(&number), "{number}: {judged:?}");
        }
    }

    #[test]
    fn half_a_batch_is_found_out() {
        let changes = |number: &u64| Batch::draw(FIELD, 0, *number).rows().len();
        let number = (100..300).find(|number| changes(number) > 5).unwrap();
        let expected = expected();
        go(&expected, number);
        let window = expected.window([0]);
        let (before, after) = (state(number - 1), state(number));
        assert!(window.judge(&Question::ALL, &before).is_ok());
        assert!(window.judge(&Question::ALL, &after).is_ok());
        let changed = before.iter().zip(&after).position(|(a, b)| a.cells != b.cells).unwrap();
        let mut half = before;
        half[changed] = after[changed].clone();
        let judged = window.judge(&Question::ALL, &half).unwrap_err();
        assert!(judged.contains("half a batch"), "{judged}");
    }

    #[test]
    fn a_cell_from_nowhere_and_a_missing_one_are_found_out() {
        let expected = expected();
        go(&expected, 100);
        let window = expected.window([0]);
        let mut seen = state(100);
        let full = seen.iter().position(|sighting| sighting.cells.len() > 2).unwrap();
        let cell = seen[full].cells.remove(1);
        let judged = window.judge(&Question::ALL, &seen).unwrap_err();
        assert!(judged.contains("cells, of which cell 1 is"), "{judged}");
        seen[full].cells.insert(1, CellState { content: cell.content ^ 1, ..cell });
        assert!(window.judge(&Question::ALL, &seen).is_err());
        seen[full].cells[1] = cell;
        assert!(window.judge(&Question::ALL, &seen).is_ok());
    }

    #[test]
    fn what_a_crash_undid_is_settled_and_its_number_not_used_again() {
        for undone in [true, false] {
            let expected = expected();
            go(&expected, 20);
            let mut possible = Possible::new();
            let seen = state(if undone { 19 } else { 20 });
            let window = expected.window([0]);
            seen.iter()
                .try_for_each(|row| window.judge_more(&Question::ALL, row, &mut possible))
                .unwrap();
            drop(window);
            expected.settle(&possible);
            let window = expected.window([0]);
            assert!(window.judge(&Question::ALL, &seen).is_ok());
            let other = state(if undone { 20 } else { 19 });
            assert!(window.judge(&Question::ALL, &other).is_err());
            assert_eq!(expected.ledgers[0].lock().next(), 21);
        }
    }

    #[test]
    fn states_that_no_window_holds_are_forgotten() {
        let expected = expected();
        go(&expected, 3000);
        let bytes = expected.grown.load(Ordering::Relaxed);
        let window = expected.window([0]);
        go(&expected, 6000);
        let held = expected.grown.load(Ordering::Relaxed);
        assert!(held > 2 * bytes, "{held} bytes while a window is open, {bytes} before");
        drop(window);
        go(&expected, 9000);
        let after = expected.grown.load(Ordering::Relaxed);
        assert!(after < 2 * bytes, "{after} bytes after, {bytes} before");
    }
}
