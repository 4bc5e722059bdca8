//! The rows of a segment that may pass the filters of a query, by the bounds of its pages.
//!
//! 1. A row that passes is never left out. Rows that do not pass may be kept: filters are evaluated again.
//! 2. No comparison is true for NULL, so a page without a value has no row that passes one.
//! 3. Numbers compare by their sorted form without the scale at its end: `1.0` equals `1.00`.

use std::ops::Range;

use columnar::{Bound, Comparison, SegmentDescriptor};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use relational::catalog::Column;
use relational::{DataType, Table, Value};

use super::super::arrow::KEY_TAIL;
use super::super::bind::{BoundFunction, Work};
use super::super::tables::constant;

/// Levels of AND and OR that are looked into.
const DEPTH_MAX: usize = 32;
/// Most values of an IN list that is used.
const VALUES_MAX: usize = 1_000;

/// A part of a filter that the bounds of pages can exclude.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::query) enum Zone {
    /// A comparison of a column, by its number, with a value.
    Compare { column: u32, comparison: Comparison, value: Bound },
    /// Parts that are all true for a row that passes.
    All(Vec<Zone>),
    /// Parts of which one at least is true for a row that passes.
    Any(Vec<Zone>),
}

impl Zone {
    /// Returns the part of a filter that bounds of pages can exclude, if it has one.
    pub(in crate::query) fn of(filter: &Expr, table: &Table) -> Option<Self> {
        zone(filter, table, DEPTH_MAX)
    }

    /// Returns the rows of a segment that may pass.
    pub(super) fn kept(&self, segment: &SegmentDescriptor) -> Vec<Range<u32>> {
        match self {
            Self::Compare { column, comparison, value } => {
                // Rows of a segment without the column all have the same value.
                let Some(column) = segment.column(*column) else { return whole(segment.rows) };
                let mut kept = Vec::new();
                for (first, page) in column.pages_with_first_row() {
                    if page.may_match(*comparison, value) {
                        push(&mut kept, first..first.saturating_add(page.rows));
                    }
                }
                kept
            }
            Self::All(parts) => kept(parts, segment),
            Self::Any(parts) => {
                let kept = parts.iter().flat_map(|part| part.kept(segment)).collect();
                joined(kept)
            }
        }
    }
}

/// Returns the rows of a segment that may pass all of some filters.
pub(super) fn kept(zones: &[Zone], segment: &SegmentDescriptor) -> Vec<Range<u32>> {
    let all = whole(segment.rows);
    zones.iter().fold(all, |kept, zone| intersected(&kept, &zone.kept(segment)))
}

/// Returns all rows of a segment.
fn whole(rows: u32) -> Vec<Range<u32>> {
    std::iter::once(0..rows).collect()
}

/// Adds rows that begin behind the start of the last range.
fn push(kept: &mut Vec<Range<u32>>, rows: Range<u32>) {
    match kept.last_mut() {
        Some(last) if last.end >= rows.start => last.end = last.end.max(rows.end),
        _ => kept.push(rows),
    }
}

/// Returns ranges in ascending order, with ranges that meet as one.
fn joined(mut ranges: Vec<Range<u32>>) -> Vec<Range<u32>> {
    ranges.sort_unstable_by_key(|rows| rows.start);
    let mut kept = Vec::with_capacity(ranges.len());
    ranges.into_iter().for_each(|rows| push(&mut kept, rows));
    kept
}

/// Returns the rows that are in both of two lists of ascending ranges.
fn intersected(left: &[Range<u32>], right: &[Range<u32>]) -> Vec<Range<u32>> {
    let mut kept = Vec::new();
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(&a), Some(&b)) = (left.peek(), right.peek()) {
        let both = a.start.max(b.start)..a.end.min(b.end);
        if !both.is_empty() {
            kept.push(both);
        }
        if a.end <= b.end {
            left.next();
        } else {
            right.next();
        }
    }
    kept
}

/// Returns the part of a filter that is looked into so deep.
fn zone(filter: &Expr, table: &Table, depth: usize) -> Option<Zone> {
    let below = depth.checked_sub(1)?;
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let parts = [left, right].into_iter();
            let parts: Vec<Zone> = parts.filter_map(|part| zone(part, table, below)).collect();
            (!parts.is_empty()).then_some(Zone::All(parts))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let parts = [left, right].into_iter().map(|part| zone(part, table, below));
            parts.collect::<Option<_>>().map(Zone::Any)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match Operand::of(left, table) {
            Some(operand) => operand.zone(*op, right),
            None => Operand::of(right, table)?.zone(op.swap()?, left),
        },
        Expr::Between(between) if !between.negated => {
            let operand = Operand::of(&between.expr, table)?;
            let low = operand.zone(Operator::GtEq, &between.low)?;
            Some(Zone::All(vec![low, operand.zone(Operator::LtEq, &between.high)?]))
        }
        Expr::InList(list) if !list.negated && list.list.len() <= VALUES_MAX => {
            let operand = Operand::of(&list.expr, table)?;
            let parts = list.list.iter().map(|value| operand.zone(Operator::Eq, value));
            parts.collect::<Option<_>>().map(Zone::Any)
        }
        _ => None,
    }
}

/// A column that a filter compares.
struct Operand<'a> {
    column: &'a Column,
    /// True if it compares by its key.
    by_key: bool,
}

impl<'a> Operand<'a> {
    /// Returns the column that an expression is, or whose key it is.
    fn of(expr: &Expr, table: &'a Table) -> Option<Self> {
        match expr {
            Expr::Column(column) => {
                Some(Self { column: table.column(&column.name)?.1, by_key: false })
            }
            Expr::ScalarFunction(call) => {
                let bound = call.func.inner().downcast_ref::<BoundFunction>()?;
                let [Expr::Column(column)] = call.args.as_slice() else { return None };
                matches!(bound.work, Work::Key).then_some(())?;
                Some(Self { column: table.column(&column.name)?.1, by_key: true })
            }
            _ => None,
        }
    }

    /// Returns what is known of the rows for which the comparison with an expression is true.
    fn zone(&self, op: Operator, value: &Expr) -> Option<Zone> {
        let comparison = match op {
            Operator::Eq => Comparison::Equal,
            Operator::Lt => Comparison::Less,
            Operator::LtEq => Comparison::LessOrEqual,
            Operator::Gt => Comparison::Greater,
            Operator::GtEq => Comparison::GreaterOrEqual,
            _ => return None,
        };
        let column = u32::try_from(self.column.number).ok()?;
        let value = constant(value)?;
        match (&self.column.data_type, &value) {
            (DataType::Numeric(_), Value::Bytea(key)) if self.by_key => {
                Some(by_key(column, comparison, key))
            }
            (data_type, value) => {
                let value = bound(value, data_type)?;
                Some(Zone::Compare { column, comparison, value })
            }
        }
    }
}

/// Returns the comparison of numbers with one that has a key. Forms of equal numbers begin with the same key, and
/// no key begins with another one.
fn by_key(column: u32, comparison: Comparison, key: &[u8]) -> Zone {
    let compare = |comparison, value| Zone::Compare { column, comparison, value };
    let low = Bound::Bytes(key.to_vec());
    let high = Bound::Bytes([key, &[u8::MAX; KEY_TAIL.0]].concat());
    match comparison {
        Comparison::Less | Comparison::GreaterOrEqual => compare(comparison, low),
        Comparison::LessOrEqual | Comparison::Greater => compare(comparison, high),
        Comparison::Equal | Comparison::NotEqual => Zone::All(vec![
            compare(Comparison::GreaterOrEqual, low),
            compare(Comparison::LessOrEqual, high),
        ]),
    }
}

/// Returns a value as pages of a type bound it; nothing if it is of another type, or if their orders differ.
fn bound(value: &Value, data_type: &DataType) -> Option<Bound> {
    Some(match (value, data_type) {
        (Value::Bool(value), DataType::Bool) => Bound::Integer((*value).into()),
        (Value::Int2(value), DataType::Int2) => Bound::Integer((*value).into()),
        (Value::Int4(value), DataType::Int4) => Bound::Integer((*value).into()),
        (Value::Int8(value), DataType::Int8) => Bound::Integer((*value).into()),
        (Value::Oid(value), DataType::Oid) => Bound::Integer((*value).into()),
        (Value::Float4(value), DataType::Float4) => Bound::Float((*value).into()),
        (Value::Float8(value), DataType::Float8) => Bound::Float(*value),
        (Value::Date(days), DataType::Date) => Bound::Integer((*days).into()),
        (Value::Time(micros), DataType::Time)
        | (Value::Timestamp(micros), DataType::Timestamp)
        | (Value::TimestampTz(micros), DataType::TimestampTz) => Bound::Integer((*micros).into()),
        (Value::Text(text), DataType::Text | DataType::Varchar(_) | DataType::Name) => {
            Bound::Bytes(text.as_bytes().to_vec())
        }
        (Value::Bytea(bytes), DataType::Bytea) => Bound::Bytes(bytes.to_vec()),
        (Value::Uuid(bytes), DataType::Uuid) => Bound::Bytes(bytes.to_vec()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::arrow::{array_of, encode_numeric, to_stored};
    use super::*;
    use columnar::{PageOptions, encode_segment};

    fn ranges(bounds: &[(u32, u32)]) -> Vec<Range<u32>> {
        bounds.iter().map(|(start, end)| *start..*end).collect()
    }

    #[test]
    fn ranges_join_and_intersect() {
        let (left, right) = (ranges(&[(0, 10), (20, 30)]), ranges(&[(5, 22), (29, 40)]));
        assert_eq!(intersected(&left, &right), ranges(&[(5, 10), (20, 22), (29, 30)]));
        assert!(intersected(&left, &[]).is_empty());
        let both = left.iter().chain(&right).cloned().collect();
        assert_eq!(joined(both), ranges(&[(0, 40)]));
        let apart = ranges(&[(7, 9), (0, 3), (3, 5)]);
        assert_eq!(joined(apart), ranges(&[(0, 5), (7, 9)]));
    }

    /// Returns a segment of texts of 100 bytes and of their numbers, both in ascending order.
    fn segment(rows: u32) -> SegmentDescriptor {
        let texts: Vec<Value> = (0..rows).map(|row| Value::text(format!("{row:0100}"))).collect();
        let numbers: Vec<Value> = (0..rows).map(|row| Value::Int8(row.into())).collect();
        let columns = [
            (1, array_of(&texts, &DataType::Text).unwrap()),
            (2, array_of(&numbers, &DataType::Int8).unwrap()),
        ];
        encode_segment(&columns, &PageOptions::default()).unwrap().descriptor
    }

    fn compare(column: u32, comparison: Comparison, value: Bound) -> Zone {
        Zone::Compare { column, comparison, value }
    }

    #[test]
    fn pages_are_left_out_by_their_bounds() {
        let segment = segment(30_000);
        let pages: Vec<Range<u32>> = segment.columns[0]
            .pages_with_first_row()
            .map(|(first, page)| first..first + page.rows)
            .collect();
        assert!(pages.len() > 2, "{pages:?}");
        let at = |row: u32| Bound::Bytes(format!("{row:0100}").into_bytes());
        // Bounds are cut to 32 bytes, which are the same for all rows: nothing is excluded by them.
        assert_eq!(compare(1, Comparison::Equal, at(7)).kept(&segment), whole(30_000));
        let below = compare(1, Comparison::Less, Bound::Bytes(b"0".to_vec()));
        assert!(below.kept(&segment).is_empty());
        let numbers = |comparison, value| compare(2, comparison, Bound::Integer(value));
        assert!(numbers(Comparison::Greater, 29_999).kept(&segment).is_empty());
        let pages: Vec<Range<u32>> = segment.columns[1]
            .pages_with_first_row()
            .map(|(first, page)| first..first + page.rows)
            .collect();
        let [first, .., last] = pages.as_slice() else { panic!("{pages:?}") };
        let greatest = numbers(Comparison::GreaterOrEqual, 29_999);
        assert_eq!(greatest.kept(&segment), std::slice::from_ref(last));
        let either = Zone::Any(vec![numbers(Comparison::Less, 0), numbers(Comparison::Equal, 5)]);
        assert_eq!(either.kept(&segment), std::slice::from_ref(first));
        let both = Zone::All(vec![numbers(Comparison::Equal, 5), below]);
        assert!(both.kept(&segment).is_empty());
        let unknown = compare(9, Comparison::Equal, Bound::Integer(1));
        assert_eq!(unknown.kept(&segment), whole(30_000), "a column that was added later");
    }

    #[test]
    fn pages_of_one_column_leave_rows_of_others_out() {
        let texts: Vec<Value> =
            (0..30_000).map(|row| Value::text(format!("{row:0<100}"))).collect();
        let columns = [(1, array_of(&texts, &DataType::Text).unwrap())];
        let segment = encode_segment(&columns, &PageOptions::default()).unwrap().descriptor;
        let first = segment.columns[0].pages[0].rows;
        let filter = compare(1, Comparison::Equal, Bound::Bytes(format!("{:0<100}", 3).into()));
        let kept = filter.kept(&segment);
        assert!(kept.iter().map(ExactSizeIterator::len).sum::<usize>() < 30_000, "{kept:?}");
        assert!(kept.iter().any(|rows| rows.contains(&3)), "{kept:?} of {first}");
    }

    #[test]
    fn numbers_compare_without_their_scale() {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        let number = |text: &str| Value::Numeric(text.parse().unwrap());
        let data_type = DataType::Numeric(None);
        let values = [number("1.00"), number("-2.5"), Value::Null];
        let array = to_stored(&array_of(&values, &data_type).unwrap(), &data_type).unwrap();
        let segment = encode_segment(&[(1, array)], &PageOptions::default()).unwrap().descriptor;
        for (comparison, text, is_kept) in [
            (Equal, "1", true),
            (Equal, "1.000", true),
            (Equal, "1.001", false),
            (Equal, "-2.50", true),
            (Equal, "-2.51", false),
            (Less, "-2.500", false),
            (Less, "-2.4", true),
            (LessOrEqual, "-2.500", true),
            (Greater, "1", false),
            (Greater, "0.9", true),
            (GreaterOrEqual, "1", true),
            (GreaterOrEqual, "1.0001", false),
            (Equal, "NaN", false),
        ] {
            let form = encode_numeric(&text.parse().unwrap());
            let zone = by_key(1, comparison, &form[..form.len() - KEY_TAIL.0]);
            assert_eq!(!zone.kept(&segment).is_empty(), is_kept, "{comparison:?} {text}");
        }
    }
}
