//! Reading a page.

use super::header::Header;
use crate::encoding::{Input, decode_node, decode_node_rows, get_bits};
use crate::values::{Column, array};
use crate::{ColumnType, EncodingKind, Error, HEADER_BYTES, body_bytes_max};
use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::DataType;

/// A share of rows below which the rows are decoded one by one: one of so many.
const SELECTION_SPARSE: usize = 8;

/// A page whose checksum and header were checked, and whose body is decompressed.
#[derive(Debug, Clone)]
pub struct Page {
    header: Header,
    body: Buffer,
}

impl Page {
    /// Checks a page and decompresses it, which takes at most [`PAGE_BYTES_MAX`](crate::PAGE_BYTES_MAX)
    /// of memory, or [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) and 64 bytes if the page has one row.
    /// A page that is not compressed stays where it is; arrays of its plain values keep all of it in
    /// memory.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] if checksum or header are wrong, [`Error::Version`] for a later format.
    pub fn open(bytes: Buffer) -> Result<Self, Error> {
        let header = Header::decode(&bytes)?;
        let stored = bytes.slice(HEADER_BYTES);
        let body = header.compression.decompress(stored, header.body_bytes)?;
        Ok(Self { header, body })
    }

    /// Returns the number of rows, 1 to [`ROWS_MAX`](crate::ROWS_MAX).
    pub fn rows(&self) -> usize {
        self.header.rows
    }

    /// Returns the number of rows without a value.
    pub fn null_count(&self) -> usize {
        self.header.nulls
    }

    /// Returns the type of the column.
    pub fn column_type(&self) -> ColumnType {
        self.header.column_type
    }

    /// Returns the encodings of the page, a parent before its children.
    pub fn tree(&self) -> Vec<EncodingKind> {
        self.header.tree.iter().map_while(|tag| EncodingKind::from_byte(*tag)).collect()
    }

    /// Returns all values as an array of `data_type`; text as `Utf8View` or `BinaryView`. Besides the array
    /// it takes at most a few times the longest page of memory.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] if the page breaks its format, [`Error::InvalidArgument`] if the page has
    /// values of another type.
    pub fn decode(&self, data_type: &DataType) -> Result<ArrayRef, Error> {
        self.check_type(data_type)?;
        let nulls = self.nulls()?;
        let column = self.column(None)?;
        Ok(array(column, data_type, nulls.filter(|nulls| nulls.null_count() > 0)))
    }

    /// Returns the values of some rows, as [`Self::decode`] does. Few rows of a large page take less
    /// time than all, except where the page is delta encoded.
    ///
    /// # Errors
    ///
    /// As of [`Self::decode`]; and [`Error::InvalidArgument`] if rows do not ascend or are not in the page.
    pub fn decode_rows(&self, data_type: &DataType, rows: &[u32]) -> Result<ArrayRef, Error> {
        self.check_type(data_type)?;
        let ascending = rows.is_sorted_by(|a, b| a < b);
        if !ascending || rows.last().is_some_and(|last| *last as usize >= self.rows()) {
            let count = self.rows();
            return Err(Error::InvalidArgument(format!("rows of a page of {count} ascend")));
        }
        let indexes = rows.iter().map(|row| *row as usize);
        let nulls = self
            .nulls()?
            .map(|nulls| NullBuffer::new(indexes.clone().map(|row| nulls.is_valid(row)).collect()));
        let column = if rows.len() < self.rows() / SELECTION_SPARSE {
            self.column(Some(rows))?
        } else {
            self.column(None)?.gather(indexes)
        };
        Ok(array(column, data_type, nulls.filter(|nulls| nulls.null_count() > 0)))
    }

    fn check_type(&self, data_type: &DataType) -> Result<(), Error> {
        let (asked, column_type) = (ColumnType::of(data_type)?, self.header.column_type);
        if asked == column_type {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!("a page of {column_type:?} has no values of {asked:?}")))
    }

    /// Returns where there are values; `None` if there is one in each row.
    fn nulls(&self) -> Result<Option<NullBuffer>, Error> {
        let Header { rows, nulls, .. } = self.header;
        if nulls == 0 {
            return Ok(None);
        }
        if nulls == rows {
            return Ok(Some(NullBuffer::new(BooleanBuffer::new_unset(rows))));
        }
        let mut input = self.input(0);
        let valid = NullBuffer::new(get_bits(rows, &mut input)?);
        input.align(64)?;
        if valid.null_count() != nulls {
            return Err(Error::corrupt(
                "null bitmap with other nulls than the header",
                HEADER_BYTES,
            ));
        }
        Ok(Some(valid))
    }

    /// Returns all values, or the values of some rows.
    fn column(&self, rows: Option<&[u32]>) -> Result<Column, Error> {
        let width = self.header.column_type.width();
        let mut input = self.input(self.header.bitmap_bytes());
        let column = match rows {
            None => decode_node(width, self.rows(), &mut input)?,
            Some(rows) => decode_node_rows(width, self.rows(), &mut input, rows)?,
        };
        input.finish()?;
        Ok(column)
    }

    fn input(&self, at: usize) -> Input<'_> {
        Input::new(&self.body, at, &self.header.tree, body_bytes_max(self.header.rows))
    }
}
