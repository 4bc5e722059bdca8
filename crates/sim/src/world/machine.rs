//! The state machine of a replica: registers, one a row. What it has on disk lags behind.

use super::history::Value;
use bytes::Bytes;
use cluster::group::{Entry, EntryId};
use std::collections::{BTreeMap, VecDeque};

/// The value of each row.
pub(super) type Rows = BTreeMap<u16, Value>;

/// State on disk: all that the entries up to one did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Flushed {
    /// The last entry that is in it.
    pub(super) id: EntryId,
    /// The value of each row.
    pub(super) rows: Rows,
}

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Machine {
    /// The state after the entries applied.
    pub(super) now: Flushed,
    /// Entries that wait to be applied.
    pub(super) todo: VecDeque<Entry>,
    /// A thread is about to apply the next entries.
    pub(super) applies: bool,
    /// A flush on its way to the disk.
    pub(super) flush: Option<Flushed>,
    /// Index of the last flush.
    pub(super) flushed: u64,
    /// Number of the copy that the machine began with; 0 for the process's first.
    pub(super) generation: u64,
}

impl Machine {
    /// Returns a state machine that begins with what is on disk.
    pub(super) fn open(flushed: Flushed, generation: u64) -> Self {
        Self { flushed: flushed.id.index, now: flushed, generation, ..Self::default() }
    }

    /// Applies the next entries, as many as `count`, and returns the index of the last one.
    pub(super) fn apply(&mut self, count: usize) -> Result<u64, String> {
        for entry in self.todo.drain(..count.min(self.todo.len())) {
            if entry.id.index != self.now.id.index + 1 {
                return Err(format!("{:?} is applied after {:?}", entry.id, self.now.id));
            }
            self.now.id = entry.id;
            if let Some((row, value)) = decode(&entry.command) {
                self.now.rows.insert(row, value);
            }
        }
        Ok(self.now.id.index)
    }
}

/// Encodes a command that puts `value` into `row`, with some ballast.
pub(super) fn encode(row: u16, value: Value, ballast: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(10 + ballast);
    bytes.extend(row.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes.resize(10 + ballast, 0);
    bytes.into()
}

fn decode(command: &Bytes) -> Option<(u16, Value)> {
    let (row, rest) = command.split_first_chunk()?;
    let (value, _) = rest.split_first_chunk()?;
    Some((u16::from_le_bytes(*row), u64::from_le_bytes(*value)))
}
