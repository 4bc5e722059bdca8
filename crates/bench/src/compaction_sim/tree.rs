//! A tree of sizes only, compacted by the engine's own picks.
//!
//! Invariant: a file says how many bytes of rows it has, and they are spread evenly over its span.
//! So the bytes of a merge follow from the spans of its inputs alone.

use super::Shown;
use engine::internals::FileNumber;
use engine::internals::LEVELS;
use engine::internals::Signals;
use engine::internals::Splitter;
use engine::internals::{Busy, Destination, L1Target, Plan, Work, is_full, pick};
use engine::internals::{Run, RunId, SstMeta, TreeVersion};
use engine::{Options, SequenceNumber, Timestamp, TreeOptions};
use std::sync::Arc;

/// Compactions at a time, as in the engine.
const COMPACTIONS_MAX: usize = 2;
/// Parts of a file's size in which a merge goes on.
const STEPS: u64 = 8;

/// Bytes a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) write: f64,
    /// Of one compaction.
    pub(super) compact: f64,
}

/// See the file header.
pub(super) struct SimTree {
    options: Options,
    rates: Rates,
    /// Bytes of all rows there can be.
    universe: f64,
    version: TreeVersion,
    busy: Busy,
    running: Vec<Running>,
    /// A memtable waits for its flush.
    waits: bool,
    next_file: u64,
    now: f64,
    figures: Figures,
}

struct Running {
    plan: Plan,
    outputs: Vec<SstMeta>,
    ends: f64,
}

#[derive(Default)]
struct Figures {
    since: f64,
    flushed: f64,
    compacted: f64,
    run_seconds: f64,
    runs_max: u64,
    stopped: f64,
    bytes_max: f64,
}

/// Rows are numbers, in order of their bytes.
fn row(at: f64) -> Vec<u8> {
    ((at * u64::MAX as f64) as u64).to_be_bytes().to_vec()
}

fn place(row: &[u8]) -> f64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&row[..8]);
    u64::from_be_bytes(bytes) as f64 / u64::MAX as f64
}

/// The span of a file, as parts of all rows.
fn span(sst: &SstMeta) -> (f64, f64) {
    (place(&sst.first_row), place(&sst.last_row))
}

impl SimTree {
    /// A tree with all rows in the last level.
    pub(super) fn new(bytes: u64, options: Options, rates: Rates) -> Self {
        let files = (bytes / options.sst_bytes_max).max(1);
        let mut tree = Self {
            options,
            rates,
            universe: bytes as f64,
            version: TreeVersion::empty(TreeOptions::default()),
            busy: Busy::default(),
            running: Vec::new(),
            waits: false,
            next_file: 1,
            now: 0.0,
            figures: Figures::default(),
        };
        let at = |index: u64| index as f64 / files as f64;
        let ssts = (0..files).map(|index| {
            let (from, to) = (at(index), at(index + 1));
            Arc::new(tree.file(from, to, bytes as f64 / files as f64))
        });
        let ssts = ssts.collect();
        tree.version.levels[LEVELS - 1].push(Run { id: RunId(0), ssts });
        tree
    }

    fn file(&mut self, from: f64, to: f64, bytes: f64) -> SstMeta {
        let number = FileNumber(self.next_file);
        self.next_file += 1;
        let first_row = row(from);
        // Behind the first row and before the next file's.
        let last_row = row(to - (to - from) * 1e-3).max(first_row.clone());
        let bytes = (bytes as u64).max(1);
        SstMeta {
            number,
            bytes,
            first_row,
            last_row,
            entries: bytes,
            tombstones: 0,
            range_tombstones: 0,
            dropped: None,
            sequence_min: SequenceNumber(0),
            sequence_max: SequenceNumber(0),
            timestamp_min: Timestamp(0),
            timestamp_max: Timestamp(0),
        }
    }

    /// Flushes that fill level 1 once.
    pub(super) fn flushes_of_a_round(&self) -> u64 {
        let target = L1Target::over(self.universe as u64, &self.options).sum();
        (target / self.options.memtable_bytes_max as u64).max(8)
    }

    /// Forgets all figures.
    pub(super) fn forget(&mut self) {
        self.figures = Figures { since: self.now, ..Figures::default() };
    }

    /// Writes so many memtables. One fills while the one before it waits for its flush.
    pub(super) fn run(&mut self, flushes: u64) {
        for _ in 0..flushes {
            self.pass(self.options.memtable_bytes_max as f64 / self.rates.write);
            let stopped_at = self.now;
            while self.waits {
                let next = self.running.iter().map(|one| one.ends).fold(f64::INFINITY, f64::min);
                self.pass(next - self.now);
            }
            self.figures.stopped += self.now - stopped_at;
            self.waits = true;
            self.flush();
        }
    }

    /// What was seen since `forget`.
    pub(super) fn shown(&self) -> Shown {
        let figures = &self.figures;
        let time = self.now - figures.since;
        Shown {
            write_amplification: (figures.flushed + figures.compacted) / figures.flushed,
            space_amplification: figures.bytes_max / self.universe,
            runs_mean: figures.run_seconds / time,
            runs_max: figures.runs_max,
            stopped: figures.stopped / time,
        }
    }

    /// Lets time pass, and compactions end as it does.
    fn pass(&mut self, seconds: f64) {
        let until = self.now + seconds;
        loop {
            self.running.sort_by(|a, b| b.ends.total_cmp(&a.ends));
            let ends = self.running.last().map_or(f64::INFINITY, |one| one.ends).min(until);
            let runs = self.version.runs().count() as u64;
            self.figures.run_seconds += runs as f64 * (ends - self.now);
            self.figures.runs_max = self.figures.runs_max.max(runs);
            self.now = ends;
            match self.running.pop_if(|one| one.ends <= until) {
                Some(one) => self.install(one),
                None => return,
            }
        }
    }

    /// Flushes the memtable that waits, if there is a place for its run.
    fn flush(&mut self) {
        if !self.waits || is_full(&self.version, &self.options, &self.busy) {
            return;
        }
        self.waits = false;
        let bytes = self.options.memtable_bytes_max as f64;
        let (sst, id) = (self.file(0.0, 1.0, bytes), self.version.next_run());
        self.version.levels[0].insert(0, Run { id, ssts: vec![Arc::new(sst)] });
        self.figures.flushed += bytes;
        self.start();
    }

    /// Starts what is due.
    fn start(&mut self) {
        while self.running.len() < COMPACTIONS_MAX {
            let picked = pick(&self.version, &self.options, &self.busy, &Signals::default());
            let Some((plan, _)) = picked else { return };
            self.busy.start(&plan);
            let outputs = match plan.work {
                Work::Move => plan.ssts().map(|sst| SstMeta::clone(sst)).collect(),
                Work::Merge => self.merge(&plan),
            };
            let written: u64 = match plan.work {
                Work::Move => 0,
                Work::Merge => outputs.iter().map(|sst| sst.bytes).sum(),
            };
            self.figures.compacted += written as f64;
            let moved = if plan.work == Work::Move { 0 } else { plan.bytes() + written };
            let ends = self.now + moved as f64 / (2.0 * self.rates.compact);
            // Inputs stay until the outputs are there.
            let all: u64 = self.version.runs().map(Run::bytes).sum();
            let outputs_of = |one: &Running| match one.plan.work {
                Work::Move => 0,
                Work::Merge => one.outputs.iter().map(|sst| sst.bytes).sum(),
            };
            let running: u64 = self.running.iter().map(outputs_of).sum();
            let bytes = (all + running + written) as f64;
            self.figures.bytes_max = self.figures.bytes_max.max(bytes);
            self.running.push(Running { plan, outputs, ends });
        }
    }

    fn install(&mut self, one: Running) {
        let Running { plan, outputs, .. } = one;
        self.busy.finish(&plan);
        let gone: Vec<FileNumber> = plan.ssts().map(|sst| sst.number).collect();
        for run in self.version.levels.iter_mut().flatten() {
            run.ssts.retain(|sst| !gone.contains(&sst.number));
        }
        let (level, id) = plan.place();
        let runs = &mut self.version.levels[level];
        let at = runs.iter().position(|run| run.id <= id).unwrap_or(runs.len());
        if runs.get(at).is_none_or(|run| run.id != id) {
            runs.insert(at, Run { id, ssts: Vec::new() });
        }
        runs[at].ssts.extend(outputs.into_iter().map(Arc::new));
        runs[at].ssts.sort_by(|a, b| a.first_row.cmp(&b.first_row));
        self.version.levels.iter_mut().for_each(|runs| runs.retain(|run| !run.ssts.is_empty()));
        self.start();
        self.flush();
    }

    /// What `plan` writes: its inputs with each row once, cut as the engine cuts them.
    fn merge(&mut self, plan: &Plan) -> Vec<SstMeta> {
        let borders = borders(plan);
        let (cuts, below) = (plan.cuts.clone(), plan.below.clone());
        let mut splitter = Splitter::new(&self.options, cuts, below);
        let (mut outputs, mut begin, mut bytes) = (Vec::new(), None, 0.0);
        for pair in borders.windows(2) {
            let density = self.density(plan, (pair[0] + pair[1]) / 2.0);
            let all = density * self.universe * (pair[1] - pair[0]);
            let steps = (all / (self.options.sst_bytes_max / STEPS) as f64).ceil().max(1.0);
            for step in 0..steps as u64 {
                let at = pair[0] + (pair[1] - pair[0]) * step as f64 / steps;
                let here = row(at);
                let mut cut = false;
                while splitter.next_cut(Some(&here)).is_some() {
                    cut = true;
                }
                if (cut || splitter.is_full(&here, bytes as u64))
                    && let Some(from) = begin.take()
                {
                    outputs.push(self.file(from, at, std::mem::take(&mut bytes)));
                }
                if density > 0.0 {
                    begin.get_or_insert(at);
                    bytes += all / steps;
                }
            }
        }
        if let (Some(from), Some(to)) = (begin, borders.last()) {
            outputs.push(self.file(from, *to, bytes));
        }
        debug_assert!(plan.destination == Destination::LastRun || !outputs.is_empty());
        outputs
    }

    /// What part of the rows around `at` the inputs of `plan` have, each counted once.
    fn density(&self, plan: &Plan, at: f64) -> f64 {
        let mut absent = 1.0;
        for run in &plan.inputs {
            let inside = run.ssts.iter().find(|sst| {
                let (from, to) = span(sst);
                from <= at && at < to
            });
            if let Some(sst) = inside {
                let (from, to) = span(sst);
                let all = (to - from) * self.universe;
                absent *= 1.0 - (sst.bytes as f64 / all).min(1.0);
            }
        }
        1.0 - absent
    }
}

/// Where any input begins or ends, ascending.
fn borders(plan: &Plan) -> Vec<f64> {
    let ends = plan.ssts().flat_map(|sst| <[f64; 2]>::from(span(sst)));
    let mut borders: Vec<f64> = ends.collect();
    borders.sort_by(f64::total_cmp);
    borders.dedup();
    borders
}
