//! The plots of a report.

use super::chart::{Chart, Line, Scale};
use crate::report::{Point, Report};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Most points of a line over time.
const POINTS_MAX: usize = 200;
const OVER_TIME: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")];
/// Most nines of a percentile plot: 99.9999 %.
const NINES_MAX: f64 = 6.0;

impl Report {
    pub(super) fn write_plots(&self, html: &mut String) -> std::fmt::Result {
        writeln!(html, "<div class=\"charts\">")?;
        let points = self.timeline.grouped(POINTS_MAX);
        let shaded = self.warm_up_seconds;
        let chart = |title: String, y_label, scale, lines| {
            let x_label = "seconds since the begin; the warm-up is shaded";
            let chart = Chart { title, x_label, y_label, scale, x_marks: None, shaded, lines };
            chart.html()
        };
        let kinds = kinds(&points);
        let rates = kinds.iter().map(|kind| Line {
            name: (*kind).to_owned(),
            points: over(&points, |point| {
                let count = point.operations.get(*kind).map_or(0, |all| all.count());
                per_second(count, point)
            }),
        });
        html.push_str(&chart("Throughput".into(), "ops/s", Scale::Linear, rates.collect()));
        html.push_str(&self.percentiles());
        for kind in &kinds {
            let lines = OVER_TIME.map(|(q, name)| Line {
                name: name.to_owned(),
                points: over(&points, |point| {
                    let latency = point.operations.get(*kind).and_then(|all| all.quantile(q));
                    latency.map_or(f64::NAN, |micros| micros / 1e3)
                }),
            });
            let title = format!("Latency of {kind}");
            html.push_str(&chart(title, "ms", Scale::Logarithmic, lines.into()));
        }
        let line = |name: &str, points| vec![Line { name: name.to_owned(), points }];
        if points.iter().any(|point| point.failed() > 0) {
            let errors = over(&points, |point| per_second(point.failed(), point));
            html.push_str(&chart(
                "Failed operations".into(),
                "a second",
                Scale::Linear,
                line("failed", errors),
            ));
        }
        if self.open_loop.is_some() {
            let backlog = over(&points, |point| point.backlog as f64);
            html.push_str(&chart(
                "Backlog".into(),
                "operations",
                Scale::Linear,
                line("due and not begun", backlog),
            ));
        }
        let cpu = over(&points, |point| point.cpu_share * 100.0);
        html.push_str(&chart(
            "CPU of the client".into(),
            "% of its cores",
            Scale::Linear,
            line("client", cpu),
        ));
        writeln!(html, "</div>")
    }

    /// Returns the plot of latencies by percentile, in which each nine has the same width.
    fn percentiles(&self) -> String {
        let lines = self.operations.iter().filter(|(_, results)| results.histogram.count() > 0);
        let line = |(name, results): (&String, &crate::report::Results)| {
            let deepest = (results.histogram.count().max(1) as f64).log10().min(NINES_MAX);
            let steps = (deepest * 20.0) as u32;
            let point = |step: u32| {
                let nines = f64::from(step) / 20.0;
                let micros = results.histogram.quantile(1.0 - 10f64.powf(-nines));
                (nines, micros as f64 / 1e3)
            };
            Line { name: name.clone(), points: (0..=steps).map(point).collect() }
        };
        let marks = ["50", "90", "99", "99.9", "99.99", "99.999", "99.9999"];
        let at = |(nines, mark): (usize, &&str)| {
            let place = if nines == 0 { 2f64.log10() } else { nines as f64 };
            (place, (*mark).to_owned())
        };
        let marks = marks.iter().enumerate().map(at);
        let chart = Chart {
            title: "Latency by percentile".to_owned(),
            x_label: "% of the operations",
            y_label: "ms",
            scale: Scale::Logarithmic,
            x_marks: Some(marks.collect()),
            shaded: f64::NEG_INFINITY,
            lines: lines.map(line).collect(),
        };
        chart.html()
    }
}

fn kinds(points: &[Point]) -> BTreeSet<&str> {
    points.iter().flat_map(|point| point.operations.keys().map(String::as_str)).collect()
}

fn per_second(count: u64, point: &Point) -> f64 {
    if point.seconds > 0.0 { count as f64 / point.seconds } else { f64::NAN }
}

/// Returns the values of intervals, each at the middle of its interval.
fn over(points: &[Point], value: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let mut end = 0.0;
    let at = |point: &Point| {
        end += point.seconds;
        (end - point.seconds / 2.0, value(point))
    };
    points.iter().map(at).collect()
}
