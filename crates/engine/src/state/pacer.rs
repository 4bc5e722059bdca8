//! Writers are let on at a rate, and how they waited.
//!
//! All that slowed writers bring together stays at the rate of the pressure (`Pacer`), however many
//! they are. For that a writer that holds a thread waits up to `THREAD_DELAY_MAX`, and one that is a
//! task, of which there may be thousands, up to `TASK_DELAY_MAX`.

use crate::locks::WriterPace;
use base::histogram::Histogram;
use base::sync::Mutex;
use std::time::Duration;

/// Longest that a writer on its thread waits because others of its time were fast.
pub(crate) const THREAD_DELAY_MAX: Duration = Duration::from_millis(200);
/// The same of a task.
pub(crate) const TASK_DELAY_MAX: Duration = Duration::from_secs(5);

/// Lets writers on at a rate.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// When the next writer may go on, by the monotonic clock.
    next: Mutex<Duration, WriterPace>,
}

impl Pacer {
    /// When a writer who comes at `now` may go on, so that the next who comes is late enough for
    /// `bytes` at `rate` bytes a second; at most `delay_max` from now.
    pub(crate) fn turn(
        &self,
        now: Duration,
        bytes: u64,
        rate: u64,
        delay_max: Duration,
    ) -> Duration {
        let mut next = self.next.lock();
        let turn = (*next).max(now);
        let micros = bytes.saturating_mul(1_000_000) / rate.max(1);
        *next = (turn + Duration::from_micros(micros)).min(now + TASK_DELAY_MAX);
        turn.min(now + delay_max)
    }
}

/// How writers waited.
#[derive(Debug)]
pub(crate) struct Stalls {
    pub(crate) pacer: Pacer,
    /// Time that writes waited, of those that did.
    pub(crate) waited: Histogram,
}

impl Default for Stalls {
    fn default() -> Self {
        Self { pacer: Pacer::default(), waited: Histogram::of_durations() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn writers_together_keep_to_the_rate_and_no_thread_waits_long() {
        let pacer = Pacer::default();
        let turn = |now, bytes, rate| pacer.turn(ms(now), bytes, rate, THREAD_DELAY_MAX);
        let (bytes, rate) = (1 << 20, 100 << 20);
        let turns: Vec<_> = (0..5).map(|_| turn(1000, bytes, rate)).collect();
        assert_eq!(turns, [0, 10, 20, 30, 40].map(|late| ms(1000 + late)));
        assert_eq!(turn(1100, bytes, rate), ms(1100), "after a rest nobody waits");
        assert_eq!(turn(1100, 1 << 40, 1), ms(1110));
        assert_eq!(turn(1100, bytes, rate), ms(1100) + THREAD_DELAY_MAX);
        assert_eq!(turn(9000, bytes, 0), ms(9000), "a rate of nothing is no division");
    }

    #[test]
    fn thousands_of_tasks_keep_to_the_rate_for_as_long_as_one_may_wait() {
        let pacer = Pacer::default();
        let turns: Vec<_> =
            (0..5000).map(|_| pacer.turn(ms(0), 1 << 10, 512 << 10, TASK_DELAY_MAX)).collect();
        assert!(turns.is_sorted() && turns[4999] == TASK_DELAY_MAX);
        for second in 0..5 {
            let within = ms(second * 1000)..ms(second * 1000 + 1000);
            let count = turns.iter().filter(|turn| within.contains(turn)).count();
            assert!((511..=513).contains(&count), "{count} KiB in second {second}");
        }
        let thread = pacer.turn(ms(0), 1 << 10, 512 << 10, THREAD_DELAY_MAX);
        assert_eq!(thread, THREAD_DELAY_MAX, "a thread does not wait behind all of them");
    }
}
