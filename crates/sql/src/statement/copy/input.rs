//! Rows of a COPY from a client.

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

/// A COPY from a client.
pub(crate) struct CopyIn {
    records: Records,
    fields: Fields,
    writer: Arc<Writer>,
    format: Format,
    /// Columns of the statement, by their number in a record, whose values are treated apart.
    force_not_null: Vec<bool>,
    force_null: Vec<bool>,
    null: String,
    batch: Vec<Row>,
    count: usize,
    /// Foreign keys of the table, once rows have come.
    references: Option<References>,
}

impl CopyIn {
    pub(super) fn new(options: Options, writer: Arc<Writer>) -> Self {
        let forced = |names: &[String]| {
            let all = names.iter().any(|name| name == "*");
            let columns = &writer.target.table.columns;
            let given = writer.given.iter().map(|place| &columns[*place].name);
            given.map(|name| all || names.contains(name)).collect()
        };
        Self {
            force_not_null: forced(&options.force_not_null),
            force_null: forced(&options.force_null),
            null: options.null.clone(),
            format: options.format,
            records: Records::new(options),
            fields: Fields::default(),
            writer,
            batch: Vec::new(),
            count: 0,
            references: None,
        }
    }

    /// Returns the format code of the data.
    pub(crate) fn format_code(&self) -> i16 {
        i16::from(self.format == Format::Binary)
    }

    /// Returns the number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.writer.given.len()
    }

    /// Takes a piece of data, and inserts the rows that are whole.
    pub(crate) async fn push(&mut self, run: &mut Run<'_>, data: &[u8]) -> Result<()> {
        self.records.push(data)?;
        self.take(run, false).await
    }

    /// Takes the end of the data. Returns the tag.
    pub(crate) async fn finish(&mut self, run: &mut Run<'_>) -> Result<String> {
        self.take(run, true).await?;
        self.write(run).await?;
        if let Some(references) = &mut self.references {
            references.finish(run).await?;
        }
        Ok(format!("COPY {}", self.count))
    }

    async fn take(&mut self, run: &mut Run<'_>, is_last: bool) -> Result<()> {
        while self.records.next(&mut self.fields, is_last).map_err(|e| self.placed(e, None))? {
            let values = self.values(run.settings.of_values())?;
            let row = self.writer.row(run, values).await.map_err(|e| self.placed(e, None))?;
            self.batch.push(row);
            if self.batch.len() >= BATCH_ROWS {
                self.write(run).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, run: &mut Run<'_>) -> Result<()> {
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
