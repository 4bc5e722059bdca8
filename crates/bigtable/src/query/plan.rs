//! From a query with its parameters to a read of the store and what is made of its rows.
//!
//! A query gives a row for each row of the table, also for one without the columns that it names.
//! So all columns are read, unless the condition needs one of the named columns to be there.
//!
//! Invariants:
//! 1. The read yields at most one cell of a column, its newest.
//! 2. The read leaves out only rows for which the condition does not hold.

use super::ranges::{Keys, keys};
use super::sql::analyze::{Query, Scope};
use super::sql::expr::{Expr, Part, Row, Slot};
use super::sql::functions::Function;
use super::sql::types::{SqlType, Value};
use super::sql::{Result, invalid};
use super::tokens::Progress;
use bytes::Bytes;
use engine::RowRange;
use std::collections::BTreeMap;
use std::ops::Bound;
use table::filter::ColumnRange;
use table::row_set::intersect;
use table::{Direction, KeyRange, ReadRows, RowFilter, RowSet};

/// Most ranges of columns of a row filter.
const RANGES_MAX: usize = 16;

/// A query that can be run.
#[derive(Debug)]
pub(super) struct Plan {
    /// The columns of the result.
    pub(super) columns: Vec<Expr>,
    /// The condition, if the ranges of keys do not say it all.
    pub(super) filter: Option<Expr>,
    /// Families of which cells are wanted.
    pub(super) families: BTreeMap<String, Wanted>,
    /// The slots of a row without cells.
    pub(super) empty: Vec<Value>,
    /// Rows that fulfil the condition and are not sent, because they come first.
    pub(super) offset: u64,
    /// Rows that fulfil the condition, after which there is no other.
    pub(super) last: u64,
    pub(super) direction: Direction,
    pub(super) ranges: Vec<RowRange>,
    pub(super) cells: RowFilter,
}

/// Places for the cells of a family.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The type of its values.
    pub(super) of: SqlType,
    /// The slot that takes all cells as a map.
    pub(super) whole: Option<usize>,
    /// Slots of columns, by qualifier.
    pub(super) columns: BTreeMap<Bytes, WantedColumn>,
}

/// Places for the cell of a column.
#[derive(Debug, Default)]
pub(super) struct WantedColumn {
    /// The slot that takes its value.
    pub(super) value: Option<usize>,
    /// The slot that tells whether there is a cell.
    pub(super) presence: Option<usize>,
}

impl Plan {
    /// Plans the execution of a query.
    pub(super) fn new(
        query: &Query,
        scope: &Scope,
        parameters: &BTreeMap<String, Value>,
    ) -> Result<Self> {
        let mut slots = Vec::new();
        let mut bind = |expr: &Expr| expr.bind(parameters, &mut slots);
        let columns = query.columns.iter().map(|column| bind(&column.expr));
        let columns = columns.collect::<Result<_>>()?;
        let filter = query.filter.as_ref().map(&mut bind).transpose()?;
        let limit = query.limit.as_ref().map(&mut bind).transpose()?;
        let offset = query.offset.as_ref().map(&mut bind).transpose()?;
        let offset = offset.map_or(Ok(0), |offset| count("OFFSET", &offset))?;
        let limit = limit.map_or(Ok(u64::MAX), |limit| count("LIMIT", &limit))?;
        let all = Keys { ranges: vec![RowRange::ALL], exact: true };
        let Keys { ranges, exact } = filter.as_ref().map_or(all, keys);
        let only = filter.as_ref().is_some_and(|filter| needs_a_column(filter, &slots));
        let families = wanted(&slots, scope);
        Ok(Self {
            columns,
            filter: filter.filter(|_| !exact),
            empty: slots.iter().map(no_cells).collect(),
            offset,
            last: offset.saturating_add(limit),
            direction: if query.reverse { Direction::Reverse } else { Direction::Forward },
            ranges,
            cells: cells(&families, only),
            families,
        })
    }

    /// Returns the read of all rows that are still to come; `None` if no row can come.
    pub(super) fn read(&self, progress: &Progress) -> Option<ReadRows> {
        let left = self.last.checked_sub(progress.matched).filter(|left| *left > 0)?;
        let after = &progress.after;
        let rest = match self.direction {
            _ if after.is_empty() => RowRange::ALL,
            Direction::Forward => RowRange { start: [after, &[0][..]].concat(), end: None },
            Direction::Reverse => RowRange { start: Vec::new(), end: Some(after.to_vec()) },
        };
        let ranges = intersect(&self.ranges, &[rest]);
        if ranges.is_empty() {
            return None;
        }
        let range = |range: RowRange| KeyRange {
            start: Bound::Included(range.start.into()),
            end: range.end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.into())),
        };
        // A condition that is left chooses among rows that the store would count.
        let counts = self.filter.is_none() && left < u64::MAX;
        Some(ReadRows {
            rows: RowSet { keys: Vec::new(), ranges: ranges.into_iter().map(range).collect() },
            filter: Some(self.cells.clone()),
            rows_limit: if counts { left } else { 0 },
            direction: self.direction,
        })
    }
}

/// Returns the number that follows LIMIT or OFFSET.
fn count(clause: &str, expr: &Expr) -> Result<u64> {
    match &*expr.eval(&Row::default())? {
        Value::Int64(count) if *count >= 0 => Ok(count.unsigned_abs()),
        _ => invalid(format!("{clause} must not be negative or NULL")),
    }
}

fn no_cells(slot: &Slot) -> Value {
    match slot.part {
        Part::Value(_) | Part::Presence(_) => Value::Null,
        Part::Whole => Value::Array(Vec::new()),
    }
}

fn wanted(slots: &[Slot], scope: &Scope) -> BTreeMap<String, Wanted> {
    let mut families: BTreeMap<String, Wanted> = BTreeMap::new();
    for (at, slot) in slots.iter().enumerate() {
        let (name, of) = &scope.families[slot.family];
        let of = if let SqlType::Map(_, value) = of { (**value).clone() } else { SqlType::Bytes };
        let none = || Wanted { of, whole: None, columns: BTreeMap::new() };
        let wanted = families.entry(name.clone()).or_insert_with(none);
        let columns = &mut wanted.columns;
        match &slot.part {
            Part::Whole => wanted.whole = Some(at),
            Part::Value(of) => columns.entry(of.clone()).or_default().value = Some(at),
            Part::Presence(of) => columns.entry(of.clone()).or_default().presence = Some(at),
        }
    }
    families
}

/// Returns the row filter: the newest cell of each wanted column if rows may be left out that have
/// `only` others, else of each column.
fn cells(families: &BTreeMap<String, Wanted>, only: bool) -> RowFilter {
    let newest = RowFilter::CellsPerColumnLimit(1);
    if families.is_empty() {
        return RowFilter::Chain(vec![RowFilter::CellsPerRowLimit(1), RowFilter::StripValue]);
    }
    if !only {
        return newest;
    }
    let mut ranges = Vec::new();
    for (family, wanted) in families {
        let range =
            |start, end| RowFilter::ColumnRange(ColumnRange { family: family.clone(), start, end });
        if wanted.whole.is_some() {
            ranges.push(range(Bound::Unbounded, Bound::Unbounded));
            continue;
        }
        for qualifier in wanted.columns.keys() {
            let bound = || Bound::Included(qualifier.clone());
            ranges.push(range(bound(), bound()));
        }
    }
    match <[RowFilter; 1]>::try_from(ranges) {
        Ok([range]) => RowFilter::Chain(vec![range, newest]),
        // Each copy of a cell passes all ranges, so that many cost more than they leave out.
        Err(ranges) if ranges.len() > RANGES_MAX => newest,
        Err(ranges) => RowFilter::Chain(vec![RowFilter::Interleave(ranges), newest]),
    }
}

/// Returns whether a condition can hold only for a row in which one of the columns is there.
fn needs_a_column(condition: &Expr, slots: &[Slot]) -> bool {
    let needs = |expr: &Expr| needs_a_column(expr, slots);
    let is_null_without = |expr: &Expr| is_null_without_columns(expr, slots);
    match condition {
        Expr::And(parts) => parts.iter().any(needs),
        Expr::Or(parts) => parts.iter().all(needs),
        Expr::Not(inner) => match &**inner {
            Expr::IsNull(of) => is_null_without(of),
            inner => is_null_without(inner),
        },
        Expr::Is(of, true) => needs(of),
        Expr::InArray(sides) => is_null_without(&sides[0]),
        other => is_null_without(other),
    }
}

/// Returns whether an expression is NULL when a column that it reads is not there.
fn is_null_without_columns(expr: &Expr, slots: &[Slot]) -> bool {
    let is_null = |expr: &Expr| is_null_without_columns(expr, slots);
    match expr {
        Expr::Slot(slot) => slots[*slot].part != Part::Whole,
        Expr::Cast(cast) => is_null(&cast.expr),
        Expr::Call(Function::Coalesce, args) => args.iter().all(is_null),
        Expr::Call(_, args) => args.iter().any(is_null),
        Expr::Compare(_, sides) | Expr::Like(sides) => sides.iter().any(is_null),
        Expr::Between(parts) => is_null(&parts[0]),
        Expr::In(value, _) => is_null(value),
        Expr::InSet(value, set) => !set.is_empty() && is_null(value),
        _ => false,
    }
}
