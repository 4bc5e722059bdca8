//! Advice in plain words: what is wrong with the server, and what its operator can do.

#[cfg(feature = "sql")]
mod sql;
mod storage;

use super::super::metrics::Disk;
use super::super::state::Phase;
use super::readings::{EngineReading, SQL_CLIENT_ERROR, SQL_SERVER_ERROR};
use super::samples::Sample;
use serde::Serialize;
use std::sync::Arc;

/// Part of requests that fail, from which on advice is given.
const ERRORS_MANY: f64 = 0.01;
/// Part of filter questions with false positives that is too large. Filters are made for 1 %.
const WRONG_MANY: f64 = 0.05;
/// Questions a second below which a rate says nothing.
const ASKED_FEW: f64 = 10.0;

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
    /// The section of the guide for operators that tells more, below the top of the repository.
    pub(super) guide: String,
}

/// The state of the server that advice is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) phase: Phase,
    pub(super) engine: Option<&'a EngineReading>,
    /// The file system of the data directory.
    pub(super) disk: Option<Disk>,
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
        found.extend(storage::snapshot(engine));
    }
    found.extend(now.disk.and_then(storage::disk));
    found.extend(errors(now.recent));
    #[cfg(feature = "sql")]
    found.extend(sql::advise(now.recent));
    found.extend(storage::debt(now.recent));
    found.extend(filters(now.recent));
    found.extend(storage::cache(now.recent));
    found.sort_by_key(|advice| advice.severity);
    found
}

/// Returns advice with a section of docs/operations.md, which is named as links name it.
fn advice(
    severity: Severity,
    title: impl Into<String>,
    text: impl Into<String>,
    section: &str,
) -> Advice {
    let guide = format!("docs/operations.md#{section}");
    Advice { severity, title: title.into(), text: text.into(), guide }
}

fn phase(phase: Phase) -> Option<Advice> {
    match phase {
        Phase::Serving => None,
        Phase::Recovering => Some(advice(
            Severity::Critical,
            "The data directory is opening",
            "The server reads its manifest and replays the commit log. Clients wait until then.",
            "stelenotready",
        )),
        Phase::Draining => Some(advice(
            Severity::Critical,
            "The server is stopping",
            "Requests in flight finish. New ones are refused.",
            "starting-and-stopping",
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
            "stelewritesstopped",
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
        "stelebackgroundworkfails",
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
    let section = "stelewritersstopped";
    if stalled > 0.0 {
        return Some(advice(Severity::Warning, "Writes wait for background work", many, section));
    }
    (slowed > 0.0).then(|| advice(Severity::Note, "Writes are slowed a little", many, section))
}

fn paused(engine: &EngineReading) -> Option<Advice> {
    engine.compactions_paused.filter(|paused| *paused > 0)?;
    Some(advice(
        Severity::Warning,
        "Compactions are paused",
        "Reads get slower and disk use grows until they resume: stele admin resume-compactions.",
        "stelecompactionspaused",
    ))
}

fn errors(recent: &[Arc<Sample>]) -> Option<Advice> {
    // Statements of PostgreSQL clients have advice of their own.
    let all = recent.iter().flat_map(|sample| &sample.operations);
    let all = all.filter(|(operation, _)| !operation.is_sql());
    let all: f64 = all.map(|(_, operation)| operation.per_second).sum();
    // A client that gives up, or asks for what is not there, is no fault of the server.
    let ours = |code: &str| {
        code != SQL_CLIENT_ERROR
            && code != SQL_SERVER_ERROR
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
            "stelerequestsfail",
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
        "stelereadsslow",
    ))
}

#[cfg(test)]
mod tests;
