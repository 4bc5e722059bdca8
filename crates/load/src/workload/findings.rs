//! Wrong answers: counted by kind, and the first ones kept and printed with their keys.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Findings that are kept for the report.
const EXAMPLES_MAX: usize = 100;
/// Findings that are printed when they occur.
const PRINTED_MAX: usize = 20;
/// Longest row key in a finding, before it is escaped.
const KEY_LEN_MAX: usize = 200;

/// A way in which an answer is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Problem {
    /// A value is not the one that was written.
    WrongValue,
    /// A row that was acknowledged is not there.
    MissingRow,
    /// A cell of a row that was acknowledged is not there.
    MissingCell,
    /// A value is older than one that was acknowledged before the read began.
    StaleValue,
    /// A value has a version that was never written.
    NeverWritten,
    /// A row or cell was never written, or not asked for.
    Unexpected,
}

impl Problem {
    /// Returns the name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WrongValue => "wrong-value",
            Self::MissingRow => "missing-row",
            Self::MissingCell => "missing-cell",
            Self::StaleValue => "stale-value",
            Self::NeverWritten => "never-written",
            Self::Unexpected => "unexpected",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Example {
    pub(crate) problem: String,
    /// Row key, with bytes other than printable ASCII escaped.
    pub(crate) row: String,
    /// Description of what was read, and of what it should be.
    pub(crate) detail: String,
}

/// Output that several tasks write lines to.
pub type Sink = Arc<Mutex<dyn Write + Send>>;

/// All wrong answers of a run.
pub(crate) struct Findings {
    state: Mutex<State>,
    /// Values that were compared with what they must be.
    checked: AtomicU64,
    sink: Sink,
}

#[derive(Default)]
struct State {
    counts: BTreeMap<Problem, u64>,
    /// First message of each class of failure.
    messages: BTreeMap<&'static str, String>,
    examples: Vec<Example>,
}

impl Findings {
    /// Returns findings that are printed to `sink`.
    pub(crate) fn new(sink: Sink) -> Self {
        Self { state: Mutex::default(), checked: AtomicU64::new(0), sink }
    }

    /// Records a wrong answer and returns its problem.
    pub(crate) fn report(&self, problem: Problem, row: &[u8], detail: String) -> Problem {
        let mut state = self.state.lock();
        *state.counts.entry(problem).or_default() += 1;
        let known = state.examples.len();
        if known >= EXAMPLES_MAX {
            return problem;
        }
        let row = row[..row.len().min(KEY_LEN_MAX)].escape_ascii().to_string();
        let example = Example { problem: problem.name().to_owned(), row, detail };
        let line = format!("{}: row {}: {}", example.problem, example.row, example.detail);
        state.examples.push(example);
        drop(state);
        if known < PRINTED_MAX {
            // A progress output that is gone stops no run.
            let _ = writeln!(self.sink.lock(), "WRONG {line}");
        }
        problem
    }

    /// Keeps and prints the first message of a class of failures.
    pub(crate) fn complain(&self, class: &'static str, message: &str) {
        let mut state = self.state.lock();
        if state.messages.contains_key(class) {
            return;
        }
        state.messages.insert(class, message.to_owned());
        drop(state);
        let _ = writeln!(self.sink.lock(), "FAILED {message}");
    }

    /// Returns the first message of each class of failures.
    pub(crate) fn messages(&self) -> BTreeMap<String, String> {
        let state = self.state.lock();
        let messages = state.messages.iter();
        messages.map(|(class, message)| ((*class).to_owned(), message.clone())).collect()
    }

    /// Counts values that were compared.
    pub(crate) fn checked(&self, values: u64) {
        self.checked.fetch_add(values, Ordering::Relaxed);
    }

    /// Returns compared values, counts by problem, and the first wrong answers.
    pub(crate) fn summary(&self) -> (u64, BTreeMap<String, u64>, Vec<Example>) {
        let state = self.state.lock();
        let counts =
            state.counts.iter().map(|(problem, count)| (problem.name().to_owned(), *count));
        (self.checked.load(Ordering::Relaxed), counts.collect(), state.examples.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_counted_and_the_first_are_kept_escaped() {
        let printed = Arc::new(Mutex::new(Vec::new()));
        let sink: Sink = printed.clone();
        let findings = Findings::new(sink);
        for _ in 0..EXAMPLES_MAX + 5 {
            let row = [b"a\n\x1b[31m<b>\xff".as_slice(), &[b'x'; 5000]].concat();
            findings.report(Problem::WrongValue, &row, "other bytes".to_owned());
        }
        findings.report(Problem::MissingRow, b"r", String::new());
        let (_, counts, examples) = findings.summary();
        assert_eq!((counts["wrong-value"], counts["missing-row"]), (105, 1));
        assert_eq!(examples.len(), EXAMPLES_MAX);
        assert!(examples[0].row.starts_with(r"a\n\x1b[31m<b>\xffxxx"), "{}", examples[0].row);
        assert!(examples[0].row.len() < 250);
        (0..3).for_each(|_| findings.complain("TIMEOUT", "no answer"));
        assert_eq!(findings.messages()["TIMEOUT"], "no answer");
        let text = String::from_utf8(printed.lock().clone()).unwrap();
        assert_eq!(text.lines().count(), PRINTED_MAX + 1);
        assert!(text.ends_with("FAILED no answer\n"), "{text}");
    }
}
