//! Reads the footer of a file, and first looks at it: the `parquet` crate makes room for lists, and
//! descends into a schema, as far as the file claims.
//!
//! 1. No list of the footer has more than [`LISTED_MAX`] entries, and the schema no more than
//!    [`ELEMENTS_MAX`] elements, before the crate sees it. So neither memory nor stack is used up.

use super::read::{failed, strange};
use crate::error::{Error, Place, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::ChunkReader;

/// Bytes of a footer. One of 32,767 row groups, the most that the crate takes, has some 30 MiB.
const FOOTER_BYTES_MAX: u64 = 64 << 20;
/// Row groups, pairs of metadata and orders of columns.
const LISTED_MAX: u64 = 1 << 16;
/// Elements of a schema: that of cells has six.
const ELEMENTS_MAX: u64 = 100;
/// Depth of a value that is passed over.
const DEPTH_MAX: u32 = 32;
/// Length of the footer, u32, and the magic.
const TAIL_BYTES: u64 = 8;

/// Types of the compact protocol of Thrift.
const STOP: u8 = 0;
const I32: u8 = 5;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// Fields of the footer and of an element of its schema.
const SCHEMA: i64 = 2;
const NUM_CHILDREN: i64 = 5;

/// Reads the footer of `input`.
pub(super) fn read<R: ChunkReader>(input: &R) -> Result<ParquetMetaData> {
    let bytes = |from, len| input.get_bytes(from, len).map_err(|why| failed(0, why));
    let before = input.len().checked_sub(TAIL_BYTES);
    let before = before.ok_or_else(|| malformed("it is too short for a footer"))?;
    let tail = bytes(before, TAIL_BYTES as usize)?;
    let Some((len, magic)) = tail.split_first_chunk::<4>() else {
        return Err(malformed("it is too short for a footer"));
    };
    match magic {
        b"PAR1" => {}
        b"PARE" => return Err(Error::Unsupported("encrypted Parquet".to_owned())),
        _ => return Err(malformed("it does not end as a Parquet file does")),
    }
    let len = u64::from(u32::from_le_bytes(*len));
    let from = before.checked_sub(len).filter(|_| len <= FOOTER_BYTES_MAX);
    let from = from.ok_or_else(|| malformed(&format!("it claims a footer of {len} bytes")))?;
    let footer = bytes(from, len as usize)?;
    check(&footer)?;
    ParquetMetaDataReader::decode_metadata(&footer).map_err(|why| failed(0, why))
}

fn malformed(why: &str) -> Error {
    let reason = format!("the file is malformed: {why}");
    Error::Malformed { place: Place::Record(1), reason }
}

/// Refuses a footer with a list that is too long.
fn check(footer: &[u8]) -> Result<()> {
    let mut input = Thrift { rest: footer };
    let mut last = 0;
    while let Some((field, kind)) = input.field(&mut last)? {
        match (field, kind) {
            (SCHEMA, LIST) => input.schema()?,
            (_, LIST) => {
                let (count, kind) = input.list()?;
                if count > LISTED_MAX {
                    return Err(malformed(&format!("its footer lists {count} values")));
                }
                input.skip_all(count, kind, DEPTH_MAX)?;
            }
            (_, kind) => input.skip(kind, DEPTH_MAX)?,
        }
    }
    Ok(())
}

/// Reads the compact protocol of Thrift.
struct Thrift<'a> {
    rest: &'a [u8],
}

impl Thrift<'_> {
    fn bytes(&mut self, len: u64) -> Result<&[u8]> {
        let parts = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (bytes, rest) = parts.ok_or_else(|| malformed("its footer ends early"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed("its footer has a number that is too long"))
    }

    fn signed(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Returns the id and the type of the next field of a struct, `last` being the id before.
    fn field(&mut self, last: &mut i64) -> Result<Option<(i64, u8)>> {
        let byte = self.byte()?;
        let (step, kind) = (byte >> 4, byte & 15);
        if kind == STOP {
            return Ok(None);
        }
        *last = if step == 0 { self.signed()? } else { last.wrapping_add(i64::from(step)) };
        Ok(Some((*last, kind)))
    }

    /// Returns the number and the type of the values of a list.
    fn list(&mut self) -> Result<(u64, u8)> {
        let byte = self.byte()?;
        let count = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
        Ok((count, byte & 15))
    }

    fn schema(&mut self) -> Result<()> {
        let (count, kind) = self.list()?;
        if count > ELEMENTS_MAX {
            return Err(strange());
        }
        for _ in 0..count {
            if kind != STRUCT {
                return Err(malformed("its schema is no list of elements"));
            }
            let mut last = 0;
            while let Some((field, kind)) = self.field(&mut last)? {
                match (field, kind) {
                    (NUM_CHILDREN, I32) if self.signed()? > ELEMENTS_MAX as i64 => {
                        return Err(strange());
                    }
                    (NUM_CHILDREN, I32) => {}
                    _ => self.skip(kind, DEPTH_MAX)?,
                }
            }
        }
        Ok(())
    }

    fn skip_all(&mut self, count: u64, kind: u8, depth: u32) -> Result<()> {
        for _ in 0..count {
            match kind {
                // Only in a list a boolean has a byte of its own.
                1 | 2 => drop(self.byte()?),
                kind => self.skip(kind, depth)?,
            }
        }
        Ok(())
    }

    /// Passes over a value of the type `kind`.
    fn skip(&mut self, kind: u8, depth: u32) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or_else(|| malformed("its footer is too deep"))?;
        match kind {
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => drop(self.bytes(8)?),
            BINARY => {
                let len = self.varint()?;
                self.bytes(len)?;
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                self.skip_all(count, kind, depth)?;
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, depth)?;
                }
            }
            _ => return Err(malformed("its footer has a value of an unknown type")),
        }
        Ok(())
    }
}
