//! Sequences that begin again in a transaction which has not committed.
//!
//! 1. The transaction draws from the new beginning at once, and all others go on where they are.
//! 2. The commit writes the new state with everything else. No number is given between that write and its
//!    outcome, so no other state is written over it.
//! 3. A rollback forgets the new beginning, also one to a savepoint before it.

use super::sequences::StateRecord;
use crate::catalog::Sequence;
use crate::error::Result;
use crate::types::Oid;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sequences that a transaction restarted. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Restarts {
    /// In the order in which they were asked for. The last one of a sequence counts.
    states: Arc<Mutex<Vec<(Oid, StateRecord)>>>,
}

impl Restarts {
    /// Has a sequence begin again at a number.
    pub(crate) fn add(&self, sequence: Oid, first: i64) {
        self.states.lock().push((sequence, StateRecord::starting_at(first)));
    }

    /// Returns how many there are, for [`Self::truncate`].
    pub(crate) fn len(&self) -> usize {
        self.states.lock().len()
    }

    /// Forgets all but the first `count`.
    pub(crate) fn truncate(&self, count: usize) {
        self.states.lock().truncate(count);
    }

    /// Returns the states that the commit writes, by the numbers of their sequences.
    pub(crate) fn take(&self) -> BTreeMap<Oid, StateRecord> {
        std::mem::take(&mut *self.states.lock()).into_iter().collect()
    }

    /// Returns the next number of a sequence that was restarted, 2200H at its end; nothing for other sequences.
    pub fn next(&self, sequence: &Sequence) -> Result<Option<i64>> {
        let mut states = self.states.lock();
        let of_sequence = |(oid, _): &&mut (Oid, StateRecord)| *oid == sequence.oid;
        let Some((_, state)) = states.iter_mut().rev().find(of_sequence) else { return Ok(None) };
        let next = state.next(sequence)?;
        *state = StateRecord { last: next, is_called: true };
        Ok(Some(next))
    }

    /// Sets the last number of a sequence that was restarted, as [`super::Database::set_value`] does. Returns false
    /// for other sequences.
    pub fn set(&self, sequence: &Sequence, last: i64, is_called: bool) -> Result<bool> {
        let mut states = self.states.lock();
        let of_sequence = |(oid, _): &&mut (Oid, StateRecord)| *oid == sequence.oid;
        let Some((_, state)) = states.iter_mut().rev().find(of_sequence) else { return Ok(false) };
        *state = StateRecord::set_to(sequence, last, is_called)?;
        Ok(true)
    }
}
