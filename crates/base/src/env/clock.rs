//! Time, read in one place so that tests can set it.

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch. May step backwards when the system clock does.
    fn now_micros(&self) -> i64;

    /// Time since an arbitrary fixed point. Never goes backwards.
    fn monotonic(&self) -> Duration;

    /// Time since an arbitrary fixed point, which goes on while the machine sleeps. Never goes backwards. A
    /// clock of a machine that never sleeps gives `monotonic`.
    fn boot_time(&self) -> Duration {
        self.monotonic()
    }

    /// Time for which this thread had a core, since an arbitrary fixed point. Never goes backwards. A clock
    /// that does not know it gives `monotonic`, as if the thread had waited for nothing.
    fn thread_cpu(&self) -> Duration {
        self.monotonic()
    }
}

/// The machine's own clocks.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now_micros(&self) -> i64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn boot_time(&self) -> Duration {
        read(ClockId::Boottime)
    }

    fn thread_cpu(&self) -> Duration {
        read(ClockId::ThreadCPUTime)
    }
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
