//! Families of samples, and the one place that writes them as text.

use engine::Buckets;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Result, TextEncoder};
use std::collections::BTreeMap;

/// Microseconds of a second, by which durations are divided.
pub(super) const MICROS_PER_SECOND: f64 = 1e6;

/// Families by name, so that a scrape has each once and in a fixed order.
#[derive(Debug, Default)]
pub(crate) struct Families(BTreeMap<String, MetricFamily>);

impl Families {
    /// Adds families that a registry has gathered.
    pub(super) fn take(&mut self, gathered: Vec<MetricFamily>) {
        for family in gathered {
            self.0.insert(family.name().to_owned(), family);
        }
    }

    /// Adds a sample of a counter.
    pub(super) fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let mut counter = Counter::default();
        counter.set_value(value);
        let mut metric = labelled(labels);
        metric.set_counter(counter);
        self.add(name, help, MetricType::COUNTER, metric);
    }

    /// Adds a sample of a gauge.
    pub(super) fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = labelled(labels);
        metric.set_gauge(gauge);
        self.add(name, help, MetricType::GAUGE, metric);
    }

    /// Adds a histogram, whose bounds and sum are divided by `per_unit`.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        buckets: &Buckets,
        per_unit: f64,
    ) {
        let mut below = 0;
        let ends = buckets.bounds.iter().zip(&buckets.counts).map(|(bound, count)| {
            below += count;
            let mut end = Bucket::default();
            end.set_upper_bound(*bound as f64 / per_unit);
            end.set_cumulative_count(below);
            end
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(ends.collect());
        histogram.set_sample_count(buckets.count());
        histogram.set_sample_sum(buckets.sum as f64 / per_unit);
        let mut metric = labelled(labels);
        metric.set_histogram(histogram);
        self.add(name, help, MetricType::HISTOGRAM, metric);
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, metric: Metric) {
        let new = || {
            let mut family = MetricFamily::default();
            family.set_name(name.to_owned());
            family.set_help(help.to_owned());
            family.set_field_type(kind);
            family
        };
        let family = match self.0.get_mut(name) {
            Some(known) => known,
            None => self.0.entry(name.to_owned()).or_insert_with(new),
        };
        debug_assert_eq!(family.get_field_type(), kind, "{name} has one kind");
        family.mut_metric().push(metric);
    }

    /// Returns the families as Prometheus text.
    pub(crate) fn text(self) -> Result<String> {
        let families: Vec<_> = self.0.into_values().collect();
        TextEncoder::new().encode_to_string(&families)
    }

    /// Returns the families in order of name.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &MetricFamily> {
        self.0.values()
    }
}

fn labelled(labels: &[(&str, &str)]) -> Metric {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    let mut metric = Metric::default();
    metric.set_label(labels.iter().map(pair).collect());
    metric
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::histogram;
    use std::time::Duration;

    #[test]
    fn samples_of_a_name_are_one_family_and_labels_are_escaped() {
        let mut families = Families::default();
        families.gauge("stele_b", "Two.", &[("table", "x")], 2.0);
        families.counter("stele_a_total", "One.", &[], 1.5);
        families.gauge("stele_b", "Two.", &[("table", "a\"\\\nb")], 3.0);
        let want = "# HELP stele_a_total One.\n# TYPE stele_a_total counter\nstele_a_total 1.5\n\
                    # HELP stele_b Two.\n# TYPE stele_b gauge\nstele_b{table=\"x\"} 2\n\
                    stele_b{table=\"a\\\"\\\\\\nb\"} 3\n";
        assert_eq!(families.text().unwrap(), want);
    }

    #[test]
    fn a_histogram_of_durations_is_told_in_seconds() {
        let times = histogram::Histogram::of_durations();
        for micros in [5, 30, 90_000_000] {
            times.record_time(Duration::from_micros(micros));
        }
        let mut families = Families::default();
        let read = times.read();
        families.histogram("stele_x_seconds", "X.", &[], &read, MICROS_PER_SECOND);
        let text = families.text().unwrap();
        for line in [
            "stele_x_seconds_bucket{le=\"0.00001\"} 1",
            "stele_x_seconds_bucket{le=\"0.000025\"} 1",
            "stele_x_seconds_bucket{le=\"0.00005\"} 2",
            "stele_x_seconds_bucket{le=\"60\"} 2",
            "stele_x_seconds_bucket{le=\"+Inf\"} 3",
            "stele_x_seconds_sum 90.000035",
            "stele_x_seconds_count 3",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} not in\n{text}");
        }
    }
}
