//! Reads SequenceFiles: plain, and compressed by record or by block with zlib or gzip.

use super::cells::Cells;
use super::{KEY_CLASS, MAGIC, SYNC_BYTES, SYNC_ESCAPE, VALUE_CLASS, VERSION};
use crate::error::{Error, Result};
use crate::rows::input::Input;
use crate::rows::limits::{self, BLOCK_BYTES_MAX};
use crate::rows::unpack::{Packing, unpack};
use crate::rows::{Row, RowReader};
use bytes::{Buf, Bytes};
use std::io::Read;
use std::sync::Arc;

/// Bytes of a name in the header, and entries of its metadata.
const NAME_BYTES_MAX: usize = 64 << 10;
const ENTRIES_MAX: i32 = 1000;
/// Codecs by the names of their classes.
const CODECS: [(&str, Packing); 2] = [
    ("org.apache.hadoop.io.compress.DefaultCodec", Packing::Zlib),
    ("org.apache.hadoop.io.compress.GzipCodec", Packing::Gzip),
];

/// Reads rows from a SequenceFile of HBase results.
pub(in crate::rows) struct Reader {
    input: Input,
    layout: Layout,
    sync: [u8; SYNC_BYTES],
    block: Block,
    open: Option<Cells>,
    /// Offset of the record or block that is being read.
    offset: u64,
    family: Arc<str>,
}

#[derive(Clone, Copy)]
enum Layout {
    /// Records are stored as they are.
    Plain,
    /// The value of each record is compressed.
    Records(Packing),
    /// Many records are compressed together.
    Blocks(Packing),
}

/// The records of a block that are not read yet.
#[derive(Default)]
struct Block {
    records: u64,
    key_lens: Bytes,
    keys: Bytes,
    value_lens: Bytes,
    values: Bytes,
    /// Bytes of all values of the block.
    bytes: usize,
}

impl Reader {
    pub(in crate::rows) fn new(file: Box<dyn Read + Send>) -> Result<Self> {
        let mut input = Input::new(file);
        if &input.array::<3>("the magic number")? != MAGIC {
            let reason = "this is no SequenceFile: the magic number differs".to_owned();
            return Err(Error::Unsupported(reason));
        }
        let version = input.byte("the header")?;
        if version != VERSION {
            let reason =
                format!("SequenceFiles of version {version} are not supported, {VERSION} is");
            return Err(Error::Unsupported(reason));
        }
        let classes = (name(&mut input)?, name(&mut input)?);
        if classes.0 != KEY_CLASS.as_bytes() || classes.1 != VALUE_CLASS.as_bytes() {
            let reason = format!(
                "the SequenceFile holds \"{:.100}\" and \"{:.100}\", not {KEY_CLASS} and {VALUE_CLASS}",
                classes.0.escape_ascii(),
                classes.1.escape_ascii()
            );
            return Err(Error::Unsupported(reason));
        }
        let layout = layout(&mut input)?;
        let entries = i32::from_be_bytes(input.array("the metadata")?);
        if !(0..=ENTRIES_MAX).contains(&entries) {
            return Err(Error::at_offset(input.offset(), format!("{entries} entries of metadata")));
        }
        for _ in 0..2 * entries {
            name(&mut input)?;
        }
        let sync = input.array("the sync marker")?;
        let (block, open, offset, family) = (Block::default(), None, 0, "".into());
        Ok(Self { input, layout, sync, block, open, offset, family })
    }

    /// Reads the next record; `false` at the end of the file.
    fn next_record(&mut self) -> Result<bool> {
        let (key, value) = match self.layout {
            Layout::Plain => match self.plain()? {
                Some(record) => record,
                None => return Ok(false),
            },
            Layout::Records(packing) => {
                let Some((key, value)) = self.plain()? else { return Ok(false) };
                let value = unpack(packing, &value, BLOCK_BYTES_MAX);
                (key, value.map_err(|why| Error::at_offset(self.offset, why))?.into())
            }
            Layout::Blocks(packing) => {
                while self.block.records == 0 {
                    if !self.next_block(packing)? {
                        return Ok(false);
                    }
                }
                self.block.record().map_err(|why| Error::at_offset(self.offset, why))?
            }
        };
        let cells = row_key(key).and_then(|key| Cells::of(key, value));
        self.open = Some(cells.map_err(|why| Error::at_offset(self.offset, why))?);
        Ok(true)
    }

    /// Returns key and value of the next record outside of blocks.
    fn plain(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let Some(len) = self.length_or_sync()? else { return Ok(None) };
        let key_len = i32::from_be_bytes(self.input.array("a record")?);
        let (Ok(len), Ok(key_len)) = (u64::try_from(len), u64::try_from(key_len)) else {
            return Err(Error::at_offset(self.offset, "a record of negative length"));
        };
        if key_len > len {
            return Err(Error::at_offset(self.offset, "a key that is longer than its record"));
        }
        let mut record = Bytes::from(self.input.bytes(len, BLOCK_BYTES_MAX, "a record")?);
        let key = record.split_to(key_len as usize);
        Ok(Some((key, record)))
    }

    /// Returns the length of the next record; `None` at the end of the file.
    fn length_or_sync(&mut self) -> Result<Option<i32>> {
        loop {
            self.offset = self.input.offset();
            let Some(first) = self.input.next_byte()? else { return Ok(None) };
            let [second, third, fourth] = self.input.array("a record")?;
            let len = i32::from_be_bytes([first, second, third, fourth]);
            if len != SYNC_ESCAPE {
                return Ok(Some(len));
            }
            self.sync()?;
        }
    }

    fn sync(&mut self) -> Result<()> {
        if self.input.array::<SYNC_BYTES>("a sync marker")? == self.sync {
            return Ok(());
        }
        Err(Error::at_offset(self.offset, "the sync marker differs"))
    }

    /// Reads the next block of records; `false` at the end of the file.
    fn next_block(&mut self, packing: Packing) -> Result<bool> {
        self.offset = self.input.offset();
        let Some(first) = self.input.next_byte()? else { return Ok(false) };
        let [second, third, fourth] = self.input.array("a block")?;
        if i32::from_be_bytes([first, second, third, fourth]) != SYNC_ESCAPE {
            return Err(Error::at_offset(self.offset, "a block without sync marker"));
        }
        self.sync()?;
        let records = vint(&mut self.input)?;
        let mut part = || -> Result<Bytes> {
            let len = vint(&mut self.input)?;
            let data = self.input.bytes(len, BLOCK_BYTES_MAX, "a block")?;
            let data = unpack(packing, &data, BLOCK_BYTES_MAX);
            Ok(data.map_err(|why| Error::at_offset(self.offset, why))?.into())
        };
        let (key_lens, keys, value_lens, values) = (part()?, part()?, part()?, part()?);
        let bytes = values.len();
        self.block = Block { records, key_lens, keys, value_lens, values, bytes };
        Ok(true)
    }
}

impl RowReader for Reader {
    fn next(&mut self) -> Result<Option<Row>> {
        loop {
            if let Some(open) = &mut self.open {
                let row = open.next(&mut self.family);
                let row = row.map_err(|why| Error::at_offset(self.offset, why))?;
                if row.is_some() {
                    return Ok(row);
                }
                self.open = None;
            }
            if !self.next_record()? {
                return Ok(None);
            }
        }
    }

    fn offset(&self) -> u64 {
        self.input.offset()
    }
}

impl Block {
    /// Returns key and value of the next record.
    fn record(&mut self) -> std::result::Result<(Bytes, Bytes), String> {
        self.records -= 1;
        let take = |lens: &mut Bytes, from: &mut Bytes| {
            let len = vint_of(lens).ok_or("a block ends inside a length")?;
            match usize::try_from(len) {
                Ok(len) if len <= from.len() => Ok(from.split_to(len)),
                _ => Err("a block ends inside a record"),
            }
        };
        let key = take(&mut self.key_lens, &mut self.keys)?;
        let value = take(&mut self.value_lens, &mut self.values)?;
        Ok((key, limits::kept(value, self.bytes)))
    }
}

/// Returns the row key in the bytes of an `ImmutableBytesWritable`.
fn row_key(mut key: Bytes) -> std::result::Result<Bytes, String> {
    if key.len() < 4 {
        return Err("a record without row key".to_owned());
    }
    let len = key.get_i32();
    if usize::try_from(len).ok() != Some(key.len()) {
        return Err(format!("a row key of {len} bytes in {}", key.len()));
    }
    limits::check("key", key.len(), limits::KEY_BYTES_MAX)?;
    Ok(Bytes::copy_from_slice(&key))
}

fn layout(input: &mut Input) -> Result<Layout> {
    let [compressed, blocks] = input.array("the header")?;
    if compressed > 1 || blocks > 1 || blocks > compressed {
        return Err(Error::at_offset(input.offset(), "flags of compression that make no sense"));
    }
    if compressed == 0 {
        return Ok(Layout::Plain);
    }
    let codec = name(input)?;
    let known = CODECS.iter().find(|(name, _)| name.as_bytes() == codec);
    match known {
        Some((_, packing)) if blocks == 1 => Ok(Layout::Blocks(*packing)),
        Some((_, packing)) => Ok(Layout::Records(*packing)),
        None => Err(Error::Unsupported(format!(
            "the codec \"{:.100}\" of the SequenceFile is not supported; {} and {} are",
            codec.escape_ascii(),
            CODECS[0].0,
            CODECS[1].0
        ))),
    }
}

/// Returns a string of the header: its length and its bytes.
fn name(input: &mut Input) -> Result<Vec<u8>> {
    let len = vint(input)?;
    input.bytes(len, NAME_BYTES_MAX, "a name in the header")
}

/// Returns an integer in Hadoop's form of variable length, which must not be negative.
fn vint(input: &mut Input) -> Result<u64> {
    let offset = input.offset();
    let first = input.byte("a length")? as i8;
    let negative = || Error::at_offset(offset, "a negative length");
    if first >= -112 {
        return u64::try_from(first).map_err(|_| negative());
    }
    // From -113 to -120 it is followed by one to eight bytes; below, the integer is negative.
    if first < -120 {
        return Err(negative());
    }
    let mut value = 0;
    for _ in 0..-112 - i32::from(first) {
        value = value << 8 | u64::from(input.byte("a length")?);
    }
    Ok(value)
}

/// As [`vint`], from bytes in memory; `None` if they end or the integer is negative.
fn vint_of(bytes: &mut Bytes) -> Option<u64> {
    let first = bytes.try_get_i8().ok()?;
    if first >= -112 {
        return u64::try_from(first).ok();
    }
    let more = usize::try_from(-112 - i32::from(first)).ok().filter(|more| *more <= 8)?;
    if bytes.len() < more {
        return None;
    }
    Some(bytes.split_to(more).iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}
