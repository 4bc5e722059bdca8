//! Which of the requests that are drawn a table refuses, by what the documentation says of them.

use bytes::Bytes;
use std::ops::Bound;
use table::filter::{ColumnRange, Condition, ValueRange};
use table::*;

/// Most copies of a cell that the interleaves of a filter may make.
const COPIES_MAX: usize = 1_000;
/// Most levels of a GC rule.
const RULE_DEPTH_MAX: usize = 10;

/// Returns whether a read is refused.
pub(crate) fn refuses(request: &ReadRows) -> bool {
    let inverted = |range: &KeyRange| is_inverted(&range.start, &range.end);
    request.rows.ranges.iter().any(inverted) || request.filter.as_ref().is_some_and(refuses_filter)
}

/// Returns whether a request with the filter is refused.
pub(crate) fn refuses_filter(filter: &RowFilter) -> bool {
    is_wrong(filter) || copies(filter) > COPIES_MAX
}

/// Returns whether a GC rule is refused: it is nested too deep.
pub(crate) fn refuses_rule(rule: &GcRule) -> bool {
    depth(rule) > RULE_DEPTH_MAX
}

fn depth(rule: &GcRule) -> usize {
    match rule {
        GcRule::Union(rules) | GcRule::Intersection(rules) => {
            1 + rules.iter().map(depth).max().unwrap_or(0)
        }
        _ => 1,
    }
}

/// Returns whether the filter, or one in it, is none.
fn is_wrong(filter: &RowFilter) -> bool {
    match filter {
        RowFilter::Chain(filters) => {
            filters.iter().filter(|filter| labels(filter)).count() > 1
                || filters.iter().any(is_wrong)
        }
        RowFilter::Interleave(filters) => filters.iter().any(is_wrong),
        RowFilter::Condition(condition) => parts(condition).any(is_wrong),
        RowFilter::RowKeyRegex(pattern) => pattern.is_empty(),
        RowFilter::FamilyNameRegex(pattern) => pattern.is_empty(),
        RowFilter::ColumnRange(ColumnRange { start, end, .. })
        | RowFilter::ValueRange(ValueRange { start, end }) => is_inverted(start, end),
        _ => false,
    }
}

fn is_inverted(start: &Bound<Bytes>, end: &Bound<Bytes>) -> bool {
    match (start, end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (
            Bound::Included(start) | Bound::Excluded(start),
            Bound::Included(end) | Bound::Excluded(end),
        ) => start > end,
    }
}

fn parts(condition: &Condition) -> impl Iterator<Item = &RowFilter> {
    let Condition { predicate, on_true, on_false } = condition;
    std::iter::once(predicate).chain(on_true).chain(on_false)
}

/// Returns whether the filter applies a label.
fn labels(filter: &RowFilter) -> bool {
    match filter {
        RowFilter::ApplyLabel(_) => true,
        RowFilter::Chain(filters) | RowFilter::Interleave(filters) => filters.iter().any(labels),
        RowFilter::Condition(condition) => parts(condition).any(labels),
        _ => false,
    }
}

/// Most copies of a cell that the filter makes.
fn copies(filter: &RowFilter) -> usize {
    match filter {
        RowFilter::Chain(filters) => filters.iter().map(copies).product(),
        RowFilter::Interleave(filters) => filters.iter().map(copies).sum(),
        RowFilter::Condition(condition) => parts(condition).map(copies).max().unwrap_or(1),
        _ => 1,
    }
}
