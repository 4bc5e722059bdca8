//! Access to rows of one table by its keys: from a condition to keys or ranges of keys.
//!
//! ```text
//! WHERE ─ condition.rs ─▶ bounds of columns ─ choose ─▶ Access ─ keys.rs, with parameters ─▶ Keys
//! ```
//!
//! Invariants:
//! 1. An access finds at least every row that its condition is true of. The caller tests the condition on
//!    each row that it gets.
//! 2. The keys depend on no row: their values are constants and parameters.

mod condition;
mod keys;

pub(crate) use condition::Condition;
pub(crate) use keys::Keys;

use crate::statement::Eval;
use condition::ColumnBounds;
use engine::Direction;
use relational::catalog::{IndexPart, Table};
use relational::{Oid, Result};
use std::sync::Arc;

/// A column of an ORDER BY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ordered {
    pub(crate) place: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// A part of a key with what bounds its column.
struct Part {
    part: IndexPart,
    place: usize,
    bounds: Option<Arc<ColumnBounds>>,
}

/// The way to the rows of a table.
pub(crate) struct Access {
    table: Arc<Table>,
    /// Index that is read; nothing for the rows in the order of their keys.
    index: Option<Oid>,
    name: String,
    parts: Vec<Part>,
    /// Number of parts, from the first, that are equal to constants.
    equal: usize,
    has_range: bool,
    is_whole_key: bool,
}

impl Access {
    /// Returns the best access to the rows of `table` by a condition; a scan of all rows if nothing bounds
    /// a key.
    pub(crate) fn choose(table: &Arc<Table>, condition: &Condition) -> Self {
        let candidates = candidates(table)
            .map(|(index, name, parts)| Self::of(table, index, name, parts, condition));
        let best = candidates.max_by_key(Self::worth);
        best.unwrap_or_else(|| Self::of(table, None, &table.name, &[], condition))
    }

    /// Returns an access whose rows come in the order of `order`, and the direction in which it gives them.
    pub(crate) fn in_order(
        table: &Arc<Table>,
        condition: &Condition,
        order: &[Ordered],
    ) -> Option<(Self, Direction)> {
        let candidates = candidates(table)
            .map(|(index, name, parts)| Self::of(table, index, name, parts, condition));
        let fitting = candidates.filter_map(|access| {
            let direction = access.direction_of(order)?;
            Some((access, direction))
        });
        fitting.max_by_key(|(access, _)| access.worth())
    }

    fn of(
        table: &Arc<Table>,
        index: Option<Oid>,
        name: &str,
        parts: &[IndexPart],
        condition: &Condition,
    ) -> Self {
        let parts: Vec<Part> = parts
            .iter()
            .map_while(|part| {
                let place = table.place(part.column)?;
                Some(Part { part: *part, place, bounds: condition.of(place).cloned() })
            })
            .collect();
        let is_equal = |part: &&Part| part.bounds.as_ref().is_some_and(|b| b.has_equal());
        let equal = parts.iter().take_while(is_equal).count();
        let next = parts.get(equal).and_then(|part| part.bounds.as_ref());
        let has_range = next.is_some_and(|bounds| bounds.has_range());
        let is_whole_key = index.is_none() && equal == parts.len() && !parts.is_empty();
        let (table, name) = (Arc::clone(table), name.to_owned());
        Self { table, index, name, parts, equal, has_range, is_whole_key }
    }

    /// Returns how much the access narrows, for a comparison with others.
    fn worth(&self) -> (bool, usize, bool, bool) {
        let unique = self.index.is_none_or(|oid| self.table.index(oid).is_some_and(|i| i.unique));
        let is_point = unique && !self.parts.is_empty() && self.equal == self.parts.len();
        (is_point, self.equal, self.has_range, self.index.is_none())
    }

    /// Returns whether the access reads a part of the table only.
    pub(crate) fn is_narrow(&self) -> bool {
        self.equal > 0 || self.has_range
    }

    /// Returns whether rows are found by whole keys, without a scan.
    pub(crate) fn is_point(&self) -> bool {
        self.is_whole_key
    }

    /// Returns the index that is read; nothing for the rows themselves.
    pub(crate) fn index(&self) -> Option<Oid> {
        self.index
    }

    /// Returns the direction in which the access gives rows in an order, if there is one.
    fn direction_of(&self, order: &[Ordered]) -> Option<Direction> {
        let is_single = |part: &Part| part.bounds.as_ref().is_some_and(|b| b.has_single_equal());
        let fixed = self.parts.iter().take_while(|part| is_single(part)).count();
        let is_fixed = |place: usize| self.parts[..fixed].iter().any(|part| part.place == place);
        let wanted: Vec<_> = order.iter().filter(|item| !is_fixed(item.place)).collect();
        let rest = self.parts.get(fixed..)?;
        if wanted.len() > rest.len() || (wanted.is_empty() && self.parts.is_empty()) {
            return None;
        }
        let agrees = |is_flipped: bool| {
            wanted.iter().zip(rest).all(|(item, part)| {
                let not_null = self.table.columns[part.place].not_null
                    || (self.index.is_none() && self.table.primary_key.is_some());
                item.place == part.place
                    && (item.descending != part.part.descending) == is_flipped
                    && (not_null || (item.nulls_first != part.part.nulls_first) == is_flipped)
            })
        };
        if agrees(false) {
            return Some(Direction::Forward);
        }
        agrees(true).then_some(Direction::Reverse)
    }

    /// Returns the keys that the access reads, with the values of parameters.
    pub(crate) fn keys(&self, eval: &Eval) -> Result<Keys> {
        keys::resolve(self, eval)
    }

    /// Returns the line of the access in a plan.
    pub(crate) fn describe(&self) -> String {
        let table = &self.table.name;
        if self.is_point() {
            return format!("Point Lookup using {} on {table}", self.name);
        }
        match (self.is_narrow(), self.index) {
            (false, None) => format!("Seq Scan on {table}"),
            (_, _) => format!("Index Scan using {} on {table}", self.name),
        }
    }

    /// Returns the columns whose values bound the keys.
    pub(crate) fn bounded_columns(&self) -> Vec<&str> {
        let count = self.equal + usize::from(self.has_range);
        let places = self.parts[..count.min(self.parts.len())].iter().map(|part| part.place);
        places.map(|place| self.table.columns[place].name.as_str()).collect()
    }
}

/// Returns the primary key and the indexes that may be read.
fn candidates(table: &Table) -> impl Iterator<Item = (Option<Oid>, &str, &[IndexPart])> {
    let key = match &table.primary_key {
        Some(key) => (None, key.name.as_str(), key.parts.as_slice()),
        None => (None, table.name.as_str(), &[][..]),
    };
    let indexes = table.indexes.iter().filter(|index| index.ready);
    let indexes = indexes.map(|index| (Some(index.oid), index.name.as_str(), &index.parts[..]));
    std::iter::once(key).chain(indexes)
}
