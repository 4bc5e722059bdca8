//! The thread that moves operations into backlogs when they are due. Timers of the runtime have a
//! granularity of a millisecond, which would be visible in every latency; a sleeping thread wakes within
//! some 60 microseconds.

use super::{Arrivals, Backlog};
use crate::measure::{Distribution, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest sleep, after which the pacer looks whether it should stop.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Most operations that are released between two looks at the clock.
const RELEASED_MAX: usize = 1000;
/// Most rounds of so many operations that are released after the end.
const RELEASED_AT_END_MAX: usize = 10_000;

/// Schedules with the backlogs that they feed.
pub(crate) struct Pacer {
    lanes: Vec<(Arrivals, Arc<Backlog>)>,
    /// Microseconds by which the pacer itself was late: the client's share of delays.
    late: Distribution,
}

impl Pacer {
    /// Returns a pacer that feeds each backlog by its schedule.
    pub(crate) fn new(lanes: Vec<(Arrivals, Arc<Backlog>)>) -> Self {
        Self { lanes, late: Distribution::new() }
    }

    /// Feeds the backlogs until `stop` is set, and closes them. Operations that were due before the end
    /// and not released yet arrive nevertheless. Returns the pacer's lateness.
    pub(crate) fn run(mut self, watch: &Watch, stop: &AtomicBool) -> Distribution {
        while !stop.load(Ordering::Relaxed) {
            let now = watch.elapsed();
            let next = self.release(now);
            if let Some(pause) = next.checked_sub(watch.elapsed()) {
                std::thread::sleep(pause.min(SLEEP_MAX));
            }
        }
        let end = watch.elapsed();
        self.lanes.iter().for_each(|(_, backlog)| backlog.close(end));
        // A pacer that fell behind by more shows in its lateness.
        let mut rounds = 0..RELEASED_AT_END_MAX;
        while rounds.next().is_some() && self.release(end) <= end {}
        self.late
    }

    /// Moves what is due at `now` into the backlogs, up to a bound for each, and forgets closed ones.
    /// Returns the time of the next operation.
    fn release(&mut self, now: Duration) -> Duration {
        let late = &mut self.late;
        self.lanes.retain_mut(|(arrivals, backlog)| {
            for _ in 0..RELEASED_MAX {
                let at = arrivals.peek();
                let Some(lateness) = now.checked_sub(at) else { break };
                if !backlog.push(at) {
                    return false;
                }
                late.record(lateness);
                arrivals.advance();
            }
            true
        });
        let next = self.lanes.iter().map(|(arrivals, _)| arrivals.peek()).min();
        next.unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Spacing;
    use super::*;

    fn pacer(rate: f64, bound: usize) -> (Pacer, Arc<Backlog>) {
        let backlog = Arc::new(Backlog::new(bound, None, Duration::ZERO));
        let arrivals = Arrivals::new(Spacing::Constant, rate, 1);
        (Pacer::new(vec![(arrivals, Arc::clone(&backlog))]), backlog)
    }

    #[tokio::test(start_paused = true)]
    async fn operations_keep_their_scheduled_time_however_late_they_are_released() {
        let (mut pacer, backlog) = pacer(10.0, 100);
        let ms = Duration::from_millis;
        assert_eq!(pacer.release(ms(50)), ms(100));
        // The clock jumps, as when the client was suspended.
        assert_eq!(pacer.release(ms(350)), ms(400));
        let mut times = Vec::new();
        for _ in 0..backlog.state().waiting {
            times.push(backlog.take().await.unwrap());
        }
        assert_eq!(times, [ms(0), ms(100), ms(200), ms(300)]);
        assert_eq!(pacer.late.count(), 4);
        assert_eq!(pacer.late.quantile(1.0) / 1000, 250);
        // Time that stands still releases nothing.
        assert_eq!(pacer.release(ms(350)), ms(400));
        assert_eq!(backlog.state().arrived, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn operations_that_were_due_before_the_end_arrive_after_it() {
        let (pacer, backlog) = pacer(1000.0, 100);
        let watch = Watch::start();
        tokio::time::advance(Duration::from_secs(9)).await;
        // The run ended at second 5, and the pacer was asleep until now.
        backlog.close(Duration::from_secs(5));
        let late = pacer.run(&watch, &AtomicBool::new(true));
        let state = backlog.state();
        assert_eq!((state.arrived, state.waiting, state.left_out), (5001, 100, 4901));
        assert_eq!((late.count(), backlog.take().await), (5001, None));
    }

    #[test]
    fn a_rate_beyond_the_client_neither_hangs_nor_grows() {
        let (mut pacer, backlog) = pacer(1e7, 10);
        pacer.release(Duration::from_secs(3600));
        let state = backlog.state();
        assert_eq!((state.arrived, state.waiting), (RELEASED_MAX as u64, 10));
        assert_eq!(state.left_out, state.arrived - 10);
        // A closed backlog is fed no more, and the thread sleeps.
        backlog.close(Duration::ZERO);
        assert_eq!(pacer.release(Duration::from_secs(7200)), Duration::MAX);
        assert_eq!((backlog.state(), pacer.late.count()), (state, RELEASED_MAX as u64));
    }
}
