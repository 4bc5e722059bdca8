//! The progress line of each second.

use crate::measure::{Operation, Tally};
use crate::report::Point;
use crate::workload::Sink;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Shortest interval whose rates mean anything.
const LINE_SECONDS_MIN: f64 = 0.2;

pub(crate) struct Progress {
    sink: Sink,
    quiet: bool,
}

impl Progress {
    /// Returns progress that is written to `sink`; a quiet one has no line each second.
    pub(crate) fn new(sink: Sink, quiet: bool) -> Self {
        Self { sink, quiet }
    }

    pub(crate) fn say(&self, line: &str) {
        // An output that is gone stops no run.
        let _ = writeln!(self.sink.lock(), "{line}");
    }

    /// Writes the line of an interval.
    pub(crate) fn tick(&self, at: Duration, tallies: &BTreeMap<Operation, Tally>, point: &Point) {
        if !self.quiet && point.seconds >= LINE_SECONDS_MIN {
            self.say(&line(at, tallies, point));
        }
    }
}

fn line(at: Duration, tallies: &BTreeMap<Operation, Tally>, point: &Point) -> String {
    let seconds = point.seconds.max(1e-3);
    let count: u64 = tallies.values().map(|tally| tally.latency.count()).sum();
    let mut line = format!("{:>6.0} s {:>9.0} ops/s", at.as_secs_f64(), count as f64 / seconds);
    for (operation, tally) in tallies {
        let latency = &tally.latency;
        if latency.count() > 0 {
            let ms = |q| latency.quantile(q) as f64 / 1e3;
            let (p50, p99, p999) = (ms(0.5), ms(0.99), ms(0.999));
            let name = operation.name();
            add(&mut line, format_args!("  {name} p50 {p50:.2} p99 {p99:.2} p99.9 {p999:.2} ms"));
        }
    }
    for (class, count) in &point.errors {
        add(&mut line, format_args!("  {count} x {class}"));
    }
    if point.backlog > 0 {
        add(&mut line, format_args!("  backlog {}", point.backlog));
    }
    if point.warm_up {
        line.push_str("  (warm-up)");
    }
    line
}

fn add(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a string takes all text");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{End, Outcome, Recorder};

    #[test]
    fn a_line_tells_rate_percentiles_and_errors() {
        let recorder = Recorder::new();
        let good = Outcome {
            operation: Operation::Read,
            latency: Duration::from_micros(1500),
            delay: Duration::ZERO,
            rows: 1,
            end: End::Success,
            measured: true,
        };
        (0..100).for_each(|worker| recorder.record(worker, &good));
        let point = Point {
            seconds: 2.0,
            errors: BTreeMap::from([("UNAVAILABLE".to_owned(), 3)]),
            backlog: 7,
            ..Point::default()
        };
        let text = line(Duration::from_secs(12), &recorder.drain().all, &point);
        assert_eq!(
            text,
            "    12 s        50 ops/s  read p50 1.50 p99 1.50 p99.9 1.50 ms  3 x UNAVAILABLE  \
             backlog 7"
        );
        // Time that stands still divides nothing by zero.
        assert!(line(Duration::ZERO, &BTreeMap::new(), &Point::default()).contains(" 0 ops/s"));
    }
}
