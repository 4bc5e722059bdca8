//! The budget of one step of a scan: work and time after which the scan gives its thread back, whatever
//! it has found.
//!
//! Work is counted in units of some 50 ns: a row or an entry that is skipped is one, a block that was
//! loaded is [`LOAD_WORK`]. A scan spends only on what it skips, so one that finds rows pays nothing;
//! its caller spends on what it finds.
//!
//! Invariants:
//! 1. A step does some work however small its budget is, so a scan in steps comes to its end.
//! 2. The clock is looked at after each [`LOOK_EVERY`] units, and after each load.

use base::env::Clock;
use std::time::Duration;

/// Units of work between two looks at the clock.
const LOOK_EVERY: u64 = 32;
/// Units of work of a block that had to be loaded. At least [`LOOK_EVERY`].
pub(crate) const LOAD_WORK: u64 = 64;

/// The work and time that a step may still take.
pub struct StepBudget<'a> {
    /// Units until the next look at the clock. 0: the budget is spent.
    until_look: u64,
    /// Units after the next look.
    rest: u64,
    /// A clock, and the time at which the step is over by it.
    end: Option<(&'a dyn Clock, Duration)>,
}

impl<'a> StepBudget<'a> {
    /// A budget that is never spent.
    #[inline]
    pub(crate) fn unlimited() -> Self {
        Self { until_look: u64::MAX, rest: 0, end: None }
    }

    /// A budget of `units` units of work, without an end in time.
    pub fn of_work(units: u64) -> Self {
        let until_look = units.min(LOOK_EVERY);
        Self { until_look, rest: units - until_look, end: None }
    }

    /// The same budget, which is also spent when `time` has passed on `clock`.
    #[must_use]
    pub fn within(self, time: Duration, clock: &'a dyn Clock) -> Self {
        Self { end: Some((clock, clock.monotonic().saturating_add(time))), ..self }
    }

    /// Spends `units` units of work; returns whether the budget is spent.
    #[inline]
    pub fn spend(&mut self, units: u64) -> bool {
        if units < self.until_look {
            self.until_look -= units;
            return false;
        }
        self.look(units)
    }

    /// Returns whether the budget is spent.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.until_look == 0
    }

    #[cold]
    fn look(&mut self, units: u64) -> bool {
        let late = self.end.is_some_and(|(clock, end)| clock.monotonic() >= end);
        let left = self.until_look.saturating_add(self.rest).saturating_sub(units);
        let left = if late { 0 } else { left };
        self.until_look = left.min(LOOK_EVERY);
        self.rest = left - self.until_look;
        self.is_spent()
    }
}

impl std::fmt::Debug for StepBudget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units_left = self.until_look.saturating_add(self.rest);
        let end = self.end.map(|(_, end)| end);
        f.debug_struct("StepBudget").field("units_left", &units_left).field("end", &end).finish()
    }
}

/// Outcome of a step of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stepped<T> {
    /// The next row, or the next cell of the row.
    Found(T),
    /// No further row, or no further cell of the row.
    End,
    /// The budget is spent. The scan keeps its place, and the same call goes on.
    NotYet,
}

/// Counts of what scans skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Rows without a wanted cell.
    pub rows: u64,
    /// Cells of skipped rows, and cells of other rows that were looked at and not lent.
    pub cells: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock on which each look takes a millisecond.
    #[derive(Default)]
    struct Slow(AtomicU64);

    impl Clock for Slow {
        fn now_micros(&self) -> i64 {
            0
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    #[test]
    fn a_budget_is_spent_with_its_last_unit() {
        for units in [1, LOOK_EVERY - 1, LOOK_EVERY, LOOK_EVERY + 1, 1_000] {
            let mut budget = StepBudget::of_work(units);
            let spent = (1..=units).find(|_| budget.spend(1));
            assert_eq!(spent, Some(units));
            assert!(budget.is_spent() && budget.spend(0));
        }
        let mut budget = StepBudget::of_work(100);
        assert!(!budget.spend(99) && budget.spend(5));
        assert!(StepBudget::of_work(0).is_spent());
        let mut budget = StepBudget::unlimited();
        assert!(!budget.spend(u64::MAX / 2));
    }

    #[test]
    fn a_budget_is_spent_when_its_time_is_over() {
        let clock = Slow::default();
        let mut budget = StepBudget::of_work(u64::MAX).within(Duration::from_millis(10), &clock);
        let loads = (1..).find(|_| budget.spend(LOAD_WORK));
        assert_eq!(loads, Some(10), "the clock is looked at after each load");
        let mut budget = StepBudget::of_work(u64::MAX).within(Duration::from_millis(10), &clock);
        let units = (1..).find(|_| budget.spend(1));
        assert_eq!(units, Some(10 * LOOK_EVERY));
    }
}
