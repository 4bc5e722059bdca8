//! What a worker tells its parent, one JSON object a line, and what is made of it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// A line from a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// It opened the store and found all as it must be.
    Opened,
    /// What was done since the last line.
    Did(Box<Tally>),
    /// Something is wrong; the last line.
    Wrong(String),
}

/// Numbers of things done, and the most that was seen of others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) batches: u64,
    pub(crate) ingests: u64,
    pub(crate) gets: u64,
    pub(crate) row_reads: u64,
    pub(crate) scans: u64,
    pub(crate) scanned_rows: u64,
    pub(crate) snapshots: u64,
    pub(crate) flushes: u64,
    pub(crate) compactions: u64,
    pub(crate) checkpoints: u64,
    /// Quiet moments, each with everything read and all files accounted for.
    pub(crate) quiet: u64,
    pub(crate) stalls: u64,
    pub(crate) slowdowns: u64,
    /// Of a write, ingest or not.
    pub(crate) latencies: Latencies,
    /// SSTables at the last quiet moment.
    pub(crate) ssts: u64,
    /// Most descriptors at a quiet moment that were not of SSTables.
    pub(crate) descriptors: u64,
    /// By budget in bytes, when the most memory was in use.
    pub(crate) memory: BTreeMap<u64, Memory>,
}

/// Memory in use at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// Beyond the base, in bytes.
    pub(crate) bytes: u64,
    /// What the engine's account had of it: more than the budget where memtables were replayed
    /// beyond it, or are still read.
    pub(crate) charged: u64,
}

impl Tally {
    /// Adds what came after.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.batches, other.batches),
            (&mut self.ingests, other.ingests),
            (&mut self.gets, other.gets),
            (&mut self.row_reads, other.row_reads),
            (&mut self.scans, other.scans),
            (&mut self.scanned_rows, other.scanned_rows),
            (&mut self.snapshots, other.snapshots),
            (&mut self.flushes, other.flushes),
            (&mut self.compactions, other.compactions),
            (&mut self.checkpoints, other.checkpoints),
            (&mut self.quiet, other.quiet),
            (&mut self.stalls, other.stalls),
            (&mut self.slowdowns, other.slowdowns),
        ] {
            *sum += more;
        }
        self.latencies.add(&other.latencies);
        self.ssts = if other.ssts > 0 { other.ssts } else { self.ssts };
        self.descriptors = self.descriptors.max(other.descriptors);
        other.memory.iter().for_each(|(budget, memory)| self.saw_memory(*memory, *budget));
    }

    /// Notes how much memory is used beside a budget.
    pub(crate) fn saw_memory(&mut self, memory: Memory, budget: u64) {
        let most = self.memory.entry(budget).or_default();
        *most = memory.max(*most);
    }
}

/// How long writes took, counted by the power of two of microseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Latencies {
    /// Of place `n`: those of less than 2^n µs, and not less than half of that.
    counts: [u64; 32],
    max_micros: u64,
}

impl Latencies {
    pub(crate) fn note(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = (u64::BITS - micros.leading_zeros()) as usize;
        self.counts[place.min(self.counts.len() - 1)] += 1;
        self.max_micros = self.max_micros.max(micros);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, more)| *sum += more);
        self.max_micros = self.max_micros.max(other.max_micros);
    }

    /// The longest.
    pub(crate) fn max(&self) -> Duration {
        Duration::from_micros(self.max_micros)
    }

    /// A table of them, one line a power of two.
    pub(crate) fn show(&self) -> String {
        let total = self.counts.iter().sum::<u64>();
        let mut text = String::from("latency of writes      count   share   this or less\n");
        let mut so_far = 0;
        for (place, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            so_far += count;
            let share = |of: u64| of as f64 * 100.0 / total as f64;
            let below = Duration::from_micros(1 << place);
            let below = format!("{below:?}");
            let line = writeln!(
                text,
                "below {below:>12} {count:>9} {:>6.2}%  {:>8.4}%",
                share(*count),
                share(so_far)
            );
            line.expect("a string takes all");
        }
        let max = self.max();
        writeln!(text, "longest {max:?}").expect("a string takes all");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_below_a_power_of_two() {
        let mut latencies = Latencies::default();
        for micros in [0, 1, 2, 3, 1000, 1_100_000] {
            latencies.note(Duration::from_micros(micros));
        }
        latencies.add(&latencies.clone());
        let text = latencies.show();
        let counts: Vec<_> = text.lines().map(|line| line.split_whitespace().nth(2)).collect();
        let counts: Vec<_> = counts[1..counts.len() - 1].iter().flatten().copied().collect();
        assert_eq!(counts, ["2", "2", "4", "2", "2"], "{text}");
        assert!(text.ends_with("longest 1.1s\n"), "{text}");
    }
}
