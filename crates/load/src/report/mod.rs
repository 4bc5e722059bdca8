//! The report of a run: `docs/load.md` has its JSON schema.
//!
//! `timeline.rs` are the intervals, `merge.rs` adds reports of processes that shared a run, `verdict.rs`
//! says what limited the run, `text.rs` is the summary for terminals, and `html` the page with plots.

mod file;
mod html;
mod merge;
#[cfg(test)]
mod tests;
mod text;
mod timeline;
mod verdict;

pub(crate) use timeline::{Point, Timeline};
pub(crate) use verdict::Limits;

use crate::args::Part;
use crate::measure::{CpuUse, Distribution, Machine, Tally};
use crate::workload::Example;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the JSON schema. Readers refuse others.
pub(crate) const SCHEMA: u32 = 1;

/// The report of a run, of one process or of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub(crate) schema: u32,
    /// Name and version of the program.
    pub(crate) program: String,
    pub(crate) title: String,
    pub(crate) workload: String,
    /// Name of the data set: the prefix of its row keys.
    pub(crate) data: String,
    pub(crate) seed: u64,
    pub(crate) settings: BTreeMap<String, String>,
    /// Begin of the measured run, RFC 3339.
    pub(crate) started: String,
    /// Begin of the measured run, in milliseconds since 1970.
    pub(crate) started_ms: i64,
    /// Seconds of warm-up before, which no result but the timeline has.
    pub(crate) warm_up_seconds: f64,
    /// Seconds of the measured run.
    pub(crate) seconds: f64,
    pub(crate) ended: String,
    /// Rows written before the run, if any were.
    pub(crate) fill: Option<Fill>,
    /// Results by kind of operation.
    pub(crate) operations: BTreeMap<String, Results>,
    /// Delays before the begin of operations; absent in a closed loop.
    pub(crate) open_loop: Option<OpenLoop>,
    /// First message of each class of failures.
    pub(crate) messages: BTreeMap<String, String>,
    pub(crate) verification: Verification,
    pub(crate) processes: Vec<Process>,
    pub(crate) timeline: Timeline,
}

/// Rows written before the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fill {
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
}

/// Results of one kind of operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// Successful operations, without wrong answers.
    pub(crate) count: u64,
    pub(crate) per_second: f64,
    /// Operations without an answer, which are in the percentiles with the time that they waited.
    #[serde(default)]
    pub(crate) unanswered: u64,
    /// Rows that they read or wrote.
    pub(crate) rows: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) latency_us: Summary,
    pub(crate) histogram: Distribution,
}

/// A distribution in a few numbers, all in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) p9999: u64,
    pub(crate) max: u64,
}

/// The account of an open loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenLoop {
    /// Operations a second that were wanted.
    pub(crate) rate: f64,
    /// Operations that became due, warm-up included.
    pub(crate) due: u64,
    /// Operations that were left out, because the backlog was full.
    pub(crate) left_out: u64,
    /// Operations that were due and not begun at the end.
    pub(crate) not_begun: u64,
    /// Most operations that were due and not begun at any time.
    pub(crate) backlog_max: u64,
    /// Delays from due to begun.
    pub(crate) delay_us: Summary,
    pub(crate) delay_histogram: Distribution,
    /// The share of the delays that the client's own pacer caused.
    pub(crate) pacer_us: Summary,
    pub(crate) pacer_histogram: Distribution,
}

/// The account of verified reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verification {
    /// Values that were compared with what they must be.
    pub(crate) values: u64,
    /// Wrong answers by problem, warm-up included.
    pub(crate) wrong: BTreeMap<String, u64>,
    pub(crate) examples: Vec<Example>,
}

/// One process of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) part: Part,
    pub(crate) machine: Machine,
    pub(crate) cpu: CpuUse,
    /// CPU of the client by its cores, from 0 to 1.
    pub(crate) cpu_share: f64,
    /// Name of the limit that was found.
    pub(crate) limit: String,
    /// A sentence about the client as a bottleneck.
    pub(crate) statement: String,
}

impl Summary {
    /// Returns the summary of a distribution.
    pub(crate) fn of(all: &Distribution) -> Self {
        Self {
            mean: (all.mean() * 10.0).round() / 10.0,
            p50: all.quantile(0.5),
            p90: all.quantile(0.9),
            p99: all.quantile(0.99),
            p999: all.quantile(0.999),
            p9999: all.quantile(0.9999),
            max: all.max(),
        }
    }
}

impl Results {
    /// Returns the results of a tally of `seconds`.
    pub(crate) fn of(tally: Tally, seconds: f64) -> Self {
        let errors = tally.errors.into_iter().map(|(class, count)| (class.to_owned(), count));
        let (count, unanswered) = (tally.latency.count(), tally.unanswered.count());
        let mut histogram = tally.latency;
        histogram.add(&tally.unanswered);
        let latency_us = Summary::of(&histogram);
        let (rows, errors) = (tally.rows, errors.collect());
        let all = Self { count, per_second: 0.0, unanswered, rows, errors, latency_us, histogram };
        all.over(seconds)
    }

    /// Returns the results with the rate of `seconds`.
    fn over(mut self, seconds: f64) -> Self {
        self.per_second = if seconds > 0.0 { self.count as f64 / seconds } else { 0.0 };
        self
    }

    fn failed(&self) -> u64 {
        self.errors.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl Report {
    /// Returns the number of wrong answers.
    pub fn wrong_answers(&self) -> u64 {
        self.verification.wrong.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the number of successful operations.
    pub fn successes(&self) -> u64 {
        self.operations.values().fold(0, |sum, results| sum.saturating_add(results.count))
    }

    /// Returns the number of failed operations, those with wrong answers included.
    pub fn failures(&self) -> u64 {
        self.operations.values().fold(0, |sum, results| sum.saturating_add(results.failed()))
    }
}
