//! Wall time and CPU time. On a busy machine CPU time is the steadier of the two.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Returns the CPU time of all threads of this process so far.
pub fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

/// Returns the CPU time of this thread so far.
pub fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Wall time and CPU time of the process, added up over the intervals in which it ran.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// Wall time.
    pub wall: Duration,
    /// CPU time of all threads of the process.
    pub cpu: Duration,
}

impl Spent {
    /// Adds another interval.
    pub fn add(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }

    /// Returns this time less `other`, which was not spent on what is measured.
    pub fn without(self, other: Self) -> Self {
        Self { wall: self.wall.saturating_sub(other.wall), cpu: self.cpu.saturating_sub(other.cpu) }
    }
}

/// Measures one interval.
#[derive(Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// Starts an interval.
    pub fn start() -> Self {
        Self { cpu: process_cpu(), wall: Instant::now() }
    }

    /// Returns the time since the start.
    pub fn spent(&self) -> Spent {
        let wall = self.wall.elapsed();
        Spent { wall, cpu: process_cpu().saturating_sub(self.cpu) }
    }
}
