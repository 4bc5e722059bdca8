//! The table `hits` of ClickBench, made from a seed: 105 columns of hits on web pages.
//! `docs/hits.md` gives the distributions and how they differ from the public data.
//!
//! 1. Row `r` is a function of the seed, `r` and, by its time, of the number of rows. So all ranges of
//!    rows can be made in any order and by many threads, and the bytes are the same.
//! 2. Rows come in the order of `EventTime`.
//! 3. All 43 queries of ClickBench select rows of a table of 1,000,000 rows or more.

mod columns;
mod model;
mod parallel;
mod record;
mod row;
#[cfg(test)]
mod tests;
mod text_form;

pub use columns::{COLUMNS, Column, ColumnType, SORT_KEY, create_table};
pub use row::{Row, Value};
pub use text_form::TextForm;

use std::io::{self, Write};
use std::ops::Range;

/// Bytes of text that are gathered before they are written.
const BUFFER_BYTES: usize = 128 << 10;

/// The table of a seed. Threads can share it.
#[derive(Debug)]
pub struct Hits {
    seed: u64,
    rows: u64,
    model: model::Model,
}

impl Hits {
    /// Returns the table of `rows` rows. Costs about a millisecond; no row is made yet.
    pub fn new(seed: u64, rows: u64) -> Self {
        Self { seed, rows, model: model::Model::new(seed, rows) }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Makes `row` the row of a number, whose old values are lost. Panics if there is no such row.
    pub fn fill(&self, number: u64, row: &mut Row) {
        assert!(number < self.rows, "row {number} of a table of {} rows", self.rows);
        record::fill(self, number, row);
    }

    /// Calls `each` with the rows of `range` in their order and stops at its first error, which it
    /// returns. Panics if the range goes past the last row.
    pub fn visit<E>(
        &self,
        range: Range<u64>,
        mut each: impl FnMut(&Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut row = Row::default();
        range.into_iter().try_for_each(|number| {
            self.fill(number, &mut row);
            each(&row)
        })
    }

    /// Writes the rows of `range` as lines in the text form of PostgreSQL's COPY. Panics if the range
    /// goes past the last row.
    ///
    /// # Errors
    /// An error of `out`; some of the lines may be written then.
    pub fn write_tsv(&self, range: Range<u64>, out: impl Write) -> io::Result<()> {
        self.write(TextForm::Tsv, range, out)
    }

    /// Writes the rows of `range` as lines of CSV without a header, as PostgreSQL's COPY reads them.
    /// Panics if the range goes past the last row.
    ///
    /// # Errors
    /// An error of `out`; some of the lines may be written then.
    pub fn write_csv(&self, range: Range<u64>, out: impl Write) -> io::Result<()> {
        self.write(TextForm::Csv, range, out)
    }

    /// Writes the rows of `range` as lines in a form. Panics if the range goes past the last row.
    ///
    /// # Errors
    /// An error of `out`; some of the lines may be written then.
    pub fn write(&self, form: TextForm, range: Range<u64>, mut out: impl Write) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + (8 << 10));
        self.visit(range, |row| {
            text_form::append_row(form, row, &mut buffer);
            if buffer.len() >= BUFFER_BYTES {
                out.write_all(&buffer)?;
                buffer.clear();
            }
            Ok::<_, io::Error>(())
        })?;
        out.write_all(&buffer)
    }

    /// Writes all rows as lines in a form and flushes `out`. `threads` threads make them, at least one;
    /// the bytes do not depend on their number. Each thread holds up to four blocks of 3 MB.
    ///
    /// # Errors
    /// An error of `out`; some of the lines may be written then.
    pub fn write_all(&self, form: TextForm, threads: u16, out: impl Write) -> io::Result<()> {
        parallel::write_all(self, form, threads, out)
    }
}
