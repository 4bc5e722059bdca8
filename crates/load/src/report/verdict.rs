//! A plain statement about the client: was it the bottleneck?

use crate::measure::{CpuUse, Distribution, Machine};

/// Share of its cores from which on the client counts as saturated.
const CLIENT_SATURATED: f64 = 0.85;
/// Share of a busy machine from which on it counts as saturated.
const MACHINE_SATURATED: f64 = 0.9;
/// Share of a saturated machine from which on the client disturbs what it measures.
const CLIENT_DISTURBS: f64 = 0.2;
/// Microseconds of the pacer's own lateness from which on the client did not keep its schedule.
const PACER_LATE_US: u64 = 10_000;
/// Share of operations from whose delay on the workers did not keep up.
const LEFT_OUT: f64 = 0.001;

/// Measurements that tell what limited a run.
pub(crate) struct Limits<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) cpu: CpuUse,
    pub(crate) seconds: f64,
    /// The pacer's lateness, operations due, and operations that were due and not begun, or left out.
    pub(crate) open_loop: Option<(&'a Distribution, u64, u64)>,
}

impl Limits<'_> {
    /// Returns the share of its cores that the client used.
    pub(crate) fn cpu_share(&self) -> f64 {
        let available = self.seconds * self.machine.cores.max(1) as f64;
        if available > 0.0 { self.cpu.client_seconds / available } else { 0.0 }
    }

    /// Returns the name of the limit and a sentence about it.
    pub(crate) fn verdict(&self) -> (&'static str, String) {
        let (share, used) = (self.cpu_share(), self.used());
        if share >= CLIENT_SATURATED {
            let advice = "Use more or larger machines for the client.";
            return ("client", format!("The client was the bottleneck: {used}. {advice}"));
        }
        if let Some(found) = self.open_loop.and_then(|open_loop| self.behind(open_loop)) {
            return found;
        }
        let saturated = self.cpu.machine_busy.is_some_and(|busy| busy >= MACHINE_SATURATED);
        if saturated && share >= CLIENT_DISTURBS {
            let advice = "If the server runs on the same machine, give the client one of its own.";
            return ("machine", format!("The machine was the bottleneck: {used}. {advice}"));
        }
        ("none", format!("The client was not the bottleneck: {used}."))
    }

    /// Returns what kept an open loop from its schedule.
    fn behind(&self, open_loop: (&Distribution, u64, u64)) -> Option<(&'static str, String)> {
        let ((pacer, due, missed), used) = (open_loop, self.used());
        let late = pacer.quantile(0.99);
        if late > PACER_LATE_US {
            let late = late as f64 / 1e3;
            let advice = "Use a less busy machine or a lower rate.";
            let text = format!(
                "The client was behind its own schedule: 1 % of the operations were released more than \
                 {late:.0} ms late, and {used}. {advice}"
            );
            return Some(("client", text));
        }
        let advice = "The endpoint is slower than the rate, or the run needs more threads.";
        let text = format!(
            "The workers did not keep up with the rate: {missed} of {due} operations were due and never \
             begun, because all workers waited for answers, while {used}. {advice}"
        );
        (missed as f64 > due as f64 * LEFT_OUT).then_some(("workers", text))
    }

    /// Returns a clause about the CPU of the client and its machine.
    fn used(&self) -> String {
        let (share, cores) = (self.cpu_share(), self.machine.cores);
        let (used, percent) = (share * cores as f64, share * 100.0);
        let busy = self.cpu.machine_busy.map_or_else(String::new, |busy| {
            format!(", and its machine was {:.0} % busy", busy * 100.0)
        });
        format!("the client used {used:.2} of {cores} cores ({percent:.0} %){busy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn limit(client_seconds: f64, busy: Option<f64>, pacer_ms: u64, missed: u64) -> &'static str {
        let machine = Machine { system: "s".into(), processor: None, cores: 4, memory_bytes: None };
        let mut pacer = Distribution::new();
        pacer.record(Duration::from_millis(pacer_ms));
        let cpu = CpuUse { client_seconds, machine_busy: busy };
        let open_loop = Some((&pacer, 1000, missed));
        let limits = Limits { machine: &machine, cpu, seconds: 10.0, open_loop };
        let (limit, statement) = limits.verdict();
        assert!(statement.ends_with('.') && statement.contains("of 4 cores"), "{statement}");
        limit
    }

    #[test]
    fn the_limit_is_named() {
        assert_eq!(limit(10.0, Some(0.5), 0, 0), "none");
        assert_eq!(limit(10.0, None, 0, 0), "none");
        assert_eq!(limit(38.0, Some(0.99), 0, 0), "client");
        assert_eq!(limit(10.0, Some(0.5), 50, 0), "client");
        assert_eq!(limit(10.0, Some(0.5), 0, 100), "workers");
        assert_eq!(limit(10.0, Some(0.99), 0, 0), "machine");
        assert_eq!(limit(2.0, Some(0.99), 0, 0), "none");
    }

    #[test]
    fn a_run_without_time_has_a_share_of_zero() {
        let machine = Machine { system: "s".into(), processor: None, cores: 0, memory_bytes: None };
        let cpu = CpuUse { client_seconds: 1.0, machine_busy: None };
        let limits = Limits { machine: &machine, cpu, seconds: 0.0, open_loop: None };
        assert_eq!(limits.cpu_share(), 0.0);
    }
}
