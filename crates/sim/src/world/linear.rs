//! Linearizability of the history of one register: whether there is an order of the operations, each
//! at a moment between its call and its answer, in which every answer is right.
//!
//! The search is that of Wing and Gong with the memory of Lowe: take any operation that no other
//! must precede, and go back where it does not fit; never try one set of taken operations twice from
//! the same value. Values are unique, so operations without an answer need no search: one whose value
//! had no reader may be left out, and one whose value was seen ended before the first who saw it did.

use std::collections::{BTreeMap, HashSet};

/// The effect of an operation on the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It found this value there.
    Read(u64),
    /// It put this value there.
    Write(u64),
    /// It found one value and put another, with nothing in between.
    Swap {
        /// The value that it found.
        old: u64,
        /// The value that it put.
        new: u64,
    },
}

/// An operation with the times of its call and its answer. Without an answer it may have taken effect
/// at any later time, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The effect on the register.
    pub action: Action,
    /// The time of its call.
    pub from: u64,
    /// The time of its answer, if any.
    pub to: Option<u64>,
}

impl Action {
    fn found(self) -> Option<u64> {
        match self {
            Self::Read(value) | Self::Swap { old: value, .. } => Some(value),
            Self::Write(_) => None,
        }
    }

    fn put(self) -> Option<u64> {
        match self {
            Self::Read(_) => None,
            Self::Write(value) | Self::Swap { new: value, .. } => Some(value),
        }
    }
}

/// Finds an order of the operations on a register that begins at 0. An error tells why none is right.
pub fn check(operations: &[Operation]) -> Result<(), String> {
    let mut bounded = bound(operations)?;
    bounded.sort_by_key(|(operation, _)| operation.from);
    let mut search = Search { best: 0, operations: &bounded, tried: HashSet::new() };
    let mut taken = vec![0; bounded.len().div_ceil(64)];
    if search.run(&mut taken) {
        return Ok(());
    }
    let window = bounded.iter().skip(search.best.saturating_sub(8)).take(24);
    let lines: Vec<String> =
        window.map(|(at, to)| format!("  {:>12} to {to:>12}: {:?}", at.from, at.action)).collect();
    Err(format!("no order of the operations is right; about here:\n{}", lines.join("\n")))
}

/// Gives every operation an end, and leaves out those without a reader.
fn bound(operations: &[Operation]) -> Result<Vec<(Operation, u64)>, String> {
    let mut writers = BTreeMap::new();
    for operation in operations {
        if let Some(value) = operation.action.put()
            && writers.insert(value, operation).is_some()
        {
            return Err(format!("two operations wrote {value}"));
        }
    }
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    let mut left: Vec<(Operation, u64)> = Vec::new();
    let mut certain: Vec<(&Operation, u64)> =
        operations.iter().filter_map(|at| at.to.map(|to| (at, to))).collect();
    while let Some((operation, to)) = certain.pop() {
        left.push((*operation, to));
        let Some(found) = operation.action.found().filter(|value| *value != 0) else { continue };
        let Some(writer) = writers.get(&found) else {
            return Err(format!("{:?} found what nobody wrote", operation.action));
        };
        if writer.from > to {
            return Err(format!("{:?} found what was written later", operation.action));
        }
        if writer.to.is_none() {
            match ends.get_mut(&found) {
                Some(end) => *end = to.min(*end),
                None => {
                    ends.insert(found, to);
                    certain.push((writer, u64::MAX));
                }
            }
        }
    }
    for (operation, to) in &mut left {
        let end = operation.action.put().and_then(|value| ends.get(&value));
        *to = end.map_or(*to, |end| *end.min(to));
    }
    Ok(left)
}

struct Search<'a> {
    /// Operations with their ends, by the time of their call.
    operations: &'a [(Operation, u64)],
    tried: HashSet<(Vec<u64>, u64)>,
    /// Most operations that any try took.
    best: usize,
}

impl Search<'_> {
    /// Takes operations until all are taken, and goes back from dead ends.
    fn run(&mut self, taken: &mut [u64]) -> bool {
        let mut value = 0;
        // Operations taken, each with the value before it; the next candidate to try at the top.
        let mut path: Vec<(usize, u64)> = Vec::new();
        let mut next = 0;
        loop {
            if path.len() == self.operations.len() {
                return true;
            }
            match self.candidate(taken, next, value) {
                Some((at, after)) => {
                    set(taken, at);
                    if self.tried.insert((taken.to_vec(), after)) {
                        path.push((at, value));
                        self.best = self.best.max(path.len());
                        (value, next) = (after, 0);
                    } else {
                        unset(taken, at);
                        next = at + 1;
                    }
                }
                None => {
                    let Some((at, before)) = path.pop() else { return false };
                    unset(taken, at);
                    (value, next) = (before, at + 1);
                }
            }
        }
    }

    /// Finds the first operation from `next` on that may come now, and the value after it.
    fn candidate(&self, taken: &[u64], next: usize, value: u64) -> Option<(usize, u64)> {
        let free = |at: usize| taken[at / 64] & (1 << (at % 64)) == 0;
        // None may come after the end of another one that is free.
        let mut end = u64::MAX;
        for (at, (operation, to)) in self.operations.iter().enumerate() {
            if operation.from > end {
                break;
            }
            if free(at) {
                end = end.min(*to);
            }
        }
        let open = self.operations.iter().take_while(|(operation, _)| operation.from <= end);
        let mut open = open.enumerate().skip(next).filter(|(at, _)| free(*at));
        open.find_map(|(at, (operation, _))| {
            let fits = operation.action.found().is_none_or(|found| found == value);
            fits.then(|| (at, operation.action.put().unwrap_or(value)))
        })
    }
}

fn set(taken: &mut [u64], at: usize) {
    taken[at / 64] |= 1 << (at % 64);
}

fn unset(taken: &mut [u64], at: usize) {
    taken[at / 64] &= !(1 << (at % 64));
}

#[cfg(test)]
mod tests {
    use super::Action::{Read, Swap, Write};
    use super::*;
    use base::env::Rng;

    fn history(operations: &[(Action, u64, u64)]) -> Vec<Operation> {
        let end = |to| (to != 0).then_some(to);
        operations
            .iter()
            .map(|&(action, from, to)| Operation { action, from, to: end(to) })
            .collect()
    }

    #[test]
    fn right_histories_are_accepted() {
        for (case, operations) in [
            ("nothing", vec![]),
            ("one after another", vec![(Write(1), 1, 2), (Read(1), 3, 4), (Write(2), 5, 6)]),
            ("a read beside a write", vec![(Write(1), 1, 9), (Read(0), 2, 3), (Read(1), 4, 5)]),
            (
                "writes beside each other",
                vec![(Write(1), 1, 9), (Write(2), 2, 8), (Read(1), 10, 11)],
            ),
            (
                "swaps in a chain",
                vec![
                    (Swap { old: 1, new: 2 }, 1, 9),
                    (Swap { old: 0, new: 1 }, 2, 9),
                    (Read(2), 10, 11),
                ],
            ),
            (
                "an unknown write that came late",
                vec![(Write(1), 1, 0), (Write(2), 2, 3), (Read(2), 4, 5), (Read(1), 6, 7)],
            ),
            (
                "unknown ones that nobody saw",
                vec![(Write(1), 1, 0), (Swap { old: 7, new: 8 }, 1, 0), (Read(0), 2, 3)],
            ),
        ] {
            assert_eq!(check(&history(&operations)), Ok(()), "{case}");
        }
    }

    #[test]
    fn wrong_histories_are_refused() {
        for (case, operations) in [
            ("a stale read", vec![(Write(1), 1, 2), (Write(2), 3, 4), (Read(1), 5, 6)]),
            ("a lost write", vec![(Write(1), 1, 2), (Read(0), 3, 4)]),
            ("reads that go back", vec![(Write(1), 1, 9), (Read(1), 2, 3), (Read(0), 4, 5)]),
            ("a value from nowhere", vec![(Read(5), 1, 2)]),
            ("a value of the future", vec![(Read(1), 1, 2), (Write(1), 3, 4)]),
            (
                "a lost update",
                vec![
                    (Write(1), 1, 2),
                    (Swap { old: 1, new: 2 }, 3, 8),
                    (Swap { old: 1, new: 3 }, 3, 8),
                ],
            ),
            (
                "a write between the halves of a swap",
                vec![(Write(1), 1, 2), (Write(2), 3, 4), (Swap { old: 1, new: 3 }, 5, 6)],
            ),
            (
                "an unknown write that was undone",
                vec![(Write(1), 1, 0), (Read(1), 2, 3), (Read(0), 4, 5)],
            ),
            (
                "an unknown swap of what is gone",
                vec![
                    (Write(1), 1, 2),
                    (Write(2), 3, 4),
                    (Swap { old: 1, new: 9 }, 5, 0),
                    (Read(9), 6, 7),
                ],
            ),
            ("a value written twice", vec![(Write(1), 1, 2), (Write(1), 3, 4)]),
        ] {
            assert!(check(&history(&operations)).is_err(), "{case}");
        }
    }

    /// A history of a register that is right by its making: each operation takes effect at a moment
    /// between call and answer.
    fn made(rng: &mut Rng, count: u64) -> Vec<Operation> {
        let mut value = 0;
        let mut operations = Vec::new();
        for moment in 1..=count {
            let new = 1000 + moment;
            let (action, after) = match rng.below(3) {
                0 => (Read(value), value),
                1 => (Write(new), new),
                _ => (Swap { old: value, new }, new),
            };
            value = after;
            let at = 1000 * moment;
            let (from, to) = (at - rng.below(5000).min(at), at + 1 + rng.below(5000));
            operations.push(Operation { action, from, to: (!rng.chance(10)).then_some(to) });
        }
        operations
    }

    #[test]
    fn made_histories_are_accepted_and_refused_after_a_change() {
        let mut refused = 0;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut operations = made(&mut rng, 60);
            assert_eq!(check(&operations), Ok(()), "seed {seed}");
            // The last read that has an answer finds what was there long before.
            let reads = |at: &&mut Operation| matches!(at.action, Read(_)) && at.to.is_some();
            if let Some(last) = operations.iter_mut().rev().find(reads)
                && last.from > 12_000
            {
                last.action = Read(0);
                refused += u64::from(check(&operations).is_err());
            }
        }
        assert!(refused > 150, "{refused} of 200 changed histories were refused");
    }
}
