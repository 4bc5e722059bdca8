//! Questions and answers of clients: one history for each row.
//!
//! 1. Each written value is written once. So a value names the operation that wrote it, and an
//!    operation of unknown outcome took effect exactly if another saw its value.
//! 2. The time of an answer is when the client had it; of a request, when the client sent it.

use super::linear::{Action, Operation};
use cluster::group::GroupId;
use std::collections::{BTreeMap, BTreeSet};

/// A row of a group.
pub(super) type Row = (GroupId, u16);

/// A value; 0 is that of a row never written.
pub(super) type Value = u64;

/// The wish of a client for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// To know the value there.
    Read,
    /// To put this value there.
    Write(Value),
    /// To put this one, and to know the one before.
    Swap(Value),
}

/// The fate of an operation, as far as the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Done { at: u64 },
    Refused,
}

#[derive(Debug, Clone)]
struct Recorded {
    row: Row,
    kind: Kind,
    from: u64,
    outcome: Outcome,
    /// The value that was read, by the client or for a swap by the server.
    seen: Option<Value>,
}

/// The operations of all clients, by number.
#[derive(Debug, Default)]
pub(super) struct History {
    operations: Vec<Recorded>,
    asked: BTreeMap<GroupId, u64>,
}

impl History {
    /// Notes that a client asks, and returns the number of the operation.
    pub(super) fn ask(&mut self, row: Row, kind: Kind, now: u64) -> usize {
        let outcome = Outcome::Unknown;
        *self.asked.entry(row.0).or_default() += 1;
        self.operations.push(Recorded { row, kind, from: now, outcome, seen: None });
        self.operations.len() - 1
    }

    /// Notes that a server has read `value` for an operation, and acts on it.
    pub(super) fn see(&mut self, operation: usize, value: Value) {
        self.operations[operation].seen = Some(value);
    }

    /// Notes that the client was told of its operation's end.
    pub(super) fn done(&mut self, operation: usize, now: u64) {
        self.operations[operation].outcome = Outcome::Done { at: now };
    }

    /// Notes that the operation certainly had no effect.
    pub(super) fn refused(&mut self, operation: usize) {
        self.operations[operation].outcome = Outcome::Refused;
    }

    /// Returns the number of operations that came to their end.
    pub(super) fn answered(&self) -> usize {
        let done = |recorded: &&Recorded| matches!(recorded.outcome, Outcome::Done { .. });
        self.operations.iter().filter(done).count()
    }

    /// Returns the number of operations that were asked of a group.
    pub(super) fn asked(&self, group: GroupId) -> u64 {
        self.asked.get(&group).copied().unwrap_or_default()
    }

    /// Returns the rows of a group that anything was asked of.
    pub(super) fn rows_of(&self, group: GroupId) -> BTreeSet<u16> {
        let rows = self.operations.iter().map(|recorded| recorded.row);
        rows.filter(|row| row.0 == group).map(|row| row.1).collect()
    }

    /// Returns the operations of each row, for the check.
    pub(super) fn rows(&self) -> BTreeMap<Row, Vec<Operation>> {
        let mut rows: BTreeMap<Row, Vec<Operation>> = BTreeMap::new();
        for recorded in &self.operations {
            rows.entry(recorded.row).or_default().extend(recorded.operation());
        }
        rows
    }
}

impl Recorded {
    /// Returns the operation as the check takes it. One that certainly had no effect is left out, so a
    /// value that it would have written is from nowhere.
    fn operation(&self) -> Option<Operation> {
        let to = match self.outcome {
            Outcome::Done { at } => Some(at),
            Outcome::Unknown if self.kind != Kind::Read => None,
            Outcome::Unknown | Outcome::Refused => return None,
        };
        let action = match self.kind {
            Kind::Read => Action::Read(self.seen?),
            Kind::Write(value) => Action::Write(value),
            // One that has read nothing has proposed nothing.
            Kind::Swap(value) => Action::Swap { old: self.seen?, new: value },
        };
        Some(Operation { action, from: self.from, to })
    }
}
