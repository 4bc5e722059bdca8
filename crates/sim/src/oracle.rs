//! What the engine must hold: every acknowledged step, told by the engine's own model.
//!
//! Invariants:
//! 1. `commits` are in the order of their numbers. A commit's first number follows `last` when it
//!    is made; numbers that were taken by batches that a power loss undid may be used again, or
//!    be left out.
//! 2. `durable` never exceeds `last`.

use engine::OwnedCell;
use engine::WriteBatch;
use engine::internals::Entry;
use engine::internals::Mutation;
use engine::internals::{Model, OwnedEntry, OwnedRow};
use engine::{Direction, RowRange, ScanRequest};
use engine::{Engine, Error, Result, Snapshot, StepBudget, Stepped};
use engine::{SequenceNumber, Timestamp, TreeId};
use std::collections::{BTreeMap, BTreeSet};

/// Why a step could not be taken.
#[derive(Debug)]
pub enum Trouble {
    /// The engine refused it. May be what the test wanted.
    Refused(Error),
    /// The engine broke a promise.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

/// A batch that was committed, or may have been.
#[derive(Debug, Clone)]
pub struct Commit {
    pub tree: TreeId,
    /// Its mutations.
    pub batch: WriteBatch,
    /// The number of its first mutation.
    pub first: SequenceNumber,
    /// True if it was ingested: all its mutations have that number.
    pub ingested: bool,
}

impl Commit {
    /// The number of its last mutation.
    pub fn last(&self) -> SequenceNumber {
        let more = if self.ingested { 0 } else { self.batch.len() as u64 - 1 };
        SequenceNumber(self.first.0 + more)
    }

    fn apply(&self, model: &mut Model) {
        if !self.ingested {
            return model.apply(&self.batch, self.first);
        }
        for mutation in self.batch.mutations(self.first) {
            let Mutation::Entry { row, entry } = mutation else {
                unreachable!("only cells are ingested")
            };
            model.add(row, OwnedEntry::copy_of(&Entry { sequence: self.first, ..entry }));
        }
    }
}

/// All that the trees show.
pub type Content = BTreeMap<TreeId, Vec<OwnedRow>>;

/// See the file header.
#[derive(Debug, Clone)]
pub struct Oracle {
    commits: Vec<Commit>,
    trees: BTreeMap<TreeId, Model>,
    used: BTreeSet<TreeId>,
    last: SequenceNumber,
    durable: SequenceNumber,
    /// Older cells count as gone.
    expired: Timestamp,
}

impl Oracle {
    /// An oracle that counts cells older than `expired` as gone: compactions may have removed them
    /// or not, and no answer is judged by them.
    pub fn expiring(expired: Timestamp) -> Self {
        Self { expired, ..Self::default() }
    }

    /// Older cells count as gone.
    pub fn shown_from(&self) -> Timestamp {
        self.expired
    }

    /// Returns whether a cell of `timestamp` counts.
    pub fn shows(&self, timestamp: Timestamp) -> bool {
        timestamp >= self.expired
    }

    /// Leaves out the cells that count as gone, and rows without others.
    fn shown(&self, mut rows: Vec<OwnedRow>) -> Vec<OwnedRow> {
        rows.retain_mut(|(_, cells)| {
            cells.retain(|cell| self.shows(cell.timestamp));
            !cells.is_empty()
        });
        rows
    }

    /// The trees that exist.
    pub fn trees(&self) -> impl Iterator<Item = TreeId> {
        self.trees.keys().copied()
    }

    /// Returns whether `tree` exists.
    pub fn has(&self, tree: TreeId) -> bool {
        self.trees.contains_key(&tree)
    }

    /// Returns whether the id may have been given away.
    pub fn was_used(&self, tree: TreeId) -> bool {
        self.used.contains(&tree)
    }

    /// The last number in use.
    pub fn last(&self) -> SequenceNumber {
        self.last
    }

    /// The batch that would be committed next.
    pub fn next(&self, tree: TreeId, batch: &WriteBatch) -> Commit {
        let first = SequenceNumber(self.last.0 + 1);
        Commit { tree, batch: batch.clone(), first, ingested: false }
    }

    /// The ingest of the cells in `batch` as it would be done next.
    pub fn next_ingest(&self, tree: TreeId, batch: &WriteBatch) -> Commit {
        Commit { ingested: true, ..self.next(tree, batch) }
    }

    /// `commit` is visible.
    pub fn commit(&mut self, commit: Commit) {
        assert_eq!(commit.first.0, self.last.0 + 1, "batches take consecutive numbers");
        self.last = commit.last();
        if let Some(model) = self.trees.get_mut(&commit.tree) {
            commit.apply(model);
        }
        self.commits.push(commit);
    }

    /// Everything so far must survive a power loss.
    pub fn all_durable(&mut self) {
        self.durable = self.last;
    }

    /// Everything written to `tree` must survive a power loss, and with it all that came before.
    pub fn tree_durable(&mut self, tree: TreeId) {
        let last = self.commits.iter().rfind(|commit| commit.tree == tree).map(Commit::last);
        self.durable = self.durable.max(last.unwrap_or_default());
    }

    /// A tree was created.
    pub fn create(&mut self, tree: TreeId) {
        self.used.insert(tree);
        self.trees.insert(tree, Model::default());
    }

    /// A tree was dropped.
    pub fn drop_tree(&mut self, tree: TreeId) {
        self.trees.remove(&tree);
    }

    /// What came back after a power loss or a clean close: `found`, and numbers up to `last` are
    /// taken. It must be what the trees held after some batch, not before the last durable one
    /// and at the latest after `in_flight`; later batches never happened. An error says what
    /// promise that breaks.
    pub fn recovered(
        &mut self,
        in_flight: Option<Commit>,
        last: SequenceNumber,
        found: &Content,
    ) -> Result<(), String> {
        let acknowledged = self.last;
        if let Some(commit) = in_flight {
            self.commit(commit);
        }
        if last < self.durable || last > self.last {
            let (durable, end, last) = (self.durable.0, self.last.0, last.0);
            return Err(format!("{last} is the last number; {durable} to {end} can be"));
        }
        let ends = self.commits.iter().rev().map(Commit::last);
        let ends = ends.take_while(|end| *end > self.durable).filter(|end| *end <= last);
        let mut ends = ends.chain([self.durable]);
        let Some(end) = ends.find(|end| self.first_difference(*end, found).is_none()) else {
            let what = self.first_difference(acknowledged.min(last), found).unwrap_or_default();
            let durable = self.durable.0;
            return Err(format!("not what was there after any batch from {durable} on: {what}"));
        };
        self.forget_after(end);
        (self.last, self.durable) = (last, last);
        Ok(())
    }

    fn first_difference(&self, at: SequenceNumber, found: &Content) -> Option<String> {
        let all = ScanRequest::rows(RowRange::ALL);
        found.iter().find_map(|(tree, rows)| {
            let difference = difference(&self.shown(rows.clone()), &self.answer(*tree, &all, at));
            difference.map(|what| format!("{tree:?} at {}: {what}", at.0))
        })
    }

    fn forget_after(&mut self, end: SequenceNumber) {
        let keep = self.commits.partition_point(|commit| commit.last() <= end);
        let lost: BTreeSet<TreeId> = self.commits.drain(keep..).map(|commit| commit.tree).collect();
        for tree in lost {
            if self.has(tree) {
                self.rebuild(tree);
            }
        }
    }

    fn rebuild(&mut self, tree: TreeId) {
        let mut model = Model::default();
        for commit in self.commits.iter().filter(|commit| commit.tree == tree) {
            commit.apply(&mut model);
        }
        self.trees.insert(tree, model);
    }

    /// What a scan must yield. The tree exists.
    pub fn answer(&self, tree: TreeId, request: &ScanRequest, at: SequenceNumber) -> Vec<OwnedRow> {
        self.shown(self.trees[&tree].scan(request, at))
    }

    /// Compares the list of trees.
    pub fn compare_trees(&self, engine: &Engine) -> Result<(), String> {
        let (found, expected): (Vec<TreeId>, Vec<TreeId>) =
            (engine.trees(), self.trees().collect());
        if found == expected {
            return Ok(());
        }
        Err(format!("trees {found:?} instead of {expected:?}"))
    }

    /// Compares all that `engine` holds, forwards and backwards.
    pub fn compare(&self, engine: &Engine) -> Result<(), Trouble> {
        self.compare_trees(engine)?;
        for tree in self.trees() {
            for direction in [Direction::Forward, Direction::Reverse] {
                let request = ScanRequest { direction, ..ScanRequest::rows(RowRange::ALL) };
                self.ask(engine, tree, &request, None)?;
            }
        }
        Ok(())
    }

    /// Compares all that `engine` shows at `snapshot`.
    pub fn compare_at(&self, engine: &Engine, snapshot: &Snapshot) -> Result<(), Trouble> {
        let all = ScanRequest::rows(RowRange::ALL);
        self.trees().try_for_each(|tree| self.ask(engine, tree, &all, Some(snapshot)))
    }

    /// Asks `engine` one question and compares.
    pub fn ask(
        &self,
        engine: &Engine,
        tree: TreeId,
        request: &ScanRequest,
        snapshot: Option<&Snapshot>,
    ) -> Result<(), Trouble> {
        let at = snapshot.map_or(self.last, Snapshot::sequence);
        let found = self.shown(answer(engine, tree, request, snapshot)?);
        let expected = self.answer(tree, request, at);
        match difference(&found, &expected) {
            None => Ok(()),
            Some(what) => Err(format!("{tree:?} {request:?} at {}: {what}", at.0).into()),
        }
    }
}

impl Default for Oracle {
    fn default() -> Self {
        Self {
            commits: Vec::new(),
            trees: BTreeMap::new(),
            used: BTreeSet::new(),
            last: SequenceNumber(0),
            durable: SequenceNumber(0),
            expired: Timestamp::MIN,
        }
    }
}

/// Units of work of the steps in which a question is answered: few, or more than any answer needs.
fn step_work(request: &ScanRequest) -> u64 {
    let asked = format!("{request:?}");
    match base::checksum::xxh3(asked.as_bytes()) % 12 {
        few @ 0..8 => few,
        _ => u64::MAX,
    }
}

/// All that a scan of `engine` yields, in steps.
pub fn answer(
    engine: &Engine,
    tree: TreeId,
    request: &ScanRequest,
    snapshot: Option<&Snapshot>,
) -> Result<Vec<OwnedRow>> {
    let mut scan = engine.tree(tree)?.scan(request, snapshot)?;
    let work = step_work(request);
    let mut rows: Vec<OwnedRow> = Vec::new();
    let mut in_row = false;
    loop {
        let mut budget = StepBudget::of_work(work);
        if let Some((_, cells)) = rows.last_mut().filter(|_| in_row) {
            match scan.next_cell_within(&mut budget)? {
                Stepped::Found(cell) => cells.push(OwnedCell {
                    family: cell.family,
                    qualifier: cell.qualifier.to_vec(),
                    timestamp: cell.timestamp,
                    value: cell.value.to_vec(),
                }),
                Stepped::End => in_row = false,
                Stepped::NotYet => {}
            }
            continue;
        }
        match scan.next_row_within(&mut budget)? {
            Stepped::Found(row) => {
                rows.push((row.to_vec(), Vec::new()));
                in_row = true;
            }
            Stepped::End => return Ok(rows),
            Stepped::NotYet => {}
        }
    }
}

/// All that `engine` shows.
pub fn content(engine: &Engine) -> Result<Content> {
    let all = ScanRequest::rows(RowRange::ALL);
    engine.trees().into_iter().map(|tree| Ok((tree, answer(engine, tree, &all, None)?))).collect()
}

/// Where two answers first differ, if they do.
pub fn difference(found: &[OwnedRow], expected: &[OwnedRow]) -> Option<String> {
    let at = (0..found.len().max(expected.len())).find(|at| found.get(*at) != expected.get(*at))?;
    let (found, expected) = (found.get(at), expected.get(at));
    let name = |row: Option<&OwnedRow>| {
        row.map_or("the end".to_owned(), |(row, cells)| {
            format!("row \"{}\" of {} cells", row.escape_ascii(), cells.len())
        })
    };
    if let (Some((a, left)), Some((b, right))) = (found, expected)
        && a == b
    {
        let cell = (0..left.len().max(right.len())).find(|at| left.get(*at) != right.get(*at))?;
        let print = |cell: Option<&OwnedCell>| {
            cell.map_or("no more cells".to_owned(), |cell| {
                let head = &cell.value[..cell.value.len().min(24)];
                format!(
                    "{}:\"{}\"@{} = {} bytes \"{}\"",
                    cell.family.0,
                    cell.qualifier.escape_ascii(),
                    cell.timestamp.0,
                    cell.value.len(),
                    head.escape_ascii()
                )
            })
        };
        return Some(format!(
            "row \"{}\", cell {cell}: found {}, expected {}",
            a.escape_ascii(),
            print(left.get(cell)),
            print(right.get(cell))
        ));
    }
    Some(format!("row {at}: found {}, expected {}", name(found), name(expected)))
}
