//! Counts of what the door did, for the metrics of the server.

use crate::statement::Parsed;
use base::histogram::{Buckets, Histogram};
use datafusion::sql::sqlparser::ast::Statement;
use relational::SqlState;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Kinds of statements, as metrics name them.
const KINDS: [&str; 9] =
    ["select", "insert", "update", "delete", "copy", "transaction", "schema", "prepare", "other"];
/// Ends of statements, as metrics name them: well, and with an error that is the client's or the server's
/// own.
const RESULTS: [&str; 3] = ["ok", "client_error", "server_error"];

/// Returns the place in [`RESULTS`] of the end of a statement.
fn result_of(error: Option<SqlState>) -> usize {
    match error {
        None => 0,
        Some(state) => 1 + usize::from(state.is_of_server()),
    }
}

/// A kind of statements: a place in [`KINDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(usize);

impl Kind {
    /// Parsing and planning a statement for later.
    pub(crate) const PREPARE: Self = Self(KINDS.len() - 2);

    fn named(label: &str) -> Self {
        Self(KINDS.iter().position(|known| *known == label).unwrap_or(KINDS.len() - 1))
    }

    /// Returns the kind of a statement that ended well, by the first word of its tag.
    pub(crate) fn of_tag(tag: &str) -> Self {
        Self::named(match tag.split(' ').next().unwrap_or_default() {
            "SELECT" | "FETCH" => "select",
            "INSERT" => "insert",
            "UPDATE" => "update",
            "DELETE" => "delete",
            "COPY" => "copy",
            "PREPARE" => "prepare",
            "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" => "transaction",
            "CREATE" | "ALTER" | "DROP" | "TRUNCATE" | "COMMENT" | "GRANT" | "REVOKE" => "schema",
            _ => "other",
        })
    }

    /// Returns the kind of a statement that may yet fail.
    pub(crate) fn of(parsed: &Parsed) -> Self {
        let Parsed::Tree(tree) = parsed else { return Self::named("other") };
        Self::named(match &**tree {
            Statement::Query(_) | Statement::Fetch { .. } => "select",
            Statement::Insert(_) => "insert",
            Statement::Update(_) => "update",
            Statement::Delete(_) => "delete",
            Statement::Copy { .. } => "copy",
            Statement::Prepare { .. } => "prepare",
            Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. } => "transaction",
            Statement::CreateTable(_)
            | Statement::CreateIndex(_)
            | Statement::CreateView(_)
            | Statement::CreateSequence { .. }
            | Statement::CreateSchema { .. }
            | Statement::CreateRole(_)
            | Statement::AlterTable(_)
            | Statement::AlterIndex { .. }
            | Statement::AlterRole { .. }
            | Statement::Drop { .. }
            | Statement::Truncate(_)
            | Statement::Comment { .. }
            | Statement::Grant(_)
            | Statement::Revoke(_) => "schema",
            _ => "other",
        })
    }

    /// Returns the label of the kind in metrics.
    pub(crate) fn label(self) -> &'static str {
        KINDS[self.0]
    }
}

/// Classes of errors: the first two characters of their states, and what stands for all others.
const ERROR_CLASSES: [&str; 13] =
    ["08", "0A", "22", "23", "25", "28", "40", "42", "53", "57", "58", "XX", "other"];

/// Counts since the start. All are monotonic, but the open connections.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections that may be open.
    connections_max: u64,
    connections: AtomicU64,
    refused: AtomicU64,
    forwarded: AtomicU64,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    statements: [AtomicU64; KINDS.len()],
    /// Latencies by kind and result; made when the first statement ends so.
    latency: [[OnceLock<Histogram>; RESULTS.len()]; KINDS.len()],
    errors: [AtomicU64; ERROR_CLASSES.len()],
}

/// An open connection. Dropping it uncounts it.
#[derive(Debug)]
pub(crate) struct Open<'a>(&'a Counts);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    /// Returns the counts of doors that have so many places together.
    pub(crate) fn of(connections_max: usize) -> Self {
        Self { connections_max: connections_max as u64, ..Self::default() }
    }

    pub(crate) fn open(&self) -> Open<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Open(self)
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn forward(&self) {
        self.forwarded.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn commit(&self) {
        self.committed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn roll_back(&self) {
        self.rolled_back.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a statement that ended well.
    pub(crate) fn statement(&self, kind: Kind) {
        self.statements[kind.0].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the time of a statement, or of a part of it that was fetched, by the label of its kind and
    /// the error that it ended with. Of a label that is not known it counts as `other`.
    pub fn took(&self, kind: &str, error: Option<SqlState>, time: Duration) {
        let latency = &self.latency[Kind::named(kind).0][result_of(error)];
        latency.get_or_init(Histogram::of_durations).record_time(time);
    }

    /// Counts an error that a client was told of.
    pub(crate) fn error(&self, state: SqlState) {
        let state = state.to_string();
        let known = ERROR_CLASSES.iter().position(|class| state.starts_with(class));
        self.errors[known.unwrap_or(ERROR_CLASSES.len() - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that may be open.
    pub fn connections_max(&self) -> u64 {
        self.connections_max
    }

    /// Returns the number of connections that found no place.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that were handed to another node.
    pub fn forwarded(&self) -> u64 {
        self.forwarded.load(Ordering::Relaxed)
    }

    /// Returns the numbers of transactions that were committed and rolled back.
    pub fn transactions(&self) -> (u64, u64) {
        (self.committed.load(Ordering::Relaxed), self.rolled_back.load(Ordering::Relaxed))
    }

    /// Returns the number of statements of each kind.
    pub fn statements(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.statements.iter().map(|count| count.load(Ordering::Relaxed));
        KINDS.into_iter().zip(counts)
    }

    /// Returns the latencies of each kind and result that statements had, in microseconds.
    pub fn latency(&self) -> impl Iterator<Item = (&'static str, &'static str, Buckets)> {
        KINDS.into_iter().zip(&self.latency).flat_map(|(kind, results)| {
            let read = move |(result, histogram): (_, &OnceLock<Histogram>)| {
                Some((kind, result, histogram.get()?.read()))
            };
            RESULTS.into_iter().zip(results).filter_map(read)
        })
    }

    /// Returns the number of errors of each class.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.errors.iter().map(|count| count.load(Ordering::Relaxed));
        ERROR_CLASSES.into_iter().zip(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_class_and_wrong_passwords_by_theirs() {
        let counts = Counts::default();
        for state in
            [SqlState::INVALID_PASSWORD, SqlState::DEADLOCK_DETECTED, SqlState::RESERVED_NAME]
        {
            counts.error(state);
        }
        counts.error(SqlState::INVALID_GRANTOR);
        counts.error(SqlState::IO_ERROR);
        let found: Vec<_> = counts.errors().filter(|(_, count)| *count > 0).collect();
        assert_eq!(found, [("28", 1), ("40", 1), ("42", 1), ("58", 1), ("other", 1)]);
    }

    #[test]
    fn latencies_tell_errors_of_clients_from_those_of_the_server() {
        let counts = Counts::of(7);
        let ends = [None, Some(SqlState::UNIQUE_VIOLATION), Some(SqlState::INTERNAL_ERROR)];
        for (times, end) in ends.into_iter().enumerate() {
            for _ in 0..=times {
                counts.took("insert", end, Duration::from_micros(1));
            }
        }
        let found = counts.latency().map(|(kind, result, latency)| (kind, result, latency.count()));
        let want =
            [("insert", "ok", 1), ("insert", "client_error", 2), ("insert", "server_error", 3)];
        assert_eq!(found.collect::<Vec<_>>(), want);
        assert_eq!(counts.connections_max(), 7);
    }
}
