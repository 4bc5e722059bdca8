//! Rows with all their cells in files of other programs: text, Avro, Parquet, SequenceFile.
//!
//! 1. What a writer wrote, a reader gives back: keys, families, qualifiers, timestamps and values,
//!    byte for byte and in their order.
//! 2. Memory does not grow with a row. A row with many cells is written as several consecutive
//!    records with one key ([`limits`]), and a reader gives the cells of a long record in parts.
//!    A program that writes the parts to a table in their order has the row.
//! 3. No length in a file is believed: an allocation is as long as the bytes that are there, and at
//!    most a limit.
//! 4. A row that was read keeps no block of its file in memory that is much larger than the row.

mod avro;
mod csv;
mod encoding;
pub mod fuzz;
mod input;
mod jsonl;
pub mod limits;
mod parquet;
mod sequence_file;
#[cfg(test)]
mod tests;
mod unpack;

use crate::error::{Error, Result};
use bytes::Bytes;
use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::sync::Arc;

pub use encoding::Encoding;
pub use jsonl::rejected_lines;

/// A cell of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Name of its column family.
    pub family: Arc<str>,
    /// Qualifier of the column that has it.
    pub qualifier: Bytes,
    /// Timestamp in microseconds since 1970.
    pub timestamp_micros: i64,
    /// Its value, which may be empty.
    pub value: Bytes,
}

/// A row, or some consecutive cells of a row that has many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Key of the row that has the cells.
    pub key: Bytes,
    /// Cells in the order of the table.
    pub cells: Vec<Cell>,
}

/// Format of a file of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, one cell a line.
    Csv,
    /// One JSON object a line, for each row.
    Jsonl,
    /// Avro object container file with the schema of Google's exports.
    Avro,
    /// Parquet with one record a cell.
    Parquet,
    /// Hadoop SequenceFile of HBase results, as Google's and HBase's exports write it.
    SequenceFile,
}

/// Compression inside of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are stored as they are.
    None,
    /// Snappy, which every reader of Avro and Parquet knows.
    Snappy,
    /// Zstandard, which is smaller and slower than Snappy.
    Zstd,
}

/// Options of a writer, for all formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Encoding of bytes in text formats.
    pub encoding: Encoding,
    /// Compression of blocks; Avro and Parquet have it.
    pub compression: Compression,
    /// Marker between the blocks of Avro and SequenceFiles, which should be random: a reader that
    /// begins inside of a file looks for it.
    pub sync: [u8; 16],
}

/// Writes rows to one file.
pub trait RowWriter: Send {
    /// Writes a row, which has a cell at least.
    fn write(&mut self, row: &Row) -> Result<()>;

    /// Writes all that is still in memory and the end of the file. A file without it is torn.
    fn finish(&mut self) -> Result<()>;

    /// Writes an end that readers refuse, because rows are missing. Most formats have no mark at their end, so
    /// a file that ends between two rows looks whole.
    fn tear(&mut self) -> Result<()>;
}

/// Reads the rows of one file.
pub trait RowReader: Send {
    /// Returns the next row, or the next cells of a long one; `None` at the end. No read may follow
    /// an error.
    fn next(&mut self) -> Result<Option<Row>>;

    /// Returns the bytes of the file that are read, about.
    fn offset(&self) -> u64;
}

/// Returns a writer of `format` to `output`, which should have a buffer.
pub fn writer(
    format: Format,
    options: WriteOptions,
    output: Box<dyn Write + Send>,
) -> Result<Box<dyn RowWriter>> {
    Ok(match format {
        Format::Csv => Box::new(csv::Writer::new(output, options.encoding)?),
        Format::Jsonl => Box::new(jsonl::Writer::new(output, options.encoding)),
        Format::Avro => Box::new(avro::Writer::new(output, options)?),
        Format::Parquet => Box::new(parquet::Writer::new(output, options)?),
        Format::SequenceFile => Box::new(sequence_file::Writer::new(output, options)?),
    })
}

/// Bytes of a file of rows, from its beginning to its end. A reader needs no buffer around it.
pub enum Source {
    /// A regular file, which is read from its beginning.
    File(File),
    /// Bytes that come once and in order. Parquet cannot be read from them: its directory is at the end.
    Stream(Box<dyn Read + Send>),
    /// A file that is in memory.
    Memory(Bytes),
}

impl Source {
    fn stream(self) -> Box<dyn Read + Send> {
        match self {
            Self::File(file) => Box::new(file),
            Self::Stream(stream) => stream,
            Self::Memory(bytes) => Box::new(Cursor::new(bytes)),
        }
    }
}

/// Returns a reader of `format` from the beginning of `source`. `Unsupported` if the format cannot be
/// read from such a source.
pub fn reader(format: Format, source: Source) -> Result<Box<dyn RowReader>> {
    Ok(match (format, source) {
        (Format::Csv, source) => Box::new(csv::Reader::new(source.stream())?),
        (Format::Jsonl, source) => Box::new(jsonl::Reader::new(source.stream())),
        (Format::Avro, source) => Box::new(avro::Reader::new(source.stream())?),
        (Format::SequenceFile, source) => Box::new(sequence_file::Reader::new(source.stream())?),
        (Format::Parquet, Source::File(file)) => Box::new(parquet::Reader::new(file)?),
        (Format::Parquet, Source::Memory(bytes)) => Box::new(parquet::Reader::new(bytes)?),
        (Format::Parquet, Source::Stream(_)) => {
            let reason = "Parquet cannot be read from a stream; save it to a file first";
            return Err(Error::Unsupported(reason.to_owned()));
        }
    })
}
