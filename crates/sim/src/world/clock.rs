//! Clocks of nodes. The world has one time; each node has a clock of its own origin and speed.

use cluster::group::Time;

/// The speed of a right clock, in thousandths.
pub(super) const RIGHT: u64 = 1000;

/// A clock that shows `shown` at the world's time `since`, and goes on at `speed`.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeClock {
    shown: u64,
    since: u64,
    /// Thousandths of the world's time; 0 stands still.
    speed: u64,
}

impl NodeClock {
    /// Returns a clock that shows `shown` now.
    pub(super) fn new(shown: u64, now: u64, speed: u64) -> Self {
        Self { shown, since: now, speed }
    }

    /// Returns what the clock shows at the world's time `now`.
    pub(super) fn read(&self, now: u64) -> Time {
        let passed = now.saturating_sub(self.since);
        Time(self.shown + (u128::from(passed) * u128::from(self.speed) / 1000) as u64)
    }

    /// Returns the world's time at which the clock shows `time`; `now` if it did before.
    pub(super) fn world_time(&self, time: Time, now: u64) -> u64 {
        let ahead = time.0.saturating_sub(self.read(now).0);
        now + ahead * 1000 / self.speed.max(1) + 1
    }

    /// Lets the clock go on at another speed from `now` on.
    pub(super) fn set_speed(&mut self, now: u64, speed: u64) {
        *self = Self::new(self.read(now).0, now, speed);
    }

    /// Lets the clock jump, forwards or backwards.
    pub(super) fn jump(&mut self, now: u64, by: i64) {
        *self = Self::new(self.read(now).0.saturating_add_signed(by), now, self.speed);
    }

    /// Lets the clock begin again, as that of a machine which was switched off.
    pub(super) fn restart(&mut self, now: u64, shown: u64) {
        *self = Self::new(shown, now, self.speed);
    }
}
