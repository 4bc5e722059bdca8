//! Histories of a table: what happens, drawn from a seed before any of it is done.

use bytes::Bytes;
use engine::{Options, Timestamp, TimestampRange};
use sim::dice::Dice;
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
    let mut dice = Dice::new(seed ^ 0x7ab1_e5ee);
    let acts = 15 + dice.index(30);
    let mut acts: Vec<Act> = (0..acts).map(|_| act(&mut dice)).collect();
    for what in [What::Compact, What::Reopen(Box::new(world(&mut dice)))] {
        acts.push(Act { questions: dice.next_u64(), what });
    }
    Case { seed, world: world(&mut dice), acts }
}

fn world(dice: &mut Dice) -> World {
    let shape = Shape::any(dice.next_u64(), *dice.pick(&[10, 40, 80]));
    World { options: small::options(dice), shape }
}

fn act(dice: &mut Dice) -> Act {
    let what = match dice.below(40) {
        0..=9 => What::Mutate(vec![row_mutations(dice, &FAMILIES)]),
        10..=16 => {
            let rows = 2 + dice.index(8);
            What::Mutate((0..rows).map(|_| row_mutations(dice, &FAMILIES)).collect())
        }
        17..=19 => What::Check(check(dice)),
        20..=22 => {
            let rules = 1 + dice.index(3);
            What::Modify(text(dice, &KEYS), (0..rules).map(|_| rule(dice)).collect())
        }
        23 => What::Drop(match dice.chance(20) {
            true => DropRows::All,
            false => DropRows::Prefix(Bytes::from(*dice.pick(&["a", "b", "c/"]))),
        }),
        24 => What::Tighten(RAW[dice.index(RAW.len())], gc(dice)),
        25 => What::Toggle,
        26 | 27 => What::Load(load(dice)),
        28..=30 => What::Flush,
        31 => What::Compact,
        32 | 33 => What::Work(1 + dice.index(20)),
        34..=37 => What::Wait(1 + dice.below(8)),
        _ => What::Reopen(Box::new(world(dice))),
    };
    Act { questions: dice.next_u64(), what }
}

fn text(dice: &mut Dice, choices: &[&'static str]) -> Bytes {
    Bytes::from(*dice.pick(choices))
}

fn value(dice: &mut Dice) -> Bytes {
    match dice.below(8) {
        0 => Bytes::from(vec![b'l'; dice.index(400)]),
        _ => text(dice, &VALUES),
    }
}

/// A time that clients give: near the clock, before and after.
fn time(dice: &mut Dice) -> i64 {
    BEGIN + 1_000 * (dice.below(50) as i64 - 10)
}

fn write_time(dice: &mut Dice) -> WriteTime {
    if dice.chance(30) { WriteTime::Server } else { WriteTime::At(Timestamp(time(dice))) }
}

fn times(dice: &mut Dice) -> TimestampRange {
    let start = if dice.chance(30) { 0 } else { time(dice) };
    let end = dice.chance(60).then(|| Timestamp(start.max(time(dice))));
    TimestampRange { start: Timestamp(start), end }
}

fn row_mutations(dice: &mut Dice, families: &[&'static str]) -> RowMutations {
    let most = *dice.pick(&[1, 3, 12]);
    let count = 1 + dice.index(most);
    let mutations = (0..count).map(|_| mutation(dice, families)).collect();
    RowMutations { row: text(dice, &KEYS), mutations }
}

fn mutation(dice: &mut Dice, families: &[&'static str]) -> RowMutation {
    let name = *dice.pick(families);
    let (family, qualifier) = (name.to_owned(), text(dice, &QUALIFIERS));
    match dice.below(20) {
        // What newer versions hide may come back when they are deleted, or not: where versions are
        // counted, columns are deleted as a whole.
        0 | 1 if name == "all" || name == "sum" => {
            RowMutation::DeleteFromColumn { family, qualifier, range: times(dice) }
        }
        0 | 1 => RowMutation::DeleteFromColumn { family, qualifier, range: TimestampRange::ALL },
        2 => RowMutation::DeleteFromFamily { family },
        3 => RowMutation::DeleteFromRow,
        _ if name == "sum" => RowMutation::AddToCell {
            family,
            qualifier,
            timestamp: WriteTime::At(Timestamp(time(dice))),
            input: dice.below(100) as i64 - 50,
        },
        _ => RowMutation::SetCell {
            family,
            qualifier,
            timestamp: write_time(dice),
            value: value(dice),
        },
    }
}

fn check(dice: &mut Dice) -> CheckAndMutate {
    let row = text(dice, &KEYS);
    let predicate = dice.chance(80).then(|| filter(dice));
    let mut list = |least: usize| -> Vec<RowMutation> {
        (0..least + dice.index(3)).map(|_| mutation(dice, &FAMILIES)).collect()
    };
    CheckAndMutate { row, predicate, on_true: list(1), on_false: list(0) }
}

fn rule(dice: &mut Dice) -> ReadModifyWriteRule {
    let modify = match dice.chance(50) {
        true => Modify::Append(value(dice)),
        false => Modify::Increment(dice.below(9) as i64 - 4),
    };
    let qualifier = text(dice, &QUALIFIERS);
    ReadModifyWriteRule { family: (*dice.pick(&RAW)).to_owned(), qualifier, modify }
}

fn gc(dice: &mut Dice) -> GcRule {
    let versions = GcRule::MaxVersions(1 + dice.below(3) as u32);
    let age = GcRule::MaxAge(AGE);
    match dice.below(4) {
        0 => age,
        1 => GcRule::Intersection(vec![versions, age]),
        _ => versions,
    }
}

/// Rows of one load: in order, each once.
fn load(dice: &mut Dice) -> Vec<RowMutations> {
    let mut keys = KEYS.to_vec();
    keys.sort_unstable();
    keys.retain(|_| dice.chance(50));
    let rows = keys.into_iter().map(|key| {
        let mutations = (0..1 + dice.index(6)).map(|_| RowMutation::SetCell {
            family: (*dice.pick(&RAW[..3])).to_owned(),
            qualifier: text(dice, &QUALIFIERS),
            timestamp: write_time(dice),
            value: value(dice),
        });
        RowMutations { mutations: mutations.collect(), row: Bytes::from(key) }
    });
    rows.collect()
}

/// A read.
pub(crate) fn request(dice: &mut Dice) -> ReadRows {
    let keys = |dice: &mut Dice, most| (0..dice.index(most)).map(|_| text(dice, &KEYS)).collect();
    let rows = match dice.below(4) {
        0 => RowSet::all(),
        1 | 2 => RowSet { keys: keys(dice, 6), ranges: Vec::new() },
        _ => {
            let ranges = (0..1 + dice.index(2)).map(|_| {
                let (start, end) = (bound(dice, &KEYS), bound(dice, &KEYS));
                KeyRange { start, end }
            });
            let ranges = ranges.collect();
            RowSet { keys: keys(dice, 3), ranges }
        }
    };
    let direction = *dice.pick(&[Direction::Forward, Direction::Reverse]);
    let rows_limit = if dice.chance(50) { 0 } else { dice.below(4) };
    ReadRows { rows, filter: dice.chance(90).then(|| filter(dice)), rows_limit, direction }
}

fn bound(dice: &mut Dice, choices: &[&'static str]) -> Bound<Bytes> {
    let text = text(dice, choices);
    match dice.below(3) {
        0 => Bound::Included(text),
        1 => Bound::Excluded(text),
        _ => Bound::Unbounded,
    }
}

/// Chains as a rule, what interests most of them: every pair of neighbours is a case of narrowing.
fn filter(dice: &mut Dice) -> RowFilter {
    match dice.below(10) {
        0 => leaf(dice),
        1..=5 => RowFilter::Chain(some(dice, part)),
        6 | 7 => RowFilter::Interleave(some(dice, part)),
        8 => condition(dice),
        _ => {
            let inner = |dice: &mut Dice| match dice.chance(50) {
                true => RowFilter::Chain(some(dice, part)),
                false => RowFilter::Interleave(some(dice, leaf_or_sink)),
            };
            RowFilter::Chain(some(dice, inner))
        }
    }
}

fn some(dice: &mut Dice, one: impl Fn(&mut Dice) -> RowFilter) -> Vec<RowFilter> {
    (0..2 + dice.index(2)).map(|_| one(dice)).collect()
}

fn part(dice: &mut Dice) -> RowFilter {
    match dice.below(8) {
        0 => RowFilter::Interleave(some(dice, leaf_or_sink)),
        1 => condition(dice),
        2 => {
            let limit = RowFilter::CellsPerColumnLimit(1 + dice.below(2) as i32);
            RowFilter::Chain(vec![RowFilter::TimestampRange(times(dice)), limit])
        }
        _ => leaf(dice),
    }
}

fn leaf_or_sink(dice: &mut Dice) -> RowFilter {
    if dice.chance(30) { RowFilter::Sink } else { leaf(dice) }
}

fn condition(dice: &mut Dice) -> RowFilter {
    let predicate = leaf(dice);
    let mut branch = || dice.chance(80).then(|| leaf(dice));
    let (on_true, on_false) = (branch(), branch());
    RowFilter::Condition(Box::new(Condition { predicate, on_true, on_false }))
}

fn leaf(dice: &mut Dice) -> RowFilter {
    match dice.below(27) {
        0 => RowFilter::PassAll,
        1 => RowFilter::BlockAll,
        2 => RowFilter::RowKeyRegex(text(dice, &PATTERNS)),
        3 | 4 => {
            let names = ["all", "two", "old", ".*", "two|old", "no", "gone", "sum|all"];
            RowFilter::FamilyNameRegex((*dice.pick(&names)).to_owned())
        }
        5..=8 => RowFilter::ColumnQualifierRegex(text(dice, &PATTERNS)),
        9 | 10 => {
            let family = (*dice.pick(&FAMILIES)).to_owned();
            let (start, end) = (bound(dice, &QUALIFIERS), bound(dice, &QUALIFIERS));
            RowFilter::ColumnRange(ColumnRange { family, start, end })
        }
        11..=13 => RowFilter::TimestampRange(times(dice)),
        14 | 15 => RowFilter::ValueRegex(text(dice, &PATTERNS)),
        16 => {
            let (start, end) = (bound(dice, &VALUES), bound(dice, &VALUES));
            RowFilter::ValueRange(ValueRange { start, end })
        }
        17 | 18 => RowFilter::CellsPerRowOffset(dice.below(4) as i32),
        19 | 20 => RowFilter::CellsPerRowLimit(1 + dice.below(5) as i32),
        21..=24 => RowFilter::CellsPerColumnLimit(1 + dice.below(2) as i32),
        25 => RowFilter::StripValue,
        _ => RowFilter::ApplyLabel((*dice.pick(&["l1", "l2"])).to_owned()),
    }
}
