//! A clock that moves only when it is told to.

use crate::env::Clock;
use parking_lot::Mutex;
use std::time::Duration;

/// The time both clocks of a new machine show, in microseconds: 2001-09-09T01:46:40Z.
const START_MICROS: i64 = 1_000_000_000_000_000;

/// A clock that tests set and advance.
#[derive(Debug)]
pub struct SimClock {
    time: Mutex<Time>,
}

#[derive(Debug)]
struct Time {
    micros: i64,
    monotonic: Duration,
}

impl SimClock {
    pub(super) fn new() -> Self {
        let time = Time { micros: START_MICROS, monotonic: Duration::ZERO };
        Self { time: Mutex::new(time) }
    }

    /// Sets the wall clock, backwards too; the monotonic clock is not moved.
    pub fn set_micros(&self, micros: i64) {
        self.time.lock().micros = micros;
    }

    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        let mut time = self.time.lock();
        time.monotonic += by;
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        time.micros = time.micros.saturating_add(micros);
    }
}

impl Clock for SimClock {
    fn now_micros(&self) -> i64 {
        self.time.lock().micros
    }

    fn monotonic(&self) -> Duration {
        self.time.lock().monotonic
    }
}
