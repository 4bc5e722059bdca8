//! Conditions: the columns that a WHERE compares with constants.

use crate::statement::{Binder, Bound, name_of};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value as Literal, ValueWithSpan};
use relational::DataType;
use relational::catalog::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deepest nesting of a constant.
const CONSTANT_DEPTH_MAX: usize = 20;

/// A comparison with a constant, as a bound.
pub(super) struct Limit {
    pub(super) value: Bound,
    pub(super) is_included: bool,
}

/// Everything that bounds one column.
#[derive(Default)]
pub(crate) struct ColumnBounds {
    /// Values of which the column is one.
    pub(super) equal: Option<Vec<Bound>>,
    pub(super) lower: Vec<Limit>,
    pub(super) upper: Vec<Limit>,
    /// Beginning of the text, by LIKE.
    pub(super) prefix: Option<String>,
}

impl ColumnBounds {
    pub(super) fn has_equal(&self) -> bool {
        self.equal.is_some()
    }

    pub(super) fn has_single_equal(&self) -> bool {
        self.equal.as_ref().is_some_and(|values| values.len() == 1)
    }

    pub(super) fn has_range(&self) -> bool {
        !self.lower.is_empty() || !self.upper.is_empty() || self.prefix.is_some()
    }
}

/// Bounds of columns, by their places.
#[derive(Default)]
pub(crate) struct Condition(BTreeMap<usize, Arc<ColumnBounds>>);

impl Condition {
    /// Finds the bounds that hold wherever `condition` is true. `alias` is the name of the table.
    pub(crate) fn analyze(
        binder: &mut Binder<'_>,
        table: &Table,
        alias: &str,
        condition: Option<&Expr>,
    ) -> Self {
        let mut found = BTreeMap::new();
        let mut analysis = Analysis { binder, table, alias, found: &mut found };
        let mut waiting: Vec<&Expr> = condition.into_iter().collect();
        while let Some(expression) = waiting.pop() {
            match expression {
                Expr::Nested(inner) => waiting.push(inner),
                Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                    waiting.extend([left.as_ref(), right.as_ref()]);
                }
                other => analysis.take(other),
            }
        }
        Self(found.into_iter().map(|(place, bounds)| (place, Arc::new(bounds))).collect())
    }

    /// Returns the bounds of the column at a place.
    pub(super) fn of(&self, place: usize) -> Option<&Arc<ColumnBounds>> {
        self.0.get(&place)
    }
}

struct Analysis<'a, 'b> {
    binder: &'a mut Binder<'b>,
    table: &'a Table,
    alias: &'a str,
    found: &'a mut BTreeMap<usize, ColumnBounds>,
}

impl Analysis<'_, '_> {
    fn take(&mut self, expression: &Expr) {
        match expression {
            Expr::BinaryOp { left, op, right } => {
                if let Some(place) = self.column(left) {
                    self.compare(place, op, right);
                } else if let Some(place) = self.column(right)
                    && let Some(op) = mirrored(op)
                {
                    self.compare(place, &op, left);
                }
            }
            Expr::Between { expr, negated: false, low, high } => {
                if let Some(place) = self.column(expr) {
                    self.compare(place, &BinaryOperator::GtEq, low);
                    self.compare(place, &BinaryOperator::LtEq, high);
                }
            }
            Expr::InList { expr, list, negated: false } => {
                let Some(place) = self.column(expr) else { return };
                let values: Option<Vec<_>> =
                    list.iter().map(|value| self.constant(place, value)).collect();
                if let Some(values) = values {
                    self.equal(place, values);
                }
            }
            Expr::Like { negated: false, any: false, expr, pattern, escape_char: None } => {
                if let Some(place) = self.column(expr)
                    && let Some(prefix) = like_prefix(pattern)
                    && is_text(&self.table.columns[place].data_type)
                {
                    self.found.entry(place).or_default().prefix = Some(prefix);
                }
            }
            // A column alone is a condition if it is a bool.
            _ => {}
        }
    }

    /// Returns the place of a column that keys may be compared by.
    fn column(&self, expression: &Expr) -> Option<usize> {
        let name = match expression {
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(parts) => {
                let [.., table, name] = parts.as_slice() else { return None };
                if name_of(table) != self.alias {
                    return None;
                }
                name
            }
            Expr::Nested(inner) => return self.column(inner),
            _ => return None,
        };
        let (place, column) = self.table.column(&name_of(name))?;
        (column.data_type != DataType::Json).then_some(place)
    }

    fn compare(&mut self, place: usize, op: &BinaryOperator, value: &Expr) {
        let Some(value) = self.constant(place, value) else { return };
        let bounds = self.found.entry(place).or_default();
        match op {
            BinaryOperator::Eq => self.equal(place, vec![value]),
            BinaryOperator::Gt => bounds.lower.push(Limit { value, is_included: false }),
            BinaryOperator::GtEq => bounds.lower.push(Limit { value, is_included: true }),
            BinaryOperator::Lt => bounds.upper.push(Limit { value, is_included: false }),
            BinaryOperator::LtEq => bounds.upper.push(Limit { value, is_included: true }),
            _ => {}
        }
    }

    /// Keeps the shortest list of values that the column is one of: each list holds by itself.
    fn equal(&mut self, place: usize, values: Vec<Bound>) {
        let bounds = self.found.entry(place).or_default();
        if bounds.equal.as_ref().is_none_or(|known| known.len() > values.len()) {
            bounds.equal = Some(values);
        }
    }

    /// Binds a constant that is compared with a column.
    fn constant(&mut self, place: usize, expression: &Expr) -> Option<Bound> {
        let data_type = &self.table.columns[place].data_type;
        is_constant(expression, 0).then(|| self.binder.bind_beside(expression, data_type).ok())?
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar(_) | DataType::Name)
}

/// Returns whether an expression is made of literals and parameters by operators and casts.
fn is_constant(expression: &Expr, depth: usize) -> bool {
    if depth > CONSTANT_DEPTH_MAX {
        return false;
    }
    match expression {
        Expr::Value(_) | Expr::TypedString { .. } | Expr::Interval(_) => true,
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_constant(inner, depth + 1),
        Expr::UnaryOp { expr, .. } => is_constant(expr, depth + 1),
        Expr::BinaryOp { left, right, .. } => {
            is_constant(left, depth + 1) && is_constant(right, depth + 1)
        }
        _ => false,
    }
}

fn mirrored(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::Eq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        _ => return None,
    })
}

/// Returns the beginning that a pattern of LIKE demands, if it has one.
fn like_prefix(pattern: &Expr) -> Option<String> {
    let Expr::Value(ValueWithSpan { value: Literal::SingleQuotedString(pattern), .. }) = pattern
    else {
        return None;
    };
    let (mut prefix, mut characters) = (String::new(), pattern.chars());
    while let Some(character) = characters.next() {
        match character {
            '%' | '_' => break,
            '\\' => prefix.extend(characters.next()),
            other => prefix.push(other),
        }
    }
    (!prefix.is_empty()).then_some(prefix)
}
