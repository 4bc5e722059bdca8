//! Pages of a column, unpacked here, so that no page takes the memory that its header claims.
//!
//! 1. A page has at most [`BLOCK_BYTES_MAX`] bytes, as it lies in the file and when it is unpacked,
//!    whatever its header says.
//! 2. A dictionary has no more values than its bytes can hold, and a page of lengths ([`delta`]) no more
//!    than its header says, and neither more than [`VALUES_MAX`]: the `parquet` crate makes room for all
//!    of them before it reads the first.

use super::delta;
use crate::rows::limits::BLOCK_BYTES_MAX;
use crate::rows::unpack::{Packing, snappy, unpack};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use std::sync::Arc;

/// Values that room is made for at once: 256 MiB of dictionary, 32 MiB of lengths. Writers end a page at
/// 1 MiB, or after 20,000 rows.
const VALUES_MAX: usize = 1 << 23;

/// A file that gives no more at once than a page may have.
pub(super) struct Input<R>(Arc<R>);

impl<R> Input<R> {
    pub(super) fn new(file: R) -> Self {
        Self(Arc::new(file))
    }
}

impl<R> Clone for Input<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Length> Length for Input<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Input<R> {
    type T = R::T;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if length > BLOCK_BYTES_MAX {
            return Err(refused(format!("a page of {length} bytes")));
        }
        self.0.get_bytes(start, length)
    }
}

/// Reads the pages of one column of a row group.
pub(super) struct Pages<R: ChunkReader> {
    packed: SerializedPageReader<Input<R>>,
    compression: Compression,
    /// Fewest bytes that a value takes in a dictionary.
    value_bytes: usize,
    /// Values may be absent: pages begin with levels.
    is_optional: bool,
}

impl<R: ChunkReader> Pages<R> {
    pub(super) fn new(input: Input<R>, column: &ColumnChunkMetaData, rows: usize) -> Result<Self> {
        let compression = column.compression();
        match compression {
            Compression::UNCOMPRESSED
            | Compression::SNAPPY
            | Compression::GZIP(_)
            | Compression::ZSTD(_) => {}
            other => return Err(ParquetError::NYI(format!("pages compressed by {other}"))),
        }
        // A value of bytes has its length in front.
        let value_bytes = if column.column_type() == Type::INT64 { 8 } else { 4 };
        let is_optional = column.column_descr().max_def_level() > 0;
        // The crate unpacks nothing of what is not compressed.
        let builder = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED);
        let packed = SerializedPageReader::new(Arc::new(input), &builder.build()?, rows, None)?;
        Ok(Self { packed, compression, value_bytes, is_optional })
    }

    /// Returns the content of a page of which the first `plain` bytes are never compressed.
    fn unpack(&self, page: Bytes, plain: usize) -> Result<Bytes> {
        let Some((levels, rest)) = page.split_at_checked(plain) else {
            return Err(refused("a page that is shorter than its levels".to_owned()));
        };
        let max = BLOCK_BYTES_MAX.saturating_sub(plain);
        let content = match self.compression {
            Compression::UNCOMPRESSED => return Ok(page),
            _ if rest.is_empty() => return Ok(page),
            Compression::SNAPPY => snappy(rest, max),
            Compression::GZIP(_) => unpack(Packing::Gzip, rest, max),
            _ => unpack(Packing::Zstd, rest, max),
        };
        let content = content.map_err(refused)?;
        Ok(if plain == 0 { content.into() } else { [levels, &content].concat().into() })
    }

    fn checked(&self, mut page: Page) -> Result<Page> {
        match &mut page {
            Page::DictionaryPage { buf, num_values, .. } => {
                *buf = self.unpack(std::mem::take(buf), 0)?;
                let most = (buf.len() / self.value_bytes).min(VALUES_MAX);
                if *num_values as usize > most {
                    let why = format!("a dictionary of {num_values} values in {} bytes", buf.len());
                    return Err(refused(why));
                }
            }
            Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                *buf = self.unpack(std::mem::take(buf), 0)?;
                let levels = match *def_level_encoding {
                    _ if !self.is_optional => 0,
                    Encoding::RLE => run_levels(buf),
                    _ => (*num_values as usize).div_ceil(8),
                };
                check_lengths(*encoding, buf, levels, *num_values)?;
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                is_compressed,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                if *is_compressed {
                    *buf = self.unpack(std::mem::take(buf), levels)?;
                }
                check_lengths(*encoding, buf, levels, *num_values)?;
            }
        }
        Ok(page)
    }
}

/// Returns the length of the levels that a page of version 1 begins with, told in its first four bytes.
fn run_levels(page: &[u8]) -> usize {
    page.first_chunk().map_or(0, |len| 4 + u32::from_le_bytes(*len) as usize)
}

/// Refuses a page of `values` if lengths come before its values, and are more.
fn check_lengths(encoding: Encoding, page: &[u8], levels: usize, values: u32) -> Result<()> {
    let lists = match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => return Ok(()),
    };
    let most = (values as usize).min(VALUES_MAX);
    let mut rest = page.get(levels..).unwrap_or_default();
    for _ in 0..lists {
        let end = delta::end(rest, most).map_err(refused)?;
        rest = rest.get(end..).unwrap_or_default();
    }
    Ok(())
}

fn refused(why: String) -> ParquetError {
    ParquetError::General(why)
}

impl<R: ChunkReader> Iterator for Pages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader> PageReader for Pages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.packed.get_next_page()?.map(|page| self.checked(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.packed.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.packed.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.packed.at_record_boundary()
    }
}
