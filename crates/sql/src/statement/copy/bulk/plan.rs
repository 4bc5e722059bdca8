//! From records to all columns of a table.

use super::columns::{of_parsed, repeated, rounded};
use super::errors::Failure;
use super::forms::{SessionForms, column_type};
use super::{BLOCK_BYTES, SEGMENT_BYTES};
use crate::query::arrow_type;
use crate::statement::change::Writer;
use crate::statement::copy::options::{Format, Options};
use crate::statement::copy::records::RECORD_BYTES_MAX;
use crate::statement::copy::rows::forced;
use crate::values::{Settings, round_moment};
use ::copy::{Block, Forms, Header, Limits, Parser, Splitter};
use datafusion::arrow::array::ArrayRef;
use relational::catalog::Table;
use relational::{DataType, Error, Result, Value};
use std::sync::Arc;

/// Rows that are read before it is looked at how long their values are.
const STEP_ROWS: usize = 1_024;

/// The place that the values of a column come from.
enum Source {
    /// A field of the records, by its number.
    Field(usize),
    /// One value for all rows.
    Value(Value),
}

/// Everything that the records of a COPY are read with.
pub(super) struct Plan {
    pub(super) table: Arc<Table>,
    options: ::copy::Options,
    /// Columns of the records, in their order.
    pub(super) fields: Vec<::copy::Column>,
    forms: SessionForms,
    /// Sources of the columns of the table, in their order.
    sources: Vec<Source>,
    /// Bytes that the columns of a row have without texts and bytes of any length.
    fixed_bytes: usize,
    /// Bytes of the texts of a row that its record does not have.
    repeated_bytes: usize,
}

impl Plan {
    /// Returns the plan of a COPY, which has `repeated` values at places that its records do not have.
    pub(super) fn new(
        options: &Options,
        writer: &Writer,
        repeated: Vec<(usize, Value)>,
        settings: &Settings,
    ) -> Self {
        let table = &writer.target.table;
        let nulls = forced(&options.force_null, writer);
        let not_nulls = forced(&options.force_not_null, writer);
        let mut sources: Vec<_> =
            table.columns.iter().map(|_| Source::Value(Value::Null)).collect();
        let mut fields = Vec::with_capacity(writer.given.len());
        for ((place, force_null), force_not_null) in writer.given.iter().zip(nulls).zip(not_nulls) {
            let column = &table.columns[*place];
            sources[*place] = Source::Field(fields.len());
            let field = ::copy::Column::new(&column.name, column_type(&column.data_type));
            fields.push(::copy::Column { force_null, force_not_null, ..field });
        }
        for (place, value) in repeated {
            let value = match table.columns[place].precision {
                Some(digits) => round_moment(value, digits),
                None => value,
            };
            sources[place] = Source::Value(value);
        }
        let fixed_bytes = table.columns.iter().map(|column| width(&column.data_type)).sum();
        let beside = |source: &Source| match source {
            Source::Field(_) => 0,
            Source::Value(value) => value.memory_bytes() - Value::Null.memory_bytes(),
        };
        let repeated_bytes = sources.iter().map(beside).sum();
        Self {
            fixed_bytes,
            repeated_bytes,
            table: Arc::clone(table),
            options: parser_options(options),
            fields,
            forms: SessionForms::new(&table.columns, settings),
            sources,
        }
    }

    /// Returns a splitter for the data of the client.
    pub(super) fn splitter(&self) -> Result<Splitter> {
        let limits = Limits { block_bytes: BLOCK_BYTES, record_bytes_max: RECORD_BYTES_MAX };
        let splitter = Splitter::new(&self.options, self.fields.len(), limits);
        splitter.map_err(|problem| self.failure(&problem).error)
    }

    /// Returns a problem of the data as a failure of the COPY.
    pub(super) fn failure(&self, problem: &::copy::Error) -> Failure {
        Failure::of_copy(problem, &self.table.name)
    }

    /// Returns the columns of the table from the fields of so many records.
    fn columns(&self, fields: &[ArrayRef], rows: usize) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::with_capacity(self.sources.len());
        for (source, column) in self.sources.iter().zip(&self.table.columns) {
            let array = match source {
                Source::Value(value) => repeated(value, &column.data_type, rows)?,
                Source::Field(number) => {
                    let field = fields.get(*number).ok_or_else(|| {
                        Error::internal("a field of the records of a COPY is missing")
                    })?;
                    of_parsed(Arc::clone(field), &column.data_type)?
                }
            };
            columns.push(match column.precision {
                Some(digits) => rounded(array, digits),
                None => array,
            });
        }
        Ok(columns)
    }
}

/// Returns the bytes of a value of a type in a column, roughly, without texts and bytes of any length.
fn width(data_type: &DataType) -> usize {
    arrow_type(data_type).primitive_width().unwrap_or(16)
}

/// Returns options as the crate `copy` has them.
fn parser_options(options: &Options) -> ::copy::Options {
    let format = match options.format {
        Format::Text => ::copy::Format::Text,
        Format::Csv => ::copy::Format::Csv,
        Format::Binary => ::copy::Format::Binary,
    };
    ::copy::Options {
        format,
        delimiter: options.delimiter,
        null: options.null.clone(),
        header: if options.has_header { Header::Skip } else { Header::None },
        quote: options.quote,
        escape: options.escape,
    }
}

/// Reads records into columns, on one thread at a time.
pub(super) struct Reader {
    plan: Arc<Plan>,
    parser: Parser,
    forms: Arc<SessionForms>,
    /// Bytes of the records that wait to be taken, and of values that the forms made of them.
    bytes: usize,
}

impl Reader {
    /// Returns a reader of the records of a plan.
    pub(super) fn new(plan: &Arc<Plan>) -> Result<Self> {
        let forms = Arc::new(plan.forms.again());
        let shared: Arc<dyn Forms> = forms.clone();
        let parser = Parser::new(&plan.options, plan.fields.clone(), shared);
        let parser = parser.map_err(|problem| plan.failure(&problem).error)?;
        Ok(Self { plan: Arc::clone(plan), parser, forms, bytes: 0 })
    }

    /// Reads records from the front of a block, until it is empty or `rows_max` rows wait to be taken. Stops
    /// before that if they have as many bytes as a segment, or as columns can have.
    pub(super) fn read(&mut self, block: &mut Block, rows_max: usize) -> Result<(), Failure> {
        loop {
            let before = block.len();
            let step = STEP_ROWS.min(SEGMENT_BYTES / (1 + self.plan.repeated_bytes)).max(1);
            let step = rows_max.min(self.rows() + step);
            let parsed = self.parser.parse(block, step);
            parsed.map_err(|problem| self.plan.failure(&problem))?;
            let read = before - block.len();
            self.bytes += read + self.forms.take_made();
            if read == 0 || block.is_empty() || self.rows() >= rows_max || self.is_full() {
                return Ok(());
            }
        }
    }

    /// Returns the number of rows that wait to be taken.
    pub(super) fn rows(&self) -> usize {
        self.parser.rows()
    }

    /// Returns the bytes of the rows that wait to be taken, roughly.
    pub(super) fn bytes(&self) -> usize {
        let (rows, plan) = (self.rows(), &self.plan);
        self.bytes.max(rows * plan.fixed_bytes) + rows * plan.repeated_bytes
    }

    /// Returns true if the rows make a whole segment.
    pub(super) fn is_full(&self) -> bool {
        self.rows() >= columnar::ROWS_MAX || self.bytes() >= SEGMENT_BYTES
    }

    /// Takes the rows, as columns of the whole table.
    pub(super) fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let rows = self.parser.rows();
        self.bytes = 0;
        let fields = self.parser.take();
        let fields = fields.map_err(|problem| self.plan.failure(&problem).error)?;
        self.plan.columns(&fields, rows)
    }
}
