//! From columns of a table to its segments, on one thread at a time.

use super::errors::of_columnar;
use crate::query::{read_column, to_stored};
use columnar::{PageOptions, encode_segment};
use datafusion::arrow::array::{Array as _, ArrayRef};
use relational::catalog::Table;
use relational::{
    CancelFlag, Error, Result, SegmentLoad, SegmentWriter, SqlState, Value, WrittenSegments,
};
use std::sync::Arc;

/// Longest value that an error shows, in bytes.
const SHOWN_BYTES_MAX: usize = 64;

/// The table of a load, and the load. Cheap to clone.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) table: Arc<Table>,
    /// The name of the schema of the table, for errors.
    pub(super) schema: Arc<str>,
    pub(super) load: SegmentLoad,
    pub(super) flag: CancelFlag,
}

/// Writes segments of one thread. Dropped, it removes what it wrote.
pub(super) struct Segments {
    target: Target,
    /// Present from the first segment on.
    writer: Option<SegmentWriter>,
    rows: usize,
}

/// The segments that were written, and the number of their rows.
pub(super) struct Written {
    pub(super) segments: Option<WrittenSegments>,
    pub(super) rows: usize,
}

impl Segments {
    /// Returns segments that are to be written, none of them so far.
    pub(super) fn new(target: &Target) -> Self {
        Self { target: target.clone(), writer: None, rows: 0 }
    }

    /// Writes a segment of all columns of the table, in the table's order; nothing without a row. Blocks.
    pub(super) fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.target.flag.check()?;
        let rows = columns.first().map_or(0, |column| column.len());
        if rows == 0 {
            return Ok(());
        }
        self.target.check_not_null(columns)?;
        let stored = self.target.stored(columns)?;
        let segment = encode_segment(&stored, &PageOptions::default()).map_err(of_columnar)?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(self.target.load.writer()?),
        };
        let numbers = stored.iter().map(|(number, _)| *number);
        let pages = numbers.zip(segment.pages.iter().map(Vec::as_slice));
        writer.add(pages, segment.descriptor.encode())?;
        self.rows += rows;
        Ok(())
    }

    /// Ends the writing. Blocks until the segments are on disk.
    pub(super) fn finish(self) -> Result<Written> {
        let segments = self.writer.map(SegmentWriter::finish).transpose()?;
        Ok(Written { segments, rows: self.rows })
    }
}

impl Target {
    /// Returns columns in the form of pages, by ascending numbers.
    fn stored(&self, columns: &[ArrayRef]) -> Result<Vec<(u32, ArrayRef)>> {
        let mut stored = Vec::with_capacity(columns.len());
        for (array, column) in columns.iter().zip(&self.table.columns) {
            let number = u32::try_from(column.number);
            let number = number.map_err(|_| Error::internal("a column has no number"))?;
            stored.push((number, to_stored(array, &column.data_type)?));
        }
        stored.sort_by_key(|(number, _)| *number);
        Ok(stored)
    }

    /// Fails with 23502 for the first row that has NULL where none may be.
    fn check_not_null(&self, columns: &[ArrayRef]) -> Result<()> {
        let first = |(place, array): (usize, &ArrayRef)| {
            let is_checked = self.table.columns.get(place).is_some_and(|column| column.not_null);
            if !is_checked || array.null_count() == 0 {
                return None;
            }
            let row = (0..array.len()).find(|row| array.is_null(*row))?;
            Some((row, place))
        };
        match columns.iter().enumerate().filter_map(first).min() {
            Some((row, place)) => Err(self.null_violation(columns, row, place)?),
            None => Ok(()),
        }
    }

    /// Returns the error of a NULL, as tables of rows have it.
    fn null_violation(&self, columns: &[ArrayRef], row: usize, place: usize) -> Result<Error> {
        let mut shown = Vec::with_capacity(columns.len());
        for (array, column) in columns.iter().zip(&self.table.columns) {
            let values = read_column(&array.slice(row, 1), &column.data_type)?;
            shown.extend(values.iter().map(shortened));
        }
        let (table, name) = (&self.table.name, &self.table.columns[place].name);
        let message = format!(
            "null value in column \"{name}\" of relation \"{table}\" violates not-null constraint"
        );
        let error = Error::new(SqlState::NOT_NULL_VIOLATION, message);
        Ok(error
            .with_detail(format!("Failing row contains ({}).", shown.join(", ")))
            .of_table(&*self.schema, table)
            .of_column(name))
    }
}

/// Returns a value as an error shows it: with 64 bytes at most, as PostgreSQL does.
fn shortened(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > SHOWN_BYTES_MAX {
        let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
        text.truncate(end);
        text.push_str("...");
    }
    text
}
