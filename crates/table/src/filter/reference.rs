//! Filters as the documentation words them: list in, list out, nothing clever. The evaluator is
//! tested against this. Patterns must mean the same to RE2 and to crate `regex`.

use super::{Condition, RowFilter};
use bytes::Bytes;
use regex::bytes::RegexBuilder;
use std::ops::{Bound, RangeBounds};

/// A cell on its way through a filter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RefCell {
    /// Position of the cell in its row: what output is ordered by.
    pub(crate) at: usize,
    pub(crate) family: String,
    pub(crate) qualifier: Bytes,
    pub(crate) timestamp: i64,
    pub(crate) value: Bytes,
    pub(crate) label: Option<String>,
}

/// Applies `filter` to the row `key`; equal cells come in any order.
pub(crate) fn filter_row(filter: &RowFilter, key: &[u8], cells: Vec<RefCell>) -> Vec<RefCell> {
    let mut sunk = Vec::new();
    let mut out = apply(filter, key, cells, &mut sunk);
    out.append(&mut sunk);
    out.sort();
    out
}

fn full_match(pattern: &[u8], text: &[u8]) -> bool {
    let pattern = std::str::from_utf8(pattern).unwrap().replace("\\C", "(?s-u:.)");
    let whole = format!(r"\A(?:{pattern})\z");
    RegexBuilder::new(&whole).unicode(false).build().unwrap().is_match(text)
}

fn within(bytes: &Bytes, start: &Bound<Bytes>, end: &Bound<Bytes>) -> bool {
    RangeBounds::<Bytes>::contains(&(start.as_ref(), end.as_ref()), bytes)
}

fn apply(
    filter: &RowFilter,
    key: &[u8],
    cells: Vec<RefCell>,
    sunk: &mut Vec<RefCell>,
) -> Vec<RefCell> {
    let keep = |test: &dyn Fn(&RefCell) -> bool| {
        cells.iter().filter(|cell| test(cell)).cloned().collect::<Vec<_>>()
    };
    match filter {
        RowFilter::Chain(filters) => {
            filters.iter().fold(cells, |cells, filter| apply(filter, key, cells, sunk))
        }
        RowFilter::Interleave(filters) => {
            let mut pool: Vec<RefCell> = Vec::new();
            for filter in filters {
                pool.extend(apply(filter, key, cells.clone(), sunk));
            }
            pool.sort_by_key(|cell| cell.at);
            pool
        }
        RowFilter::Condition(condition) => {
            let Condition { predicate, on_true, on_false } = condition.as_ref();
            let holds = !apply(predicate, key, cells.clone(), sunk).is_empty();
            match if holds { on_true } else { on_false } {
                Some(branch) => apply(branch, key, cells, sunk),
                None => Vec::new(),
            }
        }
        RowFilter::Sink => {
            sunk.extend(cells);
            Vec::new()
        }
        RowFilter::Within(part, filter) => {
            let cells =
                keep(&|cell| part.has_row(key) && part.has_column(&cell.family, &cell.qualifier));
            apply(filter, key, cells, sunk)
        }
        RowFilter::PassAll => cells,
        RowFilter::BlockAll => Vec::new(),
        RowFilter::RowKeyRegex(pattern) => keep(&|_| full_match(pattern, key)),
        RowFilter::RowSample(_) => unreachable!("chance is tested apart"),
        RowFilter::FamilyNameRegex(pattern) => {
            keep(&|cell| full_match(pattern.as_bytes(), cell.family.as_bytes()))
        }
        RowFilter::ColumnQualifierRegex(pattern) => {
            keep(&|cell| full_match(pattern, &cell.qualifier))
        }
        RowFilter::ColumnRange(range) => keep(&|cell| {
            cell.family == range.family && within(&cell.qualifier, &range.start, &range.end)
        }),
        RowFilter::TimestampRange(range) => {
            keep(&|cell| range.contains(engine::Timestamp(cell.timestamp)))
        }
        RowFilter::ValueRegex(pattern) => keep(&|cell| full_match(pattern, &cell.value)),
        RowFilter::ValueRange(range) => keep(&|cell| within(&cell.value, &range.start, &range.end)),
        RowFilter::CellsPerRowOffset(count) => cells.into_iter().skip(*count as usize).collect(),
        RowFilter::CellsPerRowLimit(count) => cells.into_iter().take(*count as usize).collect(),
        RowFilter::CellsPerColumnLimit(count) => cells
            .chunk_by(|a, b| (&a.family, &a.qualifier) == (&b.family, &b.qualifier))
            .flat_map(|column| column.iter().take(*count as usize).cloned())
            .collect(),
        RowFilter::StripValue => {
            cells.into_iter().map(|cell| RefCell { value: Bytes::new(), ..cell }).collect()
        }
        RowFilter::ApplyLabel(label) => {
            let label = Some(label.clone());
            cells.into_iter().map(|cell| RefCell { label: label.clone(), ..cell }).collect()
        }
    }
}
