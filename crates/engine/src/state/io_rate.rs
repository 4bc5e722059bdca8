//! The rate at which flushes and compactions write, and how it is found where that is left to the
//! engine: more while background work is behind, less while reads wait for the disk longer than
//! they use to.
//!
//! Invariants:
//! 1. Flushes go before compactions: they wait for what flushes wrote, compactions for all.
//! 2. Whoever waits has written already and holds no lock. A rate that was given holds, however many
//!    write side by side and however long each then waits: who waits looks whether the engine is
//!    closing. Where it was found, nobody pays for more than `WAIT_MAX` at what it was then.
//!
//! Compactions read about as many bytes as they write; only what is written counts.

use crate::locks::IoRateState;
use crate::options::BackgroundRate;
use base::sync::Mutex;
use std::time::Duration;

/// Longest wait where the rate is found: soon it may be another.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// A rate that is found is looked at so often, and lies between these, in bytes a second.
const TUNE_EVERY: Duration = Duration::from_millis(100);
const TUNED_MIN: u64 = 8 << 20;
const TUNED_MAX: u64 = 1 << 30;
/// Reads are slow when they take so many times as long as they use to, in thousandths.
const SLOW_READS: u64 = 2_000;
/// Above this pressure writers are held back enough that background work goes first.
const PRESSED: u64 = 300;

/// What writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Flush,
    Compaction,
}

/// See the file header.
#[derive(Debug)]
pub(crate) struct IoRate {
    mode: BackgroundRate,
    state: Mutex<State, IoRateState>,
}

#[derive(Debug)]
struct State {
    /// Bytes a second.
    rate: u64,
    tuned_at: Duration,
    /// By the monotonic clock: when all that flushes wrote is paid for, and all that was written.
    flushes_paid: Duration,
    all_paid: Duration,
}

/// What a rate that is found follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Feedback {
    /// How hard writers are held back, 0 to 1000.
    pub(crate) pressure: u64,
    /// How long reads take against what they use to, in thousandths; 0 if that is not known.
    pub(crate) slowness: u64,
}

/// The rate after `rate`.
fn tuned(rate: u64, feedback: Feedback) -> u64 {
    let rate = match feedback {
        Feedback { pressure, .. } if pressure >= PRESSED => rate.saturating_mul(2),
        Feedback { slowness, .. } if slowness > SLOW_READS => rate / 4 * 3,
        Feedback { pressure, .. } if pressure > 0 => rate / 4 * 5,
        _ => rate / 16 * 17,
    };
    rate.clamp(TUNED_MIN, TUNED_MAX)
}

impl IoRate {
    pub(crate) fn new(mode: BackgroundRate) -> Self {
        let rate = match mode {
            BackgroundRate::BytesPerSecond(rate) => rate,
            BackgroundRate::Unlimited | BackgroundRate::Auto => TUNED_MAX,
        };
        let zero = Duration::ZERO;
        let state = State { rate, tuned_at: zero, flushes_paid: zero, all_paid: zero };
        Self { mode, state: Mutex::new(state) }
    }

    /// Bytes a second now; 0 without a limit.
    pub(crate) fn rate(&self) -> u64 {
        if self.mode == BackgroundRate::Unlimited { 0 } else { self.state.lock().rate }
    }

    /// How long `writer`, who has written `bytes` bytes by `now`, is to wait. `feedback` is asked
    /// now and then.
    pub(crate) fn wrote(
        &self,
        writer: Writer,
        bytes: u64,
        now: Duration,
        feedback: impl FnOnce() -> Feedback,
    ) -> Duration {
        if self.mode == BackgroundRate::Unlimited {
            return Duration::ZERO;
        }
        let mut state = self.state.lock();
        if self.mode == BackgroundRate::Auto && now >= state.tuned_at + TUNE_EVERY {
            state.rate = tuned(state.rate, feedback());
            state.tuned_at = now;
        }
        let takes = Duration::from_micros(bytes.saturating_mul(1_000_000) / state.rate.max(1));
        let longest = if self.mode == BackgroundRate::Auto { WAIT_MAX } else { Duration::MAX };
        let after =
            |paid: Duration| paid.max(now).saturating_add(takes).min(now.saturating_add(longest));
        state.all_paid = after(state.all_paid);
        if writer == Writer::Compaction {
            return state.all_paid - now;
        }
        state.flushes_paid = after(state.flushes_paid);
        state.flushes_paid - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Feedback = Feedback { pressure: 0, slowness: 1000 };
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn compactions_wait_for_all_and_flushes_for_flushes() {
        let limit = IoRate::new(BackgroundRate::BytesPerSecond(1 << 20));
        let wrote = |writer, at| limit.wrote(writer, 1 << 17, MS * at, || unreachable!());
        assert_eq!(wrote(Writer::Compaction, 0), MS * 125);
        assert_eq!(wrote(Writer::Flush, 0), MS * 125, "what a compaction wrote is not its affair");
        assert_eq!(wrote(Writer::Compaction, 0), MS * 375);
        assert_eq!(wrote(Writer::Compaction, 0), MS * 500);
        assert_eq!(wrote(Writer::Flush, 2_000), MS * 125, "after a rest nothing is owed");
        assert_eq!(limit.rate(), 1 << 20);
    }

    #[test]
    fn a_rate_holds_however_many_write_side_by_side() {
        let limit = IoRate::new(BackgroundRate::BytesPerSecond(1 << 20));
        // When each of them may write again.
        let mut writers = [Duration::ZERO; 64];
        let mut bytes = 0u64;
        loop {
            let next = writers.iter_mut().min().unwrap();
            if *next >= Duration::from_secs(60) {
                break;
            }
            bytes += 256 << 10;
            *next += limit.wrote(Writer::Compaction, 256 << 10, *next, || unreachable!());
        }
        // What each writes before it waits for the first time comes on top.
        let most = (60 << 20) + 64 * (256 << 10);
        assert!((60 << 20..=most).contains(&bytes), "{bytes} bytes in a minute");
    }

    #[test]
    fn a_rate_that_is_found_makes_nobody_wait_long() {
        let limit = IoRate::new(BackgroundRate::Auto);
        let wrote = |bytes| limit.wrote(Writer::Flush, bytes, MS, || QUIET);
        assert_eq!(wrote(1 << 40), WAIT_MAX);
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let limit = IoRate::new(BackgroundRate::Unlimited);
        let waits = limit.wrote(Writer::Compaction, u64::MAX, MS, || unreachable!());
        assert_eq!((waits, limit.rate()), (Duration::ZERO, 0));
    }

    /// `testdata/io_rate`: from a rate in MiB/s, the rates that follow while each line of the input
    /// holds, that is `times pressure slowness`. `REWRITE=1` writes the results anew.
    #[test]
    fn rates_that_are_found_are_what_their_examples_show() {
        datadriven::walk("testdata/io_rate", |file| {
            file.run(|case| {
                assert_eq!(case.directive, "from");
                let mut rate = case.take_arg::<u64>("mib").unwrap() << 20;
                let mut result = String::new();
                for line in case.input.lines() {
                    let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
                    let feedback = Feedback { pressure: numbers[1], slowness: numbers[2] };
                    for _ in 0..numbers[0] {
                        rate = tuned(rate, feedback);
                    }
                    result += &format!("{line}: {} MiB/s\n", rate >> 20);
                }
                result
            });
        });
    }

    #[test]
    fn a_rate_is_looked_at_now_and_then() {
        let limit = IoRate::new(BackgroundRate::Auto);
        let slow = Feedback { slowness: 5_000, ..QUIET };
        limit.wrote(Writer::Flush, 1, MS * 99, || unreachable!("too soon"));
        limit.wrote(Writer::Flush, 1, MS * 100, || slow);
        assert_eq!(limit.rate(), TUNED_MAX / 4 * 3);
        limit.wrote(Writer::Flush, 1, MS * 150, || unreachable!("too soon"));
    }
}
