//! One history, every question: random histories in small worlds (`sim::small`), asked after each
//! step by every door there is, now and at snapshots, with shapes and options at random. A failure
//! is printed with the one line that repeats it, and as small as it could be made.
//!
//! `STELE_HISTORIES` says how many (10,000 take about an hour), `STELE_FIRST` from which seed on. The
//! suite is a process of its own, for it looks at the end whether every coverage mark was hit.

mod kv;
mod marks;

use sim::points::{Point, number, try_all, wanted};
use sim::small::{self, Case, shrink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Histories of one run.
const HISTORIES: u64 = 600;
/// Histories of maps of bytes, for each of these.
const MAPS_PART: u64 = 10;
/// Cases tried to make one that fails smaller.
const TRIES: usize = 1_500;

#[test]
fn one_history_every_question() {
    let histories = number("STELE_HISTORIES").unwrap_or(HISTORIES);
    let first = number("STELE_FIRST").unwrap_or(0u64);
    let points: Vec<Point> = (first..first + histories).map(|seed| Point { seed, at: 0 }).collect();
    let begin = Instant::now();
    try_all("--test histories", &points, |Point { seed, .. }| {
        if seed % MAPS_PART == 0 {
            kv::run(seed)?;
        }
        let case = small::case(seed);
        lived(&case).map_err(|what| smaller(&case, &what))
    });
    // One case alone may be asked for again.
    if wanted().is_none() {
        marks::print(histories, begin.elapsed());
        if histories >= HISTORIES {
            marks::check();
        }
    }
}

/// What goes wrong in the case, a panic included.
fn lived(case: &Case) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| small::run(case))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a text")))
    })
}

/// What kind of failure it is: a smaller case must not fail in another way.
fn kind(what: &str) -> &str {
    let kinds = ["panicked", "refused", "opened", "closed"];
    kinds.into_iter().find(|kind| what.contains(kind)).unwrap_or("a wrong answer")
}

/// The text of a failure: what it was, and the smallest case that still fails.
fn smaller(case: &Case, what: &str) -> String {
    let until = Instant::now() + Duration::from_secs(600);
    let alike = |other: &str| kind(other) == kind(what);
    let fails =
        |case: &Case| Instant::now() < until && lived(case).is_err_and(|other| alike(&other));
    let small = shrink::shrink(case, TRIES, &fails);
    let still = lived(&small).err().unwrap_or_default();
    format!("{what}\nsmallest case that fails ({still}):\n{}", shrink::show(&small))
}
