//! Parts that the benchmark programs, `bench` and `bench-compare`, and the load tester share: random numbers,
//! keys and values, CPU time, the spread of repeated measurements, and a table of hits on web pages. It knows
//! no engine.

mod cpu_time;
pub mod hits;
mod keys;
mod random;
mod spread;

pub use cpu_time::{Spent, Stopwatch, process_cpu, thread_cpu};
pub use keys::{KeyKind, random_key, random_value};
pub use random::{SplitMix64, mix};
pub use spread::Spread;

/// Prints a line of results on standard output.
#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
pub fn print(line: &str) {
    println!("{line}");
}
