//! States of sequences: numbers are given once, and never taken back.
//!
//! 1. The record of a sequence is at or ahead of every number that was given. Numbers between the record
//!    and the last one that was given are lost with a crash.
//! 2. States follow no transaction: a number is given for good, even if its transaction rolls back. Only a new
//!    beginning belongs to its transaction: see [`super::restarts`].
//! 3. While a record is written the state in memory is forgotten. So a caller that goes away meanwhile leaves
//!    no state that the record does not know: the next one reads the record, or writes a later one.

use super::{Batches, CATALOG_TREE, Database};
use crate::catalog::Sequence;
use crate::catalog::record::sequence_state_row;
use crate::error::{Error, Result};
use crate::state::SqlState;
use crate::types::Oid;
use base::codec::{ByteReader, PutBytes};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// First byte of the record of a state.
const VERSION: u8 = 1;
/// Numbers that one record sets aside.
const AHEAD: u32 = 32;

/// The state of a sequence as its record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StateRecord {
    /// The last number, or the first one to give.
    pub last: i64,
    /// False if `last` is yet to be given.
    pub is_called: bool,
}

/// The state of a sequence in memory; nothing if only its record has it.
pub(crate) type SequenceState = Mutex<Option<Given>>;

/// The numbers that a sequence gave, and the ones that it has set aside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    state: StateRecord,
    /// Numbers behind `state` that the record set aside.
    ahead: u32,
    /// The steps in which they are.
    steps: Steps,
}

/// All of a sequence that tells the number behind another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    increment: i64,
    min: i64,
    max: i64,
    cycle: bool,
}

impl Steps {
    fn of(sequence: &Sequence) -> Self {
        let Sequence { increment, min, max, cycle, .. } = *sequence;
        Self { increment, min, max, cycle }
    }
}

/// Reads the record of a state, and returns if it was one.
pub(crate) fn decode_state(record: &[u8]) -> bool {
    StateRecord::decode(record).is_ok()
}

/// Appends the state of a sequence to a write.
pub(crate) fn put_state(batches: &mut Batches, sequence: Oid, state: StateRecord) {
    batches.put(CATALOG_TREE.0, &sequence_state_row(sequence), &state.encode());
}

/// A sequence that gives no number until this is dropped. Its next caller reads the record.
pub(crate) struct Paused {
    _state: OwnedMutexGuard<Option<Given>>,
}

impl StateRecord {
    /// Returns the state of a sequence that begins at a number.
    pub(crate) fn starting_at(first: i64) -> Self {
        Self { last: first, is_called: false }
    }

    /// Returns a state that `setval` asks for. 22003 outside of the bounds of the sequence.
    pub(crate) fn set_to(sequence: &Sequence, last: i64, is_called: bool) -> Result<Self> {
        let (min, max) = (sequence.min, sequence.max);
        if (min..=max).contains(&last) {
            return Ok(Self { last, is_called });
        }
        let message = format!(
            "setval: value {last} is out of bounds for sequence \"{}\" ({min}..{max})",
            sequence.name
        );
        Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message))
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        let mut record = vec![VERSION, u8::from(self.is_called)];
        record.put_i64(self.last);
        record
    }

    pub(crate) fn decode(record: &[u8]) -> Result<Self> {
        let damaged = |what: &str| Error::corrupted(format!("the state of a sequence: {what}"));
        let mut reader = ByteReader::new(record);
        let mut read = || Ok((reader.u8("version")?, reader.u8("flag")?, reader.i64("number")?));
        let read: Result<_, base::codec::DecodeError> = read();
        let (version, flag, last) = read.map_err(|error| damaged(&error.to_string()))?;
        match (version, flag) {
            (VERSION, 0 | 1) if reader.is_empty() => Ok(Self { last, is_called: flag == 1 }),
            (VERSION, _) => Err(damaged("its bytes break the format")),
            _ => Err(damaged("its version is of a newer Stele")),
        }
    }

    /// Returns the number behind this state. 2200H at the end of the sequence.
    pub(crate) fn next(self, sequence: &Sequence) -> Result<i64> {
        if !self.is_called {
            return Ok(self.last);
        }
        let next = self.last.checked_add(sequence.increment);
        if let Some(next) = next.filter(|next| (sequence.min..=sequence.max).contains(next)) {
            return Ok(next);
        }
        let is_ascending = sequence.increment > 0;
        if sequence.cycle {
            return Ok(if is_ascending { sequence.min } else { sequence.max });
        }
        let (end, value) = match is_ascending {
            true => ("maximum", sequence.max),
            false => ("minimum", sequence.min),
        };
        let message =
            format!("nextval: reached {end} value of sequence \"{}\" ({value})", sequence.name);
        Err(Error::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, message))
    }
}

impl Database {
    fn sequence_state(&self, sequence: Oid) -> Arc<SequenceState> {
        Arc::clone(self.sequences.lock().entry(sequence).or_default())
    }

    /// Returns the next number of a sequence, which no other caller gets. 2200H at its end. The session that
    /// asks keeps it for `currval`.
    pub async fn next_value(&self, sequence: &Sequence) -> Result<i64> {
        let state = self.sequence_state(sequence.oid);
        let mut given = state.lock().await;
        let mut now = self.given(sequence, &given).await?;
        let next = now.state.next(sequence)?;
        now.state = StateRecord { last: next, is_called: true };
        if now.ahead == 0 {
            let mut record = now.state;
            while now.ahead < AHEAD
                && let Ok(last) = record.next(sequence)
            {
                record = StateRecord { last, is_called: true };
                now.ahead += 1;
            }
            self.write_state(sequence.oid, record, &mut given).await?;
        } else {
            now.ahead -= 1;
        }
        *given = Some(now);
        Ok(next)
    }

    /// Returns the next number of a sequence as [`Self::next_value`] does, if it is set aside and no other caller is
    /// in the way; nothing otherwise.
    pub fn next_at_hand(&self, sequence: &Sequence) -> Result<Option<i64>> {
        let state = self.sequence_state(sequence.oid);
        let Ok(mut given) = state.try_lock() else { return Ok(None) };
        let is_aside = |now: &&mut Given| now.ahead > 0 && now.steps == Steps::of(sequence);
        let Some(now) = given.as_mut().filter(is_aside) else { return Ok(None) };
        let next = now.state.next(sequence)?;
        now.state = StateRecord { last: next, is_called: true };
        now.ahead -= 1;
        Ok(Some(next))
    }

    async fn given(&self, sequence: &Sequence, given: &Option<Given>) -> Result<Given> {
        let steps = Steps::of(sequence);
        if let Some(given) = given {
            // Numbers that were set aside in other steps are not.
            let ahead = if given.steps == steps { given.ahead } else { 0 };
            return Ok(Given { ahead, steps, ..*given });
        }
        let row = sequence_state_row(sequence.oid);
        let record = self.catalog_keys.read(None, &row, StateRecord::decode).await?;
        let state = record.unwrap_or_else(|| Ok(StateRecord::starting_at(sequence.start)))?;
        Ok(Given { state, ahead: 0, steps })
    }

    /// Sets nothing aside any more: the record is the last number that was given. For a sequence whose steps
    /// change.
    pub(crate) async fn settle(&self, sequence: &Sequence) -> Result<()> {
        let state = self.sequence_state(sequence.oid);
        let mut given = state.lock().await;
        let now = self.given(sequence, &given).await?;
        self.write_state(sequence.oid, now.state, &mut given).await?;
        *given = Some(Given { ahead: 0, ..now });
        Ok(())
    }

    /// Returns the last number of a sequence, and true if it was given; false if it is the next one.
    pub async fn last_value(&self, sequence: &Sequence) -> Result<(i64, bool)> {
        let state = self.sequence_state(sequence.oid);
        let given = state.lock().await;
        let now = self.given(sequence, &given).await?;
        Ok((now.state.last, now.state.is_called))
    }

    /// Sets the last number of a sequence; the next one follows it if `is_called`, and is that number
    /// otherwise. 22003 outside of the bounds of the sequence. It is not taken back by a rollback.
    pub async fn set_value(&self, sequence: &Sequence, last: i64, is_called: bool) -> Result<()> {
        let record = StateRecord::set_to(sequence, last, is_called)?;
        let state = self.sequence_state(sequence.oid);
        let mut given = state.lock().await;
        self.write_state(sequence.oid, record, &mut given).await?;
        *given = Some(Given { state: record, ahead: 0, steps: Steps::of(sequence) });
        Ok(())
    }

    /// Has a sequence give no number until the answer is dropped.
    pub(crate) async fn pause(&self, sequence: Oid) -> Paused {
        let mut state = self.sequence_state(sequence).lock_owned().await;
        *state = None;
        Paused { _state: state }
    }

    /// Writes a record. The state in memory is forgotten until the caller sets it: the record may be another one
    /// after an error, or if the caller goes away.
    async fn write_state(
        &self,
        sequence: Oid,
        state: StateRecord,
        given: &mut Option<Given>,
    ) -> Result<()> {
        *given = None;
        let mut batches = self.store.batches();
        put_state(&mut batches, sequence, state);
        self.store.write(batches.ready()?, Arc::new(())).await
    }

    /// Forgets the state of a sequence in memory.
    pub(crate) fn forget_sequence(&self, sequence: Oid) {
        self.sequences.lock().remove(&sequence);
    }
}
