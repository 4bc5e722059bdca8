//! The audit log: calls that administer, and calls that are refused, one JSON object a line.
//!
//! ```json
//! {"micros":1700000000000000,"identity":"token:ci","method":"/google.bigtable.admin.v2.BigtableTableAdmin/DeleteTable","resource":"projects/p/instances/i/tables/t","result":"OK","request":"5f2a09c1-1e"}
//! ```
//!
//! Invariants:
//! 1. A line holds no value, no row key and no token, and has at most [`RESOURCE_BYTES_MAX`] bytes of
//!    what a client wrote.
//! 2. A call never waits for the log. Lines for which there is no room are counted and dropped.
//! 3. A stopping server waits until the lines of the calls that have ended are in the file.

use super::metrics::{RefusedCallers, SecurityMetrics};
use crate::serve::metrics::requests::code_name;
use crate::serve::request_id::RequestId;
use base::env::{Clock, SystemClock};
use prometheus::IntCounter;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::sync::{mpsc, oneshot, watch};

/// Lines that wait for the file.
const WAITING_MAX: usize = 4_096;
/// Bytes of a resource that a line holds.
const RESOURCE_BYTES_MAX: usize = 512;

/// Takes notes of calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    notes: Option<mpsc::Sender<Note>>,
    dropped: IntCounter,
    refused: RefusedCallers,
}

/// A message to the writer of the file.
#[derive(Debug)]
enum Note {
    Line(String),
    /// Asks for an answer when the lines before it are in the file.
    Flush(oneshot::Sender<()>),
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    micros: i64,
    identity: &'a str,
    method: &'a str,
    resource: &'a str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
}

impl Audit {
    /// Sends the notes to the log of the server.
    pub(crate) fn to_log(metrics: &SecurityMetrics) -> Self {
        Self { notes: None, dropped: metrics.audit_dropped(), refused: metrics.refused().clone() }
    }

    /// Opens the file at `path`, and writes the notes to it from now on. The file is opened again when
    /// `hangups` changes.
    pub(crate) fn to_file(
        path: &Path,
        hangups: watch::Receiver<u64>,
        metrics: &SecurityMetrics,
    ) -> std::io::Result<Self> {
        let first = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        let (notes, waiting) = mpsc::channel(WAITING_MAX);
        let writer = Writer { path: path.to_owned(), dropped: metrics.audit_dropped() };
        tokio::spawn(writer.run(File::from_std(first), waiting, hangups));
        Ok(Self { notes: Some(notes), ..Self::to_log(metrics) })
    }

    /// Notes a call that has ended, with the id of its request.
    pub(crate) fn note(
        &self,
        identity: &str,
        method: &str,
        resource: &str,
        code: tonic::Code,
        request: Option<&RequestId>,
    ) {
        self.refused.count(code);
        let (resource, result) = (cut(resource), code_name(code));
        let Some(notes) = &self.notes else {
            let (method, request) = (cut(method), request.map(tracing::field::display));
            tracing::info!(target: "audit", identity, method, resource, result, request);
            return;
        };
        let micros = SystemClock.now_micros();
        let line = Line {
            micros,
            identity,
            method: cut(method),
            resource,
            result,
            request: request.map(ToString::to_string),
        };
        let sent = serde_json::to_string(&line).map(|line| notes.try_send(Note::Line(line + "\n")));
        if !matches!(sent, Ok(Ok(()))) {
            self.dropped.inc();
        }
    }

    /// Waits until all lines so far are in the file, or could not be written.
    pub(crate) async fn flush(&self) {
        let Some(notes) = &self.notes else { return };
        let (written, answer) = oneshot::channel();
        if notes.send(Note::Flush(written)).await.is_ok() {
            // A writer that is gone has nothing to write.
            let _ = answer.await;
        }
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(RESOURCE_BYTES_MAX)]
}

struct Writer {
    path: PathBuf,
    dropped: IntCounter,
}

impl Writer {
    /// Writes until all senders are dropped.
    async fn run(
        self,
        file: File,
        mut waiting: mpsc::Receiver<Note>,
        mut hangups: watch::Receiver<u64>,
    ) {
        let (mut file, mut notes) = (BufWriter::new(file), Vec::new());
        loop {
            let reopen = tokio::select! {
                count = waiting.recv_many(&mut notes, WAITING_MAX) => match count {
                    0 => return,
                    _ => false,
                },
                Ok(()) = hangups.changed() => true,
            };
            if reopen {
                match OpenOptions::new().create(true).append(true).open(&self.path).await {
                    Ok(fresh) => file = BufWriter::new(fresh),
                    Err(error) => {
                        tracing::error!(%error, "could not reopen the audit log; the old file stays")
                    }
                }
            }
            let (mut lines, mut flushes) = (Vec::new(), Vec::new());
            for note in notes.drain(..) {
                match note {
                    Note::Line(line) => lines.push(line),
                    Note::Flush(written) => flushes.push(written),
                }
            }
            if let Err(error) = write(&mut file, &lines).await {
                tracing::error!(%error, path = %self.path.display(), "could not write the audit log");
                self.dropped.inc_by(lines.len() as u64);
            }
            for written in flushes {
                // The server may have stopped waiting.
                let _ = written.send(());
            }
        }
    }
}

async fn write(file: &mut BufWriter<File>, lines: &[String]) -> std::io::Result<()> {
    for line in lines {
        file.write_all(line.as_bytes()).await?;
    }
    file.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[tokio::test]
    async fn each_note_is_a_line_and_a_hangup_opens_the_file_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("audit"), dir.path().join("audit.1"));
        let (count, hangups) = watch::channel(0);
        let audit = Audit::to_file(&path, hangups, &SecurityMetrics::new()).unwrap();
        let id = RequestId::Own(0xab, 0x1e);
        audit.note("token:ci", "/a/B", "projects/\"p\"", Code::PermissionDenied, Some(&id));
        let first = until_there(&path, 1).await;
        assert_eq!(first[0]["identity"], "token:ci");
        assert_eq!(first[0]["resource"], "projects/\"p\"");
        assert_eq!(first[0]["result"], "PERMISSION_DENIED");
        assert_eq!(first[0]["request"], "000000ab-1e");
        std::fs::rename(&path, &old).unwrap();
        count.send(1).unwrap();
        while !path.exists() {
            tokio::task::yield_now().await;
        }
        audit.note("", "/a/B", &"\u{e9}".repeat(1_000), Code::Ok, None);
        let second = until_there(&path, 1).await;
        assert_eq!(second[0]["resource"].as_str().unwrap().len(), RESOURCE_BYTES_MAX);
        assert_eq!(until_there(&old, 1).await.len(), 1);
    }

    /// Waits for so many lines.
    async fn until_there(path: &Path, count: usize) -> Vec<serde_json::Value> {
        loop {
            let text = std::fs::read_to_string(path).unwrap();
            if text.ends_with('\n') && text.lines().count() >= count {
                return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_flush_ends_when_every_line_is_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        let (_count, hangups) = watch::channel(0);
        let audit = Audit::to_file(&path, hangups, &SecurityMetrics::new()).unwrap();
        for lines in [1, 1_000] {
            (0..lines).for_each(|_| audit.note("token:ci", "/a/B", "", Code::Ok, None));
            audit.flush().await;
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1_001);
        Audit::to_log(&SecurityMetrics::new()).flush().await;
    }

    #[test]
    fn refused_callers_are_counted_by_reason() {
        let metrics = SecurityMetrics::new();
        let audit = Audit::to_log(&metrics);
        for code in [Code::Unauthenticated, Code::PermissionDenied, Code::Unauthenticated, Code::Ok]
        {
            audit.note("", "/a/B", "", code, None);
        }
        assert_eq!(metrics.refused().counts(), [("credentials", 2), ("permission", 1)]);
    }

    #[tokio::test]
    async fn lines_without_room_are_dropped_and_counted() {
        let (notes, _waiting) = mpsc::channel(2);
        let metrics = SecurityMetrics::new();
        let audit = Audit { notes: Some(notes), ..Audit::to_log(&metrics) };
        for _ in 0..5 {
            audit.note("", "/a/B", "", Code::Ok, None);
        }
        assert!(metrics.render().unwrap().contains("stele_audit_dropped_total 3"));
    }
}
