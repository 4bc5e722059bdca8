//! Conditions of a query as bounds of what is read.
//!
//! 1. A bound holds at least what its condition admits. It is exact where it holds nothing else; then the
//!    condition is not tested again.
//! 2. A condition bounds one column. Others are left to DataFusion.

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use relational::catalog::{WideSource, WideTable};
use relational::{DataType, Value};
use table::limits::{QUALIFIER_BYTES_MAX, ROW_KEY_BYTES_MAX};
use table::{RowRange, row_set};

use super::MICROS_TO_2000;
use crate::query::{BoundFunction, scalar_value, type_of_arrow};

/// Values of a list at most; a longer one does not bound a read.
const LIST_MAX: usize = 10_000;

/// Bytes of a column that a condition admits: sorted, disjoint ranges.
struct Admitted {
    ranges: Vec<RowRange>,
    is_exact: bool,
}

/// The use of a condition for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The read bounds it exactly.
    Exact,
    /// The read is smaller, and the condition is tested again.
    Inexact,
    None,
}

/// Bounds of a read by all of its conditions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bounds {
    /// Ranges of row keys, sorted and disjoint; none of them means no row.
    pub(super) keys: Vec<RowRange>,
    /// Ranges of names of families, as bytes.
    pub(super) families: Vec<RowRange>,
    /// Ranges of qualifiers, in all families.
    pub(super) qualifiers: Vec<RowRange>,
    /// First and last microsecond since 1970, both included.
    pub(super) times: (i64, i64),
    /// Places of columns without which no row passes.
    pub(super) present: Vec<usize>,
    /// True if all conditions are bounded exactly.
    pub(super) is_exact: bool,
}

impl Bounds {
    /// Returns the bounds that conditions on a relation make.
    pub(super) fn of(wide: &WideTable, filters: &[Expr]) -> Self {
        let all = || vec![RowRange::ALL];
        let mut bounds = Self {
            keys: all(),
            families: all(),
            qualifiers: all(),
            times: (i64::MIN, i64::MAX),
            present: Vec::new(),
            is_exact: true,
        };
        for filter in filters {
            bounds.is_exact &= bounds.add(wide, filter) == Use::Exact;
        }
        bounds
    }

    fn add(&mut self, wide: &WideTable, filter: &Expr) -> Use {
        let Some(place) = only_column(wide, filter) else { return Use::None };
        let column = &wide.columns[place];
        let bounded = match column.source {
            WideSource::Key => &mut self.keys,
            WideSource::Family => &mut self.families,
            WideSource::Qualifier => &mut self.qualifiers,
            WideSource::Timestamp => return self.add_time(filter),
            WideSource::Value => return Use::None,
            WideSource::Newest { .. } => {
                if !is_strict(filter) {
                    return Use::None;
                }
                self.present.push(place);
                return Use::Inexact;
            }
        };
        let Some(admitted) = admitted(filter) else { return Use::None };
        *bounded = row_set::intersect(bounded, &admitted.ranges);
        if admitted.is_exact { Use::Exact } else { Use::Inexact }
    }

    fn add_time(&mut self, filter: &Expr) -> Use {
        let Some((op, Value::TimestampTz(moment))) = comparison(filter) else { return Use::None };
        let moment = moment.saturating_add(MICROS_TO_2000);
        let (from, to) = &mut self.times;
        match op {
            Operator::Eq => (*from, *to) = ((*from).max(moment), (*to).min(moment)),
            Operator::Gt | Operator::GtEq => *from = (*from).max(moment),
            Operator::Lt | Operator::LtEq => *to = (*to).min(moment),
            _ => return Use::None,
        }
        Use::Inexact
    }
}

/// Returns the use of one condition for reads of a relation.
pub(super) fn use_of(wide: &WideTable, filter: &Expr) -> Use {
    let mut bounds = Bounds::of(wide, &[]);
    bounds.add(wide, filter)
}

/// Returns the place of the only column that an expression names.
fn only_column(wide: &WideTable, filter: &Expr) -> Option<usize> {
    let columns = filter.column_refs();
    let mut columns = columns.iter();
    let (Some(column), None) = (columns.next(), columns.next()) else { return None };
    wide.columns.iter().position(|known| known.name == column.name)
}

/// Returns whether no NULL passes a condition on one column.
fn is_strict(filter: &Expr) -> bool {
    match filter {
        Expr::IsNotNull(inner) => matches!(**inner, Expr::Column(_)),
        Expr::InList(list) => matches!(*list.expr, Expr::Column(_)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Or => is_strict(left) && is_strict(right),
            Operator::And => is_strict(left) || is_strict(right),
            _ => comparison(filter).is_some(),
        },
        _ => like(filter).is_some(),
    }
}

/// Returns operator and constant of a comparison, with the column on the left.
fn comparison(filter: &Expr) -> Option<(Operator, Value)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let (op, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(_), value) => (*op, value),
        (value, Expr::Column(_)) => (op.swap()?, value),
        _ => return None,
    };
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq).then_some(())?;
    Some((op, constant(value)?))
}

fn constant(expr: &Expr) -> Option<Value> {
    let Expr::Literal(value, _) = expr else { return None };
    if value.is_null() {
        return None;
    }
    scalar_value(value, &type_of_arrow(&value.data_type())).ok()
}

/// Returns the bytes that a key or a qualifier has if it is equal to a constant.
fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    let bytes = match value {
        Value::Text(text) => text.as_bytes().to_vec(),
        Value::Bytea(bytes) => bytes.to_vec(),
        _ => return None,
    };
    (bytes.len() <= ROW_KEY_BYTES_MAX.min(QUALIFIER_BYTES_MAX)).then_some(bytes)
}

/// Returns the bytes that a condition on one column admits; nothing if it does not bound them.
fn admitted(filter: &Expr) -> Option<Admitted> {
    match filter {
        Expr::InList(list) if !list.negated && list.list.len() <= LIST_MAX => {
            matches!(*list.expr, Expr::Column(_)).then_some(())?;
            let values = list.list.iter().map(|item| bytes_of(&constant(item)?));
            let singles: Option<Vec<RowRange>> =
                values.map(|bytes| Some(RowRange::single(&bytes?))).collect();
            Some(Admitted { ranges: row_set::merge(singles?), is_exact: true })
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (left, right) = (admitted(left)?, admitted(right)?);
            let is_exact = left.is_exact && right.is_exact;
            let all = left.ranges.into_iter().chain(right.ranges).collect();
            Some(Admitted { ranges: row_set::merge(all), is_exact })
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            match (admitted(left), admitted(right)) {
                (Some(left), Some(right)) => Some(Admitted {
                    ranges: row_set::intersect(&left.ranges, &right.ranges),
                    is_exact: left.is_exact && right.is_exact,
                }),
                (Some(one), None) | (None, Some(one)) => Some(Admitted { is_exact: false, ..one }),
                (None, None) => None,
            }
        }
        Expr::BinaryExpr(_) => {
            let (op, value) = comparison(filter)?;
            let bytes = bytes_of(&value)?;
            let after = |mut bytes: Vec<u8>| {
                bytes.push(0);
                bytes
            };
            let range = match op {
                Operator::Eq => RowRange::single(&bytes),
                Operator::Lt => RowRange { start: Vec::new(), end: Some(bytes) },
                Operator::LtEq => RowRange { start: Vec::new(), end: Some(after(bytes)) },
                Operator::Gt => RowRange { start: after(bytes), end: None },
                Operator::GtEq => RowRange { start: bytes, end: None },
                _ => return None,
            };
            Some(Admitted { ranges: row_set::merge(vec![range]), is_exact: true })
        }
        _ => {
            let (prefix, is_exact) = prefix_of(&like(filter)?)?;
            Some(Admitted { ranges: vec![RowRange::prefix(&prefix)], is_exact })
        }
    }
}

/// Returns the pattern of a LIKE of a column.
fn like(filter: &Expr) -> Option<Value> {
    let Expr::ScalarFunction(call) = filter else { return None };
    let bound = call.func.inner().downcast_ref::<BoundFunction>()?;
    match call.args.as_slice() {
        [Expr::Column(_), pattern] if bound.is_like() => constant(pattern),
        _ => None,
    }
}

/// Returns the text with which all matches of a pattern begin, and whether all such texts match.
fn prefix_of(pattern: &Value) -> Option<(Vec<u8>, bool)> {
    let bytes = bytes_of(pattern)?;
    let mut prefix = Vec::new();
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let is_exact = rest.as_slice().iter().all(|byte| *byte == b'%');
                return (!prefix.is_empty()).then_some((prefix, is_exact));
            }
            b'_' => break,
            b'\\' => prefix.push(*rest.next()?),
            other => prefix.push(*other),
        }
    }
    (!prefix.is_empty()).then_some((prefix, false))
}

/// Returns whether keys of a type are ordered and compared as their bytes are.
pub(super) fn is_bytewise(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar(_) | DataType::Bytea)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_bounds_by_its_beginning() {
        for (pattern, want) in [
            ("ab%", Some(("ab", true))),
            ("ab%%", Some(("ab", true))),
            ("ab%c", Some(("ab", false))),
            ("ab_", Some(("ab", false))),
            ("ab", Some(("ab", false))),
            ("a\\%b%", Some(("a%b", true))),
            ("%b", None),
            ("_b%", None),
            ("", None),
        ] {
            let got = prefix_of(&Value::text(pattern));
            let want = want.map(|(prefix, is_exact)| (prefix.as_bytes().to_vec(), is_exact));
            assert_eq!(got, want, "{pattern}");
        }
    }
}
