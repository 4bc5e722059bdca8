//! One history of a table, every question: random histories by the table's door, in small worlds
//! (`sim::small` for the engine, a table's own shape on top), asked after each step with random filters,
//! row sets and directions, at once and while more is written. The answers are those of a model of
//! cells and of the filters' reference evaluator. A failure is printed with the one line that repeats
//! it, and as small as it could be made.
//!
//! `STELE_HISTORIES` says how many, `STELE_FIRST` from which seed on. The suite is a process of its own,
//! for it looks at the end whether every coverage mark of the table layer was hit.

#![expect(clippy::unwrap_used, reason = "a failure is the test's own verdict")]

mod ask;
mod case;
mod life;
mod model;
mod refuse;
mod shrink;

use case::Case;
use sim::points::{Point, number, try_all, wanted};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use table::marks::Mark;

/// Histories of one run.
const HISTORIES: u64 = 300;
/// Cases tried to make one that fails smaller.
const TRIES: usize = 1_500;

#[test]
fn one_history_of_a_table_every_question() {
    let histories = number("STELE_HISTORIES").unwrap_or(HISTORIES);
    let first = number("STELE_FIRST").unwrap_or(0u64);
    let points: Vec<Point> = (first..first + histories).map(|seed| Point { seed, at: 0 }).collect();
    try_all("--test tables", &points, |Point { seed, .. }| {
        let case = case::case(seed);
        lived(&case).map_err(|what| smaller(&case, &what))
    });
    // One case alone may be asked for again.
    if wanted().is_none() && histories >= HISTORIES {
        let hits: Vec<_> = Mark::ALL.iter().map(|mark| (mark, mark.hits())).collect();
        let missed = hits.iter().any(|(_, hits)| *hits == 0);
        assert!(!cfg!(debug_assertions) || !missed, "marks that were not hit: {hits:?}");
    }
}

/// What goes wrong in the case, a panic included.
fn lived(case: &Case) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| life::live(case))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a text")))
    })
}

/// The text of a failure: what it was, and the smallest case that still fails in its way.
fn smaller(case: &Case, what: &str) -> String {
    let panicked = what.contains("panicked");
    let fails =
        |case: &Case| lived(case).is_err_and(|other| other.contains("panicked") == panicked);
    let small = shrink::shrink(case, TRIES, &fails);
    let still = lived(&small).err().unwrap_or_default();
    let mut text = format!("{what}\nsmallest case that fails ({still}):\n");
    let _ = writeln!(text, "{:?}\n{:?}", small.world.shape, small.world.options);
    for (at, act) in small.acts.iter().enumerate() {
        let _ = writeln!(text, "{at:3} {:?}", act.what);
    }
    text
}
