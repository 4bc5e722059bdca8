//! Profiles of this process, of which a server tells its operators: of its CPU time, and of its memory
//! (`heap`).
//!
//! A CPU profile: each 10 ms of CPU time, a signal copies the registers and the top of the stack of the thread that
//! uses it (`signal`). The thread that records unwinds the copies later (`unwind`), counts equal stacks
//! (`stacks`), and names their functions at the end (`symbols`). So nothing that takes a lock, allocates
//! or reads debug information runs inside of a signal.
//!
//! Invariants:
//! 1. One profile of a kind is recorded at a time.
//! 2. The memory of a profile is bounded by its length: there are about [`SAMPLES_A_SECOND_MAX`] samples
//!    a second, whatever the number of cores, each of at most `FRAMES_MAX` frames.
//! 3. While no CPU profile is recorded, no signal comes. What heap profiles need is in `heap`.

mod flame;
pub mod heap;
mod modules;
mod pprof;
mod signal;
mod stacks;
mod symbols;
#[cfg(test)]
mod tests;
mod unwind;

use base::env::{Clock, SystemClock};
use signal::Sampling;
use stacks::Stacks;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use symbols::Symbols;
use unwind::Unwinder;

/// CPU time between two samples on a small machine.
const INTERVAL: Duration = Duration::from_millis(10);
/// Samples a second that all cores together give. More cores are sampled less often.
const SAMPLES_A_SECOND_MAX: u32 = 400;
/// Time between two looks at the samples. Meanwhile they stay in the ring.
const LOOK: Duration = Duration::from_millis(20);

/// The reason why there is no profile.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another profile is being recorded.
    Running,
    /// The caller gave it up.
    Cancelled,
    /// No samples of allocations are taken.
    Off,
    /// The system does not let a process sample itself.
    System(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => {
                f.write_str("another profile is being recorded; retry when it is done")
            }
            Self::Off => f.write_str("no allocations are sampled; set heap_sample_bytes"),
            Self::Cancelled => f.write_str("the profile was given up"),
            Self::System(error) => write!(f, "the system does not allow a profile: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

/// The stacks on which this process spent its CPU time.
#[derive(Debug)]
pub struct Profile {
    stacks: Stacks,
    symbols: Symbols,
    /// CPU time for which one sample stands.
    interval: Duration,
    /// Microseconds since 1970 at the start.
    started_micros: i64,
    length: Duration,
}

impl Profile {
    /// Records for `length`, on this thread, which sleeps most of the time. Ends early, without a
    /// profile, soon after `cancelled` returns true.
    pub fn record(length: Duration, cancelled: &dyn Fn() -> bool) -> Result<Self, Error> {
        let _turn = Turn::take(&TAKEN).ok_or(Error::Running)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let interval = interval(u32::try_from(cores).unwrap_or(u32::MAX));
        let modules = modules::of_this_process().map_err(Error::System)?;
        let mut unwinder = Unwinder::new(&modules);
        let (started, started_micros) = (SystemClock.monotonic(), SystemClock.now_micros());
        let elapsed = || SystemClock.monotonic().saturating_sub(started);
        let mut stacks = Stacks::default();
        let sampling = Sampling::start(interval).map_err(Error::System)?;
        while elapsed() < length {
            if cancelled() {
                return Err(Error::Cancelled);
            }
            std::thread::sleep(LOOK.min(length.saturating_sub(elapsed())));
            sampling.drain(|sample| {
                let frames = unwinder.frames(&sample.registers, |address| sample.word(address));
                stacks.count(sample.thread, frames);
            });
        }
        let length = elapsed();
        stacks.lost(sampling.lost());
        drop(sampling);
        let symbols = Symbols::find(modules, stacks.addresses(), cancelled);
        let symbols = symbols.ok_or(Error::Cancelled)?;
        Ok(Self { stacks, symbols, interval, started_micros, length })
    }
}

/// Returns the CPU time between two samples on a machine of so many cores.
fn interval(cores: u32) -> Duration {
    let a_second = 1_000 / u32::try_from(INTERVAL.as_millis()).unwrap_or(1);
    INTERVAL * cores.saturating_mul(a_second).div_ceil(SAMPLES_A_SECOND_MAX).max(1)
}

/// The turn to record a kind of profile, until it is dropped.
struct Turn(&'static AtomicBool);

/// Tells that a thread records a CPU profile. It guards the signal's handler and timer, of which a process
/// has one.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Turn {
    fn take(taken: &'static AtomicBool) -> Option<Self> {
        (!taken.swap(true, Ordering::AcqRel)).then_some(Self(taken))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
