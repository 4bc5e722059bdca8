//! The outcome of one query: the runs of all engines, their medians, and the comparison of answers.

use super::answers::{Answer, Verdict, compare};
use super::engine::{Cost, Execution, Kind};
use super::queries::Query;
use bench_core::Spread;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A query that engines were asked.
pub(super) struct Answered {
    /// The number of the query.
    pub(super) number: usize,
    engines: BTreeMap<Kind, Outcome>,
    verdicts: BTreeMap<Kind, Verdict>,
}

/// The runs of one engine.
#[derive(Default)]
struct Outcome {
    runs: Vec<Cost>,
    rows: u64,
    answer: Option<Answer>,
    error: Option<String>,
}

impl Answered {
    pub(super) fn new(query: &Query) -> Self {
        let (engines, verdicts) = (BTreeMap::new(), BTreeMap::new());
        Self { number: query.number, engines, verdicts }
    }

    /// Takes note of a run, or of the error that ended it.
    pub(super) fn add(&mut self, kind: Kind, run: Result<Execution, String>) {
        let outcome = self.engines.entry(kind).or_default();
        match run {
            Ok(Execution { cost, rows, answer }) => {
                outcome.runs.push(cost);
                outcome.rows = rows;
                outcome.answer = answer;
            }
            Err(error) => outcome.error = Some(error),
        }
    }

    /// Returns true if a run of the engine failed.
    pub(super) fn failed(&self, kind: Kind) -> bool {
        self.error(kind).is_some()
    }

    /// Returns the error of an engine, if a run of it failed.
    pub(super) fn error(&self, kind: Kind) -> Option<&str> {
        self.engines.get(&kind)?.error.as_deref()
    }

    /// Returns the medians of the runs of an engine, if none of them failed.
    pub(super) fn median(&self, kind: Kind) -> Option<Cost> {
        let outcome = self.engines.get(&kind)?;
        if outcome.error.is_some() || outcome.runs.is_empty() {
            return None;
        }
        let median = |part: fn(&Cost) -> f64| Spread::of(outcome.runs.iter().map(part)).median;
        Some(Cost { cpu_s: median(|run| run.cpu_s), wall_s: median(|run| run.wall_s) })
    }

    /// Compares the last answer of an engine with PostgreSQL's, if both have one.
    pub(super) fn compare(&mut self, kind: Kind, query: &Query) {
        let answer =
            |kind: Kind| self.engines.get(&kind).and_then(|outcome| outcome.answer.as_ref());
        if let (Some(ours), Some(theirs)) = (answer(kind), answer(Kind::Postgres)) {
            let verdict = compare(query.text_for(kind), ours, theirs);
            self.verdicts.insert(kind, verdict);
        }
    }

    /// Frees the memory of the answers, which are compared.
    pub(super) fn forget_rows(&mut self) {
        self.engines.values_mut().for_each(|outcome| outcome.answer = None);
    }

    /// Returns the outcome of the comparison of an engine's answer with PostgreSQL's, if there was one.
    pub(super) fn verdict(&self, kind: Kind) -> Option<&Verdict> {
        self.verdicts.get(&kind)
    }

    /// Returns how an engine's answer differs in what must be the same.
    pub(super) fn difference(&self, kind: Kind) -> Option<String> {
        let verdict = self.verdict(kind)?;
        matches!(verdict, Verdict::Different(_)).then(|| verdict.text())
    }

    /// Returns true if any answer differs in what must be the same.
    pub(super) fn differs(&self) -> bool {
        self.verdicts.keys().any(|kind| self.difference(*kind).is_some())
    }

    /// Returns all of it as JSON.
    pub(super) fn json(&self) -> Value {
        let engines = self.engines.iter().map(|(kind, outcome)| {
            let verdict = self.verdict(*kind).map(Verdict::text);
            let value = json!({
                "median": self.median(*kind),
                "runs": outcome.runs,
                "rows": outcome.rows,
                "error": outcome.error,
                "beside_postgres": verdict,
            });
            (kind.name().to_owned(), value)
        });
        json!({ "query": self.number, "engines": engines.collect::<Map<String, Value>>() })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a query of number 3 whose runs took some CPU seconds.
    pub(in crate::hits) fn answered(runs: &[(Kind, f64)]) -> Answered {
        let (engines, verdicts) = (BTreeMap::new(), BTreeMap::new());
        let mut answered = Answered { number: 3, engines, verdicts };
        for (kind, cpu_s) in runs {
            let cost = Cost { cpu_s: *cpu_s, wall_s: cpu_s / 2.0 };
            answered.add(*kind, Ok(Execution { cost, rows: 1, answer: None }));
        }
        answered
    }

    #[test]
    fn the_median_run_counts_unless_a_run_failed() {
        let [ours, theirs] = [Kind::Columnar, Kind::DuckDb];
        let runs = [(ours, 3.0), (ours, 1.0), (theirs, 4.0), (ours, 2.0)];
        let mut answered = answered(&runs);
        assert_eq!(answered.median(ours), Some(Cost { cpu_s: 2.0, wall_s: 1.0 }));
        answered.add(theirs, Err("no memory".to_owned()));
        assert_eq!(answered.median(theirs), None);
        assert_eq!(answered.error(theirs), Some("no memory"));
        assert_eq!(answered.median(Kind::Postgres), None);
        assert_eq!(answered.json()["engines"]["duckdb"]["error"], "no memory");
    }
}
