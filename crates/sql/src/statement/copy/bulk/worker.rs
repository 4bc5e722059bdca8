//! The part of a load that one thread does at a time: it gathers rows until they make a segment.
//!
//! 1. A segment has at most [`ROWS_MAX`] rows. It is cut before that if its rows have [`SEGMENT_BYTES`].
//! 2. Rows keep their order within a worker.

use super::SEGMENT_BYTES;
use super::errors::Failure;
use super::plan::Reader;
use super::segments::{Segments, Written};
use ::copy::Block;
use columnar::ROWS_MAX;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use relational::{Error, Result};

/// A piece of the data of a load.
pub(super) enum Work {
    /// Whole records, to be read.
    Block(Block),
    /// Some rows, as columns of the whole table.
    Rows(Vec<ArrayRef>),
}

/// Rows that wait for more of them.
enum Gathered {
    Records(Box<Reader>),
    Rows(Chunks),
}

/// Gathers rows, and writes segments of them.
pub(super) struct Worker {
    gathered: Gathered,
    segments: Segments,
}

impl Worker {
    /// Returns a worker that reads records. The reader may have rows already.
    pub(super) fn of_records(reader: Box<Reader>, segments: Segments) -> Self {
        Self { gathered: Gathered::Records(reader), segments }
    }

    /// Returns a worker that takes rows as columns.
    pub(super) fn of_rows(segments: Segments) -> Self {
        Self { gathered: Gathered::Rows(Chunks::default()), segments }
    }

    /// Takes a piece of the data, and returns itself for the next one. Blocks.
    pub(super) fn take(mut self, work: Work) -> Result<Self, Failure> {
        match (work, &mut self.gathered) {
            (Work::Block(block), Gathered::Records(reader)) => {
                read(block, reader, &mut self.segments)?;
            }
            (Work::Rows(columns), Gathered::Rows(chunks)) => {
                chunks.push(columns, &mut self.segments)?;
            }
            _ => return Err(Error::internal("a worker was given data of another kind").into()),
        }
        Ok(self)
    }

    /// Writes the rows that are left, and ends. Blocks until all segments are on disk.
    pub(super) fn finish(mut self) -> Result<Written, Failure> {
        match &mut self.gathered {
            Gathered::Records(reader) => self.segments.add(&reader.take()?)?,
            Gathered::Rows(chunks) => self.segments.add(&chunks.take()?)?,
        }
        Ok(self.segments.finish()?)
    }
}

/// Reads all of a block, and writes each segment that is whole.
fn read(mut block: Block, reader: &mut Reader, segments: &mut Segments) -> Result<(), Failure> {
    while !block.is_empty() {
        reader.read(&mut block, ROWS_MAX)?;
        if reader.is_full() || !block.is_empty() {
            segments.add(&reader.take()?)?;
        }
    }
    Ok(())
}

/// Rows in chunks that are shorter than a segment.
#[derive(Default)]
struct Chunks {
    /// Columns of each chunk, all in the order of the table.
    chunks: Vec<Vec<ArrayRef>>,
    rows: usize,
    bytes: usize,
}

impl Chunks {
    /// Adds a chunk. Writes a segment of the ones before it if it would be too long with this one, or is long enough.
    fn push(&mut self, columns: Vec<ArrayRef>, segments: &mut Segments) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        if self.rows > 0 && (self.rows + rows > ROWS_MAX || self.bytes >= SEGMENT_BYTES) {
            segments.add(&self.take()?)?;
        }
        self.rows += rows;
        self.bytes += columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>();
        self.chunks.push(columns);
        Ok(())
    }

    /// Takes the rows as one array a column; no array without a chunk.
    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let chunks = std::mem::take(self).chunks;
        let width = chunks.first().map_or(0, Vec::len);
        let joined = (0..width).map(|place| {
            let parts = chunks.iter().filter_map(|chunk| chunk.get(place));
            let parts: Vec<&dyn Array> = parts.map(|array| array.as_ref()).collect();
            concat(&parts).map_err(|problem| Error::internal(problem.to_string()))
        });
        joined.collect()
    }
}
