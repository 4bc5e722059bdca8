//! `google.bigtable.v2.RowFilter` to the table layer's filter. The rules of each kind of filter
//! are checked where it is compiled; here are size and nesting, checked before they could hurt,
//! and what the message can say and the tree cannot.

use crate::api::data;
use crate::api::data::row_filter::Filter as Wire;
use crate::api::data::{column_range, value_range};
use prost::Message;
use std::ops::Bound;
use table::filter::{ColumnRange, Condition, ValueRange};
use table::limits::{FILTER_BYTES_MAX, FILTER_DEPTH_MAX, check_len};
use table::{Error, Result, RowFilter, Timestamp, TimestampRange};

/// The filter in `field`. An empty message filters nothing.
pub(crate) fn optional(
    field: &'static str,
    wire: Option<data::RowFilter>,
) -> Result<Option<RowFilter>> {
    let Some(wire) = wire.filter(|wire| wire.filter.is_some()) else { return Ok(None) };
    // Decoding bounds the nesting, so that this walk and the drop of `wire` are safe.
    check_len(field, wire.encoded_len(), FILTER_BYTES_MAX)?;
    nested(wire, FILTER_DEPTH_MAX).map(Some).map_err(|error| error.within(field))
}

/// A range of timestamps; 0 stands for no bound at either end.
pub(crate) fn timestamp_range(wire: data::TimestampRange) -> TimestampRange {
    let bound = |micros: i64| (micros != 0).then_some(Timestamp(micros));
    TimestampRange {
        start: bound(wire.start_timestamp_micros).unwrap_or(Timestamp::MIN),
        end: bound(wire.end_timestamp_micros),
    }
}

/// Converts a filter that may nest at most `depth` deep.
fn nested(wire: data::RowFilter, depth: usize) -> Result<RowFilter> {
    let Some(below) = depth.checked_sub(1) else {
        let message = format!("is nested more than {FILTER_DEPTH_MAX} deep");
        return Err(Error::invalid("", message));
    };
    let wire = wire.filter.ok_or_else(|| Error::invalid("", "a nested filter is not set"))?;
    Ok(match wire {
        Wire::Chain(chain) => RowFilter::Chain(list("chain", chain.filters, below)?),
        Wire::Interleave(interleave) => {
            RowFilter::Interleave(list("interleave", interleave.filters, below)?)
        }
        Wire::Condition(condition) => RowFilter::Condition(condition_of(*condition, below)?),
        Wire::Sink(on) => only_true("sink", on, RowFilter::Sink)?,
        Wire::PassAllFilter(on) => only_true("pass_all_filter", on, RowFilter::PassAll)?,
        Wire::BlockAllFilter(on) => only_true("block_all_filter", on, RowFilter::BlockAll)?,
        Wire::RowKeyRegexFilter(pattern) => RowFilter::RowKeyRegex(pattern),
        Wire::RowSampleFilter(share) => RowFilter::RowSample(share),
        Wire::FamilyNameRegexFilter(pattern) => RowFilter::FamilyNameRegex(pattern),
        Wire::ColumnQualifierRegexFilter(pattern) => RowFilter::ColumnQualifierRegex(pattern),
        Wire::ColumnRangeFilter(range) => RowFilter::ColumnRange(column_range(range)),
        Wire::TimestampRangeFilter(range) => RowFilter::TimestampRange(timestamp_range(range)),
        Wire::ValueRegexFilter(pattern) => RowFilter::ValueRegex(pattern),
        Wire::ValueRangeFilter(range) => RowFilter::ValueRange(value_range(range)),
        Wire::CellsPerRowOffsetFilter(count) => RowFilter::CellsPerRowOffset(count),
        Wire::CellsPerRowLimitFilter(count) => RowFilter::CellsPerRowLimit(count),
        Wire::CellsPerColumnLimitFilter(count) => RowFilter::CellsPerColumnLimit(count),
        Wire::StripValueTransformer(on) => {
            only_true("strip_value_transformer", on, RowFilter::StripValue)?
        }
        Wire::ApplyLabelTransformer(label) => RowFilter::ApplyLabel(label),
    })
}

fn list(field: &str, wire: Vec<data::RowFilter>, depth: usize) -> Result<Vec<RowFilter>> {
    let at = |i| format!("{field}.filters[{i}]");
    wire.into_iter()
        .enumerate()
        .map(|(i, wire)| nested(wire, depth).map_err(|error| error.within(&at(i))))
        .collect()
}

fn condition_of(wire: data::row_filter::Condition, depth: usize) -> Result<Box<Condition>> {
    let predicate =
        wire.predicate_filter.ok_or_else(|| Error::invalid("condition", "has no predicate"))?;
    let branch =
        |wire: Option<Box<data::RowFilter>>| wire.map(|wire| nested(*wire, depth)).transpose();
    let in_condition = |error: Error| error.within("condition");
    Ok(Box::new(Condition {
        predicate: nested(*predicate, depth).map_err(in_condition)?,
        on_true: branch(wire.true_filter).map_err(in_condition)?,
        on_false: branch(wire.false_filter).map_err(in_condition)?,
    }))
}

/// A field that has no meaning but `true`.
fn only_true(field: &'static str, on: bool, filter: RowFilter) -> Result<RowFilter> {
    if on { Ok(filter) } else { Err(Error::invalid(field, "must be true")) }
}

fn column_range(wire: data::ColumnRange) -> ColumnRange {
    use column_range::{EndQualifier, StartQualifier};
    ColumnRange {
        family: wire.family_name,
        start: match wire.start_qualifier {
            Some(StartQualifier::StartQualifierClosed(qualifier)) => Bound::Included(qualifier),
            Some(StartQualifier::StartQualifierOpen(qualifier)) => Bound::Excluded(qualifier),
            None => Bound::Unbounded,
        },
        end: match wire.end_qualifier {
            Some(EndQualifier::EndQualifierClosed(qualifier)) => Bound::Included(qualifier),
            Some(EndQualifier::EndQualifierOpen(qualifier)) => Bound::Excluded(qualifier),
            None => Bound::Unbounded,
        },
    }
}

fn value_range(wire: data::ValueRange) -> ValueRange {
    use value_range::{EndValue, StartValue};
    ValueRange {
        start: match wire.start_value {
            Some(StartValue::StartValueClosed(value)) => Bound::Included(value),
            Some(StartValue::StartValueOpen(value)) => Bound::Excluded(value),
            None => Bound::Unbounded,
        },
        end: match wire.end_value {
            Some(EndValue::EndValueClosed(value)) => Bound::Included(value),
            Some(EndValue::EndValueOpen(value)) => Bound::Excluded(value),
            None => Bound::Unbounded,
        },
    }
}
