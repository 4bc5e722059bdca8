//! Makes a case that fails smaller: fewer acts, fewer rows and mutations of an act, a world that is
//! closer to the usual one.

use crate::case::{Act, Case, What, World};
use sim::small::shrink::simpler;
use table::RowMutations;
use table::shape::Shape;

/// The smallest case found that `fails`, as `case` does, within about `tries` tries.
pub(crate) fn shrink(case: &Case, tries: usize, fails: &dyn Fn(&Case) -> bool) -> Case {
    let mut shrinking = Shrinking { best: case.clone(), left: tries, fails };
    while shrinking.acts() | shrinking.mutations() | shrinking.worlds() {}
    shrinking.best
}

struct Shrinking<'a> {
    best: Case,
    left: usize,
    fails: &'a dyn Fn(&Case) -> bool,
}

impl Shrinking<'_> {
    /// Takes the best case as `change` makes it, if it still fails; whether it did.
    fn tried(&mut self, change: impl FnOnce(&mut Case)) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let mut case = self.best.clone();
        change(&mut case);
        let fails = (self.fails)(&case);
        if fails {
            self.best = case;
        }
        fails
    }

    /// Leaves out acts, many at a time and then fewer; whether any could be.
    fn acts(&mut self) -> bool {
        let mut any = false;
        let mut size = self.best.acts.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.best.acts.len() {
                let left_out = |case: &mut Case| {
                    case.acts.drain(at..(at + size).min(case.acts.len()));
                };
                if self.tried(left_out) { any = true } else { at += size }
            }
            size /= 2;
        }
        any
    }

    /// Leaves out rows and their mutations, of requests that keep some; whether any could be.
    fn mutations(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.best.acts.len() {
            any |= self.left_out(|case| rows_of(&mut case.acts[at]));
            for row in 0..rows_of(&mut self.best.acts[at]).map_or(0, |rows| rows.len()) {
                any |= self.left_out(|case| {
                    rows_of(&mut case.acts[at]).map(|rows| &mut rows[row].mutations)
                });
            }
        }
        any
    }

    /// Leaves out things of a list, all but one at most; whether any could be.
    fn left_out<T>(&mut self, list: impl Fn(&mut Case) -> Option<&mut Vec<T>>) -> bool {
        let (mut any, mut at) = (false, 0);
        while let Some(len) = list(&mut self.best).map(|list| list.len())
            && len > 1
            && at < len
        {
            let left_out = |case: &mut Case| drop(list(case).map(|list| list.remove(at)));
            if self.tried(left_out) { any = true } else { at += 1 }
        }
        any
    }

    /// Makes worlds usual, one thing at a time; whether any could be.
    fn worlds(&mut self) -> bool {
        let mut any = false;
        for which in 0..=self.best.acts.len() {
            let Some(unusual) = world_of(&mut self.best, which).cloned() else { continue };
            for simpler in simpler(&unusual.options) {
                any |= self.world(which, &|world| simpler(&mut world.options));
            }
            for field in Shape::FIELDS {
                let usual = (field.get)(&Shape::DEFAULT);
                any |= self.world(which, &|world| (field.set)(&mut world.shape, usual));
            }
        }
        any
    }

    fn world(&mut self, which: usize, change: &dyn Fn(&mut World)) -> bool {
        let Some(mut world) = world_of(&mut self.best, which).cloned() else { return false };
        let before = format!("{world:?}");
        change(&mut world);
        let put = |case: &mut Case| {
            world_of(case, which).into_iter().for_each(|place| *place = world.clone());
        };
        format!("{world:?}") != before && self.tried(put)
    }
}

fn rows_of(act: &mut Act) -> Option<&mut Vec<RowMutations>> {
    match &mut act.what {
        What::Mutate(rows) | What::Load(rows) => Some(rows),
        _ => None,
    }
}

/// The worlds of the case: that of its beginning, then those of its acts.
fn world_of(case: &mut Case, which: usize) -> Option<&mut World> {
    match which.checked_sub(1) {
        None => Some(&mut case.world),
        Some(at) => match &mut case.acts[at].what {
            What::Reopen(world) => Some(world),
            _ => None,
        },
    }
}

#[test]
fn a_case_shrinks_to_what_fails() {
    let cells = |case: &Case| {
        let rows = case.acts.iter().filter_map(|act| rows_of(&mut act.clone()).cloned()).flatten();
        rows.map(|row| row.mutations.len()).sum::<usize>()
    };
    let small = shrink(&crate::case::case(3), 10_000, &|case| cells(case) >= 3);
    assert_eq!(cells(&small), 3);
    assert!(small.acts.len() <= 3 && small.world.shape == Shape::DEFAULT, "{small:?}");
}
