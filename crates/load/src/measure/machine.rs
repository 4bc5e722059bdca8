//! The machine that the client runs on, and the share of its CPU that the client uses.

use bench_core::process_cpu;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest text that is taken from a file of the system.
const TEXT_LEN_MAX: usize = 200;

/// The machine of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Operating system and processor architecture.
    pub(crate) system: String,
    /// Model of the processor, if the system tells it.
    pub(crate) processor: Option<String>,
    /// Processors that the client may use.
    pub(crate) cores: u64,
    /// Bytes of memory, if the system tells it.
    pub(crate) memory_bytes: Option<u64>,
}

impl Machine {
    /// Reads what the system tells.
    pub(crate) fn read() -> Self {
        let first = |path: &str, key: &str| {
            let text = std::fs::read_to_string(path).ok()?;
            let line = text.lines().find(|line| line.starts_with(key))?;
            let value = line.split_once(':')?.1.trim();
            Some(value.chars().take(TEXT_LEN_MAX).collect::<String>())
        };
        let kilobytes = first("/proc/meminfo", "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Self {
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            processor: first("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            memory_bytes: kilobytes.and_then(|kilobytes| kilobytes.checked_mul(1024)),
        }
    }
}

/// CPU that was used in some interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CpuUse {
    /// Seconds of CPU that the client used.
    pub(crate) client_seconds: f64,
    /// Share of the whole machine's CPU that was busy, from 0 to 1, if the system tells it.
    pub(crate) machine_busy: Option<f64>,
}

/// Measures CPU between two calls.
pub(crate) struct CpuMeter {
    client: Duration,
    machine: Option<(u64, u64)>,
}

impl CpuMeter {
    pub(crate) fn start() -> Self {
        Self { client: process_cpu(), machine: machine_ticks() }
    }

    /// Returns the CPU since the start or the last call.
    pub(crate) fn lap(&mut self) -> CpuUse {
        let now = Self::start();
        let client_seconds = now.client.saturating_sub(self.client).as_secs_f64();
        let machine_busy = busy(self.machine, now.machine);
        *self = now;
        CpuUse { client_seconds, machine_busy }
    }

    /// Returns the CPU since the start.
    pub(crate) fn total(&self) -> CpuUse {
        let now = Self::start();
        let client_seconds = now.client.saturating_sub(self.client).as_secs_f64();
        CpuUse { client_seconds, machine_busy: busy(self.machine, now.machine) }
    }
}

/// Returns the busy share between two readings of busy and idle ticks.
fn busy(before: Option<(u64, u64)>, after: Option<(u64, u64)>) -> Option<f64> {
    let ((busy_0, idle_0), (busy_1, idle_1)) = (before?, after?);
    let (busy, idle) = (busy_1.saturating_sub(busy_0), idle_1.saturating_sub(idle_0));
    let all = busy.checked_add(idle).filter(|all| *all > 0)?;
    Some(busy as f64 / all as f64)
}

/// Returns the ticks that all processors were busy and idle.
fn machine_ticks() -> Option<(u64, u64)> {
    ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Reads the line of all processors in `/proc/stat`. Its fields are user, nice, system, idle, iowait,
/// irq, softirq and steal, in ticks.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let fields: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let idle = fields.get(3)?.checked_add(*fields.get(4)?)?;
    let sum = fields.iter().take(8).try_fold(0u64, |sum, field| sum.checked_add(*field))?;
    Some((sum - idle, idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_ticks_are_told_from_idle_ones() {
        assert_eq!(ticks("cpu  10 0 20 60 10 0 0 0 5 0\ncpu0 1"), Some((30, 70)));
        assert_eq!(ticks("cpu 1 2 3"), None);
        assert_eq!(ticks("cpu 1 x 3 4 5"), None);
        assert_eq!(ticks(""), None);
        assert_eq!(ticks("cpu 18446744073709551615 1 1 1 1"), None);
        assert_eq!(busy(Some((30, 70)), Some((60, 80))), Some(0.75));
        assert_eq!(busy(Some((30, 70)), Some((30, 70))), None);
        assert_eq!(busy(Some((30, 70)), Some((20, 60))), None);
    }
}
