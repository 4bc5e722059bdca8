//! The key of the entry met last, kept to hold the next one against it.

use crate::cell::{Column, EntryKey, FamilyId, Kind, Scope, SequenceNumber, Timestamp};

/// A copy of an entry's key that is overwritten again and again.
#[derive(Debug)]
pub(crate) struct LastKey {
    family: FamilyId,
    scope: Scope,
    qualifier: Vec<u8>,
    timestamp: Timestamp,
    sequence: SequenceNumber,
    kind: Kind,
}

impl LastKey {
    /// A copy of `key`.
    pub(crate) fn of(key: &EntryKey<'_>) -> Self {
        Self {
            family: key.column.family,
            scope: key.column.scope,
            qualifier: key.column.qualifier.to_vec(),
            timestamp: key.timestamp,
            sequence: key.sequence,
            kind: key.kind,
        }
    }

    pub(crate) fn get(&self) -> EntryKey<'_> {
        EntryKey {
            column: Column { family: self.family, scope: self.scope, qualifier: &self.qualifier },
            timestamp: self.timestamp,
            sequence: self.sequence,
            kind: self.kind,
        }
    }
}
