//! One report of several: the processes of a run add up.
//!
//! Invariants:
//! 1. A merged report has every process of its run, and each once.
//! 2. All processes worked at the same time, for half of the shortest measured time at least.
//! 3. Rates are counts by the time from the first begin to the last end, so that no process adds a rate
//!    at a time at which it did not work.

use super::{OpenLoop, Report, Results, Summary};
use crate::Error;
use std::collections::BTreeMap;

/// Settings that may differ between the processes of a run.
const OWN_SETTINGS: [&str; 5] = ["process", "json", "html", "title", "quiet"];
/// Wrong answers that a merged report keeps.
const EXAMPLES_MAX: usize = 100;
/// Share of the shortest measured time in which all processes must have worked.
const TOGETHER_MIN: f64 = 0.5;

impl Report {
    /// Returns the report of a run from the reports of its processes. Refuses reports of different
    /// runs or times, two reports of one process, and a run of which a process is missing.
    pub(crate) fn merge(reports: Vec<Self>) -> Result<Self, Error> {
        let mut reports = reports;
        reports.sort_by_key(|report| {
            (report.started_ms, report.processes.first().map(|p| p.part.index))
        });
        let times: Vec<Times> = reports.iter().map(Times::of).collect();
        let mut reports = reports.into_iter();
        let mut whole = reports
            .next()
            .ok_or_else(|| Error::Report("there is no report to merge".to_owned()))?;
        for report in reports {
            whole.check_same_run(&report)?;
            whole.add(report);
        }
        whole.processes.sort_by_key(|process| process.part.index);
        whole.check_complete()?;
        whole.set_seconds(together(&times)?);
        if let [first, ..] = &whole.processes[..] {
            let parts = format!("{} of {}", whole.processes.len(), first.part.of);
            whole.settings.insert("process".to_owned(), parts);
        }
        Ok(whole)
    }

    fn check_same_run(&self, other: &Self) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Report(format!("the reports differ in {what}")));
        for (what, ours, theirs) in [
            ("workload", &self.workload, &other.workload),
            ("data set", &self.data, &other.data),
            ("program", &self.program, &other.program),
        ] {
            if ours != theirs {
                return refuse(format!("their {what}: {ours:?} and {theirs:?}"));
            }
        }
        if self.seed != other.seed {
            return refuse(format!("their seed: {} and {}", self.seed, other.seed));
        }
        let names = self.settings.keys().chain(other.settings.keys());
        for name in names.filter(|name| !OWN_SETTINGS.contains(&name.as_str())) {
            let (ours, theirs) = (self.settings.get(name), other.settings.get(name));
            if ours != theirs {
                return refuse(format!("--{name}: {ours:?} and {theirs:?}"));
            }
        }
        for process in &other.processes {
            let same = |ours: &&super::Process| {
                ours.part.index == process.part.index || ours.part.of != process.part.of
            };
            if let Some(ours) = self.processes.iter().find(same) {
                return Err(Error::Report(format!(
                    "process {} and process {} cannot belong to one run; each process of a run has \
                     its own --process K/N",
                    ours.part, process.part
                )));
            }
        }
        Ok(())
    }

    /// Refuses a run of which a process is missing. Its processes are in order.
    fn check_complete(&self) -> Result<(), Error> {
        let of = self.processes.first().map_or(1, |process| process.part.of);
        let mut indexes = self.processes.iter().map(|process| process.part.index);
        match (0..of).find(|number| indexes.next() != Some(*number)) {
            None => Ok(()),
            Some(missing) => Err(Error::Report(format!(
                "the report of process {missing}/{of} is missing; a merged report needs all processes"
            ))),
        }
    }

    /// Sets the measured time, and all rates to it.
    fn set_seconds(&mut self, seconds: f64) {
        self.seconds = seconds;
        let operations = std::mem::take(&mut self.operations).into_iter();
        self.operations = operations.map(|(name, results)| (name, results.over(seconds))).collect();
    }

    /// Adds the report of another process, which began at the same time or later.
    fn add(&mut self, other: Self) {
        let later = other.started_ms.saturating_sub(self.started_ms) as f64 / 1e3;
        let warm_up = self.warm_up_seconds - other.warm_up_seconds;
        self.timeline.beside(other.timeline, later + warm_up);
        for (name, results) in other.operations {
            match self.operations.get_mut(&name) {
                Some(ours) => ours.add(&results),
                None => {
                    self.operations.insert(name, results);
                }
            }
        }
        match (&mut self.open_loop, other.open_loop) {
            (Some(ours), Some(theirs)) => ours.add(&theirs),
            (ours, theirs) => *ours = ours.take().or(theirs),
        }
        if let Some(fill) = other.fill {
            let ours = self.fill.get_or_insert_default();
            ours.rows = ours.rows.saturating_add(fill.rows);
            ours.seconds = ours.seconds.max(fill.seconds);
        }
        let (ours, theirs) = (&mut self.verification, other.verification);
        ours.values = ours.values.saturating_add(theirs.values);
        add_counts(&mut ours.wrong, &theirs.wrong);
        ours.examples.extend(theirs.examples);
        ours.examples.truncate(EXAMPLES_MAX);
        for (class, message) in other.messages {
            self.messages.entry(class).or_insert(message);
        }
        if self.ended != other.ended {
            self.ended = format!("{}, {}", self.ended, other.ended);
        }
        self.processes.extend(other.processes);
    }
}

impl Results {
    fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram);
        self.latency_us = Summary::of(&self.histogram);
        self.count = self.count.saturating_add(other.count);
        self.unanswered = self.unanswered.saturating_add(other.unanswered);
        self.rows = self.rows.saturating_add(other.rows);
        add_counts(&mut self.errors, &other.errors);
    }
}

impl OpenLoop {
    fn add(&mut self, other: &Self) {
        self.rate = ((self.rate + other.rate) * 1e3).round() / 1e3;
        self.due = self.due.saturating_add(other.due);
        self.left_out = self.left_out.saturating_add(other.left_out);
        self.not_begun = self.not_begun.saturating_add(other.not_begun);
        self.backlog_max = self.backlog_max.saturating_add(other.backlog_max);
        self.delay_histogram.add(&other.delay_histogram);
        self.delay_us = Summary::of(&self.delay_histogram);
        self.pacer_histogram.add(&other.pacer_histogram);
        self.pacer_us = Summary::of(&self.pacer_histogram);
    }
}

/// The measured time of a report: seconds since 1970 at its begin, and its length.
struct Times {
    begin: f64,
    seconds: f64,
}

impl Times {
    fn of(report: &Report) -> Self {
        Self { begin: report.started_ms as f64 / 1e3, seconds: report.seconds }
    }
}

/// Returns the seconds from the first begin to the last end. Refuses times that one run cannot have.
fn together(times: &[Times]) -> Result<f64, Error> {
    if let [only] = times {
        return Ok(only.seconds);
    }
    let least = |of: fn(&Times) -> f64| times.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Times) -> f64| times.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let (begin, end) = (least(|times| times.begin), most(|times| times.begin + times.seconds));
    let last_begin = most(|times| times.begin);
    let common = least(|times| times.begin + times.seconds) - last_begin;
    let enough = common > 0.0 && common >= least(|times| times.seconds) * TOGETHER_MIN;
    // A time that is no number is in no minimum, so it is looked for by itself.
    if enough && times.iter().all(|times| times.seconds.is_finite()) {
        return Ok(end - begin);
    }
    Err(Error::Report(format!(
        "the reports are of different times: the last process began {:.1} s after the first, and all \
         worked together for {:.1} s; processes of one run begin together, for example by --start-at",
        last_begin - begin,
        common.max(0.0)
    )))
}

fn add_counts(ours: &mut BTreeMap<String, u64>, theirs: &BTreeMap<String, u64>) {
    for (name, count) in theirs {
        let sum = ours.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}
