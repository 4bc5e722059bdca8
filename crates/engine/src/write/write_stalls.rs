//! When writers wait: slowed as `pressure` says, stopped when background work must end first.
//!
//! Invariants:
//! 1. A writer waits before its batch is in the log, never after.
//! 2. All that slowed writers bring together stays at the rate of the pressure (`Pacer`), however
//!    many they are; none is made to wait longer than `DELAY_MAX` for that.
//! 3. Who is stopped for lack of memory waits as long as some flush can give memory back. A failure
//!    of another tree is told only when no flush can.

use super::pressure::{Backlog, STOP, Share, pressure, rate};
use crate::background::LOOK_AGAIN;
use crate::counters::histogram::Histogram;
use crate::engine::Shared;
use crate::error::{Error, Result};
use crate::locks::WriterPace;
use crate::tree::Tree;
use base::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
    fn turn(&self, now: Duration, bytes: u64, rate: u64) -> Duration {
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

impl Shared {
    /// Waits before a write of `bytes` bytes to `tree` as background work demands.
    pub(crate) fn wait_for_room(self: &Arc<Self>, tree: &Arc<Tree>, bytes: usize) -> Result<()> {
        if self.is_closing() {
            return Err(Error::Closed);
        }
        self.health.check()?;
        if self.pressure_of(tree) == 0 {
            return Ok(());
        }
        let begin = self.env.clock.monotonic();
        let outcome = self.wait_under_pressure(tree, bytes as u64);
        let waited = self.env.clock.monotonic().saturating_sub(begin);
        self.stalls.waited.record(waited);
        outcome
    }

    fn wait_under_pressure(self: &Arc<Self>, tree: &Arc<Tree>, bytes: u64) -> Result<()> {
        let (mut turn, mut stopped) = (None, false);
        loop {
            if self.is_closing() {
                return Err(Error::Closed);
            }
            self.health.check()?;
            let pressure = self.pressure_of(tree);
            if pressure >= STOP {
                self.counters.write_stalls.fetch_add(u64::from(!stopped), Ordering::Relaxed);
                stopped = true;
                self.make_room(tree)?;
                self.pause(LOOK_AGAIN);
                continue;
            }
            let Some(rate) = rate(pressure) else { return Ok(()) };
            let now = self.env.clock.monotonic();
            let turn = *turn.get_or_insert_with(|| {
                self.counters.write_slowdowns.fetch_add(1, Ordering::Relaxed);
                self.stalls.pacer.turn(now, bytes, rate)
            });
            if turn <= now {
                return Ok(());
            }
            self.pause(turn - now);
            // The clock of a simulation stands still while nothing is to be done.
            if self.env.clock.monotonic() == now {
                return Ok(());
            }
        }
    }

    /// What writers of `tree` have to wait for, as a pressure.
    pub(crate) fn pressure_of(&self, tree: &Tree) -> u64 {
        let view = tree.look();
        let memory = self.budget().behind();
        let backlog = Backlog {
            l0_runs: view.version.levels[0].len() as u64,
            frozen: view.frozen.len() as u64,
            active_bytes: view.active.bytes() as u64,
            l1_bytes: view.l1_bytes,
            last_bytes: view.last_bytes,
            memory: memory.map(|(of, whole)| Share { of: of as u64, whole: whole as u64 }),
        };
        pressure(&backlog, &self.options)
    }

    /// Sees to it that what stops a writer of `tree` is being done, or says why it cannot.
    fn make_room(self: &Arc<Self>, tree: &Arc<Tree>) -> Result<()> {
        self.schedule(tree);
        if let Some(refusal) = tree.work.lock().refusal() {
            return Err(refusal);
        }
        if self.budget().stops_writers() { self.push_flushes() } else { Ok(()) }
    }

    /// Sees to it that every frozen memtable is being flushed; an error if none can be.
    fn push_flushes(self: &Arc<Self>) -> Result<()> {
        let trees: Vec<Arc<Tree>> = self.trees.read().values().cloned().collect();
        let mut failed = Ok(());
        for tree in trees.iter().filter(|tree| !tree.look().frozen.is_empty()) {
            self.schedule_flush(tree);
            let refusal = tree.work.lock().refusal();
            match refusal {
                None => return Ok(()),
                Some(Error::Unavailable(why)) => {
                    let what = format!(
                        "memory for memtables is exhausted, and tree {} cannot be flushed: {why}",
                        tree.id.0
                    );
                    failed = failed.and(Err(Error::Unavailable(what)));
                }
                Some(other) => failed = failed.and(Err(other)),
            }
        }
        failed
    }
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
