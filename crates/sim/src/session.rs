//! A user at work on one engine: takes the steps of a history, and knows what must be there.
//!
//! Invariants:
//! 1. Whatever the engine acknowledged is in the oracle. What it refused with `NoSpace` or
//!    `Unavailable` is not.
//! 2. What failed in a way that leaves open whether it counts is in flight until the next open:
//!    of batches at most one, as a batch that is committed later takes its numbers.

use crate::apis;
use crate::machine::Machine;
use crate::oracle::{self, Commit, Oracle, Trouble};
use crate::workload::Step;
use base::env::Rng;
use engine::ScanRequest;
use engine::WriteBatch;
use engine::elision_policy::{ElisionPolicy, ElisionRules, Verdict};
use engine::internals::{FrozenBatch, Mutation};
use engine::{Durability, Options};
use engine::{Engine, Error, IngestFiles, IngestOptions, Snapshot, SortOptions};
use engine::{FamilyId, SequenceNumber, Timestamp, TreeId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PIECES: &str = "subcompactions_total";

/// Changes of which nobody knows whether they happened.
#[derive(Debug, Default)]
struct InFlight {
    commit: Option<Commit>,
    /// Trees whose creation or removal failed.
    trees: BTreeSet<TreeId>,
}

/// Steps in which compactions were divided into pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Divided {
    /// All of them.
    pub steps: u64,
    /// Those during which the power went, or a call of the file system failed.
    pub struck: u64,
    /// Those with snapshots held.
    pub with_snapshots: u64,
}

impl AddAssign for Divided {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.struck += other.struck;
        self.with_snapshots += other.with_snapshots;
    }
}

/// Lets older cells vanish.
#[derive(Clone, Copy)]
struct Expire(Timestamp);

impl ElisionRules for Expire {
    fn policy(&self, _: i64) -> Box<dyn ElisionPolicy> {
        Box::new(*self)
    }
}

impl ElisionPolicy for Expire {
    fn verdict(&self, _: FamilyId, _: u32, timestamp: Timestamp) -> Verdict {
        if timestamp < self.0 { Verdict::Elide } else { Verdict::Keep }
    }
}

/// See the file header.
pub struct Session {
    machine: Machine,
    dir: PathBuf,
    options: Options,
    engine: Option<Engine>,
    snapshots: Vec<Snapshot>,
    oracle: Oracle,
    in_flight: InFlight,
    divided: Divided,
    /// What compactions may elide, of every tree.
    rules: Option<Arc<dyn ElisionRules>>,
}

impl Session {
    /// A session in a new data directory, not yet opened.
    pub fn new(machine: Machine, dir: &Path, options: Options) -> Self {
        Self {
            machine,
            dir: dir.to_owned(),
            options,
            engine: None,
            snapshots: Vec::new(),
            oracle: Oracle::default(),
            in_flight: InFlight::default(),
            divided: Divided::default(),
            rules: None,
        }
    }

    /// Lets compactions remove cells older than `timestamp`; no answer is judged by them.
    pub fn expiring(mut self, timestamp: Timestamp) -> Self {
        self.oracle = Oracle::expiring(timestamp);
        self.rules = Some(Arc::new(Expire(timestamp)));
        self
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Options for the next opening.
    pub fn set_options(&mut self, options: Options) {
        self.options = options;
    }

    /// What must be there.
    pub fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    /// Returns whether the engine is open.
    pub fn is_open(&self) -> bool {
        self.engine.is_some()
    }

    /// The engine, which is open.
    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the session is open")
    }

    /// Opens the engine, and settles what of the history before is there.
    pub fn open(&mut self) -> Result<(), Trouble> {
        assert!(self.engine.is_none(), "open twice");
        let engine = Engine::open_with_env(self.machine.env(), &self.dir, self.options.clone())?;
        let in_flight = std::mem::take(&mut self.in_flight);
        let found = engine.trees();
        for tree in in_flight.trees {
            match (self.oracle.has(tree), found.contains(&tree)) {
                (false, true) => self.oracle.create(tree),
                (true, false) => self.oracle.drop_tree(tree),
                _ => {}
            }
        }
        self.oracle.compare_trees(&engine)?;
        let last = engine.snapshot().sequence();
        self.oracle.recovered(in_flight.commit, last, &oracle::content(&engine)?)?;
        for tree in engine.trees() {
            self.set_rules(&engine, tree)?;
        }
        self.engine = Some(engine);
        Ok(())
    }

    /// Lets go of the engine, which closes it as well as it can.
    pub fn abandon(&mut self) {
        self.snapshots.clear();
        self.engine = None;
    }

    /// Loses power, unless it is out already, and starts the machine again with what survived.
    pub fn lose_power(&mut self) {
        if !self.machine.power_is_out() {
            self.machine.lose_power();
        }
        self.abandon();
        self.machine.restore_power();
    }

    /// Closes the engine.
    pub fn close(&mut self) -> Result<(), Trouble> {
        self.snapshots.clear();
        let Some(engine) = self.engine.take() else { return Ok(()) };
        engine.close()?;
        self.oracle.all_durable();
        Ok(())
    }

    /// Compares everything, now and at each of the snapshots kept.
    pub fn check(&self) -> Result<(), Trouble> {
        self.oracle.compare(self.engine())?;
        for snapshot in &self.snapshots {
            self.oracle.compare_at(self.engine(), snapshot)?;
        }
        Ok(())
    }

    /// What became of compactions that were divided, in all steps so far.
    pub fn divided(&self) -> Divided {
        self.divided
    }

    /// The engine's metric called `name`; 0 if it is not open.
    pub fn metric(&self, name: &str) -> u64 {
        self.engine.as_ref().map_or(0, |engine| engine.metrics().get(name).expect("it is counted"))
    }

    /// Takes one step. Steps that make no sense now, such as writing to a tree that is not there,
    /// are passed over.
    pub fn step(&mut self, step: &Step) -> Result<(), Trouble> {
        let before = (self.metric(PIECES), self.machine.accidents(), self.snapshots.len());
        let outcome = self.take(step);
        if self.metric(PIECES) > before.0 {
            self.divided += Divided {
                steps: 1,
                struck: u64::from(self.machine.accidents() > before.1),
                with_snapshots: u64::from(before.2 > 0),
            };
        }
        outcome
    }

    fn take(&mut self, step: &Step) -> Result<(), Trouble> {
        match step {
            Step::Write(tree, batch) if self.oracle.has(*tree) => {
                let commit = self.oracle.next(*tree, batch);
                let written = self.engine().tree(*tree).and_then(|tree| tree.write(batch));
                self.wrote(commit, written)
            }
            Step::Ingest(tree, cells, options) if self.oracle.has(*tree) => {
                let commit = self.oracle.next_ingest(*tree, cells);
                let mut files = self.write_sorted(*tree, cells, options)?;
                let ingested = self.engine().ingest(&mut files);
                self.wrote(commit, ingested)?;
                self.oracle.all_durable();
                Ok(())
            }
            Step::Create(tree, options) if !self.oracle.was_used(*tree) => {
                let created = self.engine().create_tree(*tree, options.clone());
                self.changed_trees(*tree, created.map(drop))?;
                self.set_rules(self.engine(), *tree)?;
                self.oracle.create(*tree);
                Ok(())
            }
            Step::Drop(tree) if self.oracle.has(*tree) => {
                let dropped = self.engine().drop_tree(*tree);
                self.changed_trees(*tree, dropped)?;
                self.oracle.drop_tree(*tree);
                Ok(())
            }
            Step::Sort(tree, cells, memory_bytes) if self.oracle.has(*tree) => {
                let commit = self.oracle.next_ingest(*tree, cells);
                let mut files = self.sort(*tree, cells, *memory_bytes)?;
                let ingested = self.engine().ingest(&mut files);
                self.wrote(commit, ingested)?;
                self.oracle.all_durable();
                Ok(())
            }
            Step::Write(..)
            | Step::Ingest(..)
            | Step::Sort(..)
            | Step::Create(..)
            | Step::Drop(..) => Ok(()),
            Step::Reopen => {
                self.close()?;
                self.open()?;
                self.check()
            }
            other => self.quiet_step(other),
        }
    }

    /// A step that changes nothing a reader can see.
    fn quiet_step(&mut self, step: &Step) -> Result<(), Trouble> {
        match step {
            Step::Flush(tree) if self.oracle.has(*tree) => {
                self.engine().tree(*tree)?.flush()?;
                self.oracle.tree_durable(*tree);
            }
            Step::Compact(tree, rows) if self.oracle.has(*tree) => {
                self.engine().tree(*tree)?.compact_range(rows)?;
                self.oracle.tree_durable(*tree);
            }
            Step::Sync => {
                self.engine().sync()?;
                self.oracle.all_durable();
            }
            Step::TakeSnapshot => {
                let snapshot = self.engine().snapshot();
                let (found, expected) = (snapshot.sequence(), self.oracle.last());
                if found != expected {
                    return Err(format!("a snapshot at {found:?}, not {expected:?}").into());
                }
                self.snapshots.push(snapshot);
            }
            Step::DropSnapshot(which) if !self.snapshots.is_empty() => {
                self.snapshots.remove(which % self.snapshots.len());
            }
            Step::Ask(tree, request, which) if self.oracle.has(*tree) => {
                self.ask(*tree, request, *which)?;
            }
            Step::Work(jobs) => {
                (0..*jobs).for_each(|_| self.machine.work());
            }
            Step::Wait(time) => self.machine.wait(*time),
            _ => {}
        }
        Ok(())
    }

    /// Asks for every column and row of `tree`, now and at one of the snapshots kept, in every way
    /// there is.
    pub fn ask_for_all(&self, tree: TreeId, rng: &mut Rng) -> Result<(), Trouble> {
        apis::ask_for_all(&self.oracle, self.engine(), tree, None, rng)?;
        if !self.snapshots.is_empty() {
            let snapshot = &self.snapshots[rng.index(self.snapshots.len())];
            apis::ask_for_all(&self.oracle, self.engine(), tree, Some(snapshot), rng)?;
        }
        Ok(())
    }

    /// Asks about some rows and columns of `tree`, now and at one of the snapshots kept, in every
    /// way there is.
    pub fn ask_every_way(&self, tree: TreeId, rng: &mut Rng) -> Result<(), Trouble> {
        apis::ask(&self.oracle, self.engine(), tree, None, rng)?;
        if !self.snapshots.is_empty() {
            let snapshot = &self.snapshots[rng.index(self.snapshots.len())];
            apis::ask(&self.oracle, self.engine(), tree, Some(snapshot), rng)?;
        }
        Ok(())
    }

    fn ask(&self, tree: TreeId, request: &ScanRequest, which: usize) -> Result<(), Trouble> {
        self.oracle.ask(self.engine(), tree, request, None)?;
        if !self.snapshots.is_empty() {
            let snapshot = &self.snapshots[which % self.snapshots.len()];
            self.oracle.ask(self.engine(), tree, request, Some(snapshot))?;
        }
        Ok(())
    }

    /// Writes `cells` for an ingest.
    fn write_sorted(
        &self,
        tree: TreeId,
        cells: &WriteBatch,
        options: &IngestOptions,
    ) -> engine::Result<IngestFiles> {
        let mut writer = self.engine().tree(tree)?.sst_writer(options)?;
        for cell in cells.mutations(SequenceNumber(0)) {
            let Mutation::Entry { row, entry } = cell else { continue };
            writer.put(row, entry.column, entry.timestamp, entry.value)?;
        }
        writer.finish()
    }

    /// Writes `cells` for an ingest, sorted by the engine, which gets their rows in another order.
    fn sort(
        &self,
        tree: TreeId,
        cells: &WriteBatch,
        memory_bytes: usize,
    ) -> engine::Result<IngestFiles> {
        let mut rows: BTreeMap<Vec<u8>, WriteBatch> = BTreeMap::new();
        for cell in cells.mutations(SequenceNumber(0)) {
            let Mutation::Entry { row, entry } = cell else { continue };
            let of_row = rows.entry(row.to_vec()).or_default();
            of_row.put(row, entry.column, entry.timestamp, entry.value);
        }
        let mut sorter = self.engine().row_sorter(&SortOptions { memory_bytes })?;
        // Every other one, and then the rest from behind.
        let order = rows.iter().step_by(2).chain(rows.iter().rev().skip(rows.len() % 2).step_by(2));
        for (row, batch) in order {
            let frozen =
                batch.freeze().map_err(|error| Error::InvalidArgument(error.to_string()))?;
            sorter.add(row, frozen.encoding())?;
        }
        let mut sorted = sorter.finish()?;
        let mut writer = self.engine().tree(tree)?.sst_writer(&IngestOptions::default())?;
        while let Some((row, payload)) = sorted.next_row()? {
            let batch = FrozenBatch::decode(payload);
            let batch = batch.map_err(|error| Error::InvalidArgument(error.to_string()))?;
            for cell in batch.mutations(SequenceNumber(0)) {
                let Mutation::Entry { entry, .. } = cell else { continue };
                writer.put(row, entry.column, entry.timestamp, entry.value)?;
            }
        }
        writer.finish()
    }

    fn set_rules(&self, engine: &Engine, tree: TreeId) -> engine::Result<()> {
        match &self.rules {
            Some(rules) => {
                engine.tree(tree).and_then(|tree| tree.set_elision_rules(Arc::clone(rules)))
            }
            None => Ok(()),
        }
    }

    fn wrote(
        &mut self,
        commit: Commit,
        written: engine::Result<engine::SequenceNumber>,
    ) -> Result<(), Trouble> {
        let expected = commit.last();
        let last = match written {
            Ok(last) => last,
            Err(error) => {
                let stopped = matches!(error, Error::WritesStopped(_));
                let refused = matches!(error, Error::NoSpace { .. } | Error::Unavailable(_));
                if !(refused || stopped && self.in_flight.commit.is_some()) {
                    self.in_flight.commit = Some(commit);
                }
                return Err(error.into());
            }
        };
        if last != expected {
            return Err(format!("a write ended at {last:?}, not {expected:?}").into());
        }
        self.in_flight.commit = None;
        self.oracle.commit(commit);
        if self.options.durability == Durability::Sync {
            self.oracle.all_durable();
        }
        Ok(())
    }

    fn changed_trees(&mut self, tree: TreeId, outcome: engine::Result<()>) -> Result<(), Trouble> {
        if let Err(error) = &outcome
            && !matches!(error, Error::NoSpace { .. })
        {
            self.in_flight.trees.insert(tree);
        }
        Ok(outcome?)
    }
}
