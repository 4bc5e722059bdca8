//! Values and distributions as they are told.

use base::histogram::Buckets;
use std::fmt::Write;

/// A name and a value.
pub type Label = (&'static str, &'static str);

/// Kinds of counted and measured values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A number of events since the engine was opened, which only grows. Its name ends in `_total`.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

/// A counter or a gauge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Name in snake case. Its unit, seconds or bytes, comes last, before `_total` of a counter.
    pub name: &'static str,
    /// Meaning, as a sentence with its full stop.
    pub help: &'static str,
    /// Kind, which the name tells as well.
    pub kind: MetricKind,
    /// Labels, in the order of their names.
    pub labels: Vec<Label>,
    /// The value in the unit that the name tells.
    pub value: u64,
}

/// Unit of the values of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistogramUnit {
    /// Durations, recorded in microseconds and told in seconds.
    Micros,
    /// Numbers of things, which have no unit.
    Ones,
}

/// A distribution of durations or numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramReading {
    /// Name in snake case. The unit `_seconds` of durations comes last.
    pub name: &'static str,
    /// Meaning, as a sentence with its full stop.
    pub help: &'static str,
    /// Unit of the bounds and the sum.
    pub unit: HistogramUnit,
    /// Labels, in the order of their names.
    pub labels: Vec<Label>,
    /// Number of values by their size.
    pub buckets: Buckets,
}

/// A reading of the counters, gauges and distributions of an engine or of one tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Counters and gauges. Readings of one name follow each other, and differ in the values of labels.
    pub readings: Vec<Reading>,
    /// Distributions of durations and numbers. Distributions of one name follow each other.
    pub histograms: Vec<HistogramReading>,
}

/// Readings of an engine and of groups of its trees, from one walk over the trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupedMetrics {
    /// Readings of the whole engine.
    pub all: Metrics,
    /// Sums of the counters and gauges of the trees of each group; `None` if a tree of it is gone.
    pub groups: Vec<Option<Metrics>>,
    /// Sums of the counters and gauges of the trees of no group, and of dropped trees.
    pub others: Metrics,
}

impl Reading {
    /// Returns the name with the labels: `level_bytes{level="0"}`.
    pub fn series(&self) -> String {
        let mut series = self.name.to_owned();
        for (at, (label, value)) in self.labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let written = write!(series, "{before}{label}=\"{value}\"");
            debug_assert!(written.is_ok(), "writing to a string cannot fail");
        }
        if !self.labels.is_empty() {
            series.push('}');
        }
        series
    }
}

/// Returns whether `labels` have all labels of `series`, which are written as `{NAME="VALUE",…}` behind
/// its name.
fn have_labels_of(series: &str, labels: &[Label]) -> bool {
    let (_, written) = series.split_once('{').unwrap_or((series, ""));
    let mut each = written.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
    each.all(|label| {
        let Some((name, value)) = label.split_once('=') else { return false };
        labels.contains(&(name, value.trim_matches('"')))
    })
}

/// Returns the name of a series without its labels.
fn name_of(series: &str) -> &str {
    series.split('{').next().unwrap_or(series)
}

impl Metrics {
    /// Returns the sum of the readings of a name that have the labels of `series`, if it has any:
    /// `level_bytes{level="0"}`, or `level_bytes` of all levels. `None` if there is no such reading.
    pub fn get(&self, series: &str) -> Option<u64> {
        let name = name_of(series);
        let is_asked = |one: &&Reading| one.name == name && have_labels_of(series, &one.labels);
        let mut found = self.readings.iter().filter(is_asked).peekable();
        found.peek()?;
        Some(found.map(|one| one.value).sum())
    }

    /// Returns the first distribution of a name that has the labels of `series`, if it has any:
    /// `queue_wait_seconds{queue="commits"}`.
    pub fn histogram(&self, series: &str) -> Option<&HistogramReading> {
        let name = name_of(series);
        self.histograms.iter().find(|one| one.name == name && have_labels_of(series, &one.labels))
    }
}

/// Readings that are being gathered.
#[derive(Default)]
pub(super) struct Gathered(pub(super) Vec<Reading>);

impl Gathered {
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.labelled(name, help, &[], value);
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.labelled(name, help, &[], value);
    }

    /// Adds a reading. The name tells its kind.
    pub(super) fn labelled(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[Label],
        value: u64,
    ) {
        debug_assert!(labels.is_sorted_by_key(|(label, _)| *label), "{name}");
        let kind = match name.ends_with("_total") {
            true => MetricKind::Counter,
            false => MetricKind::Gauge,
        };
        self.0.push(Reading { name, help, kind, labels: labels.to_vec(), value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_read_by_its_labels_and_a_name_is_the_sum() {
        let mut gathered = Gathered::default();
        gathered.counter("plain_total", "Plain.", 3);
        for (level, value) in [("0", 5), ("1", 7)] {
            gathered.labelled("level_bytes", "Levels.", &[("kind", "a"), ("level", level)], value);
        }
        let metrics = Metrics { readings: gathered.0, histograms: Vec::new() };
        assert_eq!(metrics.readings[1].series(), "level_bytes{kind=\"a\",level=\"0\"}");
        assert_eq!(metrics.get("level_bytes{kind=\"a\",level=\"1\"}"), Some(7));
        assert_eq!(metrics.get("level_bytes{level=\"1\"}"), Some(7));
        assert_eq!(metrics.get("level_bytes{kind=\"a\"}"), Some(12));
        assert_eq!(metrics.get("level_bytes{level=\"2\"}"), None);
        assert_eq!(metrics.get("level_bytes"), Some(12));
        assert_eq!(metrics.get("plain_total"), Some(3));
        assert_eq!(metrics.get("plain"), None);
        assert_eq!(metrics.readings[0].kind, MetricKind::Counter);
        assert_eq!(metrics.readings[1].kind, MetricKind::Gauge);
    }

    #[test]
    fn a_distribution_is_read_by_its_labels() {
        let of = |queue: &'static str, sum| HistogramReading {
            name: "wait_seconds",
            help: "Waits.",
            unit: HistogramUnit::Micros,
            labels: vec![("queue", queue)],
            buckets: Buckets { sum, ..Buckets::default() },
        };
        let histograms = vec![of("a", 3), of("b", 5)];
        let metrics = Metrics { readings: Vec::new(), histograms };
        let sum = |series| metrics.histogram(series).map(|one| one.buckets.sum);
        assert_eq!(sum("wait_seconds{queue=\"b\"}"), Some(5));
        assert_eq!(sum("wait_seconds"), Some(3), "the first one");
        assert_eq!(sum("wait_seconds{queue=\"c\"}"), None);
        assert_eq!(sum("wait"), None);
    }
}
