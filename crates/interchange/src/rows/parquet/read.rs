//! Reads Parquet cell by cell, so that memory holds a page of each column and one record.
//!
//! 1. Every cell is copied out of its page: a row that was read keeps no page in memory.
//! 2. A panic of the `parquet` crate is an error of the file. The crate is meant for files of friends.
//! 3. No cell is left out: each column of a row group ends with the group, and the groups have as many
//!    cells as the file says.

use super::pages::{Input, Pages};
use super::{COLUMNS, footer};
use crate::error::{Error, Place, Result};
use crate::rows::limits::{self, RecordCells};
use crate::rows::{Cell, Row, RowReader};
use bytes::Bytes;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::ColumnDescriptor;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Reads the cells of a Parquet file.
pub(in crate::rows) struct Reader<R: ChunkReader + 'static> {
    input: Input<R>,
    metadata: ParquetMetaData,
    /// Index in the file of each of [`COLUMNS`].
    places: [usize; COLUMNS.len()],
    unit: Unit,
    /// Row groups that are read or begun, and the bytes that lie before the open one.
    groups: usize,
    bytes: u64,
    columns: Option<Columns>,
    /// Cells that are read, of the whole file.
    cells: u64,
    /// The first cell of the next record.
    next: Option<(Bytes, Cell)>,
    family: Arc<str>,
}

/// The columns of one row group.
struct Columns {
    key: Column<ByteArrayType>,
    family: Column<ByteArrayType>,
    qualifier: Column<ByteArrayType>,
    timestamp: Column<Int64Type>,
    value: Column<ByteArrayType>,
    /// Cells of the group, and how many are left to read.
    cells: u64,
    left: u64,
    /// Bytes that it takes in the file.
    bytes: u64,
}

/// One column of a row group.
struct Column<T: DataType> {
    name: &'static str,
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
    levels: Vec<i16>,
}

/// The unit of a file's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl<R: ChunkReader + 'static> Reader<R> {
    pub(in crate::rows) fn new(input: R) -> Result<Self> {
        let metadata = guarded(0, || footer::read(&input))?;
        let input = Input::new(input);
        let schema = metadata.file_metadata().schema_descr();
        let mut places = [0; COLUMNS.len()];
        for (name, place) in COLUMNS.iter().zip(&mut places) {
            let named = |column: &Arc<ColumnDescriptor>| column.path().parts() == [*name];
            *place = schema.columns().iter().position(named).ok_or_else(strange)?;
        }
        let is_flat = |column: &Arc<ColumnDescriptor>| column.max_rep_level() == 0;
        if schema.num_columns() != COLUMNS.len() || !schema.columns().iter().all(is_flat) {
            return Err(strange());
        }
        for (name, &place) in COLUMNS.iter().zip(&places) {
            let wanted = if *name == "timestamp" { Type::INT64 } else { Type::BYTE_ARRAY };
            if schema.column(place).physical_type() != wanted {
                return Err(strange());
            }
        }
        let unit = Unit::of(&schema.column(places[3]))?;
        let family = "".into();
        let (groups, bytes, columns, cells, next) = (0, 0, None, 0, None);
        Ok(Self { input, metadata, places, unit, groups, bytes, columns, cells, next, family })
    }

    /// Opens the next row group; `false` at the end of the file.
    fn next_group(&mut self) -> Result<bool> {
        let at = self.cells;
        let malformed = |reason| Error::Malformed { place: Place::Record(at + 1), reason };
        if let Some(mut done) = self.columns.take() {
            done.check_end().map_err(malformed)?;
            self.bytes += done.bytes;
        }
        let Some(metadata) = self.metadata.row_groups().get(self.groups) else {
            let all = self.metadata.file_metadata().num_rows();
            if u64::try_from(all) != Ok(at) {
                return Err(malformed(format!("the file has {at} cells and claims {all}")));
            }
            return Ok(false);
        };
        let negative = |_| malformed("a row group with a negative length".to_owned());
        let cells = u64::try_from(metadata.num_rows()).map_err(negative)?;
        let bytes = u64::try_from(metadata.compressed_size()).map_err(negative)?;
        let pages = |index: usize| {
            let column = metadata.column(self.places[index]);
            Pages::new(self.input.clone(), column, cells as usize).map_err(|why| failed(at, why))
        };
        let binary = |index: usize| -> Result<Column<ByteArrayType>> {
            Ok(Column::new(COLUMNS[index], metadata, self.places[index], pages(index)?))
        };
        let timestamp = Column::new(COLUMNS[3], metadata, self.places[3], pages(3)?);
        let (key, family, qualifier, value) = (binary(0)?, binary(1)?, binary(2)?, binary(4)?);
        let left = cells;
        self.columns =
            Some(Columns { key, family, qualifier, timestamp, value, cells, left, bytes });
        self.groups += 1;
        Ok(true)
    }

    /// Returns the next cell, with the key of its row.
    fn next_cell(&mut self) -> Result<Option<(Bytes, Cell)>> {
        while self.columns.as_ref().is_none_or(|columns| columns.left == 0) {
            if !self.next_group()? {
                return Ok(None);
            }
        }
        let Some(columns) = &mut self.columns else { return Ok(None) };
        columns.left -= 1;
        self.cells += 1;
        let cell = columns.cell(self.unit, &mut self.family);
        let place = Place::Record(self.cells);
        cell.map(Some).map_err(|reason| Error::Malformed { place, reason })
    }

    /// Returns the cells of one row that follow, as many as a record has.
    fn record(&mut self) -> Result<Option<Row>> {
        let Some((key, first)) =
            self.next.take().map_or_else(|| self.next_cell(), |it| Ok(Some(it)))?
        else {
            return Ok(None);
        };
        let mut cells = RecordCells::new();
        cells.push(first);
        while !cells.is_full()
            && let Some((of, cell)) = self.next_cell()?
        {
            if of != key {
                self.next = Some((of, cell));
                break;
            }
            cells.push(cell);
        }
        Ok(Some(cells.take(&key)))
    }
}

impl<R: ChunkReader + 'static> RowReader for Reader<R> {
    fn next(&mut self) -> Result<Option<Row>> {
        guarded(self.cells, || self.record())
    }

    fn offset(&self) -> u64 {
        let within = self.columns.as_ref().map_or(0, |columns| {
            let read = columns.cells - columns.left;
            let part =
                u128::from(columns.bytes) * u128::from(read) / u128::from(columns.cells.max(1));
            part as u64
        });
        self.bytes.saturating_add(within)
    }
}

impl Columns {
    /// Refuses cells beyond the rows of the group.
    fn check_end(&mut self) -> std::result::Result<(), String> {
        self.key.check_end()?;
        self.family.check_end()?;
        self.qualifier.check_end()?;
        self.timestamp.check_end()?;
        self.value.check_end()
    }

    /// Returns the next cell, with the key of its row, or the reason why it is missing.
    fn cell(
        &mut self,
        unit: Unit,
        last_family: &mut Arc<str>,
    ) -> std::result::Result<(Bytes, Cell), String> {
        let key = self.key.bytes(limits::KEY_BYTES_MAX)?;
        let family = self.family.next()?;
        limits::check("family", family.len(), limits::FAMILY_BYTES_MAX)?;
        if family.data() != last_family.as_bytes() {
            *last_family =
                std::str::from_utf8(family.data()).map_err(|_| "a family is not UTF-8")?.into();
        }
        let cell = Cell {
            family: Arc::clone(last_family),
            qualifier: self.qualifier.bytes(limits::QUALIFIER_BYTES_MAX)?,
            timestamp_micros: unit.micros(self.timestamp.next()?)?,
            value: self.value.bytes(limits::VALUE_BYTES_MAX)?,
        };
        Ok((key, cell))
    }
}

impl<T: DataType> Column<T> {
    /// Returns the column at `place` of a row group.
    fn new<R: ChunkReader + 'static>(
        name: &'static str,
        group: &RowGroupMetaData,
        place: usize,
        pages: Pages<R>,
    ) -> Self {
        let reader = ColumnReaderImpl::new(group.schema_descr().column(place), Box::new(pages));
        Self { name, reader, values: Vec::new(), levels: Vec::new() }
    }

    /// Returns the next value, or the reason why it is missing.
    fn next(&mut self) -> std::result::Result<T::T, String> {
        self.values.clear();
        self.levels.clear();
        let read = self.reader.read_records(1, Some(&mut self.levels), None, &mut self.values);
        let name = self.name;
        let (records, ..) = read.map_err(|why| format!("the column {name} is malformed: {why}"))?;
        let nothing = match records {
            0 => format!("the column {name} has fewer values than the row group has rows"),
            _ => format!("the {name} is null"),
        };
        self.values.pop().ok_or(nothing)
    }

    /// Refuses a value that is left, or gives the reason why this cannot be seen.
    fn check_end(&mut self) -> std::result::Result<(), String> {
        self.values.clear();
        self.levels.clear();
        let read = self.reader.read_records(1, Some(&mut self.levels), None, &mut self.values);
        let name = self.name;
        match read.map_err(|why| format!("the column {name} is malformed: {why}"))? {
            (0, ..) => Ok(()),
            _ => Err(format!("the column {name} has more values than the row group has rows")),
        }
    }
}

impl Column<ByteArrayType> {
    /// Returns a copy of the next value, of at most `max` bytes.
    fn bytes(&mut self, max: usize) -> std::result::Result<Bytes, String> {
        let value: ByteArray = self.next()?;
        limits::check(self.name, value.len(), max)?;
        Ok(Bytes::copy_from_slice(value.data()))
    }
}

impl Unit {
    fn of(column: &ColumnDescriptor) -> Result<Self> {
        match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::Timestamp(stamp)), _) => Ok(match stamp.unit {
                TimeUnit::MILLIS => Self::Millis,
                TimeUnit::MICROS => Self::Micros,
                TimeUnit::NANOS => Self::Nanos,
            }),
            (None, ConvertedType::TIMESTAMP_MILLIS) => Ok(Self::Millis),
            (
                None,
                ConvertedType::NONE | ConvertedType::TIMESTAMP_MICROS | ConvertedType::INT_64,
            ) => Ok(Self::Micros),
            (Some(LogicalType::Integer(_)), _) => Ok(Self::Micros),
            _ => Err(strange()),
        }
    }

    fn micros(self, stamp: i64) -> std::result::Result<i64, String> {
        match self {
            Self::Micros => Ok(stamp),
            Self::Millis => stamp
                .checked_mul(1000)
                .ok_or_else(|| format!("the timestamp of {stamp} milliseconds is too large")),
            Self::Nanos if stamp % 1000 == 0 => Ok(stamp / 1000),
            Self::Nanos => {
                Err(format!("the timestamp of {stamp} nanoseconds is not of whole microseconds"))
            }
        }
    }
}

/// Does `read`, and makes an error of a panic.
fn guarded<T>(cells: u64, read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let reason = "the file is malformed: its decoder gave up".to_owned();
        Err(Error::Malformed { place: Place::Record(cells + 1), reason })
    })
}

/// Converts the error of a read after `cells` cells.
pub(super) fn failed(cells: u64, error: ParquetError) -> Error {
    let malformed = |why: String| Error::Malformed {
        place: Place::Record(cells + 1),
        reason: format!("the file is malformed: {why}"),
    };
    match error {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) if error.kind() != ErrorKind::UnexpectedEof => Error::Io(*error),
            Ok(error) => malformed(error.to_string()),
            Err(error) => malformed(error.to_string()),
        },
        ParquetError::NYI(why) => Error::Unsupported(why),
        error => malformed(error.to_string()),
    }
}

pub(super) fn strange() -> Error {
    let reason = "the Parquet schema is not that of cells: the columns \"key\", \"family\", \
                  \"qualifier\" and \"value\" of bytes, and \"timestamp\" of type INT64";
    Error::Unsupported(reason.to_owned())
}
