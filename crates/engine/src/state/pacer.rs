//! Writers are let on at a rate, and how they waited.
//!
//! All that slowed writers bring together stays at the rate of the pressure (`Pacer`), however many
//! they are; none is made to wait longer than `DELAY_MAX` for that.

use crate::counters::histogram::Histogram;
use crate::locks::WriterPace;
use base::sync::Mutex;
use std::time::Duration;

/// Longest that a writer waits because others of its time were fast.
const DELAY_MAX: Duration = Duration::from_millis(200);

/// Lets writers on at a rate.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// When the next writer may go on, by the monotonic clock.
    next: Mutex<Duration, WriterPace>,
}

impl Pacer {
    /// When a writer who comes at `now` may go on, so that the next who comes is late enough for
    /// `bytes` at `rate` bytes a second.
    pub(crate) fn turn(&self, now: Duration, bytes: u64, rate: u64) -> Duration {
        let mut next = self.next.lock();
        let turn = (*next).max(now);
        let micros = bytes.saturating_mul(1_000_000) / rate.max(1);
        *next = (turn + Duration::from_micros(micros)).min(now + DELAY_MAX);
        turn
    }
}

/// How writers waited.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    pub(crate) pacer: Pacer,
    /// Time that writes waited, of those that did.
    pub(crate) waited: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_together_keep_to_the_rate_and_none_waits_long() {
        let pacer = Pacer::default();
        let ms = Duration::from_millis;
        let (bytes, rate) = (1 << 20, 100 << 20);
        let turns: Vec<_> = (0..5).map(|_| pacer.turn(ms(1000), bytes, rate)).collect();
        assert_eq!(turns, [0, 10, 20, 30, 40].map(|late| ms(1000 + late)));
        assert_eq!(pacer.turn(ms(1100), bytes, rate), ms(1100), "after a rest nobody waits");
        assert_eq!(pacer.turn(ms(1100), 1 << 40, 1), ms(1110));
        assert_eq!(pacer.turn(ms(1100), bytes, rate), ms(1100) + DELAY_MAX);
        assert_eq!(pacer.turn(ms(5000), bytes, 0), ms(5000), "a rate of nothing is no division");
    }
}
