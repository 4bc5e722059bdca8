//! The read of the store that a scan makes, and which rows of it are rows of the relation.
//!
//! 1. Only the columns whose values are wanted, and the columns that decide if a row is there, are read. Of the
//!    latter the values stay in the store.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use relational::catalog::{WideSource, WideTable};
use relational::{Error, Result, SqlState};
use table::{
    Bytes, KeyRange, ReadRows, RowFilter, RowRange, RowSet, Subset, TableSchema, Timestamp,
    TimestampRange,
};

use super::cells::shown;
use super::conditions::Bounds;

/// The columns that a scan returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    /// Places of the columns that the scan returns, in its order.
    pub(super) wanted: Vec<usize>,
    /// Places of columns that a row must have.
    pub(super) required: Vec<usize>,
    /// Places of columns one of which a row must have, if none is required.
    pub(super) any: Vec<usize>,
}

/// A scan of a relation, before it runs.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) wide: Arc<WideTable>,
    pub(super) columns: Columns,
    pub(super) bounds: Bounds,
    /// Rows after which the scan ends.
    pub(super) limit: Option<usize>,
}

impl Columns {
    /// Returns the columns of a scan that returns `wanted`, of which no row passes without `present`.
    pub(super) fn of(wide: &WideTable, wanted: Vec<usize>, present: &[usize]) -> Self {
        let newest =
            |place: &usize| matches!(wide.columns[*place].source, WideSource::Newest { .. });
        let all = || (0..wide.columns.len()).filter(newest);
        let is_required = |place: &usize| wide.columns[*place].not_null || present.contains(place);
        let required: Vec<usize> = all().filter(is_required).collect();
        let any = if required.is_empty() { all().collect() } else { Vec::new() };
        Self { wanted, required, any }
    }
}

impl Spec {
    /// Returns the read. Nothing if no row can be in it. 42703 if a family is not there.
    pub(super) fn request(&self, schema: &TableSchema) -> Result<Option<ReadRows>> {
        let Some(rows) = rows_of(&self.bounds.keys) else { return Ok(None) };
        let filter = match self.wide.has_cells() {
            true => self.cells_filter(schema),
            false => Some(self.newest_filter(schema)?),
        };
        let Some(filter) = filter else { return Ok(None) };
        let rows_limit = self.limit.filter(|_| self.is_every_row_one()).unwrap_or_default() as u64;
        Ok(Some(ReadRows { rows, filter: Some(filter), rows_limit, ..ReadRows::default() }))
    }

    /// Returns whether each row that the store yields is a row of the relation, or some of them.
    fn is_every_row_one(&self) -> bool {
        let Columns { wanted, required, .. } = &self.columns;
        let newest = wanted.iter().filter(|place| self.is_newest(**place));
        required.is_empty() || (required.len() == 1 && newest.eq(required.iter()))
    }

    fn is_newest(&self, place: usize) -> bool {
        matches!(self.wide.columns[place].source, WideSource::Newest { .. })
    }

    /// Returns the filter of a relation of cells; nothing if no cell passes it.
    fn cells_filter(&self, schema: &TableSchema) -> Option<RowFilter> {
        let Bounds { families, qualifiers, times, .. } = &self.bounds;
        let is_wanted = |name: &str| families.iter().any(|range| range.contains(name.as_bytes()));
        let names = schema.families.keys().filter(|name| is_wanted(name));
        let columns: BTreeMap<String, Vec<RowRange>> =
            names.map(|name| (name.to_string(), qualifiers.clone())).collect();
        if columns.is_empty() || qualifiers.is_empty() {
            return None;
        }
        let mut chain = Vec::new();
        if let Some(range) = time_range(*times)? {
            chain.push(RowFilter::TimestampRange(range));
        }
        let has_value = |place: &usize| self.wide.columns[*place].source == WideSource::Value;
        if !self.columns.wanted.iter().any(has_value) {
            chain.push(RowFilter::StripValue);
        }
        let inner = chained(chain);
        if *families == [RowRange::ALL] && *qualifiers == [RowRange::ALL] {
            return Some(inner);
        }
        let part = Subset::of_parts(vec![RowRange::ALL], columns);
        Some(RowFilter::Within(Arc::new(part), Box::new(inner)))
    }

    /// Returns the filter of a declared table: the newest values of the wanted columns, and without their
    /// values the columns that decide if the row is there.
    fn newest_filter(&self, schema: &TableSchema) -> Result<RowFilter> {
        let Columns { wanted, required, any } = &self.columns;
        let values: Vec<usize> =
            wanted.iter().copied().filter(|place| self.is_newest(*place)).collect();
        let others = required.iter().chain(any).filter(|place| !values.contains(place));
        let others: Vec<usize> = others.copied().collect();
        let newest = RowFilter::CellsPerColumnLimit(1);
        let values = self.within(schema, &values, newest.clone())?;
        let presence = match any.is_empty() {
            true => chained(vec![newest, RowFilter::StripValue]),
            false => chained(vec![RowFilter::CellsPerRowLimit(1), RowFilter::StripValue]),
        };
        let presence = self.within(schema, &others, presence)?;
        Ok(match (values, presence) {
            (Some(values), Some(presence)) => RowFilter::Interleave(vec![values, presence]),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => RowFilter::BlockAll,
        })
    }

    fn within(
        &self,
        schema: &TableSchema,
        places: &[usize],
        filter: RowFilter,
    ) -> Result<Option<RowFilter>> {
        let mut columns: BTreeMap<String, Vec<RowRange>> = BTreeMap::new();
        for place in places {
            let WideSource::Newest { family, qualifier } = &self.wide.columns[*place].source else {
                continue;
            };
            if !schema.families.contains_key(family.as_str()) {
                let table = &self.wide.table;
                let message = format!("Bigtable table \"{table}\" has no family \"{family}\"");
                return Err(Error::new(SqlState::UNDEFINED_COLUMN, message));
            }
            columns.entry(family.clone()).or_default().push(RowRange::single(qualifier));
        }
        if columns.is_empty() {
            return Ok(None);
        }
        let part = Subset::of_parts(vec![RowRange::ALL], columns);
        Ok(Some(RowFilter::Within(Arc::new(part), Box::new(filter))))
    }

    /// Returns the read in words, for plans.
    pub(super) fn describe(&self) -> String {
        let mut words = vec![format!("table={}", self.wide.table)];
        if self.bounds.keys != [RowRange::ALL] {
            words.push(format!("keys={}", ranges_shown(&self.bounds.keys)));
        }
        for (name, ranges) in
            [("families", &self.bounds.families), ("qualifiers", &self.bounds.qualifiers)]
        {
            if *ranges != [RowRange::ALL] {
                words.push(format!("{name}={}", ranges_shown(ranges)));
            }
        }
        if self.bounds.times != (i64::MIN, i64::MAX) {
            words.push("times=bounded".to_owned());
        }
        let name_of = |place: &usize| match &self.wide.columns[*place].source {
            WideSource::Newest { family, qualifier } => {
                Some(format!("{family}:{}", qualifier.escape_ascii()))
            }
            _ => None,
        };
        let list =
            |places: &[usize]| places.iter().filter_map(name_of).collect::<Vec<_>>().join(", ");
        if !self.wide.has_cells() {
            words.push(format!("columns=[{}]", list(&self.columns.wanted)));
            let Columns { required, any, .. } = &self.columns;
            words.push(match any.is_empty() {
                true => format!("rows with all of [{}]", list(required)),
                false => format!("rows with any of [{}]", list(any)),
            });
        }
        words.extend(self.limit.map(|limit| format!("limit={limit}")));
        words.join(", ")
    }
}

/// Returns filters one after the other.
fn chained(mut filters: Vec<RowFilter>) -> RowFilter {
    match filters.len() {
        0 => RowFilter::PassAll,
        1 => filters.swap_remove(0),
        _ => RowFilter::Chain(filters),
    }
}

/// Returns the range of times in the unit of filters, if it bounds anything; nothing if no time is in it.
fn time_range((from, to): (i64, i64)) -> Option<Option<TimestampRange>> {
    const UNIT: i64 = 1_000;
    if to < from || to < 0 {
        return None;
    }
    if (from, to) == (i64::MIN, i64::MAX) {
        return Some(None);
    }
    let start = Timestamp(from.max(0) / UNIT * UNIT);
    let end = (to / UNIT).checked_add(1).and_then(|end| end.checked_mul(UNIT)).map(Timestamp);
    Some(Some(TimestampRange { start, end }))
}

/// Returns the rows of ranges, or nothing for an empty list.
fn rows_of(ranges: &[RowRange]) -> Option<RowSet> {
    let mut rows = RowSet::default();
    for range in ranges {
        if range.is_single() {
            // No row has the empty key.
            if !range.start.is_empty() {
                rows.keys.push(Bytes::copy_from_slice(&range.start));
            }
            continue;
        }
        let end = match &range.end {
            Some(end) => Bound::Excluded(Bytes::copy_from_slice(end)),
            None => Bound::Unbounded,
        };
        let start = Bound::Included(Bytes::copy_from_slice(&range.start));
        rows.ranges.push(KeyRange { start, end });
    }
    (!rows.keys.is_empty() || !rows.ranges.is_empty()).then_some(rows)
}

/// Returns ranges as people read them; the first few of many.
fn ranges_shown(ranges: &[RowRange]) -> String {
    const SHOWN_MAX: usize = 8;
    let one = |range: &RowRange| match (range.is_single(), &range.end) {
        (true, _) => shown(&range.start),
        (false, None) => format!("[{}, ∞)", shown(&range.start)),
        (false, Some(end)) => format!("[{}, {})", shown(&range.start), shown(end)),
    };
    let mut words: Vec<String> = ranges.iter().take(SHOWN_MAX).map(one).collect();
    if ranges.len() > SHOWN_MAX {
        words.push(format!("and {} more", ranges.len() - SHOWN_MAX));
    }
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}
