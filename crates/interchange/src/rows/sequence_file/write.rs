//! Writes SequenceFiles, without compression, as the exports do by default.

use super::{KEY_CLASS, MAGIC, SYNC_BYTES, SYNC_ESCAPE, VALUE_CLASS, VERSION, cells};
use crate::error::{Error, Result};
use crate::rows::{Row, RowWriter, WriteOptions};
use std::io::Write;

/// Bytes after which a sync marker stands before the next record.
const SYNC_EVERY: usize = 100 << 10;

/// Writes rows as a SequenceFile of HBase results.
pub(in crate::rows) struct Writer {
    output: Box<dyn Write + Send>,
    sync: [u8; SYNC_BYTES],
    since_sync: usize,
    record: Vec<u8>,
}

impl Writer {
    pub(in crate::rows) fn new(
        mut output: Box<dyn Write + Send>,
        options: WriteOptions,
    ) -> Result<Self> {
        let mut header = MAGIC.to_vec();
        header.push(VERSION);
        for class in [KEY_CLASS, VALUE_CLASS] {
            // A length below 113 is its own byte.
            header.push(class.len() as u8);
            header.extend_from_slice(class.as_bytes());
        }
        header.extend_from_slice(&[0, 0]); // not compressed, not in blocks
        header.extend_from_slice(&0i32.to_be_bytes()); // no metadata
        header.extend_from_slice(&options.sync);
        output.write_all(&header)?;
        Ok(Self { output, sync: options.sync, since_sync: 0, record: Vec::new() })
    }
}

impl RowWriter for Writer {
    fn write(&mut self, row: &Row) -> Result<()> {
        let record = &mut self.record;
        record.clear();
        record.extend_from_slice(&(row.key.len() as i32).to_be_bytes());
        record.extend_from_slice(&row.key);
        let key_len = record.len() as i32;
        cells::encode(row, record).map_err(Error::Unsupported)?;
        let len = i32::try_from(record.len())
            .map_err(|_| Error::Unsupported("a record of more than 2 GiB".to_owned()))?;
        if self.since_sync >= SYNC_EVERY {
            self.output.write_all(&SYNC_ESCAPE.to_be_bytes())?;
            self.output.write_all(&self.sync)?;
            self.since_sync = 0;
        }
        self.output.write_all(&len.to_be_bytes())?;
        self.output.write_all(&key_len.to_be_bytes())?;
        self.output.write_all(record)?;
        self.since_sync += record.len();
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.output.flush()?)
    }

    fn tear(&mut self) -> Result<()> {
        self.output.write_all(&SYNC_ESCAPE.to_be_bytes())?;
        self.output.write_all(&self.sync.map(|byte| !byte))?;
        Ok(self.output.flush()?)
    }
}
