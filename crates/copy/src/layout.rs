//! From the columns that a statement names to all columns of a table.

use crate::column::Column;
use crate::error::{Error, Result, State};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use std::sync::Arc;

/// Places of the columns of a COPY in a table.
#[derive(Debug, Clone)]
pub struct Layout {
    schema: SchemaRef,
    /// Number of the column in the records, for each column of the table.
    sources: Vec<Option<usize>>,
    named: usize,
}

impl Layout {
    /// Returns the layout of a table of whose columns `named` are in the records, in this order.
    /// XX000 if a place is named twice or does not exist.
    pub fn new(table: &[Column], named: &[usize]) -> Result<Self> {
        let mut sources = vec![None; table.len()];
        for (number, place) in named.iter().enumerate() {
            match sources.get_mut(*place) {
                Some(source @ None) => *source = Some(number),
                _ => return Err(Error::new(State::INTERNAL_ERROR, "a column is named twice")),
            }
        }
        let fields: Vec<_> = table.iter().map(Column::field).collect();
        Ok(Self { schema: Arc::new(Schema::new(fields)), sources, named: named.len() })
    }

    /// Returns the schema of the batches: all columns of the table.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns rows of the table. `fill` gives the values of a column that the records do not have, by
    /// its place in the table, or nothing for NULL. XX000 if a column has another type or length.
    pub fn batch(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
        mut fill: impl FnMut(usize, usize) -> Result<Option<ArrayRef>>,
    ) -> Result<RecordBatch> {
        let wrong = |error: ArrowError| Error::new(State::INTERNAL_ERROR, error.to_string());
        if columns.len() != self.named {
            return Err(Error::new(State::INTERNAL_ERROR, "a batch has other columns"));
        }
        let mut all = Vec::with_capacity(self.sources.len());
        for (place, source) in self.sources.iter().enumerate() {
            all.push(match source {
                Some(number) => Arc::clone(&columns[*number]),
                None => match fill(place, rows)? {
                    Some(column) => column,
                    None => new_null_array(self.schema.field(place).data_type(), rows),
                },
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), all, &options).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ColumnType;
    use arrow_array::{Array, Int32Array};

    #[test]
    fn columns_that_are_not_named_are_filled() {
        let table = ["a", "b", "c"].map(|name| Column::new(name, ColumnType::Int4));
        let layout = Layout::new(&table, &[2, 0]).unwrap();
        let column = |values: [i32; 2]| Arc::new(Int32Array::from_iter_values(values)) as ArrayRef;
        let columns = vec![column([1, 2]), column([3, 4])];
        let batch = layout.batch(columns.clone(), 2, |_, _| Ok(None)).unwrap();
        assert_eq!(batch.column(0), &column([3, 4]));
        assert_eq!(batch.column(1).null_count(), 2);
        assert_eq!(batch.column(2), &column([1, 2]));
        let filled = layout.batch(columns.clone(), 2, |place, rows| {
            assert_eq!((place, rows), (1, 2));
            Ok(Some(column([7, 7])))
        });
        assert_eq!(filled.unwrap().column(1), &column([7, 7]));
        let short = layout
            .batch(columns, 2, |_, _| Ok(Some(Arc::new(Int32Array::from(vec![1])) as ArrayRef)));
        assert_eq!(short.unwrap_err().state(), State::INTERNAL_ERROR);
        assert!(Layout::new(&table, &[1, 1]).is_err());
        assert!(Layout::new(&table, &[3]).is_err());
    }
}
