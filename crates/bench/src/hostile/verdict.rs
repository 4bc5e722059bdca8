//! The outcome of one attack: what was measured, and what of it is a fault.

use super::attacker::Tally;
use super::attacks::Attack;
use super::honest::Latencies;
use crate::AnyError;
use clap::ValueEnum;
use serde_json::json;
use std::time::Duration;

/// Memory that a server may have beside a quarter more than its budget.
const RESIDENT_SPARE_BYTES: u64 = 64 << 20;
/// Time that an honest read may lose whatever it took before.
const P99_SPARE_US: u64 = 5_000;
/// Work ends within this time of the attack.
const ON_FOR_MAX: Duration = Duration::from_secs(2);
/// Codes that no client knows what to do with.
const NEVER: [&str; 2] = ["Unknown", "Internal"];

/// Measurements of one attack, and its tally.
pub(super) struct Outcome {
    pub(super) attack: Attack,
    pub(super) budget_bytes: u64,
    /// Most memory that the server had meanwhile.
    pub(super) resident_bytes: u64,
    /// The honest client before the attack.
    pub(super) quiet: Latencies,
    /// The honest client during the attack.
    pub(super) beside: Latencies,
    /// Time that the server worked on after the attack.
    pub(super) on_for: Duration,
    pub(super) tally: Tally,
}

impl Outcome {
    /// Returns what is wrong, in words; nothing if the attack passed.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |wrong: bool, fault: String| {
            if wrong {
                faults.push(fault);
            }
        };
        let resident_max = self.budget_bytes + self.budget_bytes / 4 + RESIDENT_SPARE_BYTES;
        check(self.resident_bytes > resident_max, format!("memory over {}", mib(resident_max)));
        let p99_max = 2 * self.quiet.p99_us + P99_SPARE_US;
        check(self.beside.p99_us > p99_max, format!("p99 over {p99_max} us"));
        let failure = self.beside.failure.as_deref().unwrap_or_default();
        check(self.beside.failed > 0, format!("{} reads failed: {failure}", self.beside.failed));
        check(self.on_for > ON_FOR_MAX, "worked on for over 2 s".to_owned());
        let intruder = self.tally.intruder.as_deref().unwrap_or_default();
        check(self.tally.let_in > 0, format!("{} let in: {intruder}", self.tally.let_in));
        check(self.tally.late > 0, format!("{} answers late", self.tally.late));
        for code in NEVER {
            check(self.tally.codes.contains_key(code), format!("code {code}"));
        }
        faults
    }

    fn name(&self) -> String {
        let name = self.attack.to_possible_value();
        name.map(|name| name.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns a line of the table.
    pub(super) fn line(&self) -> String {
        let faults = self.faults();
        let verdict = if faults.is_empty() { "passed".to_owned() } else { faults.join(", ") };
        format!(
            "{:<18} {:>9} {:>7} {:>7} {:>8} {:>9} {:>6} {:>5.1} s  {verdict}; {}",
            self.name(),
            mib(self.resident_bytes),
            self.quiet.p50_us,
            self.quiet.p99_us,
            self.beside.p50_us,
            self.beside.p99_us,
            self.beside.failed,
            self.on_for.as_secs_f64(),
            self.tally.line(),
        )
    }

    /// Returns a JSON object on one line.
    pub(super) fn json(&self) -> Result<String, AnyError> {
        Ok(serde_json::to_string(&json!({
            "attack": self.name(),
            "budget_bytes": self.budget_bytes,
            "resident_bytes": self.resident_bytes,
            "quiet": self.quiet,
            "beside": self.beside,
            "on_for_s": self.on_for.as_secs_f64(),
            "tally": self.tally,
            "faults": self.faults(),
        }))?)
    }
}

/// Returns the heads of the table's columns.
pub(super) fn heading() -> String {
    format!(
        "{:<18} {:>9} {:>7} {:>7} {:>8} {:>9} {:>6} {:>7}  verdict; attackers",
        "attack", "resident", "p50 us", "p99 us", "p50 then", "p99 then", "failed", "on for"
    )
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(p99_us: u64, failed: u64) -> Latencies {
        Latencies { reads: 100, failed, p50_us: 1, p99_us, failure: None }
    }

    #[test]
    fn each_fault_is_named_and_nothing_else_is_one() {
        const BUDGET: u64 = 256 << 20;
        const MOST: u64 = 384 << 20;
        let code =
            |name: &str| Tally { codes: [(name.to_owned(), 1)].into(), ..Default::default() };
        let let_in = Tally { let_in: 1, intruder: Some("ann".to_owned()), ..Default::default() };
        let late = Tally { late: 2, ..Default::default() };
        for (resident, p99, failed, on_for, tally, want) in [
            (MOST, 7_000, 0, 2_000, code("ResourceExhausted"), None),
            (MOST + 1, 0, 0, 0, code("Ok"), Some("memory over 384 MiB")),
            (0, 7_001, 0, 0, code("Ok"), Some("p99 over 7000 us")),
            (0, 0, 3, 0, code("Ok"), Some("3 reads failed: ")),
            (0, 0, 0, 2_001, code("Ok"), Some("worked on for over 2 s")),
            (0, 0, 0, 0, let_in, Some("1 let in: ann")),
            (0, 0, 0, 0, late, Some("2 answers late")),
            (0, 0, 0, 0, code("Unknown"), Some("code Unknown")),
            (0, 0, 0, 0, code("Internal"), Some("code Internal")),
        ] {
            let outcome = Outcome {
                attack: Attack::Garbage,
                budget_bytes: BUDGET,
                resident_bytes: resident,
                quiet: latencies(1_000, 0),
                beside: latencies(p99, failed),
                on_for: Duration::from_millis(on_for),
                tally,
            };
            assert_eq!(outcome.faults(), want.into_iter().collect::<Vec<_>>());
        }
    }
}
