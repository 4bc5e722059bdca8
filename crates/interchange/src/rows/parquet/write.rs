//! Writes Parquet, one row group after the other.
//!
//! A row group is in memory until it is complete: at most [`GROUP_BYTES`] or [`GROUP_CELLS`], and one
//! record more.

use crate::error::{Error, Result};
use crate::rows::{Compression, Row, RowWriter, WriteOptions};
use bytes::Bytes;
use parquet::basic::{self, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::sync::Arc;

/// Bytes of cells after which a row group ends.
const GROUP_BYTES: usize = 32 << 20;
/// Cells after which a row group ends.
const GROUP_CELLS: usize = 1 << 20;
/// Bytes of values that are given to the encoder at a time, so that a page does not get much larger.
const PAGE_BYTES: usize = 1 << 20;
/// Values that are given to the encoder at a time.
const PAGE_VALUES: usize = 1024;

const SCHEMA: &str = "message cells {
    required binary key;
    required binary family (STRING);
    required binary qualifier;
    required int64 timestamp (TIMESTAMP(MICROS,true));
    required binary value;
}";

/// Writes cells to a Parquet file.
pub(in crate::rows) struct Writer {
    file: SerializedFileWriter<Box<dyn Write + Send>>,
    group: Group,
}

/// Cells of the row group that is not written yet, by column.
#[derive(Default)]
struct Group {
    keys: Vec<ByteArray>,
    families: Vec<ByteArray>,
    qualifiers: Vec<ByteArray>,
    timestamps: Vec<i64>,
    values: Vec<ByteArray>,
    bytes: usize,
}

impl Writer {
    pub(in crate::rows) fn new(
        output: Box<dyn Write + Send>,
        options: WriteOptions,
    ) -> Result<Self> {
        let compression = match options.compression {
            Compression::None => basic::Compression::UNCOMPRESSED,
            Compression::Snappy => basic::Compression::SNAPPY,
            Compression::Zstd => basic::Compression::ZSTD(ZstdLevel::default()),
        };
        let properties = WriterProperties::builder()
            .set_created_by("Stele".to_owned())
            .set_compression(compression)
            // Values seldom repeat, and their dictionary would stay in memory.
            .set_column_dictionary_enabled(ColumnPath::from("value"), false)
            .build();
        let schema = parse_message_type(SCHEMA).map_err(failed)?;
        let file = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties));
        Ok(Self { file: file.map_err(failed)?, group: Group::default() })
    }

    fn end_group(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        if group.timestamps.is_empty() {
            return Ok(());
        }
        let mut write = || {
            let mut columns = self.file.next_row_group()?;
            column::<ByteArrayType>(&mut columns, &group.keys, ByteArray::len)?;
            column::<ByteArrayType>(&mut columns, &group.families, ByteArray::len)?;
            column::<ByteArrayType>(&mut columns, &group.qualifiers, ByteArray::len)?;
            column::<Int64Type>(&mut columns, &group.timestamps, |_| size_of::<i64>())?;
            column::<ByteArrayType>(&mut columns, &group.values, ByteArray::len)?;
            columns.close()
        };
        write().map_err(failed)?;
        Ok(())
    }
}

impl RowWriter for Writer {
    fn write(&mut self, row: &Row) -> Result<()> {
        let (group, key) = (&mut self.group, ByteArray::from(row.key.clone()));
        for cell in &row.cells {
            let family = match group.families.last() {
                Some(last) if last.data() == cell.family.as_bytes() => last.clone(),
                _ => Bytes::copy_from_slice(cell.family.as_bytes()).into(),
            };
            group.keys.push(key.clone());
            group.families.push(family);
            group.qualifiers.push(cell.qualifier.clone().into());
            group.timestamps.push(cell.timestamp_micros);
            group.values.push(cell.value.clone().into());
            group.bytes += cell.bytes() + row.key.len();
        }
        match group.bytes >= GROUP_BYTES || group.timestamps.len() >= GROUP_CELLS {
            true => self.end_group(),
            false => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.end_group()?;
        self.file.finish().map_err(failed)?;
        Ok(self.file.flush()?)
    }

    fn tear(&mut self) -> Result<()> {
        self.end_group()?;
        // A file without the magic number at its end is no Parquet file.
        self.file.write_all(b"torn")?;
        Ok(self.file.flush()?)
    }
}

/// Writes the next column of a row group, `len` bytes of it at a time.
fn column<T: DataType>(
    columns: &mut SerializedRowGroupWriter<'_, Box<dyn Write + Send>>,
    values: &[T::T],
    len: impl Fn(&T::T) -> usize,
) -> std::result::Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns".to_owned());
    let mut column = columns.next_column()?.ok_or_else(missing)?;
    let mut rest = values;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |value: &&T::T| {
            let fits = bytes < PAGE_BYTES;
            bytes += len(value);
            fits
        };
        let count = rest.iter().take(PAGE_VALUES).take_while(fits).count();
        let (now, later) = rest.split_at(count);
        column.typed::<T>().write_batch(now, None, None)?;
        rest = later;
    }
    column.close()
}

/// Converts the error of a write; nothing but the output can be at fault.
fn failed(error: ParquetError) -> Error {
    match error {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) => Error::Io(*error),
            Err(error) => Error::Io(std::io::Error::other(error)),
        },
        error => Error::Io(std::io::Error::other(error)),
    }
}
