//! Server binaries side by side: CPU time of each workload, and ratios within rounds.

use crate::measure::Phase;
use bench_core::Spread;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What was measured of each server, workload by workload.
pub(super) struct Comparison {
    names: Vec<String>,
    /// Workloads in the order they were run in.
    workloads: Vec<String>,
    /// CPU nanoseconds an operation, of each round, by workload and server.
    cpu_ns: BTreeMap<(String, usize), Vec<f64>>,
}

impl Comparison {
    /// A comparison of `servers` with the first of them.
    pub(super) fn new(servers: &[PathBuf]) -> Self {
        let names = servers.iter().map(|server| server.display().to_string()).collect();
        Self { names, workloads: Vec::new(), cpu_ns: BTreeMap::new() }
    }

    /// Adds a round of server number `server`.
    pub(super) fn add(&mut self, server: usize, phases: &[Phase]) {
        for phase in phases {
            if !self.workloads.contains(&phase.name) {
                self.workloads.push(phase.name.clone());
            }
            let rounds = self.cpu_ns.entry((phase.name.clone(), server)).or_default();
            rounds.push(phase.cpu_ns());
        }
    }

    /// A line for each workload and server, and for each server the geometric mean over workloads.
    pub(super) fn lines(&self, json: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let mut logs = vec![Vec::new(); self.names.len()];
        for workload in &self.workloads {
            let of = |server: usize| self.cpu_ns.get(&(workload.clone(), server));
            for (server, name) in self.names.iter().enumerate() {
                let Some((first, rounds)) = of(0).zip(of(server)) else { continue };
                let cpu = Spread::of(rounds.clone());
                let speed = Spread::of(first.iter().zip(rounds).map(|(a, b)| a / b));
                logs[server].push(speed.median.ln());
                lines.push(line(json, workload, name, Some(cpu), speed));
            }
        }
        for (name, logs) in self.names.iter().zip(&logs).filter(|(_, logs)| !logs.is_empty()) {
            let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            lines.push(line(
                json,
                "all",
                name,
                None,
                Spread { median: mean, low: mean, high: mean },
            ));
        }
        lines
    }
}

fn line(json: bool, workload: &str, server: &str, cpu: Option<Spread>, speed: Spread) -> String {
    if json {
        let (cpu_ns_per_op, speed) = (serde_json::json!(cpu), serde_json::json!(speed));
        let object = serde_json::json!({
            "workload": workload,
            "server": server,
            "cpu_ns_per_op": cpu_ns_per_op,
            "speed": speed,
        });
        return object.to_string();
    }
    let cpu = cpu.map_or(String::new(), |cpu| format!("{:.0}", cpu.median));
    let Spread { median, low, high } = speed;
    format!(
        "{workload:<18} {cpu:>9} ns CPU/op   speed {median:.3} ({low:.3}..{high:.3})   {server}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn phase(name: &str, nanos: u64) -> Phase {
        let (wall, cpu) = (Duration::from_secs(1), Duration::from_nanos(nanos));
        Phase { name: name.to_owned(), operations: 1, wall, cpu, percentiles_us: None }
    }

    #[test]
    fn speed_is_told_against_the_first_server() {
        let mut comparison = Comparison::new(&["a".into(), "b".into()]);
        for (a, b) in [(100, 50), (300, 100), (80, 80)] {
            comparison.add(0, &[phase("scan", a)]);
            comparison.add(1, &[phase("scan", b)]);
        }
        let lines = comparison.lines(false);
        assert_eq!(lines.len(), 4);
        assert!(lines[0].contains("100 ns") && lines[0].contains("1.000 (1.000..1.000)"));
        assert!(lines[1].contains("80 ns") && lines[1].contains("2.000 (1.000..3.000)"));
        assert!(lines[3].starts_with("all") && lines[3].contains("2.000 (2.000..2.000)"));
        assert!(comparison.lines(true)[1].contains("\"median\":2.0"));
    }
}
