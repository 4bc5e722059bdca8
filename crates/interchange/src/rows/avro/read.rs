//! Reads Avro.

use super::schema::is_of_rows;
use super::{CODEC_KEY, MAGIC, SCHEMA_KEY, SYNC_BYTES};
use crate::error::{Error, Result};
use crate::rows::input::Input;
use crate::rows::limits::{self, BLOCK_BYTES_MAX, RecordCells};
use crate::rows::unpack::{self, Packing};
use crate::rows::{Cell, Row, RowReader};
use bytes::Bytes;
use std::io::Read;
use std::sync::Arc;

/// Entries of a file's metadata, and bytes of one.
const ENTRIES_MAX: u64 = 1000;
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Reads rows from an Avro object container file.
pub(in crate::rows) struct Reader {
    input: Input,
    codec: Codec,
    sync: [u8; SYNC_BYTES],
    block: Block,
    /// The record that is not read to its end.
    open: Option<Open>,
    family: Arc<str>,
}

#[derive(Clone, Copy)]
enum Codec {
    Null,
    Snappy,
    Packed(Packing),
}

/// A record of which cells are still to come.
struct Open {
    key: Bytes,
    /// Cells of the current part of its array.
    items: u64,
    /// True if the end of its array is read.
    ended: bool,
}

/// The block that is being read.
#[derive(Default)]
struct Block {
    data: Bytes,
    /// Bytes of it that are read.
    at: usize,
    records: u64,
    /// Offset of the block in the file.
    offset: u64,
}

impl Reader {
    pub(in crate::rows) fn new(file: Box<dyn Read + Send>) -> Result<Self> {
        let mut input = Input::new(file);
        if &input.array::<4>("the magic number")? != MAGIC {
            return Err(Error::Unsupported(
                "this is no Avro file: the magic number differs".into(),
            ));
        }
        let (mut schema, mut codec) = (Vec::new(), Vec::new());
        let mut entries = 0;
        loop {
            let count = match long(&mut input, "the metadata")? {
                0 => break,
                count if count < 0 => {
                    long(&mut input, "the metadata")?;
                    count.unsigned_abs()
                }
                count => count as u64,
            };
            entries = count.saturating_add(entries);
            if entries > ENTRIES_MAX {
                let reason = format!("metadata with more than {ENTRIES_MAX} entries");
                return Err(Error::at_offset(input.offset(), reason));
            }
            for _ in 0..count {
                let key = entry(&mut input)?;
                let value = entry(&mut input)?;
                match key.as_slice() {
                    key if key == SCHEMA_KEY.as_bytes() => schema = value,
                    key if key == CODEC_KEY.as_bytes() => codec = value,
                    _ => {}
                }
            }
        }
        let sync = input.array("the sync marker")?;
        if !is_of_rows(&schema) {
            let reason = "the Avro schema is not that of a Bigtable export: records of \"key\" and \
                          \"cells\", an array of \"family\", \"qualifier\", \"timestamp\", \"value\"";
            return Err(Error::Unsupported(reason.to_owned()));
        }
        let (codec, family) = (Codec::of(&codec)?, "".into());
        Ok(Self { input, codec, sync, block: Block::default(), open: None, family })
    }

    /// Reads the next block; `false` at the end of the file.
    fn next_block(&mut self) -> Result<bool> {
        let offset = self.input.offset();
        let Some(first) = self.input.next_byte()? else { return Ok(false) };
        let records = long_after(first, &mut self.input, "the number of records of a block")?;
        let bytes = long(&mut self.input, "the length of a block")?;
        let (Ok(records), Ok(bytes)) = (u64::try_from(records), u64::try_from(bytes)) else {
            return Err(Error::at_offset(offset, "a block with a negative length"));
        };
        let data = self.input.bytes(bytes, BLOCK_BYTES_MAX, "a block")?;
        if self.input.array::<SYNC_BYTES>("a sync marker")? != self.sync {
            return Err(Error::at_offset(offset, "the sync marker after this block differs"));
        }
        let data = self.codec.unpack(data).map_err(|why| Error::at_offset(offset, why))?;
        self.block = Block { data: data.into(), at: 0, records, offset };
        Ok(true)
    }

    /// Returns the next cells of the open record; `None` where it ends.
    fn cells(&mut self, open: &mut Open) -> std::result::Result<Option<Row>, String> {
        let mut cells = RecordCells::new();
        while !cells.is_full() && !open.ended {
            if open.items == 0 {
                open.items = match self.block.long("cells")? {
                    0 => {
                        open.ended = true;
                        break;
                    }
                    count if count < 0 => {
                        self.block.long("cells")?;
                        count.unsigned_abs()
                    }
                    count => count as u64,
                };
            }
            cells.push(self.block.cell(&mut self.family)?);
            open.items -= 1;
        }
        let there = !cells.is_empty();
        Ok(there.then(|| cells.take(&open.key)))
    }

    fn next_in_block(&mut self) -> std::result::Result<Option<Row>, String> {
        loop {
            if let Some(mut open) = self.open.take()
                && let Some(row) = self.cells(&mut open)?
            {
                self.open = Some(open);
                return Ok(Some(row));
            }
            if self.block.records == 0 {
                return match self.block.data.len() - self.block.at {
                    0 => Ok(None),
                    rest => Err(format!("{rest} bytes after the last record of the block")),
                };
            }
            self.block.records -= 1;
            let key = self.block.bytes("key", limits::KEY_BYTES_MAX)?;
            self.open = Some(Open { key, items: 0, ended: false });
        }
    }
}

impl RowReader for Reader {
    fn next(&mut self) -> Result<Option<Row>> {
        loop {
            let row = self.next_in_block().map_err(|why| {
                Error::at_offset(self.block.offset, format!("the block is malformed: {why}"))
            })?;
            if row.is_some() || !self.next_block()? {
                return Ok(row);
            }
        }
    }

    fn offset(&self) -> u64 {
        self.input.offset()
    }
}

impl Codec {
    fn of(name: &[u8]) -> Result<Self> {
        match name {
            b"" | b"null" => Ok(Self::Null),
            b"snappy" => Ok(Self::Snappy),
            b"deflate" => Ok(Self::Packed(Packing::Deflate)),
            b"zstandard" => Ok(Self::Packed(Packing::Zstd)),
            name => Err(Error::Unsupported(format!(
                "the Avro codec \"{:.40}\" is not supported; null, deflate, snappy and zstandard are",
                name.escape_ascii()
            ))),
        }
    }

    fn unpack(self, data: Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        match self {
            Self::Null => Ok(data),
            Self::Packed(packing) => unpack::unpack(packing, &data, BLOCK_BYTES_MAX),
            Self::Snappy => {
                let (data, sum) = data.split_last_chunk::<4>().ok_or("a block without checksum")?;
                let data = unpack::snappy(data, BLOCK_BYTES_MAX)?;
                match crc32fast::hash(&data) == u32::from_be_bytes(*sum) {
                    true => Ok(data),
                    false => Err("the checksum of the block differs".to_owned()),
                }
            }
        }
    }
}

impl Block {
    fn long(&mut self, what: &'static str) -> std::result::Result<i64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.data.get(self.at).ok_or_else(|| format!("it ends inside a {what}"))?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(unzigzag(value));
            }
        }
        Err(format!("an integer of more than ten bytes in a {what}"))
    }

    fn bytes(&mut self, what: &'static str, max: usize) -> std::result::Result<Bytes, String> {
        let len = self.long(what)?;
        let len = usize::try_from(len).map_err(|_| format!("a {what} of negative length"))?;
        limits::check(what, len, max)?;
        if len > self.data.len() - self.at {
            return Err(format!("it ends inside a {what}"));
        }
        self.at += len;
        Ok(limits::kept(self.data.slice(self.at - len..self.at), self.data.len()))
    }

    fn cell(&mut self, family: &mut Arc<str>) -> std::result::Result<Cell, String> {
        let name = self.bytes("family", limits::FAMILY_BYTES_MAX)?;
        if family.as_bytes() != name {
            *family = std::str::from_utf8(&name).map_err(|_| "a family is not UTF-8")?.into();
        }
        Ok(Cell {
            family: Arc::clone(family),
            qualifier: self.bytes("qualifier", limits::QUALIFIER_BYTES_MAX)?,
            timestamp_micros: self.long("timestamp")?,
            value: self.bytes("value", limits::VALUE_BYTES_MAX)?,
        })
    }
}

fn entry(input: &mut Input) -> Result<Vec<u8>> {
    let offset = input.offset();
    let len = u64::try_from(long(input, "the metadata")?);
    let len = len.map_err(|_| Error::at_offset(offset, "metadata of negative length"))?;
    input.bytes(len, ENTRY_BYTES_MAX, "the metadata")
}

fn long(input: &mut Input, what: &'static str) -> Result<i64> {
    let first = input.byte(what)?;
    long_after(first, input, what)
}

/// Returns the integer whose first byte is `first`.
fn long_after(first: u8, input: &mut Input, what: &'static str) -> Result<i64> {
    let (mut byte, mut value) = (first, 0u64);
    for shift in (0..64).step_by(7) {
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(unzigzag(value));
        }
        byte = input.byte(what)?;
    }
    Err(Error::at_offset(input.offset(), format!("an integer of more than ten bytes in {what}")))
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
