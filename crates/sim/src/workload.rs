//! Random histories: what a user might do with an engine, drawn from a seed.
//!
//! A history is made before it is run and does not depend on what the engine answers, so that the
//! same history can be run on many engines and cut at any place. Sizes are chosen so that, with
//! [`small_options`], a few hundred steps flush, compact, rotate and recycle the log many times.

use crate::names;
use base::env::Rng;
use engine::IngestOptions;
use engine::WriteBatch;
use engine::{Column, TreeId};
use engine::{Columns, Direction, QualifierRange, RowRange, ScanRequest};
use engine::{Compression, Durability, FilterGranularity, Options, TreeOptions};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// One thing the user does, or one that befalls the machine.
#[derive(Debug, Clone)]
pub enum Step {
    /// Commits a batch to a tree.
    Write(TreeId, WriteBatch),
    /// Ingests cells into a tree; they are in order.
    Ingest(TreeId, WriteBatch, IngestOptions),
    /// Ingests cells into a tree, which it has sorted first within so many bytes of memory.
    Sort(TreeId, WriteBatch, usize),
    Flush(TreeId),
    /// Compacts rows of a tree.
    Compact(TreeId, RowRange),
    Create(TreeId, TreeOptions),
    Drop(TreeId),
    /// Syncs the log.
    Sync,
    /// Takes a snapshot and keeps it.
    TakeSnapshot,
    /// Lets go of one of the snapshots kept, chosen by this number.
    DropSnapshot(usize),
    /// Reads now, and at one of the snapshots kept, chosen by the number.
    Ask(TreeId, Box<ScanRequest>, usize),
    /// The machine finds time for so many background jobs.
    Work(usize),
    /// Time passes.
    Wait(Duration),
    /// The engine is closed and opened again.
    Reopen,
}

/// What histories are like.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Number of steps.
    pub steps: usize,
    /// Longest ordinary value, in bytes.
    pub value_bytes_max: usize,
    /// Trees alive at once, at most.
    pub trees_max: usize,
    /// Likelihood of one reopening a step, in percent.
    pub reopen_percent: u64,
    /// One batch of so many is a wide row, and one a large value.
    pub odd_one_of: u64,
    /// By how much wide rows and large values are smaller than those that fill ordinary blocks.
    pub smaller: usize,
    /// Likelihood in percent that what is to be ingested has to be sorted first.
    pub sort_percent: u64,
}

impl Shape {
    /// For engines whose blocks, memtables and files are of a few rows.
    pub const SMALL: Self = Self {
        steps: 40,
        value_bytes_max: 120,
        trees_max: 3,
        reopen_percent: 2,
        odd_one_of: 8,
        smaller: 8,
        sort_percent: 40,
    };

    /// For engines with [`small_options`], and larger ones.
    pub const USUAL: Self = Self {
        steps: 240,
        value_bytes_max: 10_000,
        trees_max: 3,
        reopen_percent: 1,
        odd_one_of: 40,
        smaller: 1,
        sort_percent: 0,
    };
}

impl Default for Shape {
    fn default() -> Self {
        Self::USUAL
    }
}

/// The smallest options there are: everything happens as often as it can.
pub fn small_options(durability: Durability) -> Options {
    Options {
        durability,
        memtable_bytes_max: 64 << 10,
        memory_bytes_max: 4 << 20,
        cache_bytes_max: Some(1 << 20),
        log_segment_bytes: 64 << 10,
        l0_runs_compact: 2,
        l0_runs_stall: 4,
        sst_bytes_max: 64 << 10,
        l1_bytes_max: 128 << 10,
        ..Options::default()
    }
}

/// Options of a tree, at random over their ranges.
pub fn tree_options(rng: &mut Rng) -> TreeOptions {
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
    let granularities =
        [FilterGranularity::Row, FilterGranularity::Family, FilterGranularity::Column];
    // Generators of their own: known seeds draw what they drew before there were row prefixes, or learned
    // granularities.
    let mut apart = Rng::new(rng.clone().next_u64());
    let mut later = Rng::new(apart.clone().next_u64());
    let row_prefix_bytes = *apart.pick(&[0, 0, 1, 5, 6]);
    TreeOptions {
        block_bytes: *rng.pick(&[1 << 10, 1 << 10, 4 << 10, 16 << 10, 64 << 10]),
        compression: *rng.pick(&compressions),
        compression_last: *rng.pick(&compressions),
        filter_bits_per_key: *rng.pick(&[0, 4, 12, 32]),
        filter_granularity: Some(*rng.pick(&granularities)).filter(|_| !later.chance(25)),
        row_prefix_bytes,
        prefix_index: row_prefix_bytes > 0 && apart.chance(50),
    }
}

/// The history of `seed`.
pub fn history(seed: u64, shape: &Shape) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let work = *rng.pick(&[1, 3, 10, 20]);
    let mut author = Author { rng, shape, work, alive: Vec::new(), used: 0 };
    let mut steps = vec![author.create(), author.create()];
    while steps.len() < shape.steps {
        steps.push(author.step());
    }
    steps
}

struct Author<'a> {
    rng: Rng,
    shape: &'a Shape,
    /// How much time the machine finds for background work.
    work: u64,
    alive: Vec<TreeId>,
    used: u32,
}

impl Author<'_> {
    fn create(&mut self) -> Step {
        self.used += 1;
        let tree = TreeId(self.used);
        self.alive.push(tree);
        Step::Create(tree, tree_options(&mut self.rng))
    }

    fn tree(&mut self) -> TreeId {
        // The first tree gets most, so that it grows deep.
        let second = self.rng.index(self.alive.len());
        self.alive[if self.rng.chance(60) { 0 } else { second }]
    }

    fn step(&mut self) -> Step {
        let tree = self.tree();
        if self.rng.chance(self.shape.reopen_percent) {
            return Step::Reopen;
        }
        match self.rng.weighted(&[60, 4, 3, 1, 1, 3, 4, 3, 10, self.work, 2, 3]) {
            0 => Step::Write(tree, self.batch()),
            1 => Step::Flush(tree),
            2 => Step::Compact(tree, names::rows(&mut self.rng)),
            3 if self.alive.len() < self.shape.trees_max => self.create(),
            4 if self.alive.len() > 1 => {
                let index = self.rng.index(self.alive.len());
                Step::Drop(self.alive.remove(index))
            }
            5 => Step::Sync,
            6 => Step::TakeSnapshot,
            7 => Step::DropSnapshot(self.rng.index(100)),
            8 => Step::Ask(tree, Box::new(request(&mut self.rng)), self.rng.index(100)),
            9 => Step::Work(1 + self.rng.index(3)),
            10 => Step::Wait(Duration::from_millis(1 << self.rng.below(12))),
            _ => self.ingest(tree),
        }
    }

    fn ingest(&mut self, tree: TreeId) -> Step {
        let cells = self.sorted_cells();
        // A number is drawn only where it matters: known seeds draw what they always drew.
        if self.shape.sort_percent > 0 && self.rng.chance(self.shape.sort_percent) {
            return Step::Sort(tree, cells, 1 << self.rng.below(20));
        }
        Step::Ingest(tree, cells, ingest_options(&mut self.rng))
    }

    /// Cells for an ingest, in order: of a few rows of any place, or of many rows of one place
    /// where seldom anything else is; at times of several SSTables.
    fn sorted_cells(&mut self) -> WriteBatch {
        let rng = &mut self.rng;
        let place = rng.chance(50).then(|| format!("loaded-{}-", rng.below(20)));
        let large = rng.chance(20);
        let mut cells = BTreeMap::new();
        for _ in 0..1 + rng.below(30) {
            let row = match &place {
                Some(place) => format!("{place}{:03}", rng.below(100)).into_bytes(),
                None => names::row(rng),
            };
            let len = if large {
                (12 << 10) / self.shape.smaller
            } else {
                self.shape.value_bytes_max.min(2000)
            };
            let value = names::value(rng, len);
            let (family, qualifier) = (names::family(rng), names::qualifier(rng));
            let timestamp = names::timestamp(rng);
            cells.insert((row, family, qualifier, Reverse(timestamp)), value);
        }
        let mut batch = WriteBatch::new();
        for ((row, family, qualifier, Reverse(timestamp)), value) in cells {
            batch.put(&row, Column::of(family, &qualifier), timestamp, &value);
        }
        batch
    }

    fn batch(&mut self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        let rng = &mut self.rng;
        let smaller = self.shape.smaller;
        match rng.below(self.shape.odd_one_of) {
            // A row wider than a block.
            0 => {
                let (row, family) = (names::row(rng), names::family(rng));
                for index in 0..(100 + rng.below(200)) / smaller as u64 {
                    let qualifier = format!("wide-{index:04}");
                    let value = names::value(rng, (200 / smaller).max(40));
                    let column = Column::of(family, qualifier.as_bytes());
                    batch.put(&row, column, names::timestamp(rng), &value);
                }
            }
            // A value larger than a block, at times than a segment of the log.
            1 => {
                let (row, family) = (names::row(rng), names::family(rng));
                let len = ((10 << 10) << rng.below(4)) / smaller;
                let column = Column::of(family, b"large");
                let value = names::value(rng, 64).iter().copied().cycle().take(len).collect();
                let value: Vec<u8> = value;
                batch.put(&row, column, names::timestamp(rng), &value);
            }
            _ => return self::batch(rng, self.shape.value_bytes_max),
        }
        batch
    }
}

/// Options of an ingest, at random.
fn ingest_options(rng: &mut Rng) -> IngestOptions {
    let compressions = [None, Some(Compression::None), Some(Compression::Zstd)];
    IngestOptions { compression: *rng.pick(&compressions), filters: rng.chance(70) }
}

/// An ordinary batch: one to six mutations of any kind.
pub fn batch(rng: &mut Rng, value_bytes_max: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    while batch.is_empty() {
        (0..1 + rng.index(6)).for_each(|_| mutate(rng, &mut batch, value_bytes_max));
    }
    batch
}

/// Adds one mutation of any kind; nothing if it happens to delete an empty range.
fn mutate(rng: &mut Rng, batch: &mut WriteBatch, value_bytes_max: usize) {
    let row = names::row(rng);
    let (family, qualifier) = (names::family(rng), names::qualifier(rng));
    let column = Column::of(family, &qualifier);
    match rng.weighted(&[50, 15, 8, 5, 4, 1]) {
        0 => {
            let value = names::value(rng, value_bytes_max);
            batch.put(&row, column, names::timestamp(rng), &value);
        }
        1 => batch.merge(&row, column, names::timestamp(rng), names::operand(rng)),
        2 => batch.delete(&row, column, names::timestamps(rng)),
        3 => batch.delete(&row, Column::family(family), names::timestamps(rng)),
        4 => batch.delete(&row, Column::ROW, names::timestamps(rng)),
        _ => {
            let range = names::rows(rng);
            batch.drop_row_range(&range.start, range.end.as_deref());
        }
    }
}

/// A question about any rows, columns, timestamps and versions.
pub fn request(rng: &mut Rng) -> ScanRequest {
    let columns = if rng.chance(40) {
        Columns::All
    } else {
        let ranges = (0..rng.below(4)).map(|_| qualifiers(rng)).collect();
        Columns::ranges(ranges)
    };
    ScanRequest {
        rows: names::rows(rng),
        direction: *rng.pick(&[Direction::Forward, Direction::Reverse]),
        columns,
        timestamps: names::timestamps(rng),
        versions_max: *rng.pick(&[None, None, Some(1), Some(1), Some(2), Some(0)]),
    }
}

fn qualifiers(rng: &mut Rng) -> QualifierRange {
    let family = names::family(rng);
    match rng.below(3) {
        0 => QualifierRange::family(family),
        1 => QualifierRange::column(family, &names::qualifier(rng)),
        _ => {
            let end = rng.chance(50).then(|| names::qualifier(rng));
            QualifierRange { family, start: names::qualifier(rng), end }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_tells_the_same_history() {
        let print = |seed| format!("{:?}", history(seed, &Shape::default()));
        assert_eq!(print(7), print(7));
        assert_ne!(print(7), print(8));
    }

    #[test]
    fn histories_contain_every_kind_of_step() {
        let steps: Vec<Step> = (0..20).flat_map(|s| history(s, &Shape::default())).collect();
        let kinds: std::collections::BTreeSet<String> = steps
            .iter()
            .map(|step| format!("{step:?}").split(['(', ' ']).next().unwrap().to_owned())
            .collect();
        assert_eq!(kinds.len(), 13, "{kinds:?}");
        let drops = |step: &Step| {
            let Step::Write(_, batch) = step else { return false };
            batch
                .mutations(engine::SequenceNumber(1))
                .any(|m| format!("{m:?}").contains("DropRange"))
        };
        assert!(steps.iter().any(drops));
    }
}
