//! Committed batches as changes of rows.

use super::super::Table;
use crate::change_token::{ChangeToken, TokenPart};
use crate::changes::RowChange;
use crate::mutate::{RowMutation, WriteTime};
use crate::schema::AddInput;
use bytes::Bytes;
use engine::{AnyOperand, Change, ChangeBatch, ChangePosition, FamilyId, Scope, SequenceNumber};

/// Returns the changes of rows in `batch` that the parts of `token` were not told yet, one for each
/// run of mutations of one row, and moves the token behind them.
pub(super) fn row_changes(
    table: &Table,
    batch: &ChangeBatch,
    token: &mut ChangeToken,
) -> Vec<RowChange> {
    let mut changes: Vec<RowChange> = Vec::new();
    let mut open: Option<OpenRow<'_>> = None;
    for (sequence, change) in batch.changes() {
        let (Change::Put { row, .. } | Change::Merge { row, .. } | Change::Delete { row, .. }) =
            change
        else {
            continue;
        };
        if !is_wanted(&token.parts, row, sequence, batch.commit_micros()) {
            continue;
        }
        if open.as_ref().is_some_and(|open| open.row != row) {
            changes.extend(open.take().and_then(|open| open.close(batch, token)));
        }
        let open = open.get_or_insert_with(|| OpenRow { row, mutations: Vec::new(), sequence });
        open.sequence = sequence;
        push(&mut open.mutations, table, &change);
    }
    changes.extend(open.and_then(|open| open.close(batch, token)));
    changes
}

/// A row whose mutations are being gathered.
struct OpenRow<'a> {
    row: &'a [u8],
    mutations: Vec<RowMutation>,
    /// Sequence number of the last mutation.
    sequence: SequenceNumber,
}

impl OpenRow<'_> {
    /// Returns the change of the row, if families of its mutations are left.
    fn close(self, batch: &ChangeBatch, token: &mut ChangeToken) -> Option<RowChange> {
        let micros = batch.commit_micros();
        token.advance(ChangePosition { sequence: self.sequence, micros });
        (!self.mutations.is_empty()).then(|| RowChange {
            row: Bytes::copy_from_slice(self.row),
            commit_micros: i64::try_from(micros).unwrap_or(i64::MAX),
            // Grows within a commit time; there are fewer mutations of one than numbers here.
            tiebreaker: (self.sequence.0 & 0x7fff_ffff) as i32,
            mutations: self.mutations,
            token: token.encode(),
        })
    }
}

/// Returns whether a mutation of `row` was not told yet.
fn is_wanted(parts: &[TokenPart], row: &[u8], sequence: SequenceNumber, micros: u64) -> bool {
    let part = parts.iter().find(|part| part.rows.contains(row));
    part.is_some_and(|part| match part.position.sequence {
        SequenceNumber(0) => micros >= part.position.micros,
        told => sequence > told,
    })
}

/// Adds a mutation as a client would have sent it.
fn push(mutations: &mut Vec<RowMutation>, table: &Table, change: &Change<'_>) {
    let name = |id: FamilyId| -> Option<String> {
        let family = table.families.get(usize::from(id.0))?.as_ref()?;
        Some(family.name.to_string())
    };
    match change {
        Change::Put { column, timestamp, value, .. } => {
            let Some(family) = name(column.family) else { return };
            mutations.push(RowMutation::SetCell {
                family,
                qualifier: Bytes::copy_from_slice(column.qualifier),
                timestamp: WriteTime::At(*timestamp),
                value: Bytes::copy_from_slice(value),
            });
        }
        Change::Merge { column, timestamp, operand, .. } => {
            let Some(family) = name(column.family) else { return };
            let qualifier = Bytes::copy_from_slice(column.qualifier);
            let timestamp = WriteTime::At(*timestamp);
            mutations.push(match operand {
                AnyOperand::Int64(operand) => {
                    let input = AddInput::Int64(operand.value);
                    RowMutation::AddToCell { family, qualifier, timestamp, input }
                }
                AnyOperand::Unique(sketch) => {
                    let state = sketch.encode().into();
                    RowMutation::MergeToCell { family, qualifier, timestamp, state }
                }
            });
        }
        Change::Delete { column, range, .. } => match column.scope {
            Scope::Row => {
                let families = table.schema.families.keys();
                mutations
                    .extend(families.map(|family| RowMutation::DeleteFromFamily {
                        family: family.to_string(),
                    }));
            }
            Scope::Family => {
                let deleted = |family| RowMutation::DeleteFromFamily { family };
                mutations.extend(name(column.family).map(deleted));
            }
            Scope::Column => {
                let Some(family) = name(column.family) else { return };
                let qualifier = Bytes::copy_from_slice(column.qualifier);
                mutations.push(RowMutation::DeleteFromColumn { family, qualifier, range: *range });
            }
        },
        Change::DropRows { .. } => {}
    }
}
