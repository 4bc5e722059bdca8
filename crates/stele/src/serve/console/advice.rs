//! Advice in plain words: what is wrong with the server, and what its operator can do.

use super::super::state::Phase;
use super::readings::{EngineReading, SQL_ERROR};
use super::samples::Sample;
use serde::Serialize;
use std::sync::Arc;

/// Part of requests that fail, from which on advice is given.
const ERRORS_MANY: f64 = 0.01;
/// Part of filter questions with false positives that is too large. Filters are made for 1 %.
const WRONG_MANY: f64 = 0.05;
/// Questions a second below which a rate says nothing.
const ASKED_FEW: f64 = 10.0;
/// Disk reads of a get that are more than one block of data.
const DISK_READS_MANY: f64 = 1.5;

/// Severity of a finding, from refused clients to what is worth knowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    Critical,
    Warning,
    Note,
}

/// A finding, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Advice {
    pub(super) severity: Severity,
    pub(super) title: String,
    pub(super) text: String,
}

/// The state of the server that advice is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) phase: Phase,
    pub(super) engine: Option<&'a EngineReading>,
    /// Samples of the last minute.
    pub(super) recent: &'a [Arc<Sample>],
}

/// Returns advice, the most urgent first. An empty list is good news.
pub(super) fn advise(now: &Situation<'_>) -> Vec<Advice> {
    let mut found = Vec::new();
    found.extend(phase(now.phase));
    if let Some(engine) = now.engine {
        found.extend(failures(engine));
        found.extend(stalls(engine, now.recent));
        found.extend(paused(engine));
    }
    found.extend(errors(now.recent));
    found.extend(filters(now.recent));
    found.extend(cache(now.recent));
    found.sort_by_key(|advice| advice.severity);
    found
}

fn advice(severity: Severity, title: impl Into<String>, text: impl Into<String>) -> Advice {
    Advice { severity, title: title.into(), text: text.into() }
}

fn phase(phase: Phase) -> Option<Advice> {
    match phase {
        Phase::Serving => None,
        Phase::Recovering => Some(advice(
            Severity::Critical,
            "The data directory is opening",
            "The server reads its manifest and replays the commit log. Clients wait until then.",
        )),
        Phase::Draining => Some(advice(
            Severity::Critical,
            "The server is stopping",
            "Requests in flight finish. New ones are refused.",
        )),
    }
}

fn failures(engine: &EngineReading) -> Option<Advice> {
    if engine.writes_stopped.is_some_and(|stopped| stopped > 0) {
        return Some(advice(
            Severity::Critical,
            "Writes are stopped",
            "The commit log or the manifest could not be written, or background work panicked. Reads \
             go on. Look at the server's log, mend the cause, and restart the server.",
        ));
    }
    let failing = engine.trees_failing.filter(|failing| *failing > 0)?;
    Some(advice(
        Severity::Critical,
        format!(
            "Background work fails in {failing} {}",
            if failing == 1 { "tree" } else { "trees" }
        ),
        "The last flush or compaction failed, and the server tries it again. Most often the disk is \
         full. The server's log names the error.",
    ))
}

fn stalls(engine: &EngineReading, recent: &[Arc<Sample>]) -> Option<Advice> {
    let engines = || recent.iter().filter_map(|sample| sample.engine.as_ref());
    let stalled: f64 = engines().filter_map(|engine| engine.stalls_per_second).sum();
    let slowed: f64 = engines().filter_map(|engine| engine.slowdowns_per_second).sum();
    let runs = engine.levels[0].runs.unwrap_or_default();
    let many = format!(
        "Level 0 has {runs} sorted runs over all tables. Flushes and compactions are slower than \
         writers. Faster disks help, and so do fewer or larger writes at a time."
    );
    if stalled > 0.0 {
        return Some(advice(Severity::Warning, "Writes wait for background work", many));
    }
    (slowed > 0.0).then(|| advice(Severity::Note, "Writes are slowed a little", many))
}

fn paused(engine: &EngineReading) -> Option<Advice> {
    engine.compactions_paused.filter(|paused| *paused > 0)?;
    Some(advice(
        Severity::Warning,
        "Compactions are paused",
        "Reads get slower and disk use grows until they resume: stele admin resume-compactions.",
    ))
}

fn errors(recent: &[Arc<Sample>]) -> Option<Advice> {
    let all = recent.iter().flat_map(|sample| sample.operations.values());
    let all: f64 = all.map(|operation| operation.per_second).sum();
    // A client that gives up, or asks for what is not there, is no fault of the server.
    let ours = |code: &str| {
        code != SQL_ERROR
            && !matches!(
                code,
                "CANCELLED"
                    | "NOT_FOUND"
                    | "INVALID_ARGUMENT"
                    | "ALREADY_EXISTS"
                    | "PERMISSION_DENIED"
                    | "UNAUTHENTICATED"
                    | "FAILED_PRECONDITION"
                    | "UNIMPLEMENTED"
            )
    };
    let failed = recent.iter().flat_map(|sample| &sample.errors);
    let failed: f64 = failed.filter(|(code, _)| ours(code)).map(|(_, rate)| rate).sum();
    (failed > 0.0 && failed >= all * ERRORS_MANY).then(|| {
        let percent = if all > 0.0 { (failed / all * 100.0).min(100.0) } else { 100.0 };
        advice(
            Severity::Warning,
            format!("{percent:.1} % of requests fail"),
            "These failures are the server's, or of calls without room. The chart of errors has the \
             codes, and the server's log has the reasons.",
        )
    })
}

fn filters(recent: &[Arc<Sample>]) -> Option<Advice> {
    let engine = recent.last()?.engine.as_ref()?;
    let bad = engine.filters.iter().find(|filter| {
        filter.asked_per_second.is_some_and(|asked| asked >= ASKED_FEW)
            && filter.wrong.is_some_and(|wrong| wrong >= WRONG_MANY)
    })?;
    let percent = bad.wrong.unwrap_or_default() * 100.0;
    Some(advice(
        Severity::Note,
        format!("Filters are wrong in {percent:.1} % of questions"),
        "Reads look into files that do not have their rows. Filters of old files may be of another \
         granularity than reads ask for; compactions replace them.",
    ))
}

fn cache(recent: &[Arc<Sample>]) -> Option<Advice> {
    let engine = recent.last()?.engine.as_ref()?;
    let reads = engine.disk_reads_per_get.filter(|reads| *reads >= DISK_READS_MANY)?;
    Some(advice(
        Severity::Note,
        format!("A get reads {reads:.1} blocks from disk"),
        "The data in use is larger than the block cache. A larger memory budget makes reads faster.",
    ))
}

#[cfg(test)]
mod tests;
