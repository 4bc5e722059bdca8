//! Write batches.

use crate::errors::invalid;
use crate::read::{Timestamps, timestamp_range};
use engine::{BATCH_BYTES_MAX, QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX};
use engine::{Column, FamilyId, Operand, Operator, Timestamp};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;

/// Mutations of one tree that take effect together, or not at all.
///
/// Mutations apply in order: a put after a delete survives, a put before it does not. A batch can
/// be written more than once, to any tree, and changed in between.
#[pyclass(frozen, module = "stele")]
pub(crate) struct WriteBatch {
    /// Shared with the call that writes it, and changed by copying while such a call has it.
    batch: Mutex<Arc<engine::WriteBatch>>,
}

/// The column, family or row that a delete names.
pub(crate) fn delete_target(family: Option<u16>, qualifier: Option<&[u8]>) -> PyResult<Column<'_>> {
    match (family.map(FamilyId), qualifier) {
        (Some(family), Some(qualifier)) => Ok(Column::of(family, qualifier)),
        (Some(family), None) => Ok(Column::family(family)),
        (None, None) => Ok(Column::ROW),
        (None, Some(_)) => Err(invalid("a qualifier needs a family")),
    }
}

/// Refuses what is over a limit, before memory is taken for it.
fn check(row: &[u8], qualifier: &[u8], value: &[u8]) -> PyResult<()> {
    for (what, bytes, max) in [
        ("row key", row, ROW_BYTES_MAX),
        ("qualifier", qualifier, QUALIFIER_BYTES_MAX),
        ("value", value, VALUE_BYTES_MAX),
    ] {
        if bytes.len() > max {
            let len = bytes.len();
            return Err(invalid(format!("{what} of {len} bytes is over the limit of {max} bytes")));
        }
    }
    Ok(())
}

impl WriteBatch {
    /// Returns the current contents of the batch.
    pub(crate) fn now(&self) -> Arc<engine::WriteBatch> {
        Arc::clone(&self.batch.lock())
    }

    /// Adds `bytes` and a little more by `add`, if the batch may grow so far.
    fn add(&self, bytes: usize, add: impl FnOnce(&mut engine::WriteBatch)) -> PyResult<()> {
        let mut batch = self.batch.lock();
        if batch.encoded_len() + bytes > BATCH_BYTES_MAX {
            return Err(invalid(format!(
                "the batch would exceed the limit of {BATCH_BYTES_MAX} bytes; write it and start \
                 another"
            )));
        }
        add(Arc::make_mut(&mut batch));
        Ok(())
    }
}

#[pymethods]
impl WriteBatch {
    #[new]
    fn new() -> Self {
        Self { batch: Mutex::default() }
    }

    /// Writes a cell, replacing the cell of the same row, column and timestamp.
    ///
    /// Families are 1 to 65535. The timestamp is the cell's version, by convention microseconds
    /// since 1970. Without timestamps a column has one version, which every put replaces.
    #[pyo3(signature = (row, family, qualifier, value, timestamp = 0))]
    fn put(
        &self,
        row: &[u8],
        family: u16,
        qualifier: &[u8],
        value: &[u8],
        timestamp: i64,
    ) -> PyResult<()> {
        check(row, qualifier, value)?;
        let column = Column::of(FamilyId(family), qualifier);
        self.add(row.len() + qualifier.len() + value.len(), |batch| {
            batch.put(row, column, Timestamp(timestamp), value);
        })
    }

    /// Merges a 64-bit integer into a cell with "sum", "min" or "max".
    ///
    /// Reads return the cell as eight bytes, a big-endian integer.
    #[pyo3(signature = (row, family, qualifier, operator, operand, timestamp = 0))]
    fn merge(
        &self,
        row: &[u8],
        family: u16,
        qualifier: &[u8],
        operator: &str,
        operand: i64,
        timestamp: i64,
    ) -> PyResult<()> {
        check(row, qualifier, &[])?;
        let operator = match operator {
            "sum" => Operator::SumInt64,
            "min" => Operator::MinInt64,
            "max" => Operator::MaxInt64,
            other => {
                return Err(invalid(format!("invalid operator {other:?}; use sum, min or max")));
            }
        };
        let column = Column::of(FamilyId(family), qualifier);
        self.add(row.len() + qualifier.len(), |batch| {
            let operand = Operand { operator, value: operand };
            batch.merge(row, column, Timestamp(timestamp), operand);
        })
    }

    /// Deletes a column of a row, or a whole family, or the whole row if no family is given.
    ///
    /// `timestamps` is a half-open range `(start, end)` of versions; an `end` of None is unbounded.
    /// Without it all versions are deleted. Cells written later survive, whatever their timestamp.
    #[pyo3(signature = (row, family = None, qualifier = None, *, timestamps = None))]
    fn delete(
        &self,
        row: &[u8],
        family: Option<u16>,
        qualifier: Option<&[u8]>,
        timestamps: Option<Timestamps>,
    ) -> PyResult<()> {
        check(row, qualifier.unwrap_or_default(), &[])?;
        let column = delete_target(family, qualifier)?;
        self.add(row.len() + column.qualifier.len(), |batch| {
            batch.delete(row, column, timestamp_range(timestamps));
        })
    }

    /// Deletes all rows from `start` (inclusive) to `end` (exclusive; None is unbounded).
    #[pyo3(signature = (start, end = None))]
    fn drop_row_range(&self, start: &[u8], end: Option<&[u8]>) -> PyResult<()> {
        check(start, &[], &[])?;
        check(end.unwrap_or_default(), &[], &[])?;
        let bytes = start.len() + end.map_or(0, <[u8]>::len);
        self.add(bytes, |batch| batch.drop_row_range(start, end))
    }

    /// Removes all mutations.
    fn clear(&self) {
        Arc::make_mut(&mut self.batch.lock()).clear();
    }

    /// Number of mutations.
    fn __len__(&self) -> usize {
        self.batch.lock().len()
    }

    fn __repr__(&self) -> String {
        let batch = self.batch.lock();
        format!("<stele.WriteBatch of {} mutations, {} bytes>", batch.len(), batch.encoded_len())
    }
}
