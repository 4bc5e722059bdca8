//! Comparison of cells that were read with what they must be.

use super::findings::{Findings, Problem};
use crate::client::{Cell, Row};
use crate::data::{Seen, Version, column_of, is_value};
use std::ops::Range;

/// The values that a row must have.
pub(super) struct Expected<'a> {
    /// Seed of the data set.
    pub(super) seed: u64,
    /// Number of the first cell of the row among all cells.
    pub(super) first_cell: u64,
    /// Columns that were asked for.
    pub(super) columns: Range<u64>,
    pub(super) value_len: usize,
    pub(super) findings: &'a Findings,
}

impl Expected<'_> {
    /// Verifies the cells of a row; `judge` judges the version of a column.
    pub(super) fn verify(
        &self,
        row: &Row,
        judge: impl Fn(u64, Version) -> Seen,
    ) -> Result<(), Problem> {
        let mut columns = self.columns.clone();
        for cell in &row.cells {
            let wanted = columns.next();
            let column = column_of(&cell.qualifier);
            let Some(column) = column.filter(|column| Some(*column) == wanted) else {
                return Err(self.other_column(row, cell, wanted));
            };
            self.verify_cell(row, cell, column, judge(column, cell.timestamp))?;
        }
        self.findings.checked(row.cells.len() as u64);
        match columns.next() {
            None => Ok(()),
            Some(column) => {
                let detail = format!("column {column} is missing");
                Err(self.findings.report(Problem::MissingCell, &row.key, detail))
            }
        }
    }

    fn other_column(&self, row: &Row, cell: &Cell, wanted: Option<u64>) -> Problem {
        let found = cell.qualifier.escape_ascii();
        let (problem, detail) = match (wanted, column_of(&cell.qualifier)) {
            (Some(wanted), Some(found)) if found > wanted && self.columns.contains(&found) => {
                (Problem::MissingCell, format!("column {wanted} is missing"))
            }
            (Some(wanted), _) => {
                (Problem::Unexpected, format!("column {found} in place of column {wanted}"))
            }
            (None, _) => (Problem::Unexpected, format!("column {found} was not asked for")),
        };
        self.findings.report(problem, &row.key, detail)
    }

    fn verify_cell(&self, row: &Row, cell: &Cell, column: u64, seen: Seen) -> Result<(), Problem> {
        let number = self.first_cell.wrapping_add(column);
        let right = is_value(self.seed, number, cell.timestamp, self.value_len, &cell.value);
        let (problem, what) = match (seen, right) {
            (Seen::Good, true) => return Ok(()),
            (Seen::Stale, true) => {
                (Problem::StaleValue, "is older than a write acknowledged before the read")
            }
            (Seen::NeverWritten, _) => (Problem::NeverWritten, "was never written"),
            (_, false) => (Problem::WrongValue, "has other bytes than were written"),
        };
        let (version, len) = (cell.timestamp, cell.value.len());
        let wanted = self.value_len;
        let detail = format!(
            "column {column}, version {version}, {len} bytes of {wanted}: the value {what}"
        );
        Err(self.findings.report(problem, &row.key, detail))
    }
}
