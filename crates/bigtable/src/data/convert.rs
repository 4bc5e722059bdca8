//! Data messages to the table layer's values, and rows back. What the messages cannot say wrongly
//! by themselves (limits, families, granularity) is checked by the store, in one place for every
//! front; here only what would be lost in translation is refused.

use crate::api::data;
use crate::api::data::mutation::Mutation as Wire;
use crate::api::data::read_modify_write_rule::Rule;
use crate::api::data::row_range::{EndKey, StartKey};
use crate::api::data::value::Kind;
use crate::data::filter;
use crate::wire::mutations::{Mutation, TimestampOrigin};
use bytes::Bytes;
use std::ops::Bound;
use table::mutate::{Modify, WriteTime};
use table::{
    AddInput, Direction, Error, KeyRange, Once, OnceRow, ReadModifyWriteRule, ReadRows, Result,
    Row, RowMutation, RowMutations, RowSet, TimestampRange,
};

/// Converts the request of a `ReadRows` call.
pub(crate) fn read_rows(request: data::ReadRowsRequest) -> Result<ReadRows> {
    let rows_limit = u64::try_from(request.rows_limit)
        .map_err(|_| Error::invalid("rows_limit", "must not be negative"))?;
    Ok(ReadRows {
        rows: row_set(request.rows.unwrap_or_default()),
        filter: filter::optional("filter", request.filter)?,
        rows_limit,
        direction: if request.reversed { Direction::Reverse } else { Direction::Forward },
    })
}

fn row_set(rows: data::RowSet) -> RowSet {
    RowSet { keys: rows.row_keys, ranges: rows.row_ranges.into_iter().map(key_range).collect() }
}

fn key_range(range: data::RowRange) -> KeyRange {
    KeyRange {
        start: match range.start_key {
            Some(StartKey::StartKeyClosed(key)) => Bound::Included(key),
            Some(StartKey::StartKeyOpen(key)) => Bound::Excluded(key),
            None => Bound::Unbounded,
        },
        end: match range.end_key {
            Some(EndKey::EndKeyClosed(key)) => Bound::Included(key),
            Some(EndKey::EndKeyOpen(key)) => Bound::Excluded(key),
            None => Bound::Unbounded,
        },
    }
}

/// The changes of one row. Errors name the field below the message that has `mutations`.
pub(crate) fn row_mutations(row: Bytes, wire: Vec<Mutation>) -> Result<RowMutations> {
    Ok(RowMutations { row, mutations: mutations("mutations", wire)? })
}

/// The changes of one row that may have come before, as `idempotency` tells.
pub(crate) fn once_row(
    row: Bytes,
    wire: Vec<Mutation>,
    idempotency: Option<data::Idempotency>,
) -> Result<OnceRow> {
    let change = row_mutations(row, wire)?;
    let once = idempotency.map(|wire| {
        let start = wire.start_time.filter(|start| *start != prost_types::Timestamp::default());
        let micros = |start: prost_types::Timestamp| {
            start.seconds.saturating_mul(1_000_000).saturating_add(i64::from(start.nanos) / 1_000)
        };
        Once { token: wire.token, start_micros: start.map(micros) }
    });
    Ok(OnceRow { change, once })
}

/// The changes in the repeated field `field`.
pub(crate) fn mutations(field: &str, wire: Vec<Mutation>) -> Result<Vec<RowMutation>> {
    wire.into_iter()
        .enumerate()
        .map(|(i, wire)| mutation(wire).map_err(|error| error.within(&format!("{field}[{i}]"))))
        .collect()
}

fn mutation(wire: Mutation) -> Result<RowMutation> {
    let origin = TimestampOrigin::try_from(wire.timestamp_origin).map_err(|_| {
        let rule = format!("{} is not known to this server", wire.timestamp_origin);
        Error::invalid("timestamp_origin", rule)
    })?;
    let wire = wire.mutation.ok_or_else(|| Error::invalid("mutation", "is not set"))?;
    Ok(match wire {
        Wire::SetCell(set) => RowMutation::SetCell {
            family: set.family_name,
            qualifier: set.column_qualifier,
            timestamp: write_time(set.timestamp_micros, origin),
            value: set.value,
        },
        Wire::AddToCell(add) => RowMutation::AddToCell {
            family: add.family_name,
            qualifier: raw_value("add_to_cell.column_qualifier", add.column_qualifier)?,
            timestamp: raw_timestamp("add_to_cell.timestamp", add.timestamp, origin)?,
            input: match add.input.and_then(|value| value.kind) {
                Some(Kind::IntValue(input)) => AddInput::Int64(input),
                Some(Kind::RawValue(input)) => AddInput::Raw(input),
                Some(Kind::BytesValue(input)) => AddInput::Bytes(input),
                Some(Kind::StringValue(input)) => AddInput::String(input),
                _ => {
                    let rule = "must be an int_value, raw_value, bytes_value or string_value";
                    return Err(Error::invalid("add_to_cell.input", rule));
                }
            },
        },
        Wire::MergeToCell(merge) => RowMutation::MergeToCell {
            family: merge.family_name,
            qualifier: raw_value("merge_to_cell.column_qualifier", merge.column_qualifier)?,
            timestamp: raw_timestamp("merge_to_cell.timestamp", merge.timestamp, origin)?,
            state: raw_value("merge_to_cell.input", merge.input)?,
        },
        Wire::DeleteFromColumn(delete) => RowMutation::DeleteFromColumn {
            family: delete.family_name,
            qualifier: delete.column_qualifier,
            range: delete.time_range.map_or(TimestampRange::ALL, filter::timestamp_range),
        },
        Wire::DeleteFromFamily(delete) => {
            RowMutation::DeleteFromFamily { family: delete.family_name }
        }
        Wire::DeleteFromRow(_) => RowMutation::DeleteFromRow,
    })
}

fn raw_value(field: &'static str, value: Option<data::Value>) -> Result<Bytes> {
    match value.and_then(|value| value.kind) {
        Some(Kind::RawValue(bytes)) => Ok(bytes),
        _ => Err(Error::invalid(field, "must be a raw_value")),
    }
}

/// The time of a cell. One that the client library made up is truncated, as programs did not choose it.
fn write_time(micros: i64, origin: TimestampOrigin) -> WriteTime {
    match WriteTime::from_micros(micros) {
        WriteTime::At(at) if origin == TimestampOrigin::ClientAutoGenerated => {
            WriteTime::Truncated(at)
        }
        time => time,
    }
}

fn raw_timestamp(
    field: &'static str,
    value: Option<data::Value>,
    origin: TimestampOrigin,
) -> Result<WriteTime> {
    match value.and_then(|value| value.kind) {
        Some(Kind::RawTimestampMicros(micros)) => Ok(write_time(micros, origin)),
        _ => Err(Error::invalid(field, "must be a raw_timestamp_micros")),
    }
}

/// The rules of a read-modify-write.
pub(crate) fn rules(wire: Vec<data::ReadModifyWriteRule>) -> Result<Vec<ReadModifyWriteRule>> {
    wire.into_iter()
        .enumerate()
        .map(|(i, wire)| {
            let modify = match wire.rule {
                Some(Rule::AppendValue(bytes)) => Modify::Append(bytes),
                Some(Rule::IncrementAmount(amount)) => Modify::Increment(amount),
                None => return Err(Error::invalid(format!("rules[{i}].rule"), "is not set")),
            };
            let (family, qualifier) = (wire.family_name, wire.column_qualifier);
            Ok(ReadModifyWriteRule { family, qualifier, modify })
        })
        .collect()
}

/// A whole row as a message: consecutive cells of one family, and in it of one column, together.
pub(crate) fn row(row: Row) -> data::Row {
    let mut families: Vec<data::Family> = Vec::new();
    for cell in row.cells {
        if families.last().is_none_or(|family| *family.name != *cell.family) {
            families.push(data::Family { name: cell.family.to_string(), columns: Vec::new() });
        }
        let Some(family) = families.last_mut() else { continue };
        if family.columns.last().is_none_or(|column| column.qualifier != cell.qualifier) {
            family.columns.push(data::Column { qualifier: cell.qualifier, cells: Vec::new() });
        }
        let Some(column) = family.columns.last_mut() else { continue };
        column.cells.push(data::Cell {
            timestamp_micros: cell.timestamp.0,
            value: cell.value,
            labels: cell.label.iter().map(|label| label.to_string()).collect(),
        });
    }
    data::Row { key: row.key, families }
}
