//! Wall and CPU time of a phase, and how it is printed.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::time::{Duration, Instant};

/// CPU time of the whole process so far.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// One measured phase.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    /// What was done.
    pub(crate) name: String,
    /// How often.
    pub(crate) operations: u64,
    /// Time on the clock.
    pub(crate) wall: Duration,
    /// CPU time of all threads of this process.
    pub(crate) cpu: Duration,
    /// Latency percentiles in microseconds (50, 99, 99.9), where they were recorded.
    pub(crate) percentiles_us: Option<[u64; 3]>,
}

impl Phase {
    /// Runs `work`, which returns how many operations it did.
    pub(crate) fn measure<E>(name: &str, work: impl FnOnce() -> Result<u64, E>) -> Result<Self, E> {
        let (wall, before) = (Instant::now(), cpu());
        let operations = work()?;
        let (wall, cpu) = (wall.elapsed(), cpu().saturating_sub(before));
        Ok(Self { name: name.to_owned(), operations, wall, cpu, percentiles_us: None })
    }

    /// Operations a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.wall.as_secs_f64()
    }

    /// CPU nanoseconds an operation.
    pub(crate) fn cpu_ns(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.operations.max(1) as f64
    }

    /// A line for people.
    pub(crate) fn line(&self) -> String {
        let mut line = format!(
            "{:<28} {:>10} ops {:>9.3} s {:>12.0} ops/s {:>9.0} ns CPU/op",
            self.name,
            self.operations,
            self.wall.as_secs_f64(),
            self.per_second(),
            self.cpu_ns()
        );
        if let Some([p50, p99, p999]) = self.percentiles_us {
            line += &format!("   p50 {p50} us, p99 {p99} us, p99.9 {p999} us");
        }
        line
    }

    /// A JSON object on one line.
    pub(crate) fn json(&self) -> String {
        let percentiles = self.percentiles_us.map_or(String::new(), |[p50, p99, p999]| {
            format!(",\"p50_us\":{p50},\"p99_us\":{p99},\"p999_us\":{p999}")
        });
        format!(
            "{{\"phase\":\"{}\",\"ops\":{},\"wall_s\":{:.6},\"ops_per_s\":{:.1},\"cpu_ns_per_op\":{:.1}{percentiles}}}",
            self.name,
            self.operations,
            self.wall.as_secs_f64(),
            self.per_second(),
            self.cpu_ns(),
        )
    }
}

/// Middle, least and greatest of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// The middle one; of an even number, between the two in the middle.
    pub(crate) median: f64,
    /// The least.
    pub(crate) low: f64,
    /// The greatest.
    pub(crate) high: f64,
}

impl Spread {
    /// The spread of `values`, of which there is at least one.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "nothing was measured");
        values.sort_by(f64::total_cmp);
        let (middle, last) = (values.len() / 2, values.len() - 1);
        let median = f64::midpoint(values[middle], values[last - middle]);
        Self { median, low: values[0], high: values[last] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_some_values() {
        assert_eq!(Spread::of(vec![7.0]), Spread { median: 7.0, low: 7.0, high: 7.0 });
        assert_eq!(Spread::of(vec![3.0, 1.0]), Spread { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(Spread::of(vec![3.0, 9.0, 1.0]), Spread { median: 3.0, low: 1.0, high: 9.0 });
    }
}
