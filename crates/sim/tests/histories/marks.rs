//! The coverage marks of the engine, with how often each was hit.

use engine::internals::Mark;
use std::fmt::Write as _;
use std::time::Duration;

/// Prints the list.
#[expect(clippy::print_stdout, reason = "it is what the suite is asked for")]
pub(crate) fn print(histories: u64, time: Duration) {
    let mut text = format!("{histories} histories in {:.1} s\n", time.as_secs_f64());
    for mark in Mark::ALL {
        let _ = writeln!(text, "{:>12}  {mark:?}", mark.hits());
    }
    println!("{text}");
}

/// Fails if a mark was not hit, in builds that count.
pub(crate) fn check() {
    let missed: Vec<_> = Mark::ALL.iter().filter(|mark| mark.hits() == 0).collect();
    assert!(!cfg!(debug_assertions) || missed.is_empty(), "marks not hit: {missed:?}");
}
