//! The run by intervals. The number of intervals is bounded: when there are too many, neighbours are
//! added up and the interval doubles.

use crate::measure::Coarse;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most intervals of a timeline.
const POINTS_MAX: usize = 3600;

/// Intervals of equal length from the begin of the warm-up on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timeline {
    /// Seconds of each interval; the last one may be shorter.
    pub(crate) interval_seconds: f64,
    pub(crate) points: Vec<Point>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) seconds: f64,
    /// Part of it was warm-up.
    pub(crate) warm_up: bool,
    /// Successful operations by kind, with their latencies.
    pub(crate) operations: BTreeMap<String, Coarse>,
    pub(crate) errors: BTreeMap<String, u64>,
    /// Operations that were due and not begun at the end of the interval.
    pub(crate) backlog: u64,
    /// CPU of the client by its cores, from 0 to 1.
    pub(crate) cpu_share: f64,
}

impl Point {
    /// Adds the interval that follows this one.
    fn append(&mut self, next: &Self) {
        let seconds = self.seconds + next.seconds;
        let weighed = self.cpu_share * self.seconds + next.cpu_share * next.seconds;
        self.cpu_share = if seconds > 0.0 { weighed / seconds } else { 0.0 };
        self.seconds = seconds;
        self.backlog = self.backlog.max(next.backlog);
        self.count(next);
    }

    /// Adds the same interval of another process.
    pub(super) fn beside(&mut self, other: &Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.cpu_share = self.cpu_share.max(other.cpu_share);
        self.backlog = self.backlog.saturating_add(other.backlog);
        self.count(other);
    }

    fn count(&mut self, other: &Self) {
        self.warm_up |= other.warm_up;
        for (operation, latencies) in &other.operations {
            self.operations.entry(operation.clone()).or_default().add(latencies);
        }
        for (class, count) in &other.errors {
            let sum = self.errors.entry(class.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    pub(super) fn failed(&self) -> u64 {
        self.errors.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl Timeline {
    /// Returns a timeline without intervals.
    pub(crate) fn new(interval_seconds: f64) -> Self {
        Self { interval_seconds, points: Vec::new() }
    }

    /// Adds the interval that ended now.
    pub(crate) fn push(&mut self, point: Point) {
        // After doublings, the last interval collects until it has its length.
        let interval = self.interval_seconds;
        match self.points.last_mut() {
            Some(last) if last.seconds + point.seconds / 2.0 < interval => last.append(&point),
            // The end of a run is no interval of its own.
            Some(last) if point.seconds < interval / 4.0 => last.append(&point),
            _ => self.points.push(point),
        }
        if self.points.len() > POINTS_MAX {
            self.halve();
        }
    }

    /// Returns at most `count` intervals, of which each is the sum of as many neighbours.
    pub(super) fn grouped(&self, count: usize) -> Vec<Point> {
        let size = self.points.len().div_ceil(count.max(1)).max(1);
        let groups = self.points.chunks(size).map(|group| {
            let mut sum = group[0].clone();
            group[1..].iter().for_each(|next| sum.append(next));
            sum
        });
        groups.collect()
    }

    fn halve(&mut self) {
        self.points = self.grouped(self.points.len().div_ceil(2));
        self.interval_seconds *= 2.0;
    }

    /// Adds the timeline of another process that began `later` seconds after this one.
    pub(super) fn beside(&mut self, mut other: Self, later: f64) {
        // A timeline of an impossible interval is only told by its own length.
        while other.interval_seconds < self.interval_seconds && other.points.len() > 1 {
            other.halve();
        }
        while self.interval_seconds < other.interval_seconds && self.points.len() > 1 {
            self.halve();
        }
        let skipped = (later / self.interval_seconds).round().clamp(0.0, POINTS_MAX as f64);
        for (at, point) in other.points.iter().enumerate() {
            let at = at + skipped as usize;
            if self.points.len() <= at {
                self.points.resize_with(at + 1, Point::default);
            }
            self.points[at].beside(point);
        }
        while self.points.len() > POINTS_MAX {
            self.halve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Distribution;
    use std::time::Duration;

    fn point(operations: u64, errors: u64) -> Point {
        let mut exact = Distribution::new();
        (0..operations).for_each(|_| exact.record(Duration::from_millis(1)));
        Point {
            seconds: 1.0,
            operations: BTreeMap::from([("read".to_owned(), Coarse::of(&exact))]),
            errors: BTreeMap::from([("UNAVAILABLE".to_owned(), errors)]),
            backlog: errors,
            cpu_share: 0.5,
            warm_up: false,
        }
    }

    fn totals(timeline: &Timeline) -> (u64, u64, f64) {
        let points = &timeline.points;
        let operations = points.iter().filter_map(|point| point.operations.get("read"));
        (
            operations.map(Coarse::count).sum(),
            points.iter().map(Point::failed).sum(),
            points.iter().map(|point| point.seconds).sum(),
        )
    }

    #[test]
    fn a_long_run_keeps_its_totals_in_bounded_memory() {
        let mut timeline = Timeline::new(1.0);
        for _ in 0..10_000 {
            timeline.push(point(2, 1));
        }
        assert!(timeline.points.len() <= POINTS_MAX);
        assert_eq!(timeline.interval_seconds, 4.0);
        assert_eq!(totals(&timeline), (20_000, 10_000, 10_000.0));
        assert!(timeline.points.iter().all(|point| point.cpu_share == 0.5));
        assert!(timeline.points.iter().all(|point| point.seconds == 4.0));
    }

    #[test]
    fn timelines_of_two_processes_are_added_where_they_ran() {
        let (mut one, mut two) = (Timeline::new(1.0), Timeline::new(1.0));
        (0..10).for_each(|_| one.push(point(1, 0)));
        (0..10).for_each(|_| two.push(point(2, 1)));
        one.beside(two, 3.2);
        let counts =
            one.points.iter().map(|point| point.operations.get("read").map_or(0, Coarse::count));
        assert_eq!(counts.collect::<Vec<_>>(), [1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2]);
    }

    #[test]
    fn timelines_of_different_intervals_meet_at_the_longer_one() {
        let (mut one, mut two) = (Timeline::new(1.0), Timeline::new(4.0));
        (0..8).for_each(|_| one.push(point(1, 0)));
        two.push(Point { seconds: 4.0, ..point(4, 0) });
        two.push(Point { seconds: 4.0, ..point(4, 0) });
        one.beside(two, 0.0);
        assert_eq!((one.interval_seconds, one.points.len()), (4.0, 2));
        assert_eq!(totals(&one).0, 16);
        let mut broken = Timeline::new(f64::NAN);
        broken.push(point(1, 0));
        one.beside(broken, f64::INFINITY);
        assert_eq!(totals(&one).0, 17);
    }
}
