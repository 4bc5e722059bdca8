//! Writes Avro.

use super::schema::SCHEMA;
use super::{CODEC_KEY, MAGIC, SCHEMA_KEY, SYNC_BYTES};
use crate::error::Result;
use crate::rows::{Compression, Row, RowWriter, WriteOptions};
use std::io::Write;

/// Bytes of records after which a block ends.
const BLOCK_BYTES: usize = 64 << 10;
/// Level of Zstandard, its default.
const ZSTD_LEVEL: i32 = 3;

/// Writes Avro, block by block.
pub(in crate::rows) struct Writer {
    output: Box<dyn Write + Send>,
    compression: Compression,
    sync: [u8; SYNC_BYTES],
    block: Vec<u8>,
    records: i64,
}

impl Writer {
    pub(in crate::rows) fn new(
        mut output: Box<dyn Write + Send>,
        options: WriteOptions,
    ) -> Result<Self> {
        let codec = match options.compression {
            Compression::None => "null",
            Compression::Snappy => "snappy",
            Compression::Zstd => "zstandard",
        };
        let mut header = MAGIC.to_vec();
        put_long(2, &mut header);
        for text in [SCHEMA_KEY, SCHEMA, CODEC_KEY, codec] {
            put_bytes(text.as_bytes(), &mut header);
        }
        put_long(0, &mut header);
        header.extend_from_slice(&options.sync);
        output.write_all(&header)?;
        let (compression, sync) = (options.compression, options.sync);
        Ok(Self { output, compression, sync, block: Vec::new(), records: 0 })
    }

    fn end_block(&mut self) -> Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        let data = compress(self.compression, &self.block)?;
        let mut frame = Vec::with_capacity(20);
        put_long(self.records, &mut frame);
        put_long(data.len() as i64, &mut frame);
        self.output.write_all(&frame)?;
        self.output.write_all(&data)?;
        self.output.write_all(&self.sync)?;
        self.block.clear();
        self.records = 0;
        Ok(())
    }
}

impl RowWriter for Writer {
    fn write(&mut self, row: &Row) -> Result<()> {
        let block = &mut self.block;
        put_bytes(&row.key, block);
        if !row.cells.is_empty() {
            put_long(row.cells.len() as i64, block);
        }
        for cell in &row.cells {
            put_bytes(cell.family.as_bytes(), block);
            put_bytes(&cell.qualifier, block);
            put_long(cell.timestamp_micros, block);
            put_bytes(&cell.value, block);
        }
        put_long(0, block);
        self.records += 1;
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        self.end_block()?;
        Ok(self.output.flush()?)
    }

    fn tear(&mut self) -> Result<()> {
        self.end_block()?;
        // A record whose key has a negative length, and another sync marker than that of the file. Some readers
        // take a block that is cut short for the end.
        let mut block = Vec::new();
        put_long(1, &mut block);
        put_long(1, &mut block);
        put_long(-1, &mut block);
        block.extend_from_slice(&self.sync.map(|byte| !byte));
        self.output.write_all(&block)?;
        Ok(self.output.flush()?)
    }
}

fn compress(compression: Compression, data: &[u8]) -> Result<Vec<u8>> {
    Ok(match compression {
        Compression::None => data.to_vec(),
        Compression::Snappy => {
            let mut out = snap::raw::Encoder::new()
                .compress_vec(data)
                .map_err(|error| std::io::Error::other(error.to_string()))?;
            out.extend_from_slice(&crc32fast::hash(data).to_be_bytes());
            out
        }
        Compression::Zstd => zstd::bulk::compress(data, ZSTD_LEVEL)?,
    })
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

/// Appends an integer as a zigzag varint.
fn put_long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
