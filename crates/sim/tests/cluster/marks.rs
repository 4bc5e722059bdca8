//! The coverage marks of the driver, with how often each was hit.

use cluster::Mark;
use std::fmt::Write as _;
use std::time::Duration;

/// Hits of each mark, in the order of [`Mark::ALL`].
pub(crate) type Hits = Vec<u64>;

/// Returns the hits of this process.
pub(crate) fn hits() -> Hits {
    Mark::ALL.iter().map(|mark| mark.hits()).collect()
}

/// Returns the hits since `before`.
pub(crate) fn since(before: &Hits) -> Hits {
    hits().iter().zip(before).map(|(now, before)| now - before).collect()
}

/// Prints the marks with their hits.
pub(crate) fn print(hits: &Hits, worlds: u64, time: Duration) {
    let mut text = format!("{worlds} worlds in {:.1} s\n", time.as_secs_f64());
    for (mark, hits) in Mark::ALL.iter().zip(hits) {
        let _ = writeln!(text, "{hits:>12}  {mark:?}");
    }
    tell(&text);
}

/// Prints a line, or a few.
#[expect(clippy::print_stdout, reason = "it is what the suite is asked for")]
pub(crate) fn tell(text: &str) {
    println!("{text}");
}

/// Fails if a mark was not hit, in builds that count.
pub(crate) fn check(hits: &Hits) {
    let marks = Mark::ALL.iter().zip(hits);
    let missed: Vec<_> = marks.filter(|(_, hits)| **hits == 0).map(|(mark, _)| mark).collect();
    assert!(!cfg!(debug_assertions) || missed.is_empty(), "marks not hit: {missed:?}");
}
