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
    /// Number of values by their size.
    pub buckets: Buckets,
}

/// A reading of the counters, gauges and distributions of an engine or of one tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Counters and gauges. Readings of one name follow each other, and differ in the values of labels.
    pub readings: Vec<Reading>,
    /// Distributions of durations and numbers.
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

    /// Returns whether it has the label that is written as `NAME="VALUE"`.
    fn has_label(&self, written: &str) -> bool {
        let Some((name, value)) = written.split_once('=') else { return false };
        self.labels.contains(&(name, value.trim_matches('"')))
    }
}

impl Metrics {
    /// Returns the sum of the readings of a name that have the labels of `series`, if it has any:
    /// `level_bytes{level="0"}`, or `level_bytes` of all levels. `None` if there is no such reading.
    pub fn get(&self, series: &str) -> Option<u64> {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
        let has = |one: &Reading| labels.clone().all(|label| one.has_label(label));
        let mut found = self.readings.iter().filter(|one| one.name == name && has(one)).peekable();
        found.peek()?;
        Some(found.map(|one| one.value).sum())
    }

    /// Returns the distribution called `name`.
    pub fn histogram(&self, name: &str) -> Option<&HistogramReading> {
        self.histograms.iter().find(|one| one.name == name)
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
}
