//! Measured slices, and the lines that are printed of them.

use super::Work;
use bench_core::Spread;
use serde_json::json;
use std::time::Duration;

/// One kind of work on one target for some seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    pub(super) operations: u64,
    /// Length of the slice by the clock.
    pub(super) seconds: f64,
    /// CPU time that the server's process took.
    pub(super) cpu: Duration,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
}

impl Slice {
    fn per_cpu_second(&self) -> f64 {
        self.operations as f64 / self.cpu.as_secs_f64()
    }
}

/// The slices of one kind of work, by target. The first target is the constant server, the second the
/// emulator.
pub(super) struct Table {
    work: Work,
    targets: Vec<(String, Vec<Slice>)>,
}

impl Table {
    pub(super) fn new<'a>(work: Work, names: impl Iterator<Item = &'a str>) -> Self {
        Self { work, targets: names.map(|name| (name.to_owned(), Vec::new())).collect() }
    }

    pub(super) fn add(&mut self, target: usize, slice: Slice) {
        self.targets[target].1.push(slice);
    }

    /// Lines for people, or JSON objects.
    pub(super) fn lines(&self, json: bool) -> Vec<String> {
        self.targets.iter().map(|target| self.line(target, json)).collect()
    }

    fn line(&self, (name, slices): &(String, Vec<Slice>), json: bool) -> String {
        let median = |value: &dyn Fn(&Slice) -> f64| Spread::of(slices.iter().map(value)).median;
        let per_cpu_second = median(&Slice::per_cpu_second);
        let per_second = median(&|slice| slice.operations as f64 / slice.seconds);
        let [p50, p99] =
            [median(&|slice| slice.p50_us as f64), median(&|slice| slice.p99_us as f64)];
        let [constant, emulator] = [0, 1].map(|at| self.ratio(slices, at));
        let work = self.work.name();
        if json {
            let spread = |of: &Spread| json!([of.median, of.low, of.high]);
            let line = json!({
                "work": work, "target": name, "per_cpu_second": per_cpu_second,
                "per_second": per_second, "p50_us": p50, "p99_us": p99,
                "of_constant": spread(&constant), "of_emulator": spread(&emulator),
            });
            return line.to_string();
        }
        let spread = |of: &Spread| format!("{:.2} ({:.2} to {:.2})", of.median, of.low, of.high);
        format!(
            "{work:<7} {name:<9} {per_cpu_second:>8.0}/CPU s {per_second:>7.0}/s  p50 {p50:>6.0} us  \
             p99 {p99:>6.0} us  of constant {}, of emulator {}",
            spread(&constant),
            spread(&emulator),
        )
    }

    /// Work per CPU second in `slices` by that of target `other`, round by round.
    fn ratio(&self, slices: &[Slice], other: usize) -> Spread {
        let pairs = slices.iter().zip(&self.targets[other].1);
        Spread::of(pairs.map(|(own, other)| own.per_cpu_second() / other.per_cpu_second()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_compared_round_by_round_by_the_servers_cpu_time() {
        let mut table = Table::new(Work::Write, ["constant", "emulator", "stele"].into_iter());
        for (target, operations) in [(0, 1_000), (1, 500), (2, 750), (0, 100), (1, 50), (2, 75)] {
            let (cpu, seconds) = (Duration::from_millis(500), 2.0);
            table.add(target, Slice { operations, seconds, cpu, p50_us: 10, p99_us: 90 });
        }
        let lines = table.lines(true);
        let stele: serde_json::Value = serde_json::from_str(&lines[2]).unwrap();
        assert_eq!(stele["of_constant"], json!([0.75, 0.75, 0.75]));
        assert_eq!(stele["of_emulator"], json!([1.5, 1.5, 1.5]));
        assert_eq!(stele["per_cpu_second"], json!(825.0));
        assert!(table.lines(false)[0].starts_with("write   constant"));
    }
}
