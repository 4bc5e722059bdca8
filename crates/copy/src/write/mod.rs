//! Record batches to the bytes of COPY.
//!
//! 1. What is written here is read back as the same columns, by a parser of the same options.
//! 2. Columns have the Arrow types of [`ColumnType::arrow`](crate::ColumnType::arrow); others are XX000.

mod cell;
mod escape;
mod text_of;

use crate::column::Column;
use crate::error::{Error, Result, State};
use crate::forms::Forms;
use crate::options::{Format, Header, Options};
use crate::split::SIGNATURE;
use arrow_array::RecordBatch;
use cell::Cells;
use escape::Escapes;
use std::sync::Arc;

/// Last bytes of binary data.
const TRAILER: [u8; 2] = [0xff, 0xff];

/// Writes record batches as COPY TO sends them.
pub struct Writer {
    format: Format,
    header: Header,
    escapes: Escapes,
    columns: Vec<Column>,
    forms: Arc<dyn Forms>,
    scratch: Vec<u8>,
}

impl Writer {
    /// Returns a writer of rows with these columns. Refuses options that contradict each other.
    pub fn new(options: &Options, columns: Vec<Column>, forms: Arc<dyn Forms>) -> Result<Self> {
        options.check()?;
        columns.iter().try_for_each(Column::check)?;
        if columns.len() > i16::MAX as usize {
            return Err(Error::new(State::PROGRAM_LIMIT_EXCEEDED, "a row has too many columns"));
        }
        let escapes = Escapes::new(options, columns.len());
        let (format, header) = (options.format, options.header);
        Ok(Self { format, header, escapes, columns, forms, scratch: Vec::new() })
    }

    /// Appends what comes before the first row.
    pub fn head(&self, out: &mut Vec<u8>) {
        if self.format == Format::Binary {
            out.extend_from_slice(SIGNATURE);
            // No flags, and no extension.
            out.extend_from_slice(&[0; 8]);
        } else if self.header != Header::None {
            for (number, column) in self.columns.iter().enumerate() {
                self.escapes.separate(number, out);
                self.escapes.put(column.name.as_bytes(), false, out);
            }
            out.push(b'\n');
        }
    }

    /// Appends rows. XX000 if the batch has other columns than the writer.
    pub fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        if batch.num_columns() != self.columns.len() {
            return Err(Error::new(State::INTERNAL_ERROR, "a batch has other columns"));
        }
        let columns = self.columns.iter().zip(batch.columns());
        let cells: Vec<_> =
            columns.map(|(column, array)| Cells::of(column, array)).collect::<Result<_>>()?;
        for row in 0..batch.num_rows() {
            match self.format {
                Format::Binary => self.binary_row(&cells, row, out)?,
                _ => self.line(&cells, row, out)?,
            }
        }
        Ok(())
    }

    /// Appends what comes behind the last row.
    pub fn tail(&self, out: &mut Vec<u8>) {
        if self.format == Format::Binary {
            out.extend_from_slice(&TRAILER);
        }
    }

    fn line(&mut self, cells: &[Cells<'_>], row: usize, out: &mut Vec<u8>) -> Result<()> {
        for (number, cell) in cells.iter().enumerate() {
            self.escapes.separate(number, out);
            let column = &self.columns[number];
            if cell.is_null(row) {
                self.escapes.put_null(out);
            } else if let Some(text) = cell.text(row, column) {
                self.escapes.put(text, column.force_quote, out);
            } else if self.escapes.has_plain_numbers && cell.is_number() && !column.force_quote {
                cell.put_text(row, column, &*self.forms, out)?;
            } else {
                self.scratch.clear();
                cell.put_text(row, column, &*self.forms, &mut self.scratch)?;
                self.escapes.put(&self.scratch, column.force_quote, out);
            }
        }
        out.push(b'\n');
        Ok(())
    }

    fn binary_row(&mut self, cells: &[Cells<'_>], row: usize, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&(cells.len() as i16).to_be_bytes());
        for (cell, column) in cells.iter().zip(&self.columns) {
            if cell.is_null(row) {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            }
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            cell.put_binary(row, column, &*self.forms, out)?;
            let len = i32::try_from(out.len() - at - 4).map_err(|_| {
                let message = format!("a value of column \"{}\" is too long", column.name);
                Error::new(State::PROGRAM_LIMIT_EXCEEDED, message)
            })?;
            out[at..at + 4].copy_from_slice(&len.to_be_bytes());
        }
        Ok(())
    }
}
