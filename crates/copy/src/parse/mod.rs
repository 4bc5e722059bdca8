//! Turns blocks of records into columns.
//!
//! A parser belongs to one thread; blocks of one stream can go to several parsers. Whole blocks are first
//! checked for UTF-8, zero bytes and line ends of another kind (`check.rs`), so that reading a record need
//! not look for them. Numbers, dates and times are then read where they begin, without a search for their
//! end; other fields are searched for the delimiter.
//!
//! 1. A row is in all columns or in none. After an error the parser is empty.
//! 2. The fast ways and the plain one (`record.rs`) agree about every record.

mod binary;
mod check;
mod csv;
mod near;
mod record;
mod text;

use crate::block::Block;
use crate::build::{COLUMN_BYTES_MAX, ColumnBuilder};
use crate::column::Column;
use crate::error::{Error, Result, State};
use crate::forms::Forms;
use crate::options::{Format, Header, Options};
use arrow_array::ArrayRef;
use record::{Field, split_record};
use std::sync::Arc;

pub(crate) use record::Shape;

/// Bytes for values with escapes that a parser keeps between batches.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Parses blocks of records into columns.
pub struct Parser {
    shape: Shape,
    header: Header,
    columns: Vec<ColumnBuilder>,
    forms: Arc<dyn Forms>,
    rows: usize,
    /// Bytes of the records of the rows.
    bytes: usize,
    scratch: Vec<u8>,
}

impl Parser {
    /// Returns a parser of records with these columns. Refuses options that contradict each other, and
    /// numerics that Arrow does not have.
    pub fn new(options: &Options, columns: Vec<Column>, forms: Arc<dyn Forms>) -> Result<Self> {
        options.check()?;
        columns.iter().try_for_each(Column::check)?;
        Ok(Self {
            shape: Shape::of(options),
            header: options.header,
            columns: columns.into_iter().map(ColumnBuilder::new).collect(),
            forms,
            rows: 0,
            bytes: 0,
            scratch: Vec::new(),
        })
    }

    /// Returns the number of rows that wait to be taken.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Parses records from the front of a block, until the block is empty, or the parser has `rows_max`
    /// rows or as many bytes as a batch can have. If the block is not empty then, take the rows and call
    /// it again. 54000 if `rows_max` is zero or a record is too long for any batch.
    pub fn parse(&mut self, block: &mut Block, rows_max: usize) -> Result<()> {
        if self.bytes + block.len() > COLUMN_BYTES_MAX {
            if self.rows > 0 {
                return Ok(());
            }
            let message = format!("a block has more than {COLUMN_BYTES_MAX} bytes");
            return Err(Error::new(State::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let rows_max = rows_max.min(u32::MAX as usize);
        if rows_max == 0 {
            return Err(Error::new(State::PROGRAM_LIMIT_EXCEEDED, "a batch has at least a row"));
        }
        let before = block.at;
        let parsed = match self.shape.format {
            Format::Binary => self.parse_binary(block, rows_max),
            Format::Text | Format::Csv => self.parse_lines(block, rows_max),
        };
        if parsed.is_err() {
            self.clear();
        }
        self.bytes += block.at - before;
        parsed
    }

    /// Returns the rows as one array a column, in the order of the columns.
    pub fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
        self.columns.iter_mut().map(|column| column.finish(rows)).collect()
    }

    fn clear(&mut self) {
        (self.rows, self.bytes) = (0, 0);
        self.columns.iter_mut().for_each(ColumnBuilder::clear);
    }

    /// Parses records of text or CSV.
    fn parse_lines(&mut self, block: &mut Block, rows_max: usize) -> Result<()> {
        if block.checked.is_none() {
            block.checked = Some(check::check(block, &self.shape));
        }
        if block.has_header {
            self.read_header(block)?;
            block.has_header = false;
        }
        let parsed = match self.shape.format {
            Format::Csv => self.parse_csv(block, rows_max),
            _ => self.parse_text(block, rows_max),
        };
        if let Err(problem) = parsed {
            return Err(self.placed(*problem, block));
        }
        if let Some(checked) = &block.checked
            && let Some(problem) = &checked.problem
            && block.at == checked.sound
            && self.rows < rows_max
        {
            return Err(problem.clone());
        }
        Ok(())
    }

    /// Reads the names of columns.
    fn read_header(&mut self, block: &mut Block) -> Result<()> {
        let (sound, problem) = match &block.checked {
            Some(checked) => (checked.sound, checked.problem.clone()),
            None => (block.data().len(), None),
        };
        let data = &block.data()[..sound];
        if data.is_empty()
            && let Some(problem) = problem
        {
            return Err(problem);
        }
        let (line, end) = check::record_at(data, 0, &self.shape, block.line_end);
        let line_number = block.first_line();
        if self.header == Header::Match {
            let names = self.columns.iter().map(|column| column.column.name.as_str());
            match_header(line, names.collect(), &self.shape)
                .map_err(|error| error.at_line(line_number).showing_line(line))?;
        }
        block.at = end;
        Ok(())
    }

    /// Adds the place of a record to the error of one of its values.
    fn placed(&self, problem: Problem, block: &Block) -> Error {
        let Problem { error, at, part } = problem;
        if let Part::Byte(place) = part {
            return error.at_line(block.line_at(place));
        }
        let (line, _) = check::record_at(block.data(), at, &self.shape, block.line_end);
        let line_number = block.line_at(at + line.len());
        // PostgreSQL cuts a record into fields and counts them before it reads the first of them.
        let error = match split_record(line, &self.shape) {
            Err(error) => error,
            Ok(fields) if fields.len() > self.columns.len() => extra_data(),
            Ok(_) => match part {
                Part::Value(column, value) => {
                    let name = self.columns.get(column).map_or("", |column| &column.column.name);
                    error.in_column(name, Some(&value))
                }
                _ => error,
            },
        };
        error.at_line(line_number).showing_line(line)
    }
}

/// An error of a record of text or CSV.
struct Problem {
    error: Error,
    /// Place of the record in its block.
    at: usize,
    part: Part,
}

/// The part of a record that is wrong.
enum Part {
    /// The byte at a place of the block, for which the record is not even cut into fields.
    Byte(usize),
    Record,
    /// The value of a column, by the column's number. It is cut to what is shown.
    Value(usize, Vec<u8>),
}

impl Problem {
    fn of_byte(error: Error, at: usize, place: usize) -> Box<Self> {
        Box::new(Self { error, at, part: Part::Byte(place) })
    }

    fn of_record(error: Error, at: usize) -> Box<Self> {
        Box::new(Self { error, at, part: Part::Record })
    }

    fn of_value(error: Error, at: usize, column: usize, value: &[u8]) -> Box<Self> {
        // Enough to show that the value was cut.
        let value = value[..value.len().min(2 * crate::error::SHOWN_BYTES_MAX)].to_vec();
        Box::new(Self { error, at, part: Part::Value(column, value) })
    }
}

fn extra_data() -> Error {
    Error::format("extra data after last expected column")
}

fn missing_data(column: &str) -> Error {
    Error::format(format!("missing data for column \"{column}\""))
}

fn match_header(line: &[u8], names: Vec<&str>, shape: &Shape) -> Result<()> {
    let fields = split_record(line, shape)?;
    if fields.len() != names.len() {
        let (got, expected) = (fields.len(), names.len());
        let message =
            format!("wrong number of fields in header line: got {got}, expected {expected}");
        return Err(Error::format(message));
    }
    for ((field, name), number) in fields.iter().zip(names).zip(1..) {
        let Field { bytes, is_null } = field;
        if !is_null && bytes == name.as_bytes() {
            continue;
        }
        let got = match is_null {
            true => format!("null value (\"{}\")", String::from_utf8_lossy(&shape.null)),
            false => format!("\"{}\"", crate::error::shorten(bytes)),
        };
        let message = format!(
            "column name mismatch in header line field {number}: got {got}, expected \"{name}\""
        );
        return Err(Error::format(message));
    }
    Ok(())
}
