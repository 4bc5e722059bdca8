//! Histories of a table: what happens, drawn from a seed before any of it is done.

use base::env::Rng;
use bytes::Bytes;
use engine::{Options, Timestamp, TimestampRange};
use sim::small;
use std::ops::Bound;
use std::time::Duration;
use table::filter::{ColumnRange, Condition, ValueRange};
use table::mutate::{Modify, WriteTime};
use table::shape::Shape;
use table::*;

/// A history and the world it begins in.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) world: World,
    pub(crate) acts: Vec<Act>,
}

/// How large things are.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) shape: Shape,
}

/// One thing that happens, and the seed of what is asked after it.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) questions: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    /// One row, or several in one request.
    Mutate(Vec<RowMutations>),
    Check(CheckAndMutate),
    Modify(Bytes, Vec<ReadModifyWriteRule>),
    Drop(DropRows),
    /// The family loses what the rule lets vanish, besides what it lost before.
    Tighten(&'static str, GcRule),
    /// The family that comes and goes does so.
    Toggle,
    /// A bulk load of rows, in order.
    Load(Vec<RowMutations>),
    Flush,
    Compact,
    /// Background work is done.
    Work(usize),
    /// So many milliseconds pass.
    Wait(u64),
    Reopen(Box<World>),
    /// The table is deleted and comes back, after so many pieces of background work.
    Undelete(usize),
    /// The table is backed up, and is what was restored from there, after so many pieces of background
    /// work.
    Restore(usize),
}

/// Families: of all cells, of two versions, of young cells, of sums, and one that comes and goes.
pub(crate) const FAMILIES: [&str; 5] = ["all", "two", "old", "sum", "gone"];
/// Families of values.
const RAW: [&str; 4] = ["all", "two", "old", "gone"];
/// How old a cell of the family `old` may be.
pub(crate) const AGE: Duration = Duration::from_millis(20);
/// The time at which a history begins.
pub(crate) const BEGIN: i64 = 1_000_000_000;

const KEYS: [&str; 8] = ["a", "ab", "b", "b\n", "c", "c/1", "c/2", "\u{7f}"];
const QUALIFIERS: [&str; 8] = ["", "a", "ab", "b\n", "q1", "q2", "q3", "q4"];
const VALUES: [&str; 6] = ["", "x", "xy", "y", "x\n", "8 bytes."];
const PATTERNS: [&str; 20] = [
    "",
    "a",
    "a.*",
    "a\\C*",
    "b",
    ".*",
    "\\C*",
    "a|b",
    "a|ab|c",
    "[^a]+",
    "x?",
    "xy|\\C",
    "b\\n?",
    "(a|b)b*",
    "a.",
    "x\\C*",
    "q[1-4]",
    "q1|q2|q3",
    "(a|ab)|q1",
    "[a-z]+",
];

/// The case of `seed`.
pub(crate) fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed ^ 0x7ab1_e5ee);
    let acts = 15 + rng.index(30);
    let mut acts: Vec<Act> = (0..acts).map(|_| act(&mut rng)).collect();
    for what in [What::Compact, What::Reopen(Box::new(world(&mut rng)))] {
        acts.push(Act { questions: rng.next_u64(), what });
    }
    Case { seed, world: world(&mut rng), acts }
}

fn world(rng: &mut Rng) -> World {
    let shape = Shape::any(rng.next_u64(), *rng.pick(&[10, 40, 80]));
    World { options: small::options(rng), shape }
}

fn act(rng: &mut Rng) -> Act {
    let what = match rng.below(42) {
        0..=9 => What::Mutate(vec![row_mutations(rng, &FAMILIES)]),
        10..=16 => {
            let rows = 2 + rng.index(8);
            What::Mutate((0..rows).map(|_| row_mutations(rng, &FAMILIES)).collect())
        }
        17..=19 => What::Check(check(rng)),
        20..=22 => {
            let rules = 1 + rng.index(3);
            What::Modify(text(rng, &KEYS), (0..rules).map(|_| rule(rng)).collect())
        }
        23 => What::Drop(match rng.chance(20) {
            true => DropRows::All,
            false => DropRows::Prefix(Bytes::from(*rng.pick(&["a", "b", "c/"]))),
        }),
        24 => What::Tighten(RAW[rng.index(RAW.len())], gc(rng)),
        25 => What::Toggle,
        26 | 27 => What::Load(load(rng)),
        28..=30 => What::Flush,
        31 => What::Compact,
        32 | 33 => What::Work(1 + rng.index(20)),
        34..=37 => What::Wait(1 + rng.below(8)),
        38 | 39 => What::Reopen(Box::new(world(rng))),
        40 => What::Undelete(rng.index(20)),
        _ => What::Restore(rng.index(20)),
    };
    Act { questions: rng.next_u64(), what }
}

fn text(rng: &mut Rng, choices: &[&'static str]) -> Bytes {
    Bytes::from(*rng.pick(choices))
}

fn value(rng: &mut Rng) -> Bytes {
    match rng.below(8) {
        0 => Bytes::from(vec![b'l'; rng.index(400)]),
        _ => text(rng, &VALUES),
    }
}

/// A time that clients give: near the clock, before and after.
fn time(rng: &mut Rng) -> i64 {
    BEGIN + 1_000 * (rng.below(50) as i64 - 10)
}

fn write_time(rng: &mut Rng) -> WriteTime {
    if rng.chance(30) { WriteTime::Server } else { WriteTime::At(Timestamp(time(rng))) }
}

fn times(rng: &mut Rng) -> TimestampRange {
    let start = if rng.chance(30) { 0 } else { time(rng) };
    let end = rng.chance(60).then(|| Timestamp(start.max(time(rng))));
    TimestampRange { start: Timestamp(start), end }
}

fn row_mutations(rng: &mut Rng, families: &[&'static str]) -> RowMutations {
    let most = *rng.pick(&[1, 3, 12]);
    let count = 1 + rng.index(most);
    let mutations = (0..count).map(|_| mutation(rng, families)).collect();
    RowMutations { row: text(rng, &KEYS), mutations }
}

fn mutation(rng: &mut Rng, families: &[&'static str]) -> RowMutation {
    let name = *rng.pick(families);
    let (family, qualifier) = (name.to_owned(), text(rng, &QUALIFIERS));
    match rng.below(20) {
        // What newer versions hide may come back when they are deleted, or not: where versions are
        // counted, columns are deleted as a whole.
        0 | 1 if name == "all" || name == "sum" => {
            RowMutation::DeleteFromColumn { family, qualifier, range: times(rng) }
        }
        0 | 1 => RowMutation::DeleteFromColumn { family, qualifier, range: TimestampRange::ALL },
        2 => RowMutation::DeleteFromFamily { family },
        3 => RowMutation::DeleteFromRow,
        _ if name == "sum" => RowMutation::AddToCell {
            family,
            qualifier,
            timestamp: WriteTime::At(Timestamp(time(rng))),
            input: (rng.below(100) as i64 - 50).into(),
        },
        _ => RowMutation::SetCell {
            family,
            qualifier,
            timestamp: write_time(rng),
            value: value(rng),
        },
    }
}

fn check(rng: &mut Rng) -> CheckAndMutate {
    let row = text(rng, &KEYS);
    let predicate = rng.chance(80).then(|| filter(rng));
    let mut list = |least: usize| -> Vec<RowMutation> {
        (0..least + rng.index(3)).map(|_| mutation(rng, &FAMILIES)).collect()
    };
    CheckAndMutate { row, predicate, on_true: list(1), on_false: list(0) }
}

fn rule(rng: &mut Rng) -> ReadModifyWriteRule {
    let modify = match rng.chance(50) {
        true => Modify::Append(value(rng)),
        false => Modify::Increment(rng.below(9) as i64 - 4),
    };
    let qualifier = text(rng, &QUALIFIERS);
    ReadModifyWriteRule { family: (*rng.pick(&RAW)).to_owned(), qualifier, modify }
}

fn gc(rng: &mut Rng) -> GcRule {
    let versions = GcRule::MaxVersions(1 + rng.below(3) as u32);
    let age = GcRule::MaxAge(AGE);
    match rng.below(4) {
        0 => age,
        1 => GcRule::Intersection(vec![versions, age]),
        _ => versions,
    }
}

/// Rows of one load: in order, each once.
fn load(rng: &mut Rng) -> Vec<RowMutations> {
    let mut keys = KEYS.to_vec();
    keys.sort_unstable();
    keys.retain(|_| rng.chance(50));
    let rows = keys.into_iter().map(|key| {
        let mutations = (0..1 + rng.index(6)).map(|_| RowMutation::SetCell {
            family: (*rng.pick(&RAW[..3])).to_owned(),
            qualifier: text(rng, &QUALIFIERS),
            timestamp: write_time(rng),
            value: value(rng),
        });
        RowMutations { mutations: mutations.collect(), row: Bytes::from(key) }
    });
    rows.collect()
}

pub(crate) fn request(rng: &mut Rng) -> ReadRows {
    let keys = |rng: &mut Rng, most| (0..rng.index(most)).map(|_| text(rng, &KEYS)).collect();
    let rows = match rng.below(4) {
        0 => RowSet::all(),
        1 | 2 => RowSet { keys: keys(rng, 6), ranges: Vec::new() },
        _ => {
            let ranges = (0..1 + rng.index(2)).map(|_| {
                let (start, end) = (bound(rng, &KEYS), bound(rng, &KEYS));
                KeyRange { start, end }
            });
            let ranges = ranges.collect();
            RowSet { keys: keys(rng, 3), ranges }
        }
    };
    let direction = *rng.pick(&[Direction::Forward, Direction::Reverse]);
    let rows_limit = if rng.chance(50) { 0 } else { rng.below(4) };
    ReadRows { rows, filter: rng.chance(90).then(|| filter(rng)), rows_limit, direction }
}

fn bound(rng: &mut Rng, choices: &[&'static str]) -> Bound<Bytes> {
    let text = text(rng, choices);
    match rng.below(3) {
        0 => Bound::Included(text),
        1 => Bound::Excluded(text),
        _ => Bound::Unbounded,
    }
}

/// Chains as a rule, what interests most of them: every pair of neighbours is a case of narrowing.
fn filter(rng: &mut Rng) -> RowFilter {
    match rng.below(10) {
        0 => leaf(rng),
        1..=5 => RowFilter::Chain(some(rng, part)),
        6 | 7 => RowFilter::Interleave(some(rng, part)),
        8 => condition(rng),
        _ => {
            let inner = |rng: &mut Rng| match rng.chance(50) {
                true => RowFilter::Chain(some(rng, part)),
                false => RowFilter::Interleave(some(rng, leaf_or_sink)),
            };
            RowFilter::Chain(some(rng, inner))
        }
    }
}

fn some(rng: &mut Rng, one: impl Fn(&mut Rng) -> RowFilter) -> Vec<RowFilter> {
    (0..2 + rng.index(2)).map(|_| one(rng)).collect()
}

fn part(rng: &mut Rng) -> RowFilter {
    match rng.below(8) {
        0 => RowFilter::Interleave(some(rng, leaf_or_sink)),
        1 => condition(rng),
        2 => {
            let limit = RowFilter::CellsPerColumnLimit(1 + rng.below(2) as i32);
            RowFilter::Chain(vec![RowFilter::TimestampRange(times(rng)), limit])
        }
        _ => leaf(rng),
    }
}

fn leaf_or_sink(rng: &mut Rng) -> RowFilter {
    if rng.chance(30) { RowFilter::Sink } else { leaf(rng) }
}

fn condition(rng: &mut Rng) -> RowFilter {
    let predicate = leaf(rng);
    let mut branch = || rng.chance(80).then(|| leaf(rng));
    let (on_true, on_false) = (branch(), branch());
    RowFilter::Condition(Box::new(Condition { predicate, on_true, on_false }))
}

fn leaf(rng: &mut Rng) -> RowFilter {
    match rng.below(27) {
        0 => RowFilter::PassAll,
        1 => RowFilter::BlockAll,
        2 => RowFilter::RowKeyRegex(text(rng, &PATTERNS)),
        3 | 4 => {
            let names = ["all", "two", "old", ".*", "two|old", "no", "gone", "sum|all"];
            RowFilter::FamilyNameRegex((*rng.pick(&names)).to_owned())
        }
        5..=8 => RowFilter::ColumnQualifierRegex(text(rng, &PATTERNS)),
        9 | 10 => {
            let family = (*rng.pick(&FAMILIES)).to_owned();
            let (start, end) = (bound(rng, &QUALIFIERS), bound(rng, &QUALIFIERS));
            RowFilter::ColumnRange(ColumnRange { family, start, end })
        }
        11..=13 => RowFilter::TimestampRange(times(rng)),
        14 | 15 => RowFilter::ValueRegex(text(rng, &PATTERNS)),
        16 => {
            let (start, end) = (bound(rng, &VALUES), bound(rng, &VALUES));
            RowFilter::ValueRange(ValueRange { start, end })
        }
        17 | 18 => RowFilter::CellsPerRowOffset(rng.below(4) as i32),
        19 | 20 => RowFilter::CellsPerRowLimit(1 + rng.below(5) as i32),
        21..=24 => RowFilter::CellsPerColumnLimit(1 + rng.below(2) as i32),
        25 => RowFilter::StripValue,
        _ => RowFilter::ApplyLabel((*rng.pick(&["l1", "l2"])).to_owned()),
    }
}
