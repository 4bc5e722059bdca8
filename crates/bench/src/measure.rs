//! Wall and CPU time of a phase, and how it is printed.

use bench_core::{Spent, Stopwatch};
use std::time::Duration;

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
        let watch = Stopwatch::start();
        let operations = work()?;
        let Spent { wall, cpu } = watch.spent();
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
