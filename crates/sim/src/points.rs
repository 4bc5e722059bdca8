//! Runs one test at many points, on all processors, and tells how to run just the one that failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One try: a history and the place where something befalls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Seed of the history and of everything else that is random.
    pub seed: u64,
    /// Which operation of the file system, or which byte, or whatever the test counts.
    pub at: u64,
}

/// A number from the environment, if it is set.
pub fn number<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse().ok();
    assert!(number.is_some(), "{variable}={text} is not a number");
    number
}

/// The point that `STELE_SEED` and `STELE_POINT` ask for, if they do.
pub fn wanted() -> Option<Point> {
    Some(Point { seed: number("STELE_SEED")?, at: number("STELE_POINT")? })
}

/// Tries every point; panics with the first failure (of the lowest index tried) and how to run it
/// again. `test` names the test function. With a point in the environment only that one is tried.
pub fn try_all(test: &str, points: &[Point], attempt: impl Fn(Point) -> Result<(), String> + Sync) {
    let only = wanted();
    let points = only.as_ref().map_or(points, std::slice::from_ref);
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None::<(usize, String)>);
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads.min(points.len()) {
            scope.spawn(|| {
                while let Some((index, point)) = take(&next, points) {
                    if let Err(what) = guarded(|| attempt(point)) {
                        next.store(points.len(), Ordering::Relaxed);
                        let mut first = failure.lock().expect("no holder panics");
                        if first.as_ref().is_none_or(|(at, _)| index < *at) {
                            *first = Some((index, what));
                        }
                    }
                }
            });
        }
    });
    if let Some((index, what)) = failure.into_inner().expect("no holder panics") {
        let Point { seed, at } = points[index];
        panic!("{what}\nonce more: STELE_SEED={seed} STELE_POINT={at} cargo test -p sim {test}\n");
    }
}

fn take(next: &AtomicUsize, points: &[Point]) -> Option<(usize, Point)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    points.get(index).map(|point| (index, *point))
}

/// A panic is a failure like any other.
fn guarded(attempt: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a text")))
    })
}
