//! Small worlds: engines whose blocks, partitions, memtables, files, caches and segments are of a few
//! bytes or a few things, so that a history of forty steps crosses every border many times.
//!
//! A case is made before it is run: options, and steps each of which brings a generator for the
//! questions that are asked after it. So steps can be left out, and options made simpler, without
//! changing what is asked elsewhere ([`shrink`]).

pub mod shrink;

use crate::machine::Machine;
use crate::names;
use crate::oracle::Trouble;
use crate::session::Session;
use crate::workload::{self, Step};
use base::env::Rng;
use engine::RowRange;
use engine::WriteBatch;
use engine::internals::ReadPath;
use engine::internals::Shape;
use engine::{BackgroundRate, Durability, Options};
use engine::{Column, FamilyId, Timestamp, TreeId};
use std::path::Path;
use std::time::Duration;

/// A history in a small world.
#[derive(Debug, Clone)]
pub struct Case {
    /// Seed of the machine.
    pub seed: u64,
    /// Options at the beginning.
    pub options: Options,
    /// Older cells may vanish by compaction; `None`: none may.
    pub expired: Option<Timestamp>,
    /// What happens.
    pub acts: Vec<Act>,
}

/// One thing that happens, and what is asked after it.
#[derive(Debug, Clone)]
pub struct Act {
    /// Seed of the questions.
    pub questions: u64,
    /// What happens.
    pub what: What,
}

/// What happens.
#[derive(Debug, Clone)]
pub enum What {
    /// A step of a history.
    Step(Step),
    /// The engine is closed and opened with other options.
    Reopen(Box<Options>),
    /// A tree is asked for all it has.
    AskFor(TreeId),
    /// All trees are.
    AskForAll,
}

/// The case of `seed`.
pub fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed ^ 0x5a11_5eed);
    let shape = workload::Shape { steps: 20 + rng.index(40), ..workload::Shape::SMALL };
    let steps = workload::history(rng.next_u64(), &shape);
    let mut acts = Vec::with_capacity(steps.len() + 8);
    for step in steps {
        let what = if matches!(step, Step::Reopen) {
            What::Reopen(Box::new(options(&mut rng)))
        } else {
            What::Step(step)
        };
        acts.push(Act { questions: rng.next_u64(), what });
        if rng.chance(35) {
            let what = What::Step(again_and_again(&mut rng));
            acts.push(Act { questions: rng.next_u64(), what });
            // Asked in between, while no memtable has the row: reads then look at its runs.
            if rng.chance(60) {
                let what = What::Step(Step::Flush(TreeId(1)));
                acts.push(Act { questions: rng.next_u64(), what });
                acts.push(Act { questions: rng.next_u64(), what: What::AskFor(TreeId(1)) });
            }
        }
        if rng.chance(8) {
            let write = Step::Write(TreeId(1), large_and_alone(&mut rng));
            let flush = Step::Flush(TreeId(1));
            for what in [What::Step(write), What::Step(flush), What::AskFor(TreeId(1))] {
                acts.push(Act { questions: rng.next_u64(), what });
            }
        }
        if rng.chance(5) {
            acts.push(Act { questions: rng.next_u64(), what: What::AskForAll });
        }
    }
    acts.push(Act { questions: rng.next_u64(), what: What::AskForAll });
    let again = What::Reopen(Box::new(options(&mut rng)));
    acts.push(Act { questions: rng.next_u64(), what: again });
    for tree in 1..=shape.trees_max as u32 {
        let whole = What::Step(Step::Compact(TreeId(tree), RowRange::ALL));
        acts.push(Act { questions: rng.next_u64(), what: whole });
    }
    acts.push(Act { questions: rng.next_u64(), what: What::AskForAll });
    let expired = rng.chance(25).then(|| Timestamp(rng.below(4) as i64));
    Case { seed, options: options(&mut rng), expired, acts }
}

/// A batch for one of three rows that all such batches write to: one cell or many, of few columns, in
/// any order of time, so that rows go on over blocks and partitions, and in many runs.
fn again_and_again(rng: &mut Rng) -> Step {
    let mut batch = WriteBatch::new();
    let row = format!("again-{}", rng.below(3)).into_bytes();
    let most = *rng.pick(&[1, 2, 20]);
    for _ in 0..1 + rng.below(most) {
        let qualifier = format!("q{}", rng.below(16)).into_bytes();
        let column = Column::of(FamilyId(1 + u16::from(rng.chance(20))), &qualifier);
        // Newer ones are rarer: what is found first is often not the newest.
        let time = Timestamp((rng.below(40) * rng.below(40) / 40) as i64);
        match rng.below(24) {
            0 | 1 => batch.delete(&row, column, names::timestamps(rng)),
            2 => batch.merge(&row, column, time, names::operand(rng)),
            3..=5 => batch.put(&row, column, time, &[7; 100]),
            _ => batch.put(&row, column, time, &names::value(rng, 60)),
        }
    }
    if batch.is_empty() {
        batch.delete_row(&row);
    }
    Step::Write(TreeId(1), batch)
}

/// A batch that makes a row of large values alone: whatever older runs have of it is deleted, so that one
/// file decides it, whose values are not in memory.
fn large_and_alone(rng: &mut Rng) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let row = format!("large-{}", rng.below(3)).into_bytes();
    batch.delete_row(&row);
    for qualifier in 0..2 + rng.below(3) {
        let name = [b'q', qualifier as u8];
        let column = Column::of(FamilyId(1), &name);
        let bytes = *rng.pick(&[100, 300, 5_000]);
        batch.put(&row, column, Timestamp(rng.below(4) as i64), &vec![qualifier as u8; bytes]);
    }
    batch
}

/// Options at random, the smallest more often than others.
pub fn options(rng: &mut Rng) -> Options {
    let l0_runs_compact = *rng.pick(&[1, 2, 4, 12]);
    let memory_bytes_max = *rng.pick(&[32 << 10, 256 << 10, 2 << 20, 8 << 20, 8 << 20]);
    let on = |rng: &mut Rng| rng.chance(85);
    Options {
        durability: *rng.pick(&[
            Durability::Sync,
            Durability::Interval(Duration::from_millis(100)),
            Durability::None,
        ]),
        memtable_bytes_max: *rng.pick(&[1, 300, 2 << 10, 16 << 10, 64 << 20]),
        memory_bytes_max,
        cache_bytes_max: *rng.pick(&[None, None, None, Some(memory_bytes_max / 2), Some(4 << 10)]),
        log_segment_bytes: *rng.pick(&[256, 1 << 10, 8 << 10, 64 << 10]),
        l0_runs_compact,
        l0_runs_stall: l0_runs_compact + *rng.pick(&[1, 8]),
        sst_bytes_max: *rng.pick(&[1, 500, 4 << 10, 64 << 10, 128 << 20]),
        l1_bytes_max: *rng.pick(&[1, 1 << 10, 16 << 10, 512 << 20]),
        direct_reads: rng.chance(30),
        open_files_max: *rng.pick(&[None, Some(16), Some(40)]),
        read_path: ReadPath {
            huge_pages: false,
            hints: on(rng),
            filters: on(rng),
            point_reads: on(rng),
            batched_reads: on(rng),
            readahead: on(rng),
            prefix_index: on(rng),
            cache_warming: on(rng),
            admission: on(rng),
            counters: true,
        },
        subcompactions_max: *rng.pick(&[None, Some(1), Some(3)]),
        background_rate: *rng.pick(&[BackgroundRate::Unlimited, BackgroundRate::Auto]),
        // The environment brings its own.
        background_threads: 2,
        // How much of it is small: nearly all of it, or one thing alone.
        shape: Shape::drawn(rng.next_u64(), *rng.pick(&[3, 20, 50, 80])),
    }
}

/// Lives through a case. The error says after which act what was wrong.
pub fn run(case: &Case) -> Result<(), String> {
    let mut session =
        Session::new(Machine::new(case.seed), Path::new("/data/small"), case.options.clone());
    if let Some(expired) = case.expired {
        session = session.expiring(expired);
    }
    session.open().map_err(|trouble| format!("opened: {trouble:?}"))?;
    for (at, act) in case.acts.iter().enumerate() {
        take(&mut session, act).map_err(|trouble| match trouble {
            Trouble::Refused(error) => format!("act {at}: refused: {error}"),
            Trouble::Wrong(what) => format!("act {at}: {what}"),
        })?;
    }
    session.close().map_err(|trouble| format!("closed: {trouble:?}"))
}

fn take(session: &mut Session, act: &Act) -> Result<(), Trouble> {
    let mut rng = Rng::new(act.questions);
    let trees: Vec<TreeId> = match &act.what {
        What::Step(step) => {
            session.step(step)?;
            let trees: Vec<TreeId> = session.oracle().trees().collect();
            if let Some(tree) = trees.get(rng.index(trees.len().max(1))) {
                session.ask_every_way(*tree, &mut rng)?;
            }
            return Ok(());
        }
        What::Reopen(options) => {
            session.close()?;
            session.set_options((**options).clone());
            session.open()?;
            session.oracle().trees().collect()
        }
        What::AskFor(tree) => session.oracle().trees().filter(|other| other == tree).collect(),
        What::AskForAll => session.oracle().trees().collect(),
    };
    trees.into_iter().try_for_each(|tree| session.ask_for_all(tree, &mut rng))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_and_all_options_drawn_are_valid_and_each_field_is_drawn_small() {
        let mut small = vec![0; Shape::FIELDS.len()];
        for seed in 0..300 {
            let options = options(&mut Rng::new(seed));
            assert_eq!(options.validate().err().map(|error| error.to_string()), None);
            for (field, small) in Shape::FIELDS.iter().zip(&mut small) {
                *small += usize::from((field.get)(&options.shape) <= *field.range.start() + 2);
            }
        }
        for (field, small) in Shape::FIELDS.iter().zip(small) {
            let rounded = field.name.starts_with("slab_bytes");
            assert!(small > 5 || rounded, "{} was small {small} times", field.name);
        }
    }
}
