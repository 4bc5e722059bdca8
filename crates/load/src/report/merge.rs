//! One report of several: the processes of a run add up.

use super::{OpenLoop, Report, Results, Summary};
use crate::Error;
use std::collections::BTreeMap;

/// Settings that may differ between the processes of a run.
const OWN_SETTINGS: [&str; 5] = ["process", "json", "html", "title", "quiet"];
/// Wrong answers that a merged report keeps.
const EXAMPLES_MAX: usize = 100;

impl Report {
    /// Returns the report of a run from the reports of its processes. Refuses reports of different
    /// runs, and two reports of one process.
    pub(crate) fn merge(reports: Vec<Self>) -> Result<Self, Error> {
        let mut reports = reports;
        reports.sort_by_key(|report| {
            (report.started_ms, report.processes.first().map(|p| p.part.index))
        });
        let mut reports = reports.into_iter();
        let mut whole = reports
            .next()
            .ok_or_else(|| Error::Report("there is no report to merge".to_owned()))?;
        for report in reports {
            whole.check_same_run(&report)?;
            whole.add(report);
        }
        whole.processes.sort_by_key(|process| process.part.index);
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

    /// Adds the report of another process, which began at the same time or later.
    fn add(&mut self, other: Self) {
        let later = other.started_ms.saturating_sub(self.started_ms) as f64 / 1e3;
        let warm_up = self.warm_up_seconds - other.warm_up_seconds;
        self.timeline.beside(other.timeline, later + warm_up);
        self.seconds = self.seconds.max(other.seconds);
        for (name, results) in other.operations {
            match self.operations.get_mut(&name) {
                Some(ours) => ours.add(&results),
                None => {
                    self.operations.insert(name, results);
                }
            }
        }
        let seconds = self.seconds;
        for results in self.operations.values_mut() {
            let (histogram, errors) = (results.histogram.clone(), results.errors.clone());
            *results = Results::new(histogram, results.rows, errors, seconds);
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

fn add_counts(ours: &mut BTreeMap<String, u64>, theirs: &BTreeMap<String, u64>) {
    for (name, count) in theirs {
        let sum = ours.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}
