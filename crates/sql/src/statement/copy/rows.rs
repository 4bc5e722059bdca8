//! Rows of a COPY from a client, made one by one.

use super::bulk::{DELTA_BYTES, DELTA_ROWS, RowLoad};
use super::options::{Format, Options};
use super::records::{Fields, Records};
use crate::statement::Run;
use crate::statement::change::{References, Writer};
use crate::values;
use relational::{Error, OnConflict, Result, Row, SqlState, Value};
use std::sync::Arc;

/// Rows that are inserted at once.
const BATCH_ROWS: usize = 1_000;
/// Longest value in the context of an error, in characters.
const SHOWN_MAX: usize = 100;

/// A COPY whose records become rows.
pub(crate) struct RowsIn {
    records: Records,
    fields: Fields,
    writer: Arc<Writer>,
    format: Format,
    /// Columns of the statement, by their number in a record, whose values are treated apart.
    force_not_null: Vec<bool>,
    force_null: Vec<bool>,
    null: String,
    batch: Vec<Row>,
    /// Bytes of the batch, if its rows may become segments.
    batch_bytes: usize,
    count: usize,
    /// Foreign keys of the table, once rows have come.
    references: Option<References>,
    /// Takes the rows of a columnar table if they are many.
    load: Option<RowLoad>,
}

/// Returns which of the columns that a COPY gives are named.
pub(super) fn forced(names: &[String], writer: &Writer) -> Vec<bool> {
    let all = names.iter().any(|name| name == "*");
    let columns = &writer.target.table.columns;
    let given = writer.given.iter().map(|place| &columns[*place].name);
    given.map(|name| all || names.contains(name)).collect()
}

impl RowsIn {
    /// Returns a COPY into the tree of its table, or by `load` into segments.
    pub(super) fn new(options: Options, writer: Arc<Writer>, load: Option<RowLoad>) -> Self {
        Self {
            force_not_null: forced(&options.force_not_null, &writer),
            force_null: forced(&options.force_null, &writer),
            null: options.null.clone(),
            format: options.format,
            records: Records::new(options),
            fields: Fields::default(),
            writer,
            batch: Vec::new(),
            batch_bytes: 0,
            count: 0,
            references: None,
            load,
        }
    }

    /// Returns the format code of the data.
    pub(super) fn format_code(&self) -> i16 {
        i16::from(self.format == Format::Binary)
    }

    /// Returns the number of columns.
    pub(super) fn columns(&self) -> usize {
        self.writer.given.len()
    }

    /// Takes a piece of data, and inserts the rows that are whole.
    pub(super) async fn push(&mut self, run: &mut Run<'_>, data: &[u8]) -> Result<()> {
        self.records.push(data)?;
        self.take(run, false).await
    }

    /// Takes the end of the data. Returns the tag.
    pub(super) async fn finish(&mut self, run: &mut Run<'_>) -> Result<String> {
        self.take(run, true).await?;
        if self.load.as_ref().is_some_and(RowLoad::has_begun) {
            self.write(run).await?;
        } else {
            self.insert(run).await?;
        }
        if let Some(load) = &mut self.load {
            load.finish(run).await?;
        }
        if let Some(references) = &mut self.references {
            references.finish(run).await?;
        }
        Ok(format!("COPY {}", self.count))
    }

    async fn take(&mut self, run: &mut Run<'_>, is_last: bool) -> Result<()> {
        while self.records.next(&mut self.fields, is_last).map_err(|e| self.placed(e, None))? {
            let values = self.values(run.settings.of_values())?;
            let row = self.writer.row(run, values).await.map_err(|e| self.placed(e, None))?;
            if self.load.is_some() {
                self.batch_bytes += row.iter().map(Value::memory_bytes).sum::<usize>();
            }
            self.batch.push(row);
            if self.is_full() {
                self.write(run).await?;
            }
        }
        Ok(())
    }

    /// Returns true if the batch is to be written.
    fn is_full(&self) -> bool {
        match self.load {
            Some(_) => self.batch.len() >= DELTA_ROWS || self.batch_bytes >= DELTA_BYTES,
            None => self.batch.len() >= BATCH_ROWS,
        }
    }

    /// Writes the batch: many rows of a columnar table into segments, all others into the tree.
    async fn write(&mut self, run: &mut Run<'_>) -> Result<()> {
        let Some(load) = &mut self.load else { return self.insert(run).await };
        run.flag.check()?;
        let rows = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        self.count += rows.len();
        load.push(run, rows).await
    }

    /// Inserts the batch into the tree of the table.
    async fn insert(&mut self, run: &mut Run<'_>) -> Result<()> {
        run.flag.check()?;
        let rows = std::mem::take(&mut self.batch);
        self.count += rows.len();
        let oid = self.writer.target.table.oid;
        let references = self.references.get_or_insert_with(|| References::of(run, oid));
        let kept = if references.is_needed() { rows.clone() } else { Vec::new() };
        run.transaction.insert(oid, rows, OnConflict::Fail).await?;
        for row in &kept {
            references.inserted(run, row).await?;
        }
        Ok(())
    }

    fn values(&self, settings: &values::Settings) -> Result<Vec<Option<Value>>> {
        let columns = &self.writer.target.table.columns;
        let given = &self.writer.given;
        if self.fields.len() > given.len() {
            let error = bad("extra data after last expected column");
            return Err(self.placed(error, None));
        }
        let mut values = Vec::with_capacity(given.len());
        for (number, place) in given.iter().enumerate() {
            let column = &columns[*place];
            if number >= self.fields.len() {
                let message = format!("missing data for column \"{}\"", column.name);
                return Err(self.placed(bad(message), None));
            }
            let mut bytes = self.fields.get(number);
            if self.format == Format::Csv {
                if bytes.is_none() && self.force_not_null[number] {
                    bytes = Some(self.null.as_bytes());
                }
                let is_null = bytes == Some(self.null.as_bytes());
                if is_null && self.force_null[number] && self.fields.is_quoted(number) {
                    bytes = None;
                }
            }
            let value = match bytes {
                None => Ok(Value::Null),
                Some(bytes) if self.format == Format::Binary => {
                    values::decode_binary(bytes, &column.data_type, settings)
                        .and_then(|value| values::fit(value, &column.data_type))
                }
                Some(bytes) => values::decode_text(bytes, &column.data_type, settings),
            };
            values.push(Some(value.map_err(|error| self.placed(error, Some(number)))?));
        }
        Ok(values)
    }

    /// Adds line and column to an error, as its context.
    fn placed(&self, mut error: Error, number: Option<usize>) -> Error {
        let table = &self.writer.target.table;
        let mut place = format!("COPY {}, line {}", table.name, self.records.line());
        if let Some(number) = number {
            let column = &table.columns[self.writer.given[number]].name;
            place.push_str(&format!(", column {column}"));
            if self.format != Format::Binary
                && let Some(bytes) = self.fields.get(number)
            {
                let text = String::from_utf8_lossy(bytes);
                let text: String = text.chars().take(SHOWN_MAX).collect();
                place.push_str(&format!(": \"{text}\""));
            }
        }
        error.context = Some(place);
        error
    }
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}
