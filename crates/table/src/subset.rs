//! A part of a table: the rows with some prefixes, and in each the columns that are listed. An
//! authorized view shows its clients such a part and nothing else.
//!
//! A read through a view is [`RowFilter::Within`](crate::RowFilter::Within): the filter of the request
//! takes only what the part has. A change is checked here before it is made.

use crate::error::{Error, Result};
use crate::mutate::{ReadModifyWriteRule, RowMutation};
use crate::row_set;
use crate::schema::TableSchema;
use bytes::Bytes;
use engine::{QualifierRange, RowRange};
use std::collections::BTreeMap;

/// The columns of one family that are in a part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Qualifiers {
    /// Qualifiers that are listed singly.
    pub exact: Vec<Bytes>,
    /// Prefixes of qualifiers; the empty one is of all columns.
    pub prefixes: Vec<Bytes>,
}

/// Some rows and columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subset {
    /// Ranges of rows, sorted and disjoint.
    rows: Vec<RowRange>,
    /// Ranges of qualifiers by family, sorted and disjoint.
    families: BTreeMap<String, Vec<RowRange>>,
}

impl Subset {
    /// Returns the part with the rows of some prefixes (the empty one is of all rows) and some columns.
    pub fn new(row_prefixes: &[Bytes], families: BTreeMap<String, Qualifiers>) -> Self {
        let ranges = |qualifiers: &Qualifiers| {
            let exact = qualifiers.exact.iter().map(|qualifier| RowRange::single(qualifier));
            let prefixes = qualifiers.prefixes.iter().map(|prefix| RowRange::prefix(prefix));
            row_set::merge(exact.chain(prefixes).collect())
        };
        let rows = row_prefixes.iter().map(|prefix| RowRange::prefix(prefix)).collect();
        let families = families.iter().map(|(name, columns)| (name.clone(), ranges(columns)));
        Self { rows: row_set::merge(rows), families: families.collect() }
    }

    /// Returns the part with ranges of rows, and ranges of qualifiers by family, in any order.
    pub fn of_parts(rows: Vec<RowRange>, families: BTreeMap<String, Vec<RowRange>>) -> Self {
        let families = families.into_iter().map(|(name, ranges)| (name, row_set::merge(ranges)));
        Self { rows: row_set::merge(rows), families: families.collect() }
    }

    /// Returns the ranges that [`Self::of_parts`] takes.
    pub(crate) fn parts(&self) -> (&Vec<RowRange>, &BTreeMap<String, Vec<RowRange>>) {
        (&self.rows, &self.families)
    }

    /// Returns whether a row is in the part.
    pub fn has_row(&self, row: &[u8]) -> bool {
        has(&self.rows, row)
    }

    pub fn has_column(&self, family: &str, qualifier: &[u8]) -> bool {
        self.families.get(family).is_some_and(|ranges| has(ranges, qualifier))
    }

    /// Returns whether every column of a family is in the part.
    fn has_family(&self, family: &str) -> bool {
        self.families.get(family).is_some_and(|ranges| ranges[..] == [RowRange::ALL])
    }

    /// The rows of the part, sorted and disjoint.
    pub(crate) fn rows(&self) -> &[RowRange] {
        &self.rows
    }

    /// The columns of the part that a table of this schema has.
    pub(crate) fn columns(&self, schema: &TableSchema) -> Vec<QualifierRange> {
        let mut columns = Vec::new();
        for (name, ranges) in &self.families {
            let Some(family) = schema.families.get(name.as_str()) else { continue };
            columns.extend(ranges.iter().map(|range| QualifierRange {
                family: family.id,
                start: range.start.clone(),
                end: range.end.clone(),
            }));
        }
        columns.sort();
        columns
    }

    /// Refuses changes of a row that reach beyond the part. Deleting a family needs all its columns,
    /// and deleting the row needs all columns of all families of the table.
    pub fn check_mutations(
        &self,
        schema: &TableSchema,
        row: &[u8],
        mutations: &[RowMutation],
    ) -> Result<()> {
        self.check_row(row)?;
        for mutation in mutations {
            match mutation {
                RowMutation::SetCell { family, qualifier, .. }
                | RowMutation::AddToCell { family, qualifier, .. }
                | RowMutation::MergeToCell { family, qualifier, .. }
                | RowMutation::DeleteFromColumn { family, qualifier, .. } => {
                    self.check_column(family, qualifier)?;
                }
                RowMutation::DeleteFromFamily { family } => self.check_family(family)?,
                RowMutation::DeleteFromRow => {
                    schema.families.keys().try_for_each(|family| self.check_family(family))?;
                }
            }
        }
        Ok(())
    }

    /// Refuses a read-modify-write that reaches beyond the part.
    pub fn check_rules(&self, row: &[u8], rules: &[ReadModifyWriteRule]) -> Result<()> {
        self.check_row(row)?;
        rules.iter().try_for_each(|rule| self.check_column(&rule.family, &rule.qualifier))
    }

    /// Refuses a row outside of the part.
    pub fn check_row(&self, row: &[u8]) -> Result<()> {
        if self.has_row(row) {
            return Ok(());
        }
        let row = row.escape_ascii().to_string();
        Err(denied(&format!("row '{row:.200}'")))
    }

    fn check_column(&self, family: &str, qualifier: &[u8]) -> Result<()> {
        if self.has_column(family, qualifier) {
            return Ok(());
        }
        let qualifier = qualifier.escape_ascii().to_string();
        Err(denied(&format!("column '{family:.64}:{qualifier:.200}'")))
    }

    fn check_family(&self, family: &str) -> Result<()> {
        if self.has_family(family) {
            return Ok(());
        }
        Err(denied(&format!("the whole of family '{family:.64}'")))
    }
}

/// Returns whether any of sorted, disjoint ranges contains `key`.
pub(crate) fn has(ranges: &[RowRange], key: &[u8]) -> bool {
    let after = ranges.partition_point(|range| range.start.as_slice() <= key);
    after.checked_sub(1).is_some_and(|at| ranges[at].contains(key))
}

fn denied(what: &str) -> Error {
    Error::PermissionDenied(format!("{what} is not part of the authorized view"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subset() -> Subset {
        let bytes = |texts: &[&'static str]| texts.iter().map(|text| Bytes::from(*text)).collect();
        let columns = |exact: &[&'static str], prefixes: &[&'static str]| Qualifiers {
            exact: bytes(exact),
            prefixes: bytes(prefixes),
        };
        let families = [("all", columns(&[], &[""])), ("some", columns(&["x", "y1"], &["y", "z"]))];
        let families = families.map(|(name, columns)| (name.to_owned(), columns)).into();
        Subset::new(&["b".into(), "ba".into(), "d".into()], families)
    }

    #[test]
    fn rows_and_columns_are_in_by_prefix() {
        let part = subset();
        let rows: Vec<_> =
            ["a", "b", "ba", "bz", "c", "d\0", "e"].map(|row| part.has_row(row.as_bytes())).into();
        assert_eq!(rows, [false, true, true, true, false, true, false]);
        for (family, qualifier, want) in [
            ("all", "", true),
            ("all", "q", true),
            ("some", "x", true),
            ("some", "x1", false),
            ("some", "y", true),
            ("some", "y12", true),
            ("some", "", false),
            ("none", "x", false),
        ] {
            assert_eq!(part.has_column(family, qualifier.as_bytes()), want, "{family}:{qualifier}");
        }
        assert!(part.has_family("all") && !part.has_family("some") && !part.has_family("none"));
    }

    #[test]
    fn a_part_without_prefixes_or_columns_has_nothing() {
        let part = Subset::new(&[], BTreeMap::from([("f".to_owned(), Qualifiers::default())]));
        assert!(!part.has_row(b"") && !part.has_row(b"a") && !part.has_column("f", b""));
    }
}
