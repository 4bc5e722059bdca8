//! Cells of a read as rows of a relation, batch by batch.
//!
//! 1. A row is handed over when it is complete, however many batches it runs over.
//! 2. The first value that cannot be read ends the scan. Rows before it may still be returned.

use std::collections::HashMap;
use std::sync::Arc;

use relational::catalog::{WideColumn, WideSource, WideTable};
use relational::{Bytes, Error, Row, Value};
use table::{RowOutput, YieldedCell};

use super::cells::{decode, placed};
use super::request::{Columns, Spec};
use super::{BATCH_BYTES_MAX, MICROS_TO_2000};
use crate::values::Settings;

/// Rows of a batch, up to the first error.
#[derive(Debug, Default)]
pub struct Found {
    /// Complete rows with the wanted columns.
    pub(super) rows: Vec<Row>,
    /// Bytes of the values in them, roughly.
    pub(super) bytes: usize,
    /// The error of a value that cannot be read.
    pub(super) error: Option<Error>,
}

/// Makes rows of a relation of cells.
pub struct WideRows {
    wide: Arc<WideTable>,
    columns: Columns,
    settings: Arc<Settings>,
    /// Places of declared columns by family and qualifier.
    places: HashMap<String, HashMap<Vec<u8>, Vec<usize>>>,
    key: Bytes,
    /// Values of the declared columns of the row in progress, if they came; where only presence counts, NULL.
    values: Vec<Option<Value>>,
    found: Found,
    /// True if the error of the batch is of the row in progress.
    is_own_error: bool,
    /// Rows and bytes of the batch when the row in progress began.
    begun: (usize, usize),
}

impl WideRows {
    pub(super) fn new(spec: &Spec, settings: Arc<Settings>) -> Self {
        let wide = Arc::clone(&spec.wide);
        let mut places: HashMap<String, HashMap<Vec<u8>, Vec<usize>>> = HashMap::new();
        for (place, column) in wide.columns.iter().enumerate() {
            if let WideSource::Newest { family, qualifier } = &column.source {
                let columns = places.entry(family.clone()).or_default();
                columns.entry(qualifier.clone()).or_default().push(place);
            }
        }
        let values = vec![None; wide.columns.len()];
        let (columns, key, found) = (spec.columns.clone(), Bytes::new(), Found::default());
        Self {
            wide,
            columns,
            settings,
            places,
            key,
            values,
            found,
            is_own_error: false,
            begun: (0, 0),
        }
    }

    /// Returns a value, or NULL after noting an error.
    fn value(&mut self, column: &WideColumn, bytes: &[u8]) -> Value {
        self.found.bytes += bytes.len() + size_of::<Value>();
        decode(bytes, column, &self.settings).unwrap_or_else(|error| {
            let error = placed(error, column, &self.wide.name, &self.key);
            self.found.error.get_or_insert(error);
            self.is_own_error = true;
            Value::Null
        })
    }

    /// Adds the row of one cell.
    fn add_cell(&mut self, cell: &YieldedCell<'_>) {
        let wide = Arc::clone(&self.wide);
        let mut row = Row::with_capacity(self.columns.wanted.len());
        for at in 0..self.columns.wanted.len() {
            let column = &wide.columns[self.columns.wanted[at]];
            row.push(match column.source {
                WideSource::Key => {
                    let key = self.key.clone();
                    self.value(column, &key)
                }
                WideSource::Family => self.value(column, cell.family.as_bytes()),
                WideSource::Qualifier => self.value(column, cell.qualifier),
                WideSource::Timestamp => {
                    Value::TimestampTz(cell.timestamp.0.saturating_sub(MICROS_TO_2000))
                }
                WideSource::Value => self.value(column, cell.value),
                WideSource::Newest { .. } => Value::Null,
            });
        }
        self.found.rows.push(row);
    }

    /// Keeps the newest value of a declared column.
    fn keep_newest(&mut self, cell: &YieldedCell<'_>) {
        let columns = self.places.get(&**cell.family);
        let Some(places) = columns.and_then(|columns| columns.get(cell.qualifier)) else { return };
        let wide = Arc::clone(&self.wide);
        for place in places.clone() {
            if self.values[place].is_some() {
                continue;
            }
            let is_wanted = self.columns.wanted.contains(&place);
            self.values[place] = Some(match is_wanted {
                true => self.value(&wide.columns[place], cell.value),
                false => Value::Null,
            });
        }
    }

    /// Adds the row of the declared columns, if the relation has it.
    fn add_newest(&mut self) {
        let Columns { required, any, .. } = &self.columns;
        let has = |place: &usize| self.values[*place].is_some();
        if !required.iter().all(has) || !(any.is_empty() || any.iter().any(has)) {
            return;
        }
        let wide = Arc::clone(&self.wide);
        let mut row = Row::with_capacity(self.columns.wanted.len());
        for at in 0..self.columns.wanted.len() {
            let place = self.columns.wanted[at];
            row.push(match wide.columns[place].source {
                WideSource::Key => {
                    let key = self.key.clone();
                    self.value(&wide.columns[place], &key)
                }
                _ => self.values[place].take().unwrap_or_default(),
            });
        }
        self.found.rows.push(row);
    }
}

impl RowOutput for WideRows {
    type Batch = Found;

    fn start(&mut self, key: &[u8]) {
        self.key = Bytes::copy_from_slice(key);
        self.values.iter_mut().for_each(|value| *value = None);
        self.begun = (self.found.rows.len(), self.found.bytes);
        self.is_own_error = false;
    }

    fn cell(&mut self, cell: &YieldedCell<'_>) {
        if self.found.error.is_some() {
            return;
        }
        match self.wide.has_cells() {
            true => self.add_cell(cell),
            false => self.keep_newest(cell),
        }
    }

    fn end(&mut self) {
        if self.found.error.is_none() && !self.wide.has_cells() {
            self.add_newest();
        }
    }

    fn forget(&mut self) {
        self.found.rows.truncate(self.begun.0);
        self.found.bytes = self.begun.1;
        if self.is_own_error {
            self.found.error = None;
        }
    }

    fn scanned(&mut self, _key: &[u8]) {}

    fn take(&mut self) -> Found {
        std::mem::take(&mut self.found)
    }

    fn batch_bytes_max(&self) -> usize {
        BATCH_BYTES_MAX
    }
}
